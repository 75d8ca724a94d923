"""The interface of every schema format: schema documents and payload bytes in, values and findings out.

A format is a module that keeps to the ``Format`` protocol and is named in the entry-point group ``signalbook.formats``;
``find`` finds it. Nothing here reads a network or a file.
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

# Given the URI or path a schema document refers to, the document's bytes, or None where there is none to be had.
Resolve = Callable[[str], bytes | None]
# Segments from the top of a value or document.
Path = tuple[str | int, ...]
Reason = Literal["decode_error", "schema_violation", "unsupported_format"]

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
MAX_FINDINGS: Final = 100
MAX_MESSAGE: Final = 300
IMPORT: Final = "import"
"""The rule of findings about references to other documents that were not followed, or that lead to nothing."""


class SchemaError(SignalbookError):
    """A schema document that cannot be used; ``findings`` says what is wrong and where in the document."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class UnresolvedReferences(SchemaError):
    """A schema document that cannot be judged: others are missing, without which it means nothing."""


class PayloadError(SignalbookError):
    """A payload its schema rejects; ``reason`` is one of K-44, ``findings`` every violation found."""

    def __init__(self, reason: Reason, findings: Iterable[Finding]) -> None:
        self.reason = reason
        self.findings = tuple(findings)
        super().__init__()

    # Made when asked for: of thousands of payloads that are rejected hardly anybody reads it.
    def __str__(self) -> str:
        return f"{self.reason}: " + "; ".join(str(finding) for finding in self.findings)

    # Exceptions that are made of more than their text do not survive the way from a worker otherwise.
    def __reduce__(self) -> tuple[type[PayloadError], tuple[Reason, tuple[Finding, ...]]]:
        return type(self), (self.reason, self.findings)


class Schema(Protocol):
    """A usable schema: a document, or the part of it that a deep link names."""

    @property
    def format(self) -> str:
        """The format in its canonical spelling, such as ``JsonSchema/draft-07``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the format, the document, everything it refers to, and the deep link."""
        ...

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Doubts about the document or the way it was named."""
        ...

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode and validate; an empty ``content_type`` means the format's native encoding.

        Scalars come as the Python types that ``shape.Scalar`` lists; all else is JSON-like. Raises ``PayloadError``.
        """
        ...

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Return a conforming ``value``, as ``decode`` gives it, as a payload that ``decode`` takes; the reverse of it
        (K-52).

        An empty ``content_type`` means the format's native encoding. Raises ``PayloadError``.
        """
        ...

    def reading(self, writer: Schema) -> Schema:
        """Return the schema for payloads that ``writer``, another version of this one, wrote (K-40).

        A format with a schema resolution of its own decodes them to what this schema says; any other is ``writer``'s.
        """
        ...

    def validate(self, value: JSON) -> list[Finding]:
        """Return every violation in an already decoded value, each with its JSON Pointer; empty if it conforms."""
        ...

    def shape(self) -> Shape:
        """Return the columns a conforming payload fits into."""
        ...

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return the required top-level members with a closed set of scalar values, by name (K-30).

        An object that lacks such a member, or has another value in it, does not conform; the reverse proves nothing.
        """
        ...


@runtime_checkable
class Tolerant(Protocol):
    """The additional methods of a ``Schema`` that can ignore unknown members."""

    @property
    def tolerant(self) -> Schema:
        """The same schema, passing over them."""
        ...


@runtime_checkable
class Judging(Protocol):
    """The additional methods of a ``Schema`` that finds out faster whether a value conforms than why not."""

    def allows(self, value: JSON) -> bool:
        """Return True if ``validate`` reports no findings."""
        ...


@runtime_checkable
class Indexed(Protocol):
    """The additional methods of a ``Schema`` whose document has several, identified by their places in it."""

    def is_at(self, indices: tuple[int, ...]) -> bool:
        """Return True if the schema is at this place: an index in the document, then in that type."""
        ...


def is_judging(schema: object) -> TypeGuard[Judging]:
    """Return True for a ``Judging`` schema."""
    return _is_following(schema, Judging)


def is_indexed(schema: object) -> TypeGuard[Indexed]:
    """Return True for an ``Indexed`` schema."""
    return _is_following(schema, Indexed)


def is_elsewhere(schema: Schema, indices: tuple[int, ...]) -> bool:
    """Return True if the schema is one of several in its document, and not at this place."""
    return is_indexed(schema) and not schema.is_at(indices)


def _is_following(schema: object, protocol: Any) -> bool:
    kind: Any = type(schema)
    return _is_subclass(kind, protocol)


# To look at an object for its methods takes Python longer than to read a small payload.
_is_subclass: Final = cache(issubclass)


class Format(Protocol):
    """A family of schema documents, such as Avro."""

    name: str
    versions: tuple[str, ...]
    """The versions to offer in capabilities; ``Name/*`` if more can be read than are listed."""

    def canonical(self, format: str) -> str | None:
        """Return ``format`` in its canonical spelling, or ``None`` for a version that is not supported (G-12, G-13)."""
        ...

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about a schema document alone: external references are not followed (G-19)."""
        ...

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> Schema:
        """Return the schema that ``link`` names in ``document`` (G.2; "" is the top-level one).

        References to other documents go through ``resolve`` and never to a network. Raises ``SchemaError``.
        """
        ...


def check_size(document: bytes) -> list[Finding]:
    """Return a finding if a schema document is empty (G-23) or beyond ``MAX_DOCUMENT_BYTES``."""
    if not document.strip():
        return [Finding(path="", rule="empty", message="the schema document is empty")]
    if len(document) > MAX_DOCUMENT_BYTES:
        text = f"the schema document has {len(document)} bytes; at most {MAX_DOCUMENT_BYTES} are accepted"
        return [Finding(path="", rule="size", message=text)]
    return []


def shorten(message: str) -> str:
    """Return ``message`` cut to what a person reads: payloads quoted in full help nobody."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def parse_media_type(content_type: str) -> str:
    """Return the type/subtype of a Content-Type, lower case, without parameters."""
    return _known(content_type)[0] if len(content_type) <= _MAX_CACHED_CHARS else _parse_media(content_type)[0]


