"""Sources of messages: files, tables and brokers. Each source is registered under the name of an input format."""
