"""Read the versions of subjects that registries with Confluent's API return."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeGuard

from signalbook.client.responses import BadResponse
from signalbook.confluent.schemas import Reference
from signalbook.values import JSON, JSONError, JSONObject, canonical_json, digest, parse_json

_MAX_JSON_DEPTH: Final = 128
_HIGHEST: Final = 2**31
_CONTENT: Final = ("schema", "schemaType", "references", "metadata", "ruleSet")
_OF_REFERENCES: Final = {"name": str, "subject": str, "version": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """A version of a subject.

    ``body`` is the body of the request that registers the schema. ``deleted`` is True for a soft-deleted version, and
    None if unknown. ``guid`` is ``""`` if the registry has no GUIDs.
    """

    subject: str
    version: int
    id: int
    body: JSONObject
    deleted: bool | None = None
    guid: str = ""

    @classmethod
    def from_json(cls, value: JSON, deleted: bool | None) -> Self:
        """Read a version from a registry's answer. Raises ``BadResponse``.

        ``deleted`` is used unless the answer marks the version as deleted.
        """
        members: dict[str, Any] = value if isinstance(value, dict) else {}
        subject, version, schemaid = members.get("subject"), members.get("version"), members.get("id")
        if not isinstance(subject, str) or not subject or not isinstance(members.get("schema"), str):
            raise BadResponse("a version without a subject or a schema is listed")
        if not is_number(version) or not is_number(schemaid):
            raise BadResponse(f"{subject}: a version without its number or id is listed")
        marked = True if members.get("deleted") is True else deleted
        body: JSONObject = {name: members[name] for name in _CONTENT if members.get(name)}
        stated: JSON = body.get("references", [])
        if not isinstance(stated, list) or not all(map(_is_reference, stated)):
            raise BadResponse(f"{subject} version {version}: its references are no list of names, subjects and numbers")
        guid = str(members.get("guid") or "")
        return cls(subject=subject, version=version, id=schemaid, body=body, deleted=marked, guid=guid)

    @property
    def text(self) -> str:
        return str(self.body["schema"])

    @property
    def type(self) -> str:
        """The type of the schema: ``AVRO``, ``JSON`` or ``PROTOBUF``."""
        return str(self.body.get("schemaType", "AVRO"))

    @property
    def references(self) -> tuple[Reference, ...]:
        """The schemas of other subjects that this schema refers to."""
        return tuple(
            Reference(name=reference["name"], subject=reference["subject"], version=reference["version"])
            for reference in self.body.get("references", ())
        )

    @property
    def content(self) -> bytes:
        """A digest of the schema, its type, references, metadata and rules. Equal digests mean equal content."""
        text: JSON = self.text.strip()
        if self.type != "PROTOBUF":
            # Registries format the same JSON in different ways.
            with suppress(JSONError):
                text = parse_json(self.text, max_depth=_MAX_JSON_DEPTH)
        rest = [self.body.get(name) for name in ("references", "metadata", "ruleSet")]
        return bytes.fromhex(digest(canonical_json([self.type, text, *rest])))[:16]


def is_number(value: JSON) -> TypeGuard[int]:
    """Return True if ``value`` can be the number of a version or the id of a schema."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _HIGHEST


def _is_reference(value: JSON) -> bool:
    members = value if isinstance(value, dict) else {}
    return all(isinstance(members.get(name), kind) for name, kind in _OF_REFERENCES.items())
