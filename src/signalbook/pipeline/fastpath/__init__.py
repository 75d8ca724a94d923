"""The pipeline's fast path: whole columns of events at a time, from messages to rows of tables."""
