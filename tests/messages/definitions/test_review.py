from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import json_trees

from signalbook.messages.definitions.lint import review, review_borrowed
from signalbook.values import Finding, JSONObject

NAMES = (
    "envelope", "envelopemetadata", "envelopeoptions", "protocol", "protocoloptions", "basemessage", "dataschema",
    "dataschemauri", "dataschemaformat", "datacontenttype", "properties", "content-type", "headers", "header", "name",
    "value", "type", "required", "topic", "topic_name", "key", "qos", "priority", "subject", "user_properties", "mode",
)  # fmt: skip
EVENT: JSONObject = {"envelope": "CloudEvents/1.0", "envelopemetadata": {}}


def _no_base(_: str) -> None:
    return None


def rules(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in findings]


def test_a_definition_is_completed_first() -> None:
    """Parts of the base need not be repeated; the base may be an xid or external (F-21, F-51)."""
    bases = {"/messagegroups/g/messages/base": EVENT}
    for reference, expected in (
        ("/messagegroups/g/messages/base", []),
        ("https://x.example/base", ["basemessage_unresolved"]),
    ):
        findings = review({"xid": "/a", "basemessage": reference}, {}, bases.get)
        assert [finding.rule for finding in findings] == expected
    group = {"envelope": "CloudEvents/1.0"}
    assert review({"xid": "/a", "basemessage": "/messagegroups/g/messages/base"}, group, bases.get) == []


@pytest.mark.parametrize(
    "bases",
    [{"/a": {"xid": "/a", "basemessageuri": "/a"}}, {"/a": {"basemessageuri": "/b"}, "/b": {"basemessageuri": "/a"}}],
)
def test_a_circle_is_an_error(bases: dict[str, JSONObject]) -> None:
    """F-16; a base that is missing is none (F-17)."""
    findings = review({"xid": "/a", **bases["/a"]}, {}, bases.get)
    assert rules(findings) == [("basemessage_cycle", "error")]
    expected = [("basemessage_unresolved", "warning")]
    assert rules(review({"xid": "/a", "basemessageuri": "/gone"}, {}, bases.get)) == expected


@pytest.mark.parametrize(
    ("stated", "own_envelope", "fits"),
    [
        pytest.param(None, None, True, id="nothing"),
        pytest.param("myspec", "myspec", True, id="same"),
        pytest.param("myspec", "MySpec/1.0", True, id="more-precise"),
        pytest.param("myspec/1.0", "myspec/1.0", True, id="same-version"),
        pytest.param("myspec/1.0", "myspec/1.0.2", True, id="more-precise-version"),
        pytest.param("myspec/1.0", "myspec/2.0", False, id="other-version"),
        pytest.param("myspec/1.0", "myspec/1.01", False, id="other-number"),
        pytest.param("myspec/1.0", "myspec", False, id="less-precise"),
        pytest.param("myspec", "other", False, id="other"),
        pytest.param("myspec", None, False, id="none"),
    ],
)
def test_envelopes_in_endpoints(stated: str | None, own_envelope: str | None, fits: bool) -> None:
    """The envelope of a message must equal that of its endpoint (H-6)."""
    definition: JSONObject = {"envelope": own_envelope, "envelopemetadata": {}} if own_envelope else {}
    findings = review(definition, {"envelope": stated}, _no_base, endpoint=True)
    mismatches = [finding for finding in findings if finding.rule == "endpoint"]
    assert (mismatches == []) is fits


@pytest.mark.parametrize(("own_protocol", "fits"), [("AMQP", True), ("amqp/1.0", True), (None, True), ("HTTP", False)])
def test_protocols_in_endpoints(own_protocol: str | None, fits: bool) -> None:
    """An inline message without a protocol has that of the endpoint (H-8)."""
    definition: dict[str, Any] = {"protocol": own_protocol, "protocoloptions": {}} if own_protocol else {}
    findings = review(definition, {"protocol": "AMQP/1.0"}, _no_base, endpoint=True)
    assert ("endpoint" not in {finding.rule for finding in findings}) is fits


def test_a_borrowed_message() -> None:
    """The message is only checked against the referring group (F-8, F-58)."""
    definition = {**EVENT, "dataschema": {}, "dataschemauri": "/s"}
    assert review_borrowed(definition, {"envelope": "CloudEvents/1.0"}, _no_base) == []
    assert rules(review_borrowed(definition, {"envelope": "Other/1"}, _no_base)) == [("group", "error")]
    assert review_borrowed({"envelope": 5}, {"envelope": "Other/1"}, _no_base) == []


def test_a_malformed_definition() -> None:
    assert rules(review({"envelope": 5}, {"envelope": "x"}, _no_base)) == [("structure", "error")]


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
json = json_trees(SCALARS | st.sampled_from(["{a}", "{", "text/plain", "/m"]), st.sampled_from(NAMES), leaves=10)


@given(
    st.dictionaries(st.sampled_from(NAMES), json), st.sampled_from(["HTTP", "AMQP", "MQTT", "KAFKA", "NATS", 5]), json
)
def test_any_definition_can_be_reviewed(definition: dict[str, Any], protocol: Any, stated: Any) -> None:
    """Definitions nobody checked get findings, no failure."""
    group = {"envelope": stated, "protocol": stated}
    for raw in (definition, {**definition, "protocol": protocol}):
        review(raw, group, {"/m": definition}.get, endpoint=True)
        review_borrowed(raw, group, _no_base)
