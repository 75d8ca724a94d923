"""Definitions compiled when a message leads to them are the same as definitions compiled at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.messages import Accepted, Contract, Message, Outcome, Policy, Rejected, SchemaDocument
from signalbook.messages.definitions.source import DefinitionSource, outline
from signalbook.values import JSONObject, dump_json

GROUP = "/messagegroups/g/messages"
TYPES = ["t", "u", "{any}", "v.{part}"]
SCHEMAS: dict[str, JSONObject] = {
    "/schemagroups/g/schemas/a": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    "/schemagroups/g/schemas/b": {"type": "object", "required": ["k"], "properties": {"k": {"enum": ["x", "y"]}}},
    "/schemagroups/g/schemas/broken": {"type": 7},
}


class Shelf:
    """Where schemas are looked up, and which were."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, xid: str) -> SchemaDocument | None:
        self.asked.append(xid)
        if xid not in SCHEMAS:
            return None
        return SchemaDocument(content=dump_json(SCHEMAS[xid]), format="JsonSchema/draft-07", xid=xid)


def contracts(definitions: dict[str, Any], policy: Policy = Policy()) -> tuple[Contract, Contract, Shelf]:  # noqa: B008
    """The contract with everything compiled, and the one that was given outlines, with its shelf."""
    eager = Contract.compile(definitions, Shelf().find, policy)
    shelf = Shelf()
    book = DefinitionSource(definitions=definitions, schemas=shelf.find, bases=definitions.get)
    return eager, Contract.outlined(eager.outlines, book, policy), shelf


def told(outcomes: tuple[Outcome, ...]) -> list[Any]:
    found: list[Any] = []
    for each in outcomes:
        match each:
            case Accepted():
                found.append((each.definition.xid, each.context, each.data, each.warnings))
            case Rejected():
                found.append((each.reason, each.violations, each.candidates))
            case _:
                found.append(type(each))
    return found


def event(type: str, source: str = "/s", subject: str | None = None, data: Any = None) -> Message:
    members = {"specversion": "1.0", "id": "1", "source": source, "type": type, "subject": subject, "data": data}
    body = dump_json({name: value for name, value in members.items() if value is not None})
    return Message(content_type="application/cloudevents+json", body=body)


_property = st.fixed_dictionaries(
    {}, optional={"value": st.sampled_from(["/s", "/r/{x}", "s", "{x"]), "required": st.booleans()}
)
_payloads = st.sampled_from([*SCHEMAS, "/schemagroups/g/schemas/gone"])
_definitions = st.fixed_dictionaries(
    {},
    optional={
        "envelope": st.just("CloudEvents/1.0"),
        "envelopemetadata": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(TYPES).map(lambda value: {"value": value}),
                "source": _property,
                "subject": _property,
            },
        ),
        "protocol": st.sampled_from(["KAFKA", "HTTP"]),
        "protocoloptions": st.sampled_from([{"topic": "orders"}, {"method": "POST"}, {"path": "/{x}"}]),
        "dataschemauri": _payloads,
        "dataschemaformat": st.just("JsonSchema/draft-07"),
        "basemessageuri": st.sampled_from([f"{GROUP}/m0", f"{GROUP}/none"]),
    },
)
_messages = st.one_of(
    st.builds(
        event,
        st.sampled_from(["t", "u", "v.1", "w", "m1"]),
        st.sampled_from(["/s", "/r/1", "/q"]),
        st.sampled_from([None, "s", "/s"]),
        st.sampled_from([None, {"n": 1}, {"n": "x"}, {"k": "x"}, {}]),
    ),
    st.builds(
        Message,
        protocol=st.sampled_from(["", "KAFKA", "HTTP"]),
        content_type=st.sampled_from(["", "application/json"]),
        body=st.sampled_from([b'{"n": 1}', b'{"k": "z"}', b"x"]),
        sections=st.sampled_from([{}, {"topic": "orders"}, {"method": "POST", "path": "/a"}]),
    ),
)


@settings(max_examples=examples(150))
@given(
    given=st.lists(_definitions, min_size=1, max_size=12),
    messages=st.lists(_messages, min_size=1, max_size=8),
    mapped=st.booleans(),
)
def test_what_becomes_of_a_message_is_the_same(given: list[Any], messages: list[Message], mapped: bool) -> None:
    """K-14, K-28, K-45: whatever mix of definitions there is, also reasons, violations and candidates."""
    definitions = {f"{GROUP}/m{number}": definition for number, definition in enumerate(given)}
    eager, later, _ = contracts(definitions, Policy(native_mapping=mapped))
    for message in messages:
        assert told(later.process(message)) == told(eager.process(message))
    assert later.findings == eager.findings
    assert later.definitions.keys() == eager.definitions.keys()


def test_only_definitions_that_occur_are_compiled() -> None:
    """K-14: with thousands of them a contract is ready at once."""
    definitions = {
        f"{GROUP}/m{number}": {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": f"t{number}"}},
            "dataschemaformat": "JsonSchema/draft-07",
            "dataschemauri": "/schemagroups/g/schemas/" + ("a" if number == 7 else "b"),
        }
        for number in range(5000)
    }
    asked: list[str] = []

    class Asked(dict[str, Any]):
        def __getitem__(self, xid: str) -> Any:
            asked.append(xid)
            return definitions[xid]

    eager, _, shelf = contracts(definitions)
    book = DefinitionSource(definitions=Asked(), schemas=shelf.find, bases=definitions.get)
    contract = Contract.outlined(eager.outlines, book, Policy())
    for number in range(3):
        (outcome,) = contract.process(event("t7", data={"n": number}))
        assert isinstance(outcome, Accepted)
    assert told(contract.process(event("t5000")))[0][0] == "no_match"
    assert asked == [f"{GROUP}/m7"]
    assert shelf.asked == ["/schemagroups/g/schemas/a"]


def test_an_outline_tells_what_a_definition_is_filed_by() -> None:
    """K-8"""
    metadata = {"type": {"value": "t"}, "source": {"value": "/a/{x}"}, "subject": {"value": "s"}}
    definition = {"envelope": "CloudEvents", "envelopemetadata": metadata, "protocol": "Kafka"}
    eager, _, _ = contracts({f"{GROUP}/m": definition})
    (found,) = map(outline, eager.definitions.values())
    assert (found.xid, found.is_event, found.protocol, found.type) == (f"{GROUP}/m", True, "KAFKA", "t")
    assert dict(found.constants) == {"type": "t", "subject": "s"}
