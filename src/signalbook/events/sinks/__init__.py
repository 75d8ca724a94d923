"""Where events go: one kind of sink for each protocol, registered like formats."""
