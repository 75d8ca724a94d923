"""Contracts, definitions and events for the tests of messages."""

from typing import Any

from signalbook.messages import CompiledDefinition, Contract, Message, Policy, SchemaDocument
from signalbook.values import JSONObject, dump_json

GROUP = "/messagegroups/g/messages"


def make_contract(definitions: dict[str, JSONObject], schemas: dict[str, Any] | None = None, **policy: Any) -> Contract:
    """Compile definitions by message id, with JSON Schemas (draft-07) by xid and members of the policy."""
    contents = {xid: dump_json(schema) for xid, schema in (schemas or {}).items()}
    documents = {x: SchemaDocument(content=text, format="JsonSchema/draft-07", xid=x) for x, text in contents.items()}
    raw = {f"{GROUP}/{name}": definition for name, definition in definitions.items()}
    return Contract.compile(raw, documents.get, Policy(**policy))


def make_event(**members: Any) -> Message:
    """Return a structured CloudEvent as a file has it. Attributes with the value ``None`` are left out."""
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **members}
    body = dump_json({name: value for name, value in event.items() if value is not None})
    return Message(content_type="application/cloudevents+json", body=body)


def define(**members: Any) -> CompiledDefinition:
    """Compile the definition ``order`` with these members."""
    contract = make_contract({"order": members})
    assert contract.broken == {}
    (definition,) = contract.definitions.values()
    return definition
