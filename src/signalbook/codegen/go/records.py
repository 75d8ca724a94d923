"""Records as Go: structs with tags, written as gofmt writes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import Final

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
    nullable,
    union,
)
from signalbook.codegen.naming import unique, words

WIDTH: Final = 120
_GO_TYPES: Final = {
    "any": "any", "null": "any", "boolean": "bool", "integer": "int64", "number": "float64", "text": "string",
    "bytes": "[]byte", "decimal": "string", "timestamp": "string", "date": "string", "time": "string",
}  # fmt: skip
KEYWORDS: Final = frozenset(
    {
        *("break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go"),
        *("goto", "if", "import", "interface", "map", "package", "range", "return", "select", "struct", "switch"),
        *("type", "var"),
    }
)
# As golint has them, and those who read Go expect them.
_INITIALISMS: Final = frozenset(
    {
        *(
            "ACL",
            "API",
            "ASCII",
            "CPU",
            "CSS",
            "DNS",
            "EOF",
            "GUID",
            "HTML",
            "HTTP",
            "HTTPS",
            "ID",
            "IP",
            "JSON",
            "RAM",
        ),
        *("RPC", "SHA", "SLA", "SMTP", "SQL", "SSH", "TCP", "TLS", "TTL", "UDP", "UI", "UID", "URI", "URL", "UTF8"),
        *("UUID", "VM", "XML", "XSRF", "XSS"),
    }
)
_EXTRA: Final = "ExtraMembers"
# Names that encoding/json takes from a tag; of letters and digits beyond ASCII each version of Go has its own.
_JSON_NAME: Final = re.compile(r"(?!-$)[A-Za-z0-9!#$%&()*+\-./:;<=>?@\[\]^_{|}~ ]+")
# Tools read build constraints in any comment, and gofmt makes other quotes of two in a row.
_COMMANDS: Final = re.compile(r"(?<=go:)(?=build)|(?<=\+)(?=build)|(?<=`)(?=`)|(?<=')(?=')")
_SIMPLE: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}
_INT64_END: Final = 2**63


def exported(text: str, fallback: str = "Value") -> str:
    """A name that other packages see, such as ``OrderID`` of ``order_id``."""
    name = "".join(
        word.upper() if word.upper() in _INITIALISMS else word[:1].upper() + word[1:] for word in words(text)
    )
    name = name or fallback
    return f"N{name}" if name[:1].isdigit() else name


def unexported(text: str, fallback: str = "value") -> str:
    """A name as a parameter has it, such as ``orderID``."""
    parts = words(text)
    name = "".join([*(part.lower() for part in parts[:1]), exported(" ".join(parts[1:]), "")]) if parts else fallback
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if name in KEYWORDS else name


Sets = Mapping[ClosedSet, str]


@dataclass(frozen=True, slots=True)
class TypeNames:
    """The names of the types of one document.

    ``records`` has the types of records by their keys, ``sets`` those of closed sets of texts by record and member, and
    ``constants`` the values of such a type by their texts.
    """

    schema: str
    records: Mapping[str, str]
    sets: Mapping[tuple[str, str], Sets] = field(default_factory=dict)
    constants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def within(self, package: str) -> TypeNames:
        """Return the names as another package writes them."""
        return TypeNames(f"{package}.{self.schema}", {key: f"{package}.{name}" for key, name in self.records.items()})


@dataclass(frozen=True, slots=True)
class _SetPlace:
    """A closed set of texts in a member."""

    document: str
    record: str
    member: str
    kind: ClosedSet


def type_names(documents: Mapping[str, RecordTable]) -> dict[str, TypeNames]:
    """The names in the package that has the types of all documents.

    A type that is called alike in several documents has the name of its document before its own.
    """
    records = _record_names(documents)
    schemas = unique(documents, lambda name: f"{exported(name)}Schema", records.values(), "")
    places = _find_set_places(documents)
    kinds = unique(
        places,
        lambda name: records[_join_parts(places[name].document, places[name].record)] + exported(places[name].member),
        (*records.values(), *schemas.values()),
        "",
    )
    texts = {
        _join_parts(kinds[name], str(text)): str(text) for name, place in places.items() for text in place.kind.values
    }
    constants = unique(
        texts,
        lambda name: name.partition("\0")[0] + exported(texts[name], "Value" if texts[name] else "Empty"),
        (*records.values(), *schemas.values(), *kinds.values()),
        "",
    )
    sets: dict[str, dict[tuple[str, str], dict[ClosedSet, str]]] = {document: {} for document in documents}
    values: dict[str, dict[str, dict[str, str]]] = {document: {} for document in documents}
    for name, place in places.items():
        sets[place.document].setdefault((place.record, place.member), {})[place.kind] = kinds[name]
        values[place.document][kinds[name]] = {
            str(text): constants[_join_parts(kinds[name], str(text))] for text in place.kind.values
        }
    return {
        document: TypeNames(
            schemas[document],
            {key: records[_join_parts(document, key)] for key in table.records},
            sets[document],
            values[document],
        )
        for document, table in documents.items()
    }


def _join_parts(*parts: str) -> str:
    return "\0".join(parts)


def _record_names(documents: Mapping[str, RecordTable]) -> dict[str, str]:
    hints = {
        _join_parts(document, key): (document, exported(record.hint, "Payload"))
        for document, table in documents.items()
        for key, record in table.records.items()
    }
    users = Counter(hint for _, hint in {(document, hint.lower()) for document, hint in hints.values()})

    def name(thing: str) -> str:
        document, hint = hints[thing]
        prefix = exported(document, "Payload")
        if users[hint.lower()] == 1:
            return hint
        return prefix if prefix.lower().startswith(hint.lower()) else prefix + hint

    return unique(hints, name, (), "")


def _find_set_places(documents: Mapping[str, RecordTable]) -> dict[str, _SetPlace]:
    return {
        repr((document, key, member.name, place)): _SetPlace(document, key, member.name, texts)
        for document, table in documents.items()
        for key, record in table.records.items()
        for member in record.members
        for place, texts in enumerate(dict.fromkeys(_find_text_sets(member.type)))
    }


def _find_text_sets(data_type: DataType) -> Iterator[ClosedSet]:
    match data_type:
        case ClosedSet() if _is_of(data_type, str):
            yield data_type
        case ListType():
            yield from _find_text_sets(data_type.item)
        case MapType():
            yield from _find_text_sets(data_type.value)
        case UnionType():
            members = [member for member in data_type.members if member != NULL]
            yield from _find_text_sets(members[0]) if len(members) == 1 else ()


def _is_of(closed_set: ClosedSet, of: type) -> bool:
    return all(type(value) is of for value in closed_set.values)


def with_enums(table: RecordTable) -> RecordTable:
    """The types of Protobuf with open enumerations as closed sets: a number that has no name is its digits."""
    return RecordTable(
        {
            key: replace(
                record, members=tuple(replace(member, type=_close_enum(member.type)) for member in record.members)
            )
            for key, record in table.records.items()
        }
    )


def _close_enum(data_type: DataType) -> DataType:
    match data_type:
        case ListType():
            return ListType(_close_enum(data_type.item))
        case MapType():
            return MapType(_close_enum(data_type.value))
        case UnionType() if PlainType("integer") in data_type.members:
            return next((member for member in data_type.members if isinstance(member, ClosedSet)), data_type)
    return data_type


def types(table: RecordTable, names: TypeNames, has_null: bool) -> Iterator[str]:
    """The lines of all types of a table.

    Without ``has_null``, types do not tell a null from an absent optional member, as in Protobuf.
    """
    for key, record in table.records.items():
        yield ""
        yield from _write_structure(key, record, names, has_null)
        for member in record.members:
            for kind in names.sets.get((key, member.name), {}).values():
                yield ""
                yield from _write_closed_set(kind, names.constants[kind], f"{member.name} of {names.records[key]}")


def _write_structure(key: str, record: DataRecord, names: TypeNames, has_null: bool) -> Iterator[str]:
    name = names.records[key]
    yield from comment(
        f"{name}: {record.description}" if record.description else f"{name} is a type of its schema: {record.hint}."
    )
    if not record.members and record.extra is None:
        yield f"type {name} struct{{}}"
        return
    yield f"type {name} struct {{"
    fields = unique((part.name for part in record.members), exported, (_EXTRA,), "")
    block: list[tuple[str, ...]] = []
    for member in record.members:
        if member.description:
            yield from aligned(block)
            block = []
            yield from comment(f"{fields[member.name]}: {member.description}", "\t")
        block.append(
            (fields[member.name], *_write_field(member, names, names.sets.get((key, member.name), {}), has_null))
        )
    yield from aligned(block)
    if record.extra is not None:
        yield from comment(f"{_EXTRA} are those that the schema does not name.", "\t")
        yield f'\t{_EXTRA} map[string]{_write_item(record.extra, names, {})} `json:"-" members:"others"`'
    yield "}"


def _write_closed_set(name: str, constants: Mapping[str, str], where: str) -> Iterator[str]:
    yield from comment(f"{name} is {where}: one of a closed set of texts.")
    yield f"type {name} string"
    yield ""
    yield from comment(f"The values of {name}.")
    yield "const ("
    yield from aligned([(constant, name, f"= {quoted(text)}") for text, constant in constants.items()])
    yield ")"


def _write_field(member: RecordMember, names: TypeNames, sets: Sets, has_null: bool) -> tuple[str, str]:
    """Return the type of a field and its tag.

    What may be absent or null is a pointer, what may be both an ``Optional``; a list or a map that is absent is nil.
    """
    can_be_null = nullable(member.type) and (has_null or member.required)
    base = _write_type(without_null(member.type), names, sets)
    several = base.startswith(("[]", "map["))
    if not member.required and can_be_null:
        return f"signalbook.Optional[{base}]", _write_tag(member.name, "omitzero")
    if not member.required:
        pointed = base if several or base == "any" else f"*{base}"
        return pointed, _write_tag(member.name, "omitzero" if several else "omitempty")
    if can_be_null and several:
        return f"signalbook.Optional[{base}]", _write_tag(member.name, "")
    # Records are pointers, too: those that contain themselves end so, and those that were not given are findings.
    pointer = base != "any" and (can_be_null or isinstance(without_null(member.type), RecordRef))
    return f"*{base}" if pointer else base, _write_tag(member.name, "")


def _write_tag(name: str, option: str) -> str:
    if _JSON_NAME.fullmatch(name):
        return f'`json:"{name}{option and f",{option}"}"`'
    tag = f'json:"-" member:{quoted(name)}' + (option and ' optional:"true"')
    return f"`{tag}`" if "`" not in tag else quoted(tag)


def without_null(data_type: DataType) -> DataType:
    """The type of what is not null."""
    if data_type == NULL:
        return ANY
    return (
        union(member for member in data_type.members if member != NULL)
        if isinstance(data_type, UnionType)
        else data_type
    )


def written(data_type: DataType, names: TypeNames) -> str:
    """The type of a payload."""
    return _write_item(data_type, names, {})


def _write_item(data_type: DataType, names: TypeNames, sets: Sets) -> str:
    """Return the type of what is always there."""
    base = _write_type(without_null(data_type), names, sets)
    if base == "any" or not nullable(data_type):
        return base
    return f"signalbook.Optional[{base}]" if base.startswith(("[]", "map[")) else f"*{base}"


def _write_type(data_type: DataType, names: TypeNames, sets: Sets) -> str:
    """Return a type without null; what may be of several is ``any``."""
    match data_type:
        case PlainType():
            return _GO_TYPES[data_type.kind]
        case ClosedSet():
            return _write_closed(data_type, sets)
        case ListType():
            return f"[]{_write_item(data_type.item, names, sets)}"
        case MapType():
            return f"map[string]{_write_item(data_type.value, names, sets)}"
        case RecordRef():
            return names.records[data_type.key]
        case UnionType():
            types = {_write_type(member, names, {}) for member in data_type.members}
            return types.pop() if len(types) == 1 else "any"


def _write_closed(closed_set: ClosedSet, sets: Sets) -> str:
    if _is_of(closed_set, str):
        return sets.get(closed_set, "string")
    if _is_of(closed_set, int) and all(-_INT64_END <= int(value) < _INT64_END for value in closed_set.values):
        return "int64"
    return "bool" if _is_of(closed_set, bool) else "any"


def comment(text: str, indent: str = "") -> Iterator[str]:
    """Text as comments, whatever the text contains; its first word is no mark that gofmt knows."""
    yield from (f"{indent}// {line}" for line in wrap(comment_text(text), WIDTH - 8, break_on_hyphens=False))


def comment_text(text: str) -> str:
    """Text on one line for a comment, which no tool takes for a build constraint."""
    return _COMMANDS.sub(" ", " ".join(printable(text).split()))


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a block, its columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "\t" + " ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])


def quoted(text: str) -> str:
    """Text as a literal with escapes."""
    return '"' + "".join(_SIMPLE.get(char) or (char if char.isprintable() else _escape(char)) for char in text) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def raw(text: str) -> str:
    """Text as a literal as it is, if it may be in one and all of it can be seen."""
    return f"`{text}`" if text.isprintable() and "`" not in text else quoted(text)
