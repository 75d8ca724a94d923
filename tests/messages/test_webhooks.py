"""Real webhook deliveries: 25 definitions and more share a header, only a value in the payload tells them apart."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from signalbook.messages import Accepted, Contract, Message, Outcome, Rejected, SchemaDocument
from signalbook.messages.bindings.http import request
from signalbook.values import JSONObject, dump_json, parse_json

FORMAT = "JsonSchema/draft-07"
SCHEMAS = "/schemagroups/github/schemas/webhooks"
MESSAGES = "/messagegroups/github/messages/"
LEAST = {"webhooks": 5, "github-webhooks": 250}


@cache
def load(folder: Path) -> tuple[Contract, list[tuple[str, JSONObject]]]:
    """The contract of all events, and the published examples with their event names."""
    schema, entries = (parse_json((folder / name).read_bytes()) for name in ("schema.json", "examples.json"))
    document = SchemaDocument(content=dump_json(schema), format=FORMAT, xid=f"{SCHEMAS}/versions/1")
    names = [name for name in schema["definitions"] if "$" in name]
    contract = Contract.compile({MESSAGES + name: definition(name) for name in names}, {SCHEMAS: document}.get)
    return contract, [(entry["name"], body) for entry in entries for body in entry["examples"]]


def definition(name: str) -> JSONObject:
    header = {"name": "X-GitHub-Event", "value": name.partition("$")[0], "required": True}
    return {
        "protocol": "HTTP",
        "protocoloptions": {"method": "POST", "headers": [header]},
        "dataschemaformat": FORMAT,
        "dataschemauri": f"{SCHEMAS}#/definitions/{name}",
    }


def deliver(contract: Contract, event: str, body: Any) -> Outcome:
    headers = [("x-github-event", event), ("Content-Type", "application/json")]
    message: Message = request("POST", "/", headers, body if isinstance(body, bytes) else dump_json(body))
    (outcome,) = contract.process(message)
    return outcome


def test_every_example_finds_its_definition(webhooks: Path) -> None:
    """Each example is accepted by its definition, or rejected by that one alone (K-14, K-30)."""
    contract, examples = load(webhooks)
    accepted = 0
    for event, body in examples:
        outcome = deliver(contract, event, body)
        action = body.get("action", "event")
        meant = f"{MESSAGES}{event}${action}"
        if isinstance(outcome, Accepted):
            accepted += 1
            assert outcome.definition.xid in (meant, f"{MESSAGES}{event}$event")
        elif meant in contract.definitions:
            assert isinstance(outcome, Rejected)
            assert (outcome.reason, outcome.candidates) == ("schema_violation", (meant,))
    assert accepted > LEAST[webhooks.name]


@pytest.mark.parametrize(
    ("event", "body", "expected"),
    [
        ("first", b'{"action": "opened"', "decode_error"),
        ("first", {"action": "exploded"}, "schema_violation"),
        ("first", {"action": 5}, "schema_violation"),
        ("unheard_of", {"action": "opened"}, "no_match"),
    ],
)
def test_invalid_deliveries_are_rejected(webhooks: Path, event: str, body: Any, expected: str) -> None:
    """K-28, K-30, K-44"""
    contract, _ = load(webhooks)
    event_name = "issues" if webhooks.name == "github-webhooks" else "order"
    outcome = deliver(contract, event_name if event == "first" else event, body)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == expected
