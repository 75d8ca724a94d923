"""How the columns of a table follow those of its definition, and how the columns of several tables become one set.

One walk over two sets of columns; what differs is a *judgement* of two fields of one name that are not alike. A column
that only one side has is there in the outcome: all columns may be null, and tables fill in what older files lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from signalbook.pipeline.errors import PipelineError

# The path of a column, the field that is there and the one that comes; what the type is to be.
Judgement = Callable[[str, pa.Field, pa.Field], pa.DataType]


class Incompatible(PipelineError):
    """A column that a table cannot take."""


def refuse(path: str, there: pa.Field, coming: pa.Field) -> pa.DataType:
    """Takes no change of a column. Raises ``Incompatible``."""
    if there.name != coming.name:
        raise Incompatible(f"column {path} and the table's {there.name} are one to SQL, which knows no case")
    raise Incompatible(f"column {path} is {coming.type}, in the table {there.type}")


def promote(path: str, there: pa.Field, coming: pa.Field) -> pa.DataType:
    """Takes the wider of two types that Iceberg promotes, in either order. Raises ``Incompatible``."""
    wide = wider(there.type, coming.type) if there.name == coming.name else None
    return refuse(path, there, coming) if wide is None else wide


def as_text(_: str, there: pa.Field, coming: pa.Field) -> pa.DataType:
    """Takes anything: the wider type, or text where there is none."""
    return wider(there.type, coming.type) or pa.string()


def merge(there: pa.Schema, coming: pa.Schema, judge: Judgement) -> pa.Schema:
    """The columns of ``there`` and, behind them, those that only ``coming`` has. Raises what ``judge`` raises."""
    return pa.schema(_members(there, coming, judge, ""))


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds all values of both by the promotions of Iceberg; ``None`` if there is none."""
    for narrow, wide in ((one, other), (other, one)):
        if narrow == wide or _promotes(narrow, wide):
            return wide
    return None


def _promotes(narrow: pa.DataType, wide: pa.DataType) -> bool:
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return (narrow, wide) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def _members(there: Iterable[pa.Field], coming: Iterable[pa.Field], judge: Judgement, above: str) -> list[pa.Field]:
    members = {field.name.lower(): field for field in there}
    for field in coming:
        known = members.get(field.name.lower())
        if known is None:
            members[field.name.lower()] = field
        else:
            kind = _field(known, field, judge, f"{above}{field.name}")
            members[field.name.lower()] = known.with_type(kind).with_metadata(field.metadata or known.metadata)
    return list(members.values())


def _field(there: pa.Field, coming: pa.Field, judge: Judgement, path: str) -> pa.DataType:
    old, new = there.type, coming.type
    if there.name != coming.name:
        return judge(path, there, coming)
    if old == new:
        return new
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(_members(old, new, judge, f"{path}."))
    if pa.types.is_list(old) and pa.types.is_list(new):
        kind = _field(old.value_field, new.value_field.with_name(old.value_field.name), judge, f"{path}[]")
        return pa.list_(old.value_field.with_type(kind))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, _field(old.item_field, new.item_field, judge, f"{path}{{}}"))
    return judge(path, there, coming)


def plain(schema: pa.Schema) -> pa.Schema:
    """``schema`` without types that differ only in the width of their offsets."""
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key == b"doc"}
    return field.with_type(_plain_type(field.type)).with_metadata(metadata or None)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_field(kind.item_field))
    return pa.struct([_plain_field(field) for field in kind]) if pa.types.is_struct(kind) else kind


def readable(columns: pa.Schema) -> pa.Schema:
    """``columns`` without times of day, at any depth: Spark has no type for them and refuses such a table."""
    return pa.schema(_readable(columns))


def _readable(fields: Iterable[pa.Field]) -> list[pa.Field]:
    kinds = ((field, _kind(field.type)) for field in fields)
    return [field.with_type(kind) for field, kind in kinds if kind is not None]


def _kind(kind: pa.DataType) -> pa.DataType | None:
    """The type without times of day; ``None`` if nothing is left of it."""
    if pa.types.is_time(kind):
        return None
    if pa.types.is_struct(kind):
        members = _readable(kind)
        return pa.struct(members) if members else None
    if pa.types.is_list(kind):
        item = _kind(kind.value_type)
        return None if item is None else pa.list_(kind.value_field.with_type(item))
    if pa.types.is_map(kind):
        value = _kind(kind.item_type)
        return None if value is None else pa.map_(kind.key_type, value)
    return kind
