"""The fast path says of every event what going message by message says (design.md 3.9)."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import chdir, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import (
    AVRO,
    AVRO_VALUES,
    ENCODINGS,
    JSON_VALUES,
    OLD_AVRO,
    PROTO,
    PROTO_VALUES,
    TIMES,
    batches,
    event_headers,
    kafka_records,
    rows,
    written,
)

from signalbook.messages import CompiledDefinition, Contract, Policy, parse_flags
from signalbook.messages.cloudevents import find_invalid_attributes
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline.frames.messages import SOURCE as ROWS
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing import attributes, verdicts
from signalbook.pipeline.processing.binary import BinaryMode
from signalbook.pipeline.processing.modes import StructuredMode
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.report import Tally
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch, Split
from signalbook.pipeline.sources.captures import KAFKA as CAPTURES
from signalbook.pipeline.sources.files import JSONL
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.tables.staged_files import StagedFiles
from signalbook.values import MAX_VALUES, JSONObject, now

GROUP = "/messagegroups/parcels"
ACCEPTED = "parcels.parcel.accepted"
FLAGS = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {
        "type": {"value": "parcel.flagged"},
        "partition": {"type": "any", "value": 1},
        "flag": {"type": "boolean", "value": True},
        "subject": {"type": "urireference"},
    },
}
POLICIES = (
    (),
    (f"{GROUP}/messages/parcel.accepted:on_schema_violation=tag", f"{GROUP}:required_schema=true"),
    (f"{GROUP}:on_schema_violation=tag", f"{GROUP}/messages/parcel.sent:strict_delivery=true", "on_no_match=drop"),
    ("on_ambiguous=all", f"{GROUP}/messages/parcel.noted:required_schema=true"),
    (f"{GROUP}/messages/lost.a:on_ambiguous=best", "strict_delivery=true"),
    ("wire_prefix=confluent", f"{GROUP}/messages/parcel.accepted:wire_prefix=none"),
    ("rescue=drop", f"{GROUP}/messages/parcel.accepted:on_duplicate_names=dead_letter"),
)


@pytest.fixture(scope="module")
def contracts(parcels: Any) -> list[Contract]:
    """The catalogue of parcels and a few definitions that only some policies tell apart, compiled under each."""
    document = parcels.catalogue()
    messages = document["messagegroups"]["parcels"]["messages"]
    typed = {name: messages["parcel.accepted"][name] for name in ("dataschemaformat", "dataschemauri")}
    messages |= {
        "parcel.sent": parcels.message("parcel.sent", protocol="HTTP", protocoloptions={"method": "POST"}, **typed),
        "lost.a": parcels.message("parcel.lost", **typed),
        "lost.b": parcels.message("parcel.lost"),
        "measured": parcels.message("parcel.measured", **written("Avro/1.11", "measure")),
        "scanned": parcels.message("parcel.scanned", **written("Protobuf/3", "scan")),
        "sorted": parcels.message("parcel.sorted", protocol="KAFKA", protocoloptions={"topic": "orders"}, **typed),
        "routed": parcels.message("parcel.routed", protocol="KAFKA", protocoloptions={"topic": "{depot}"}, **typed),
        "pushed": parcels.message("parcel.pushed", envelopeoptions={"mode": "binary"}, **typed),
        # Native values, and all of it from a Version that is not the default one.
        "flagged": {"basemessage": f"{GROUP}/messages/flags/versions/1", **typed},
        "flags": {"versions": {"1": FLAGS, "2": parcels.message("parcel.flags")}},
    }
    document["schemagroups"]["parcels"]["schemas"] |= {
        "measure": {
            "versions": {
                "1": {"format": "Avro/1.11", "schema": OLD_AVRO, "labels": {"confluent.id": "6"}},
                "2": {"format": "Avro/1.11", "schema": AVRO, "labels": {"confluent.id": "7"}},
            }
        },
        "scan": {"versions": {"1": {"format": "Protobuf/3", "schema": PROTO, "labels": {"confluent.id": "8"}}}},
    }
    snapshot = Snapshot.of_documents([("parcels", document)])
    policies = [parse_flags(flags) for flags in POLICIES]
    return [Snapshot.from_json(snapshot.check(policy).to_json()).compile(policy) for policy in policies]


@pytest.fixture(scope="module")
def contract(contracts: list[Contract]) -> Contract:
    return contracts[0]


Outcome = tuple[Tally, dict[str, list[dict[str, Any]]]]


def read(source: Any, text: bytes) -> list[MessageBatch]:
    with TemporaryDirectory() as folder, chdir(folder):
        Path("in.jsonl").write_bytes(text)
        return list(source.read(Split(path="in.jsonl", start=0, end=len(text))))


def outcome(contract: Contract, text: bytes) -> Outcome:
    """Return the counts of lines, and the rows of each table by position."""
    return processed(contract, JSONL, read(JSONL, text))


def processed(contract: Contract, source: Any, frames: Iterable[MessageBatch]) -> Outcome:
    with TemporaryDirectory() as name:
        folder = Path(name)
        landing = StagedFiles(folder, staged="s", prefix="p")
        processing = Processing(contract, source, landing, Bookkeeping(fingerprint="f", batch="b", landed_at=now()))
        for frame in frames:
            processing.take(frame)
        processing.clear()
        tables: dict[str, list[dict[str, Any]]] = {}
        for file in landing.finish():
            rows = pq.read_table(folder / file.name).to_pylist()
            tables.setdefault(str(file.table), []).extend(_plain(row) for row in rows)
        for rows in tables.values():
            rows.sort(key=_place)
        return processing.tally, tables


def _place(row: dict[str, Any]) -> tuple[int, int, str]:
    """Return the position of a row, and what tells rows of the same position apart."""
    element = row.get("element")
    return int(row.get("_position", row.get("position", 0))), -1 if element is None else element, str(row.get("ce_id"))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    plain_row = {name: value for name, value in row.items() if name not in ("sidelined_at", "_landed_at")}
    extensions = plain_row.get("ce_extensions")
    return plain_row | ({"ce_extensions": sorted(extensions)} if extensions else {})


def check(contract: Contract, text: bytes, *, fast: bool = False) -> Outcome:
    """Check that lines come to the same on both paths; with `fast`, that the fast path needs no help."""
    return check_batches(contract, read(JSONL, text), JSONL, fast=fast)


def check_batches(
    contract: Contract, batches: Sequence[MessageBatch], source: Any = KAFKA, *, fast: bool = False
) -> Outcome:
    with patch.object(Processing, "_process_slowly", None) if fast else nullcontext():
        quick = processed(contract, source, batches)
    same(quick, processed(contract, source, (replace(batch, slow_path=True) for batch in batches)))
    return quick


def same(quick: Outcome, slow: Outcome) -> None:
    # which example of a violation is the first depends on the path
    first, second = (tally.violations.found for tally, _ in (quick, slow))
    assert {key: first[key].messages for key in first} == {key: second[key].messages for key in second}
    assert replace(quick[0], violations=slow[0].violations) == slow[0]
    assert quick[1] == slow[1]
    assert quick[0].read == sum(map(len, quick[1].values())) + quick[0].dropped


CONTENT_TYPES = ("application/json", "application/xml", "text/json; charset=utf-8", "x")
PARCEL_SCHEMA = "/schemagroups/parcels/schemas/parcel"
TYPES = ("delivered", "noted", "lost", "sent", "flagged", "gone", "unheard")
ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["é", "", "a\u0001", 1, None]),
        "source": st.sampled_from(["/depots/9", "/depots/a b", "/depots/", "/elsewhere", "", "/depots/%41", None]),
        "type": st.sampled_from([*(f"parcel.{name}" for name in TYPES), "", None]),
        "time": st.sampled_from(TIMES),
        "subject": st.sampled_from(["s", "", "ü", "\u0000", None]),
        "datacontenttype": st.sampled_from([*CONTENT_TYPES, None]),
        "dataschema": st.sampled_from([f"https://x{PARCEL_SCHEMA}/versions/1", "https://x/else", "relative", None]),
        "specversion": st.sampled_from(["0.3", None]),
        "partition": st.sampled_from(["p", 1, True, 2**40, 1.0, None, [1], "\u0001"]),
        "flag": st.sampled_from([True, 1, 0, "true"]),
        "Bad": st.just("x"),
        "data_base64": st.sampled_from(["AAAA", None]),
    },
)
DATA: st.SearchStrategy[Any] = st.sampled_from(
    [
        ...,
        {"id": "P", "weight": 1},
        {"id": "P", "weight": 1.0, "size": {"l": 1.0, "w": 2}, "stops": [], "extra": [None, {"a": 1}]},
        {"id": "P", "weight": -1},
        {"id": "P", "weight": 1, "size": {"l": 2**63}},
        {"id": "P", "weight": 1, "extra": None, "at": "2026-01-02T03:04:05.1+01:00"},
        {"id": "P", "weight": 1, "at": "soon"},
        {"id": 1},
        {"id": "ü\u0000", "weight": 1e300, "stops": ["a", ""], "unknown": {"x": [1]}},
        [],
        None,
        "text",
    ]
)
EVENTS = st.builds(lambda more, data: {**more, "data": data}, ATTRIBUTES, DATA)
OPAQUE = st.builds(
    lambda more, kind, data: {**more, **kind, "data_base64": data, "data": ...},
    ATTRIBUTES,
    st.sampled_from(
        [
            {"type": "parcel.measured", "datacontenttype": "application/avro"},
            {"type": "parcel.scanned", "datacontenttype": "application/protobuf"},
            {"type": "parcel.measured"},
            {"datacontenttype": "application/json"},
            {"datacontenttype": "text/plain"},
            {},
        ]
    ),
    st.one_of(
        st.sampled_from([*JSON_VALUES, *AVRO_VALUES, *PROTO_VALUES]).map(lambda value: b64encode(value).decode()),
        st.sampled_from(["", "=", "YQ", "YQ=", "YR==", "Y Q=", "-_-_", 1, None, [], "\n"]),
    ),
)
BROKEN = st.sampled_from(["", "  ", "{", "[]", "1", "{}{}", '{"id":1}\r', "\ufeff{}", "null", '{\n"id":1}'])


# Data in which an object has a name twice.
TWICE = st.sampled_from(
    [
        '{"id":"P","id":"Q","weight":1}',
        '{"id":"P","weight":1,"x":1,"x":{"y":2}}',
        '{"id":"P","weight":1,"x":[{"y":1,"\\u0079":2}]}',
        '{"id":"P","weight":1,"extra":{"a":{"b":1,"b":2}},"size":{"l":1,"up":true}}',
        '{"id":"P","weight":1,"size":{"l":1,"d":1,"d":2,"w":3}}',
        '{"id":1,"id":2,"weight":1}',
    ]
).map(lambda data: f'{{"specversion":"1.0","id":"1","source":"/depots/7","type":"parcel.accepted","data":{data}}}')


@given(
    st.sampled_from(range(len(POLICIES))),
    st.lists(st.one_of(EVENTS, OPAQUE, st.just({}), BROKEN, TWICE), max_size=12),
    st.randoms(),
)
@settings(max_examples=examples(100))
def test_both_paths_come_to_the_same(
    contracts: list[Contract], parcels: Any, policy: int, events: list[Any], random: Random
) -> None:
    """The property holds for every policy (K-46)."""
    lines: list[Any] = []
    for number, more in enumerate(events):
        members = [] if isinstance(more, str) else list(parcels.event(number, **more).items())
        random.shuffle(members)
        lines.append(more if isinstance(more, str) else dict(members))
    check(contracts[policy], parcels.lines(*lines))


def test_members_without_a_column_are_kept_and_counted(contracts: list[Contract], parcels: Any) -> None:
    data = {"id": "P", "weight": 1, "size": {"l": 1, "depth": {"cm": 2.50}}, "gift": True}
    text = parcels.lines(parcels.event(1), parcels.event(2, data=data), parcels.event(3, data=data))
    tally, tables = check(contracts[0], text)
    rescued = '{"size":{"depth":{"cm": 2.5}},"gift":true}'
    assert [row["_rescue"] for row in tables[ACCEPTED]] == [None, rescued, rescued]
    assert tally.rescued == {f"{GROUP}/messages/parcel.accepted": {"/gift": 2, "/size/depth": 2}}
    tally, tables = outcome(contracts[-1], text)
    assert "_rescue" not in tables[ACCEPTED][0]
    assert tally.rescued == {}


def test_values_that_do_not_fit_their_columns_are_kept(parcels: Any) -> None:
    document = parcels.catalogue()
    schema = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"]
    price, day = {"type": "number", "multipleOf": 0.01}, {"format": "date", "type": "string"}
    schema["properties"] |= {"price": price, "day": day}
    snapshot = Snapshot.of_documents([("parcels", document)])
    sound: JSONObject = {"id": "P", "weight": 1, "price": 1.25, "day": "2026-01-02"}
    sound["at"] = "2026-01-02T03:04:05.5+01:00"
    odd: list[JSONObject] = [{"price": 1e40}, {"day": "someday"}, {"at": "2026-01-02T03:04:05.1234567Z"}]
    text = parcels.lines(*(parcels.event(n, data=sound | more) for n, more in enumerate([{}, *odd, {}])))
    tally, tables = check(snapshot.compile(parse_flags(())), text)
    assert (tally.landed.total(), tally.dead_lettered) == (5, 0)
    rows = tables[ACCEPTED]
    assert [row["_rescue"] and json.loads(row["_rescue"]) for row in rows] == [None, *odd, None]
    assert [row["price"] for row in rows] == [Decimal("1.25"), None, *[Decimal("1.25")] * 3]
    assert [row["day"] is None for row in rows] == [False, False, True, False, False]
    rows = check(snapshot.compile(parse_flags(["columns=as_sent"])), text)[1][ACCEPTED]
    stored = [(row["price"], row["day"], row["_rescue"]) for row in rows[1:3]]
    assert stored == [(1e40, "2026-01-02", None), (1.25, "someday", None)]


def test_additional_members_of_closed_schemas_are_kept(parcels: Any) -> None:
    document = parcels.catalogue()
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"] |= {
        "additionalProperties": False,
        "properties": {"id": {"type": "string"}, "weight": {"type": "integer"}},
    }
    snapshot = Snapshot.of_documents([("parcels", document)])
    data = {"id": "P", "weight": 1, "gift": True}
    text = parcels.lines(parcels.event(1, data={"id": "P", "weight": 1}), parcels.event(2, data=data))
    tally, tables = outcome(snapshot.compile(parse_flags(())), text)
    assert tally.dead_lettered == 1
    assert "_rescue" not in tables[ACCEPTED][0]
    tally, tables = check(snapshot.compile(parse_flags(["on_schema_violation=tag"])), text)
    assert tally.rescued == {f"{GROUP}/messages/parcel.accepted": {"/gift": 1}}
    assert [row["_rescue"] for row in tables[ACCEPTED]] == [None, '{"gift":true}']


def test_names_that_come_twice_are_judged_by_policy(contracts: list[Contract], parcels: Any) -> None:
    """RFC 8259, 4: the last one counts, unless a policy says otherwise; of attributes none may come twice."""
    head = '{"specversion":"1.0","id":"1","source":"/depots/7","type":"parcel.accepted",'
    text = parcels.lines(
        head + '"data":{"id":"P","id":"Q","weight":1}}',
        head + '"data":{"id":"P","weight":1,"x":{"y":1,"y":2}}}',
        head + '"subject":"a","subject":"a","data":{"id":"P","weight":1}}',
    )
    tally, tables = outcome(contracts[0], text)
    assert tally.duplicates == {f"{GROUP}/messages/parcel.accepted": 2}
    assert [(row["id"], row["_rescue"]) for row in tables[ACCEPTED]] == [("Q", None), ("P", '{"x":{"y":2}}')]
    assert tally.reasons == {"invalid_cloudevent": 1}
    strict, tables = outcome(contracts[-1], text)
    assert strict.reasons == {"decode_error": 2, "invalid_cloudevent": 1}
    violations = [letter["violations"][0] for letter in tables["signalbook.dead_letters"]]
    messages = [violation["message"] for violation in violations[:2]]
    assert messages == ["an object has the name 'id' twice", "an object has the name 'y' twice"]
    assert {violation["rule"] for violation in violations} == {"duplicate"}


def test_inherited_values_count_on_both_paths(contract: Contract, parcels: Any) -> None:
    """The definition has no values of its own, but inherits native and textual ones (F-15, F-41)."""
    flagged: list[dict[str, Any]] = [{"partition": 1, "flag": True}, {"partition": "1", "flag": "true"}]
    flagged += [{"partition": 2}, {"flag": False}, {}]
    events = [parcels.event(number, type="parcel.flagged", **more) for number, more in enumerate(flagged)]
    tally, _ = check(contract, parcels.lines(*events))
    assert (tally.landed[f"{GROUP}/messages/flagged"], tally.dead_lettered) == (3, 2)


@pytest.mark.parametrize(
    ("policy", "event", "reason"),
    [
        (0, {"data": {"id": "P", "weight": -1}}, "schema_violation"),
        (3, {"data": None}, "schema_violation"),
        (0, {"type": "parcel.gone"}, "unknown_kind"),
        (2, {"type": "parcel.gone"}, ""),
        (0, {"source": "/elsewhere"}, "metadata_violation"),
        (0, {"type": "parcel.flagged", "subject": "a b"}, "metadata_violation"),
        (0, {"time": "soon"}, "invalid_cloudevent"),
        (2, {"type": "parcel.gone", "subject": ""}, "invalid_cloudevent"),
        (0, {"id": None}, "invalid_cloudevent"),
        (0, {"id": None, "type": None, "data": {"id": 1}}, "invalid_cloudevent"),
        (0, {"specversion": "0.3"}, "invalid_cloudevent"),
        (0, {"specversion": None, "tenant": "t"}, "invalid_cloudevent"),
        (0, {"specversion": "", "subject": "", "time": "soon", "id": None}, "invalid_cloudevent"),
        (0, {"data": ...}, "schema_violation"),
        (1, {"type": "parcel.noted", "data": ...}, "schema_not_found"),
        (0, {"type": "parcel.gone", "data": ...}, "unknown_kind"),
        (0, {"type": "parcel.measured", "data": ..., "data_base64": "AlA="}, "decode_error"),
        (0, {"type": "parcel.scanned", "data": ..., "data_base64": "/w=="}, "decode_error"),
        (0, {"type": "parcel.accepted", "data": ..., "data_base64": "ew=="}, "decode_error"),
    ],
)
def test_rejected_events(contracts: list[Contract], parcels: Any, policy: int, event: JSONObject, reason: str) -> None:
    """The events violate their schema or attributes, or have no definition (K-44)."""
    text = parcels.lines(*(parcels.event(number, **event) for number in range(50)))
    tally, _ = check(contracts[policy], text, fast=True)
    assert (tally.reasons, tally.dropped) == (({reason: 50}, 0) if reason else ({}, 50))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ce_source": b"/elsewhere"}, "metadata_violation"),
        ({"content-type": b"text/xml"}, "metadata_violation"),
        ({"ce_type": b"parcel.sorted", "ce_stage": b"late"}, "metadata_violation"),
        ({"ce_time": b"soon"}, "invalid_cloudevent"),
        ({"ce_Bad": b"x"}, "invalid_cloudevent"),
        ({"ce_specversion": b"0.3"}, "invalid_cloudevent"),
        ({"ce_subject": b"", "ce_time": b"soon", "content-type": b"x"}, "invalid_cloudevent"),
        ({"content-type": b"x", "ce_specversion": b"2.0", "ce_time": b"soon", "ce_id": b""}, "invalid_cloudevent"),
        ({"ce_specversion": None}, "not_cloudevent"),
        ({"ce_id": None}, "not_cloudevent"),
        ({"ce_id": None, "ce_source": None, "ce_type": None, "ce_specversion": None}, "not_cloudevent"),
    ],
)
def test_rejected_records_take_the_fast_path(contract: Contract, changes: dict[str, bytes | None], reason: str) -> None:
    """The rejections equal those of single messages (K-24, K-28)."""
    batches_ = batches(*((value, event_headers(changes)) for value in JSON_VALUES[:4] * 3), topic="other")
    assert check_batches(contract, batches_, fast=True)[0].reasons == {reason: 12}


@pytest.mark.parametrize(
    ("policy", "kind", "content_type", "values", "reasons"),
    [
        (0, "measured", b"application/avro", AVRO_VALUES[2:6], {"decode_error"}),
        (2, "measured", b"", (b"\0\0\0\0\7" + AVRO_VALUES[0], b"{}"), {"decode_error"}),
        (5, "measured", b"", (AVRO_VALUES[0], b"\0\0\0\0\7", b"\0\0\0\0\7x"), {"decode_error"}),
        (0, "scanned", b"application/protobuf", (b"\xff" * 12, b"\x0a\x05P", b"{}"), {"decode_error"}),
        (5, "scanned", b"", (b"\0\0\0\0\x08\0\xff", b"\0\0\0\0\x09\0"), {"decode_error", "schema_not_found"}),
        (0, "accepted", b"application/json", (b"", b"{", b"\xff", b"nul"), {"decode_error"}),
        (2, "accepted", b"", (b"{", b"[1,]"), {"decode_error"}),
        (6, "accepted", b"", (b'{"id":"P","id":"Q","weight":1}', b'{"id":1}'), {"decode_error", "schema_violation"}),
    ],
)
def test_undecodable_payloads_take_the_fast_path_too(
    contracts: list[Contract], policy: int, kind: str, content_type: bytes, values: tuple[bytes, ...], reasons: set[str]
) -> None:
    """The reasons depend on the schema of each message (K-40, K-44)."""
    headers = event_headers({"ce_type": f"parcel.{kind}".encode(), "content-type": content_type})
    tally, _ = check_batches(contracts[policy], batches(*((value, headers) for value in values * 5)), fast=True)
    assert (tally.dead_lettered, set(tally.reasons)) == (len(values) * 5, reasons)


def test_schemas_are_not_asked_about_all_payloads_that_conform_after_all(contract: Contract) -> None:
    """Fields that a schema does not know are sound, and left to the slow path, which decodes them once more."""
    headers = event_headers({"ce_type": b"parcel.scanned"})
    unknown = [(b"\x0a\x01P\xa0\x06\x01", headers)] * 300
    batches_ = batches(*unknown, (b"\xff", headers), *unknown)
    with patch.object(verdicts, "rejected_payload", side_effect=rejected_payload) as mock:
        processed(contract, KAFKA, batches_)
    assert mock.call_count < 100
    tally, _ = check_batches(contract, batches_)
    assert (tally.landed.total(), tally.reasons) == (600, {"decode_error": 1})


def test_events_without_data_take_the_fast_path(contract: Contract, parcels: Any) -> None:
    """The events land if no schema is named, and are dead letters otherwise (K-41, K-43)."""
    noted = [parcels.event(n, type="parcel.noted", data=data) for n, data in enumerate([{"x": [1]}, None, "é", ...])]
    opaque = parcels.event(4, type="parcel.noted", data=..., data_base64="//8=", datacontenttype="image/png")
    events = [*noted, opaque, parcels.event(5, data=...), parcels.event(6, data=..., time="soon")]
    tally, tables = check(contract, parcels.lines(*events), fast=True)
    assert (tally.landed.total(), tally.reasons) == (5, {"schema_violation": 1, "invalid_cloudevent": 1})
    stored = [(row["data"], row["data_binary"]) for row in tables["parcels.parcel.noted"]]
    assert stored == [('{"x": [1]}', None), ("null", None), ('"\\u00e9"', None), (None, None), (None, b"\xff\xff")]


def test_records_without_a_value_take_the_fast_path(contract: Contract) -> None:
    noted = event_headers({"ce_type": b"parcel.noted", "content-type": b"text/plain"})
    measured = event_headers({"ce_type": b"parcel.measured"})
    batches_ = batches(*((value, noted) for value in [None, b"text", b"\xff", b"", None]), (None, measured))
    tally, _ = check_batches(contract, batches_, fast=True)
    assert (tally.landed.total(), tally.reasons) == (5, {"schema_violation": 1})


def test_lines_that_are_no_events_take_it_too(contract: Contract, parcels: Any) -> None:
    """Each line gets the error of the format; blank lines are no messages (K-22)."""
    text = json.dumps(parcels.event(1))
    odd = [text[:-20], text[:50], "[]", "1", "nul", "{", text + "}", text.replace('"id"', '"time"'), '{"Bad":1}']
    lines = parcels.lines(text, *odd, "", "  ", text)
    with patch.object(Processing, "_process_outcomes", None):
        outcome(contract, lines)
    tally, _ = check(contract, lines)
    assert (tally.read, tally.landed.total(), tally.dead_lettered) == (11, 2, 9)


def test_equal_attribute_sets_are_checked_once(contract: Contract, parcels: Any) -> None:
    """The sets have invalid values, missing attributes, and another order (K-24)."""
    events = [parcels.event(n, time=f"{n % 2}", subject="", **({} if n % 3 else {"id": None})) for n in range(60)]
    with patch.object(attributes, "find_invalid_attributes", side_effect=find_invalid_attributes) as mock:
        assert outcome(contract, parcels.lines(*events))[0].reasons == {"invalid_cloudevent": 60}
    assert mock.call_count < 30


def test_invalid_attributes_are_reported_in_message_order(contract: Contract, parcels: Any) -> None:
    several: list[JSONObject] = [{"subject": "", "time": "soon"}, {"time": "soon", "subject": ""}]
    several.append({"time": "soon", "id": None})
    events = [parcels.event(0) | more for more in several]
    swapped = {**several[1], **{name: value for name, value in events[0].items() if name not in several[1]}}
    text = parcels.lines(*events, swapped, parcels.event(1, time="soon", source="/elsewhere"))
    tally, tables = check(contract, text, fast=True)
    assert tally.reasons == {"invalid_cloudevent": 5}
    paths = [[finding["path"] for finding in row["violations"]] for row in tables["signalbook.dead_letters"]]
    assert paths == [["time", "subject"], ["time", "subject"], ["id", "time"], ["time", "subject"], ["time"]]


def test_attributes_of_invalid_json_are_not_checked(contract: Contract, parcels: Any) -> None:
    """Unreadable events have one reason, whatever their attributes are (K-22)."""
    changes: list[dict[str, Any]] = [{"source": "/elsewhere"}, {"time": "soon"}, {"id": None}, {"type": "parcel.gone"}]
    events = [json.dumps(parcels.event(number, **more)) for number, more in enumerate(changes)]
    broken = [text.replace('"weight": 1.5', '"weight": 1.5.5') for text in events]
    assert check(contract, parcels.lines(*events, *broken))[0].reasons["decode_error"] == 4


def test_equal_violations_are_checked_once(contract: Contract, parcels: Any) -> None:
    text = parcels.lines(*(parcels.event(number, source=f"/elsewhere/{number % 3}") for number in range(60)))
    ask = CompiledDefinition.check_event
    with patch.object(CompiledDefinition, "check_event", autospec=True, side_effect=ask) as mock:
        assert outcome(contract, text)[0].reasons == {"metadata_violation": 60}
    assert mock.call_count == 3


@pytest.mark.parametrize(
    ("kind", "content_type", "value"),
    [
        ("parcel.accepted", "application/json", JSON_VALUES[0]),
        ("parcel.accepted", None, JSON_VALUES[1]),
        ("parcel.measured", "application/avro", AVRO_VALUES[0]),
        ("parcel.scanned", "application/protobuf", PROTO_VALUES[0]),
    ],
)
def test_data_in_base64_takes_the_fast_path(
    contract: Contract, parcels: Any, kind: str, content_type: str, value: bytes
) -> None:
    more = {"type": kind, "datacontenttype": content_type, "data": ..., "data_base64": b64encode(value).decode()}
    events = [parcels.event(number, **more) for number in range(9)]
    text = parcels.lines(*events, *([parcels.event(9)] if kind == "parcel.accepted" else []))
    assert check(contract, text, fast=True)[0].landed.total() >= 9


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "compress"])
def test_content_encodings_are_undone(contract: Contract, encoding: str) -> None:
    encoded = (ENCODINGS[encoding](JSON_VALUES[0]), event_headers({"content-encoding": encoding.encode()}))
    batches_ = batches(encoded, (JSON_VALUES[1], event_headers()), encoded)
    assert check_batches(contract, batches_, fast=True)[0].landed.total() == 3


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "compress"])
@pytest.mark.parametrize("protocol", ["KAFKA", "HTTP", "NATS", ""])
def test_content_encodings_of_structured_events_are_undone(
    contract: Contract, parcels: Any, protocol: str, encoding: str
) -> None:
    """The events are landed or rejected with all violations (K-22)."""
    changes: list[dict[str, Any]] = [{}, {"source": "/elsewhere"}, {}, {"data": {"id": 1}}, {"id": None}]
    values = [json.dumps(parcels.event(number, **more)).encode() for number, more in enumerate(changes)]
    headers = [("content-type", b"application/cloudevents+json"), ("content-encoding", encoding.encode())]
    batch = rows(*((ENCODINGS[encoding](value), headers) for value in values))
    batches_ = list(base.read_record_batches(batch.set_column(0, "protocol", pa.array([protocol] * len(values)))))
    tally, _ = check_batches(contract, batches_, ROWS, fast=True)
    assert (tally.landed.total(), tally.dead_lettered) == (2, 3)


def test_invalid_encoding_takes_the_slow_path(contract: Contract, parcels: Any) -> None:
    sound = json.dumps(parcels.event(1)).encode()
    packed = gzip.compress(sound)
    odd = [sound, packed[:-9], packed + b"x", b"", gzip.compress(b""), gzip.compress(sound[:-1]), gzip.compress(b"[]")]
    for values in ([packed, *odd, packed], odd):
        tally, _ = check_batches(contract, batches(*((value, PACKED_EVENT) for value in values)))
        assert tally.landed.total() == values.count(packed)


PACKED_EVENT = [("content-type", b"application/cloudevents+json"), ("content-encoding", b"gzip")]


def test_encoded_payloads_have_bounds() -> None:
    """Payloads that become too large take the slow path, which processes one at a time."""
    headers = event_headers({"content-encoding": b"gzip"})
    large, huge = (gzip.compress(b" " * size) for size in (base.ALONE, base.ALONE + 1))
    (frame,) = batches(*((value, headers) for value in [huge, *[large] * 9]))
    assert BinaryMode("KAFKA").read_events(frame)[1] == [0, 9]


def test_decoded_content_of_rejected_messages_is_not_kept(parcels: Any) -> None:
    """A thousand times as much as was sent, of messages that are no events, as long as one that is waits."""
    large = gzip.compress(b" " * 1_000_000)
    event = json.dumps(parcels.event(1)).encode()
    headers = event_headers({"content-encoding": b"gzip"})
    for mode, sound, rejected in (
        (StructuredMode(), (gzip.compress(event), PACKED_EVENT), (large, PACKED_EVENT)),
        (BinaryMode("KAFKA"), (gzip.compress(event), headers), (large, [*headers, ("ce_x", b"1"), ("ce_x", b"2")])),
    ):
        columns, refused = mode.read_events(*batches(sound, *[rejected] * 5))
        assert (len(columns), refused) == (1, [1, 2, 3, 4, 5])
        assert columns.data.weight <= len(event)


def test_a_payload_of_more_values_than_json_may_have_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    message = {"envelope": "CloudEvents/1.0", "dataschemaformat": "JsonSchema/draft-07", "dataschema": schema}
    document = {"messagegroups": {"g": {"messages": {"m": message | {"envelopemetadata": {"type": {"value": "t"}}}}}}}
    contract = Snapshot.of_documents([("d", document)]).compile(Policy())
    payload = b'{"a":[' + b",".join([b"0"] * MAX_VALUES) + b"]}"
    headers = event_headers({"ce_type": b"t", "content-type": b"application/json"})
    assert processed(contract, KAFKA, batches((payload, headers)))[0].dead_lettered == 1


EVENT_HEAD = b'{"specversion":"1.0","source":"/depots/1","type":"parcel.accepted",'


@pytest.mark.parametrize(
    "line",
    [
        EVENT_HEAD + b'"id":"\xff","data":{"id":"P","weight":1}}',
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":1,"x":"\xff"}}',
        EVENT_HEAD + b'"id":"1","data":{"id":"\\ud800","weight":1}}',
        EVENT_HEAD + b'"id":"1","id":"2","data":{"id":"P","weight":1}}',
        EVENT_HEAD + b'"id":"1","data":1,"data":{"id":"P","weight":1}}',
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":1e999}}',
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":1,"extra":' + b"[" * 500 + b"]" * 500 + b"}}",
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":' + b"9" * 400 + b"}}",
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":1,"extra":1e400}}',
        EVENT_HEAD + b'"id":"1","data":{"id":"P","weight":1,"x":[1e400]}}',
        b"[" * 100_000,
        b"\x00",
        b"\xef\xbb\xbf{}",
    ],
)
def test_hostile_lines(contract: Contract, parcels: Any, line: bytes) -> None:
    sound = parcels.lines(parcels.event(1))
    check(contract, line + b"\n" + sound)
    check(contract, sound + line)


def test_extensions_are_learnt_and_land(contract: Contract, parcels: Any) -> None:
    text = parcels.lines(*(parcels.event(n, partitionkey=f"k{n}", attempt=n) for n in range(30)))
    tally, tables = check(contract, text)
    assert tally.landed.total() == 30
    assert tables[ACCEPTED][3]["ce_extensions"] == [("attempt", "3"), ("partitionkey", "k3")]


def test_extensions_of_dead_letters_are_learnt_too(contract: Contract, parcels: Any) -> None:
    """A producer may be wrong in all of its events."""
    text = parcels.lines(*(parcels.event(n, source="/elsewhere", tenant=f"t{n}", attempt=n) for n in range(30)))
    assert check(contract, text, fast=True)[0].reasons == {"metadata_violation": 30}


@given(
    st.sampled_from(range(len(POLICIES))),
    st.lists(kafka_records(), max_size=14),
    st.sampled_from(["orders", "7", "other", None]),
)
@settings(max_examples=examples(100))
def test_paths_agree_about_records(contracts: list[Contract], policy: int, pairs: list[Any], topic: str | None) -> None:
    """The events are in binary mode, with any headers and values (K-21, K-46)."""
    check_batches(contracts[policy], batches(*pairs, topic=topic), CAPTURES)


def test_payloads_with_a_wire_prefix_take_the_fast_path(contracts: list[Contract]) -> None:
    """The prefix must have the number of the definition's own schema."""
    measured = (b"\0\0\0\0\7" + AVRO_VALUES[0], event_headers({"ce_type": b"parcel.measured"}))
    scanned = (b"\0\0\0\0\x08\0" + PROTO_VALUES[0], event_headers({"ce_type": b"parcel.scanned"}))
    _, tables = check_batches(contracts[5], batches(measured, scanned), fast=True)
    assert [row["id"] for table_rows in tables.values() for row in table_rows] == ["P", "P"]


