"""Reading: entities and collections as the JSON that clients receive."""
