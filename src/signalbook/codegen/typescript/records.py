"""Records as TypeScript: interfaces, written as Prettier writes them in lines of at most 120 characters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final
from unicodedata import ucd_3_2_0

from signalbook.codegen.base import printable
from signalbook.codegen.datatypes import (
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainType,
    RecordRef,
    RecordTable,
    UnionType,
)
from signalbook.codegen.naming import pascal, unique

WIDTH: Final = 120
_TYPESCRIPT_TYPES: Final = {
    "any": "unknown", "null": "null", "boolean": "boolean", "integer": "number", "number": "number", "text": "string",
    "bytes": "string", "decimal": "string", "timestamp": "string", "date": "string", "time": "string",
}  # fmt: skip
# What types and modules have a use for, and what no interface may be called.
_TAKEN: Final = frozenset(
    {
        *("any", "unknown", "null", "boolean", "number", "string", "object", "never", "void", "symbol", "bigint"),
        *("Array", "Record", "Payload", "PayloadSchema", "Values"),
    }
)
# Pages end scripts at "</script>" and Node.js reads "//# sourceMappingURL=", both inside of literals, too.
_MARKUP: Final = re.compile(r"<(?=[/!])|(?<=[/*])[#@]")
# What tools read in comments, such as "@ts-ignore", "# sourceMappingURL=", "#__PURE__", and the end of the comment.
_COMMANDS: Final = re.compile(r"@|#(?![A-Za-z0-9])|(?<=\*)/")


def type_names(table: RecordTable) -> dict[str, str]:
    """The interface of each record by its key."""
    return unique(table.records, lambda key: pascal(table.records[key].hint, "Payload"), _TAKEN)


def interfaces(table: RecordTable, names: Mapping[str, str]) -> Iterator[str]:
    """The lines of all interfaces of a table."""
    extended = (key for key, record in table.records.items() if record.extra is not None)
    declared = unique(extended, lambda key: f"{names[key]}Members", {*_TAKEN, *names.values()})
    for key, record in table.records.items():
        yield ""
        yield from _write_interface(record, names[key], names, declared.get(key, names[key]))


def _write_interface(record: DataRecord, name: str, names: Mapping[str, str], declared: str) -> Iterator[str]:
    """Yield the lines of a record; ``declared`` is the name of the interface with its declared members."""
    yield from comment(record.description or record.hint)
    if record.extra is not None:
        # Undeclared members have a type, and declared ones are not narrower than it.
        extra = written(record.extra, names)
        yield f"export type {name} = {declared} & {{ [name: string]: unknown }};"
        yield ""
        yield from comment(f"The declared members of {name}; others are: {extra}.")
        name = declared
    if not record.members:
        yield f"export interface {name} {{}}"
        return
    yield f"export interface {name} {{"
    properties = member_names(part.name for part in record.members)
    for member in record.members:
        if member.description:
            yield from (f"  {line}" for line in comment(member.description))
        mark = "" if member.required else "?"
        yield from _declare(f"  {properties[member.name]}{mark}:", member.type, names)
    yield "}"


def member_names(names: Iterable[str]) -> dict[str, str]:
    """Names of members as an object type has them: in quotes where one of them has to be, as Prettier likes it."""
    return {name: name if _is_identifier(name) else quoted(name) for name in names}


def _is_identifier(name: str) -> bool:
    # Compilers have tables of letters of their own: all of them have those of Unicode 3, as ECMAScript 5 says.
    return name.replace("$", "_").isidentifier() and all(ucd_3_2_0.category(char) != "Cn" for char in name)


def _declare(head: str, data_type: DataType, names: Mapping[str, str]) -> Iterator[str]:
    """A declaration, its union in lines of its own where it does not fit into one."""
    text = f"{head} {written(data_type, names)};"
    branches = list(_list_branches(data_type, names))
    if len(text) <= WIDTH or len(branches) == 1:
        yield text
        return
    indent = " " * (len(head) - len(head.lstrip()) + 2)
    yield head
    yield from (f"{indent}| {branch}" for branch in branches[:-1])
    yield f"{indent}| {branches[-1]};"


def alias(name: str, data_type: DataType, names: Mapping[str, str]) -> Iterator[str]:
    """The lines of a type with a name."""
    return _declare(f"export type {name} =", data_type, names)


def written(data_type: DataType, names: Mapping[str, str]) -> str:
    """A type in one line."""
    return " | ".join(_list_branches(data_type, names))


def _list_branches(data_type: DataType, names: Mapping[str, str]) -> Iterator[str]:
    match data_type:
        case PlainType():
            yield _TYPESCRIPT_TYPES[data_type.kind]
        case ClosedSet():
            yield from (json.dumps(part) if not isinstance(part, str) else quoted(part) for part in data_type.values)
        case ListType():
            item = written(data_type.item, names)
            yield f"({item})[]" if len(list(_list_branches(data_type.item, names))) > 1 else f"{item}[]"
        case MapType():
            yield f"{{ [name: string]: {written(data_type.value, names)} }}"
        case RecordRef():
            yield names[data_type.key]
        case UnionType():
            members = [part for part in data_type.members if part != NULL]
            nulls = [part for part in data_type.members if part == NULL]
            texts = dict.fromkeys(text for part in (*members, *nulls) for text in _list_branches(part, names))
            yield from texts


def referred(data_type: DataType) -> Iterator[str]:
    """Yield the keys of the records that a type names directly, not through members of these records."""
    match data_type:
        case RecordRef():
            yield data_type.key
        case ListType():
            yield from referred(data_type.item)
        case MapType():
            yield from referred(data_type.value)
        case UnionType():
            for member in data_type.members:
                yield from referred(member)


def comment(text: str) -> Iterator[str]:
    """Text as a documentation comment on one line, whatever the text contains."""
    line = comment_text(text)
    yield f"/** {line} */" if line else "/** */"


def comment_text(text: str) -> str:
    """Text on one line for a comment: it neither ends the comment nor tells a tool anything."""
    line = escape(" ".join(printable(text).split()), quote=False)
    return _COMMANDS.sub(lambda match: f"&#{ord(match[0])};", line)


def quoted(text: str) -> str:
    """Text as a literal of printable characters, in the quotes that need fewer backslashes, as Prettier has it."""
    body = json.dumps(text, ensure_ascii=False)[1:-1]
    body = _MARKUP.sub(lambda match: _escape(match[0]), body)
    body = "".join(char if char.isprintable() else _escape(char) for char in body)
    if text.count('"') <= text.count("'"):
        return f'"{body}"'
    return "'" + body.replace('\\"', '"').replace("'", "\\'") + "'"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\u{{{code:x}}}"
