"""Versions of subjects, as clients see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from signalbook.cncf.ids import LAST_VERSION
from signalbook.confluent.errors import invalid_version
from signalbook.confluent.naming import Subject
from signalbook.confluent.schemas import compute_content_key, guid, read_stored_references, render_text, schema_type
from signalbook.values import JSONObject, digest
from signalbook.xid import Xid

_DIGITS: Final = 10
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """A version of a subject in a ``schema``. ``xid`` is the xid of the Version, or None if the version is
    soft-deleted."""

    subject: Subject
    schema: Xid
    version: int
    id: int
    attributes: JSONObject
    document: bytes
    written: datetime
    """The time at which the version was registered or soft-deleted."""
    xid: Xid | None = None

    @property
    def place(self) -> Xid:
        """The xid of the Version; for a soft-deleted version, its former xid."""
        return self.schema / "versions" / str(self.version)

    @property
    def type(self) -> str:
        return schema_type(self.attributes) or ""

    @property
    def format(self) -> str:
        """The format of the version in xRegistry."""
        return str(self.attributes.get("format", ""))

    @property
    def text(self) -> str:
        return render_text(self.document, self.format)

    @property
    def guid(self) -> str:
        """The UUID of its content."""
        return guid(compute_content_key(self.attributes, digest(self.document)) or digest(self.document))

    def content(self) -> JSONObject:
        """Return the members that belong to the id, as clients expect them."""
        members: JSONObject = {"schemaType": self.type, "guid": self.guid}
        references = [reference.to_json() for reference in read_stored_references(self.attributes)]
        if references:
            members["references"] = references
        for name, wire_name in (("metadata", "metadata"), ("ruleset", "ruleSet")):
            if self.attributes.get(name):
                members[wire_name] = self.attributes[name]
        return {**members, "schema": self.text, "ts": int(self.written.timestamp() * _MILLISECONDS)}

    def to_json(self) -> JSONObject:
        """Return the JSON that clients expect."""
        members: JSONObject = {"subject": str(self.subject), "version": self.version, "id": self.id, **self.content()}
        return members if self.xid is not None else {**members, "deleted": True}


def parse_version(text: str) -> int | None:
    """Return the number of a version, or None for the latest version. Raises 42202."""
    if text in ("latest", "-1"):
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or not 0 < int(text) <= LAST_VERSION:
        raise invalid_version(text)
    return int(text)
