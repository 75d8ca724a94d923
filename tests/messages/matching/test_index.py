from typing import Any

import pytest
from tests.messages.builders import make_contract

from signalbook.messages import CompiledDefinition, Contract
from signalbook.messages.matching.index import MAX_TRIED, DefinitionIndex, IndexBucket


def events(**attributes: str) -> dict[str, Any]:
    return {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {name: {"value": value} for name, value in attributes.items()},
    }


def requests(*headers: tuple[str, str], required: bool = True, **options: Any) -> dict[str, Any]:
    items = [{"name": name, "value": value, "required": required} for name, value in headers]
    return {"protocol": "HTTP", "protocoloptions": {"headers": items, **options}}


def found(index: DefinitionIndex, values: dict[str, Any]) -> list[str]:
    return [d.message_id for leaf in index.find_buckets(values) for d in leaf.definitions]


def over_events(contract: Contract) -> DefinitionIndex:
    assert contract.events is not None
    return contract.events


def over_options(contract: Contract) -> DefinitionIndex:
    return DefinitionIndex((definition, definition.protocol_keys) for definition in contract.definitions.values())


@pytest.mark.parametrize("count", [50, 5000])
def test_a_type_leads_to_its_definition_alone(count: int) -> None:
    """One lookup in one table suffices, regardless of the number of definitions (K-14, K-32)."""
    contract = make_contract({f"m{i}": events(type=f"t{i}", source="/s/{x}") for i in range(count)})
    assert found(over_events(contract), {"type": "t7", "source": "/s/1"}) == ["m7"]
    assert over_events(contract).find_buckets({"type": "other"}) == []


def test_many_definitions_of_one_type_are_distinguished_by_the_rest() -> None:
    """The other attributes distinguish definitions with the same type (K-14)."""
    contract = make_contract({f"m{i}": events(type="t", source=f"/s/{i}") for i in range(1000)})
    assert found(over_events(contract), {"type": "t", "source": "/s/42"}) == ["m42"]
    assert len(over_events(contract).find_wider({"type": "t", "source": "/none"})) <= 20


def test_templates_distinguish_definitions() -> None:
    """The constant parts of templates distinguish definitions (K-14)."""
    contract = make_contract({f"m{i}": events(source=f"/plant/{{line}}/sensor-{i}") for i in range(1000)})
    assert found(over_events(contract), {"type": "x", "source": "/plant/7/sensor-42"}) == ["m42"]


def test_the_most_telling_header_is_the_key() -> None:
    """A header that few definitions share distinguishes more than the method (K-14)."""
    contract = make_contract({
        f"m{i}": requests(("X-Vendor", "acme"), ("X-Event", f"e{i}"), method="POST", path="/hooks") for i in range(100)
    })  # fmt: skip
    index = over_options(contract)
    values = {"method": "POST", "path": "/hooks", "headers.x-vendor": ("acme",), "headers.x-event": ("e7",)}
    assert list(index.tables) == ["headers.x-event"]
    assert found(index, values) == ["m7"]
    assert found(index, {**values, "headers.x-event": ("e7", "e8", "e7")}) == ["m7", "m8"]


def test_an_optional_constant_may_be_absent() -> None:
    """A definition with an optional constant matches messages without it (F-29)."""
    contract = make_contract({"m": requests(("X-Event", "e"), required=False)})
    index = over_options(contract)
    assert found(index, {"headers.x-event": ("e",)}) == ["m"]
    assert found(index, {"method": "POST"}) == ["m"]
    assert found(index, {"headers.x-event": ("other",)}) == []


def test_without_keys_the_message_id_is_a_hint() -> None:
    """F-4, K-32"""
    contract = make_contract({name: events() for name in ("a", "b", "c")})
    assert found(over_events(contract), {"type": "b"}) == ["b"]
    assert found(over_events(contract), {"type": "x"}) == ["a", "b", "c"]


def test_few_definitions_are_tried_individually() -> None:
    contract = make_contract({f"m{i}": events(type="t", source=f"/{i}") for i in range(MAX_TRIED)})
    assert len(found(over_events(contract), {"type": "t", "source": "/1"})) == MAX_TRIED


def test_any_version_of_a_declared_dataschema_is_found() -> None:
    """Such a constant is no key, because events name the Version (F-32, K-39)."""
    contract = make_contract({"m": events(dataschema="/schemagroups/g/schemas/s")})
    uri = "https://r.example/schemagroups/g/schemas/s/versions/1"
    assert found(over_events(contract), {"type": "t", "dataschema": uri}) == ["m"]


def bucket(*actions: Any) -> IndexBucket:
    schemas = {f"/s/{i}": schema for i, schema in enumerate(actions)}
    definitions = {f"m{i}": {"dataschemauri": xid, "dataschemaformat": "JsonSchema/x"} for i, xid in enumerate(schemas)}
    contract = make_contract(definitions, schemas)
    return IndexBucket([(definition, ()) for definition in contract.definitions.values()])


def action(**properties: Any) -> dict[str, Any]:
    enums = {name: {"enum": values} for name, values in properties.items()}
    return {"type": "object", "required": list(properties), "properties": enums}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"action": "opened"}, ["m0", "m3"]),
        ({"action": "closed", "kind": 1}, ["m1", "m3"]),
        ({"action": "closed", "kind": 2}, ["m2", "m3"]),
        ({"action": "closed"}, ["m3"]),
        ({}, ["m3"]),
        ({"action": []}, ["m3"]),
        ({"action": {}, "kind": {}}, ["m3"]),
        ([1], ["m0", "m1", "m2", "m3"]),
    ],
)
def test_constants_in_the_payload_narrow_the_choice(payload: Any, expected: list[str]) -> None:
    """Constants of the schema exclude definitions (K-30)."""
    kinds = [action(action=["opened"]), action(action=["closed"], kind=[1]), action(action=["closed"], kind=[2])]
    candidates = bucket(*kinds, {"type": "object"})
    assert [definition.message_id for definition in candidates.narrow(payload)] == expected


def test_a_payload_is_compared_with_no_definition_it_cannot_be() -> None:
    """The 500 definitions differ only in one value of the payload (K-30)."""
    candidates = bucket(*(action(action=[f"a{i}"]) for i in range(500)))
    assert [definition.message_id for definition in candidates.narrow({"action": "a42"})] == ["m42"]


def test_every_matching_definition_is_found() -> None:
    """The index omits no definition for any mix of keys (K-14)."""
    contract = make_contract({
        "typed": events(type="t"), "templated": events(source="/a/{x}"), "loose": events(),
        "whole": events(source="{x}"), "both": events(type="t", source="/a/1"), "subject": events(subject="s"),
    })  # fmt: skip
    values = {"type": "t", "source": "/a/1", "subject": "s"}
    hit = {d.message_id for d in _all(over_events(contract), values)}
    assert hit == {"typed", "templated", "loose", "whole", "both", "subject"}


def _all(index: DefinitionIndex, values: dict[str, Any]) -> list[CompiledDefinition]:
    return [definition for leaf in index.find_buckets(values) for definition in leaf.definitions]
