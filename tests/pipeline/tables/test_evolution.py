"""Columns follow their definition, or do not."""

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.formats import Field, ListOf, Scalar, Struct
from signalbook.pipeline import columns
from signalbook.pipeline.columns import assign_names
from signalbook.pipeline.tables.evolution import (
    Incompatible,
    Judgement,
    as_text,
    find_wider_type,
    match_columns,
    merge,
    promote,
    refuse,
    rename_columns,
    rename_rows,
    restore_first_names,
    unite,
)
from signalbook.pipeline.tables.landed_tables import build_selection, unite_columns

INT, LONG, TEXT, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.string(), pa.float32(), pa.float64()


def listed(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", type))


def struct(**members: pa.DataType) -> pa.DataType:
    return pa.struct(list(members.items()))


@pytest.mark.parametrize("judge", [refuse, promote, as_text])
def test_new_columns_are_appended_and_old_ones_kept(judge: Judgement) -> None:
    there = pa.schema([("a", INT), ("s", struct(m=INT, n=TEXT))])
    coming = pa.schema([("b", TEXT), ("s", struct(o=TEXT, m=INT))])
    merged = merge(there, coming, judge)
    assert merged == pa.schema([("a", INT), ("s", struct(m=INT, n=TEXT, o=TEXT)), ("b", TEXT)])


PROMOTED = [
    (INT, LONG, LONG),
    (FLOAT, DOUBLE, DOUBLE),
    (pa.decimal128(9, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
    (listed(INT), listed(LONG), listed(LONG)),
    (listed(struct(a=INT)), listed(struct(b=TEXT, a=LONG)), listed(struct(a=LONG, b=TEXT))),
    (pa.map_(TEXT, INT), pa.map_(TEXT, LONG), pa.map_(TEXT, LONG)),
]


@pytest.mark.parametrize(("narrow", "wide", "outcome"), PROMOTED)
def test_types_are_promoted_in_either_order(narrow: pa.DataType, wide: pa.DataType, outcome: pa.DataType) -> None:
    first, other = pa.schema([("x", narrow)]), pa.schema([("x", wide)])
    assert merge(first, other, promote) == pa.schema([("x", outcome)])
    assert {str(field.name) for field in merge(other, first, promote)} == {"x"}
    with pytest.raises(Incompatible, match="column x"):
        merge(first, other, refuse)


CLASHES = [
    (INT, TEXT),
    (LONG, DOUBLE),
    (pa.decimal128(9, 2), pa.decimal128(9, 3)),
    (struct(a=INT), TEXT),
    (listed(INT), INT),
]


@pytest.mark.parametrize(("first", "other"), CLASHES)
def test_incompatible_types_are_rejected_or_become_text(first: pa.DataType, other: pa.DataType) -> None:
    there, coming = pa.schema([("x", first)]), pa.schema([("x", other)])
    with pytest.raises(Incompatible, match=r"column x is .*, in the table "):
        merge(there, coming, promote)
    assert merge(there, coming, as_text) == pa.schema([("x", TEXT)])


def test_names_that_differ_only_in_case_are_incompatible() -> None:
    there, coming = pa.schema([("total", INT)]), pa.schema([("Total", INT)])
    with pytest.raises(Incompatible, match="column Total and the table's total are one to SQL"):
        merge(there, coming, promote)
    assert merge(there, coming, as_text) == there


def test_the_newest_description_is_kept() -> None:
    there, coming = (pa.schema([pa.field("x", INT, metadata={"doc": doc})]) for doc in ("old", "new"))
    assert merge(there, coming, refuse).field("x").metadata == {b"doc": b"new"}
    assert merge(there, pa.schema([("x", INT)]), refuse).field("x").metadata == {b"doc": b"old"}


def test_unrelated_types_have_no_wider_type() -> None:
    assert find_wider_type(INT, TEXT) is None
    assert find_wider_type(INT, INT) == INT


@pytest.mark.parametrize(
    ("there", "coming", "expected"),
    [
        (["userId"], ["userId", "userID_"], ["userId", "userID_"]),
        (["userId"], ["userID", "userId_"], ["userId", "userID_"]),
        (["userID", "userId_"], ["userId"], ["userID", "userId_"]),
        (["Id"], ["id"], ["Id"]),
        (["a_"], ["a_", "b"], ["a_", "b"]),
        (["ID"], ["id", "Id_", "ID__"], ["ID", "id_", "Id__"]),
        (["a_", "a"], ["a_", "a"], ["a_", "a"]),
        (["a"], ["a_", "a"], ["a", "a_"]),
        (["a_"], ["a_", "a"], ["a_", "a"]),
        (["a", "a__"], ["a", "a_", "a__"], ["a", "a__", "a_"]),
        (["type", "type_"], ["type_"], ["type", "type_"]),
        (["userId", "userId_"], ["userId", "userID__", "userId_"], ["userId", "userId_", "userID__"]),
        (["userID", "userID_"], ["userId", "userID__", "userId_"], ["userID", "userID_", "userId__"]),
        (["a", "A_"], ["A", "A_"], ["a", "A_", "A__"]),
    ],
)
def test_member_is_one_column_under_any_name(there: list[str], coming: list[str], expected: list[str]) -> None:
    first, other = (pa.schema([(name, pa.string()) for name in names]) for names in (there, coming))
    assert unite(first, other).names == expected
    nested = [pa.schema([("o", pa.list_(pa.struct(list(columns))))]) for columns in (first, other)]
    assert [field.name for field in unite(*nested).field("o").type.value_type] == expected


def test_columns_are_matched_by_their_members() -> None:
    whole, part = (
        [pa.field(name, pa.string()) for name in names] for names in (["userId", "userID_"], ["userID", "userId_"])
    )
    assert {name: field.name for name, field in match_columns(whole, part).items()} == {
        "userId": "userId_",
        "userID_": "userID",
    }


MEMBERS = [
    ["a", "a_"],
    ["type", "type_"],
    ["userId", "userID", "userId_"],
    ["userId", "userID", "userID_", "userID__"],
    ["a", "a__"],
    ["a", "A", "A_"],
    ["", "_", "__"],
    ["ce_id", "ce_id_", "CE_ID"],
]


@pytest.mark.parametrize("members", MEMBERS)
def test_columns_match_themselves(members: list[str]) -> None:
    names = ["ce_id", *assign_names(members, reserved=["ce_id"])]
    columns = pa.schema([(name, pa.string()) for name in names])
    assert {name: field.name for name, field in match_columns(columns, columns).items()} == {
        name: name for name in names
    }
    assert unite(columns, columns) == columns
    assert build_selection(columns, columns) == [f"`{name}`" for name in names]


def test_a_member_with_an_underscore_is_matched_in_another_table() -> None:
    columns = [pa.field(name, pa.string()) for name in assign_names(["userId", "userID", "userId_"])]
    for member, name in (("userId", "userId"), ("userId_", "userId_"), ("userID", "userID__")):
        matches = match_columns([pa.field(member, pa.string())], columns)
        assert {key: field.name for key, field in matches.items()} == {member: name}


def struct_of(*members: str) -> Struct:
    return Struct(fields=tuple(Field(name=name, attribute="", shape=Scalar(kind="string")) for name in members))


def landed_columns(members: Iterable[str]) -> pa.Schema:
    """Return the columns of a payload with these members, in ascending order."""
    return columns.build_payload(struct_of(*sorted(members)))


ODD_MEMBERS = ["a", "A", "a_", "A_", "A__", "_key", "_KEY", "_key_", ""]


@settings(max_examples=examples(300))
@given(st.lists(st.sets(st.sampled_from(ODD_MEMBERS), min_size=1), min_size=1, max_size=6))
def test_a_member_keeps_its_column_for_life(versions: list[set[str]]) -> None:
    """Whatever members come and go, a table takes all of them, and no column ever holds two."""
    table = columns.build_landed(None).remove_metadata()
    held: dict[str, str] = {}
    for version in versions:
        members = sorted(version)
        stored = rename_columns(table, landed_columns(members))
        assert columns.RESERVED.isdisjoint(stored.names)
        for member, column in zip(members, stored.names, strict=True):
            assert held.setdefault(column.lower(), member) == member
        table = merge(table, stored, refuse)
        assert rename_columns(table, landed_columns(members)).names == stored.names
    assert len(set(held.values())) == len(held)
    assert restore_first_names(map(landed_columns, versions[:-1]), landed_columns(versions[-1])).names == stored.names


@settings(max_examples=examples(300))
@given(st.lists(st.sets(st.sampled_from(ODD_MEMBERS), min_size=1), min_size=2, max_size=5))
def test_no_column_of_several_tables_holds_two_members(versions: list[set[str]]) -> None:
    """As `read` shows tables of which each was made by another version; spellings of a name may share a column."""
    tables = [landed_columns(version) for version in versions]
    whole = unite_columns(tables)
    held: dict[str, set[str]] = {}
    for version, table in zip(versions, tables, strict=True):
        shown = {field.name: name for name, field in match_columns(whole, table).items()}
        assert len(set(shown.values())) == len(version)
        for member, field in zip(sorted(version), table, strict=True):
            held.setdefault(shown[field.name], set()).add(member.lower())
    assert all(len(members) == 1 for members in held.values())


def test_rows_are_renamed_at_any_depth() -> None:
    """The member `A` is in `A_` next to `a`, where `A_` alone would be a member of that name."""
    first, then = (
        columns.build_payload(Struct(fields=(Field(name="o", attribute="", shape=ListOf(item=struct_of(*names))),)))
        for names in (["a", "A"], ["a", "A", "A_"])
    )
    stored = rename_columns(first, then)
    rows = pa.Table.from_pylist([{"o": [{"a": "1", "A__": "2", "A_": "3"}, None]}, {"o": None}] * 2, then)
    renamed = rename_rows(rows.slice(1), stored)
    renamed.validate(full=True)
    assert renamed.to_pylist() == [{"o": None}, {"o": [{"a": "1", "A_": "2", "A__": "3"}, None]}, {"o": None}]
    assert rename_rows(renamed, then) == rows.slice(1)


@pytest.mark.parametrize(
    ("existing", "renamed"),
    [
        (LONG, TEXT),
        (LONG, DOUBLE),
        (struct(a=LONG), struct(b=DOUBLE)),
        (struct(a=LONG), struct(b=LONG, c=LONG)),
        (listed(struct(a=TEXT)), listed(struct(b=pa.binary()))),
        (pa.map_(TEXT, LONG), pa.map_(TEXT, DOUBLE)),
        (pa.dictionary(INT, TEXT), TEXT),
        (pa.list_(LONG, 3), pa.list_(LONG, 4)),
        (pa.list_(LONG, 3), pa.list_(LONG)),
    ],
)
def test_columns_cannot_be_renamed_to_other_types(existing: pa.DataType, renamed: pa.DataType) -> None:
    """Arrow would misread the memory of such columns without an error."""
    rows = pa.Table.from_batches([pa.RecordBatch.from_arrays([pa.nulls(1, existing)], ["a"])])
    with pytest.raises(Incompatible, match=r"column a of type .* cannot be renamed to b of type"):
        rename_rows(rows, pa.schema([("b", renamed)]))
    with pytest.raises(Incompatible, match=r"the numbers of columns \(1\) and of new names \(0\) differ"):
        rename_rows(rows, pa.schema([]))
