"""Types of Avro schemas."""

from typing import Any

from signalbook.codegen.avrotypes import AvroTypes
from signalbook.codegen.datatypes import NULL, ClosedSet, ListType, PlainType, RecordRef, RecordTable, UnionType
from signalbook.formats import find
from signalbook.formats.avro.format import AvroSchema
from signalbook.values import dump_json

NODE: dict[str, Any] = {
    "type": "record", "name": "acme.Node", "doc": "A node", "fields": [
        {"name": "next", "type": ["null", "acme.Node"], "default": None, "doc": "the next"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "any", "type": ["string", "long", {"type": "array", "items": "acme.Node"}]},
        {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 16}},
    ],
}  # fmt: skip


def test_a_record_of_every_kind() -> None:
    avro: Any = find("Avro/1.11")
    schema = avro.parse(dump_json(NODE), "Avro/1.11")
    assert isinstance(schema, AvroSchema)
    table = RecordTable()
    root = AvroTypes(schema, table).of(schema.type, "Root")
    assert root == RecordRef("acme.Node")
    record = table.records["acme.Node"]
    assert (record.hint, record.description, len(table.records)) == ("Node", "A node", 1)
    assert {member.name: member.type for member in record.members} == {
        "next": UnionType((root, NULL)),
        "kind": ClosedSet(("A", "B")),
        "at": PlainType("timestamp"),
        "cost": PlainType("decimal"),
        "any": UnionType((PlainType("text"), PlainType("integer"), ListType(root))),
        "hash": PlainType("bytes"),
    }
    assert [member.name for member in record.members if not member.required] == ["next"]
