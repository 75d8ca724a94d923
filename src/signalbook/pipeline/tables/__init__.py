"""Tables of one output folder: Parquet, Delta, Iceberg, and the columns they have in common."""
