from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from signalbook.messages import Contract, Message, Override, Policy, PolicyError, Rejected, parse_flags, parse_policy

GROUP = "/messagegroups/shop"
ORDER = f"{GROUP}/messages/order"
SCHEMA = {"type": "object", "required": ["id"]}


def definition(type: str, **more: Any) -> dict[str, Any]:
    typed = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": SCHEMA}
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": type}}, **typed, **more}


def event(type: str, data: str = '{"id":1}') -> Message:
    body = f'{{"specversion":"1.0","id":"1","source":"/s","type":"{type}","data":{data}}}'
    return Message(content_type="application/cloudevents+json", body=body.encode())


def contract(definitions: Mapping[str, Any], *flags: str) -> Contract:
    return Contract.compile(definitions, lambda _: None, parse_flags(flags))


def results(contract: Contract, message: Message) -> list[str]:
    outcomes = contract.process(message)
    return [str(o.reason) if isinstance(o, Rejected) else type(o).__name__ for o in outcomes]


def test_the_most_specific_setting_wins() -> None:
    """A setting for a definition overrides that of its group, which overrides the global one (K-46)."""
    policy = parse_flags(
        [f"{ORDER}:on_ambiguous=best", f"{GROUP}:on_ambiguous=all", "strict_delivery=true", f"{GROUP}:on_removed=warn"]
    )
    assert policy.of(ORDER) == Policy(on_ambiguous="best", strict_delivery=True)
    assert policy.of(f"{ORDER}/versions/2") == policy.of(ORDER)
    assert policy.of(f"{GROUP}/messages/other").on_ambiguous == "all"
    assert policy.of("/endpoints/shop/messages/order").on_ambiguous == "dead_letter"


def test_flags_and_sections_are_equivalent() -> None:
    flags = parse_flags(["on_no_match=drop", f"{ORDER}:required_schema=true"])
    section = parse_policy({"on_no_match": "drop", ORDER: {"required_schema": True}})
    assert flags == section == Policy(
        on_no_match="drop", overrides=(Override(xid=ORDER, settings=(("required_schema", True),)),)
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(section), type=Policy) == section
    assert hash(flags) == hash(section)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("on_no_match", "write NAME=VALUE"),
        ("shop:on_removed=warn", "write NAME=VALUE"),
        ("/messagegroups/shop=warn", "write NAME=VALUE"),
        ("on_nothing=drop", "there is no setting 'on_nothing'; there are: on_no_match"),
        ("on_no_match=maybe", "on_no_match is 'maybe', and must be one of dead_letter, pass, drop"),
        ("strict_delivery=1", "strict_delivery is '1', and must be one of true, false"),
        (f"{ORDER}:on_no_match=drop", f"policy for {ORDER}: there is no setting 'on_no_match'"),
    ],
)
def test_invalid_setting_is_reported(flag: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_flags([flag])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "section", [{ORDER: "drop"}, {"on_no_match": 1}, {"required_schema": 1}, {"overrides": []}, {True: 1}]
)
def test_a_section_of_another_shape(section: dict[Any, Any]) -> None:
    with pytest.raises(PolicyError, match="policy"):
        parse_policy(section)


def test_overrides_of_nothing_are_found() -> None:
    policy = parse_flags([f"{ORDER}:on_removed=warn", f"{GROUP}:on_removed=warn", "/messagegroups/x:on_removed=warn"])
    assert policy.unknown_overrides([ORDER]) == ("/messagegroups/x",)


def test_one_definition_is_tagged_and_another_rejects() -> None:
    """The policy for violations can differ by definition (K-46)."""
    compiled = contract(
        {ORDER: definition("order"), f"{GROUP}/messages/bill": definition("bill")}, f"{ORDER}:on_schema_violation=tag"
    )
    assert results(compiled, event("order", "{}")) == ["Accepted"]
    assert results(compiled, event("bill", "{}")) == ["schema_violation"]


def test_a_schema_asked_of_one_group() -> None:
    """K-42, K-46"""
    bare = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
    definitions = {ORDER: bare, "/messagegroups/x/messages/m": definition("u")}
    assert results(contract(definitions), event("t")) == ["Accepted"]
    assert results(contract(definitions, f"{GROUP}:required_schema=true"), event("t")) == ["schema_not_found"]
    assert results(contract(definitions, "/messagegroups/x:required_schema=true"), event("t")) == ["Accepted"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ["ambiguous"]),
        (("on_ambiguous=all",), ["Accepted", "Accepted"]),
        ((f"{GROUP}:on_ambiguous=all",), ["Accepted", "Accepted"]),
        ((f"{ORDER}:on_ambiguous=all",), ["ambiguous"]),
        ((f"{GROUP}:on_ambiguous=all", f"{ORDER}:on_ambiguous=best"), ["ambiguous"]),
    ],
)
def test_ambiguous_definitions_must_agree_on_the_policy(flags: tuple[str, ...], expected: list[str]) -> None:
    """K-30, K-46"""
    definitions = {ORDER: definition("t"), f"{GROUP}/messages/other": definition("t")}
    assert results(contract(definitions, *flags), event("t")) == expected


def test_delivery_is_strict_for_one_definition() -> None:
    """K-27, K-46"""
    sent = {"protocol": "HTTP", "protocoloptions": {"method": "POST"}}
    definitions = {ORDER: definition("t", **sent), f"{GROUP}/messages/other": definition("u", **sent)}
    compiled = contract(definitions, f"{ORDER}:strict_delivery=true")
    assert results(compiled, event("t")) == ["no_match"]
    assert results(compiled, event("u")) == ["Accepted"]
