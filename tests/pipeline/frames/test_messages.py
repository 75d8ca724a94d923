"""Rows of a DataFrame as messages of several protocols, held to a contract without Spark."""

import json
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.frames.conftest import GROUP, Held
from tests.pipeline.kafkarows import AVRO_VALUES, PROTO_VALUES

from signalbook.pipeline.columns import DEAD_LETTER
from signalbook.pipeline.frames.rows import LANDED
from signalbook.pipeline.sources.base import NOWHERE, RECORD_TYPES

EVENT = b"application/cloudevents+json"
BINARY = {"specversion": "1.0", "id": "1", "source": "/depots/7", "type": "parcel.accepted"}
PAYLOAD = b'{"id": "P",  "weight": 1.50, "undeclared": [1]}'


def records(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Rows of which only what is said is not null."""
    full_rows = [{"protocol": "", "source": "", "position": number, **row} for number, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(full_rows, RECORD_TYPES)


def headers(attributes: dict[str, str], prefix: str = "") -> list[dict[str, Any]]:
    return [{"name": prefix + name, "value": value.encode()} for name, value in attributes.items()]


def binary(prefix: str, value: bytes = PAYLOAD, **more: str) -> dict[str, Any]:
    attributes = BINARY | more
    content_type = attributes.pop("datacontenttype", "application/json")
    return {"value": value, "headers": headers(attributes, prefix) + headers({"content-type": content_type})}


@pytest.mark.parametrize(
    ("protocol", "prefix", "definition"),
    [
        ("", "ce_", "parcel.accepted"),
        ("KAFKA", "ce_", "parcel.accepted"),
        ("NATS", "ce-", "parcel.accepted"),
        ("MQTT/5.0", "", "parcel.accepted"),
        ("AMQP/1.0", "cloudEvents_", "parcel.accepted"),
        ("HTTP", "ce-", "sent"),
    ],
)
def test_events_in_binary_mode(held: Held, parcels: Any, protocol: str, prefix: str, definition: str) -> None:
    """The attributes are found as the binding of the protocol has them, and the payload is unchanged (K-7)."""
    kind = "parcel.sent" if definition == "sent" else definition
    structured = json.dumps(parcels.event(7)).encode()
    sent = [
        {**binary(prefix, type=kind), "address": "/in"},
        {"value": structured, "headers": headers({"content-type": EVENT.decode()})},
        {**binary(prefix, b"{}", type=kind), "address": "/in"},
    ]
    first, second, third = held(records(*({**row, "protocol": protocol} for row in sent)))
    names = ("data", "_definition", "_protocol", "_address", "ce_id")
    expected = [PAYLOAD.decode(), GROUP + definition, protocol or None, "/in", "1"]
    assert [first["landed"][name] for name in names] == expected
    assert json.loads(second["landed"]["data"]) == parcels.event(7)["data"]
    letter = third["dead_letter"]
    assert (letter["reason"], letter["original"], letter["protocol"]) == ("schema_violation", b"{}", protocol or None)


def test_protocols_may_differ_from_row_to_row(held: Held) -> None:
    kafka = {**binary("ce_"), "protocol": "KAFKA", "address": "orders", "source": "kafka:orders/0"}
    further_rows = [binary("ce_"), {**binary("ce_"), "protocol": "PIGEON"}, {"value": None, "protocol": "KAFKA"}]
    rows = held(records(kafka, *further_rows))
    assert [row["landed"] and row["landed"]["_protocol"] for row in rows] == ["KAFKA", None, None, None]
    assert "'PIGEON' can be read" in rows[2]["dead_letter"]["violations"][0]["message"]
    assert rows[3]["dead_letter"]["reason"] == "not_cloudevent"


def test_text_is_a_structured_event(held: Held, parcels: Any) -> None:
    """The text is like a line of a file; an unknown position is null, and there is no batch."""
    texts = [json.dumps(parcels.event(number)).encode() for number in range(3)]
    rows = held(records(*({"value": text, "position": NOWHERE} for text in (*texts, b"{"))))
    assert len(rows) == 4
    landed = [row["landed"] for row in rows if row["landed"]]
    assert {row["ce_id"] for row in landed} == {"e-0", "e-1", "e-2"}
    names = ("_position", "_source", "_batch", "_landed_at")
    assert {tuple(row[name] for name in names) for row in landed} == {(None,) * 4}
    (dead,) = (row["dead_letter"] for row in rows if row["dead_letter"])
    assert (dead["position"], dead["source"], dead["batch"], dead["original"]) == (None, None, None, b"{")


@pytest.mark.parametrize("alone", [True, False], ids=["slow", "fast"])
@pytest.mark.parametrize(
    ("kind", "content_type", "value", "data"),
    [
        ("measured", "application/avro", AVRO_VALUES[0], '{"id":"P","weight":1.5,"sides":[1,-2,300],"how":"BELT"}'),
        ("measured", "application/avro", AVRO_VALUES[1], '{"id":"","weight":null,"sides":[],"how":"HAND"}'),
        (
            *("scanned", "application/protobuf", PROTO_VALUES[0]),
            '{"id":"P","weight":1.0,"how":"BELT","sides":[1,300],"size":{"l":-2,"w":5},"marks":["a",""]}',
        ),
        (
            *("measured", "application/avro", b"\x02P\x02" + struct.pack("<d", -math.inf) + b"\x00\x00"),
            '{"id":"P","weight":"-Infinity","sides":[],"how":"HAND"}',
        ),
        (
            *("scanned", "application/protobuf", b"\x0a\x01P\x11" + struct.pack("<d", math.nan)),
            '{"id":"P","weight":"NaN","how":"HAND","sides":[],"size":null,"marks":[]}',
        ),
        ("noted", "text/plain", b"anything", "anything"),
        ("noted", "text/plain", b"\xff", None),
    ],
)  # fmt: skip
def test_other_payloads(held: Held, kind: str, content_type: str, value: bytes, data: Any, *, alone: bool) -> None:
    """Data is JSON where the schema describes it; otherwise it is text, or bytes if it is not text."""
    more = {} if not alone else {"time": "2026-01-02T03:04:60Z"}  # which the fast path leaves
    row = binary("ce_", value, type=f"parcel.{kind}", datacontenttype=content_type, **more)
    (row_,) = held(records({**row, "protocol": "KAFKA"}))
    landed = row_["landed"]
    assert (landed["data"], landed["data_binary"]) == (data, None if data else value)


def test_outcomes_have_the_columns_of_tables(held: Held) -> None:
    landed, dead = held(records(binary("ce_"), binary("ce_", b"1")))
    assert list(landed["landed"]) == LANDED.names
    assert list(dead["dead_letter"]) == DEAD_LETTER.names


def test_sessions_may_have_larger_types(held: Held) -> None:
    """The types depend on Spark's setting ``spark.sql.execution.arrow.useLargeVarTypes`` and on the time zone."""
    pairs = pa.list_(pa.struct([("name", pa.large_string()), ("value", pa.large_binary())]))
    larger = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary(), RECORD_TYPES.field("headers").type: pairs}
    zone = {RECORD_TYPES.field("received_at").type: pa.timestamp("us", "America/New_York")}
    types = pa.schema([(field.name, (larger | zone).get(field.type, field.type)) for field in RECORD_TYPES])
    (row,) = held(records({**binary("ce_"), "protocol": "KAFKA", "address": "orders"}).cast(types))
    assert row["landed"]["_address"] == "orders"
