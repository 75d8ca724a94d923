"""The comparison of two JSON Schemas."""

from signalbook.formats.jsonschema.comparison.prover import compare

__all__ = ["compare"]
