"""Java made of definitions."""
