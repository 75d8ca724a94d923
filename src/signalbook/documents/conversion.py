"""Convert documents of other standards to registry documents.

The converter of a standard is imported with the first document of that standard.
"""

from __future__ import annotations

from signalbook.documents.errors import Repair
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.standards import standard_of
from signalbook.values import JSON, JSONObject


def convert(document: JSON, *, source: str, files: LocalFiles | None) -> tuple[JSONObject, tuple[Repair, ...]] | None:
    """Convert a document of another standard to a registry document, with repairs. Return None for a registry document.

    ``source`` is the name of the file. ``files`` are the files that the document may refer to. Raises ``DocumentError``
    with the place (a JSON Pointer) of a mistake.
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
