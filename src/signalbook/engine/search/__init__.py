"""Finding entities by words: what text an entity has, what a query means, and what of it matched."""
