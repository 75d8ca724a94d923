"""Search for entities by words: the texts of an entity, queries and matches."""
