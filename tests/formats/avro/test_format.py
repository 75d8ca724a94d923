import json
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.formats import PayloadError, SchemaError, jsonschema
from signalbook.formats.avro import FORMAT, AvroSchema
from signalbook.formats.avro.document import MAX_OTHERS
from signalbook.values import JSON, dump_json


def parse(document: JSON, link: str = "") -> AvroSchema:
    return FORMAT.parse(dump_json(document), "Avro/1.11", link=link)


def record(*fields: tuple[str, JSON], name: str = "R", **more: JSON) -> dict[str, JSON]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **more}


def binary(schema: AvroSchema, value: JSON) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema.parsed, value)
    return stream.getvalue()


def field(**more: JSON) -> bytes:
    return dump_json({"type": "record", "name": "a", "fields": [{"name": "x", "type": "int", **more}]})


NODE = record(("next", ["null", "Node"]), name="Node")


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        (b"", "", "empty"),  # G-23
        (b"{", "", "json"),
        (b"3", "", "type"),
        (b"{}", "", "type"),
        (b'"other"', "", "import"),
        (b"[]", "", "union"),
        (b'[["int"]]', "", "union"),
        (b'["int","int"]', "", "union"),
        (b'{"type":"array"}', "/items", "type"),
        (b'{"type":"map","values":"nope"}', "/values", "import"),
        (b'{"type":"fixed","name":"f","size":-1}', "/size", "fixed"),
        (b'{"type":"enum","name":"e","symbols":["1"]}', "/symbols", "enum"),
        (b'{"type":"enum","name":"e","symbols":3}', "/symbols", "enum"),
        (b'{"type":"enum","name":"e","symbols":["A","A"]}', "", "schema"),
        (b'{"type":"record","name":"a b","fields":[]}', "/name", "name"),
        (b'{"type":"record","name":"a"}', "/fields", "fields"),
        (b'{"type":"record","name":"a","fields":[3]}', "/fields/0", "name"),
        (dump_json(record(("x", "int"), ("x", "int"))), "/fields/1/name", "name"),
        (dump_json(record(("x", "Later"))), "/fields/0/type", "import"),
        (dump_json(record(("x", "record"))), "/fields/0/type", "type"),
        (field(default="s"), "/fields/0/default", "default"),
        (dump_json(record(name="a-b.R")), "/name", "namespace"),
        (dump_json(record(name="R", namespace="ä")), "/name", "namespace"),
        (dump_json(record(name="a b.R")), "/name", "name"),
        (dump_json(record(name="a..R")), "/name", "name"),
        (dump_json(record(name="a.a-b")), "/name", "name"),
        (field(order="up"), "/fields/0/order", "order"),
        (b'{"type":"record","name":"a","aliases":"b","fields":[]}', "/aliases", "aliases"),
        (field(aliases=[1]), "/fields/0/aliases", "aliases"),
        (b'{"type":"record","name":"int","fields":[]}', "/name", "name"),
        (b'{"type":"enum","name":"e","symbols":["A"],"default":"B"}', "/default", "default"),
        (b"[" * 500, "", "json"),
    ],
)
def test_broken_documents_are_distinguished(document: bytes, path: str, rule: str) -> None:
    """Invalid JSON and invalid schemas have different findings (G-19)."""
    findings = FORMAT.check(document, "Avro/1.11")
    assert [(finding.path, finding.rule) for finding in findings] == [(path, rule)]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"type": "record", "name": "a.B"}, ("a.B",)),
        ({"type": "enum", "name": "B", "namespace": "a"}, ("a.B",)),
        ([{"type": "fixed", "name": "B"}, "B", {"type": "error", "name": "C"}], ("B", "C")),
        ({"type": "array", "name": "B"}, ()),
    ],
)
def test_a_document_defines_the_types_at_its_top(document: JSON, names: tuple[str, ...]) -> None:
    assert FORMAT.identities(dump_json(document)) == names


