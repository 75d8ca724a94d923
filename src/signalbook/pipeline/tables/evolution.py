"""Merge sets of columns: a table follows the columns of its definition, and several tables are united to one.

Each merge walks over two sets of columns. A *judgement* function decides about two fields with the same name but
different types. A column that only one side has is part of the result, because all columns may be null, and tables fill
in null for older files. If the type of a column changes so that its table cannot follow, the definition continues in a
new table (``assign_tables``). So no reader finds two types under one name.

Two columns are the same if they hold the same member of payloads. A member keeps its column name in a table
(``rename_columns``), although the definition alone may assign another name once other members are added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from signalbook.pipeline.columns import RESERVED, read_stated_member, rename_column
from signalbook.pipeline.errors import PipelineError

# A function that returns the type for two different fields. Its arguments are the path of the column, the existing
# field and the incoming field.
Judgement = Callable[[str, pa.Field, pa.Field], pa.DataType]


class Incompatible(PipelineError):
    """The error for a column that a table cannot accept."""


def refuse(path: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Raise ``Incompatible`` for any change of a column. A judgement for ``merge``."""
    if existing.name != incoming.name:
        raise Incompatible(f"column {path} and the table's {existing.name} are one to SQL, which knows no case")
    if not _has_one_member(existing, incoming):
        members = f"{read_stated_member(incoming)!r}, in the table {read_stated_member(existing)!r}"
        raise Incompatible(f"column {path} holds the member {members}")
    raise Incompatible(f"column {path} is {incoming.type}, in the table {existing.type}")


