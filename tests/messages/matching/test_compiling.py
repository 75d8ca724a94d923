"""Definitions compiled when a message leads to them are the same as definitions compiled at once."""

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
    """The schemas for look-ups, with a list of the look-ups."""

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
    summary: list[Any] = []
    for outcome in outcomes:
        match outcome:
            case Accepted():
                summary.append((outcome.definition.xid, outcome.context, outcome.data, outcome.warnings))
            case Rejected():
                summary.append((outcome.reason, outcome.violations, outcome.candidates))
            case _:
                summary.append(type(outcome))
    return summary


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
    members=st.lists(_definitions, min_size=1, max_size=12),
    messages=st.lists(_messages, min_size=1, max_size=8),
    mapped=st.booleans(),
)
def test_lazy_and_eager_contracts_have_equal_outcomes(
    members: list[Any], messages: list[Message], mapped: bool
) -> None:
    """The definitions are any mix; reasons, violations and candidates are equal too (K-14, K-28, K-45)."""
    definitions = {f"{GROUP}/m{number}": definition for number, definition in enumerate(members)}
    eager, later, _ = contracts(definitions, Policy(native_mapping=mapped))
    for message in messages:
        assert told(later.process(message)) == told(eager.process(message))
    assert later.incomplete == eager.incomplete
    assert later.definitions.keys() == eager.definitions.keys()


def test_only_used_definitions_are_compiled() -> None:
    """A contract with thousands of definitions is available immediately (K-14)."""
    definitions = {
        f"{GROUP}/m{number}": {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": f"t{number}"}},
            "dataschemaformat": "JsonSchema/draft-07",
            "dataschemauri": "/schemagroups/g/schemas/" + ("a" if number == 7 else "b"),
        }
        for number in range(5000)
    }
    requested: list[str] = []

    class Asked(dict[str, Any]):
        def __getitem__(self, xid: str) -> Any:
            requested.append(xid)
            return definitions[xid]

    eager, _, shelf = contracts(definitions)
    book = DefinitionSource(definitions=Asked(), schemas=shelf.find, bases=definitions.get)
    contract = Contract.outlined(eager.outlines, book, Policy())
    for number in range(3):
        (outcome,) = contract.process(event("t7", data={"n": number}))
        assert isinstance(outcome, Accepted)
    assert told(contract.process(event("t5000")))[0][0] == "unknown_kind"
    assert requested == [f"{GROUP}/m7"]
    assert shelf.asked == ["/schemagroups/g/schemas/a"]


def test_outline_contains_the_index_keys() -> None:
    """An outline contains the values that definitions are indexed by (K-8)."""
    metadata = {"type": {"value": "t"}, "source": {"value": "/a/{x}"}, "subject": {"value": "s"}}
    definition = {"envelope": "CloudEvents", "envelopemetadata": metadata, "protocol": "Kafka"}
    eager, _, _ = contracts({f"{GROUP}/m": definition})
    (outline_,) = map(outline, eager.definitions.values())
    assert (outline_.xid, outline_.is_event, outline_.protocol, outline_.type) == (f"{GROUP}/m", True, "KAFKA", "t")
    assert dict(outline_.constants) == {"type": "t", "subject": "s"}
