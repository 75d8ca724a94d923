"""XML Schema."""

from signalbook.formats.xsd.format import FORMAT, XsdFormat, XsdSchema

__all__ = ["FORMAT", "XsdFormat", "XsdSchema"]