@pytest.mark.parametrize(
    "document",
    [
        "string",
        {"type": {"type": "string"}},
        ["null", "int"],
        record(),
        NODE,
        record(("a", record(name="Inner", namespace="n")), ("b", "n.Inner")),
        {"type": "long", "logicalType": "unheard-of"},
    ],
)
def test_sound_documents_have_no_findings(document: JSON) -> None:
    assert FORMAT.check(dump_json(document), "Avro") == []


def test_definitions_that_multiply_are_refused() -> None:
    """Decoding not a single byte of such a schema would take for ever."""
    types = [record(name="L0")]
    types += [record(("x", f"L{i}"), ("y", f"L{i}"), name=f"L{i + 1}") for i in range(40)]
    assert [finding.rule for finding in FORMAT.check(dump_json(types), "Avro")] == ["weight"]


@pytest.mark.parametrize("link", ["#B", ":B", "B", "#n.B", "n.B"])
def test_deep_links_name_a_type(link: str) -> None:
    """G.2: the linked type stands on its own, with the types it uses."""
    inner = record(("i", "int"), name="X")
    document = [record(("x", inner), name="A", namespace="n"), record(("y", "X"), name="B", namespace="n")]
    schema = parse(document, link)
    assert schema.decode(b"\x04") == {"y": {"i": 2}}
    assert schema.fingerprint == parse(document, "#B").fingerprint != parse(document).fingerprint


def test_invalid_link_error_lists_the_alternatives() -> None:
    with pytest.raises(SchemaError, match="there are: R"):
        parse(record(), "#Nope")
    with pytest.raises(SchemaError, match="or several"):
        parse([record(name="a.R"), record(name="b.R")], "#R")


LOGICAL = record(
    ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("us", {"type": "long", "logicalType": "timestamp-micros"}),
    ("ns", {"type": "long", "logicalType": "timestamp-nanos"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", {"type": "int", "logicalType": "time-millis"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
    ("id", {"type": "string", "logicalType": "uuid"}),
)
SENT = {
    "ms": 1_700_000_000_000, "us": 1_700_000_000_000_001, "ns": 1, "local": 5, "day": 19_000, "at": 61_000,
    "price": "\x01\x00", "id": "123e4567-e89b-12d3-a456-426614174000",
}  # fmt: skip
MEANT = {
    "ms": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "us": datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC),
    "ns": 1, "local": 5, "day": date(2022, 1, 8), "at": clock(0, 1, 1), "price": Decimal("2.56"), "id": SENT["id"],
}  # fmt: skip


def test_logical_types_are_decoded_without_loss() -> None:
    schema = parse(LOGICAL)
    assert schema.decode(dump_json(SENT), "application/json") == MEANT
    assert schema.decode(binary(schema, MEANT)) == MEANT
    assert schema.validate(MEANT) == []


@pytest.mark.parametrize("payload", [b"", b"\x02", b"\x06ab", b"\x04ab\x00", b"\xff" * 40, b"\x01"])
def test_broken_binary_is_a_decode_error(payload: bytes) -> None:
    with pytest.raises(PayloadError) as caught:
        parse("string").decode(payload, "avro/binary")
    assert caught.value.reason == "decode_error"


def test_deep_recursion_does_not_crash() -> None:
    schema = parse(NODE)
    assert schema.decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(PayloadError, match="recursion"):
        schema.decode(b"\x02" * 3_000_000 + b"\x00")


@pytest.mark.parametrize("items", ["null", record(), record(("a", record(name="E")))])
def test_items_without_bytes_are_refused(items: JSON) -> None:
    """Ten bytes could claim to be 2^60 of them."""
    assert FORMAT.check(dump_json({"type": "array", "items": items}), "Avro") == []
    with pytest.raises(SchemaError, match="take no bytes"):
        parse({"type": "array", "items": items})


@pytest.mark.parametrize("content_type", ["application/xml", "text/plain"])
def test_other_encodings_are_unsupported(content_type: str) -> None:
    """Payloads in another encoding cannot be decoded (K-40)."""
    with pytest.raises(PayloadError) as caught:
        parse("string").decode(b"\x02a", content_type)
    assert caught.value.reason == "unsupported_format"


@pytest.mark.parametrize(
    "content_type", ["", "avro/binary", "application/vnd.apache.avro+binary", "Application/Octet-Stream"]
)
def test_binary_by_any_name(content_type: str) -> None:
    assert parse("string").decode(b"\x02a", content_type) == "a"


def test_reads_what_an_older_schema_wrote() -> None:
    """The payload is decoded with the exact version of the writer, and returned in the schema of the reader (K-40)."""
    old = parse(record(("a", "int")))
    newer = record(("a", "long"))
    newer["fields"].append({"name": "b", "type": "string", "default": "x"})
    reader = parse(newer).reading(old)
    assert reader.decode(b"\x06") == reader.decode(b'{"a": 3}', "application/json") == {"a": 3, "b": "x"}


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "\u0001\u0000", Decimal("2.56")),
        ("bytes", "\u00ff", b"\xff"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["null", "int"], 5, 5),
        ({"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}, [1000], [clock(0, 0, 1)]),
        (record(("b", "bytes"), name="S"), {"b": "\u00fe"}, {"b": b"\xfe"}),
        ({**record(name="S"), "fields": [{"name": "b", "type": "bytes", "default": "\u00fd"}]}, {}, {"b": b"\xfd"}),
    ],
)
def test_default_has_its_logical_value(type: JSON, default: JSON, value: JSON) -> None:
    """The library takes defaults as they stand in the document."""
    newer = record()
    newer["fields"] = [{"name": "a", "type": "int"}, {"name": "b", "type": type, "default": default}]
    reader = parse(newer).reading(parse(record(("a", "int"))))
    assert reader.decode(b"\x06") == {"a": 3, "b": value}
    written = parse(newer).encode({"a": 3})
    assert parse(newer).decode(written) == {"a": 3, "b": value}


