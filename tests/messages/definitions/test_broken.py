import json
from typing import Any

import pytest

from signalbook.messages import Accepted, Contract, Dropped, Message, Outcome, Reason, Rejected, parse_flags
from signalbook.messages.bindings.http import request
from signalbook.messages.definitions.source import DefinitionSource, leave_out
from signalbook.messages.policy import Policy

G = "/messagegroups/g/messages/"
TYPE = {"type": {"value": "t"}}
CE = {"envelope": "CloudEvents/1.0"}
SOUND = {**CE, "envelopemetadata": {"type": {"value": "u"}}}
EVENT = "application/cloudevents+json"


def left(policy: Policy, **definitions: Any) -> Contract:
    """The contract of definitions without those that cannot be used."""
    raw = {G + name: definition for name, definition in definitions.items()}
    source = DefinitionSource(definitions=raw, schemas=lambda _: None, bases=lambda _: None)
    schemas = source.contract_schemas()
    outlines, broken = leave_out({xid: source.verdict(xid, schemas, policy) for xid in source.definitions})
    assert broken, "the definition was meant to be broken"
    return Contract.outlined(outlines, source, policy, broken)


def event(**more: Any) -> Message:
    body = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **more}
    return Message(content_type=EVENT, body=json.dumps(body).encode())


def judged(contract: Contract, message: Message) -> Outcome:
    (outcome,) = contract.process(message)
    return outcome


HEADERS = {"protocol": "HTTP", "protocoloptions": {"path": "/a", "headers": [5]}}


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({**CE, "envelopemetadata": {**TYPE, "time": {"type": "timestamp", "value": 5}}}, event()),
        ({**CE, "envelopemetadata": {**TYPE, "n": 5}}, event()),
        ({**CE, "envelopemetadata": {**TYPE, "subject": {"type": "uritemplate", "value": "{"}}}, event(subject="x")),
        ({**CE, "envelopemetadata": {"source": {"value": "/s"}, "n": 5}}, event(type="any")),
        ({**CE, "envelopemetadata": TYPE, "protocol": 5, "protocoloptions": 7}, event()),
        ({**CE, "envelopemetadata": {"type": {"value": []}}}, event(type="broken")),
        ({**CE, "envelopemetadata": 5}, event(type="broken")),
        ({"envelope": 5, "envelopemetadata": TYPE}, event(type="t")),
        (HEADERS, request("POST", "/a", [], b"")),
    ],
    ids=str,
)
def test_messages_of_a_broken_definition_are_rejected(definition: Any, message: Message) -> None:
    """The reason names the definition; other messages are not affected (K-44, K-45)."""
    contract = left(Policy(), broken=definition, sound=SOUND)
    outcome = judged(contract, message)
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.candidates) == (Reason.CONTRACT_UNAVAILABLE, (G + "broken",))
    (finding,) = outcome.violations
    assert finding.rule == "broken_definition"
    assert finding.message.startswith(f"the definition {G}broken cannot be used: ")
    assert isinstance(judged(contract, event(type="u", source="/else")), Accepted)


@pytest.mark.parametrize("definition", [5, None, [], {"datacontenttype": 5}], ids=str)
def test_unrecognisable_broken_definition_prevents_dropping(definition: Any) -> None:
    """A message without a matching definition may belong to the broken one."""
    for flags in ([], ["on_no_match=drop"]):
        sound = {**CE, "envelopemetadata": {"type": {"value": "u"}}}
        contract = left(parse_flags(flags), broken=definition, sound=sound)
        outcome = judged(contract, event())
        assert isinstance(outcome, Rejected)
        assert outcome.reason is Reason.NO_MATCH
        assert f"{G}broken cannot be used" in outcome.violations[-1].message


def test_recognisable_broken_definition_does_not_prevent_dropping() -> None:
    contract = left(parse_flags(["on_no_match=drop"]), broken={**CE, "envelopemetadata": {**TYPE, "n": 5}})
    assert isinstance(judged(contract, event(type="other")), Dropped)
    assert isinstance(judged(contract, event()), Rejected)


def test_valid_definition_takes_precedence() -> None:
    sound = {**CE, "envelopemetadata": {**TYPE, "source": {"value": "/s"}}}
    contract = left(Policy(), broken={**CE, "envelopemetadata": {**TYPE, "n": 5}}, sound=sound)
    outcome = judged(contract, event())
    assert isinstance(outcome, Accepted)
    assert outcome.definition.xid == f"{G}sound"
