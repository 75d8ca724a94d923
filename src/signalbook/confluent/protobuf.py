"""Convert Protobuf schemas between text and the base64 of a ``FileDescriptorProto``, which clients also send.

Source: descriptor.proto, and the language specifications of proto2 and proto3 (protobuf.dev).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
    SymbolVisibility,
)
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_format import PrintFieldValue, TextWriter

from signalbook.formats.base import Resolve
from signalbook.formats.protobuf.compiler import gather
from signalbook.formats.protobuf.format import describe
from signalbook.values import dump_json

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_COMMENT_OR_TOKEN: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[\w.]+|\S)""", re.DOTALL
)
_WHOLE_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_TYPE_NAMES: Final = {value: name.removeprefix("TYPE_").lower() for name, value in FieldDescriptorProto.Type.items()}
_GROUP: Final = FieldDescriptorProto.TYPE_GROUP
_LABEL_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
_LABEL_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED
_PROTO3: Final = "proto3"
_EDITIONS: Final = "editions"
_VISIBILITIES: Final = {
    SymbolVisibility.VISIBILITY_UNSET: "",
    SymbolVisibility.VISIBILITY_LOCAL: "local ",
    SymbolVisibility.VISIBILITY_EXPORT: "export ",
}
_EXTENSION_KEY: Final = attrgetter("extendee", "number")
_IS_OPTIONAL: Final = attrgetter("proto3_optional")
_LAST_NUMBER: Final = 536_870_911
_LAST_ENUM: Final = 2**31 - 1


def build_file_descriptor(text: str, resolve: Resolve) -> bytes:
    """Return the ``FileDescriptorProto`` of a document, without JSON names of fields that equal the default.

    Confluent's clients would write these names into the text that they make of it. Raises ``SchemaError``.
    """
    content = describe(gather(text.encode("utf-8"), resolve)).file.serialized_pb
    file = FileDescriptorProto.FromString(content)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting.extend(message.nested_type)
        for field in message.field:
            if field.json_name == _derive_json_name(field.name):
                field.ClearField("json_name")
    return file.SerializeToString()


def render_descriptor(text: str) -> str | None:
    """Return the ``.proto`` document of a base64 ``FileDescriptorProto``, or None if ``text`` is something else."""
    if not _BASE64.fullmatch(text):
        return None
    try:
        descriptor = FileDescriptorProto.FromString(b64decode(text))
    except (ValueError, DecodeError):
        return None
    return _print_file(descriptor)


