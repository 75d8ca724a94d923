"""Payloads: content types and encodings, and reading and writing by a schema."""
