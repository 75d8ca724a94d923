"""A message is rebuilt from its record, whatever its protocol puts beside the body (K-45)."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages import Message, of_record, to_record
from signalbook.messages.bindings import amqp, kafka, mqtt
from signalbook.messages.bindings.http import request

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
TIMES = st.datetimes().map(lambda time: time.replace(fold=0))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.uuids(),
    st.decimals(allow_nan=False), TIMES, TIMES.map(lambda time: time.replace(tzinfo=UTC)),
)  # fmt: skip
NAMES = st.one_of(st.text(), st.sampled_from(["$bytes", "$", "$map"]), st.integers())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "message",
    [
        Message(body=b"{}", content_type="application/cloudevents+json"),
        Message(),
        request("POST", "/in", [("Content-Type", "text/plain"), ("X", "1"), ("X", "2")], b"x", received_at=NOW),
        kafka.record("t", None, [("h", b"\xff"), ("h", b"")], key=b"\x00", partition=1, offset=2**40, received_at=NOW),
        mqtt.publish(mqtt.V5, b"", {"topic_name": "a/b", "qos": 1, "correlation_data": b"\x01", "retain": False}),
        amqp.message(
            b"x",
            {
                "properties": {"message-id": UUID(int=1), "content-encoding": "gzip", "creation-time": NOW},
                "application-properties": {"d": Decimal("1.50"), "n": float("inf"), "l": [1, (2,)], "$x": {}},
                "footer": {},
            },
            received_at=datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            reference="q/1",
        ),
    ],
)
def test_a_message_is_rebuilt(message: Message) -> None:
    """K-7, K-45"""
    assert of_record(to_record(message), message.body or b"") == message


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.none() | st.binary())
def test_messages_survive_serialisation(sections: dict[str, Any], body: bytes | None) -> None:
    message = Message(protocol="AMQP/1.0", body=body, sections=sections)
    again = of_record(to_record(message), body or b"")
    assert again == message
    assert repr(again.sections) == repr(dict(sections))


def test_headers_read_as_people_expect() -> None:
    sent = request("POST", "/in", [("Content-Type", "text/plain")], b"")
    assert json.loads(to_record(sent))["sections"]["headers"] == [["Content-Type", "text/plain"]]


def test_deeply_nested_sections_are_truncated() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    record = to_record(Message(sections={"properties": {"a": deep}, "b": 1}))
    assert of_record(record, b"").sections["b"] == 1


@pytest.mark.parametrize(
    "record",
    [
        *("", "1", "[]", '{"sections":{"$what":1}}', '{"sections":{"$bytes":1}}'),
        *('{"sections":5}', '{"sections":{"a":{"$decimal":"x"}}}'),
    ],
)
def test_other_texts_are_no_records(record: str) -> None:
    with pytest.raises(ValueError):
        of_record(record, b"")
