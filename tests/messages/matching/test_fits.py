"""Finding by index says the same as trying every definition."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.messages import Accepted, Contract, Message, Rejected
from signalbook.messages.bindings.http import BINDING, request
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import JSON_EVENTS
from signalbook.messages.matching.fits import MatchSubject, merge_findings, violations
from signalbook.values import Finding

VALUES = st.sampled_from(["a", "b", "a/b", "{x}", "{x}/b", "a/{y}", "a{x}", "{x}/{x}"])
PROPERTY = st.fixed_dictionaries({"value": VALUES, "required": st.booleans()})
EVENTS = st.fixed_dictionaries(
    {"type": st.fixed_dictionaries({"value": VALUES})}, optional={"subject": PROPERTY, "ext": PROPERTY}
).map(lambda metadata: {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata})
HEADER = st.builds(lambda name, entry: {"name": name, **entry}, st.sampled_from(["X", "y"]), PROPERTY)
REQUESTS = st.fixed_dictionaries(
    {"headers": st.lists(HEADER, max_size=2)},
    optional={"method": st.sampled_from(["GET", "PUT"]), "path": VALUES.map(lambda text: "/" + text)},
).map(lambda options: {"protocol": "HTTP", "protocoloptions": options})
TEXTS = st.sampled_from(["a", "b", "a/b", "b/b", "ab", "c"])


def agree(contract: Contract, message: Message, subject: MatchSubject) -> None:
    """Both ways find the same definitions (K-14, K-26)."""
    fitting = {xid for xid, definition in contract.definitions.items() if not violations(definition, subject, {})}
    (outcome,) = contract.process(message)
    if isinstance(outcome, Accepted):
        assert {outcome.definition.xid} == fitting
    else:
        assert isinstance(outcome, Rejected)
        assert (outcome.reason == "ambiguous") is (len(fitting) > 1)
        assert len(fitting) != 1


def contract_of(definitions: list[dict[str, Any]]) -> Contract:
    return Contract.compile({f"/g/m{i}": definition for i, definition in enumerate(definitions)}, lambda _: None)


@settings(max_examples=examples(300))
@given(st.lists(EVENTS, max_size=25), TEXTS, st.none() | TEXTS, st.none() | TEXTS)
def test_events(definitions: list[dict[str, Any]], type: str, subject: str | None, ext: str | None) -> None:
    """K-14, K-26, F-29"""
    optional = {name: value for name, value in (("subject", subject), ("ext", ext)) if value is not None}
    event = CloudEvent(attributes={"specversion": "1.0", "id": "1", "source": "/s", "type": type, **optional})
    message = Message(content_type="application/cloudevents+json", body=JSON_EVENTS.encode(event))
    match_subject = MatchSubject(message=message, mode=Mode.STRUCTURED, event=event, values={})
    agree(contract_of(definitions), message, match_subject)


@settings(max_examples=examples(300))
@given(st.lists(REQUESTS, max_size=25), TEXTS, st.lists(st.tuples(st.sampled_from(["x", "Y"]), TEXTS), max_size=3))
def test_requests(definitions: list[dict[str, Any]], path: str, headers: list[tuple[str, str]]) -> None:
    """K-14, K-26, F-29"""
    message = request("PUT", f"/{path}", headers, b"")
    subject = MatchSubject(message=message, mode=Mode.NONE, event=None, values=BINDING.values(message))
    agree(contract_of(definitions), message, subject)


def test_findings_of_several_definitions_name_them_and_are_bounded() -> None:
    """The findings have the names of their definitions, and their number is limited (K-45)."""
    (first, second) = contract_of([{"protocol": "HTTP"}, {"protocol": "NATS"}]).definitions.values()
    findings = [Finding(path="p", rule="r", message="m")] * 80
    assert merge_findings([(first, findings)]) == tuple(findings)
    both = merge_findings([(first, findings), (second, findings)])
    assert len(both) == 100
    assert (both[0].message, both[99].message) == ("/g/m0: m", "/g/m1: m")
