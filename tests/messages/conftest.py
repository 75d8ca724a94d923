"""Short ways to a contract and to messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import CompiledDefinition, Contract, Message, Policy, SchemaDocument
from signalbook.values import JSONObject, dump_json

GROUP = "/messagegroups/g/messages"
ContractOf = Callable[..., Contract]
Line = Callable[..., Message]


@pytest.fixture
def contract_of() -> ContractOf:
    """A contract of definitions by message id, with JSON Schemas (draft-07) by xid and policy members."""

    def build(definitions: dict[str, JSONObject], schemas: dict[str, Any] | None = None, **policy: Any) -> Contract:
        contents = {xid: dump_json(schema) for xid, schema in (schemas or {}).items()}
        draft = "JsonSchema/draft-07"
        documents = {x: SchemaDocument(content=text, format=draft, xid=x) for x, text in contents.items()}
        raw = {f"{GROUP}/{name}": definition for name, definition in definitions.items()}
        return Contract.compile(raw, documents.get, Policy(**policy))

    return build


@pytest.fixture
def line() -> Line:
    """A structured CloudEvent of a file; attributes given as ``None`` are left out."""

    def build(**members: Any) -> Message:
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **members}
        body = dump_json({name: value for name, value in event.items() if value is not None})
        return Message(content_type="application/cloudevents+json", body=body)

    return build


@pytest.fixture
def define(contract_of: ContractOf) -> Callable[..., CompiledDefinition]:
    """The definition with these members, compiled, under the message id ``order``."""

    def build(**members: Any) -> CompiledDefinition:
        contract = contract_of({"order": members})
        assert contract.broken == {}
        (definition,) = contract.definitions.values()
        return definition

    return build
