"""JSON Structure."""

from signalbook.formats.jsonstructure.format import FORMAT, JsonStructure, JsonStructureFormat

__all__ = ["FORMAT", "JsonStructure", "JsonStructureFormat"]
