"""What governs a registry beside its entities: its model and its capabilities."""
