"""XML Schema."""

from signalbook.formats.xsd.format import FORMAT, XsdFormat

__all__ = ["FORMAT", "XsdFormat"]
