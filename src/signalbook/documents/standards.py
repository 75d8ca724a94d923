"""Recognise the standard of a document whose standard can be converted."""

from __future__ import annotations

from typing import Literal

from signalbook.values import JSON

Standard = Literal["AsyncAPI", "OpenAPI", "ODCS", "CloudEvents discovery"]


def standard_of(document: JSON) -> Standard | None:
    """Return the standard that a document states, or None for a registry document."""
    services = document.get("services") if isinstance(document, dict) else document
    if isinstance(services, list) and services and all(_is_service(service) for service in services):
        return "CloudEvents discovery"
    if not isinstance(document, dict) or "registryid" in document:
        return None
    if "asyncapi" in document:
        return "AsyncAPI"
    if document.keys() & {"openapi", "swagger"} and "info" in document:
        return "OpenAPI"
    if document.get("kind") == "DataContract" and "apiVersion" in document:
        return "ODCS"
    return "CloudEvents discovery" if _is_service(document) else None


def is_whole(document: JSON) -> bool:
    """Return True if a document of another standard is imported itself even if other documents refer to it.

    An AsyncAPI document without channels is not: it only contains parts for other documents.
    """
    standard = standard_of(document)
    if standard == "AsyncAPI" and isinstance(document, dict):
        return bool(document.get("channels"))
    return standard is not None


def _is_service(document: JSON) -> bool:
    if not isinstance(document, dict) or not document.keys() & {"events", "types"}:
        return False
    return isinstance(document.get("specversions"), list) and "subscriptionurl" in document
