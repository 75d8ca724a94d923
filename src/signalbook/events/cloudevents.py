"""Outbox records as CloudEvents (xRegistry core/events.md, "Event Definition")."""

from __future__ import annotations

from typing import Final

from signalbook.storage.base import Record
from signalbook.values import JSONObject, format_timestamp

# Which actions each entity has events for (core/events.md "Entity Events").
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "registry": ("updated",),
    "model": ("updated",),
    "modelsource": ("updated",),
    "capabilities": ("updated",),
    "group": ("created", "updated", "deprecation", "deleted"),
    "resource": ("created", "updated", "deprecation", "deleted"),
    "version": ("created", "updated", "deleted"),
}

_WITHOUT_CHANGED: Final = frozenset({"model", "modelsource"})


def event_type(entity: str, action: str) -> str:
    """The CloudEvents ``type`` of a change (R293)."""
    return f"io.xregistry.{entity}.{action}"


def lists_changes(entity: str, action: str) -> bool:
    """Whether such events carry ``data.changed``: never created, deleted, model and modelsource (R298)."""
    return action in ("updated", "deprecation") and entity not in _WITHOUT_CHANGED


def cloudevent(record: Record, *, source: str) -> JSONObject:
    """One committed change as a CloudEvent in the JSON format.

    ``source`` is the absolute URL of the registry root; with ``subject`` appended (less a trailing ``/``) it is the
    entity's URL (R294). ``id`` is the outbox position: unique for the registry's life and growing.
    """
    change = record.change
    entity, action = change["entity"], change["action"]
    event: JSONObject = {
        "specversion": "1.0",
        "id": str(record.position),
        "type": event_type(entity, action),
        "source": source,
        "subject": change["xid"],
        "time": format_timestamp(record.time),
        "xregcorrelationid": record.correlationid,
    }
    if lists_changes(entity, action):
        event["datacontenttype"] = "application/json"
        event["data"] = {"changed": list(change["changed"])}
    return event
