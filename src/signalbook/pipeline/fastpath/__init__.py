"""Turn messages into rows of tables, whole columns at a time. The slow path builds its rows here as well."""
