"""Documents of other standards as documents of a registry: which standard one is of, and what is made of it.

What converts one is imported with the first document of its standard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from signalbook.documents.errors import Repair
from signalbook.values import JSON, JSONObject

Converted = tuple[JSONObject, tuple[Repair, ...]]


def is_of_another_standard(document: JSON) -> bool:
    """Whether a document says that it is of a standard whose documents are converted."""
    return _standard(document) is not None


def convert(document: JSON, *, source: str, files: bool) -> Converted | None:
    """What a registry's document says of it, and what was lost or chosen; None for a document of a registry.

    ``source`` is the file's name; with ``files`` it may name files beside it. Raises ``DocumentError`` with the place
    (a JSON Pointer) of what is wrong.
    """
    standard = _standard(document)
    return None if standard is None else standard(document, source=source, files=files)


def _asyncapi(document: JSONObject, *, source: str, files: bool) -> Converted:
    from signalbook.documents.asyncapi.definitions import convert_asyncapi

    return convert_asyncapi(document, source=source, files=files)


def _openapi(document: JSONObject, *, source: str, **_: bool) -> Converted:
    from signalbook.documents.openapi import convert_openapi

    return convert_openapi(document, source=source)


def _data_contract(document: JSONObject, *, source: str, **_: bool) -> Converted:
    from signalbook.documents.datacontract import convert_contract

    return convert_contract(document, source=source)


def _discovery(document: JSON, *, source: str, **_: bool) -> Converted:
    from signalbook.documents.discovery import convert_discovery

    return convert_discovery(document, source=source)


def _is_service(document: JSON) -> bool:
    if not isinstance(document, dict) or not document.keys() & {"events", "types"}:
        return False
    return isinstance(document.get("specversions"), list) and "subscriptionurl" in document


_STANDARDS: Final[tuple[tuple[Callable[[JSONObject], bool], Callable[..., Converted]], ...]] = (
    (lambda document: "asyncapi" in document, _asyncapi),
    (lambda document: bool(document.keys() & {"openapi", "swagger"}) and "info" in document, _openapi),
    (lambda document: document.get("kind") == "DataContract" and "apiVersion" in document, _data_contract),
    (_is_service, _discovery),
)


def _standard(document: JSON) -> Callable[..., Converted] | None:
    listed = document.get("services") if isinstance(document, dict) else document
    if isinstance(listed, list) and listed and all(_is_service(each) for each in listed):
        return _discovery
    if not isinstance(document, dict) or "registryid" in document:
        return None
    return next((converter for is_one, converter in _STANDARDS if is_one(document)), None)
