"""The interface of every schema format. A format parses schema documents, decodes payload bytes and reports findings.

A format is a module that implements the ``Format`` protocol and is registered in the entry-point group
``signalbook.formats``. ``find`` returns it. This module reads no network and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint
from typing import Any, Final, Literal, Protocol, TypeGuard, runtime_checkable

from signalbook import plugins
from signalbook.errors import SignalbookError
from signalbook.formats.shape import Shape
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, MAX_VALUES, Finding, JSONError, dump_json, parse_json

# A function that takes the URI or path in a reference and returns the bytes of that document, or None if it has none.
Resolve = Callable[[str], bytes | None]
# The segments that lead from the top of a value or document to one of its parts.
Path = tuple[str | int, ...]
Reason = Literal["decode_error", "schema_violation", "unsupported_format"]

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
MAX_FINDINGS: Final = 100
MAX_MESSAGE: Final = 300
IMPORT: Final = "import"
"""The rule of findings about references to other documents that were not followed or could not be resolved."""


class SchemaError(SignalbookError):
    """A schema document that cannot be used; ``findings`` lists the problems and their places in the document."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class UnresolvedReferences(SchemaError):
    """A schema document that cannot be checked because documents that it refers to are missing."""


class PayloadError(SignalbookError):
    """A payload that its schema rejects; ``reason`` is a dead-letter reason (K-44), ``findings``
    lists all violations found.
    """

    def __init__(self, reason: Reason, findings: Iterable[Finding]) -> None:
        self.reason = reason
        self.findings = tuple(findings)
        super().__init__()

    # Build the text only on request: most of the thousands of rejected payloads never need it.
    def __str__(self) -> str:
        return f"{self.reason}: " + "; ".join(str(finding) for finding in self.findings)

    # Pickling, which passes exceptions between processes, needs the constructor's arguments, not only the text.
    def __reduce__(self) -> tuple[type[PayloadError], tuple[Reason, tuple[Finding, ...]]]:
        return type(self), (self.reason, self.findings)


