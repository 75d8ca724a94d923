"""What dead letters cost: events that are wrong in the ways producers get them wrong, beside the same events as rows.

    python -m benchmarks.pipeline.deadletters [--records 20000] [--rounds 3] [--only NAME]

One process, no Spark. Microseconds of CPU from Arrow, or lines, to files: as rows, as dead letters, and as dead letters
message by message.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
from benchmarks.pipeline.records import (
    AT,
    BATCH,
    CONTENT_TYPES,
    PREFIXED,
    ROWS,
    TYPES,
    by_subjects,
    contract,
    encoders,
    landed,
    prefixed,
)
from benchmarks.pipeline.traffic import GROUP, SCHEMA, catalogue, event

from signalbook.brokers.amqp.messages import AMQPMessage, sections, split_body, to_bytes
from signalbook.messages import Contract, Policy
from signalbook.messages.bindings.amqp import message as amqp_message
from signalbook.pipeline.arrays import encode_headers, list_headers
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.amqp import SOURCE as AMQP
from signalbook.pipeline.sources.base import FileSource, MessageBatch, Source, Split
from signalbook.pipeline.sources.files import HTTP_JSONL, JSONL
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.sources.mqtt import MQTT5
from signalbook.pipeline.sources.nats import SOURCE as NATS

Event = dict[str, Any]
Record = dict[str, Any]
_ENCODE = encoders()
_BROKERS: dict[str, Source] = {"amqp": AMQP, "amqp_keyed": AMQP, "mqtt": MQTT5, "nats": NATS}
_FILES: dict[str, FileSource] = {"bare": JSONL, "lines": JSONL, "twins": JSONL, "requests": HTTP_JSONL}
# Members of events that are no attributes in headers.
_BODY = {"data", "datacontenttype"}
# What those that land are beside, if it is no structured event.
_PEERS = {"amqp": "json", "amqp_keyed": "amqp", "keyed": "json", "bare": "lines", "twins": "lines"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Events of a kind that land, and what is done to them so that they do not.

    ``spoil`` changes an event before it is written, ``damage`` the record made of it.
    """

    kind: str
    spoil: Callable[[Event], Event] = lambda event: event
    damage: Callable[[Record], Record] = lambda record: record
    reasons: tuple[str, ...]


def _with(**changes: Any) -> Callable[[Event], Event]:
    """An event with other attributes, of which ``None`` are left out."""

    def changed(event: Event) -> Event:
        return {name: value for name, value in {**event, **changes}.items() if value is not None}

    return changed


def _data(**changes: Any) -> Callable[[Event], Event]:
    return lambda event: {**event, "data": {**event["data"], **changes}}


def _each(name: str, **changes: Any) -> Callable[[Event], Event]:
    """An event whose attribute does not fit, by another value than that of any other, and with other ``changes``."""
    return lambda event: {**event, name: f"not/{event['id']}", **changes}


def _value(change: Callable[[bytes], bytes]) -> Callable[[Record], Record]:
    return lambda record: {**record, "value": change(record["value"])}


