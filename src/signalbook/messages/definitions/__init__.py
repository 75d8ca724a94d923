"""Message definitions: canonical form, inheritance, declared properties, lint, schemas; endpoints."""
