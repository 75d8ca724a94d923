"""Messages that are presumed to conform come to what they come to when each is judged by itself (design.md 3.9)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import AVRO, AVRO_VALUES, JSON_VALUES, PROTO, PROTO_VALUES, written
from tests.pipeline.processing.test_routing import check_batches, processed

from signalbook.messages import Contract, Message, parse_flags
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.bindings.http import request
from signalbook.messages.cloudevents import CloudEvent
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing import pending_payloads
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import AcceptedRow, LandedRows
from signalbook.pipeline.report import Tally
from signalbook.pipeline.sources.base import LIGHTEST, MessageBatch
from signalbook.values import JSONObject

GROUP = "/messagegroups/desk"
POLICIES = (
    (),
    ("on_schema_violation=tag", "on_no_match=drop"),
    ("on_ambiguous=all", "rescue=drop"),
    ("on_ambiguous=best", "prefer_specific=true"),
    ("wire_prefix=confluent",),
    ("on_duplicate_names=dead_letter", "strict_delivery=true", "columns=as_sent"),
)
PROTOCOLS = ("HTTP", "MQTT/5.0", "AMQP/1.0", "NATS", "KAFKA")


def ticket(*states: str) -> JSONObject:
    members = {"id": {"type": "string"}, "state": {"enum": list(states)}, "weight": {"type": "number", "minimum": 0}}
    return {"type": "object", "required": ["id", "state"], "properties": members}


def schema(format: str, text: Any) -> JSONObject:
    return {"versions": {"1": {"format": format, "schema": text, "labels": {"confluent.id": "7"}}}}


def of_head(name: str, **more: Any) -> JSONObject:
    headers = [{"name": "X-Kind", "value": "ticket", "required": True}, {"name": "X-Id", "value": "{ticket}"}]
    options = {"method": "POST", "headers": headers}
    return {"protocol": "HTTP", "protocoloptions": options, **written("JsonSchema/draft-07", name), **more}


@pytest.fixture(scope="module")
def contracts(parcels: Any) -> list[Contract]:
    """Events and messages of all protocols, some of which only their payloads tell apart, under each policy."""
    document = parcels.catalogue()
    json_, avro = written("JsonSchema/draft-07", "opened"), written("Avro/1.11", "measure")
    to = {"value": "desk", "required": True}
    whole = {**ticket("closed"), "required": ["weight"]}
    document["messagegroups"]["parcels"]["messages"] |= {
        "measured": parcels.message("parcel.measured", **avro),
        "scanned": parcels.message("parcel.scanned", **written("Protobuf/3", "scan")),
    }
    document["messagegroups"]["desk"] = {
        "messages": {
            "opened": of_head("opened"),
            "closed": of_head("closed"),
            "moved": of_head("moved", deprecated={"removal": "2020-01-01T00:00:00Z"}),
            "either": of_head("either"),
            "mapped": {**parcels.message("desk.mapped"), "protocol": "HTTP", "protocoloptions": {"path": "/mapped"}},
            "noted": {"protocol": "HTTP", "protocoloptions": {"path": "/notes/{note}"}, **avro},
            "mqtt": {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "desk/{desk}"}, **json_},
            "amqp": {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"to": to}}, **json_},
            "nats": {"protocol": "NATS", "protocoloptions": {"subject": "desk.{desk}"}, **json_},
            "kafka": {"protocol": "KAFKA", "protocoloptions": {"topic": "desk"}, **written("Protobuf/3", "scan")},
        }
    }  # fmt: skip
    document["schemagroups"]["parcels"]["schemas"] |= {
        "opened": schema("JsonSchema/draft-07", ticket("opened", "reopened")),
        "closed": schema("JsonSchema/draft-07", ticket("closed")),
        "moved": schema("JsonSchema/draft-07", ticket("moved")),
        "either": schema("JsonSchema/draft-07", {"oneOf": [ticket("split"), whole]}),
        "measure": schema("Avro/1.11", AVRO),
        "scan": schema("Protobuf/3", PROTO),
    }  # fmt: skip
    snapshot = Snapshot.of_documents([("desk", document)])
    policies = [parse_flags(flags) for flags in POLICIES]
    return [Snapshot.from_json(snapshot.check(policy).to_json()).compile(policy) for policy in policies]


@dataclass(frozen=True)
class Given:
    messages: Sequence[Message]
    name: str = "given"
    cloudevents_json: bool = False

    def frame(self) -> MessageBatch:
        bodies = [message.body or b"" for message in self.messages]
        ends = np.cumsum(list(map(len, bodies)), dtype=np.int64)
        starts = ends - np.array(list(map(len, bodies)), np.int64)
        places = np.arange(len(bodies), dtype=np.int64)
        return MessageBatch(path="f", content=b"".join(bodies), starts=starts, ends=ends, positions=places)

    def message(self, batch: MessageBatch, index: int) -> Message:
        return self.messages[int(batch.positions[index])]


def check(contract: Contract, *messages: Message) -> Tally:
    source = Given(messages)
    return check_batches(contract, [source.frame()], source)[0]


PLACES: dict[str, dict[str, Any]] = {
    "HTTP": {"method": "POST", "path": "/tickets", "headers.X-Kind": "ticket", "headers.X-Id": "T1"},
    "MQTT/5.0": {"topic_name": "desk/7"},
    "AMQP/1.0": {"properties.to": "desk"},
    "NATS": {"subject": "desk.7"},
    "KAFKA": {"topic": "desk"},
}


def native(protocol: str, body: bytes | None, content_type: str = "application/json", **values: Any) -> Message:
    """A message to where the definitions of its protocol have theirs."""
    binding = find_binding(protocol)
    assert binding is not None
    return binding.carrying(binding.native(body, content_type), {**PLACES[protocol], **values})


def event(protocol: str, body: bytes, kind: str = "parcel.accepted", **more: Any) -> Message:
    attributes = {"specversion": "1.0", "id": "1", "source": "/depots/7", "type": kind, **more}
    binding = find_binding(protocol)
    assert binding is not None
    return binding.binary(CloudEvent(attributes=attributes, body=body))


TICKETS = (
    *(json.dumps({"id": "T", "state": state}).encode() for state in ("opened", "reopened", "closed", "moved", "split")),
    *(b'{"id":"T","state":"opened","state":"closed"}', b'{"id":"T","\\u0073tate":"opened","weight":-1}'),
    *(b'{"id":"T","state":"closed","weight":1}', b'{"state":"split","weight":1,"id":1}', b""),
    *(b'{"id":"T","state":["opened"]}', b'{"id":"T","state":"opened"', b'{"id":"\xff","state":"opened"}', b"{}"),
    *(b'[{"state":"opened"}]', b'{"weight":1}'),
    *(b'{"id":"T","state":"opened","x":{"y":1,"y":2}}', b'{"id":"T","state":"opened","more":{"a":[1]}}'),
)  # fmt: skip
TYPES = ("application/json", "application/json", "", "text/json; charset=utf-8", "text/plain", "avro/binary")
OTHER = (*AVRO_VALUES[:3], *PROTO_VALUES[:3], b"\0\0\0\0\7" + AVRO_VALUES[0], b"null", b"\x00")
HEADS = {
    "method": st.sampled_from(["PUT", "post"]),
    "path": st.sampled_from(["/notes/1", "/notes/", "/mapped?x=1", "/notes/a%20b", "/tickets"]),
    "headers": st.lists(
        st.sampled_from([("x-kind", "note"), ("X-Kind", ""), ("X-Id", "ü"), ("content-encoding", "gzip")]), max_size=2
    ),
}


@st.composite
def natives(draw: st.DrawFn) -> Message:
    protocol, body = draw(st.sampled_from(PROTOCOLS)), draw(st.sampled_from((*TICKETS, *TICKETS, *OTHER)))
    content_type = draw(st.sampled_from(TYPES))
    if protocol != "HTTP":
        return native(protocol, body, content_type)
    head: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=HEADS))
    headers = [("X-Kind", "ticket"), ("X-Id", "T1"), ("Content-Type", content_type), *head.get("headers", [])]
    sent = draw(st.sampled_from([body, body, None]))
    return request(head.get("method", "POST"), head.get("path", "/tickets"), headers[draw(st.integers(0, 2)) :], sent)


KINDS = {
    "parcel.accepted": ("application/json", JSON_VALUES[:10]),
    "parcel.noted": ("text/plain", (b"x",)),
    "parcel.measured": ("application/avro", (*AVRO_VALUES, b"\0\0\0\0\7" + AVRO_VALUES[0])),
    "parcel.scanned": ("application/protobuf", (*PROTO_VALUES, b"\0\0\0\0\7\0" + PROTO_VALUES[0])),
    "parcel.gone": ("application/json", (b"{}",)),
}
MORE = st.fixed_dictionaries(
    {},
    optional={
        "subject": st.sampled_from(["ü %41", 'a "b"', "s"]),
        "source": st.sampled_from(["/depots/9", "/elsewhere", ""]),
        "time": st.sampled_from(["2026-01-02T03:04:05.5Z", "2026-01-02T03:04:60Z", "soon"]),
        "dataschema": st.sampled_from(["https://x/schemagroups/parcels/schemas/parcel/versions/1", "https://x/y"]),
        "stage": st.sampled_from(["late", True, 7]),
    },
)


@st.composite
def events(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from(list(KINDS)))
    content_type, values = KINDS[kind]
    if draw(st.integers(0, 3)) == 0:
        content_type = draw(st.sampled_from(TYPES))
    more = draw(MORE) | ({"datacontenttype": content_type} if content_type else {})
    return event(draw(st.sampled_from(PROTOCOLS)), draw(st.sampled_from(values)), kind, **more)


@given(st.sampled_from(range(len(POLICIES))), st.lists(st.one_of(natives(), natives(), events()), max_size=10))
@settings(max_examples=examples(150))
def test_presumed_messages_come_to_the_same(contracts: list[Contract], policy: int, messages: list[Message]) -> None:
    """The property holds for every policy and protocol (K-46)."""
    check(contracts[policy], *messages)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_binary_events_are_presumed(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """Events with encoded attributes are presumed too."""
    monkeypatch.setattr(Processing, "_process_outcomes", None)
    source = Given([
        event(protocol, JSON_VALUES[0], subject="ü %41", datacontenttype="application/json"),
        event(protocol, AVRO_VALUES[0], "parcel.measured", datacontenttype="application/avro"),
        event(protocol, PROTO_VALUES[0], "parcel.scanned", datacontenttype="application/protobuf", stage="late"),
    ])  # fmt: skip
    tally, tables = processed(contracts[0], source, [source.frame()])
    assert tally.landed.total() == 3
    (row,) = tables["parcels.parcel.accepted"]
    assert (row["ce_subject"], row["_protocol"], row["_context"]) == ("ü %41", protocol, [("depot", "7")])


@pytest.mark.parametrize(
    "message",
    [
        *(native("HTTP", body) for body in TICKETS[:3]),
        *(native(protocol, TICKETS[0]) for protocol in PROTOCOLS[1:4]),
        native("KAFKA", PROTO_VALUES[0], "application/protobuf"),
        native("HTTP", AVRO_VALUES[0], "avro/binary", **{"path": "/notes/9", "headers.X-Kind": "note"}),
    ],
)
def test_messages_are_presumed(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch, message: Message) -> None:
    """Even where a constant in the payload is all that tells definitions apart (K-30)."""
    # what ``either`` allows no plan can say, and so what shares its head is left to both ways
    monkeypatch.setattr(pending_payloads, "_SLICE", 1)
    source = Given([message] * 3)
    judged: list[Message] = []
    process = Processing._process_outcomes

    def count(self: Processing, message: Message, *arguments: Any) -> None:
        judged.append(message)
        process(self, message, *arguments)

    monkeypatch.setattr(Processing, "_process_outcomes", count)
    tally, _ = processed(contracts[0], source, [source.frame()])
    assert tally.landed.total() == 3
    assert bool(judged) is (message.protocol == "HTTP" and message.sections["path"] == "/tickets")


def test_payloads_that_are_refused_get_their_reasons(contracts: list[Contract]) -> None:
    sound, broken = event("HTTP", JSON_VALUES[0]), event("HTTP", b'{"id":"P","weight":-1}')
    tally = check(contracts[0], sound, broken, sound, event("HTTP", b"{"))
    assert (tally.landed.total(), tally.reasons) == (2, {"schema_violation": 1, "decode_error": 1})


def test_messages_wait_until_there_are_enough(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_payloads, "_SLICE", 2 * LIGHTEST)
    sizes: list[int] = []
    flush_full = pending_payloads.PendingPayloads.flush_full

    def record(self: pending_payloads.PendingPayloads) -> Iterator[LandedRows | AcceptedRow]:
        for outcome in flush_full(self):
            assert isinstance(outcome, LandedRows)
            sizes.append(len(outcome.rows))
            yield outcome

    monkeypatch.setattr(pending_payloads.PendingPayloads, "flush_full", record)
    assert check(contracts[0], *[native("NATS", TICKETS[0])] * 5).landed.total() == 5
    assert sizes == [2, 2]


def test_number_of_content_types_is_bounded(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_payloads, "_MOST_KINDS", 2)
    messages = [native("NATS", TICKETS[0], f"application/x{number}+json") for number in range(9)]
    assert check(contracts[0], *messages).landed.total() == 9


def test_batches_for_the_slow_path_are_not_presumed(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_payloads.PendingPayloads, "take", None)
    source = Given([event("NATS", JSON_VALUES[0])])
    assert processed(contracts[0], source, [replace(source.frame(), slow_path=True)])[0].landed.total() == 1
