"""Drafts are registry documents that accept what they were drafted from."""

import json
from typing import Any

import pytest

from signalbook.messages import Accepted, Message, Policy
from signalbook.messages.bindings import kafka
from signalbook.model import builtin, compile_model
from signalbook.pipeline.inference import definitions
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import Observations
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS, Rules
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSONObject

RULES = RULES_BY_STRICTNESS[0]


def event(number: int, **more: Any) -> Message:
    body = {
        "specversion": "1.0", "id": f"e{number}", "type": "order.placed", "source": f"/shops/{number}", "tenant": "t",
        "priority": 1, "time": "2026-01-02T03:04:05Z", "data": {"n": number}, **more,
    }  # fmt: skip
    return Message(content_type="application/cloudevents+json", body=json.dumps(body).encode())


def request(number: int, about: str, body: bytes = b'{"n": 1}', content_type: str = "application/json") -> Message:
    headers = (("X-Event", about), ("X-Delivery", str(number)), ("Host", "h"), ("Content-Type", content_type))
    sections = {"method": "POST", "path": f"/hooks/{number}", "headers": headers}
    return Message(protocol="HTTP", content_type=content_type, body=body, sections=sections)


def drafted(*messages: Message, by: Discriminator | None = None, rules: Rules = RULES) -> JSONObject:
    observations, by = Observations(), by or Discriminator()
    for message in messages:
        observations.take(message, by)
    return definitions.build_document(observations, "shop", rules, by)


def accepted(document: JSONObject, *messages: Message) -> int:
    contract = Snapshot.of_documents([("draft", document)]).compile(Policy())
    assert contract.verify() == {}
    return sum(isinstance(outcome, Accepted) for message in messages for outcome in contract.process(message))


def test_an_event_is_defined_by_what_all_have() -> None:
    messages = [event(n) for n in range(10)]
    document = drafted(*messages)
    message = document["messagegroups"]["shop"]["messages"]["order.placed"]
    assert message["envelopemetadata"] == {
        "type": {"value": "order.placed", "required": True},
        "source": {"type": "uritemplate", "value": "/shops/{shop}", "required": True},
        "tenant": {"value": "t", "required": True},
        "priority": {"type": "integer", "required": True},
        "time": {"required": True},
    }
    assert message["dataschemauri"] == "/schemagroups/shop/schemas/order.placed"
    assert accepted(document, *messages) == 10
    assert accepted(document, event(11, source="/elsewhere"), event(12, data={})) == 0


def test_attributes_keep_their_types() -> None:
    messages = [event(n, flag=True, mixed=n if n % 2 else str(n)) for n in range(10)]
    document = drafted(*messages)
    metadata = document["messagegroups"]["shop"]["messages"]["order.placed"]["envelopemetadata"]
    assert [metadata[name]["type"] for name in ("priority", "flag", "mixed")] == ["integer", "boolean", "any"]
    assert accepted(document, *messages) == 10


def test_few_messages_bind_little() -> None:
    document = drafted(event(1), event(2))
    message = document["messagegroups"]["shop"]["messages"]["order.placed"]
    assert message["envelopemetadata"]["source"] == {}
    assert accepted(document, event(3, source="/elsewhere", tenant="u")) == 1


@pytest.mark.parametrize(
    ("data", "path", "doubt"),
    [
        ({"n": "free"}, "/n", "20 numbers, but also 1 text"),
        ({"n": {"k": 1}}, "/n", "20 numbers, but also 1 object"),
        ({"n": 1.5}, "", ""),
        ({"n": None}, "", ""),
        ([1], "", "20 objects, but also 1 list"),
    ],
)
def test_rare_types_are_doubts(data: Any, path: str, doubt: str) -> None:
    observations = Observations()
    for message in (*(event(n) for n in range(20)), event(20, data=data)):
        observations.take(message, Discriminator())
    doubts = [{"definition": "order.placed", "path": path, "doubt": doubt}] if doubt else []
    assert definitions.list_doubts(observations) == doubts


