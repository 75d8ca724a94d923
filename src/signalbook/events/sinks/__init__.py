"""Send events to sinks: one kind of sink for each protocol, registered by name."""
