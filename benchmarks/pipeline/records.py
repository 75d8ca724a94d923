"""The same payloads as Kafka records: JSON, Avro and Protobuf, held to definitions and landed in one process.

Prefixed records have no envelope: an id before the payload names its schema, a version of the subject of one of as many
topics as there are definitions. Those called mixed are half of them of the version before, which lacks a field. Plain
records have neither: each definition has a topic. Events ``beside_plain`` are held to a contract with one such
definition more, on a topic of its own.

    python -m benchmarks.pipeline.records [--records 200000] [--rounds 5]

What Spark and the broker cost is left out on purpose: it is the same for all of them. Microseconds are those of CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
from benchmarks.pipeline.traffic import GROUP, STATUSES, catalogue, event
from google.protobuf import json_format

from signalbook.client.schemaversions import SchemaVersion
from signalbook.formats.protobuf.format import FORMAT as PROTOBUF
from signalbook.messages import Contract, Policy
from signalbook.pipeline import columns
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.subjects import Subjects
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.report import Tally
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch, Source
from signalbook.pipeline.sources.kafka import SOURCE
from signalbook.pipeline.tables.staged_files import StagedFiles

TYPES = 50
BATCH = 10_000
AT = datetime(2026, 1, 2, tzinfo=UTC)
HEADER = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
ROWS = pa.schema(
    [
        *(("protocol", pa.string()), ("source", pa.string()), ("position", pa.int64()), ("address", pa.string())),
        *(("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADER)),
        ("received_at", columns.TIMESTAMP),
    ]
)


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


_ADDRESS = _record("Address", country="string", city="string", zip=["null", "string"])
_SIZE = _record("Size", l="int", w="int", h="int")
AVRO = _record(
    "Event",
    parcel=_record("Parcel", id="string", weight="double", size=_SIZE),
    **{"from": _ADDRESS, "to": "Address"},
    status={"type": "enum", "name": "Status", "symbols": list(STATUSES)},
    codes={"type": "array", "items": "long"},
    insured="boolean",
    note=["null", "string"],
)
AVRO["fields"][-1]["default"] = None
EARLIER = {**AVRO, "fields": AVRO["fields"][:-1]}
PROTO = """syntax = "proto3";
message Event {
  message Size { int32 l = 1; int32 w = 2; int32 h = 3; }
  message Parcel { string id = 1; double weight = 2; Size size = 3; }
  message Address { string country = 1; string city = 2; optional string zip = 3; }
  enum Status { accepted = 0; in_transit = 1; out_for_delivery = 2; delivered = 3; }
  Parcel parcel = 1; Address from = 2; Address to = 3; Status status = 4; repeated int64 codes = 5; bool insured = 6;
  optional string note = 7;
}"""
SCHEMAS = {"avro": ("Avro/1.11", AVRO), "protobuf": ("Protobuf/3", PROTO)}
CONTENT_TYPES = {"json": "application/json", "avro": "application/avro", "protobuf": "application/protobuf"}
PREFIXED = {
    "prefixed_json": ("json", False),
    "prefixed_avro": ("avro", False),
    "prefixed_avro_mixed": ("avro", True),
    "prefixed_protobuf": ("protobuf", False),
}
PLAIN = {"plain_json": "json", "plain_avro": "avro", "plain_protobuf": "protobuf"}
TYPE_NAMES = {"json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}
MODES = {
    "structured_json": ("json", True),
    "binary_json": ("json", False),
    "binary_avro": ("avro", False),
    "binary_protobuf": ("protobuf", False),
}
BESIDE_PLAIN = {"structured_json_beside_plain": "structured_json", "binary_json_beside_plain": "binary_json"}

# What the rates of records in Avro and Protobuf are compared with: the same payloads in JSON.
PEERS = {
    "binary_avro": ("structured_json", "binary_json"),
    "binary_protobuf": ("structured_json", "binary_json"),
    "prefixed_avro": ("prefixed_json",),
    "prefixed_protobuf": ("prefixed_json",),
}


def contract(kind: str, *, plain: int = 0, events: int = TYPES) -> Contract:
    """The definitions of the bench with payloads of ``kind``: so many of events, and so many of plain records."""
    document = catalogue(events + plain)
    messages = document["messagegroups"][GROUP]["messages"]
    for number, name in enumerate(list(messages)[events:]):
        kept = {key: messages[name][key] for key in ("dataschemaformat", "dataschemauri")}
        messages[name] = {**kept, "protocol": "KAFKA", "protocoloptions": {"topic": f"topic{number}"}}
    if kind in SCHEMAS:
        stated, schema = SCHEMAS[kind]
        for message in messages.values():
            message["dataschemaformat"] = stated
            message["dataschemauri"] += "#Event"
        for entity in document["schemagroups"][GROUP]["schemas"].values():
            entity["versions"]["1"] = {"format": stated, "schema": schema}
    return Snapshot.of_documents([("bench", document)]).compile(Policy())


def by_subjects(kind: str) -> Contract:
    """The same with a topic and its subject instead of each definition; the version before lacks the last field."""
    document = catalogue(TYPES)
    known = []
    for number, entity in enumerate(document["schemagroups"][GROUP]["schemas"].values()):
        latest = SCHEMAS[kind][1] if kind in SCHEMAS else entity["versions"]["1"]["schema"]
        before = EARLIER if kind == "avro" else latest
        for version, schema in enumerate((before, latest), 1):
            text = schema if isinstance(schema, str) else json.dumps(schema)
            known.append(
                SchemaVersion(
                    subject=f"topic{number}-value", version=version, id=2 * number + version,
                    body={"schemaType": TYPE_NAMES[kind], "schema": text},
                )
            )  # fmt: skip
    found = Subjects({(each.subject, each.version): each for each in known}, {each.subject: 2 for each in known})
    messages, schemas = found.build_definitions("topic")
    return Snapshot(messages=messages, schemas=schemas, selected=tuple(messages), subjects="topic").compile(Policy())


def encoders() -> dict[str, Callable[[Any], bytes]]:
    """From a payload to its bytes, for each kind."""
    avro = fastavro.parse_schema(AVRO)
    proto = PROTOBUF.parse(PROTO.encode(), "Protobuf/3", link="Event").message_type

    earlier = fastavro.parse_schema(EARLIER)

    def to_avro(data: Any, schema: Any = avro) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, data)
        return stream.getvalue()

    return {
        "json": lambda data: json.dumps(data, separators=(",", ":")).encode(),
        "avro": to_avro,
        "earlier": lambda data: to_avro(data, earlier),
        "protobuf": lambda data: json_format.ParseDict(data, proto()).SerializeToString(),
    }


def batches(mode: str, count: int) -> list[pa.RecordBatch]:
    """So many records of the bench's events, as Spark brings them."""
    kind, structured = MODES[mode]
    random, encode = Random(7), encoders()[kind]
    rows = (_row(number, event(number, random, TYPES, 0.0), encode, kind, structured) for number in range(count))
    return [pa.RecordBatch.from_pylist(part, ROWS) for part in _parts(rows)]


