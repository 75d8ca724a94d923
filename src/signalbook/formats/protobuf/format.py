"""Protocol Buffers, proto2 and proto3: the format and its schemas. A schema is a message of a ``.proto`` document."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from typing import Any, Final

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from signalbook.formats.base import (
    IMPORT,
    MAX_FINDINGS,
    PayloadError,
    Resolve,
    Schema,
    SchemaError,
    UnresolvedReferences,
    is_json,
    make_payload_error,
    make_unsupported_error,
    parse_media_type,
    read_json,
    shorten,
)
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.protobuf import comparison
from signalbook.formats.protobuf.comparison import list_with_nested, relative_name
from signalbook.formats.protobuf.compiler import (
    MAIN,
    Sources,
    check_imports,
    compile_set,
    gather,
    list_field_comments,
    list_imports,
)
from signalbook.formats.protobuf.convert import Plans, make_shape
from signalbook.formats.protobuf.statements import remove_custom_options
from signalbook.formats.protobuf.tree import make_tree
from signalbook.formats.shape import Shape
from signalbook.formats.tree import SchemaNode
from signalbook.values import JSON, MAX_DEPTH, Finding, digest, dump_json, nonfinite_name

# The exceptions that the library raises for a value that is not a message of the expected type.
_UNFIT: Final = (json_format.Error, ArithmeticError, ValueError, TypeError, AttributeError, RecursionError)
_UNDEFINED_OPTION: Final = re.compile(
    r'Option "\([\w.]+\)" (?:unknown\.|is resolved to "[\w.()]+", which is not defined\.)', re.ASCII
)
_RESOLVED_OPTION: Final = re.compile(r'Option "\(([\w.]+)\)" is resolved to ', re.ASCII)
_SYNTAX: Final = {"": "Protobuf/2", "proto2": "Protobuf/2", "proto3": "Protobuf/3"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descriptors:
    """A compiled document with its own descriptor pool, so that documents never see types of other documents."""

    pool: DescriptorPool
    file: FileDescriptor
    plans: Plans
    comments: Mapping[str, str]
    messages: Mapping[str, Descriptor]
    syntax: str
    fingerprint: str
    warnings: tuple[Finding, ...]
    """The findings about options that are not defined anywhere."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtobufSchema:
    """A message type of a document. If ``drops_unknown`` is True, unknown members of JSON payloads are ignored."""

    format: str
    descriptors: Descriptors
    descriptor: Descriptor
    warnings: tuple[Finding, ...] = ()
    drops_unknown: bool = False

    @cached_property
    def tolerant(self) -> ProtobufSchema:
        """The same schema, except that unknown members of JSON are ignored, as unknown fields in binary always are."""
        return replace(self, drops_unknown=True)

    def is_at(self, indices: tuple[int, ...]) -> bool:
        """Return True if this message type is at ``indices``: the index of a top-level type, then
        of each nested type.
        """
        types = list(self.descriptors.file.message_types_by_name.values())
        descriptor: Descriptor | None = None
        for index in indices:
            if not 0 <= index < len(types):
                return False
            descriptor = types[index]
            types = list(descriptor.nested_types)
        return descriptor is not None and descriptor.full_name == self.descriptor.full_name

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the format, the documents and the message name."""
        return digest(f"{self.format} {self.descriptors.fingerprint} {self.descriptor.full_name}".encode())

    @cached_property
    def message_type(self) -> type[Message]:
        """The generated Python class of the messages."""
        return message_factory.GetMessageClass(self.descriptor)

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode protobuf JSON if ``content_type`` is JSON, otherwise binary. Raises ``PayloadError``."""
        message = self._from_json(payload) if is_json(content_type) else self._from_binary(payload, content_type)
        missing = message.FindInitializationErrors()
        if missing:
            raise PayloadError("schema_violation", [_build_missing(path) for path in missing[:MAX_FINDINGS]])
        try:
            return self.descriptors.plans.message(self.descriptor)(message)
        except (ValueError, TypeError, RecursionError, json_format.Error) as error:
            raise make_payload_error("decode_error", "range", f"a value has no JSON form: {error}") from None

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Return ``value`` as protobuf JSON if ``content_type`` is JSON, otherwise in binary.
        Raises ``PayloadError``.
        """
        if not (is_json(content_type) or self.is_binary(content_type)):
            raise make_unsupported_error(content_type, self.format)
        try:
            message = self._parse_message(_encode_jsonable(value))
        except _UNFIT as error:
            raise make_payload_error("schema_violation", "protobuf", str(error)) from None
        missing = message.FindInitializationErrors()
        if missing:
            raise PayloadError("schema_violation", [_build_missing(path) for path in missing[:MAX_FINDINGS]])
        if not is_json(content_type):
            written: bytes = message.SerializeToString(deterministic=True)
            return written
        pool = self.descriptors.pool
        return dump_json(json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool))

    def is_binary(self, content_type: str) -> bool:
        """Return True if ``content_type`` means the binary encoding, as an empty one does."""
        name = parse_media_type(content_type)
        return not name or name == "application/octet-stream" or ("proto" in name and not is_json(name))

    def _from_json(self, payload: bytes) -> Any:
        value = _with_integers(read_json(payload))
        # Well-known types have special JSON forms: a Timestamp is a string, a ListValue an array.
        if not isinstance(value, dict) and not self.descriptor.full_name.startswith("google.protobuf."):
            raise make_payload_error("schema_violation", "type", f"expected an object for {self.descriptor.full_name}")
        try:
            return self._parse_message(value)
        except (json_format.Error, ArithmeticError, ValueError, TypeError, AttributeError) as error:
            # After its first line, the message lists the names of all existing fields.
            raise make_payload_error("schema_violation", "protobuf", str(error).partition("\n")[0]) from None

    def _parse_message(self, value: JSON) -> Any:
        return json_format.ParseDict(
            value,
            self.message_type(),
            ignore_unknown_fields=self.drops_unknown,
            descriptor_pool=self.descriptors.pool,
            max_recursion_depth=MAX_DEPTH,
        )

    def _from_binary(self, payload: bytes, content_type: str) -> Any:
        if not self.is_binary(content_type):
            raise make_unsupported_error(content_type, self.format)
        message = self.message_type()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            text = f"not a {self.descriptor.full_name} in protobuf: {error}"
            raise make_payload_error("decode_error", "protobuf", text) from None
        return message

    def reading(self, writer: Schema) -> Schema:
        """Return ``writer``: Protobuf has no schema resolution, so a payload is decoded with the
        schema that wrote it.
        """
        return writer

    def validate(self, value: JSON) -> list[Finding]:
        """Return the findings about a decoded ``value`` as a message of this type, at most ``MAX_FINDINGS``."""
        try:
            message = self._parse_message(_encode_jsonable(_set(value)))
        except _UNFIT as error:
            return [Finding(path="", rule="protobuf", message=shorten(str(error)))]
        return [_build_missing(path) for path in message.FindInitializationErrors()[:MAX_FINDINGS]]

    def shape(self) -> Shape:
        """Return the columns of the message's fields."""
        return self._shape

    @cached_property
    def _shape(self) -> Shape:
        return make_shape(self.descriptor, self.descriptors.comments)

    def tree(self) -> SchemaNode:
        """Return the tree of messages."""
        return make_tree(self.descriptor, self.descriptors.comments)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return no constants: enums are open in Protobuf."""
        return {}


def _encode_jsonable(value: Any) -> JSON:
    """Return a decoded value in protobuf's JSON mapping, which needs bytes as base64 and names for
    NaN and infinities.
    """
    if isinstance(value, dict):
        return {name: _encode_jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_encode_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return nonfinite_name(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _with_integers(value: Any) -> JSON:
    """Return a value of ``parse_json`` with its ``Decimal`` numbers as integers or floats, which the library needs.

    Raises ``PayloadError`` for a number that is too large for a float.
    """
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if not isinstance(value, Decimal):
        return value
    if value == value.to_integral_value():
        return int(value)
    if not math.isfinite(float(value)):
        raise make_payload_error("schema_violation", "range", f"{shorten(str(value))} is beyond all floats")
    return float(value)


def _set(value: Any) -> JSON:
    """Return a decoded value without its null members. They are unset, and other versions may not declare them."""
    if isinstance(value, dict):
        return {name: _set(item) for name, item in value.items() if item is not None}
    return [_set(item) for item in value] if isinstance(value, list) else value


def _build_missing(path: str) -> Finding:
    pointer = "/" + path.replace(".", "/").replace("[", "/").replace("]", "")
    return Finding(path=pointer, rule="required", message=f"the required field {path} is missing")


class ProtobufFormat:
    """The format for ``.proto`` documents."""

    name: Final = "Protobuf"
    versions: Final = ("Protobuf/2", "Protobuf/3")

    def canonical(self, format: str) -> str | None:
        """Return ``Protobuf/2`` or ``Protobuf/3``; ``Protobuf`` if ``format`` has no version; None
        for other versions.
        """
        if "/" not in format:
            return self.name
        version = format.partition("/")[2].strip().lower().removeprefix("proto").removesuffix(".0")
        return f"{self.name}/{version}" if f"{self.name}/{version}" in self.versions else None

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about ``document``. If an imported file is missing, return a warning
        without compiling.
        """
        if refused := check_imports(document):
            return refused
        try:
            return self._find_problems(document, format, None)
        except UnresolvedReferences:
            paths = shorten(", ".join(sorted(set(list_imports(document)))))
            text = f"not checked, since it imports {paths}"
            return [Finding(path="", rule=IMPORT, message=text, severity="warning")]

    def identities(self, document: bytes) -> tuple[str, ...]:  # noqa: ARG002 - a file does not know its own path
        """Return no names, because files are imported by their paths."""
        return ()

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Return the findings about a document and its imports. Raises ``UnresolvedReferences`` if
        an import is missing.
        """
        return check_imports(text.document) or self._find_problems(text.document, text.format, text.resolve)

    def _find_problems(self, document: bytes, format: str, resolve: Resolve | None) -> list[Finding]:
        try:
            descriptors = describe(gather(document, resolve))
        except UnresolvedReferences:
            raise
        except SchemaError as error:
            return list(error.findings)
        return [*descriptors.warnings, *_check_syntax(descriptors, self.canonical(format))]

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> ProtobufSchema:
        """Return the message that ``link`` names: ``#Message``, ``:Message``, ``pkg.Message`` or ``Outer.Inner``
        (G-17).

        ``resolve`` returns imported files by path. Raises ``SchemaError``.
        """
        descriptors = self._compile_text(SchemaText(document=document, format=format, resolve=resolve))
        descriptor, warnings = _find_message(descriptors, link.lstrip("#:/"))
        canonical = self.canonical(format)
        version = canonical if canonical and canonical != self.name else descriptors.syntax
        return ProtobufSchema(format=version, descriptors=descriptors, descriptor=descriptor, warnings=warnings)

    def message_types(self, text: SchemaText) -> tuple[str, ...]:
        """Return the full names of the top-level message types of a document, in order.

        Raises ``SchemaError``.
        """
        return tuple(
            descriptor.full_name for descriptor in self._compile_text(text).file.message_types_by_name.values()
        )

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why readers of ``reader`` would lose or misread data of ``writer``. Raises ``SchemaError``."""
        return comparison.find_differences(self._compile_text(reader).file, self._compile_text(writer).file)

    def wire_differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return the differences in the wire format that forbid ``reader`` to follow ``writer``.
        Raises ``SchemaError``.
        """
        return comparison.find_wire_differences(self._compile_text(reader).file, self._compile_text(writer).file)

    def hazards(self, new: SchemaText, old: SchemaText) -> list[Difference]:
        """Return the numbers and names that ``new`` frees or reuses, and removed messages. Raises ``SchemaError``."""
        return comparison.find_hazards(self._compile_text(new).file, self._compile_text(old).file)

    def _compile_text(self, text: SchemaText) -> Descriptors:
        descriptors = describe(gather(text.document, text.resolve))
        findings = _check_syntax(descriptors, self.canonical(text.format))
        if findings:
            raise SchemaError(findings)
        return descriptors


def _check_syntax(descriptors: Descriptors, syntax: str | None) -> list[Finding]:
    if syntax in (None, "Protobuf", descriptors.syntax):
        return []
    return [
        Finding(path="", rule="syntax", message=f"the format says {syntax}, but the document is {descriptors.syntax}")
    ]


def _find_message(descriptors: Descriptors, name: str) -> tuple[Descriptor, tuple[Finding, ...]]:
    """Return the message ``name``, or without a name the only top-level message with a warning (G-17).

    Raises ``SchemaError`` if there is no such message or several are possible.
    """
    if name:
        if name in descriptors.messages:
            return descriptors.messages[name], ()
        text = f"there is no message {name!r}; there are: {', '.join(descriptors.messages) or 'none'}"
        raise SchemaError([Finding(path=name, rule="link", message=shorten(text))])
    top = {
        descriptor.full_name: descriptor
        for descriptor in descriptors.messages.values()
        if not descriptor.containing_type
    }
    if len(top) != 1:
        text = f"a message must be named, as in #Message; there are: {', '.join(top) or 'none'}"
        raise SchemaError([Finding(path="", rule="link", message=shorten(text))])
    ((full_name, descriptor),) = top.items()
    text = f"no message is named; {full_name} is taken, being the only one"
    return descriptor, (Finding(path="", rule="link", message=text, severity="warning"),)


@lru_cache(maxsize=256)
def describe(sources: Sources) -> Descriptors:
    """Compile a document with all its imports. Raises ``SchemaError``."""
    compiled, warnings = _compile(sources)
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled)
    pool = DescriptorPool()
    comments: dict[str, str] = {}
    for file in files.file:
        comments |= list_field_comments(file)
        file.ClearField("source_code_info")
        # The files are in the compiler's order, dependencies first. Comments were extracted above.
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:  # for example messages with more fields than the library supports
            raise SchemaError([Finding(path="", rule="protoc", message=shorten(str(error)))]) from None
    main = next(file for file in files.file if file.name == MAIN)
    document = pool.FindFileByName(MAIN)
    messages: dict[str, Descriptor] = {}
    for descriptor in list_with_nested(document.message_types_by_name.values()):
        messages[descriptor.full_name] = descriptor
        messages[relative_name(descriptor)] = descriptor
    return Descriptors(
        pool=pool,
        file=document,
        plans=Plans(pool),
        comments=comments,
        messages=messages,
        syntax=_SYNTAX.get(main.syntax, "Protobuf"),
        fingerprint=digest(b"\n".join(path.encode() + b"\n" + text for path, text in sources)),
        warnings=warnings,
    )


def _compile(sources: Sources) -> tuple[bytes, tuple[Finding, ...]]:
    """Return the result of ``compile_set``, with a warning for each undefined option.

    An undefined option is first looked up by its full name, as Confluent's registry does. If that fails, the documents
    are compiled without custom options, which do not change messages.
    """
    try:
        return compile_set(sources), ()
    except SchemaError as error:
        if not all(_UNDEFINED_OPTION.match(finding.message) for finding in error.findings):
            raise
        warnings = tuple(replace(finding, severity="warning") for finding in error.findings)
        names = {name for finding in error.findings for name in _RESOLVED_OPTION.findall(finding.message)}
        rewrites: tuple[Callable[[str], str], ...] = (partial(_name_in_full, names=names), remove_custom_options)
        for rewrite in rewrites:
            with suppress(SchemaError):
                return compile_set(tuple((path, rewrite(text.decode()).encode()) for path, text in sources)), warnings
        raise


def _name_in_full(text: str, names: Collection[str]) -> str:
    """Return ``text`` with a leading dot before the options ``names``, so that compilers treat them as full names.

    The result is only compiled, so replacements in comments do no harm.
    """
    for name in names:
        text = text.replace(f"({name})", f"(.{name})")
    return text


FORMAT: Final = ProtobufFormat()
