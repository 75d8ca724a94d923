"""The pipeline's fast path: it turns messages into rows of tables, whole columns at a time."""
