"""How the columns of a table follow those of its definition, and how the columns of several tables become one set.

One walk over two sets of columns; what differs is a *judgement* of two fields of one name that are not alike. A column
that only one side has is there in the outcome: all columns may be null, and tables fill in what older files lack. A
column whose type changes in a way that a table cannot follow gets no second column: the definition goes on in a new
table (``assign_tables``), so that no reader meets two types under one name.

Columns are the same if they hold the same member of payloads. A member keeps its name in a table (``rename_columns``),
although the definition alone may call it otherwise once other members come or go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from signalbook.pipeline.columns import RESERVED, read_stated_member, rename_column
from signalbook.pipeline.errors import PipelineError

# The path of a column, the field that is there and the one that comes; what the type is to be.
Judgement = Callable[[str, pa.Field, pa.Field], pa.DataType]


class Incompatible(PipelineError):
    """A column that a table cannot take."""


def refuse(path: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Takes no change of a column. Raises ``Incompatible``."""
    if existing.name != incoming.name:
        raise Incompatible(f"column {path} and the table's {existing.name} are one to SQL, which knows no case")
    if not _has_one_member(existing, incoming):
        members = f"{read_stated_member(incoming)!r}, in the table {read_stated_member(existing)!r}"
        raise Incompatible(f"column {path} holds the member {members}")
    raise Incompatible(f"column {path} is {incoming.type}, in the table {existing.type}")