def detect_syntax(text: str) -> str:
    """Return the syntax that a document states (``proto2``, ``proto3`` or ``editions``), or ``proto2`` by default."""
    match list(islice(filter(None, (token[1] for token in _COMMENT_OR_TOKEN.finditer(text))), 3)):
        case ["edition", "=", _]:
            return _EDITIONS
        case ["syntax", "=", name]:
            return str(name).strip("\"'")
    return "proto2"


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a document, without white space and comments."""
    return [token for token in _COMMENT_OR_TOKEN.findall(text) if token]


def list_numbers(text: str) -> set[str]:
    """Return the integers in a document, such as field numbers, which normalizing does not change."""
    return {token for token in split_tokens(text) if _WHOLE_NUMBER.fullmatch(token)}


def normalize_document(text: str, resolve: Resolve) -> str:
    """Return a document in a fixed layout and order, or unchanged if the new text would not mean the same.

    Message types keep their order, because clients count them. Raises ``SchemaError``.
    """
    if describe(gather(text.encode("utf-8"), resolve)).warnings:
        return text  # the descriptor lacks some options
    descriptor = _sort_descriptor(text, resolve)
    printed = _print_file(descriptor)
    content, reparsed = (
        candidate.SerializeToString(deterministic=True)
        for candidate in (descriptor, _sort_descriptor(printed, resolve))
    )
    return printed if reparsed == content else text


def _sort_descriptor(text: str, resolve: Resolve) -> Any:
    """Return the descriptor of a document, with its parts in a fixed order, such as fields by number.

    Custom options are read, too: they are not unknown fields of the options.
    """
    document = describe(gather(text.encode("utf-8"), resolve))
    try:
        kind = GetMessageClass(document.pool.FindMessageTypeByName(FileDescriptorProto.DESCRIPTOR.full_name))
    except KeyError:  # a document that does not import descriptor.proto has no custom options
        kind = FileDescriptorProto
    descriptor: Any = kind.FromString(document.file.serialized_pb)
    _sort_file(descriptor)
    return descriptor


def _sort_file(file: FileDescriptorProto) -> None:
    for kind in (file.public_dependency, file.weak_dependency):
        paths = sorted(file.dependency[number] for number in kind)
        kind[:] = [sorted(file.dependency).index(path) for path in paths]
    file.dependency.sort()
    file.extension.sort(key=_EXTENSION_KEY)
    for enum in file.enum_type:
        _sort_enum(enum)
    for message in file.message_type:
        _sort_message(message)


def _sort_message(message: DescriptorProto) -> None:
    for nested in message.nested_type:
        _sort_message(nested)
    for enum in message.enum_type:
        _sort_enum(enum)
    oneofs = {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index")
    }
    message.field.sort(key=attrgetter("number"))
    # The compiler puts the oneofs that it makes for optional proto3 fields after the others.
    names = (oneofs[field.number] for field in sorted(message.field, key=_IS_OPTIONAL) if field.number in oneofs)
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    message.oneof_decl.sort(key=lambda oneof: places[oneof.name])
    for field in message.field:
        if field.number in oneofs:
            field.oneof_index = places[oneofs[field.number]]
    # The types of maps and groups only swap places with each other, because clients count nested types.
    owners = _find_owned_types(message)
    places = {nested.name: place for place, nested in enumerate(message.nested_type)}
    places |= zip(owners, sorted(places[name] for name in owners), strict=True)
    message.nested_type.sort(key=lambda nested: places[nested.name])
    message.extension.sort(key=_EXTENSION_KEY)
    message.extension_range.sort(key=attrgetter("start"))
    message.reserved_range.sort(key=attrgetter("start"))
    message.reserved_name.sort()


def _sort_enum(enum: EnumDescriptorProto) -> None:
    first = enum.value[0].name  # the default
    enum.value.sort(key=lambda value: (value.name != first, value.number, value.name))
    enum.reserved_range.sort(key=attrgetter("start"))
    enum.reserved_name.sort()


def _find_owned_types(message: DescriptorProto) -> dict[str, FieldDescriptorProto]:
    """Return the fields that are maps or groups, by the names of the nested types for them."""
    nested = {nested_type.name: nested_type for nested_type in message.nested_type}
    names = ((field.type_name.rpartition(".")[2], field) for field in message.field if field.type_name)
    return {
        name: field
        for name, field in names
        if name in nested and (field.type == _GROUP or nested[name].options.map_entry)
    }


def _print_file(file: FileDescriptorProto) -> str:
    return "\n".join(_Printer(file).print_lines()) + "\n"


class _Printer:
    """Writes a descriptor as the text of a ``.proto`` document."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._proto3 = file.syntax == _PROTO3
        self._has_labels = file.syntax != _EDITIONS

    def print_lines(self) -> Iterator[str]:
        file = self._file
        if self._has_labels:
            yield f'syntax = "{file.syntax or "proto2"}";'
        else:
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        if file.package:
            yield f"package {file.package};"
        for number, path in enumerate(file.dependency):
            kind = "public " if number in file.public_dependency else "weak " if number in file.weak_dependency else ""
            yield f'import {kind}"{path}";'
        yield from self._print_options(file.options, "")
        for enum in file.enum_type:
            yield from self._print_enum(enum, "")
        for message in file.message_type:
            yield from self._print_message(message, "")
        yield from self._print_extensions(file.extension, "")
        for service in file.service:
            yield from self._print_service(service)

    def _print_options(self, options: Message, indent: str) -> Iterator[str]:
        yield from (f"{indent}option {text};" for text in _format_options(options))

    def _print_message(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}{_VISIBILITIES[message.visibility]}message {message.name} {{"
        yield from self._print_body(message, f"{indent}  ")
        yield f"{indent}}}"

    def _print_body(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        options = type(message.options)()
        options.CopyFrom(message.options)
        options.ClearField("map_entry")
        yield from self._print_options(options, indent)
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        owners = _find_owned_types(message)
        for enum in message.enum_type:
            yield from self._print_enum(enum, indent)
        # Maps and groups before other nested types keep their places, because clients count all nested types.
        last = max(
            (place for place, nested_type in enumerate(message.nested_type) if nested_type.name not in owners),
            default=-1,
        )
        printed: set[int] = set()
        for nested in message.nested_type[: last + 1]:
            if nested.name not in owners:
                yield from self._print_message(nested, indent)
            elif not owners[nested.name].HasField("oneof_index"):
                printed.add(owners[nested.name].number)
                yield from self._print_field(owners[nested.name], message, entries, indent)
        fields = [field for field in message.field if field.number not in printed]
        yield from self._print_fields(fields, message, entries, indent)
        for part in message.extension_range:
            yield f"{indent}extensions {_format_range(part.start, part.end - 1, _LAST_NUMBER)};"
        yield from self._print_extensions(message.extension, indent)
        reserved = [_format_range(part.start, part.end - 1, _LAST_NUMBER) for part in message.reserved_range]
        yield from self._print_reserved(reserved, message.reserved_name, indent)

    def _print_fields(
        self,
        fields: Sequence[FieldDescriptorProto],
        message: DescriptorProto,
        entries: dict[str, DescriptorProto],
        indent: str,
    ) -> Iterator[str]:
        printed_oneofs: set[int] = set()
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._print_field(field, message, entries, indent)
            elif field.oneof_index not in printed_oneofs:
                printed_oneofs.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"{indent}oneof {oneof.name} {{"
                yield from self._print_options(oneof.options, f"{indent}  ")
                for member in fields:
                    if member.HasField("oneof_index") and member.oneof_index == field.oneof_index:
                        yield from self._print_field(member, message, entries, f"{indent}  ", label=False)
                yield f"{indent}}}"

    def _print_field(
        self,
        field: FieldDescriptorProto,
        message: DescriptorProto,
        entries: dict[str, DescriptorProto],
        indent: str,
        *,
        label: bool = True,
    ) -> Iterator[str]:
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.type_name else None
        if entry is not None:
            key, value = entry.field
            map_type = f"map<{_format_type(key)}, {_format_type(value)}>"
            yield f"{indent}{map_type} {field.name} = {field.number}{_format_field_options(field)};"
            return
        word = self._format_label(field) if label else ""
        if field.type != _GROUP:
            yield f"{indent}{word}{_format_type(field)} {field.name} = {field.number}{_format_field_options(field)};"
            return
        name = field.type_name.rpartition(".")[2]
        yield f"{indent}{word}group {name} = {field.number}{_format_field_options(field)} {{"
        for nested in message.nested_type:
            if nested.name == name:
                yield from self._print_body(nested, f"{indent}  ")
        yield f"{indent}}}"

    def _format_label(self, field: FieldDescriptorProto) -> str:
        if field.label == _LABEL_REPEATED:
            return "repeated "
        if not self._has_labels:
            return ""
        if field.label == _LABEL_REQUIRED:
            return "required "
        return "optional " if not self._proto3 or field.proto3_optional else ""

    def _print_reserved(self, ranges: Sequence[str], names: Sequence[str], indent: str) -> Iterator[str]:
        if ranges:
            yield f"{indent}reserved {', '.join(ranges)};"
        if names:
            texts = (dump_json(name).decode() if self._has_labels else name for name in names)
            yield f"{indent}reserved {', '.join(texts)};"

    def _print_extensions(self, fields: Sequence[FieldDescriptorProto], indent: str) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {field.extendee} {{"
            typed_name = f"{self._format_label(field)}{_format_type(field)} {field.name}"
            yield f"{indent}  {typed_name} = {field.number}{_format_field_options(field)};"
            yield f"{indent}}}"

    def _print_enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}{_VISIBILITIES[enum.visibility]}enum {enum.name} {{"
        yield from self._print_options(enum.options, f"{indent}  ")
        for value in enum.value:
            options = ", ".join(_format_options(value.options))
            yield f"{indent}  {value.name} = {value.number}{f' [{options}]' if options else ''};"
        reserved = [_format_range(part.start, part.end, _LAST_ENUM) for part in enum.reserved_range]
        yield from self._print_reserved(reserved, enum.reserved_name, f"{indent}  ")
        yield f"{indent}}}"

    def _print_service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from self._print_options(service.options, "  ")
        for method in service.method:
            sent = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            returned = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = "".join(f" option {text};" for text in _format_options(method.options))
            yield f"  rpc {method.name} ({sent}) returns ({returned}){f' {{{options} }}' if options else ';'}"
        yield "}"


def _format_type(field: FieldDescriptorProto) -> str:
    return field.type_name or _TYPE_NAMES[field.type]


def _format_field_options(field: FieldDescriptorProto) -> str:
    options = list(_format_options(field.options))
    if field.HasField("default_value"):
        text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        quoted = dump_json(field.default_value).decode() if field.type == FieldDescriptorProto.TYPE_STRING else None
        options.insert(
            0, f"default = {quoted or (f'{chr(34)}{field.default_value}{chr(34)}' if text else field.default_value)}"
        )
    if field.HasField("json_name") and field.json_name != _derive_json_name(field.name):
        options.append(f"json_name = {dump_json(field.json_name).decode()}")
    return f" [{', '.join(options)}]" if options else ""


def _derive_json_name(name: str) -> str:
    """Return the default JSON name of a field, as the compiler derives it."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)


def _format_options(options: Message) -> Iterator[str]:
    """Yield options as text. Options that extensions define are included if the type of ``options`` knows them."""
    for field, value in options.ListFields():
        if field.name == "features" and not field.is_extension:
            yield from (f"features.{text}" for text in _format_options(value))
            continue
        name = f"(.{field.full_name})" if field.is_extension else field.name
        for item in value if field.is_repeated else (value,):
            text = TextWriter(as_utf8=True)
            PrintFieldValue(field, item, text, as_utf8=True, as_one_line=True)
            yield f"{name} = {text.getvalue()}"


def _format_range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"
