"""Records as C#: classes with properties, which write themselves as JSON and read it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from signalbook.codegen.base import printable
from signalbook.codegen.datatypes import (
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainType,
    RecordMember,
    RecordRef,
    RecordTable,
    UnionType,
    nullable,
)
from signalbook.codegen.naming import pascal, unique


@dataclass(frozen=True, slots=True)
class CsharpType:
    """A type, how it is written where it may be null, and the form that writes and reads its values."""

    name: str
    form: str
    optional_name: str = ""
    optional_form: str = ""

    @property
    def optional(self) -> CsharpType:
        """The same with null."""
        return CsharpType(self.optional_name, self.optional_form) if self.optional_name else self


_ANY: Final = CsharpType("JsonValue", "Forms.Any")
_BOOLEAN: Final = CsharpType("bool", "Forms.Boolean", "bool?", "Forms.NullableBoolean")
_INTEGER: Final = CsharpType("long", "Forms.Integer", "long?", "Forms.NullableInteger")
_NUMBER: Final = CsharpType("double", "Forms.Number", "double?", "Forms.NullableNumber")
_TEXT: Final = CsharpType("string", "Forms.Text")
_BYTES: Final = CsharpType("byte[]", "Forms.Bytes")
_PLAIN: Final = {
    "any": _ANY, "null": _ANY, "boolean": _BOOLEAN, "integer": _INTEGER, "number": _NUMBER, "text": _TEXT,
    "bytes": _BYTES, "decimal": _TEXT, "timestamp": _TEXT, "date": _TEXT, "time": _TEXT,
}  # fmt: skip
_CLOSED: Final[Mapping[type, CsharpType]] = {str: _TEXT, int: _INTEGER, bool: _BOOLEAN}
_CHUNK: Final = 2_000
"""Characters of one literal."""
KEYWORDS: Final = frozenset(
    {
        *("abstract", "as", "base", "bool", "break", "byte", "case", "catch", "char", "checked", "class", "const"),
        *("continue", "decimal", "default", "delegate", "do", "double", "else", "enum", "event", "explicit", "extern"),
        *("false", "finally", "fixed", "float", "for", "foreach", "goto", "if", "implicit", "in", "int", "interface"),
        *("internal", "is", "lock", "long", "namespace", "new", "null", "object", "operator", "out", "override"),
        *("params", "private", "protected", "public", "readonly", "ref", "return", "sbyte", "sealed", "short"),
        *("sizeof", "stackalloc", "static", "string", "struct", "switch", "this", "throw", "true", "try", "typeof"),
        *("uint", "ulong", "unchecked", "unsafe", "ushort", "using", "virtual", "void", "volatile", "while"),
    }
)
COLLECTIONS: Final = frozenset({"Dictionary", "IDictionary", "IList"})
# What all classes have, and what the methods of these classes call by a name that a property would hide.
_MEMBERS: Final = frozenset(
    {
        *("Equals", "Finalize", "GetHashCode", "GetType", "MemberwiseClone", "ReferenceEquals", "ToString"),
        *("ExtraMembers", "Forms"),
    }
)


def class_names(table: RecordTable, taken: Collection[str]) -> dict[str, str]:
    """The class of each record by its key, beside those in ``taken``."""
    return unique(table.records, lambda key: pascal(table.records[key].hint, "Payload"), taken)


def parameter_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A parameter for each name."""
    found = unique(names, _camel, taken)
    return {name: f"@{each}" if each in KEYWORDS else each for name, each in found.items()}


def _camel(text: str) -> str:
    found = pascal(text)
    return found[:1].lower() + found[1:]