def promote(path: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Return the wider of two types if Iceberg can promote one to the other. A judgement for ``merge``.

    Raises ``Incompatible`` for other changes.
    """
    same = existing.name == incoming.name and _has_one_member(existing, incoming)
    wide = find_wider_type(existing.type, incoming.type) if same else None
    return refuse(path, existing, incoming) if wide is None else wide


def _has_one_member(existing: pa.Field, incoming: pa.Field) -> bool:
    """Return False if the two columns state different members of the payload in their descriptions, else True."""
    members = {read_stated_member(existing), read_stated_member(incoming)} - {None}
    return len(members) < 2


def as_text(_: str, existing: pa.Field, incoming: pa.Field) -> pa.DataType:
    """Return the wider of two types, or text if neither is wider. A judgement for ``merge`` that accepts any change."""
    return find_wider_type(existing.type, incoming.type) or pa.string()


def merge(existing: pa.Schema, incoming: pa.Schema, judge: Judgement) -> pa.Schema:
    """Return the columns of ``existing`` followed by the columns that only ``incoming`` has.

    ``judge`` decides about columns in both that differ in their type, in the case of their names, or in the member that
    they hold. Raises the errors of ``judge``.
    """
    return pa.schema(_merge_members(existing, incoming, judge, ""))


# A function that takes the columns of a table and incoming columns. It returns incoming columns by their names in the
# table.
Match = Callable[[Iterable[pa.Field], Iterable[pa.Field]], dict[str, pa.Field]]


def match_columns(existing: Iterable[pa.Field], incoming: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """Return the columns of ``incoming`` that hold the same members as columns of ``existing``, by the names of those.

    Members are the same if their names are equal. Names that differ only in case count as equal, too, unless another
    column of ``incoming`` has the exact name, because SQL ignores case.
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
    """Return the united columns of two tables of a definition. A column whose types differ becomes text.

    A member of payloads is one column, with the name that it has in ``existing``.
    """
    return merge(existing, rename_columns(existing, incoming, match_columns), as_text)


def rename_columns(existing: pa.Schema, incoming: pa.Schema, match: Match = match_members) -> pa.Schema:
    """Return the columns of ``incoming`` under the names that their members have in ``existing``.

    Members that ``existing`` lacks get names that no column of ``existing`` has. Members of structs are renamed, too.
    """
    return pa.schema(_rename_fields(existing, incoming, match))


def restore_first_names(earlier: Iterable[pa.Schema], incoming: pa.Schema) -> pa.Schema:
    """Return the columns of ``incoming`` under the names that their members first had in ``earlier`` versions."""
    existing = pa.schema([])
    for columns in earlier:
        existing = merge(existing, rename_columns(existing, columns), as_text)
    return rename_columns(existing, incoming)


def has_stated_members(fields: Iterable[pa.Field]) -> bool:
    """Return True if the description of a column, at any depth, states the member that the column holds."""
    return any(
        read_stated_member(field) is not None
        or has_stated_members(field.type.field(number) for number in range(field.type.num_fields))
        for field in fields
    )


def rename_rows(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return ``rows`` with the names in ``columns``, which ``rename_columns`` made from the columns of ``rows``."""
    return pa.Table.from_batches((rename_batch(batch, columns) for batch in rows.to_batches()), columns)


def rename_batch(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return ``rows`` with the names in ``columns``, which ``rename_columns`` made from the columns of ``rows``.

    Raises ``Incompatible`` if the columns have other types, because Arrow would misread their memory.
    """
    if len(columns) != rows.num_columns:
        raise Incompatible(f"the numbers of columns ({rows.num_columns}) and of new names ({len(columns)}) differ")
    for existing, renamed in zip(rows.schema, columns, strict=True):
        if not _differ_only_in_names(existing.type, renamed.type):
            text = f"{existing.name} of type {existing.type} cannot be renamed to {renamed.name} of type {renamed.type}"
            raise Incompatible(f"column {text}")
    return pa.record_batch(_RenamedRows(rows, columns))


def _differ_only_in_names(existing: pa.DataType, renamed: pa.DataType) -> bool:
    """Return True if two types are equal, apart from the names of members of structs."""
    if existing.equals(renamed):
        return True
    number = existing.num_fields
    return (
        (existing.id, number) == (renamed.id, renamed.num_fields)
        and number > 0
        # Only lists of a fixed size have this attribute.
        and getattr(existing, "list_size", None) == getattr(renamed, "list_size", None)
        and all(_differ_only_in_names(existing.field(index).type, renamed.field(index).type) for index in range(number))
    )


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
    """Return the columns of payloads among ``fields`` by the members that they hold. No two columns hold one member.

    ``columns.assign_names`` and ``_rename_fields`` append underscores only if another column has the name in another
    case, or if the name is reserved. So if a table has the columns ``a`` and ``a_``, the second holds a member ``a_``.
    In newer tables, the descriptions of columns state the member if the name ends in an underscore.
    """
    fields = [field for field in fields if field.name not in RESERVED]
    names = {field.name for field in fields}
    lowered = {name.lower() for name in names}
    stated = {field.name: read_stated_member(field) for field in fields}
    members = {name: member for name, member in stated.items() if member is not None}
    assigned = set(members.values())
    # The shortest names first: of the columns [a, A_, A__], A_ holds the member A, and A__ the member A_.
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
    """Return the fields of ``incoming`` under their names in ``existing``.

    New fields get names that are unused there.
    """
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
    """Return the one of two types to which Iceberg can promote the other; ``None`` if it cannot."""
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
    # SQL engines ignore case: ``Id`` and ``id`` cannot be two columns.
    members = {field.name.lower(): field for field in existing}
    for field in incoming:
        present = members.get(field.name.lower())
        if present is None:
            members[field.name.lower()] = field
        else:
            kind = _merge_field(present, field, judge, f"{above}{field.name}")
            # The current description of the column replaces the one from the time when the table was created.
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
        # Writers use different names for the items of lists, so only the types of items are compared.
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

    Fields for which ``change`` returns None are left out, as are structs, lists and maps without any field left. Large
    lists become lists.
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
    """Return ``rows`` with the columns of ``schema``, whose types must be the same or wider.

    Missing columns are null.
    """
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)
