"""A request to the Confluent-compatible API: its path, context, query and body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from signalbook.access.decisions import Access
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.kernel.requests import parse_json_body
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import ConfluentError, invalid_subject, unprocessable
from signalbook.confluent.naming import DEFAULT_CONTEXT, Subject, parse_context
from signalbook.confluent.schemas import Layout, SchemaBody, read_schema
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.values import JSON, JSONObject, dump_json

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_CONTEXTS: Final = "contexts"
_MOST_ROWS: Final = 1_000_000_000
_LENIENT: Final = "confluent-accept-unknown-properties"
_BAD_REQUEST: Final = 400
_MAX_NUMBER_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class ConfluentPath:
    """A path below the mount: its decoded ``words``, and the context at its beginning, if it has one."""

    words: tuple[str, ...]
    context: str | None = None


def parse_path(text: str, default_group: str = "") -> ConfluentPath:
    """Parse the percent-encoded path ``text``. An encoded slash in a name does not separate names.

    Raises 42208 for names that are not valid text, or that no database can store.
    """
    words = tuple(_decode_part(part) for part in text.strip("/").split("/")) if text.strip("/") else ()
    if len(words) > 2 and words[0] == _CONTEXTS:
        return ConfluentPath(words[2:], parse_context(words[1], default_group))
    return ConfluentPath(words)


def _decode_part(part: str) -> str:
    content = unquote_to_bytes(part)
    text = content.decode("utf-8", "replace")
    # If invalid bytes were replaced, different names would become equal.
    if "\0" in text or text.encode("utf-8") != content:
        raise invalid_subject(text)
    return text


@dataclass(frozen=True, kw_only=True)
class ConfluentRequest:
    """A request to this API. ``subject`` is the path in errors of the kernel; ``names`` are the names in the path, in
    order."""

    method: str
    subject: str
    path: ConfluentPath
    names: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    raw_headers: RequestHeaders = field(default_factory=RequestHeaders)
    body: bytes = b""
    root: str = ""
    settings: Settings = field(default_factory=Settings)
    access: Access
    sound: set[str] = field(default_factory=set)
    """The formats in which the schema was found valid, so that the write need not check it again. Empty for a schema
    with references."""
    _schemas: dict[Layout, SchemaBody] = field(default_factory=dict)

    @property
    def context(self) -> str:
        """The context of names that state no context."""
        return self.path.context or DEFAULT_CONTEXT

    def flag(self, name: str) -> bool:
        """Return True if a parameter is true."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a whole number, or ``default``. Raises 422."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > _MAX_NUMBER_DIGITS:
            raise unprocessable(f"the parameter {name} has to be a number, not '{text[:40]}'")
        return int(text)

    def page(self, limit: int = -1) -> tuple[int, int]:
        """Return the begin and end of a page, from the parameters ``offset`` and ``limit`` of the query.

        The argument ``limit`` is used if the query has none, or one below 1. If the argument is -1, there is no limit.
        """
        first, count = max(self.number("offset", 0), 0), self.number("limit", limit)
        count = count if count > 0 else limit
        return first, first + count if count >= 0 else _MOST_ROWS

    def prepare(self) -> None:
        """Decode the body."""
        if self.body:
            _ = self._decoded

    @cached_property
    def _decoded(self) -> JSON | RegistryError:
        settings = self.settings
        try:
            return parse_json_body(
                self.body, self.subject, max_depth=settings.max_depth, max_values=settings.max_json_values
            )
        except RegistryError as error:
            return error

    def json(self, member_names: frozenset[str]) -> Mapping[str, Any]:
        """Return the body, an object that may have only the members ``member_names``.

        A header, or a path of version 8, allows other members, too.

        Raises ``ConfluentError``: 422 for other members, and the errors of ``members``.
        """
        body = self.members()
        unknown = body.keys() - member_names
        if unknown and not self._lenient:
            raise unprocessable(f"Unrecognized field: {min(unknown)}")
        return body

    def members(self) -> Mapping[str, Any]:
        """The body as an object. Raises ``ConfluentError``: 400 for invalid JSON, 422 for another JSON value."""
        if not self.body:
            raise unprocessable("the request has no body")
        value = self._decoded
        if isinstance(value, RegistryError):
            raise ConfluentError(_BAD_REQUEST, str(value))
        if not isinstance(value, dict):
            raise unprocessable("the body has to be a JSON object")
        return value

    def schema(self, member_names: frozenset[str], layout: Layout) -> SchemaBody:
        """Return the schema in the body. The result is cached. Raises ``ConfluentError``."""
        if layout not in self._schemas:
            self._schemas[layout] = read_schema(self.json(member_names), layout)
        return self._schemas[layout]

    def about(self, subject: Subject, body: JSONObject, **query: str) -> ConfluentRequest:
        """Return a request about ``subject`` with ``body`` and ``query``, as a part of this request."""
        path = replace(self.path, context=subject.context)
        sent = dump_json(body)
        return replace(self, path=path, names=(str(subject),), query=query, body=sent, sound=set(), _schemas={})

    @property
    def _lenient(self) -> bool:
        stated = {value.lower() for value in self.raw_headers.values(_LENIENT)}
        return "true" in stated or "/v8" in self.subject[:20]


def answer(value: JSON, *, status: int = 200) -> Response:
    """Return ``value`` as a JSON response of this API."""
    return Response(status=status, headers=(("Content-Type", CONTENT_TYPE),), body=dump_json(value), is_json=True)


def raw(text: str) -> Response:
    """Return a schema's text as the response."""
    return Response(headers=(("Content-Type", CONTENT_TYPE),), body=text.encode("utf-8"))
