"""Keys of Kafka records that have a schema: both paths give the same column, and a key never stops its record."""

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import batches, write_datum
from tests.pipeline.processing.test_prefixed import GUIDS, definitions_of, versions
from tests.pipeline.processing.test_routing import Outcome, check_batches

from signalbook.messages import Contract, parse_flags
from signalbook.pipeline.frames.rows import LANDED, TextRowBuilder
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.tables.layout import find_layout

VALUE = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
KEY_1 = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
KEY_2 = {
    **KEY_1,
    "fields": [{"name": "id", "type": "long"}, {"name": "shop", "type": ["null", "string"], "default": None}],
}
JSON_KEY = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
PROTO_KEY = 'syntax = "proto3"; message Key { string id = 1; }'
ANYTHING: dict[str, Any] = {"title": "Anything"}
# The versions of the key schema, by id, and keys by each of them. Bytes follow the id.
KINDS: dict[str, tuple[str, dict[int, Any], dict[int, list[bytes]]]] = {
    "record": ("AVRO", {2: KEY_1, 3: KEY_2}, {2: [b"\x0e", b"", b"\xff" * 6], 3: [b"\x0e\x02\x02a", b"\x0e\0", b"\2"]}),
    "string": ("AVRO", {2: '"string"'}, {2: [b"\x02a", b"\0", b"\x04a", b"\x02\xff"]}),
    "json": ("JSON", {2: JSON_KEY}, {2: [b'{"id": "a"}', b'{"id": "a", "more": 1}', b'{"id": 1}', b"{", b"null"]}),
    "protobuf": ("PROTOBUF", {2: PROTO_KEY}, {2: [b"\0\x0a\1a", b"\2\0\x0a\1a", b"\2\2\x0a\1a", b"\0\xff", b"\2"]}),
    "anything": ("JSON", {2: ANYTHING}, {2: [b"1", b"null", b'{"a": 1}', b"{"]}),
}
PAYLOADS = [payload for _, _, keys in KINDS.values() for payloads in keys.values() for payload in payloads]


@cache
def contract(kind: str, *flags: str) -> Contract:
    """Return the contract of the topic `orders`, whose keys have the schema that `KINDS` names."""
    type, schemas, _ = KINDS[kind]  # noqa: A001
    subjects = [*versions("orders-value", "AVRO", {1: VALUE}), *versions("orders-key", type, schemas)]
    messages, stored_schemas = definitions_of(subjects, "topic")
    policy = parse_flags(flags)
    snapshot = Snapshot(messages=messages, schemas=stored_schemas, selected=tuple(messages), subjects="topic")
    return Snapshot.from_json(snapshot.check(policy).to_json()).compile(policy)


def prefixed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


RECORD: tuple[bytes, list[tuple[str, bytes | None]]] = (prefixed(1, write_datum(VALUE, {"n": 5})), [])


def land(contract_: Contract, *keys: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> Outcome:
    """Return what becomes of records with these keys, on both paths."""
    value, _ = RECORD
    return check_batches(contract_, batches(*[(value, list(headers))] * len(keys), keys=keys))


def decoded(outcome: Outcome) -> list[Any]:
    (rows,) = outcome[1].values()
    return [row["_decoded_key"] for row in rows]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("record", [{"id": 7, "shop": None}, None, None, {"id": 7, "shop": "a"}, {"id": 7, "shop": None}, None]),
        ("string", ["a", "", None, None]),
        ("json", [{"id": "a"}, {"id": "a"}, None, None, None]),
        ("protobuf", [{"id": "a"}, {"id": "a"}, None, None, None]),
        ("anything", ["1", "null", '{"a": 1}', None]),
    ],
)
def test_a_key_is_a_column_by_its_schema(kind: str, expected: list[Any]) -> None:
    """Older versions of a schema too. A key that does not conform is null, its record lands, and it is counted."""
    keys = [prefixed(number, key) for number, payloads in KINDS[kind][2].items() for key in payloads]
    outcome = land(contract(kind), *keys)
    assert decoded(outcome) == expected
    (rows,) = outcome[1].values()
    assert [row["_key"] for row in rows] == keys
    (counted,) = outcome[0].rescued.values()
    assert counted == {"_key": expected.count(None)}


