"""Copies of registries: made once, kept up to date, and ended where they came from (domain.md D)."""
