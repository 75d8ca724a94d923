"""Where messages come from: files, tables and brokers, each as a source registered by the name of an input format."""