def test_keys_without_the_schema_stay_bytes() -> None:
    keys = (b"plain", prefixed(99, b"\x0e"), prefixed(1, b"\x0a"), b"\0", b"", None)
    outcome = land(contract("record"), *keys)
    assert decoded(outcome) == [None] * len(keys)
    (counted,) = outcome[0].rescued.values()
    assert counted == {"_key": len(keys) - 1}


@pytest.mark.parametrize("guid", [GUIDS[3], "41414141-4141-4141-4141-414141414141"], ids=["bytes", "text"])
def test_the_schema_of_a_key_may_be_in_a_header(guid: str) -> None:
    """Also if the header is text, and so is not among the raw headers."""
    header = ("__key_schema_id", b"\1" + UUID(guid).bytes)
    expected = {"id": 7, "shop": "a"} if guid == GUIDS[3] else None
    assert decoded(land(contract("record"), b"\x0e\x02\x02a", headers=[header])) == [expected]
    assert decoded(land(contract("record"), b"\x0e\x02\x02a", headers=[("x", b"\xff"), header])) == [expected]


SCHEMAS = "/schemagroups/subjects/schemas"


def defined(schema: str, *flags: str) -> Contract:
    """Return the contract of a message definition that names the schema of a subject."""
    subjects = [version for name in ("orders", "other") for version in versions(f"{name}-value", "AVRO", {1: VALUE})]
    _, schemas = definitions_of([*subjects, *versions("orders-key", "AVRO", {2: KEY_1, 3: KEY_2})], "topic")
    xid = "/messagegroups/g/messages/m"
    message = {"protocol": "KAFKA", "protocoloptions": {"topic": "orders"}, "dataschemauri": f"{SCHEMAS}/{schema}"}
    return Snapshot(messages={xid: message}, schemas=schemas, selected=(xid,)).compile(parse_flags(flags))


@pytest.mark.parametrize("flags", [(), ("wire_prefix=confluent",)], ids=["bare", "prefixed"])
def test_definitions_of_a_registry_have_the_key_column(flags: tuple[str, ...]) -> None:
    """Keys have the newest version if there is no wire prefix, as payloads have."""
    contract_ = defined("orders-value", *flags)
    value, keys = write_datum(VALUE, {"n": 5}), (b"\x0e\x02\x02a", b"\x0e")
    if flags:
        value, keys = prefixed(1, value), (prefixed(3, keys[0]), prefixed(2, keys[1]))
    outcome = check_batches(contract_, batches((value, []), (value, []), keys=keys))
    assert decoded(outcome) == [{"id": 7, "shop": "a"}, {"id": 7, "shop": None} if flags else None]


def test_a_subject_without_keys_has_no_column() -> None:
    (definition,) = defined("other-value").definitions.values()
    assert "_decoded_key" not in find_layout(definition).columns.names


def test_rows_with_the_payload_as_text_have_no_column() -> None:
    landed: list[pa.RecordBatch] = []
    staged = SimpleNamespace(add=lambda _, rows: landed.append(rows))
    processing = Processing(contract("record"), KAFKA, staged, Bookkeeping(fingerprint="f"), builder=TextRowBuilder)
    for batch in batches(RECORD, keys=[prefixed(3, b"\x0e\0")]):
        processing.take(batch)
    processing.clear()
    assert [rows.num_rows for rows in landed if rows.schema.names == LANDED.names] == [1]


@settings(max_examples=examples(60))
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from([(), ("columns=as_sent",), ("rescue=drop",)]),
    st.lists(
        st.one_of(
            st.none(),
            st.binary(max_size=8),
            st.tuples(st.integers(1, 4), st.binary(max_size=6)).map(lambda drawn: prefixed(*drawn)),
            st.tuples(st.integers(2, 3), st.sampled_from(PAYLOADS)).map(lambda drawn: prefixed(*drawn)),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_both_paths_agree_on_any_keys(kind: str, flags: tuple[str, ...], keys: list[bytes | None]) -> None:
    tally, tables = land(contract(kind, *flags), *keys)
    assert tally.landed.total() == len(keys)
    (rows,) = tables.values()
    assert [row["_key"] for row in rows] == keys
