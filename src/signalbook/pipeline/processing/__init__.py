"""Process a batch of messages: build rows of tables and dead letters, whole columns at a time where possible."""
