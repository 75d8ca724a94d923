"""What dead letters keep of many messages at once is what each keeps, whichever way it was rejected."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.brokers.amqp.messages import DescribedValue, Symbol, Timestamp, Ubyte, Uint, Ulong, encode
from signalbook.messages import to_record
from signalbook.messages.bindings.mqtt import V3, V5
from signalbook.messages.message import find_address
from signalbook.pipeline import native
from signalbook.pipeline.sources.amqp import SOURCE as AMQP
from signalbook.pipeline.sources.amqp import _build_spooled_message
from signalbook.pipeline.sources.base import RECORD_TYPES, MessageBatch, Source, read_record_batches
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.sources.message_records import Recording
from signalbook.pipeline.sources.mqtt import MQTT3, MQTT5
from signalbook.pipeline.sources.nats import SOURCE as NATS

Row = dict[str, Any]
SOURCES: dict[str, Source] = {"KAFKA": KAFKA, "NATS": NATS, V3: MQTT3, V5: MQTT5, "AMQP/1.0": AMQP}

WORDS = st.sampled_from(
    ["content-type", "Content-Type", "ce-datacontenttype", "content-encoding", "a/b", '"\\', "ü\x7f🎈\n"]
)
TEXTS = st.one_of(st.text(max_size=5), WORDS)
BYTES = st.one_of(
    st.binary(max_size=5), st.sampled_from([b"text/plain", b"\xff\xc3(", "ü".encode(), b'{"specversion":"1.0"}'])
)
EVENTS = st.sampled_from([b"{}", b' {"specversion": "1.0"}'])
HEADERS = st.lists(st.fixed_dictionaries({"name": TEXTS | st.none(), "value": BYTES | st.none()}), max_size=4)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC))
PLACED: dict[str, Any] = {
    "source": st.sampled_from(["kafka:t/0", 'a"ü']),
    "position": st.integers(-1, 2**62),
    "received_at": st.none() | MOMENTS,
}

RECORDS = st.fixed_dictionaries(
    {
        "protocol": st.just("KAFKA"),
        **PLACED,
        "address": TEXTS | st.none(),
        "partition": st.none() | st.integers(0, 9),
        "key": BYTES | st.none(),
        "value": BYTES | st.none(),
        "headers": st.none() | HEADERS,
    }
)
STORED = st.fixed_dictionaries(
    {"protocol": st.just("NATS"), **PLACED, "address": TEXTS, "value": BYTES | EVENTS, "headers": st.none() | HEADERS}
)

PROPERTIES = st.fixed_dictionaries(
    {"qos": st.integers(0, 2), "retain": st.booleans()},
    optional={
        "content_type": TEXTS,
        "correlation_data": BYTES,
        "message_expiry_interval": st.integers(0, 2**32 - 1),
        "subscription_identifiers": st.lists(st.integers(1, 9), max_size=2),
        "user_properties": st.lists(st.tuples(TEXTS, TEXTS), max_size=3),
    },
).map(msgspec.msgpack.encode)
PUBLISHED = st.fixed_dictionaries(
    {"protocol": st.sampled_from([V3, V5]), **PLACED, "address": TEXTS, "key": PROPERTIES, "value": BYTES | EVENTS}
)

INTEGERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-128, 127),
    st.integers(0, 255).map(Ubyte),
    st.integers(0, 2**32 - 1).map(Uint),
    st.integers(0, 2**64 - 1).map(Ulong),
)
TIMES = st.integers(-62_135_596_800_001, 253_402_300_800_000).map(Timestamp)
SYMBOLS = st.text(st.characters(max_codepoint=127), max_size=5).map(Symbol)
SIMPLE = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(), TIMES, st.uuids(), BYTES, TEXTS, SYMBOLS, st.text(max_size=300)
)
MAPS = st.dictionaries(TEXTS | SYMBOLS | st.integers(0, 1) | st.just("$bytes"), SIMPLE | st.lists(SIMPLE, max_size=2))
MEDIA = st.none() | SYMBOLS | st.sampled_from([Symbol("text/plain"), "application/json", b"x"])
FIELDS = st.tuples(*[SIMPLE] * 2, TEXTS | st.none(), *[SIMPLE] * 3, MEDIA, MEDIA, *[TIMES | st.none()] * 2).map(list)
SECTIONS = st.lists(
    st.one_of(
        st.tuples(st.just(0x70), st.lists(st.booleans() | st.none() | INTEGERS, max_size=6)),
        st.tuples(st.sampled_from([0x71, 0x72, 0x74, 0x78]), MAPS),
        st.tuples(st.just(0x73), FIELDS),
    ),
    max_size=4,
)


def described(code: int, value: Any) -> bytes:
    return encode(DescribedValue(Ulong(code), value))


def delivered(sections: Sequence[tuple[int, Any]], body: bytes, place: Row) -> Row:
    spooled_message = _build_spooled_message(
        b"".join(described(*section) for section in sections) + described(0x75, body)
    )
    headers = [{"name": name, "value": value} for name, value in spooled_message.headers]
    return {
        "protocol": "AMQP/1.0",
        **place,
        "address": spooled_message.address,
        "key": spooled_message.key,
        "value": spooled_message.value,
    } | {"headers": headers}


DELIVERED = st.builds(delivered, SECTIONS, BYTES, st.fixed_dictionaries(PLACED))


def check(batch: MessageBatch, indices: Sequence[int]) -> None:
    source = SOURCES[batch.protocol]
    assert isinstance(source, Recording)
    messages = [source.message(batch, index) for index in indices]
    records = source.to_records(batch, indices)
    assert records is not None
    assert records.texts.to_pylist() == [to_record(message) for message in messages]
    assert {records.protocol} >= {message.protocol for message in messages}
    assert records.content_types.to_pylist() == [message.content_type or None for message in messages]
    assert records.addresses.to_pylist() == [find_address(message) for message in messages]
    assert records.received_at.to_pylist() == [message.received_at for message in messages]


@pytest.mark.parametrize("rows", [RECORDS, STORED, PUBLISHED, DELIVERED], ids=["KAFKA", "NATS", "MQTT", "AMQP"])
@given(data=st.data())
def test_recorded_messages_equal_single_messages(rows: st.SearchStrategy[Row], data: st.DataObject) -> None:
    """A dead letter contains enough for the same message, whatever the reason of its rejection (K-45)."""
    sample_rows = data.draw(st.lists(rows, min_size=1, max_size=6))
    for batch in read_record_batches(pa.RecordBatch.from_pylist(sample_rows, RECORD_TYPES)):
        check(batch, data.draw(st.lists(st.integers(0, len(batch) - 1), unique=True)))


@pytest.mark.parametrize(
    ("codes", "ends"), [([0], [2]), ([0, 0], [1]), ([1], [1]), ([-1], [1]), ([0], [1, 0])], ids=str
)
def test_headers_that_do_not_belong_together_are_refused(codes: list[int], ends: list[int]) -> None:
    values = native.PayloadSpans.of_list([b"x"] * len(codes)).places
    with pytest.raises(ValueError, match="do not belong together"):
        native.load_module().header_texts(
            ['"a"'], pa.array(codes, pa.int32()).to_numpy(), pa.array(ends).to_numpy(), values, False
        )
