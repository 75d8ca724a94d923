"""Definitions and messages that mean harm, or nothing at all: findings and outcomes, never an exception."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples, json_trees

from signalbook.messages import Contract, Message, Policy, SchemaDocument
from signalbook.messages.bindings.http import request
from signalbook.messages.definitions.source import DefinitionSource, leave_out

NAMES = st.sampled_from(
    [
        *("envelope", "protocol", "envelopemetadata", "envelopeoptions", "protocoloptions", "dataschema"),
        *("dataschemauri", "dataschemaxid", "dataschemaformat", "datacontenttype", "basemessage", "basemessageuri"),
        *("deprecated", "format", "metadata", "config", "id", "type", "source", "time", "value", "required", "mode"),
        *("method", "path", "status", "headers", "query", "name", "removal", "attributes", "options", "specversion"),
    ]
)
TEXTS = st.sampled_from(
    [
        *("CloudEvents/1.0", "HTTP", "http/1.1", "KAFKA", "uritemplate", "string", "integer", "timestamp", "{a}"),
        *("{a}/{b}", "{+a}", "x", "5", "true", "JsonSchema/x", "/g/m/a", "/g/m/b", "#/g/m/b", "application/json"),
        *("application/cloudevents+json", "structured", "binary"),
    ]
) | st.text(max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | TEXTS
JSON = json_trees(SCALARS, NAMES, size=5, leaves=20)
DEFINITIONS = st.dictionaries(st.sampled_from(["/g/m/a", "/g/m/b", "c"]), st.dictionaries(NAMES, JSON, max_size=8))
BODIES = st.binary(max_size=20) | st.sampled_from(
    [b'{"specversion":"1.0","id":"1","source":"/s","type":"x","data":5}', b"{}", b"[]", b'{"id":{}}', b'{"a":NaN}']
)
HEADERS = st.lists(
    st.tuples(st.sampled_from(["ce-id", "ce-type", "ce-source", "ce-specversion", "ce-", "x", ""]), TEXTS), max_size=6
)
POLICIES = st.builds(
    Policy,
    native_mapping=st.booleans(),
    strict_delivery=st.booleans(),
    prefer_specific=st.booleans(),
    required_schema=st.booleans(),
    on_schema_violation=st.sampled_from(["dead_letter", "tag"]),
    on_ambiguous=st.sampled_from(["dead_letter", "all", "best"]),
)
MESSAGES = st.one_of(
    st.builds(
        Message, content_type=TEXTS, body=st.none() | BODIES, content_encoding=st.sampled_from(["", "gzip", "x"])
    ),
    st.builds(lambda body: Message(content_type="application/cloudevents+json", body=body), BODIES),
    st.builds(lambda body: Message(content_type="application/cloudevents-batch+json", body=body), BODIES),
    st.builds(lambda path, headers, body: request("POST", path, headers, body), TEXTS, HEADERS, st.none() | BODIES),
)


def schemas(_: str) -> SchemaDocument | None:
    return SchemaDocument(content=b'{"type": "integer"}', format="JsonSchema/draft-07", xid="/s")


@settings(max_examples=examples(400))
@given(DEFINITIONS, POLICIES, st.lists(MESSAGES, max_size=4))
def test_every_message_has_outcomes_with_any_definitions(
    definitions: dict[str, Any], policy: Policy, messages: list[Message]
) -> None:
    contract = Contract.compile(definitions, schemas, policy)
    assert set(contract.definitions) | set(contract.broken) == set(definitions)
    assert not set(contract.definitions) & set(contract.broken)
    contract.verify()
    source = DefinitionSource(definitions=definitions, schemas=schemas, bases=definitions.get)
    checked = source.contract_schemas()
    outlines, left_out = leave_out({xid: source.verdict(xid, checked, policy) for xid in definitions})
    assert left_out.keys() == contract.verify().keys()
    for contract_ in (contract, Contract.outlined(outlines, source, policy, left_out)):
        for message in messages:
            for outcome in contract_.process(message):
                assert (
                    outcome.message.content_type.lower() == message.content_type.lower()
                    or outcome.message is not message
                )


def test_a_definition_as_deep_as_documents_get() -> None:
    deep: Any = "x"
    for _ in range(60):
        deep = {"a": deep}
    contract = Contract.compile(
        {"/g/m/a": {"labels": deep, "basemessage": "/g/m/b"}, "/g/m/b": {"labels": deep}}, schemas
    )
    assert set(contract.definitions) == {"/g/m/a", "/g/m/b"}