def test_frequent_types_are_no_doubts() -> None:
    observations = Observations()
    for number in range(20):
        observations.take(event(number, data={"list": [{"n": number if number % 2 else str(number)}]}), Discriminator())
    assert definitions.list_doubts(observations) == []


def test_requests_are_defined_by_the_telling_header() -> None:
    messages = [request(n, "push" if n % 2 else "ping") for n in range(20)]
    document = drafted(*messages, by=Discriminator(header="x-event"))
    assert document["messagegroups"]["shop"]["messages"]["POST-push"]["protocoloptions"] == {
        "method": "POST",
        "path": "/hooks/{hook}",
        "headers": [{"name": "x-event", "value": "push", "required": True}, {"name": "x-delivery", "required": True}],
    }
    assert accepted(document, *messages) == 20


def test_non_json_payloads_get_no_schema() -> None:
    messages = [request(n, "scan", b"\x00", "application/octet-stream") for n in range(10)]
    document = drafted(*messages)
    assert "schemagroups" not in document
    assert accepted(document, *messages) == 10


@pytest.mark.parametrize(
    ("types", "ids"),
    [
        (["a", "A"], ["A", "a-2"]),
        (["urn:x:y"], ["urn-x-y"]),
        (["é"], ["message"]),
        (["x" * 200], ["x" * 120]),
        (["-.a"], ["a"]),
    ],
)
def test_ids_can_be_stored(types: list[str], ids: list[str]) -> None:
    document = drafted(*(event(n, type=name) for n, name in enumerate(types)))
    assert list(document["messagegroups"]["shop"]["messages"]) == ids


def test_a_draft_fits_the_default_model() -> None:
    model = compile_model(builtin("default"))
    document = drafted(*(event(n) for n in range(10)), *(request(n, "push") for n in range(10)))
    assert set(document) <= set(model.groups)


@pytest.mark.parametrize("member", ["kind", "source.table"])
def test_the_value_of_a_kind_is_demanded_of_maps_as_well(member: str) -> None:
    def message(number: int) -> Message:
        ids = {f"{number:04}-{n}": n for n in range(40)}
        value = {**ids, "kind": "k", "source": {**ids, "table": "k"}}
        return Message(content_type="application/json", body=json.dumps(value).encode())

    messages = [message(number) for number in range(60)]
    document = drafted(*messages, by=Discriminator(members={"": member}))
    assert accepted(document, *messages) == 60
    schema = document["schemagroups"]["shop"]["schemas"]["k"]["versions"]["1"]["schema"]
    for name in member.split("."):
        assert name in schema["required"]
        schema = schema["properties"][name]
    assert schema == {"type": "string", "const": "k"}


@pytest.mark.parametrize("topic", ["", "orders"])
@pytest.mark.parametrize("member", ["event", "source.table", "code"])
@pytest.mark.parametrize("rules", [RULES_BY_STRICTNESS[0], RULES_BY_STRICTNESS[-1]], ids=["strict", "lenient"])
def test_plain_messages_demand_the_value_of_their_kind(topic: str, member: str, rules: Rules) -> None:
    def message(kind: int) -> Message:
        value = {"event": f"e{kind}", "source": {"table": f"t{kind}", "n": 1}, "code": kind, f"m{kind}": 1}
        body = json.dumps(value).encode()
        return kafka.record(topic, body) if topic else Message(content_type="application/json", body=body)

    # One kind is rare: its value is demanded all the same.
    messages = [message(1) for _ in range(30)] + [message(2)]
    document = drafted(*messages, by=Discriminator(members={topic: member}), rules=rules)
    assert accepted(document, *messages) == 31
    assert accepted(document, message(3)) == 0
    definition = next(iter(document["messagegroups"]["shop"]["messages"].values()))
    assert definition.get("protocoloptions") == ({"topic": topic} if topic else None)
