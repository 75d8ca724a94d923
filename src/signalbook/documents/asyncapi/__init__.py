"""AsyncAPI documents, 2.0 to 2.6 and 3.0, as definitions: messages, their schemas, and endpoints."""

from signalbook.documents.asyncapi.definitions import convert
from signalbook.documents.asyncapi.reading import is_asyncapi

__all__ = ["convert", "is_asyncapi"]