@pytest.mark.parametrize(("payload", "content_type"), [(b"\x02a", ""), (b'"a"', "application/json"), (b"", "")])
def test_unresolvable_payload_is_an_error(payload: bytes, content_type: str) -> None:
    """K-40, K-44"""
    with pytest.raises(PayloadError) as caught:
        parse("int").reading(parse("string")).decode(payload, content_type)
    assert caught.value.reason == "decode_error"


def test_a_payload_that_ends_early_is_called_the_same_each_time() -> None:
    with pytest.raises(PayloadError, match="in Avro: cannot read float, the payload ends"):
        parse("float").decode(b"\0")


def test_a_writer_of_another_format_reads_by_itself() -> None:
    other = jsonschema.FORMAT.parse(b'{"type": "integer"}', "JsonSchema/draft-07")
    assert parse("string").reading(other) is other
    assert other.reading(parse("string")).decode(b"\x02a") == "a"


def test_enums_discriminate() -> None:
    """The symbols of enums are the constants of a schema (K-30)."""
    kind: Any = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    expected = {"e": frozenset({"A", "B"}), "again": frozenset({"A", "B"})}
    assert parse(record(("e", kind), ("again", "E"), ("n", "int"))).constants() == expected


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_payload_error(payload: bytes) -> None:
    try:
        value = parse(LOGICAL).decode(payload)
    except PayloadError as error:
        value = {"reason": error.reason}
    assert value.keys() == MEANT.keys() or value == {"reason": "decode_error"}


EVERYTHING = record(
    ("text", "string"),
    ("raw", "bytes"),
    ("choice", ["null", "long", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, record(("z", "int"), name="I")]),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("items", {"type": "array", "items": {"type": "map", "values": "double"}}),
    namespace="a.b",
)
VALUE: dict[str, Any] = {
    "text": "é", "raw": b"\xff\x00", "choice": {"z": 1}, "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "day": date(2026, 1, 2), "price": Decimal("-12.50"), "items": [{"a": 1.5}, {}],
}  # fmt: skip


@pytest.mark.parametrize("content_type", ["", "application/avro", "application/json"])
@pytest.mark.parametrize("choice", [None, 2**40, "B", {"z": -1}])
def test_values_become_payloads_again(choice: JSON, content_type: str) -> None:
    """Encoded values are decoded to the same values (K-52)."""
    schema, value = parse(EVERYTHING), {**VALUE, "choice": choice}
    assert schema.decode(schema.encode(value, content_type), content_type) == value


