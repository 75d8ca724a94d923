from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import Contract, Message
from signalbook.messages.bindings import kafka
from signalbook.messages.producing.sending import validate_outbound
from signalbook.values import dump_json

ContractOf = Callable[..., Contract]
Line = Callable[..., Message]
ORDER: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "order"}},
    "dataschema": {"type": "object", "required": ["n"]},
    "dataschemaformat": "JsonSchema/draft-07",
}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"data": {"n": 1}}, None),
        ({"data": {}}, "schema_violation"),
        ({}, "schema_violation"),
        ({"type": "other", "data": {"n": 1}}, "no_match"),
        ({"id": None, "data": {"n": 1}}, "invalid_cloudevent"),
    ],
)
@pytest.mark.parametrize("policy", [{}, {"on_no_match": "pass", "on_schema_violation": "tag"}, {"on_no_match": "drop"}])
def test_only_what_conforms_may_be_sent(
    contract_of: ContractOf, line: Line, policy: dict[str, Any], members: dict[str, Any], reason: str | None
) -> None:
    """K-3, K-54: whatever would be let through on its way in."""
    contract = contract_of({"order": ORDER}, **policy)
    refusals = validate_outbound(line(**{"type": "order", **members}), contract)
    assert [refusal.reason.value for refusal in refusals] == ([] if reason is None else [reason])
    assert all(refusal.violations for refusal in refusals)


def test_a_definition_that_was_removed(contract_of: ContractOf, line: Line) -> None:
    """K-33, K-54"""
    order = {**ORDER, "deprecated": {"removal": "2020-01-01T00:00:00Z"}}
    (refusal,) = validate_outbound(
        line(type="order", data={"n": 1}), contract_of({"order": order}, on_removed="accept")
    )
    assert refusal.reason == "metadata_violation"


def test_every_event_of_a_batch_has_to_conform(contract_of: ContractOf) -> None:
    """K-54"""
    events = [
        {"specversion": "1.0", "id": "1", "source": "/", "type": "order", "data": data} for data in ({"n": 1}, {})
    ]
    message = Message(content_type="application/cloudevents-batch+json", body=dump_json(events))
    (refusal,) = validate_outbound(message, contract_of({"order": ORDER}))
    assert refusal.message.body == dump_json(events[1])


@pytest.mark.parametrize(("protocol", "refused"), [("Kafka", False), ("", False), ("NATS", True)])
def test_an_endpoint_takes_its_own_protocol(contract_of: ContractOf, protocol: str, refused: bool) -> None:
    """K-54, H-8"""
    contract = contract_of({"order": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}})
    assert bool(validate_outbound(kafka.record("t", b"{}"), contract, {"protocol": protocol})) is refused
