"""Where events go: one kind of sink for each protocol, registered by its name."""
