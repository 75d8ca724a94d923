"""Documents of other standards as documents of a registry.

What converts one is imported with the first document of its standard.
"""

from __future__ import annotations

from signalbook.documents.errors import Repair
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.standards import standard_of
from signalbook.values import JSON, JSONObject


def convert(document: JSON, *, source: str, files: LocalFiles | None) -> tuple[JSONObject, tuple[Repair, ...]] | None:
    """Convert a document of another standard to a registry's, with repairs; None for a registry's document.

    ``source`` is the file's name; ``files`` are those that it may refer to. Raises ``DocumentError`` with the place (a
    JSON Pointer) of the mistake.
    """
    match standard_of(document):
        case "AsyncAPI":
            from signalbook.documents.asyncapi.conversion import convert_asyncapi

            return convert_asyncapi(document, source=source, files=files)
        case "OpenAPI":
            from signalbook.documents.openapi import convert_openapi

            return convert_openapi(document, source=source, files=files)
        case "ODCS":
            from signalbook.documents.datacontract import convert_contract

            return convert_contract(document, source=source)
        case "CloudEvents discovery":
            from signalbook.documents.discovery import convert_discovery

            return convert_discovery(document, source=source)
        case None:
            return None
