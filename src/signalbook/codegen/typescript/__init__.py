"""TypeScript made of definitions."""
