"""What a door may ask the engine to do. A door translates its request into one of these; nothing else writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from signalbook.model import Included
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid


class Method(StrEnum):
    """The four kinds of write (core/spec.md "Design: Protocol Bindings"): replace, merge, add, delete."""

    PUT = "PUT"
    PATCH = "PATCH"
    POST = "POST"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Request flags of a write (core/spec.md "Request Flags").

    ``epoch`` is checked on DELETE of one entity (R179); ``ignore`` holds lower-case names out of the capability
    ``ignores`` (``capabilities.resolve_ignore`` makes it of what a client sent); ``setdefaultversionid`` is the flag's
    value as sent, ``"null"`` and ``"request"`` included, None when the flag is absent (R208-R211).
    """

    epoch: int | None = None
    ignore: frozenset[str] = frozenset()
    setdefaultversionid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBody:
    """A write in document form (core/http.md "Serializing Resource Domain-Specific Documents").

    ``content`` replaces the stored bytes, even when empty; ``contenttype`` None erases the stored one (R160).
    ``attributes`` are the decoded ``xRegistry-`` headers with PATCH semantics: a value of None deletes (R162), a map is
    replaced whole (R163). A non-null ``<RESOURCE>url`` takes the place of the content.
    """

    content: bytes = b""
    contenttype: str | None = None
    attributes: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One write of entities. ``target`` is an entity, a meta or a collection.

    ``body`` is the decoded metadata document, None when none was sent (R148, R169); ``document`` is set instead for a
    write in document form of a Resource or Version. ``base_url`` is the URL of the registry's root as the client knows
    it, so that schemas may refer to others by URL. ``included`` is what a model in the body includes from elsewhere.
    """

    method: Method
    target: Xid
    body: JSON = None
    document: DocumentBody | None = None
    flags: Flags = field(default_factory=Flags)
    base_url: str = ""
    included: Included = field(default_factory=Included)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigCommand:
    """One write of ``capabilities`` (PUT, PATCH) or ``modelsource`` (PUT, with what it includes from elsewhere)."""

    name: str
    method: Method
    body: JSON = None
    included: Included = field(default_factory=Included)


METHODS: Final[dict[Kind, tuple[Method, ...]]] = {
    Kind.REGISTRY: (Method.PUT, Method.PATCH, Method.POST),
    Kind.GROUPS: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.GROUP: (Method.PUT, Method.PATCH, Method.POST, Method.DELETE),
    Kind.RESOURCES: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.RESOURCE: (Method.PUT, Method.PATCH, Method.POST, Method.DELETE),
    Kind.META: (Method.PUT, Method.PATCH),
    Kind.VERSIONS: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.VERSION: (Method.PUT, Method.PATCH, Method.DELETE),
}
"""Which writes each kind of target takes (core/http.md method matrix); anything else is ``action_not_supported``."""
