"""The configuration of a registry: its model and its capabilities."""
