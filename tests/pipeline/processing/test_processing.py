"""Messages of files whose format is not lines: each is counted once, and lands or is a dead letter with its place."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.kafkarows import rows
from tests.pipeline.processing.test_routing import outcome, processed

from signalbook.messages import Policy
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.eventformats import find_format
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import Split, separate_too_long
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables.staged_files import StagedFiles

Take = Callable[..., tuple[int, list[str], list[dict[str, Any]]]]


@pytest.fixture
def take(tmp_path: Path, parcels: Any) -> Take:
    """Return a function that reports messages read of a file, ids of parcels that landed, and dead letters."""
    contract = Snapshot.of_documents([("x", parcels.catalogue())]).compile(Policy())

    def taken(name: str, content: bytes, limit: int = MAX_MESSAGE) -> tuple[int, list[str], list[dict[str, Any]]]:
        path = tmp_path / "input"
        path.write_bytes(content)
        source = base.find_file_source(name)
        batches = separate_too_long(source.read(Split(path=str(path), start=0, end=len(content), limit=limit)), limit)
        tally, tables = processed(contract, source, batches)
        letters = tables.pop("signalbook.dead_letters", [])
        return tally.read, [row["id"] for rows in tables.values() for row in rows], letters

    return taken


def protobuf(event: dict[str, Any]) -> bytes:
    """Return the event behind its length."""
    data = json.dumps(event.pop("data")).encode()
    attributes = {**event, "datacontenttype": "application/json"}
    written = find_format("application/cloudevents+protobuf").encode(CloudEvent(attributes=attributes, body=data))
    size = len(written)
    return bytes([size] if size < 0x80 else [size & 0x7F | 0x80, size >> 7]) + written


def test_truncated_array_lands_its_complete_events(take: Take, parcels: Any) -> None:
    """The complete events land, and the incomplete one becomes a dead letter (K-45)."""
    events = [parcels.event(0), parcels.event(1, type="parcel.lost"), parcels.event(2)]
    content = json.dumps(events).encode()
    read, landed, letters = take("cloudevents-batch", content[:-20])
    assert (read, landed) == (3, ["P0"])
    assert [(letter["position"], letter["reason"]) for letter in letters] == [(1, "unknown_kind"), (2, "decode_error")]
    assert all(letter["original"] in content for letter in letters)


def test_empty_message_is_a_message(take: Take, parcels: Any) -> None:
    """A blank line is no message; in Protobuf, an empty message is an event without attributes, and its text may be
    blank.
    """
    good = protobuf(parcels.event(0))
    read, landed, letters = take("cloudevents-protobuf", good + b"\x00" + b"\x01\n" + good[:-5])
    assert (read, landed) == (4, ["P0"])
    assert [(letter["position"], letter["original"], letter["reason"]) for letter in letters] == [
        (len(good), b"", "invalid_cloudevent"),
        (len(good) + 1, b"\n", "decode_error"),
        (len(good) + 3, good[:-5], "decode_error"),
    ]
    assert "cut off" in letters[2]["violations"][0]["message"]


class Scales(StagedFiles):
    """Tells how many rows come at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, staged="s", prefix="p")
        self.added: list[int] = []

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        self.added.append(len(rows))
        super().add(name, rows)


@pytest.mark.parametrize("topic", ["orders", "others"])
def test_empty_messages_do_not_accumulate(tmp_path: Path, topic: str) -> None:
    """Records without a value land, or become dead letters, as they come: there may be millions of them."""
    definition = {"protocol": "KAFKA", "protocoloptions": {"topic": topic}}
    contract = Snapshot.of_documents([("x", {"messagegroups": {"g": {"messages": {"m": definition}}}})]).compile(
        Policy()
    )
    landing = Scales(tmp_path)
    bookkeeping = Bookkeeping(fingerprint="f", batch="b", landed_at=datetime(2026, 1, 1, tzinfo=UTC))
    processing = Processing(contract, KAFKA, landing, bookkeeping)
    for _ in range(5):
        for frame in base.read_record_batches(rows(*[(None, [])] * 4000)):
            processing.take(frame)
    assert landing.added == [8192, 8192]


def test_weight_of_a_frame_includes_headers() -> None:
    """Headers count, which are no part of the bytes that are looked at."""
    (frame,) = base.read_record_batches(rows((b"{}", [("large", b"x" * 100_000)]), (b"{}", [])))
    assert 100_000 < frame.weight < 101_000


@pytest.mark.parametrize("name", ["cloudevents-jsonl", "cloudevents-batch", "http-jsonl"])
def test_overlong_message_is_a_dead_letter(take: Take, name: str) -> None:
    texts = [b"1", b'"' + b"x" * 200_000 + b'"', b"2"]
    content = b"[" + b",".join(texts) + b"]" if name == "cloudevents-batch" else b"\n".join(texts)
    read, _, letters = take(name, content, limit=1000)
    (long,) = [letter for letter in letters if letter["violations"][0]["rule"] == "too_long"]
    assert (read, len(letters), long["reason"], len(long["original"])) == (3, 3, "decode_error", 65536)
    assert long["position"] == (1 if name == "cloudevents-batch" else 2)
    assert long["violations"][0]["message"].startswith("a message of 200002 bytes; at most 1000 are read")


