"""Records as Java: classes with public fields that Jackson reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
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

_JACKSON: Final = "com.fasterxml.jackson"
_NODE: Final = f"{_JACKSON}.databind.JsonNode"
_JAVA_TYPES: Final = {
    "any": _NODE, "null": _NODE, "boolean": "Boolean", "integer": "Long", "number": "Double", "text": "String",
    "bytes": "byte[]", "decimal": "String", "timestamp": "String", "date": "String", "time": "String",
}  # fmt: skip
_CHUNK: Final = 10_000
"""Characters of one literal: a class file has no longer ones than 65,535 bytes."""
KEYWORDS: Final = frozenset(
    {
        *("_", "abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const", "continue"),
        *("default", "do", "double", "else", "enum", "extends", "false", "final", "finally", "float", "for", "goto"),
        *("if", "implements", "import", "instanceof", "int", "interface", "long", "native", "new", "null", "package"),
        *("private", "protected", "public", "return", "short", "static", "strictfp", "super", "switch", "this"),
        *("synchronized", "throw", "throws", "transient", "true", "try", "void", "volatile", "while", "var", "yield"),
        *("record", "sealed", "permits", "when"),
    }
)
# Names of java.lang that generated classes write; all others are written in full.
CLASSES: Final = frozenset(
    {"Boolean", "Double", "Integer", "Long", "Object", "Override", "String", "SCHEMA", "DEFINITION"}
)


_MARKUP: Final = re.compile(r"[\\@{*]")


def class_names(table: RecordTable, holder: str) -> dict[str, str]:
    """The class of each record by its key, inside of the class ``holder``."""
    return unique(table.records, lambda key: pascal(table.records[key].hint, "Payload"), {*CLASSES, holder})


def camel(text: str, fallback: str = "value") -> str:
    """A name as a field or a parameter has it."""
    name = pascal(text, fallback)
    name = name[:1].lower() + name[1:]
    return f"{name}_" if name in KEYWORDS else name


def field_names(names: Iterable[str], reserved: Collection[str]) -> dict[str, str]:
    """A field or parameter for each name."""
    # The roots of names that are written in full: a variable of such a name would stand for it.
    return unique(names, camel, (*reserved, "com", "java", "extraMembers"))


def classes(table: RecordTable, names: Mapping[str, str], root: str) -> Iterator[str]:
    """The lines of all classes of a table; ``root`` is the first part of the package."""
    for key, record in table.records.items():
        yield ""
        yield from (f"  {line}" if line else "" for line in _write_class(record, names[key], names, root))


def _write_class(record: DataRecord, name: str, names: Mapping[str, str], root: str) -> Iterator[str]:
    yield from comment(record.description or record.hint)
    yield f"@{_JACKSON}.annotation.JsonInclude({_JACKSON}.annotation.JsonInclude.Include.NON_NULL)"
    yield f"public static final class {name} {{"
    fields = field_names((part.name for part in record.members), (root,))
    for place, member in enumerate(record.members):
        if place:
            yield ""
        yield from (f"  {line}" for line in _write_field(member, fields[member.name], names))
    if record.extra is not None:
        yield "  /** Members that the schema does not name. */"
        yield f"  @{_JACKSON}.annotation.JsonAnySetter"
        yield f"  @{_JACKSON}.annotation.JsonAnyGetter"
        kind = written(record.extra, names)
        yield f"  public java.util.Map<String, {kind}> extraMembers = new java.util.LinkedHashMap<>();"
    yield "}"


def _write_field(member: RecordMember, field: str, names: Mapping[str, str]) -> Iterator[str]:
    yield from comment(_describe_member(member))
    yield f"@{_JACKSON}.annotation.JsonProperty({quoted(member.name)})"
    if member.required and nullable(member.type):
        yield f"@{_JACKSON}.annotation.JsonInclude({_JACKSON}.annotation.JsonInclude.Include.ALWAYS)"
    yield f"public {written(member.type, names)} {field};"


def _describe_member(member: RecordMember) -> str:
    needed = "Required" if member.required else "Optional"
    return f"{member.description.rstrip('.')}. {needed}." if member.description else f"{needed}."


def written(data_type: DataType, names: Mapping[str, str]) -> str:
    """A type; what may be of several is a ``JsonNode``."""
    match data_type:
        case PlainType():
            return _JAVA_TYPES[data_type.kind]
        case ClosedSet():
            kinds = {type(part) for part in data_type.values}
            return _CLOSED.get(next(iter(kinds)), _NODE) if len(kinds) == 1 else _NODE
        case ListType():
            return f"java.util.List<{written(data_type.item, names)}>"
        case MapType():
            return f"java.util.Map<String, {written(data_type.value, names)}>"
        case RecordRef():
            return names[data_type.key]
        case UnionType():
            types = {written(part, names) for part in data_type.members if part != NULL}
            return types.pop() if len(types) == 1 else _NODE


_CLOSED: Final[Mapping[type, str]] = {str: "String", int: "Long", bool: "Boolean"}


def comment(text: str) -> Iterator[str]:
    """Text as a documentation comment on one line, whatever the text contains."""
    yield f"/** {comment_text(text)} */"


def comment_text(text: str) -> str:
    """Text on one line for a comment: it neither ends the comment nor is markup of Javadoc.

    A backslash is not safe either: Java reads ``\\u002a`` as a character before it looks for the end of a comment.
    """
    line = escape(" ".join(printable(text).split()), quote=False)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", line)


def quoted(text: str) -> str:
    """Text as a literal of printable characters of ASCII."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def pieces(text: str) -> Iterator[str]:
    """A text as the literals of its pieces."""
    for start in range(0, len(text), _CHUNK):
        yield quoted(text[start : start + _CHUNK])
