"""Formats of the tables that messages land in."""
