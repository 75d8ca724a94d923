"""A client of the xRegistry API: entities as JSON, documents as bytes, errors as exceptions (core/http.md).

It speaks to any xRegistry 1.0-rc4 server.
"""

from signalbook.client.client import Client
from signalbook.client.responses import BadResponse, ClientError, Document, Events, NotFound, Refused, Unreachable
from signalbook.client.transport import ReadFlags

__all__ = [
    "BadResponse",
    "Client",
    "ClientError",
    "Document",
    "Events",
    "NotFound",
    "ReadFlags",
    "Refused",
    "Unreachable",
]
