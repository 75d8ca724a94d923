import pytest

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.avro import FORMAT
from signalbook.values import JSON, dump_json


def shape_of(document: JSON) -> Shape:
    return FORMAT.parse(dump_json(document), "Avro").shape()


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        ("int", Scalar(kind="int32")),
        ("long", Scalar(kind="int64")),
        ("float", Scalar(kind="float32")),
        ("bytes", Scalar(kind="bytes")),
        ("null", Scalar(kind="string", nullable=True)),
        (["null", "string"], Scalar(kind="string", nullable=True)),
        (["string"], Scalar(kind="string")),
        (["int", "string"], Anything()),
        (["null", "int", "string"], Anything(nullable=True)),
        ({"type": "array", "items": "int"}, ListOf(item=Scalar(kind="int32"))),
        ({"type": "map", "values": ["null", "int"]}, MapOf(value=Scalar(kind="int32", nullable=True))),
        ({"type": "long", "logicalType": "timestamp-micros"}, Scalar(kind="timestamp")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, Scalar(kind="timestamp", sent="int64")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, Scalar(kind="int64")),
        ({"type": "string", "logicalType": "uuid"}, Scalar(kind="uuid")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            Scalar(kind="decimal", precision=6, scale=2),
        ),
    ],
)
def test_shapes(document: JSON, shape: Shape) -> None:
    assert shape_of(document) == shape


def test_records_become_structs_and_recursion_text() -> None:
    fields = [{"name": "next", "type": ["null", "N"], "doc": "What follows"}]
    recursive = Anything(nullable=True)
    field = Field(name="next", attribute="next", shape=recursive, required=True, description="What follows")
    assert shape_of({"type": "record", "name": "N", "fields": fields}) == Struct(fields=(field,))