def prefixed(mode: str, count: int) -> list[pa.RecordBatch]:
    """The same records with the ids of their schemas before the payloads, on the topics of the subjects."""
    kind, mixed = PREFIXED[mode]
    encode = encoders()

    def value(number: int, data: Any) -> bytes:
        topic, earlier = number % TYPES, mixed and number // TYPES % 2 == 0
        head = b"\0" + (2 * topic + (1 if earlier else 2)).to_bytes(4, "big") + (b"\0" if kind == "protobuf" else b"")
        return head + encode["earlier" if earlier else kind](data)

    return _by_topic(count, value)


def plain(mode: str, count: int) -> list[pa.RecordBatch]:
    """The same records without anything before the payloads."""
    encode = encoders()[PLAIN[mode]]
    return _by_topic(count, lambda _, data: encode(data))


def _by_topic(count: int, value: Callable[[int, Any], bytes]) -> list[pa.RecordBatch]:
    random = Random(7)
    rows = (_on_topic(number, value(number, event(number, random, TYPES, 0.0)["data"])) for number in range(count))
    return [pa.RecordBatch.from_pylist(part, ROWS) for part in _parts(rows)]


def _on_topic(number: int, value: bytes) -> dict[str, Any]:
    return {
        "protocol": "KAFKA", "source": "kafka:parcels/0", "position": number, "address": f"topic{number % TYPES}",
        "partition": 0, "key": None, "value": value, "received_at": AT, "headers": None,
    }  # fmt: skip


