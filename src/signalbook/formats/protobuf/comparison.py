"""The comparison of Protobuf documents: find reasons why messages of one are not safe for readers of another.

Fields are compared by number, as in the wire format. A change that keeps every value is not a difference; a change that
only keeps the bytes readable, such as ``int64`` to ``int32``, is. Readers are assumed to ignore unknown fields and
unknown values of open enums, in JSON as well (docs/decisions/056).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, OneofDescriptor

from signalbook.formats.base import MAX_FINDINGS, shorten
from signalbook.formats.compatibility import Comparison, Difference
from signalbook.formats.protobuf.convert import map_value

_FIELD: Final = FieldDescriptor
_TYPE_NAMES: Final[dict[int, str]] = {
    _FIELD.TYPE_DOUBLE: "double", _FIELD.TYPE_FLOAT: "float", _FIELD.TYPE_INT64: "int64",
    _FIELD.TYPE_UINT64: "uint64", _FIELD.TYPE_INT32: "int32", _FIELD.TYPE_FIXED64: "fixed64",
    _FIELD.TYPE_FIXED32: "fixed32", _FIELD.TYPE_BOOL: "bool", _FIELD.TYPE_STRING: "string",
    _FIELD.TYPE_GROUP: "group", _FIELD.TYPE_MESSAGE: "message", _FIELD.TYPE_BYTES: "bytes",
    _FIELD.TYPE_UINT32: "uint32", _FIELD.TYPE_ENUM: "enum", _FIELD.TYPE_SFIXED32: "sfixed32",
    _FIELD.TYPE_SFIXED64: "sfixed64", _FIELD.TYPE_SINT32: "sint32", _FIELD.TYPE_SINT64: "sint64",
}  # fmt: skip
# Types with the same wire format by the Protobuf guide's "Updating A Message Type", but not always the same values.
_COMPATIBLE_SCALARS: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
_COMPATIBLE_TYPES: Final = (*_COMPATIBLE_SCALARS, {"message", "bytes"})
# Types of which every value is the same value of the other types, in JSON as well.
_WIDER: Final = {
    "int32": {"int64", "enum"},
    "uint32": {"int64", "uint64"},
    "sint32": {"sint64"},
}
# The same, but not in JSON: true is not a number, an enum name is not a number, and text is not base64.
_WIDER_ON_THE_WIRE: Final = {
    "bool": {"int32", "uint32", "int64", "uint64", "enum"},
    "enum": {"int32", "int64"},
    "string": {"bytes"},
    "message": {"bytes"},
}


def format_type(field: FieldDescriptor) -> str:
    """Return the type of ``field`` as documents write it."""
    declared = field.message_type or field.enum_type
    return str(declared.full_name) if declared is not None else _TYPE_NAMES[field.type]


def compare_types(writer: FieldDescriptor, reader: FieldDescriptor) -> tuple[str, str] | None:
    """Return the rule that reading ``writer`` as ``reader`` breaks, with a message; None if every
    value stays the same.
    """
    old, new = _TYPE_NAMES[writer.type], _TYPE_NAMES[reader.type]
    closed = reader.enum_type is not None and reader.enum_type.is_closed
    if new in _WIDER.get(old, ()) and not closed:
        return None
    if new in _WIDER_ON_THE_WIRE.get(old, ()) and not closed:
        return "json_type_changed", f"{old} and {new} are the same bytes, but not the same JSON"
    if any({old, new} <= group for group in _COMPATIBLE_TYPES):
        return "type_narrowed", f"some values of {old} are others when read as {new}, or cannot be read"
    return "type_changed", f"what is written as {old} cannot be read as {new}"


MAX_STEPS: Final = 500_000
_GOOGLE_PACKAGE: Final = "google.protobuf."
# Its JSON form is {}, as for any message without fields, although it is a well-known type.
_EMPTY: Final = "google.protobuf.Empty"
_MESSAGES: Final = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)


def find_differences(reader: FileDescriptor, writer: FileDescriptor) -> list[Difference]:
    """Return all differences in the messages of ``writer``; paths are full names, such as ``shop.Order.total``.

    Inside maps, paths continue with ``{key}`` and ``{}``. A path inside a message type starts with the name of the
    type, or with the path of the field if the field got a message type of another name.
    """
    comparison = _Comparison(MAX_STEPS)
    return comparison.differences("documents", lambda: comparison.compare_files(reader, writer))


def find_wire_differences(reader: FileDescriptor, writer: FileDescriptor) -> list[Difference]:
    """Return the reasons why ``reader`` may not follow ``writer`` by the rules of Confluent's registry.

    These rules concern the bytes on the wire: names of fields, JSON and defaults are ignored.
    """
    comparison = _WireComparison(MAX_STEPS)
    return comparison.differences("documents", lambda: comparison.compare_files(reader, writer))


def list_with_nested(descriptors: Iterable[Descriptor]) -> Iterator[Descriptor]:
    """Yield ``descriptors`` and all messages declared inside them, without map entries."""
    for descriptor in descriptors:
        if not descriptor.GetOptions().map_entry:
            yield descriptor
            yield from list_with_nested(descriptor.nested_types)


def relative_name(descriptor: Descriptor | EnumDescriptor) -> str:
    """Return the name of a type without its package."""
    full = str(descriptor.full_name)
    return full.removeprefix(f"{descriptor.file.package}.") if descriptor.file.package else full


class _Comparison(Comparison):
    """Compares pairs of messages from a queue, because types may contain themselves and each other."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.waiting: deque[tuple[Descriptor, Descriptor, str]] = deque()

    def compare_files(self, reader: FileDescriptor, writer: FileDescriptor) -> None:
        if reader.package != writer.package:
            message_text = "every message has another full name, so links to it, and Any, lead nowhere"
            self.report("", "package_changed", writer.package, reader.package, message_text)
        reader_messages = {
            relative_name(message): message for message in list_with_nested(reader.message_types_by_name.values())
        }
        writer_messages = {
            relative_name(message): message for message in list_with_nested(writer.message_types_by_name.values())
        }
        for name, message in writer_messages.items():
            if name in reader_messages:
                self.enqueue(reader_messages[name], message, reader_messages[name].full_name)
        self.report_missing(writer_messages, reader_messages)
        while self.waiting:
            self.compare_messages(*self.waiting.popleft())

    def report_missing(
        self, writer_messages: Mapping[str, Descriptor], reader_messages: Mapping[str, Descriptor]
    ) -> None:
        """Report messages that only the writer has, except those used in fields, where the fields
        show the difference.
        """
        parts = self.list_parts(message for name, message in writer_messages.items() if name in reader_messages)
        for name, message in writer_messages.items():
            outer = message.containing_type
            is_part_of_missing = outer is not None and relative_name(outer) not in reader_messages
            if name not in reader_messages and not is_part_of_missing and message.full_name not in parts:
                self.report(
                    message.full_name, "message_removed", message.full_name, None, "the reader has no such message"
                )

    def list_parts(self, messages: Iterable[Descriptor]) -> set[str]:
        """Return the full names of messages that are compared through the fields of ``messages``."""
        return _find_reachable(messages)

    def enqueue(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        pair = (reader.full_name, writer.full_name)
        if pair not in self.met:
            self.met.add(pair)
            self.waiting.append((reader, writer, path))

    def compare_messages(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        reader_fields, writer_fields = _index_fields(reader), _index_fields(writer)
        names = {name: field for field in reader_fields.values() for name in _list_json_names(field)}
        for number, field in writer_fields.items():
            self.step()
            if number in reader_fields:
                self.compare_fields(reader_fields[number], field, f"{path}.{_format_label(reader_fields[number])}")
            else:
                self.compare_removed(field, names, path)
        for number, field in reader_fields.items():
            if field.is_required and not (number in writer_fields and writer_fields[number].is_required):
                text = "the reader requires a field that need not be written"
                self.report(f"{path}.{_format_label(field)}", "required_added", None, "required", text)
        for oneof in reader.oneofs:
            self.compare_new_oneof(
                oneof, [writer_fields[field.number] for field in oneof.fields if field.number in writer_fields], path
            )
        for oneof in writer.oneofs:
            self.compare_removed_oneof(
                oneof, [reader_fields[field.number] for field in oneof.fields if field.number in reader_fields], path
            )

    def compare_removed(self, writer: FieldDescriptor, names: Mapping[str, FieldDescriptor], path: str) -> None:
        """Report a field whose number the reader does not have, if ``names``, the reader's fields
        by name, has its name.
        """
        for field in {names[name].number: names[name] for name in _list_json_names(writer) & names.keys()}.values():
            text = f"the field is written as number {writer.number} and read as {field.number}, so it gets lost"
            self.report(f"{path}.{_format_label(field)}", "field_renumbered", writer.number, field.number, text)

    def compare_new_oneof(self, reader: OneofDescriptor, fields: list[FieldDescriptor], path: str) -> None:
        together = {field.containing_oneof.name if field.containing_oneof else f"={field.name}" for field in fields}
        if len(together) > 1:
            names = ", ".join(field.name for field in fields)
            text = f"{names} can be written together; the reader keeps the last one only"
            self.report(f"{path}.{reader.name}", "oneof_added", None, reader.name, text)

    def compare_removed_oneof(self, writer: OneofDescriptor, fields: list[FieldDescriptor], path: str) -> None:
        lost = [field.name for field in fields if not field.has_presence and not field.is_repeated]
        if lost and len(writer.fields) > 1:
            text = f"the reader cannot tell which one was set: {', '.join(lost)} may hold its default"
            self.report(f"{path}.{writer.name}", "oneof_removed", writer.name, None, text)

    def compare_fields(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        self.compare_names(reader, writer, path)
        reader_value, writer_value = map_value(reader), map_value(writer)
        if reader_value is not None and writer_value is not None:
            self.compare_values(_find_key_field(reader_value), _find_key_field(writer_value), path + "{key}")
            self.compare_values(reader_value, writer_value, path + "{}")
        elif reader_value is not None or writer_value is not None or self.is_regrouped(reader, writer):
            text = f"{_find_cardinality(writer)} and {_find_cardinality(reader)} do not hold the same"
            self.report(path, "cardinality_changed", _find_cardinality(writer), _find_cardinality(reader), text)
        elif self.compare_values(reader, writer, path) and not reader.is_repeated and not writer.is_required:
            self.compare_defaults(reader, writer, path)

    def compare_names(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        if not _list_json_names(writer) <= _list_json_names(reader):
            names = [" or ".join(sorted(_list_json_names(side))) for side in (writer, reader)]
            text = f"JSON has {names[0]} where the reader looks for {names[1]}"
            self.report(path, "json_name_changed", names[0], names[1], text)

    def is_regrouped(self, reader: FieldDescriptor, writer: FieldDescriptor) -> bool:
        """Return True if only one of the fields is repeated and that is a difference. In this class it always is."""
        return reader.is_repeated != writer.is_repeated

    def compare_defaults(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        if reader.type in _MESSAGES or writer.type in _MESSAGES:
            return
        old, new = writer.default_value, reader.default_value
        # NaN does not equal itself, but two NaN defaults are the same.
        if old != new and not (old != old and new != new):
            text = f"a field that is not written means {old!r} to the writer and {new!r} to the reader"
            self.report(path, "default_changed", repr(old), repr(new), text)

    def compare_values(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> bool:
        """Compare the types of single values. Return False if their scalar types are not compatible."""
        if reader.type != writer.type:
            problem = compare_types(writer, reader)
            if problem is not None:
                rule, text = problem
                self.report(path, rule, format_type(writer), format_type(reader), text)
            return problem is None
        if reader.message_type is not None and writer.message_type is not None:
            self.compare_inner(reader.message_type, writer.message_type, path)
        elif reader.enum_type is not None and writer.enum_type is not None:
            self.compare_enums(reader.enum_type, writer.enum_type, path)
        return True

    def compare_inner(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        old, new = str(writer.full_name), str(reader.full_name)
        is_well_known = any(name.startswith(_GOOGLE_PACKAGE) and name != _EMPTY for name in (old, new))
        if old != new and is_well_known:
            self.report(path, "json_type_changed", old, new, f"{old} and {new} do not have the same form in JSON")
        if old != new or not is_well_known:
            self.enqueue(reader, writer, new if old == new or relative_name(reader) == relative_name(writer) else path)

    def compare_enums(self, reader: EnumDescriptor, writer: EnumDescriptor, path: str) -> None:
        pair = (reader.full_name, writer.full_name)
        if pair in self.met:
            return
        self.met.add(pair)
        path = reader.full_name if relative_name(reader) == relative_name(writer) else path
        if reader.is_closed and not writer.is_closed:
            text = "any number can be written, but the reader knows no other than those with a name"
            self.report(path, "enum_closed", "open", "closed", text)
        old, new = _index_values(writer), _index_values(reader)
        numbers = {name: number for number, names in new.items() for name in names}
        for number, names in old.items():
            self.step()
            for name in sorted(names - new.get(number, set())):
                self.compare_enum_value(name, number, numbers.get(name), new.get(number), path, closed=reader.is_closed)

    def compare_enum_value(
        self,
        name: str,
        number: int,
        reader_number: int | None,
        reader_names: set[str] | None,
        path: str,
        *,
        closed: bool,
    ) -> None:
        """Compare the enum value ``name`` of the writer, which the reader has with another number or does not have."""
        value_path = f"{path}.{name}"
        if reader_number is not None:
            text = f"{name} is written as {number}, which is not what the reader calls so"
            self.report(value_path, "enum_value_renumbered", number, reader_number, text)
        elif reader_names is not None:
            text = f"{number} is written for {name}, but read as {' or '.join(sorted(reader_names))}"
            self.report(value_path, "enum_value_renamed", name, sorted(reader_names)[0], text)
        elif closed:
            text = f"{name} can be written, but the reader's enum is closed and does not know {number}"
            self.report(value_path, "enum_value_removed", number, None, text)


class _WireComparison(_Comparison):
    """Compares pairs of messages by the rules of Confluent's registry, which concern only the wire format."""

    def list_parts(self, messages: Iterable[Descriptor]) -> set[str]:  # noqa: ARG002
        return set()  # A message that moved to another file is missing in this one.

    def compare_removed(self, writer: FieldDescriptor, names: Mapping[str, FieldDescriptor], path: str) -> None:  # noqa: ARG002
        if writer.is_required:
            text = "a required field may not be removed"
            self.report(f"{path}.{_format_label(writer)}", "required_removed", "required", None, text)

    def compare_removed_oneof(self, writer: OneofDescriptor, fields: list[FieldDescriptor], path: str) -> None:
        numbers = {field.number for field in fields}
        for field in writer.fields if fields else ():
            if field.number not in numbers:
                text = f"when {field.name} is written, the reader takes none of {writer.name} to be set"
                self.report(f"{path}.{_format_label(field)}", "oneof_field_removed", writer.name, None, text)

    def compare_names(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        pass

    def compare_defaults(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> None:
        pass

    def is_regrouped(self, reader: FieldDescriptor, writer: FieldDescriptor) -> bool:
        # Repeated numbers are packed into one piece, which cannot be read as a single number. A single number can be
        # read as a list with one item, but Confluent refuses this for fields with the label ``optional``.
        is_number = writer.type not in (*_MESSAGES, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
        return is_number and reader.is_repeated != writer.is_repeated and (writer.is_repeated or writer.has_presence)

    def compare_values(self, reader: FieldDescriptor, writer: FieldDescriptor, path: str) -> bool:
        if reader.type == writer.type and reader.message_type is not None and writer.message_type is not None:
            self.compare_inner(reader.message_type, writer.message_type, path)
            return True
        old, new = _TYPE_NAMES[writer.type], _TYPE_NAMES[reader.type]
        is_same = old == new or any({old, new} <= scalars for scalars in _COMPATIBLE_SCALARS)
        if not is_same:
            text = f"what is written as {old} cannot be read as {new}"
            self.report(path, "type_changed", format_type(writer), format_type(reader), text)
        return is_same

    def compare_inner(self, reader: Descriptor, writer: Descriptor, path: str) -> None:
        if relative_name(reader) == relative_name(writer):
            self.enqueue(reader, writer, reader.full_name)
        else:
            text = "the field has a message type of another name"
            self.report(path, "message_type_changed", writer.full_name, reader.full_name, text)


def _find_reachable(messages: Iterable[Descriptor]) -> set[str]:
    """Return the full names of ``messages`` and of all message types inside them."""
    waiting = list(messages)
    names = {message.full_name for message in waiting}
    while waiting:
        inner = {field.message_type for field in waiting.pop().fields if field.message_type is not None}
        waiting += [message for message in inner if message.full_name not in names]
        names |= {message.full_name for message in inner}
    return names


def _index_fields(message: Descriptor) -> dict[int, FieldDescriptor]:
    """Return the fields of ``message`` by number, including the extensions that the document declares."""
    extensions = message.file.pool.FindAllExtensions(message)
    return {field.number: field for field in (*message.fields, *extensions)}


def _find_key_field(value: FieldDescriptor) -> FieldDescriptor:
    """Return the field for the keys of a map, given the field for its values."""
    entry: Any = value.containing_type
    field: FieldDescriptor = entry.fields_by_name["key"]
    return field


def _format_label(field: FieldDescriptor) -> str:
    return f"[{field.full_name}]" if field.is_extension else str(field.name)


def _list_json_names(field: FieldDescriptor) -> set[str]:
    """Return the names of a field that JSON writers may choose from and readers accept."""
    return {_format_label(field)} if field.is_extension else {field.name, field.json_name}


def _find_cardinality(field: FieldDescriptor) -> str:
    return "map" if map_value(field) else "repeated" if field.is_repeated else "singular"


def _index_values(enum: EnumDescriptor) -> dict[int, set[str]]:
    names: dict[int, set[str]] = {}
    for value in enum.values:
        names.setdefault(value.number, set()).add(value.name)
    return names


# A range from the first number up to the second, which is excluded.
_Range = tuple[float, float]


def find_hazards(new: FileDescriptor, old: FileDescriptor) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` risks of replacing ``old`` by ``new``.

    These are numbers and names of ``old`` that ``new`` neither uses nor reserves, reserved numbers and names that
    ``new`` uses or no longer reserves, and messages that ``new`` does not have.
    """
    return list(islice(_list_hazards(new, old), MAX_FINDINGS))


def _list_hazards(new: FileDescriptor, old: FileDescriptor) -> Iterator[Difference]:
    messages = {relative_name(message): message for message in list_with_nested(new.message_types_by_name.values())}
    for message in list_with_nested(old.message_types_by_name.values()):
        new_message = messages.get(relative_name(message))
        outer = message.containing_type
        if new_message is not None:
            yield from _compare_numbered(_number_message(new_message), _number_message(message))
        elif outer is None or relative_name(outer) in messages:
            text = "the message is gone, and with it what links to it"
            yield _make_difference(message.full_name, "message_removed", message.full_name, None, text)
    enums = {relative_name(enum): enum for enum in _list_enums(new)}
    for enum in _list_enums(old):
        if relative_name(enum) in enums:
            yield from _compare_numbered(_number_enum(enums[relative_name(enum)]), _number_enum(enum))


def _list_enums(file: FileDescriptor) -> Iterator[EnumDescriptor]:
    yield from file.enum_types_by_name.values()
    for message in list_with_nested(file.message_types_by_name.values()):
        yield from message.enum_types


class _NumberedType:
    """The used and the reserved numbers and names of a message or an enum."""

    def __init__(
        self, name: str, label: str, used: Iterable[tuple[str, int]], ranges: Iterable[_Range], reserved: Iterable[str]
    ) -> None:
        self.name = name
        self.label = label
        self.used = list(used)
        self.numbers = {number for _, number in self.used}
        self.names = {name for name, _ in self.used}
        self.ranges = sorted(ranges)
        self.reserved = set(reserved)

    def reserves(self, number: int) -> bool:
        """Return True if ``number`` is reserved. The ranges of a type never overlap in a valid document."""
        # Find the last range that starts at or before the number, then check whether it includes the number.
        before = bisect_right(self.ranges, (number, math.inf))
        return before > 0 and number < self.ranges[before - 1][1]


def _number_message(descriptor: Descriptor) -> _NumberedType:
    proto = descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(proto)
    used = ((field.name, field.number) for field in proto.field)
    ranges = ((part.start, part.end) for part in proto.reserved_range)
    return _NumberedType(descriptor.full_name, "field", used, ranges, proto.reserved_name)


def _number_enum(descriptor: EnumDescriptor) -> _NumberedType:
    proto = descriptor_pb2.EnumDescriptorProto()
    descriptor.CopyToProto(proto)
    used = ((value.name, value.number) for value in proto.value)
    ranges = ((part.start, part.end + 1) for part in proto.reserved_range)  # an enum's range includes its end
    return _NumberedType(descriptor.full_name, "enum_value", used, ranges, proto.reserved_name)


def _compare_numbered(new: _NumberedType, old: _NumberedType) -> Iterator[Difference]:
    for name, number in old.used:
        path = f"{old.name}.{name}"
        if number not in new.numbers and not new.reserves(number):
            text = f"the number {number} of {name} is neither used nor reserved, so another may get it"
            yield _make_difference(path, f"{new.label}_number_not_reserved", number, None, text)
        if name not in new.names and number not in new.numbers and name not in new.reserved:
            text = f"the name {name} is neither used nor reserved, so JSON may get another meaning"
            yield _make_difference(path, f"{new.label}_name_not_reserved", name, None, text)
    for name, number in new.used:
        if old.reserves(number):
            text = f"the number {number} was reserved, so that messages with an old meaning are not misread"
            yield _make_difference(f"{new.name}.{name}", "reserved_number_used", None, number, text)
        if name in old.reserved:
            yield _make_difference(
                f"{new.name}.{name}", "reserved_name_used", None, name, f"the name {name} was reserved"
            )
    for first, end in _subtract_ranges(old.ranges, [*new.ranges, *((number, number + 1) for number in new.numbers)]):
        text = "numbers that were reserved are free again"
        yield _make_difference(new.name, "reservation_dropped", [int(first), int(end) - 1], None, text)
    for name in sorted(old.reserved - new.reserved - new.names):
        yield _make_difference(
            new.name, "reservation_dropped", name, None, f"the name {name} was reserved and is free again"
        )


def _subtract_ranges(ranges: Iterable[_Range], removed: Iterable[_Range]) -> Iterator[_Range]:
    """Yield the parts of the ordered ``ranges`` that ``removed`` does not cover."""
    remaining = deque(sorted(removed))
    for first, end in ranges:
        while remaining and remaining[0][0] < end:
            start, stop = remaining[0]
            if first < start:
                yield first, start
            first = max(first, stop)
            if stop > end:
                break
            remaining.popleft()
        if first < end:
            yield first, end


def _make_difference(path: str, rule: str, old: object, new: object, message: str) -> Difference:
    return Difference(path=path, rule=rule, old=old, new=new, message=shorten(message))