class Schema(Protocol):
    """A usable schema: a whole document, or the part of a document that a deep link names."""

    @property
    def format(self) -> str:
        """The format in its canonical spelling, such as ``JsonSchema/draft-07``."""
        ...

    @property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the format, the document, all documents that it refers to, and the deep link."""
        ...

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings about the document or its format name that do not prevent its use."""
        ...

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode and validate ``payload``; an empty ``content_type`` means the format's native encoding.

        Scalars are of the Python types listed at ``shape.Kind``; all other values are JSON-like. Raises
        ``PayloadError``.
        """
        ...

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Return ``value``, which has the form that ``decode`` returns, as a payload that ``decode`` accepts (K-52).

        An empty ``content_type`` means the format's native encoding. Raises ``PayloadError`` if ``value`` does not
        conform.
        """
        ...

    def reading(self, writer: Schema) -> Schema:
        """Return the schema that decodes payloads written with ``writer``, another version of this schema (K-40).

        A format that defines schema resolution (such as Avro) decodes to the members of this schema. Other formats
        return ``writer``.
        """
        ...

    def validate(self, value: JSON) -> list[Finding]:
        """Return every violation in an already decoded value, each with its JSON Pointer; empty if it conforms."""
        ...

    def shape(self) -> Shape:
        """Return the columns that a conforming payload fits into."""
        ...

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return the required top-level members that have a closed set of scalar values, by name (K-30).

        An object without such a member, or with another value in it, does not conform. An object with such values may
        still violate other rules.
        """
        ...


@runtime_checkable
class Tolerant(Protocol):
    """The additional property of a ``Schema`` that can ignore unknown members."""

    @property
    def tolerant(self) -> Schema:
        """The same schema, except that it ignores unknown members instead of rejecting them."""
        ...


@runtime_checkable
class Judging(Protocol):
    """The additional method of a ``Schema`` that checks conformance faster than it lists violations."""

    def allows(self, value: JSON) -> bool:
        """Return True if ``validate`` reports no findings."""
        ...


@runtime_checkable
class Nesting(Protocol):
    """The additional method of a ``Schema`` that finds closed sets of values inside of objects."""

    def nested_constants(self) -> Mapping[tuple[str, ...], frozenset[JSON]]:
        """Return the same as ``constants`` for required members of required objects, by path of names."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """The additional method of a ``Schema`` that is one of several in its document, identified by their indices."""

    def is_at(self, indices: tuple[int, ...]) -> bool:
        """Return True if this schema is at ``indices``: the index of a type in the document, then of a type nested in
        it.
        """
        ...


def is_judging(schema: object) -> TypeGuard[Judging]:
    """Return True if ``schema`` implements ``Judging``."""
    return _is_following(schema, Judging)


def is_indexed(schema: object) -> TypeGuard[Indexed]:
    """Return True if ``schema`` implements ``Indexed``."""
    return _is_following(schema, Indexed)


def is_elsewhere(schema: Schema, indices: tuple[int, ...]) -> bool:
    """Return True if ``schema`` is one of several in its document and is not the schema at ``indices``."""
    return is_indexed(schema) and not schema.is_at(indices)


def _is_following(schema: object, protocol: Any) -> bool:
    kind: Any = type(schema)
    return _is_subclass(kind, protocol)


# isinstance() with a protocol takes longer than reading a small payload.
_is_subclass: Final = cache(issubclass)


class Format(Protocol):
    """A family of schema documents, such as Avro."""

    name: str
    versions: tuple[str, ...]
    """The versions to list in capabilities; ``Name/*`` means that more versions are supported than are listed."""

    def canonical(self, format: str) -> str | None:
        """Return ``format`` in its canonical spelling, or None if its version is not supported (G-12, G-13)."""
        ...

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about ``document`` without following its references to other documents (G-19)."""
        ...

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> Schema:
        """Return the schema that ``link`` names in ``document`` (G.2); an empty ``link`` names the top-level schema.

        References to other documents are read with ``resolve``, never over a network. Raises ``SchemaError``.
        """
        ...


def check_size(document: bytes) -> list[Finding]:
    """Return a finding if ``document`` is empty (G-23) or larger than ``MAX_DOCUMENT_BYTES``, otherwise no finding."""
    if not document.strip():
        return [Finding(path="", rule="empty", message="the schema document is empty")]
    if len(document) > MAX_DOCUMENT_BYTES:
        text = f"the schema document has {len(document)} bytes; at most {MAX_DOCUMENT_BYTES} are accepted"
        return [Finding(path="", rule="size", message=text)]
    return []


def shorten(message: str) -> str:
    """Return ``message`` cut to ``MAX_MESSAGE`` characters, because it may quote a whole payload."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def parse_media_type(content_type: str) -> str:
    """Return the type and subtype of a Content-Type, such as ``text/plain``, in lower case and without parameters."""
    return _known(content_type)[0] if len(content_type) <= _MAX_CACHED_CHARS else _parse_media(content_type)[0]


def is_json(content_type: str) -> bool:
    """Return True if a Content-Type names JSON: ``application/json``, ``text/json`` or a ``+json`` suffix."""
    return _known(content_type)[1] if len(content_type) <= _MAX_CACHED_CHARS else _parse_media(content_type)[1]


# Content types are parsed several times for each message, and few different ones occur. Long ones are not cached,
# because a client can send any text.
_MAX_CACHED_CHARS: Final = 256


def _parse_media(content_type: str) -> tuple[str, bool]:
    name = content_type.partition(";")[0].strip().lower()
    return name, name in ("application/json", "text/json") or name.endswith("+json")


_known: Final = lru_cache(maxsize=1024)(_parse_media)


def read_json(payload: bytes) -> JSON:
    """Parse a JSON payload and keep all digits of its numbers (``parse_json`` with ``exact``).

    Raises ``PayloadError`` if ``payload`` is not JSON or has more than ``MAX_VALUES`` values.
    """
    try:
        return parse_json(payload, max_values=MAX_VALUES, exact=True)
    except JSONError as error:
        raise make_payload_error("decode_error", "json", f"not JSON: {error}") from None


class JsonValues:
    """The shared methods of schemas whose payloads are JSON and whose decoded values are plain JSON values."""

    def decode(self: Schema, payload: bytes, content_type: str = "") -> JSON:
        """Decode and validate a JSON payload; an empty ``content_type`` means JSON. Raises ``PayloadError``."""
        if content_type and not is_json(content_type):
            raise make_unsupported_error(content_type, self.format)
        value = read_json(payload)
        if findings := self.validate(value):
            raise PayloadError("schema_violation", findings)
        return value

    def encode(self: Schema, value: JSON, content_type: str = "") -> bytes:
        """Validate a value and return it as JSON; an empty ``content_type`` means JSON. Raises ``PayloadError``."""
        if content_type and not is_json(content_type):
            raise make_unsupported_error(content_type, self.format)
        payload = encode_json(value)
        if findings := self.validate(value):
            raise PayloadError("schema_violation", findings)
        return payload

    def reading(self, writer: Schema) -> Schema:
        """Return ``writer``: without schema resolution, a payload is decoded with the schema that wrote it."""
        return writer


def encode_json(value: JSON) -> bytes:
    """Return ``value`` as JSON text that parses to an equal value.

    Raises ``PayloadError`` if ``value`` contains values that JSON cannot represent.
    """
    try:
        text = dump_json(value)
        # Parse the text again and compare: the encoder turns bytes, dates and NaN into other values without an error.
        if parse_json(text, exact=True) == value:
            return text
        why = "it has values that JSON does not have, such as bytes, dates or NaN"
    except (JSONError, TypeError, ValueError, OverflowError, RecursionError) as error:
        why = str(error) or "nested too deep"
    raise make_payload_error("schema_violation", "json", f"not JSON: {why}")


def make_unsupported_error(content_type: str, format: str) -> PayloadError:
    """Return the error for a ``content_type`` that schemas of ``format`` can neither decode nor encode."""
    text = f"{format} has no payloads of content type {content_type!r}"
    return PayloadError("unsupported_format", [Finding(path="", rule="content_type", message=text)])


def make_payload_error(reason: Reason, rule: str, message: str) -> PayloadError:
    """Return the error about a payload as a whole, with one finding of ``rule`` whose path is empty."""
    return PayloadError(reason, _wrap_finding(rule, shorten(message)))


# Thousands of truncated payloads get the same finding, so it is cached.
@lru_cache(maxsize=256)
def _wrap_finding(rule: str, message: str) -> tuple[Finding, ...]:
    return (Finding(path="", rule=rule, message=message),)


def make_finding(path: Path, rule: str, message: str) -> Finding:
    """Return a finding about the part at ``path`` of a value or document."""
    return Finding(path=format_pointer(path), rule=rule, message=shorten(message))


def format_pointer(path: Iterable[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) that consists of the segments in ``path``."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


GROUP: Final = "signalbook.formats"
# Alternative names of formats that occur in registry documents (G-13).
ALIASES: Final = {"xmlschema": "xsd", "proto": "protobuf", "json-schema": "jsonschema"}


def find(format: str) -> Format | None:
    """Return the format that supports ``format`` (``Name/version``, case-insensitive), or None if no format does
    (G-12).
    """
    offered = _find_offered().get(find_family(format))
    if offered is None:
        return None
    format_reader = _load(offered)
    return format_reader if format_reader.canonical(format) is not None else None


def find_family(format: str) -> str:
    """Return the canonical name of ``format`` without its version, in lower case; aliases are replaced (G-13)."""
    name = format.partition("/")[0].strip().lower()
    return ALIASES.get(name, name)


def extract_text(content: bytes, format: str = "") -> bytes:
    """Return the schema text in ``content``: the text of a JSON string if ``content`` is one, otherwise ``content``.

    A schema that is not JSON (Protobuf, XSD) and is sent inline as ``application/json`` is a JSON string. In Avro a
    JSON string can itself be a schema, the name of a type, and is then returned unchanged.
    """
    if not content.startswith(b'"'):
        return content
    try:
        value = parse_untrusted_json(content)
    except JSONError:
        return content
    if not isinstance(value, str) or (find_family(format) == "avro" and not value.lstrip().startswith(("{", "[", '"'))):
        return content
    return value.encode("utf-8")


def list_supported() -> tuple[str, ...]:
    """Return the formats and versions to list in capability documents (G-25); ``Name/*`` means any version."""
    return tuple(version for name in sorted(_find_offered()) for version in _load(_find_offered()[name]).versions)


def _find_offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "schema format", plugins.lower)


def _load(point: EntryPoint) -> Format:
    loaded: Format = plugins.load(point)
    return loaded
