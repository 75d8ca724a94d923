"""Message definition groups, here and in xRegistry (domain.md B-1, C-2, J-11, J-16)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.cncf.messagecatalog import originals
from signalbook.cncf.messagecatalog.common import SPECVERSION, labelled, properties, tagged
from signalbook.cncf.messagecatalog.formats import ALIASES, format_of, group_attributes
from signalbook.cncf.messagecatalog.ids import is_segment
from signalbook.cncf.paths import draft_id
from signalbook.values import JSON, Finding, JSONObject

DEFINITIONS: Final = ("definitions", "messagedefinitions")
_TEXTS: Final = ("description", "documentation", "tags")
_KNOWN: Final = frozenset(
    {"id", "format", "specversion", *_TEXTS, "groupProperties", "createdtimeutc", "updatedtimeutc", *DEFINITIONS}
)
FILTERABLE: Final = ("id", "format", *_TEXTS, "createdtimeutc", "updatedtimeutc")
"""What groups can be filtered by (C-27)."""


def faults(document: JSONObject) -> Iterator[Finding]:
    """What is wrong with a group, but for its definitions."""
    if "id" in document and not is_segment(document["id"]):
        yield _fault("id", "it needs to be a segment of a path without colon (RFC3986 segment-nz-nc)")
    if not (isinstance(document.get("format"), str) and document["format"]):
        yield _fault("format", "a group needs one: CloudEvents, AMQP, MQTT, NATS, or another name")
    yield from specversion_faults(document)
    for name in _TEXTS:
        if not isinstance(document.get(name), str | None):
            yield _fault(name, "it needs to be a string")
    values = document.get("groupProperties") or {}
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        yield _fault("groupProperties", "it needs to be an object of strings")


def specversion_faults(document: JSONObject) -> Iterator[Finding]:
    """A document that says which version of the draft it is of is of this one (C-2, C-3)."""
    stated = document.get("specversion")
    if stated is not None and stated != SPECVERSION:
        yield _fault("specversion", f'it needs to be "{SPECVERSION}"')


def stated_format(document: Mapping[str, JSON]) -> str:
    """The format a group states, spelt right (B-3)."""
    stated = str(document.get("format"))
    return ALIASES.get(stated, stated)


def first_attributes(document: JSONObject) -> JSONObject:
    """What a group of the first draft says, as the body of a PATCH: what it has no words for stays."""
    return {**_format(document), "description": document.get("description")}


def attributes(document: JSONObject, before: Mapping[str, JSON]) -> JSONObject:
    """What a group of 0.1 says, as the body of a PATCH; ``before`` are the attributes of the group as it is."""
    text = document.get("documentation")
    given = document.get("groupProperties")
    labels = before.get("labels") if given is None else given
    own = text is not None and text == before.get("documentation")
    body: JSONObject = {
        **_format(document),
        "description": document.get("description"),
        "documentationtext": None if own else text,
        "labels": labelled(labels, document.get("tags")) or None,
    }
    more = {name: value for name, value in document.items() if name not in _KNOWN and value is not None}
    return originals.keep_more(body, more)


def first_render(group: JSONObject) -> JSONObject:
    """A group as the first draft has it."""
    found: JSONObject = {"id": draft_id(group["messagegroupid"]), "format": format_of(group)}
    if group.get("description") is not None:
        found["description"] = group["description"]
    return found | _times(group)


def render(group: JSONObject) -> JSONObject:
    """A group as 0.1 has it, without its definitions."""
    found: JSONObject = {
        "id": draft_id(group["messagegroupid"]),
        "specversion": SPECVERSION,
        "format": format_of(group),
    }
    texts = {
        "description": group.get("description"),
        "documentation": group.get("documentationtext") or group.get("documentation"),
        "tags": tagged(group.get("labels")),
        "groupProperties": properties(group.get("labels")) or None,
    }
    found |= {name: value for name, value in texts.items() if value is not None}
    return {**found, **originals.more(group), **_times(group)}


def _format(document: JSONObject) -> JSONObject:
    return group_attributes(stated_format(document))


def _times(group: JSONObject) -> JSONObject:
    return {"createdtimeutc": group["createdat"], "updatedtimeutc": group["modifiedat"]}


def _fault(path: str, message: str) -> Finding:
    return Finding(path=path, rule="group", message=message)
