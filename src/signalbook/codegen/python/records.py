"""Records as Python classes: dataclasses, structures of msgspec, models of pydantic."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from typing import Final, Literal

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
from signalbook.codegen.naming import pascal, snake, unique

Style = Literal["dataclass", "msgspec", "pydantic"]
_PYTHON_TYPES: Final = {
    "any": "_t.Any", "null": "None", "boolean": "bool", "integer": "int", "number": "int | float", "text": "str",
    "bytes": "bytes", "decimal": "_decimal.Decimal", "timestamp": "_datetime.datetime", "date": "_datetime.date",
    "time": "_datetime.time",
}  # fmt: skip
# Names with an underscore are free: no field begins with one, so that no annotation means a field.
_IMPORTS: Final = (
    "import dataclasses as _dataclasses",
    "import datetime as _datetime",
    "import decimal as _decimal",
    "import typing as _t",
    "import msgspec as _msgspec",
    "import pydantic as _pydantic",
)
_FORBID: Final = "frozen=True, strict=True, extra='forbid', arbitrary_types_allowed=True"
_HEADS: Final[Mapping[Style, tuple[str, str, str]]] = {
    "dataclass": ("@_dataclasses.dataclass(frozen=True, slots=True, kw_only=True)\n", "", ""),
    "msgspec": ("", "(_msgspec.Struct, frozen=True, kw_only=True)", ""),
    "pydantic": ("", "(_pydantic.BaseModel)", f"    model_config = _pydantic.ConfigDict({_FORBID})\n"),
}
"""Of a class: what stands before it, its bases, and its first lines."""
# What annotations and classes have a use for, and what instances of a style have for themselves.
_TAKEN: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "str", "model_config", "type"})
_PYDANTIC: Final = frozenset(
    {"construct", "copy", "dict", "from_orm", "json", "parse_file", "parse_obj", "parse_raw", "schema", "schema_json",
     "update_forward_refs", "validate"}
)  # fmt: skip
_BUILTINS: Final = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedTypes:
    """A module of types: its source, and how other modules write a type of it, behind ``prefix``."""

    source: str
    names: Mapping[str, str]

    def annotation(self, data_type: DataType, prefix: str = "") -> str:
        return _write_annotation(data_type, {key: prefix + name for key, name in self.names.items()})


def emit(table: RecordTable, style: Style) -> EmittedTypes:
    """The module of all records of a table; without its header."""
    names = unique(table.records, lambda key: _choose_class_name(table.records[key].hint))
    attributes = {key: _Attributes.of(record, names.values(), style) for key, record in table.records.items()}
    classes = [_write_class(record, names[key], names, attributes[key], style) for key, record in table.records.items()]
    wires = {
        names[key]: renamed
        for key, attributes_of_class in attributes.items()
        if (renamed := attributes_of_class.renamed)
    }
    extras = {
        names[key]: attributes_of_class.extra
        for key, attributes_of_class in attributes.items()
        if attributes_of_class.extra
    }
    parts = [*_IMPORTS, "", *classes, _write_constant("WIRE_NAMES", wires, "_t.Mapping[str, _t.Mapping[str, str]]")]
    parts.append(_write_constant("EXTRA_MEMBERS", extras, "_t.Mapping[str, str]"))
    return EmittedTypes(source="\n".join(parts), names=names)


def _write_constant(name: str, value: object, kind: str) -> str:
    return f"{name}: _t.Final[{kind}] = {value!r}\n"


def _choose_class_name(hint: str) -> str:
    name = pascal(hint, "Record")
    return f"{name}_" if name in _BUILTINS else name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributes:
    """The attribute of each member by its name, and that of all others, ``""`` if there may be none."""

    names: Mapping[str, str]
    extra: str

    @classmethod
    def of(cls, record: DataRecord, classes: Iterable[str], style: Style) -> _Attributes:
        """Return the attributes of a record in a module of these classes."""
        reserved = {*_TAKEN, *classes, *(_PYDANTIC if style == "pydantic" else ())}
        members = [member.name for member in record.members]
        # Those that keep their names come first, so that none of the others takes one. Case tells attributes apart.
        names = {name: name for name in members if _is_plain(name, reserved, style)}
        used = {*reserved, *names}
        # What XML elements have beside their attributes is their value.
        names |= {
            name: _choose_free(snake(name, "value" if name == "$" else "field"), used)
            for name in members
            if name not in names
        }
        return cls(names=names, extra="" if record.extra is None else _choose_free("extra_members", used))

    @property
    def renamed(self) -> dict[str, str]:
        """The names of members by their attributes, where they differ."""
        return {attribute: name for name, attribute in self.names.items() if attribute != name}


def _choose_free(stem: str, used: set[str]) -> str:
    name = stem if stem not in used else f"{stem}_"
    number = 1
    while name in used:
        number += 1
        name = f"{stem}_{number}"
    used.add(name)
    return name


def _is_plain(name: str, reserved: set[str], style: Style) -> bool:
    legal = name.isascii() and name.isidentifier() and not iskeyword(name) and name[0] != "_" and name not in reserved
    return legal and not (style == "pydantic" and name.startswith("model_"))


def _write_class(record: DataRecord, name: str, names: Mapping[str, str], attributes: _Attributes, style: Style) -> str:
    before, base, config = _HEADS[style]
    lines = [f"{before}class {name}{base}:", f"    {docstring(record.description or record.hint)}", config]
    lines += [line for member in record.members for line in _write_member(member, attributes.names[member.name], names)]
    if record.extra is not None:
        lines.append(f"    {attributes.extra}: dict[str, {_write_annotation(record.extra, names)}] | None = None")
    return "\n".join(lines) + "\n"


def _write_member(member: RecordMember, attribute: str, names: Mapping[str, str]) -> Iterator[str]:
    kind = _write_annotation(member.type, names)
    if member.required:
        yield f"    {attribute}: {kind}"
    elif nullable(member.type):
        # Absent and null are two things.
        yield f"    {attribute}: {kind} | _msgspec.UnsetType = _msgspec.UNSET"
    else:
        yield f"    {attribute}: {kind} | None = None"
    if member.description:
        yield f"    {docstring(member.description)}"


def docstring(text: str) -> str:
    """Text as a docstring, on one line, whatever is in it."""
    line = " ".join(printable(text).split())
    return '"""' + line.replace("\\", "\\\\").replace('"', '\\"') + '"""'


def _write_annotation(data_type: DataType, names: Mapping[str, str]) -> str:
    write = partial(_write_annotation, names=names)
    match data_type:
        case PlainType():
            return _PYTHON_TYPES[data_type.kind]
        case ClosedSet():
            return f"_t.Literal[{', '.join(map(repr, data_type.values))}]"
        case ListType():
            return f"list[{write(data_type.item)}]"
        case MapType():
            return f"dict[str, {write(data_type.value)}]"
        case RecordRef():
            return names[data_type.key]
        case UnionType():
            return " | ".join(
                write(member) for member in (*(m for m in data_type.members if m != NULL), *_list_nulls(data_type))
            )


def _list_nulls(union_type: UnionType) -> tuple[DataType, ...]:
    return (NULL,) if NULL in union_type.members else ()
