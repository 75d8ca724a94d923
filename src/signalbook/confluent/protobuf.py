"""Protobuf schemas as clients also send them: the base64 of a ``FileDescriptorProto``, and back.

Source: descriptor.proto, and the language specifications of proto2 and proto3 (protobuf.dev).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
    SymbolVisibility,
)
from google.protobuf.message import DecodeError, Message

from signalbook.formats.base import Resolve
from signalbook.formats.protobuf.compiler import MAIN, compile_set, gather
from signalbook.values import dump_json

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_COMMENT_OR_TOKEN: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[\w.]+|\S)""", re.DOTALL
)
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_TYPES: Final = {value: name.removeprefix("TYPE_").lower() for name, value in FieldDescriptorProto.Type.items()}
_GROUP: Final = FieldDescriptorProto.TYPE_GROUP
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED
_PROTO3: Final = "proto3"
_EDITIONS: Final = "editions"
_VISIBILITIES: Final = {
    SymbolVisibility.VISIBILITY_UNSET: "",
    SymbolVisibility.VISIBILITY_LOCAL: "local ",
    SymbolVisibility.VISIBILITY_EXPORT: "export ",
}
_LAST_NUMBER: Final = 536_870_911
_LAST_ENUM: Final = 2**31 - 1


def file_descriptor(text: str, resolve: Resolve) -> bytes:
    """The ``FileDescriptorProto`` of a document. Raises ``SchemaError``."""
    files = FileDescriptorSet.FromString(compile_set(gather(text.encode("utf-8"), resolve)))
    found = next(file for file in files.file if file.name == MAIN)
    found.ClearField("source_code_info")
    return found.SerializeToString()


def descriptor_text(text: str) -> str | None:
    """The ``.proto`` document that the base64 of a ``FileDescriptorProto`` says; None for what is no such thing."""
    if not _BASE64.fullmatch(text):
        return None
    try:
        found = FileDescriptorProto.FromString(b64decode(text))
    except (ValueError, DecodeError):
        return None
    return _printed(found)


def declared_syntax(text: str) -> str:
    """Return ``proto2``, ``proto3`` or ``editions``: what a document says it is, ``proto2`` if it says nothing."""
    match list(islice(filter(None, (token[1] for token in _COMMENT_OR_TOKEN.finditer(text))), 3)):
        case ["edition", "=", _]:
            return _EDITIONS
        case ["syntax", "=", name]:
            return str(name).strip("\"'")
    return "proto2"


def tokens(text: str) -> list[str]:
    """Return the tokens of a document, without white space and comments."""
    return [token for token in _COMMENT_OR_TOKEN.findall(text) if token]


def numbers(text: str) -> set[str]:
    """Return the whole numbers of a document, such as those of fields, which normalizing does not change."""
    return {token for token in tokens(text) if _NUMBER.fullmatch(token)}


def normalized(text: str, resolve: Resolve) -> str:
    """A document as if it had come as its descriptor, unless that leaves anything out. Raises ``SchemaError``."""
    described = file_descriptor(text, resolve)
    printed = _printed(FileDescriptorProto.FromString(described))
    return printed if file_descriptor(printed, resolve) == described else text


def _printed(file: FileDescriptorProto) -> str:
    return "\n".join(_Printer(file).lines()) + "\n"


