"""Records that Spark brings, as frames: what goes the fast way, and that both ways come to the same."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import AT, batches, rows
from tests.pipeline.processing.test_routing import check_batches

from signalbook.messages import Contract, Policy
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import HeaderNames
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.kafka import SOURCE

EVENT = ("content-type", b"application/cloudevents+json")


def events_of(records: pa.RecordBatch) -> Any:
    folded = records.column("protocol")[0].as_py() in base.CASELESS
    return base.find_structured_events(records, HeaderNames.of(records.column("headers"), folded=folded))[0]


@pytest.mark.parametrize(
    ("value", "headers", "event"),
    [
        (b"{}", [EVENT], True),
        (b"{}", [("content-type", b"application/cloudevents+json; charset=utf-8")], True),
        (b"{}", [EVENT, ("x", b"\xff")], True),
        (b"{}", [], False),
        (None, [EVENT], False),
        (b"{}", [EVENT, EVENT], False),
        (b"{}", [EVENT, ("content-encoding", b"gzip")], False),
        (b"{}", [("Content-Type", EVENT[1])], False),
        (b"{}", [("content-type", b"application/json")], False),
    ],
)
def test_events_are_recognised_by_their_headers(
    value: bytes | None, headers: list[tuple[str, bytes]], event: bool
) -> None:
    batch = rows((b"a", []), (value, headers), (b"{}", [EVENT]))
    for part in (batch, batch.slice(1), batch.slice(1, 1)):
        assert events_of(part).tolist()[-2 if len(part) > 1 else 0] is event


@pytest.mark.parametrize("protocol", ["HTTP", "NATS"])
@pytest.mark.parametrize(("name", "events"), [("Content-Type", [True, False]), ("content-type", [True, False])])
def test_names_of_headers_may_have_no_case(protocol: str, name: str, events: list[bool]) -> None:
    """A repeated header in any case takes the slow path (K-20)."""
    batch = rows((b"{}", [(name, EVENT[1])]), (b"{}", [EVENT, ("CONTENT-TYPE", b"text/plain")]))
    batch = batch.set_column(0, "protocol", pa.array([protocol] * 2))
    assert events_of(batch).tolist() == events


@pytest.mark.parametrize(
    ("protocol", "name", "encoded"),
    [
        ("KAFKA", "content-encoding", [7]),
        ("KAFKA", "Content-Encoding", []),
        ("HTTP", "Content-Encoding", [7]),
        ("NATS", "CONTENT-ENCODING", [7]),
        ("", "content-encoding", [7, 10]),
        ("MQTT/5.0", "content-encoding", []),
    ],
)
def test_encoded_events_have_their_own_frames(protocol: str, name: str, encoded: list[int]) -> None:
    twice = [EVENT, (name, b"gzip"), (name, b"gzip")]
    batch = rows((b"x", [EVENT, (name, b"gzip")]), (b"{}", [EVENT]), (b"x", twice), (b"x", [(name, b"gzip")]))
    batch = batch.set_column(0, "protocol", pa.array([protocol] * 4))
    frames = [frame for frame in base.read_record_batches(batch) if frame.encoded]
    assert [position for frame in frames for position in frame.positions.tolist()] == encoded
    assert not any(frame.binary for frame in frames)


def test_frames_have_one_source_and_bounded_size() -> None:
    large = b"x" * 400_000
    batches = [rows(*[(large, [EVENT])] * 7), rows((b"", []), (b"{}", [EVENT]), (None, []), partition=1)]
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    frames = list(base.read_record_batches(table))
    assert sum(len(frame) for frame in frames) == 10
    assert all(len(frame.content) < 2_000_000 for frame in frames)
    expected = {("kafka:orders/0", False), ("kafka:orders/1", True), ("kafka:orders/1", False)}
    assert {(frame.path, frame.binary) for frame in frames} == expected
    last = next(frame for frame in frames if frame.path.endswith("1") and frame.binary)
    messages = [(last.raw(n), SOURCE.message(last, n).body, int(last.positions[n])) for n in range(2)]
    assert messages == [(b"", b"", 7), (b"", None, 9)]


@pytest.mark.parametrize(
    ("moment", "year"),
    [(2**62, None), (-(2**62), None), (253402300800000000, None), (253402300799999999, 9999), (-62135596800000000, 1)],
)
def test_invalid_time_is_null(moment: int, year: int | None) -> None:
    """A producer that takes microseconds for milliseconds is in the year 50000."""
    times = pa.array([moment, None, 0], pa.int64()).cast(columns.TIMESTAMP)
    batch = rows((b"a", []), (b"b", []), (b"{}", [EVENT])).set_column(8, "received_at", times)
    slow, fast = sorted(base.read_record_batches(batch), key=len, reverse=True)
    first, second = (SOURCE.message(slow, number).received_at for number in range(2))
    assert (first.year if first else None, second) == (year, None)
    times = base.build_transport_arrays(fast.records, fast.header_names(folded=False))[-1]
    assert times.to_pylist() == [datetime(1970, 1, 1, tzinfo=UTC)]


def test_no_records_are_no_frames() -> None:
    assert list(base.read_record_batches(rows())) == []


@pytest.fixture(scope="module")
def contract(parcels: Any) -> Contract:
    return Snapshot.of_documents([("x", parcels.catalogue())]).compile(Policy())


HEADERS = st.lists(
    st.sampled_from([EVENT, ("trace", b"1"), ("trace", b"2"), ("bin", b"\xff"), ("content-encoding", b"gzip")]),
    max_size=3,
)


@given(
    st.lists(st.tuples(st.sampled_from(["{}", "", None, "x\n{}", "{}\n{}"]) | st.just("sound"), HEADERS), max_size=9)
)
@settings(max_examples=examples(60))
def test_both_ways_give_equal_messages(contract: Contract, parcels: Any, pairs: list[tuple[Any, Any]]) -> None:
    sent = []
    for number, (text, headers) in enumerate(pairs):
        value = json.dumps(parcels.event(number), indent=number % 2 or None) if text == "sound" else text
        sent.append((None if value is None else value.encode(), headers))
    check_batches(contract, batches(*sent))


def test_structured_events_take_the_fast_path(contract: Contract, parcels: Any) -> None:
    sent = batches(*((json.dumps(parcels.event(n)).encode(), [EVENT, ("trace", b"t")]) for n in range(20)))
    tally, tables = check_batches(contract, sent, fast=True)
    assert tally.landed.total() == 20
    first = tables["parcels.parcel.accepted"][0]
    assert (first["_protocol"], first["_address"], first["_received_at"]) == ("KAFKA", "orders", AT)
    assert (first["_source"], first["_position"]) == ("kafka:orders/0", 7)
    assert first["_headers"] == [("content-type", EVENT[1].decode()), ("trace", "t")]
