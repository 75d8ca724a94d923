from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import json_trees

from signalbook.messages.definitions.endpoints import lint_endpoint, lint_messageids

PRODUCER: dict[str, Any] = {"usage": ["producer"]}
BOTH = ["subscriber", "consumer"]


def options(protocol: str, **protocol_options: Any) -> dict[str, Any]:
    return {**PRODUCER, "protocol": protocol, "protocoloptions": protocol_options}


def found(endpoint: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(finding.path, finding.rule, finding.severity) for finding in lint_endpoint(endpoint)]


@pytest.mark.parametrize(
    ("usage", "protocol", "expected"),
    [
        pytest.param(None, "HTTP", ["required"], id="H-3-required"),
        pytest.param([], "HTTP", ["structure"], id="H-3-one-at-least"),
        pytest.param("producer", "HTTP", ["structure"], id="H-3-array"),
        pytest.param(["publisher"], "HTTP", ["enum"], id="H-3-values"),
        *(pytest.param([role], "KAFKA", None, id=f"H-4-{role}") for role in ("consumer", "producer", "subscriber")),
        *(
            pytest.param(BOTH, name, [], id=f"H-3-{name}")
            for name in ("MQTT/3.1.1", "mqtt/5.0", "MQTT", "AMQP/1.0", "amqp", "NATS")
        ),
        pytest.param(BOTH[::-1], "NATS", [], id="H-3-either-order"),
        *(pytest.param(BOTH, name, ["exclusive"], id=f"H-3-{name}") for name in ("HTTP", "KAFKA", "SMTP", "")),
        pytest.param(["producer", "consumer"], "NATS", ["exclusive"], id="H-3-producer"),
        pytest.param(["producer", "producer"], "NATS", ["exclusive"], id="H-3-twice"),
        pytest.param([*BOTH, "producer"], "NATS", ["exclusive"], id="H-3-all"),
    ],
)
def test_usage(usage: Any, protocol: str, expected: list[str] | None) -> None:
    """Each of the roles may be stated alone; H-4 defines their meaning for clients (H-3)."""
    endpoint = {"usage": usage, **({"protocol": protocol} if protocol else {})}
    rules = [finding.rule for finding in lint_endpoint(endpoint) if finding.path == "usage"]
    assert rules == (expected or [])


ATTRIBUTES: dict[str, Any] = {
    "H-5": ({"channel": "orders"}, []),
    "H-5-empty": ({"channel": ""}, [("channel", "type", "error")]),
    "H-6-name": ({"envelope": "CloudEvents"}, []),
    "H-6-version": ({"envelope": "CloudEvents/1.0"}, []),
    "H-6-empty": ({"envelope": ""}, [("envelope", "type", "error")]),
    "H-6-form": ({"envelope": "/1.0"}, [("envelope", "format", "error")]),
    "H-7": ({"envelopeoptions": {"mode": "structured", "format": "application/json"}}, []),
    "H-7-mode": ({"envelopeoptions": {"mode": "Binary"}}, [("envelopeoptions.mode", "value", "error")]),
    "H-7-format": ({"envelopeoptions": {"mode": "binary", "format": "a/b"}},
        [("envelopeoptions.format", "exclusive", "error")]),
    "H-7-object": ({"envelopeoptions": []}, [("envelopeoptions", "structure", "error")]),
    "H-8": ({"protocol": "SMTP", "protocoloptions": {"to": 1}}, [("protocol", "unknown", "warning")]),
    "H-8-alias": ({"protocol": "HTTP/1.1"}, []),
    "I-6-misplaced": ({"deployed": False, "endpoints": []},
        [("deployed", "misplaced", "warning"), ("endpoints", "misplaced", "warning")]),
    "H-21": ({"deprecated": {"docs": "https://a.example", "documentation": "https://a.example"}}, []),
    "H-21-differ": ({"deprecated": {"docs": "https://a.example", "documentation": "https://b.example"}},
        [("deprecated.docs", "alias", "error")]),
    "H-9-object": ({"protocoloptions": []}, [("protocoloptions", "structure", "error")]),
    "H-12": ({"messagegroups": ["/messagegroups/g", "https://x.example/messagegroups/g", "#/messagegroups/g"]}, []),
    "H-12-others": (
        {"messagegroups": ["/messagegroups/g/messages/m", "g", 5]},
        [
            ("messagegroups[0]", "xid", "error"),
            ("messagegroups[1]", "uri", "error"),
            ("messagegroups[2]", "type", "error"),
        ],
    ),
    "H-12-array": ({"messagegroups": "/messagegroups/g"}, [("messagegroups", "structure", "error")]),
}  # fmt: skip