def is_json(content_type: str) -> bool:
    """Return True if a Content-Type names JSON: ``application/json``, ``text/json`` or a ``+json`` suffix."""
    return _known(content_type)[1] if len(content_type) <= _MAX_CACHED_CHARS else _parse_media(content_type)[1]


# Asked several times of each message, which mostly have the same few; but a client may send any.
_MAX_CACHED_CHARS: Final = 256


def _parse_media(content_type: str) -> tuple[str, bool]:
    name = content_type.partition(";")[0].strip().lower()
    return name, name in ("application/json", "text/json") or name.endswith("+json")


_known: Final = lru_cache(maxsize=1024)(_parse_media)


def read_json(payload: bytes) -> JSON:
    """Return the value of a payload that is JSON, with all digits of its numbers (``parse_json`` with ``exact``).

    Raises ``PayloadError`` if it is no JSON, or has more than ``MAX_VALUES`` values.
    """
    try:
        return parse_json(payload, max_values=MAX_VALUES, exact=True)
    except JSONError as error:
        raise make_payload_error("decode_error", "json", f"not JSON: {error}") from None


class JsonValues:
    """The common part of schemas whose payloads are JSON, and whose values stay JSON."""

    def decode(self: Schema, payload: bytes, content_type: str = "") -> JSON:
        """Decode JSON and validate it. Raises ``PayloadError``."""
        if content_type and not is_json(content_type):
            raise make_unsupported_error(content_type, self.format)
        value = read_json(payload)
        if findings := self.validate(value):
            raise PayloadError("schema_violation", findings)
        return value

    def encode(self: Schema, value: JSON, content_type: str = "") -> bytes:
        """Validate a value and write it as JSON. Raises ``PayloadError``."""
        if content_type and not is_json(content_type):
            raise make_unsupported_error(content_type, self.format)
        payload = encode_json(value)
        if findings := self.validate(value):
            raise PayloadError("schema_violation", findings)
        return payload

    def reading(self, writer: Schema) -> Schema:
        """Return ``writer``, because it describes its payloads itself."""
        return writer


def encode_json(value: JSON) -> bytes:
    """Return ``value`` as JSON text that reads back as the same.

    Raises ``PayloadError`` for what JSON has no form for.
    """
    try:
        text = dump_json(value)
        # Read back and compared: the encoder writes bytes, dates and NaN as something without complaint.
        if parse_json(text, exact=True) == value:
            return text
        why = "it has values that JSON does not have, such as bytes, dates or NaN"
    except (JSONError, TypeError, ValueError, OverflowError, RecursionError) as error:
        why = str(error) or "nested too deep"
    raise make_payload_error("schema_violation", "json", f"not JSON: {why}")


def make_unsupported_error(content_type: str, format: str) -> PayloadError:
    """Return the error for a payload encoding that ``format`` neither reads nor writes."""
    text = f"{format} has no payloads of content type {content_type!r}"
    return PayloadError("unsupported_format", [Finding(path="", rule="content_type", message=text)])


def make_payload_error(reason: Reason, rule: str, message: str) -> PayloadError:
    """Return the error for a payload as a whole."""
    return PayloadError(reason, _wrap_finding(rule, shorten(message)))


# Thousands of payloads that are cut off have the same said of them.
@lru_cache(maxsize=256)
def _wrap_finding(rule: str, message: str) -> tuple[Finding, ...]:
    return (Finding(path="", rule=rule, message=message),)


def make_finding(path: Path, rule: str, message: str) -> Finding:
    """Return a finding in a value or document at ``path``."""
    return Finding(path=format_pointer(path), rule=rule, message=shorten(message))


def format_pointer(path: Iterable[str | int]) -> str:
    """Return a JSON Pointer (RFC 6901) of path segments."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


GROUP: Final = "signalbook.formats"
# Other names for formats, met in registry documents (G-13).
ALIASES: Final = {"xmlschema": "xsd", "proto": "protobuf", "json-schema": "jsonschema"}


def find(format: str) -> Format | None:
    """Return the format that reads ``format`` (``Name/version``, case-insensitive), or ``None`` if there is none
    (G-12).
    """
    offered = _find_offered().get(find_family(format))
    if offered is None:
        return None
    format_reader = _load(offered)
    return format_reader if format_reader.canonical(format) is not None else None


def find_family(format: str) -> str:
    """Return the name of a format without its version, in lower case, other spellings undone (G-13)."""
    name = format.partition("/")[0].strip().lower()
    return ALIASES.get(name, name)


def extract_text(content: bytes, format: str = "") -> bytes:
    """Return the text that a format reads of a document; for a JSON string, the text in it.

    A schema that is not JSON (Protobuf, XSD), sent inline as ``application/json``, is a JSON string. For Avro a string
    without JSON is a schema: the name of a type.
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
    """Return the formats and versions that capability documents list (G-25); ``Name/*`` stands for any release."""
    return tuple(version for name in sorted(_find_offered()) for version in _load(_find_offered()[name]).versions)


def _find_offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "schema format", plugins.lower)


def _load(point: EntryPoint) -> Format:
    loaded: Format = plugins.load(point)
    return loaded