@given(st.recursive(st.none(), lambda inner: inner.map(lambda node: {"next": node}), max_leaves=20))
def test_lists_become_payloads_again(node: JSON) -> None:
    """The schema contains itself (K-52)."""
    schema, value = parse(NODE), {"next": node}
    for content_type in ("", "application/json"):
        assert schema.decode(schema.encode(value, content_type), content_type) == value


@pytest.mark.parametrize(
    ("change", "content_type", "reason", "path"),
    [
        ({"text": 5}, "", "schema_violation", "/text"),
        ({"other": 5}, "", "schema_violation", "/other"),
        ({"choice": "C"}, "", "schema_violation", "/choice"),
        ({"price": Decimal("1234567890.12")}, "", "schema_violation", "/price"),
        ({"at": "now"}, "", "schema_violation", "/at"),
        ({"items": [{"a": float("nan")}]}, "application/json", "schema_violation", ""),
        ({}, "application/xml", "unsupported_format", ""),
    ],
)
def test_invalid_value_is_not_encoded(change: dict[str, JSON], content_type: str, reason: str, path: str) -> None:
    """The error has the reason and the path (K-52)."""
    with pytest.raises(PayloadError) as caught:
        parse(EVERYTHING).encode({**VALUE, **change}, content_type)
    assert (caught.value.reason, caught.value.findings[0].path) == (reason, path)


@pytest.mark.parametrize("content_type", ["", "application/json"])
def test_missing_field_is_null_or_the_default(content_type: str) -> None:
    """Missing fields are encoded as null or as the default (K-52)."""
    schema = parse({**record(("a", ["null", "int"])), "fields": [
        {"name": "a", "type": ["null", "int"]}, {"name": "b", "type": "int", "default": 7}]})  # fmt: skip
    assert schema.decode(schema.encode({}, content_type), content_type) == {"a": None, "b": 7}


def test_wrong_defaults_and_namespaces_do_not_keep_schemas_from_being_used() -> None:
    """Registries have many of these schemas. A wrong default counts as none."""
    enum: JSON = {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}
    inner: JSON = {"type": "record", "name": "In", "fields": [{"name": "n", "type": "int", "default": "x"}]}
    fields: list[JSON] = [
        {"name": "e", "type": enum},
        {"name": "i", "type": inner, "default": {}},
        {"name": "k", "type": "int", "default": 3},
    ]
    document = dump_json({"type": "record", "name": "a-b.R", "fields": fields})
    findings = {(finding.path, finding.rule) for finding in FORMAT.check(document, "Avro/1.11")}
    wrong = {("/fields/0/type/default", "default"), ("/fields/1/type/fields/0/default", "default")}
    namespaces = {("/name", "namespace"), ("/fields/0/type/name", "namespace"), ("/fields/1/type/name", "namespace")}
    assert findings == {*wrong, *namespaces, ("/fields/1/default/n", "default")}
    schema = FORMAT.parse(document, "Avro/1.11")
    value = {"e": "A", "i": {"n": 1}, "k": 2}
    assert schema.decode(schema.encode(value)) == value
    assert schema.decode(schema.encode({"e": "A", "i": {"n": 1}}))["k"] == 3
    with pytest.raises(PayloadError):
        schema.encode({"e": "A"})


def test_number_of_referenced_schemas_is_limited() -> None:
    """A schema may use a hundred others, and no more."""
    count = MAX_OTHERS
    documents = {f"R{n}": json.dumps({"type": "fixed", "name": f"R{n}", "size": 1}).encode() for n in range(count + 1)}

    def using(several: int) -> bytes:
        fields = [{"name": f"f{n}", "type": f"R{n}"} for n in range(several)]
        return json.dumps({"type": "record", "name": "All", "fields": fields}).encode()

    FORMAT.parse(using(count), "Avro/1.11", resolve=documents.get)
    with pytest.raises(SchemaError, match=f"more than {MAX_OTHERS} other schemas"):
        FORMAT.parse(using(count + 1), "Avro/1.11", resolve=documents.get)
