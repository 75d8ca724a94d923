"""Process a batch of messages as tasks: build rows and dead letters, and write them to staged files."""