def written(kind: DataType, names: Mapping[str, str]) -> CsharpType:
    """A type; what may be of several is a ``JsonValue``."""
    match kind:
        case PlainType():
            return _PLAIN[kind.kind]
        case ClosedSet():
            kinds = {type(each) for each in kind.values}
            return _CLOSED.get(next(iter(kinds)), _ANY) if len(kinds) == 1 else _ANY
        case ListType():
            item = written(kind.item, names)
            return CsharpType(f"IList<{item.name}>", f"Forms.List({item.form})")
        case MapType():
            value = written(kind.value, names)
            return CsharpType(f"IDictionary<string, {value.name}>", f"Forms.Map({value.form})")
        case RecordRef():
            return CsharpType(names[kind.key], f"Forms.Record<{names[kind.key]}>()")
        case UnionType():
            others = {written(each, names) for each in kind.members if each != NULL}
            if len(others) != 1:
                return _ANY
            other = others.pop()
            return other.optional if NULL in kind.members else other


def classes(table: RecordTable, names: Mapping[str, str]) -> Iterator[str]:
    """The lines of all classes of a table."""
    for key, record in table.records.items():
        yield ""
        yield from _class(record, names[key], names)


def _class(record: DataRecord, name: str, names: Mapping[str, str]) -> Iterator[str]:
    members = unique((each.name for each in record.members), pascal, {*_MEMBERS, name})
    types = {each.name: written(each.type, names).optional for each in record.members}
    extra = None if record.extra is None else written(record.extra, names)
    yield from comment(record.description or record.hint)
    yield f"public sealed class {name} : IPayload"
    yield "{"
    yield from _indented(_properties(record, members, types, extra))
    yield from _indented(_method("Write", "PayloadWriter to", _writes(record, members, types, extra)))
    yield ""
    yield from _indented(_method("Read", "PayloadReader from", _reads(record, members, types, extra)))
    yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"    {line}" if line else "" for line in lines)


def _properties(
    record: DataRecord, members: Mapping[str, str], types: Mapping[str, CsharpType], extra: CsharpType | None
) -> Iterator[str]:
    for member in record.members:
        yield from comment(_said(member))
        yield f"public {types[member.name].name} {members[member.name]} {{ get; set; }}"
        yield ""
    if extra is not None:
        kind = f"Dictionary<string, {extra.name}>"
        yield from comment("Members that the schema does not name.")
        yield f"public I{kind} ExtraMembers {{ get; set; }} = new {kind}();"
        yield ""


def _method(name: str, parameter: str, body: Iterable[str]) -> Iterator[str]:
    yield "/// <inheritdoc/>"
    yield f"void IPayload.{name}({parameter})"
    yield "{"
    yield from _indented(body)
    yield "}"


def _writes(
    record: DataRecord, members: Mapping[str, str], types: Mapping[str, CsharpType], extra: CsharpType | None
) -> Iterator[str]:
    for member in record.members:
        method = "AddAlways" if member.required and nullable(member.type) else "Add"
        yield f"to.{method}({quoted(member.name)}, {types[member.name].form}, {members[member.name]});"
    if extra is not None:
        yield f"to.AddOthers({extra.form}, ExtraMembers);"


def _reads(
    record: DataRecord, members: Mapping[str, str], types: Mapping[str, CsharpType], extra: CsharpType | None
) -> Iterator[str]:
    for member in record.members:
        yield f"{members[member.name]} = from.Get({quoted(member.name)}, {types[member.name].form});"
    if extra is not None:
        yield f"ExtraMembers = from.Others({extra.form});"


def _said(member: RecordMember) -> str:
    needed = "Required" if member.required else "Optional"
    return f"{member.description.rstrip('.')}. {needed}." if member.description else f"{needed}."


def comment(text: str) -> Iterator[str]:
    """Text as a documentation comment, which is XML, on one line."""
    yield f"/// <summary>{escape(comment_text(text), quote=False)}</summary>"


def comment_text(text: str) -> str:
    """Text on one line for a comment. C# ends lines at more characters than others: all of them become spaces."""
    return " ".join(printable(text).split())


def quoted(text: str) -> str:
    """Text as a literal of printable characters of ASCII."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def pieces(text: str) -> Iterator[str]:
    """A text as the literals of its pieces."""
    for start in range(0, len(text), _CHUNK):
        yield quoted(text[start : start + _CHUNK])
