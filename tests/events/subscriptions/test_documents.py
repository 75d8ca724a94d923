import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import json_trees

from signalbook.events import filters
from signalbook.events.subscription import Credential, Subscription, SubscriptionError
from signalbook.events.subscriptions import documents
from signalbook.events.subscriptions.documents import InvalidSubscription
from signalbook.events.subscriptions.store import ShownSubscription
from signalbook.storage.subscriptions import DeliveryState
from signalbook.values import Finding, dump_json

ROOT = "http://r.example"
SINK: dict[str, Any] = {"sink": "https://sink.example/", "protocol": "HTTP"}
DOOR = f"{ROOT}/compat/schemaregistry/v0.2"


def fine(_: Subscription) -> None:
    """A protocol that takes everything."""


def read(document: Any) -> Subscription:
    return documents.read(document, root=ROOT, check=fine)


def faults(document: Any) -> list[str]:
    with pytest.raises(InvalidSubscription) as caught:
        read(document)
    return [fault.path for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("sent", "member", "value"),
    [
        ({}, "root", ROOT),
        ({"protocol": "HTTPS"}, "protocol", "HTTP"),
        ({"filter": {"prefix": {"subject": "/a"}}}, "filters", ({"prefix": {"subject": "/a"}},)),
        ({"filters": []}, "filters", ()),
        ({"types": []}, "types", ()),
        ({"source": DOOR}, "source", DOOR),
        ({"source": "/compat/messagecatalog/v0.1"}, "source", "/compat/messagecatalog/v0.1"),
        ({"config": {"after": "7"}}, "config", {"after": 7}),
        ({"config": {}}, "config", {}),
        ({"id": "mine", "status": 3}, "id", ""),
        (
            {"protocol": "AMQP", "protocolsettings": {"linkName": "l", "linkProperties": {}, "address": "a"}},
            "protocolsettings",
            {"linkname": "l", "linkproperties": {}, "address": "a"},
        ),
        ({"protocol": "KAFKA", "protocolsettings": {"ackmode": 1}}, "protocolsettings", {"acks": 1}),
    ],
)
def test_members_are_read(sent: dict[str, Any], member: str, value: Any) -> None:
    """Both forms and the names of the OpenAPI document are accepted (D-25, D-26, D-28, D-29, D-30)."""
    assert getattr(read({**SINK, **sent}), member) == value


@pytest.mark.parametrize("document", [None, [], "x", 1, [SINK]])
def test_document_must_be_an_object(document: Any) -> None:
    assert faults(document) == [""]


def test_faulty_protocol_is_reported_with_other_faults() -> None:
    def check(_: Subscription) -> None:
        raise SubscriptionError("/sink: it is no sink: really")

    with pytest.raises(InvalidSubscription, match=r"/types: .*; /sink: it is no sink: really"):
        documents.read({**SINK, "types": 1}, root=ROOT, check=check)


def test_faulty_protocol_is_reported_with_a_faulty_credential() -> None:
    def check(subscription: Subscription) -> None:
        assert subscription.credential is None
        raise SubscriptionError("/protocol: there is no such protocol")

    wrong = {"credentialtype": "PLAIN", "identifier": 5, "secret": "s"}
    with pytest.raises(InvalidSubscription) as caught:
        documents.read({**SINK, "sinkcredential": wrong, "x": 1}, root=ROOT, check=check)
    assert [fault.path for fault in caught.value.faults] == ["/x", "/sinkcredential/identifier", "/protocol"]


def test_incomplete_subscription_is_not_passed_to_the_protocol() -> None:
    def check(_: Subscription) -> None:
        raise AssertionError

    with pytest.raises(InvalidSubscription):
        documents.read({"sink": 1, "protocol": "HTTP"}, root=ROOT, check=check)


def test_faults_of_filters_have_paths() -> None:
    """The path of a fault leads to the filter (D-29)."""
    wrong = [{"exact": {"a": "b"}}, {"all": [{"exact": {"a": "b"}}, {"any": []}]}, {"prefix": {"": "x"}}, {}]
    assert faults({**SINK, "filters": wrong}) == ["/filters/1/all/1/any", "/filters/2/prefix/", "/filters/3"]
    assert faults({**SINK, "filter": {"suffix": {"a": ""}}}) == ["/filter/suffix/a"]


def test_a_prefix_is_a_prefix() -> None:
    """A longer name passes too (D-27)."""
    matches = filters.parse(list(read({**SINK, "filter": {"prefix": {"subject": "/schemagroups/5"}}}).filters))
    expected = [True, True, True, False]
    assert [matches({"subject": f"/schemagroups/{name}"}) for name in ("5", "55", "5/schemas/1", "6")] == expected


@pytest.mark.parametrize(
    ("filters_", "sink", "expected"),
    [
        ((), "https://s.example/", {"protocol": "HTTPS"}),
        (({"sql": "TRUE"},), "http://s.example/", {"protocol": "HTTP", "filter": {"sql": "TRUE"}}),
        (
            ({"sql": "TRUE"}, {"sql": "FALSE"}),
            "https://s.example/",
            {"protocol": "HTTPS", "filter": {"all": [{"sql": "TRUE"}, {"sql": "FALSE"}]}},
        ),
    ],
)
def test_the_older_form(filters_: tuple[Any, ...], sink: str, expected: dict[str, Any]) -> None:
    """A document in the older form is equivalent when it is sent back (D-26)."""
    subscription = Subscription(id="i", protocol="HTTP", sink=sink, filters=filters_)
    older = documents.describe(subscription, old=True)
    assert older == {"id": "i", "sink": sink, **expected}
    again = documents.describe(read(older), old=True)
    assert {**again, "id": "i"} == older


def test_secrets_are_not_shown() -> None:
    """A shown subscription contains no secrets (D-31)."""
    credential = Credential(credentialtype="PLAIN", members={"identifier": "me"}, secrets={"secret": "correct horse"})
    subscription = Subscription(id="i", credential=credential, **SINK)
    entry = ShownSubscription(subscription=subscription, state=DeliveryState(position=1))
    for old in (False, True):
        assert b"horse" not in dump_json(documents.show(entry, old=old))
    assert "horse" not in repr(entry)


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
JSON = json_trees(SCALARS | st.text(max_size=20), st.text(max_size=10), size=4, leaves=10)
MEMBERS = ("id", "source", "types", "filters", "filter", "config", "sink", "sinkcredential", "protocol", "status")
NAMES = st.sampled_from((*MEMBERS, "protocolsettings", "other"))
MEMBER = st.sampled_from(("credentialtype", "secret", "after", "exact", "all", "not", "sql", "identifier"))
PARTS = JSON | st.dictionaries(MEMBER, JSON, max_size=4)


@given(st.dictionaries(NAMES, PARTS | st.lists(PARTS, max_size=3), max_size=6), st.booleans())
def test_any_document_is_accepted_or_rejected_with_faults(document: dict[str, Any], complete: bool) -> None:
    """An accepted document is shown as it was sent, without its meaningless members (D-28)."""
    result = outcome({**SINK, **document} if complete else document)
    if isinstance(result, Subscription):
        assert outcome(documents.describe(result)) == result
    else:
        assert result
        assert all(re.match(r"(/|\Z)", fault.path) and fault.message for fault in result)


def outcome(document: dict[str, Any]) -> Subscription | tuple[Finding, ...]:
    try:
        return read(document)
    except InvalidSubscription as error:
        return error.faults
