"""Comparing two JSON Schemas."""

from signalbook.formats.jsonschema.comparison.compare import compare

__all__ = ["compare"]