AVRO_ID = ("__value_schema_id", b"\0\0\0\0\7")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"", AVRO_ID[1]]),
            st.lists(st.sampled_from([AVRO_ID, ("__value_schema_id", b"\0\0\0\0\x09")]), max_size=2),
        ),
        min_size=1,
        max_size=9,
    )
)
@example([(b"", [AVRO_ID])])
@settings(max_examples=examples(30))
def test_a_header_can_name_the_schema_of_data_in_base64(contracts: list[Contract], parcels: Any, sent: Any) -> None:
    """The events are in structured mode, with the schema's id before their data or in the record's header."""
    records = []
    for number, (prefix, ids) in enumerate(sent):
        data = b64encode(prefix + AVRO_VALUES[0]).decode()
        event = parcels.event(number, type="parcel.measured", data=..., data_base64=data)
        records.append((json.dumps(event).encode(), [("content-type", b"application/cloudevents+json"), *ids]))
    tally, _ = check_batches(contracts[5], batches(*records))
    sound = [bool(prefix) if not ids else ids[-1] == AVRO_ID and not prefix for prefix, ids in sent]
    assert tally.landed.total() == sum(sound)


@pytest.mark.parametrize(
    ("kind", "content_type", "value"),
    [
        ("parcel.accepted", b"application/json", JSON_VALUES[0]),
        ("parcel.accepted", b"", JSON_VALUES[1]),
        ("parcel.pushed", b"text/json; charset=utf-8", JSON_VALUES[0]),
        ("parcel.sorted", b"application/json", JSON_VALUES[0]),
        ("parcel.measured", b"application/avro", AVRO_VALUES[0]),
        ("parcel.measured", b"", AVRO_VALUES[1]),
        ("parcel.scanned", b"application/protobuf", PROTO_VALUES[0]),
        ("parcel.scanned", b"", PROTO_VALUES[1]),
    ],
)
def test_binary_mode_takes_the_fast_path(contract: Contract, kind: str, content_type: bytes, value: bytes) -> None:
    headers = event_headers({"ce_type": kind.encode(), "ce_stage": b"late", "content-type": content_type})
    tally, tables = check_batches(contract, batches(*[(value, headers)] * 9), fast=True)
    assert tally.landed.total() == 9
    ((row, *_),) = tables.values()
    assert (row["ce_type"], row["ce_extensions"], row["_context"]) == (kind, [("stage", "late")], [("depot", "7")])