class _Printer:
    """A descriptor in the words of its language."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._proto3 = file.syntax == _PROTO3
        self._has_labels = file.syntax != _EDITIONS

    def lines(self) -> Iterator[str]:
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
        yield from self._options(file.options, "")
        for enum in file.enum_type:
            yield from self._enum(enum, "")
        for message in file.message_type:
            yield from self._message(message, "")
        yield from self._extensions(file.extension, "")
        for service in file.service:
            yield from self._service(service)

    def _options(self, options: Message, indent: str) -> Iterator[str]:
        yield from (f"{indent}option {text};" for text in _texts(options))

    def _message(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}{_VISIBILITIES[message.visibility]}message {message.name} {{"
        yield from self._body(message, f"{indent}  ")
        yield f"{indent}}}"

    def _body(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        options = type(message.options)()
        options.CopyFrom(message.options)
        options.ClearField("map_entry")
        yield from self._options(options, indent)
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == _GROUP}
        for enum in message.enum_type:
            yield from self._enum(enum, indent)
        for nested in message.nested_type:
            if nested.name not in entries and nested.name not in groups:
                yield from self._message(nested, indent)
        yield from self._fields(message, entries, indent)
        for part in message.extension_range:
            yield f"{indent}extensions {_range(part.start, part.end - 1, _LAST_NUMBER)};"
        yield from self._extensions(message.extension, indent)
        reserved = [_range(part.start, part.end - 1, _LAST_NUMBER) for part in message.reserved_range]
        yield from self._reserved(reserved, message.reserved_name, indent)

    def _fields(self, message: DescriptorProto, entries: dict[str, DescriptorProto], indent: str) -> Iterator[str]:
        done: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message, entries, indent)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                yield f"{indent}oneof {message.oneof_decl[field.oneof_index].name} {{"
                for each in message.field:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield from self._field(each, message, entries, f"{indent}  ", label=False)
                yield f"{indent}}}"

    def _field(
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
            yield f"{indent}map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{_field_options(field)};"
            return
        word = self._label(field) if label else ""
        if field.type != _GROUP:
            yield f"{indent}{word}{_type(field)} {field.name} = {field.number}{_field_options(field)};"
            return
        name = field.type_name.rpartition(".")[2]
        yield f"{indent}{word}group {name} = {field.number}{_field_options(field)} {{"
        for nested in message.nested_type:
            if nested.name == name:
                yield from self._body(nested, f"{indent}  ")
        yield f"{indent}}}"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == _REPEATED:
            return "repeated "
        if not self._has_labels:
            return ""
        if field.label == _REQUIRED:
            return "required "
        return "optional " if not self._proto3 or field.proto3_optional else ""

    def _reserved(self, ranges: Sequence[str], names: Sequence[str], indent: str) -> Iterator[str]:
        if ranges:
            yield f"{indent}reserved {', '.join(ranges)};"
        if names:
            texts = (dump_json(name).decode() if self._has_labels else name for name in names)
            yield f"{indent}reserved {', '.join(texts)};"

    def _extensions(self, fields: Sequence[FieldDescriptorProto], indent: str) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {field.extendee} {{"
            yield f"{indent}  {self._label(field)}{_type(field)} {field.name} = {field.number}{_field_options(field)};"
            yield f"{indent}}}"

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}{_VISIBILITIES[enum.visibility]}enum {enum.name} {{"
        yield from self._options(enum.options, f"{indent}  ")
        for value in enum.value:
            options = ", ".join(_texts(value.options))
            yield f"{indent}  {value.name} = {value.number}{f' [{options}]' if options else ''};"
        reserved = [_range(part.start, part.end, _LAST_ENUM) for part in enum.reserved_range]
        yield from self._reserved(reserved, enum.reserved_name, f"{indent}  ")
        yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from self._options(service.options, "  ")
        for method in service.method:
            sent = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = "".join(f" option {text};" for text in _texts(method.options))
            yield f"  rpc {method.name} ({sent}) returns ({answered}){f' {{{options} }}' if options else ';'}"
        yield "}"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or _TYPES[field.type]


def _field_options(field: FieldDescriptorProto) -> str:
    found = list(_texts(field.options))
    if field.HasField("default_value"):
        text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        quoted = dump_json(field.default_value).decode() if field.type == FieldDescriptorProto.TYPE_STRING else None
        found.insert(
            0, f"default = {quoted or (f'{chr(34)}{field.default_value}{chr(34)}' if text else field.default_value)}"
        )
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        found.append(f"json_name = {dump_json(field.json_name).decode()}")
    return f" [{', '.join(found)}]" if found else ""


def _json_name(name: str) -> str:
    """What the compiler makes of the name of a field."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)


def _texts(options: Message) -> Iterator[str]:
    """Options that the compiler knows itself; those of extensions are not known here, and left out."""
    for field, value in options.ListFields():
        if field.name == "features":
            yield from (f"features.{text}" for text in _texts(value))
        if field.message_type is not None or field.is_repeated:
            continue
        if field.enum_type is not None:
            shown = field.enum_type.values_by_number[value].name
        elif isinstance(value, bool):
            shown = "true" if value else "false"
        else:
            shown = dump_json(value).decode()
        yield f"{field.name} = {shown}"


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"