@pytest.mark.parametrize(("endpoint", "expected"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_attributes(endpoint: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert found({**PRODUCER, **endpoint}) == expected


ADDRESSES: dict[str, Any] = {
    "H-9": ("HTTP", [{"uri": "https://x.example"}, {"uri": "{scheme}://x"}, {"uri": "HTTP://{host}/"}], []),
    "H-11-abstract": ("HTTP", [], []),
    "H-9-uri": ("HTTP", [{}], [("endpoints[0].uri", "required")]),
    "H-16-scheme": ("HTTP", [{"uri": "ftp://x"}], [("endpoints[0].uri", "scheme")]),
    "H-9-objects": ("HTTP", ["https://x.example"], [("endpoints[0]", "structure")]),
    "H-9-array": ("HTTP", {"uri": "https://x.example"}, [("endpoints", "structure")]),
    "H-17-scheme": ("AMQP", [{"uri": "amqps://x/q"}], []),
    "H-17-other-scheme": ("AMQP/1.0", [{"uri": "https://x"}], [("endpoints[0].uri", "scheme")]),
    "H-18-scheme": ("MQTT", [{"uri": "mqtts://x/a/b"}, {"uri": "wss://x"}], []),
    "H-18-path": ("MQTT", [{"uri": "tcp://x:1883/a"}], [("endpoints[0].uri", "path")]),
    "H-20-scheme": ("NATS", [{"uri": "nats://x:4222"}, {"uri": "tls://{host}"}], []),
    "H-20-port": ("NATS", [{"uri": "nats://x"}, {"uri": "ws://x:port"}],
        [("endpoints[0].uri", "port"), ("endpoints[1].uri", "port")]),
    "H-9-kafka": ("KAFKA", [{"bootstrap.servers": ["x:9092"], "more": 1}], []),
    "H-9-kafka-servers": ("KAFKA", [{"uri": "SSL://x:1"}, {"bootstrap.servers": []}, {"bootstrap.servers": [""]}],
        [(f"endpoints[{i}].bootstrap.servers", rule) for i, rule in enumerate(["required", "required", "type"])]),
    "H-9-other-protocols": ("SMTP", [{"host": "x"}], []),
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "addresses", "expected"), ADDRESSES.values(), ids=ADDRESSES)
def test_addresses(protocol: str, addresses: Any, expected: list[tuple[str, str]]) -> None:
    """H-9, H-11, I-6."""
    findings = found(options(protocol, endpoints=addresses))
    errors = [(path, rule) for path, rule, severity in findings if severity == "error"]
    assert errors == [(f"protocoloptions.{path}", rule) for path, rule in expected]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "OAuth2", "resourceuri": "urn:x", "authorityuri": "https://x.example/{tenant}"}, []),
        ({"type": "SASL", "mechanism": "PLAIN"}, []),
        ({"type": "Plain", "mechanism": "PLAIN"}, [("mechanism", "exclusive", "error")]),
        ({"type": "Magic"}, [("type", "enum", "warning")]),
        ({"type": "OAuth2", "authorityuri": ""}, [("authorityuri", "type", "error")]),
        ({"type": "OAuth2", "resourceuri": "a b"}, [("resourceuri", "uri", "error")]),
        ({"type": "Plain", "password": "x"}, [("password", "credentials", "error")]),
        ({"type": "OAuth2", "clientSecret": "x"}, [("clientSecret", "credentials", "error")]),
    ],
)
def test_authorization(entry: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """Invalid entries of authorization are findings (H-10)."""
    place = "protocoloptions.authorization[0]"
    assert found(options("HTTP", authorization=[entry])) == [
        (f"{place}.{name}", *details) for name, *details in expected
    ]
    assert found(options("HTTP", authorization=["x"])) == [(place, "structure", "error")]
    assert found(options("HTTP", authorization={})) == [("protocoloptions.authorization", "structure", "error")]


def test_placeholders() -> None:
    """Placeholders may be anywhere in the options, also in keys, because clients resolve them (H-14)."""
    addresses = [{"uri": "https://{host}"}]
    good = options("HTTP", query={"{name}": "{value}"}, more=[{"x": "a/{b}/{b}"}], endpoints=addresses)
    assert found(good) == []
    bad = options("HTTP", query={"{+name}": "{a,b}"})
    assert found(bad) == [("protocoloptions.query.{+name}", "uritemplate", "warning")] * 2


def test_message_ids() -> None:
    """The ids of inline messages and those of the groups are unique, regardless of case (H-13)."""
    names = (("a", "/endpoints/e"), ("A", "/messagegroups/g"), ("b", "/messagegroups/g"))
    pairs = [(name, f"{group}/messages/{name}") for name, group in names]
    (finding,) = lint_messageids(pairs)
    assert (finding.rule, finding.severity) == ("duplicate_id", "warning")
    assert all(place in finding.message for _, place in pairs[:2])


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
json = json_trees(SCALARS | st.sampled_from(["{", "{a}", "://", "nats://[x"]), st.text(max_size=5))
NAMES = ("usage", "channel", "envelope", "envelopeoptions", "deprecated", "messagegroups", "protocoloptions")
INNER = ("endpoints", "authorization", "topic", "topicfilter", "acks", "headers", "qos", "subject", "willmessage")


@given(
    st.dictionaries(st.sampled_from(NAMES), json),
    st.dictionaries(st.sampled_from(INNER), json),
    st.sampled_from(["HTTP", "AMQP", "MQTT", "KAFKA", "NATS", 5, None]),
)
def test_any_endpoint_can_be_linted(endpoint: dict[str, Any], inner: dict[str, Any], protocol: Any) -> None:
    """Documents nobody checked get findings, no failure."""
    lint_endpoint({**endpoint, "protocol": protocol})
    lint_endpoint({**endpoint, "protocol": protocol, "protocoloptions": inner})
