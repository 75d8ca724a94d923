"""Go made of definitions."""