def _parts(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while part := list(islice(rows, BATCH)):
        yield part


def _row(
    number: int, event: dict[str, Any], encode: Callable[[Any], bytes], kind: str, structured: bool
) -> dict[str, Any]:
    if structured:
        headers, value = {"content-type": "application/cloudevents+json"}, encode(event)
    else:
        value = encode(event["data"])
        headers = {f"ce_{name}": event[name] for name in event if name not in ("data", "datacontenttype")}
        headers["content-type"] = CONTENT_TYPES[kind]
    return {
        "protocol": "KAFKA", "source": "kafka:parcels/0", "position": number, "address": "parcels", "partition": 0,
        "key": None, "value": value, "received_at": AT,
        "headers": [{"name": name, "value": text.encode()} for name, text in headers.items()],
    }  # fmt: skip


def landed(contract: Contract, source: Source, found: Iterable[MessageBatch], *, thorough: bool) -> tuple[Tally, float]:
    """What becomes of messages on their way to files, and its seconds of CPU; message by message if ``thorough``."""
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name:
        landing = StagedFiles(Path(name), staged="s", prefix="p")
        gc.disable()  # as tasks do
        started = time.process_time()
        processing = Processing(contract, source, landing, Bookkeeping(fingerprint="f", batch="b", landed_at=AT))
        for batch in found:
            processing.take(replace(batch, slow_path=True) if thorough else batch)
        processing.clear()
        landing.finish()
        busy = time.process_time() - started
        gc.enable()
    return processing.tally, busy


def microseconds(contract: Contract, found: list[pa.RecordBatch], *, thorough: bool = False) -> float:
    """The CPU time a record takes from Arrow to files."""
    frames = chain.from_iterable(map(base.read_record_batches, found))
    tally, busy = landed(contract, SOURCE, frames, thorough=thorough)
    count = sum(map(len, found))
    assert tally.landed.total() == count, tally
    return busy / count * 1e6


def measure(count: int, rounds: int, modes: Sequence[str] = (*MODES, *PREFIXED)) -> dict[str, Any]:
    """Medians of both ways for each kind of record, rounds interleaved. With each mode come its ``PEERS``."""
    contracts, traffic = {}, {}
    for mode in modes:
        contracts[mode], traffic[mode] = make_traffic(mode, count)
    fast: dict[str, list[float]] = {mode: [] for mode in modes}
    slow: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode in modes:
            fast[mode].append(microseconds(contracts[mode], traffic[mode]))
            slow[mode].append(microseconds(contracts[mode], traffic[mode][:1], thorough=True))
    rows = {mode: _summary(traffic[mode], fast[mode], slow[mode]) for mode in modes}
    cpu = {mode: row["cpu_microseconds"] for mode, row in rows.items()}
    ratios = {f"{mode}_to_thorough": round(row["thorough"] / row["cpu_microseconds"], 2) for mode, row in rows.items()}
    for mode, others in PEERS.items():
        ratios |= {f"{mode}_to_{other}": round(cpu[other] / cpu[mode], 2) for other in others if mode in cpu}
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"taken": taken, "records": count, "types": TYPES, "ratios_of_rates": ratios, "cpu_of_a_record": rows}


def make_traffic(mode: str, count: int) -> tuple[Contract, list[pa.RecordBatch]]:
    """The definitions and the records of a mode."""
    if mode in PREFIXED:
        return by_subjects(PREFIXED[mode][0]), prefixed(mode, count)
    if mode in PLAIN:
        return contract(PLAIN[mode], plain=TYPES, events=0), plain(mode, count)
    events = BESIDE_PLAIN.get(mode, mode)
    return contract(MODES[events][0], plain=int(mode in BESIDE_PLAIN)), batches(events, count)


def _summary(found: list[pa.RecordBatch], fast: list[float], slow: list[float]) -> dict[str, Any]:
    return {
        "value_bytes": found[0].column("value").nbytes // len(found[0]),
        "cpu_microseconds": round(statistics.median(fast), 2),
        "best_cpu_microseconds": round(min(fast), 2),
        "thorough": round(statistics.median(slow), 2),
    }


def main() -> None:
    """Measure these alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(measure(options.records, options.rounds), indent=2))


if __name__ == "__main__":
    main()