@pytest.mark.parametrize("name", ["cloudevents-jsonl", "http-jsonl", "cloudevents-batch"])
def test_a_message_of_too_many_values(take: Take, parcels: Any, name: str) -> None:
    """The text is much smaller than its values in memory."""
    crowded = b"[" + b"[]," * 4_000_000 + b"1]"
    good = json.dumps(parcels.event(0)).encode()
    if name == "http-jsonl":
        request = {"method": "POST", "path": "/", "headers": {"content-type": "application/cloudevents+json"}}
        texts = [json.dumps(request | {"body": text.decode()}).encode() for text in (good, crowded)]
    else:
        texts = [good, crowded]
    content = b"[" + b",".join(texts) + b"]" if name == "cloudevents-batch" else b"\n".join(texts)
    read, landed, (letter,) = take(name, content)
    assert (read, landed, letter["reason"]) == (2, ["P0"], "decode_error")
    assert "more than 4000000 values" in letter["violations"][0]["message"]


def order(schema: dict[str, Any], *payloads: str, names: tuple[str, ...] = (), **policy: Any) -> list[dict[str, Any]]:
    """Return rows of payloads by a schema, or dead letters, with columns of these names, or those of the schema."""
    message = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "order"}},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": {"type": "object", "properties": schema},
    }
    catalogue = {"messagegroups": {"g": {"messages": {"order": message}}}}
    contract = Snapshot.of_documents([("x", catalogue)]).compile(Policy(**policy))
    event = '{"specversion":"1.0","id":"1","source":"s","type":"order","data":%s}\n'
    _, tables = outcome(contract, "".join(event % payload for payload in payloads).encode())
    (rows_,) = tables.values()
    return [{name: row[name] for name in names or (*schema, "_rescue")} for row in rows_]


PRICE = {"type": "number", "multipleOf": 0.01}


@pytest.mark.parametrize(
    "text", ["90071992547409.93", "999999999999999.99", "12345678901234567890.12", "123456789012345678901234567890"]
)
@pytest.mark.parametrize("twice", [False, True])
def test_decimals_keep_their_digits(text: str, twice: bool) -> None:
    """The two paths keep the digits: a duplicate member selects the slow one."""
    again = f',"x":{text}' if twice else ""
    (row,) = order({"p": PRICE}, f'{{"p":{text},"x":{text}{again}}}')
    assert row == {"p": Decimal(text), "_rescue": f'{{"x":{text}}}'}


def test_digits_that_a_decimal_column_has_not_are_kept() -> None:
    payload = '{"p":1.0000000000000000001,"x":{"n":1.50,"l":12345678901234567890.12},"any":[0.12345678901234567890123]}'
    # The digits break ``multipleOf``, as the validator sees.
    (row,) = order({"p": PRICE, "any": {}}, payload, on_schema_violation="tag")
    rescue = '{"p":1.0000000000000000001,"x":{"n":1.5,"l":12345678901234567890.12}}'
    assert row == {"p": None, "any": "[0.12345678901234567890123]", "_rescue": rescue}


def test_values_of_other_types_are_kept() -> None:
    """Payloads that land against their schema."""
    members = {"t": {"type": "string", "format": "date-time"}, "p": PRICE, "n": {"type": "number"}}
    payloads = ['{"t":1700000000000}', '{"t":5.0}', '{"p":"12.34"}', '{"p":" 1_2 ","t":true}', '{"p":true}']
    payloads += ['{"p":1234567890123456.789}', '{"n":true}', '{"n":"1.5"}']
    rows_ = order(members, *payloads, on_schema_violation="tag")
    assert rows_ == [{"t": None, "p": None, "n": None, "_rescue": payload} for payload in payloads]


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        *[('{"i":1.5}', "/i"), ('{"i":-0.5}', "/i"), ('{"i":true}', "/i"), ('{"i":"5"}', "/i")],
        *[('{"l":[1,2.7]}', "/l/1"), ('{"m":{"a":2.7}}', "/m/a"), ('{"s":1.10}', "/s")],
        *[('{"s":true}', "/s"), ('{"s":{"a":1}}', "/s"), ('{"b":1}', "/b")],
        *[('{"e":true}', "/e"), ('{"e":"5"}', "/e"), ('{"e":" 1_0 "}', "/e")],
    ],
)
def test_tagged_value_lands_unchanged_or_not_at_all(payload: str, path: str) -> None:
    """A value never changes to fit the type of its column (K-46)."""
    integers = {"type": "integer"}
    members = {
        "i": integers,
        "l": {"type": "array", "items": integers},
        "m": {"type": "object", "additionalProperties": integers},
        "s": {"type": "string"},
        "e": {"type": "integer", "minimum": 0, "maximum": 1e25},
        "b": {"type": "boolean"},
    }
    (row,) = order(members, payload, on_schema_violation="tag", names=("reason", "violations"))
    (violation,) = row["violations"]
    assert (row["reason"], violation["path"], violation["rule"]) == ("mapping_error", path, "column")
    assert "does not fit its column" in violation["message"]
    assert "conforms" not in violation["message"]


def test_whole_numbers_in_any_notation_are_integers() -> None:
    members = {"i": {"type": "integer"}, "s": {"type": "string"}}
    assert order(members, '{"i":1.0,"s":5}', on_schema_violation="tag") == [{"i": 1, "s": "5", "_rescue": None}]
