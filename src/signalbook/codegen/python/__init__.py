"""Python packages made of definitions."""
