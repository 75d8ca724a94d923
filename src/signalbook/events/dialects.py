"""Convert committed changes to CloudEvents in the dialect of each API.

The ``source`` of an event is the root of its API. xRegistry's events say what changed (core/events.md, "Event
Definition"). Events of the CNCF drafts say only that an entity exists or was deleted (D-18 to D-22).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.ids import MOUNTS, message_path, schema_path
from signalbook.engine.write.entities import VALIDATION
from signalbook.storage.outbox import Record
from signalbook.values import JSONObject, format_timestamp
from signalbook.xid import Xid

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
    """Return the CloudEvents ``type`` for an ``action`` on a kind of ``entity`` (R293)."""
    return f"io.xregistry.{entity}.{action}"


def lists_changes(entity: str, action: str) -> bool:
    """Return True if such events contain ``data.changed``: never created, deleted, model and modelsource (R298)."""
    return action in ("updated", "deprecation") and entity not in _WITHOUT_CHANGED


def cloudevent(record: Record, *, source: str) -> JSONObject:
    """Return a committed change as a CloudEvent in the JSON format.

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


SCHEMA_REGISTRY: Final = "io.cloudevents.schemaregistry"
MESSAGE_CATALOG: Final = "io.cloudevents.messagecatalog"

_STAMPS: Final = frozenset({"epoch", "modifiedat", "meta.epoch", "meta.modifiedat"})
_INTERNAL: Final = frozenset({"ancestorid", *VALIDATION})
"""Attributes that no draft shows, and that may change when another version is deleted."""
_POINTERS: Final = frozenset({"meta.defaultversionid", "meta.defaultversionsticky"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDialect:
    """The form of events of one API. ``source`` is the ``source`` attribute of its events, an absolute URL."""

    source: str
    _translate: Callable[[Record, str], tuple[JSONObject, ...]]

    def events(self, record: Record) -> tuple[JSONObject, ...]:
        """Return the CloudEvents (JSON format) for ``record``: none if this API does not show the changed entity.

        Their ``id`` is the record's position, so it is the same each time.
        """
        return self._translate(record, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DraftDialect:
    """The events of one CNCF draft.

    The types of its events begin with ``types``. ``path`` returns the API path for an xid, or None if the draft has no
    path for it. All xids with a path begin with ``within``.
    """

    types: str
    within: str
    path: Callable[[Xid], str | None]

    def events(self, record: Record, source: str) -> tuple[JSONObject, ...]:
        """Return an event without data (D-21) for each object that was created, changed or deleted (D-18, D-19)."""
        xid: str = record.change["xid"]
        if not xid.startswith(self.within) or not _is_reported(record.change):
            return ()
        path = self.path(Xid(tuple(xid[1:].split("/"))))  # the xid was checked when the change was written
        if path is None:
            return ()
        return (
            {
                "specversion": "1.0",
                "id": str(record.position),
                "type": draft_type(self.types, "deleted" if record.change["action"] == "deleted" else "updated"),
                "source": source,
                "subject": path,
                # Exactly as in the object itself, where a client of xRegistry may have set it (D-18).
                "time": record.change.get("time") or format_timestamp(record.time),
            },
        )


_SCHEMA_DIALECT: Final = _DraftDialect(types=SCHEMA_REGISTRY, within="/schemagroups/", path=schema_path)
_MESSAGE_DIALECT: Final = _DraftDialect(types=MESSAGE_CATALOG, within="/messagegroups/", path=message_path)

API_PATHS: Final = {
    **dict.fromkeys(MOUNTS["schemagroups"], _SCHEMA_DIALECT),
    **dict.fromkeys(MOUNTS["messagegroups"], _MESSAGE_DIALECT),
}
"""The paths of the APIs of the CNCF drafts below the registry root, and their dialects."""


def of_source(source: str, root: str) -> EventDialect | None:
    """Return the dialect of a subscription's ``source``, or None if there is no API at that URL (D-25, J-21).

    An empty ``source`` means the root. ``root`` is the registry's URL. Trailing slashes of both are ignored.
    """
    root = root.rstrip("/")
    path = source.rstrip("/").removeprefix(root) if source else ""
    if not path:
        return EventDialect(source=f"{root}/", _translate=_translate_record)
    draft = API_PATHS.get(path)
    return None if draft is None else EventDialect(source=root + path, _translate=draft.events)


def draft_type(types: str, action: str) -> str:
    """Return the CloudEvents ``type`` of a draft's event. ``action`` is ``updated`` or ``deleted``."""
    return f"{types}.{action}.v1"


def _translate_record(record: Record, source: str) -> tuple[JSONObject, ...]:
    return (cloudevent(record, source=source),)


def _is_reported(change: JSONObject) -> bool:
    """Return True if a change concerns the object itself.

    The deletion of an owner covers its objects (D-19). An owner that only gained or lost members, or got another
    default version, is covered by the events of these: a new version is one event, not two (D-18).
    """
    if change["action"] != "updated":
        return change["action"] == "created" or (change["action"] == "deleted" and not change.get("cascaded"))
    names = set(change["changed"]) - _STAMPS
    if names and names <= _INTERNAL:
        return False
    collections = {name for name in names if f"{name}count" in names}
    if not collections:
        return True
    if "versions" in collections:
        names = {name for name in names if name.startswith("meta.")} - _POINTERS
    return bool(names - collections - {f"{name}count" for name in collections})
