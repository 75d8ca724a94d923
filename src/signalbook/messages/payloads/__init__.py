"""Decode and encode payloads: content types, content encodings, wire prefixes and schemas."""