def promote(path: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Takes the wider of two types that Iceberg promotes, in either order. Raises ``Incompatible``."""
    same = existing.name == incoming.name and _has_one_member(existing, incoming)
    wide = find_wider_type(existing.type, incoming.type) if same else None
    return refuse(path, existing, incoming) if wide is None else wide


def _has_one_member(existing: pa.Field, incoming: pa.Field) -> bool:
    """Return True unless both columns state the member of the payload that they hold, and state different ones."""
    members = {read_stated_member(existing), read_stated_member(incoming)} - {None}
    return len(members) < 2


def as_text(_: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Takes anything: the wider type, or text where there is none."""
    return find_wider_type(existing.type, incoming.type) or pa.string()


def merge(existing: pa.Schema, incoming: pa.Schema, judge: Judgement) -> pa.Schema:
    """The columns of ``existing`` and, behind them, those that only ``incoming`` has. Raises what ``judge`` raises."""
    return pa.schema(_merge_members(existing, incoming, judge, ""))


# From the columns of a table and coming columns to the coming columns by the names that the table has for them.
Match = Callable[[Iterable[pa.Field], Iterable[pa.Field]], dict[str, pa.Field]]


def match_columns(existing: Iterable[pa.Field], incoming: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """Return by the names of ``existing`` the columns of ``incoming`` that are of the same members.

    Members are the same if their names are. If only the case differs, and no other column of ``incoming`` has that
    name, they are the same too: SQL does not tell them apart.
    """
    existing, incoming = list(existing), list(incoming)
    matches = match_members(existing, incoming)
    names, members = _index_by_member(existing), _index_by_member(incoming)
    alike = {member.lower(): field.name for member, field in reversed(names.items()) if field.name not in matches}
    for member, field in members.items():
        name = alike.get(member.lower())
        if member not in names and name is not None:
            matches.setdefault(name, field)
    return matches


def match_members(existing: Iterable[pa.Field], incoming: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """Return the columns of ``incoming`` that hold exactly the same member as a column of ``existing``, by its name."""
    existing, incoming = list(existing), list(incoming)
    names, members = _index_by_member(existing), _index_by_member(incoming)
    reserved = RESERVED.intersection(field.name for field in existing)
    return {
        **{field.name: field for field in incoming if field.name in reserved},
        **{names[member].name: field for member, field in members.items() if member in names},
    }


def unite(existing: pa.Schema, incoming: pa.Schema) -> pa.Schema:
    """Return the columns of two tables of a definition, text where they disagree.

    A member of payloads is one column, under the name that it has in ``existing``, whatever ``incoming`` calls it.
    """
    return merge(existing, rename_columns(existing, incoming, match_columns), as_text)


def rename_columns(existing: pa.Schema, incoming: pa.Schema, match: Match = match_members) -> pa.Schema:
    """Return the columns of ``incoming`` under the names that their members have in ``existing``.

    Members that ``existing`` lacks get names that are free there. The types keep all but the names inside them.
    """
    return pa.schema(_rename_fields(existing, incoming, match))


def restore_first_names(earlier: Iterable[pa.Schema], incoming: pa.Schema) -> pa.Schema:
    """Return the columns of ``incoming`` under the names that their members first had in ``earlier`` versions."""
    existing = pa.schema([])
    for columns in earlier:
        existing = merge(existing, rename_columns(existing, columns), as_text)
    return rename_columns(existing, incoming)


def has_stated_members(fields: Iterable[pa.Field]) -> bool:
    """Return True if a column, at any depth, states the member that it holds."""
    return any(
        read_stated_member(field) is not None
        or has_stated_members(field.type.field(number) for number in range(field.type.num_fields))
        for field in fields
    )


def rename_rows(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the rows of a table with ``columns``, which ``rename_columns`` made of the columns of the rows."""
    return pa.Table.from_batches((rename_batch(batch, columns) for batch in rows.to_batches()), columns)


def rename_batch(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a batch with ``columns``, which ``rename_columns`` made of the columns of the rows."""
    return pa.record_batch(_RenamedRows(rows, columns))


@dataclass(frozen=True, slots=True)
class _RenamedRows:
    """Rows that present themselves to Arrow with other column names, without a copy.

    A cast cannot rename members of structs, because it matches them by name.
    """

    rows: pa.RecordBatch
    columns: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.columns.__arrow_c_schema__(), self.rows.__arrow_c_array__(requested_schema)[1]


def _index_by_member(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """Return the columns of payloads by the members that they hold. No two columns hold the same member.

    ``columns.assign_names`` and ``_rename_fields`` add underscores only to names that another column has in another
    case, or that no member may have. The underscores of ``a_`` beside a column ``a`` therefore belong to the member.
    Columns of newer tables state their members, if their names have underscores at the end.
    """
    fields = [field for field in fields if field.name not in RESERVED]
    names = {field.name for field in fields}
    lowered = {name.lower() for name in names}
    stated = {field.name: read_stated_member(field) for field in fields}
    members = {name: member for name, member in stated.items() if member is not None}
    assigned = set(members.values())
    # The shortest first: in [a, A_, A__] the member A is in A_, and A_ in A__.
    for name in sorted(names - members.keys(), key=len):
        plain = name.rstrip("_")
        differs = plain not in names and plain.lower() in lowered
        member = plain if differs or plain in RESERVED else name
        while member in assigned:
            member += "_"
        assigned.add(member)
        members[name] = member
    return {members[field.name]: field for field in fields}


def _rename_fields(existing: Iterable[pa.Field], incoming: Iterable[pa.Field], match: Match) -> list[pa.Field]:
    """Return the fields of ``incoming`` under the names of ``existing``; others have names that are free there."""
    existing, incoming = list(existing), list(incoming)
    fields_by_name = {field.name: field for field in existing}
    names = {field.name: name for name, field in match(existing, incoming).items()}
    members = {field.name: member for member, field in _index_by_member(incoming).items()}
    used = {name.lower() for name in fields_by_name}
    fields = []
    for field in incoming:
        name = names.get(field.name)
        if name is not None:
            field = field.with_type(_rename_type(fields_by_name[name].type, field.type, match))
        elif field.name in members:
            name = field.name
            while name.lower() in used:
                name += "_"
            used.add(name.lower())
        if name is not None and name != field.name:
            field = rename_column(field, name, members[field.name])
        fields.append(field)
    return fields


def _rename_type(old: pa.DataType, new: pa.DataType, match: Match) -> pa.DataType:
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(_rename_fields(old, new, match))
    if pa.types.is_list(old) and pa.types.is_list(new):
        return pa.list_(new.value_field.with_type(_rename_type(old.value_type, new.value_type, match)))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(new.key_type, new.item_field.with_type(_rename_type(old.item_type, new.item_type, match)))
    return new


def find_wider_type(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Return the type that holds all values of both by the promotions of Iceberg; ``None`` without such a type."""
    for narrow, wide in ((first, second), (second, first)):
        if narrow == wide or _is_promotion(narrow, wide):
            return wide
    return None


def _is_promotion(narrow: pa.DataType, wide: pa.DataType) -> bool:
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision <= wide.precision)
    return (narrow, wide) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def _merge_members(
    existing: Iterable[pa.Field], incoming: Iterable[pa.Field], judge: Judgement, above: str
) -> list[pa.Field]:
    # engines of SQL know no case: ``Id`` and ``id`` cannot be two columns
    members = {field.name.lower(): field for field in existing}
    for field in incoming:
        present = members.get(field.name.lower())
        if present is None:
            members[field.name.lower()] = field
        else:
            kind = _merge_field(present, field, judge, f"{above}{field.name}")
            # what the definition says of the column now goes before what it said when the table was made
            members[field.name.lower()] = present.with_type(kind).with_metadata(field.metadata or present.metadata)
    return list(members.values())


def _merge_field(existing: pa.Field, incoming: pa.Field, judge: Judgement, path: str) -> pa.DataType:
    old, new = existing.type, incoming.type
    if existing.name != incoming.name or not _has_one_member(existing, incoming):
        return judge(path, existing, incoming)
    if old == new:
        return new
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return pa.struct(_merge_members(old, new, judge, f"{path}."))
    if pa.types.is_list(old) and pa.types.is_list(new):
        # Writers name the items of lists as they like; what is compared are their types.
        kind = _merge_field(old.value_field, new.value_field.with_name(old.value_field.name), judge, f"{path}[]")
        return pa.list_(old.value_field.with_type(kind))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, _merge_field(old.item_field, new.item_field, judge, f"{path}{{}}"))
    return judge(path, existing, incoming)


def simplify(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` as the pipeline writes it, without the wider types and metadata that libraries add."""
    return pa.schema(change_fields(schema, _simplify_field))


def _simplify_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind):
        kind = pa.binary()
    doc = (field.metadata or {}).get(b"doc")
    return field.with_type(kind).with_metadata({b"doc": doc} if doc is not None else None)


def select_readable(columns: pa.Schema) -> pa.Schema:
    """Return ``columns`` without times of day, at any depth. Spark has no type for them."""
    return pa.schema(change_fields(columns, lambda field: None if pa.types.is_time(field.type) else field))


def change_fields(fields: Iterable[pa.Field], change: Callable[[pa.Field], pa.Field | None]) -> list[pa.Field]:
    """Return ``fields`` with ``change`` applied to each field at any depth, the innermost first.

    Those it makes None are left out, and so is what has nothing left in it. Lists of any width become lists.
    """
    changed_fields = (_change_field(field, change) for field in fields)
    return [field for field in changed_fields if field is not None]


def _change_field(field: pa.Field, change: Callable[[pa.Field], pa.Field | None]) -> pa.Field | None:
    kind = field.type
    if pa.types.is_struct(kind):
        members = change_fields(kind, change)
        return change(field.with_type(pa.struct(members))) if members else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _change_field(kind.value_field, change)
        return None if item is None else change(field.with_type(pa.list_(item)))
    if pa.types.is_map(kind):
        key, item = _change_field(kind.key_field, change), _change_field(kind.item_field, change)
        return None if key is None or item is None else change(field.with_type(pa.map_(key, item)))
    return change(field)


def align_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of ``schema``, which holds every value of theirs."""
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
