"""Schemas full of references and payloads of them: web hooks of our own, and GitHub's with 344 definitions."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT7
from tests.formats.jsonschema.cases import is_accepted

from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.decoding import find_decoder
from signalbook.values import JSON, dump_json, parse_json

Deliveries = list[tuple[str, JSON]]


@pytest.fixture(scope="module")
def document(webhooks: Path) -> bytes:
    return (webhooks / "schema.json").read_bytes()


@pytest.fixture(scope="module")
def deliveries(webhooks: Path, document: bytes) -> Deliveries:
    """(definition, payload) of each example whose event the schemas define."""
    definitions = parse_json(document)["definitions"].keys()
    examples = parse_json((webhooks / "examples.json").read_bytes())
    return [(name, payload) for name, payload in _named(examples) if name in definitions]


def _named(examples: JSON) -> Iterator[tuple[str, JSON]]:
    for event in examples:
        for payload in event["examples"]:
            yield f"{event['name']}${payload.get('action', 'event')}", payload


@cache
def schema_of(document: bytes, name: str) -> JsonSchema:
    return FORMAT.parse(document, "JsonSchema/draft-07", link=f"#/definitions/{name}")


def test_every_definition_has_columns_and_a_decoder(document: bytes) -> None:
    names = [name for name in parse_json(document)["definitions"] if "$" in name]
    plans = Counter(find_decoder(schema_of(document, name)) is not None for name in names)
    assert plans[True] > 0.8 * len(names)


def test_real_payloads_are_judged_as_by_jsonschema(document: bytes, deliveries: Deliveries, webhooks: Path) -> None:
    registry: Any = Registry().with_resource("urn:github", DRAFT7.create_resource(parse_json(document)))
    conforming = 0
    for name, payload in deliveries:
        peer = jsonschema.Draft7Validator({"$ref": f"urn:github#/definitions/{name}"}, registry=registry)
        valid = peer.is_valid(payload)
        schema = schema_of(document, name)
        assert (schema.validate(payload) == []) == valid == is_accepted(schema, dump_json(payload)), name
        decode = find_decoder(schema)
        assert decode is None or decode(PayloadSpans.of_list([dump_json(payload)]))[1] == [0] * (not valid), name
        conforming += valid
    assert conforming > (200 if webhooks.name == "github-webhooks" else 5)


def test_spoiled_payloads_are_refused(document: bytes, deliveries: Deliveries) -> None:
    for name, payload in deliveries[:: 7 if len(deliveries) > 100 else 1]:
        schema = schema_of(document, name)
        if "sender" in payload and schema.validate(payload) == []:
            spoiled = {**payload, "sender": {**payload["sender"], "id": "not a number"}}
            assert not is_accepted(schema, dump_json(spoiled))
            assert next((f.path, f.rule) for f in schema.validate(spoiled)) == ("/sender/id", "type")
            assert not is_accepted(schema, dump_json({k: v for k, v in payload.items() if k != "sender"}))


def test_actions_discriminate(document: bytes, webhooks: Path) -> None:
    """The constants of the schemas include the actions (K-30)."""
    event = "issues" if webhooks.name == "github-webhooks" else "order"
    assert schema_of(document, f"{event}$opened").constants() == {"action": frozenset({"opened"})}
