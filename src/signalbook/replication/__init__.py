"""Copies of registries: made once, kept up to date, and ended where they came from (section D of docs/requirements)."""
