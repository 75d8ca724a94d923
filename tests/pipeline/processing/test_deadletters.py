"""Every reason to sideline a message can be met, and its letter has all there was of the message."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.messages import Message, Reason, parse_flags
from signalbook.messages.bindings.kafka import record
from signalbook.messages.bindings.mqtt import publish
from signalbook.pipeline import columns
from signalbook.pipeline.commands.dead_letters import DeadLetterSource, match_rows, read_message_batches
from signalbook.pipeline.job.jobs import DeadLetterFilter
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.tables.staged_files import StagedFiles

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVENT = "application/cloudevents+json"


class Given:
    """Messages as they are, one in each frame."""

    name = "given"
    cloudevents_json = False

    def __init__(self, *messages: Message) -> None:
        self._messages = messages

    def frames(self) -> Iterator[MessageBatch]:
        for number, message in enumerate(self._messages):
            body = message.body or b""
            span = np.array([0], np.int64)
            yield MessageBatch(path="in", content=body, starts=span, ends=span + len(body), positions=span + number)

    def message(self, frame: MessageBatch, _index: int) -> Message:
        return self._messages[int(frame.positions[0])]


def catalogue(parcels: Any) -> Snapshot:
    """Definitions that a message can miss in every way."""
    document = parcels.catalogue()
    messages = document["messagegroups"]["parcels"]["messages"]
    subject = {"subject": {"type": "uritemplate", "value": "{depot}", "required": True}}
    conflicting = parcels.message("parcel.moved")
    conflicting["envelopemetadata"] |= subject
    typed = {"dataschemaformat": "JsonSchema/draft-07"}
    messages |= {
        "twin.a": parcels.message("parcel.twin"),
        "twin.b": parcels.message("parcel.twin"),
        "parcel.moved": conflicting,
        "parcel.broken": parcels.message("parcel.broken", **typed, dataschema={"type": 1}),
        "parcel.lost": parcels.message("parcel.lost", **typed, dataschemauri="/schemagroups/x/schemas/none"),
        **{f"kind.{name}": kind(name) for name in "ab"},
        "native": {**conflicting, "protocol": "KAFKA", "protocoloptions": {"topic": "moves"}},
    }
    return Snapshot.of_documents([("d", document)])


def kind(name: str) -> dict[str, Any]:
    """A definition that a member of its payload tells apart from others with the topic ``kinds``."""
    schema = {"type": "object", "required": ["kind"], "properties": {"kind": {"const": name}}}
    options = {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "kinds"}}
    return {**options, "dataschemaformat": "JsonSchema/draft-07", "dataschema": schema}


def sidelined(snapshot: Snapshot, source: Any, folder: Path, *flags: str) -> list[dict[str, Any]]:
    landing = StagedFiles(folder, staged="s", prefix="p")
    bookkeeping = Bookkeeping(fingerprint="f", batch="b1", landed_at=NOW)
    processing = Processing(snapshot.compile(parse_flags(flags)), source, landing, bookkeeping)
    for frame in source.frames():
        processing.take(frame)
    processing.clear()
    files = [file for file in landing.finish() if file.table.message == "dead_letters"]
    return [row for file in files for row in pq.ParquetFile(folder / file.name).read().to_pylist()]


def event(parcels: Any, **more: Any) -> Message:
    return Message(content_type=EVENT, body=json.dumps(parcels.event(1, **more)).encode())


def messages(parcels: Any) -> dict[Reason, Message]:
    bare = {name: value for name, value in parcels.event(1).items() if name != "id"}
    binary = [(f"ce_{name}", str(parcels.event(1)[name]).encode()) for name in ("specversion", "id", "source", "type")]
    return {
        Reason.NO_MATCH: publish("MQTT/5.0", b"{}", {"topic_name": "other"}),
        Reason.UNKNOWN_KIND: publish("MQTT/5.0", b'{"kind":"c"}', {"topic_name": "kinds"}),
        Reason.AMBIGUOUS: event(parcels, type="parcel.twin"),
        Reason.METADATA_VIOLATION: event(parcels, source="/elsewhere"),
        Reason.PLACEHOLDER_CONFLICT: event(parcels, type="parcel.moved", subject="8"),
        Reason.NOT_CLOUDEVENT: record("else", b"{}", [("h", b"\xff")], key=b"\x00", partition=3, offset=4),
        Reason.INVALID_CLOUDEVENT: Message(content_type=EVENT, body=json.dumps(bare).encode()),
        Reason.UNSUPPORTED_FORMAT: Message(content_type="application/cloudevents+morse", body=b"-."),
        Reason.SCHEMA_NOT_FOUND: event(parcels, type="parcel.lost"),
        Reason.DECODE_ERROR: record("t", b"\x00", [*binary, ("content-encoding", b"gzip")], received_at=NOW),
        Reason.SCHEMA_VIOLATION: record("t", None, binary, key=b"k"),
        Reason.MAPPING_ERROR: event(parcels, data={"id": "P", "weight": 1, "size": {"l": 2**70}}),
        Reason.CONTRACT_UNAVAILABLE: event(parcels, type="parcel.broken"),
    }


def test_every_reason_is_met_and_every_message_rebuilt(parcels: Any, tmp_path: Path) -> None:
    """K-44, K-45"""
    sent = messages(parcels)
    assert sent.keys() == set(Reason)
    letters = sidelined(catalogue(parcels), Given(*sent.values()), tmp_path)
    assert {letter["position"]: letter["reason"] for letter in letters} == dict(enumerate(sent))
    silent = {letter["reason"] for letter in letters if not letter["violations"]}
    assert silent <= {Reason.NO_MATCH, Reason.NOT_CLOUDEVENT}
    rows = pa.RecordBatch.from_pylist(letters, columns.DEAD_LETTER)
    again = [
        DeadLetterSource().message(frame, index)
        for frame in read_message_batches(0, rows, match_rows(DeadLetterFilter(), rows))
        for index in range(len(frame))
    ]
    assert again == [list(sent.values())[letter["position"]] for letter in letters]


def test_a_value_that_fits_no_column_is_named(parcels: Any, tmp_path: Path) -> None:
    sent = messages(parcels)[Reason.MAPPING_ERROR]
    (letter,) = sidelined(catalogue(parcels), Given(sent), tmp_path)
    message = f"{2**70} conforms, but does not fit its column, which is int64"
    assert letter["violations"] == [{"path": "/size/l", "rule": "column", "message": message}]


def test_events_of_a_batch_have_letters_of_their_own(parcels: Any, tmp_path: Path) -> None:
    """Every event of a batch has its own letter (K-47)."""
    events = [parcels.event(0), parcels.event(1, data={}), parcels.event(2, type="parcel.unheard")]
    body = json.dumps(events).encode()
    batch = Message(content_type="application/cloudevents-batch+json", body=body)
    letters = sidelined(catalogue(parcels), Given(batch), tmp_path)
    expected = [(1, None, "e-1"), (2, None, "e-2")]
    assert [(letter["element"], letter["body"], json.loads(letter["original"])["id"]) for letter in letters] == expected
    assert json.loads(letters[0]["message"])["content_type"] == EVENT


def test_partly_landed_message_has_a_marked_letter(parcels: Any, tmp_path: Path) -> None:
    """The letter concerns one definition only, and is not replayed (K-46)."""
    document = parcels.catalogue()
    messages_ = document["messagegroups"]["parcels"]["messages"]
    messages_["parcel.twin"] = parcels.message("parcel.accepted")
    snapshot = Snapshot.of_documents([("d", document)])
    too_large = event(parcels, data={"id": "P", "weight": 1, "size": {"l": 2**70}})
    (letter,) = sidelined(snapshot, Given(too_large), tmp_path, "on_ambiguous=all")
    assert letter["definition"] == "/messagegroups/parcels/messages/parcel.accepted"
    rows = pa.RecordBatch.from_pylist([letter], columns.DEAD_LETTER)
    assert not match_rows(DeadLetterFilter(), rows).any()