CASES: dict[str, Case] = {
    "lines, a rule of the schema": Case(kind="lines", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "lines, no subject": Case(kind="lines", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "lines, another source each": Case(kind="lines", spoil=_each("source"), reasons=("metadata_violation",)),
    "lines, time is none": Case(kind="lines", spoil=_with(time="yesterday"), reasons=("invalid_cloudevent",)),
    "lines, time and source are none": Case(
        kind="lines", spoil=_with(time="yesterday", source="a b"), reasons=("invalid_cloudevent",)
    ),
    "lines, another time each and no id": Case(
        kind="lines", spoil=_each("time", id=""), reasons=("invalid_cloudevent",)
    ),
    "lines, another version": Case(kind="lines", spoil=_with(specversion="0.3"), reasons=("invalid_cloudevent",)),
    "lines, no version": Case(kind="lines", spoil=_with(specversion=None), reasons=("invalid_cloudevent",)),
    "lines, no data": Case(kind="lines", spoil=_with(data=None), reasons=("schema_violation",)),
    "lines, no data, no schema": Case(kind="bare", spoil=_with(data=None, datacontenttype=None), reasons=()),
    "lines, no id": Case(kind="lines", spoil=_with(id=None), reasons=("invalid_cloudevent",)),
    "lines, cut off": Case(kind="lines", damage=_value(lambda value: value[:-20]), reasons=("decode_error",)),
    "lines, two of a type by structure": Case(kind="twins", reasons=()),
    "lines, two of a type, of none": Case(kind="twins", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "lines, two of a type, no subject": Case(kind="twins", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "binary JSON, a rule of the schema": Case(kind="json", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "binary JSON, no subject": Case(kind="json", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "binary JSON, no id": Case(kind="json", spoil=_with(id=None), reasons=("not_cloudevent",)),
    "binary JSON, time is none": Case(kind="json", spoil=_with(time="yesterday"), reasons=("invalid_cloudevent",)),
    "binary JSON, time and source are none": Case(
        kind="json", spoil=_with(time="yesterday", source="a b"), reasons=("invalid_cloudevent",)
    ),
    "binary JSON, another version": Case(kind="json", spoil=_with(specversion="0.3"), reasons=("invalid_cloudevent",)),
    "binary JSON, no version": Case(kind="json", spoil=_with(specversion=None), reasons=("not_cloudevent",)),
    "binary JSON, no data": Case(
        kind="json", damage=lambda record: {**record, "value": None}, reasons=("schema_violation",)
    ),
    "binary JSON, another type": Case(kind="json", spoil=_with(type="else"), reasons=("unknown_kind",)),
    "binary JSON, cut off": Case(kind="json", damage=_value(lambda value: value[:-20]), reasons=("decode_error",)),
    "binary Avro, no subject": Case(kind="avro", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "binary Avro, text": Case(kind="avro", damage=_value(lambda value: b"{}" + value), reasons=("decode_error",)),
    "binary Avro, cut off": Case(kind="avro", damage=_value(lambda value: value[:-9]), reasons=("decode_error",)),
    "binary Protobuf, text": Case(
        kind="protobuf", damage=_value(lambda value: b"not" + value), reasons=("decode_error",)
    ),
    "binary Protobuf, cut off": Case(
        kind="protobuf", damage=_value(lambda value: value[:-9]), reasons=("decode_error",)
    ),
    "prefixed Avro, cut off": Case(
        kind="prefixed_avro", damage=_value(lambda value: value[:-9]), reasons=("decode_error",)
    ),
    "prefixed Avro, unknown number": Case(
        kind="prefixed_avro",
        damage=_value(lambda value: b"\0\0\1\0\0" + value[5:]),
        reasons=("schema_not_found",),
    ),
    "prefixed Avro, no prefix": Case(
        kind="prefixed_avro", damage=_value(lambda value: value[5:]), reasons=("decode_error",)
    ),
    "prefixed Protobuf, cut off": Case(
        kind="prefixed_protobuf", damage=_value(lambda value: value[:-9]), reasons=("decode_error",)
    ),
    "prefixed JSON, a rule of the schema": Case(
        kind="prefixed_json",
        damage=_value(lambda value: value.replace(b"Cologne", b"")),
        reasons=("schema_violation",),
    ),
    "AMQP, JSON": Case(kind="amqp", reasons=()),
    "AMQP, JSON, a rule of the schema": Case(kind="amqp", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "AMQP, JSON, no subject": Case(kind="amqp", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "AMQP, JSON, time is none": Case(kind="amqp", spoil=_with(time="yesterday"), reasons=("invalid_cloudevent",)),
    "AMQP, JSON, cut off": Case(kind="amqp", damage=_value(lambda value: value[:-20]), reasons=("decode_error",)),
    "NATS, JSON, a rule of the schema": Case(kind="nats", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "NATS, JSON, no subject": Case(kind="nats", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "MQTT, JSON, a rule of the schema": Case(kind="mqtt", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "MQTT, JSON, no subject": Case(kind="mqtt", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "requests, a rule of the schema": Case(kind="requests", spoil=_data(status="lost"), reasons=("schema_violation",)),
    "requests, no subject": Case(kind="requests", spoil=_with(subject=None), reasons=("metadata_violation",)),
    "binary JSON, a template for the key": Case(kind="keyed", reasons=()),
    "AMQP, JSON, a template for the message id": Case(kind="amqp_keyed", reasons=()),
    "structured JSON in gzip": Case(kind="structured_gzip", reasons=()),
    "requests in gzip": Case(kind="requests_gzip", reasons=()),
}


def twins() -> Contract:
    """The definitions of the bench, each beside another of its type whose payloads have other members."""
    document = catalogue(TYPES)
    messages = document["messagegroups"][GROUP]["messages"]
    schemas = document["schemagroups"][GROUP]["schemas"]
    other = {**SCHEMA, "required": ["container"], "properties": {"container": {"type": "string"}}}
    for name in list(messages):
        twin = f"{name}.twin"
        messages[twin] = {**messages[name], "dataschemauri": f"/schemagroups/{GROUP}/schemas/{twin}"}
        schemas[twin] = {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"title": twin, **other}}}}
    return Snapshot.of_documents([("bench", document)]).compile(Policy())


def bare() -> Contract:
    """The definitions of the bench without schemas."""
    document = catalogue(TYPES)
    for message in document["messagegroups"][GROUP]["messages"].values():
        del message["dataschemaformat"], message["dataschemauri"]
    return Snapshot.of_documents([("bench", document)]).compile(Policy())


# What definitions ask of the protocol, by kinds of messages.
_KEYED: dict[str, tuple[str, dict[str, Any]]] = {
    "keyed": ("KAFKA", {"topic": "parcels", "key": "key-{number}"}),
    "amqp_keyed": ("AMQP/1.0", {"properties": {"message-id": {"type": "uritemplate", "value": "key-{number}"}}}),
}


def keyed(kind: str) -> Contract:
    """The definitions of the bench, which ask for something that each message has another value of."""
    document = catalogue(TYPES)
    protocol, options = _KEYED[kind]
    for message in document["messagegroups"][GROUP]["messages"].values():
        message |= {"protocol": protocol, "protocoloptions": options}
    return Snapshot.of_documents([("bench", document)]).compile(Policy())


def _contract(kind: str) -> Contract:
    if kind in _KEYED:
        return keyed(kind)
    if kind in PREFIXED:
        return by_subjects(PREFIXED[kind][0])
    if kind in ("bare", "twins"):
        return bare() if kind == "bare" else twins()
    return contract(kind if kind in CONTENT_TYPES else "json")


def _records(case: Case, count: int) -> Iterator[Record]:
    """As ``ROWS`` has them."""
    if case.kind in PREFIXED:
        for batch in prefixed(case.kind, count):
            yield from map(case.damage, batch.to_pylist())
        return
    random = Random(7)
    for number in range(count):
        yield case.damage(_record(number, case.spoil(event(number, random, TYPES, 0.0)), case.kind))


def _record(number: int, event: Event, kind: str) -> Record:
    row: Record = {
        "protocol": "KAFKA", "source": "kafka:parcels/0", "position": number, "address": "parcels", "partition": 0,
        "key": None, "received_at": AT,
    }  # fmt: skip
    if kind in _MADE:
        return row | _MADE[kind](event)
    if kind in CONTENT_TYPES or kind == "keyed":
        kind = "json" if kind == "keyed" else kind
        row["key"] = f"key-{number}".encode()
        texts = {f"ce_{name}": event[name] for name in event if name not in ("data", "datacontenttype")}
        texts["content-type"] = CONTENT_TYPES[kind]
        row["value"] = _ENCODE[kind](event["data"])
    else:
        texts = {"content-type": "application/cloudevents+json"}
        row["value"] = _ENCODE["json"](event)
        if kind.endswith("_gzip"):
            row["value"] = gzip.compress(row["value"], 6)
            texts["content-encoding"] = "gzip"
        if kind == "requests_gzip":
            row |= {"protocol": "HTTP", "address": "/events"}
    return row | {"headers": [{"name": name, "value": text.encode()} for name, text in texts.items()]}


def _amqp(event: Event) -> Record:
    """What of a record another one has that a queue gave."""
    sent = AMQPMessage(
        body=_ENCODE["json"](event["data"]),
        properties={"to": "parcels", "content-type": CONTENT_TYPES["json"], "message-id": f"key-{event['id']}"},
        application_properties=_attributes(event, "cloudEvents_"),
    )
    around, body = split_body(to_bytes(sent))
    found = encode_headers(list_headers(amqp_message(body, sections(around))))
    headers = [{"name": name, "value": value} for name, value in found]
    return {"protocol": "AMQP/1.0", "source": "amqp:parcels", "key": around, "value": body, "headers": headers}


def _attributes(event: Event, prefix: str) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in event.items() if name not in _BODY}


def _headers(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": text.encode()} for name, text in texts.items()]


def _nats(event: Event) -> Record:
    named = {"content-type": CONTENT_TYPES["json"], **_attributes(event, "ce-")}
    return {
        "protocol": "NATS", "source": "nats:parcels", "value": _ENCODE["json"](event["data"]),
        "headers": _headers(named),
    }  # fmt: skip


def _mqtt(event: Event) -> Record:
    attributes, content_type = _attributes(event, ""), CONTENT_TYPES["json"]
    packet = {"qos": 1, "retain": False, "content_type": content_type, "user_properties": list(attributes.items())}
    return {
        "protocol": "MQTT/5.0", "source": "mqtt:parcels", "key": msgspec.msgpack.encode(packet),
        "value": _ENCODE["json"](event["data"]), "headers": _headers({"content-type": content_type, **attributes}),
    }  # fmt: skip


def _request(event: Event) -> Record:
    """A line of a log."""
    headers = {"content-type": CONTENT_TYPES["json"], **_attributes(event, "ce-")}
    body = _ENCODE["json"](event["data"]).decode()
    return {"value": msgspec.json.encode({"method": "POST", "path": "/parcels", "headers": headers, "body": body})}


_MADE = {"amqp": _amqp, "amqp_keyed": _amqp, "mqtt": _mqtt, "nats": _nats, "requests": _request}


def batches(case: Case, count: int) -> list[MessageBatch]:
    """The messages of a case, as sources bring them."""
    found = list(_records(case, count))
    if case.kind in _FILES:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "in.jsonl")
            path.write_bytes(b"".join(row["value"] + b"\n" for row in found))
            return list(_FILES[case.kind].read(Split(path=str(path), start=0, end=path.stat().st_size)))
    parts = [found[start : start + BATCH] for start in range(0, count, BATCH)]
    return [batch for part in parts for batch in base.read_record_batches(pa.RecordBatch.from_pylist(part, ROWS))]


def microseconds(contract: Contract, case: Case, found: list[MessageBatch], *, thorough: bool = False) -> float:
    """The CPU time of a message. Raises ``AssertionError`` where it is not what the case says."""
    source: Source = _FILES.get(case.kind) or _BROKERS.get(case.kind, KAFKA)
    tally, busy = landed(contract, source, found, thorough=thorough)
    assert set(tally.reasons) == set(case.reasons), tally
    assert tally.landed.total() == (0 if case.reasons else tally.read), tally
    return busy / tally.read * 1e6


def measure(count: int, rounds: int, only: str) -> Iterator[dict[str, Any]]:
    """The best of all rounds of each case, rounds of the three ways in turns."""
    for name, case in CASES.items():
        if only not in name:
            continue
        held, spoilt = _contract(case.kind), batches(case, count)
        sound_case = Case(kind=case.kind.removesuffix("_gzip"), reasons=())
        if not case.reasons:
            sound_case = Case(kind=_PEERS.get(case.kind, "structured"), reasons=())
        sound, own = batches(sound_case, count), _contract(sound_case.kind)
        found: dict[str, list[float]] = {"rows": [], "these": [], "one by one": []}
        for _ in range(rounds):
            found["rows"].append(microseconds(own, sound_case, sound))
            found["these"].append(microseconds(held, case, spoilt))
            found["one by one"].append(microseconds(held, case, spoilt[: max(len(spoilt) // 5, 1)], thorough=True))
        yield {"case": name, **{way: round(min(times), 1) for way, times in found.items()}}


def main() -> None:
    """Measure them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a name")
    options = parser.parse_args()
    for row in measure(options.records, options.rounds, options.only):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
