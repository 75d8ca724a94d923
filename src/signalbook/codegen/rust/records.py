"""Records as Rust: structs and enums, written as rustfmt writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from signalbook.codegen.base import printable
from signalbook.codegen.datatypes import (
    ANY,
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
)
from signalbook.codegen.naming import pascal, underscored, unique

WIDTH: Final = 100
_CALL_WIDTH: Final = 60
_LITERAL_WIDTH: Final = 18
_MAX_RAW_MARKS: Final = 255
"""The most number signs that a raw literal may begin with."""
MOST_ARGUMENTS: Final = 7
"""More are too many for Clippy."""
_RUST_TYPES: Final = {
    "any": "Value", "null": "()", "boolean": "bool", "integer": "i64", "number": "f64", "text": "String",
    "bytes": "Vec<u8>", "decimal": "String", "timestamp": "String", "date": "String", "time": "String",
}  # fmt: skip
KEYWORDS: Final = frozenset(
    {
        *("abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn"),
        *("else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro"),
        *("match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct"),
        *("super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while"),
        "yield",
    }
)
NOT_RAW: Final = frozenset({"crate", "mod", "self", "super"})
"""Keywords that are no names even so, and the name of the file in which a folder declares its modules."""
# What types of payloads are made of, and what no other type may be called.
_TAKEN: Final = frozenset(
    {
        *("BTreeMap", "Box", "Clone", "Copy", "Debug", "Default", "Eq", "Err", "Finding", "Hash", "None", "Ok"),
        *("Option", "PartialEq", "Path", "Payload", "PayloadSchema", "Result", "Self", "Some", "String", "Value"),
        *("Vec", "bool", "f64", "i64", "str"),
    }
)
Lines = Iterator[str]
Presence = Literal["required", "optional"]


def identifier(name: str) -> str:
    """A name where Rust has keywords."""
    if name in NOT_RAW:
        return f"{name}_"
    return f"r#{name}" if name in KEYWORDS else name


def camel(text: str, fallback: str) -> str:
    """A name as a type or a variant has it."""
    return pascal(text, fallback).rstrip("_")


def field_names(names: Iterable[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """A field or parameter for each name."""
    fields = unique(names, lambda name: underscored(name, "value"), reserved)
    return {name: identifier(field) for name, field in fields.items()}


@dataclass(frozen=True, kw_only=True)
class DocumentNames:
    """The names of the types of one document.

    ``records`` are structs by key, ``sets`` enums by the name of their member and their values. ``boxed`` are pairs of
    keys: a record and one that it contains, perhaps through others, and that contains it.
    """

    format: str
    records: Mapping[str, str]
    sets: Mapping[tuple[str, tuple[str, ...]], str]
    boxed: frozenset[tuple[str, str]]


def document_names(format: str, table: RecordTable, roots: Mapping[str, DataType]) -> DocumentNames:
    """The names of all types of a document; ``roots`` are payloads by xid."""
    records = unique(table.records, lambda key: camel(table.records[key].hint, "Payload"), _TAKEN, "")
    places: dict[tuple[str, tuple[str, ...]], None] = {}
    for record in table.records.values():
        for member in record.members:
            places |= dict.fromkeys((member.name, texts) for texts in _find_sets(member.type))
        if record.extra is not None:
            places |= dict.fromkeys(("member", texts) for texts in _find_sets(record.extra))
    for kind in roots.values():
        places |= dict.fromkeys(("payload value", texts) for texts in _find_sets(kind))
    by_place = {str(place): texts for place, texts in enumerate(places)}
    names = unique(by_place, lambda place: camel(by_place[place][0], "Value"), {*_TAKEN, *records.values()}, "")
    sets = {texts: names[place] for place, texts in by_place.items()}
    return DocumentNames(format=format, records=records, sets=sets, boxed=_find_boxed(table))


def _list_texts(closed_set: ClosedSet) -> tuple[str, ...] | None:
    """Return the values of a set of texts; None for one of other values."""
    texts = tuple(dict.fromkeys(value for value in closed_set.values if isinstance(value, str)))
    return texts if texts and all(isinstance(value, str) for value in closed_set.values) else None


def _find_sets(data_type: DataType) -> Iterator[tuple[str, ...]]:
    """Yield the closed sets that a type has an enum for."""
    match data_type:
        case ClosedSet():
            texts = _list_texts(data_type)
            if texts is not None:
                yield texts
        case ListType():
            yield from _find_sets(data_type.item)
        case MapType():
            yield from _find_sets(data_type.value)
        case UnionType():
            only = _find_only(data_type)
            if only is not None:
                yield from _find_sets(only)


def _find_only(union_type: UnionType) -> DataType | None:
    """Return the one type beside null; None if there are several."""
    members = [member for member in union_type.members if member != NULL]
    return members[0] if len(members) == 1 else None


def _find_contained(data_type: DataType) -> str | None:
    """Return the key of the record that a value of the type has inside of it, not in a list or a map."""
    if isinstance(data_type, UnionType):
        only = _find_only(data_type)
        return None if only is None else _find_contained(only)
    return data_type.key if isinstance(data_type, RecordRef) else None


def _find_boxed(table: RecordTable) -> frozenset[tuple[str, str]]:
    edges = {
        key: list(
            dict.fromkeys(
                inner_key for member in record.members if (inner_key := _find_contained(member.type)) is not None
            )
        )
        for key, record in table.records.items()
    }
    component = _find_components(edges)
    return frozenset(
        (key, other) for key, inner_keys in edges.items() for other in inner_keys if component[key] == component[other]
    )


def _find_components(edges: Mapping[str, list[str]]) -> dict[str, int]:
    """Return the strongly connected component of each node (Tarjan), without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    stack: list[str] = []
    for start in edges:
        waiting = [] if start in order else [(start, iter(edges[start]))]
        while waiting:
            node, neighbours = waiting[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                stack.append(node)
            following = next(neighbours, None)
            if following is None:
                waiting.pop()
                if waiting:
                    low[waiting[-1][0]] = min(low[waiting[-1][0]], low[node])
                if low[node] == order[node]:
                    while stack and component.get(node) is None:
                        component[stack.pop()] = order[node]
            elif following not in order:
                waiting.append((following, iter(edges[following])))
            elif following not in component:
                low[node] = min(low[node], order[following])
    return component


def written(data_type: DataType, names: DocumentNames, hint: str, inside: str = "", scope: str = "") -> str:
    """A type; what may be of several is a ``Value``.

    ``hint`` is the name of the member, ``inside`` the key of its record, ``scope`` goes before names of the document.
    """

    def of(part: DataType, inside: str = "") -> str:
        return written(part, names, hint, inside, scope)

    match data_type:
        case PlainType():
            return _RUST_TYPES[data_type.kind]
        case ClosedSet():
            texts = _list_texts(data_type)
            if texts is not None:
                return scope + names.sets[hint, texts]
            kinds = {type(value) for value in data_type.values}
            return {frozenset({int}): "i64", frozenset({bool}): "bool"}.get(frozenset(kinds), "Value")
        case ListType():
            return f"Vec<{of(data_type.item)}>"
        case MapType():
            return f"BTreeMap<String, {of(data_type.value)}>"
        case RecordRef():
            name = scope + names.records[data_type.key]
            return f"Box<{name}>" if (inside, data_type.key) in names.boxed else name
        case UnionType():
            only = _find_only(data_type)
            if only is None or only == ANY:
                return "Value"
            return f"Option<{of(only, inside)}>"


def types(table: RecordTable, names: DocumentNames) -> Lines:
    """The lines of all types of a document."""
    for key, record in table.records.items():
        yield ""
        yield from _write_struct(record, key, names)
    for (member, texts), name in names.sets.items():
        yield ""
        yield from _write_enum(member, texts, name)


def _write_struct(record: DataRecord, key: str, names: DocumentNames) -> Lines:
    name = names.records[key]
    fields = field_names((part.name for part in record.members), ("extra_members",))
    declared = {part.name: _declare_member(part, key, names) for part in record.members}
    required = [part.name for part in record.members if not declared[part.name][1].startswith("Option<")]
    yield from comment(record.description or record.hint)
    default = "" if required else "Default, "
    yield f"#[derive(Clone, Debug, {default}PartialEq)]"
    if not record.members and record.extra is None:
        yield f"pub struct {name} {{}}"
    else:
        yield f"pub struct {name} {{"
        for member in record.members:
            if member.description:
                yield from comment(member.description, "    ")
            yield from _write_field(f"    pub {fields[member.name]}:", declared[member.name][1])
        if record.extra is not None:
            yield "    /// Members that the schema does not name."
            yield from _write_field("    pub extra_members:", _write_extra_type(record.extra, names))
        yield "}"
    if 0 < len(required) <= MOST_ARGUMENTS and len(required) < len(record.members):
        yield ""
        yield from _write_constructor(record, name, required, fields, {part: declared[part][1] for part in declared})
    yield ""
    yield from _write_members(record, name, fields, {part: declared[part][0] for part in declared})


def _declare_member(member: RecordMember, key: str, names: DocumentNames) -> tuple[Presence, str]:
    """Return whether a member is always present, and the type that keeps null and absent apart.

    In Avro nothing is absent, and in Protobuf nothing is null.
    """
    text = written(member.type, names, member.name, key)
    if names.format == "avro" and text.startswith("Option<"):
        return "required", text
    if names.format == "protobuf":
        text = text.removeprefix("Option<").removesuffix(">") if text.startswith("Option<") else text
    return ("required", text) if member.required else ("optional", f"Option<{text}>")


def _write_field(head: str, kind: str) -> Lines:
    if len(f"{head} {kind},") <= WIDTH:
        yield f"{head} {kind},"
        return
    yield head
    yield f"        {kind},"


def _write_constructor(
    record: DataRecord, name: str, required: list[str], fields: Mapping[str, str], kinds: Mapping[str, str]
) -> Lines:
    yield f"impl {name} {{"
    yield "    /// With all that is required, and nothing else."
    yield "    #[must_use]"
    parameters = [f"{fields[part]}: {kinds[part]}" for part in required]
    yield from signature("    pub fn new", parameters, "Self")
    values = [fields[part.name] + ("" if part.name in required else ": None") for part in record.members]
    if record.extra is not None:
        values.append("extra_members: BTreeMap::new()")
    if len(", ".join(values)) <= _LITERAL_WIDTH:
        yield f"        Self {{ {', '.join(values)} }}"
    else:
        yield "        Self {"
        yield from (f"            {part}," for part in values)
        yield "        }"
    yield "    }"
    yield "}"


def signature(head: str, parameters: list[str], result: str) -> Lines:
    """The first lines of a function."""
    text = f"{head}({', '.join(parameters)}) -> {result} {{"
    if len(text) <= WIDTH:
        yield text
        return
    indent = " " * (len(head) - len(head.lstrip()))
    yield f"{head}("
    yield from (f"{indent}    {parameter}," for parameter in parameters)
    yield f"{indent}) -> {result} {{"


def call(head: str, arguments: list[str], tail: str) -> Lines:
    """A call in one line, or its arguments in lines of their own."""
    text = ", ".join(arguments)
    if len(text) <= _CALL_WIDTH and len(f"{head}({text}){tail}") <= WIDTH:
        yield f"{head}({text}){tail}"
        return
    indent = " " * (len(head) - len(head.lstrip()))
    yield f"{head}("
    yield from (f"{indent}    {argument}," for argument in arguments)
    yield f"{indent}){tail}"


def _write_members(record: DataRecord, name: str, fields: Mapping[str, str], presence: Mapping[str, Presence]) -> Lines:
    """Return the JSON names of the members. A formatter does not change such a macro."""
    if not record.members and record.extra is None:
        yield f"record! {{ {name} {{}} }}"
        return
    yield "record! {"
    yield f"    {name} {{"
    for member in record.members:
        yield f"        {presence[member.name]} {fields[member.name]} = {quoted(member.name)},"
    if record.extra is not None:
        yield "        ..extra_members"
    yield "    }"
    yield "}"


def _write_enum(member: str, texts: tuple[str, ...], name: str) -> Lines:
    variants = unique(texts, lambda text: camel(text, "Value" if text else "Empty"), ("Self",), "")
    yield from comment(f"A closed set of texts: {member}.")
    yield "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]"
    yield f"pub enum {name} {{"
    yield from (f"    {variants[choice]}," for choice in texts)
    yield "}"
    yield ""
    yield "closed_set! {"
    yield f"    {name} {{"
    yield from (f"        {variants[choice]} = {quoted(choice)}," for choice in texts)
    yield "    }"
    yield "}"


def written_types(table: RecordTable, names: DocumentNames) -> Iterator[str]:
    """Yield the types of all members of a document."""
    for key, record in table.records.items():
        yield from (_declare_member(member, key, names)[1] for member in record.members)
        if record.extra is not None:
            yield _write_extra_type(record.extra, names)


def _write_extra_type(data_type: DataType, names: DocumentNames) -> str:
    return f"BTreeMap<String, {written(data_type, names, 'member')}>"


def imports(types: Iterable[str]) -> Lines:
    """The imports of code with these types."""
    code = "\n".join(types)
    if re.search(r"\bBTreeMap\b", code):
        yield "use std::collections::BTreeMap;"
        yield ""
    if re.search(r"(?<!::)\bValue\b", code):
        yield "use serde_json::Value;"
        yield ""


_MARKUP: Final = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>~"})


def comment(text: str, indent: str = "", mark: str = "///") -> Lines:
    """Text as a documentation comment on one line, whatever the text contains.

    Markdown is escaped: rustdoc compiles blocks of code in documentation, and ``cargo test`` runs them.
    """
    line = comment_text(text).translate(_MARKUP)
    if line:
        yield f"{indent}{mark} {line}"


def comment_text(text: str) -> str:
    """Text on one line for a comment."""
    return " ".join(printable(text).split())


def quoted(text: str) -> str:
    """Text as a literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in escaped) + '"'


def raw(text: str) -> str:
    """Text of many quotes as a literal."""
    marks = "#" * (1 + max((len(marks_found) for marks_found in re.findall(r'"(#*)', text)), default=0))
    if len(marks) > _MAX_RAW_MARKS or not text.isprintable():
        return quoted(text)
    return f'r{marks}"{text}"{marks}'
