"""Shapes become columns that table formats hold."""

import pyarrow as pa
import pytest

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.pipeline import columns

INT = Scalar(kind="int64")


def fields(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name=name, attribute=name, shape=INT) for name in names)


@pytest.mark.parametrize(
    ("shape", "type"),
    [
        (Scalar(kind="bool"), pa.bool_()),
        (Scalar(kind="uint64"), pa.decimal128(20, 0)),
        (Scalar(kind="timestamp"), pa.timestamp("us", "UTC")),
        (Scalar(kind="decimal", precision=9, scale=2), pa.decimal128(9, 2)),
        (Scalar(kind="decimal", precision=77, scale=2), pa.string()),
        (Scalar(kind="decimal"), pa.string()),
        (Anything(), pa.string()),
        (Struct(fields=()), pa.string()),
        (ListOf(item=Scalar(kind="string")), pa.list_(pa.field("element", pa.string()))),
        (MapOf(value=ListOf(item=INT)), pa.map_(pa.string(), pa.list_(pa.field("element", pa.int64())))),
        (Struct(fields=fields("a")), pa.struct([("a", pa.int64())])),
    ],
)
def test_a_shape_has_a_type(shape: Shape, type: pa.DataType) -> None:
    assert columns.find_arrow_type(shape) == type


def test_members_of_an_object_are_columns_with_their_description() -> None:
    shape = Struct(fields=(Field(name="total", attribute="total", shape=INT, description="In cents"),))
    column = columns.build_payload(shape).field("total")
    assert (column.type, column.metadata) == (pa.int64(), {b"doc": b"In cents"})


def test_no_member_takes_the_name_of_another_column() -> None:
    names = columns.build_payload(Struct(fields=fields("ce_id", "CE_ID", "_batch", "a", "A", "", "data"))).names
    assert names == ["ce_id_", "CE_ID__", "_batch_", "a", "A_", "_", "data"]
    landed = columns.build_landed(Struct(fields=fields(*names))).names
    assert len({name.lower() for name in landed}) == len(landed)


@pytest.mark.parametrize("shape", [INT, Anything(), ListOf(item=INT), Struct(fields=())])
def test_a_payload_that_is_no_object_is_one_column(shape: Shape) -> None:
    assert columns.build_payload(shape).names == ["data"]


def test_a_payload_without_schema_is_kept_as_sent() -> None:
    assert columns.build_landed(None).names[8:10] == ["data", "data_binary"]


@pytest.mark.parametrize(
    ("members", "used_names", "expected"),
    [
        (["userId", "userID"], [], ["userId", "userID_"]),
        (["userID", "userId"], [], ["userID_", "userId"]),
        (["userId_", "userId", "userID"], [], ["userId_", "userId", "userID__"]),
        (["ce_id", "", "_"], ["ce_id"], ["ce_id_", "__", "_"]),
    ],
)
def test_names_do_not_depend_on_the_order_of_members(
    members: list[str], used_names: list[str], expected: list[str]
) -> None:
    assert columns.assign_names(members, used_names) == expected
