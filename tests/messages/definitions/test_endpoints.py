"""What is found about endpoints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.definitions.endpoints import lint_endpoint, lint_messageids

PRODUCER: dict[str, Any] = {"usage": ["producer"]}
BOTH = ["subscriber", "consumer"]


def options(protocol: str, **given: Any) -> dict[str, Any]:
    return {**PRODUCER, "protocol": protocol, "protocoloptions": given}


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
    """H-3; H-4 says what the roles mean to clients: each of them may be stated alone."""
    endpoint = {"usage": usage, **({"protocol": protocol} if protocol else {})}
    told = [finding.rule for finding in lint_endpoint(endpoint) if finding.path == "usage"]
    assert told == (expected or [])


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        pytest.param({"channel": "orders"}, [], id="H-5"),
        pytest.param({"channel": ""}, [("channel", "type", "error")], id="H-5-empty"),
        pytest.param({"envelope": "CloudEvents"}, [], id="H-6-name"),
        pytest.param({"envelope": "CloudEvents/1.0"}, [], id="H-6-version"),
        pytest.param({"envelope": ""}, [("envelope", "type", "error")], id="H-6-empty"),
        pytest.param({"envelope": "/1.0"}, [("envelope", "format", "error")], id="H-6-form"),
        pytest.param({"envelopeoptions": {"mode": "structured", "format": "application/json"}}, [], id="H-7"),
        pytest.param(
            {"envelopeoptions": {"mode": "Binary"}}, [("envelopeoptions.mode", "value", "error")], id="H-7-mode"
        ),
        pytest.param(
            {"envelopeoptions": {"mode": "binary", "format": "a/b"}},
            [("envelopeoptions.format", "exclusive", "error")],
            id="H-7-format",
        ),
        pytest.param({"envelopeoptions": []}, [("envelopeoptions", "structure", "error")], id="H-7-object"),
        pytest.param(
            {"protocol": "SMTP", "protocoloptions": {"to": 1}}, [("protocol", "unknown", "warning")], id="H-8"
        ),
        pytest.param({"protocol": "HTTP/1.1"}, [], id="H-8-alias"),
        pytest.param(
            {"deployed": False, "endpoints": []},
            [("deployed", "misplaced", "warning"), ("endpoints", "misplaced", "warning")],
            id="I-6-misplaced",
        ),
        pytest.param(
            {"deprecated": {"docs": "https://a.example", "documentation": "https://a.example"}}, [], id="H-21"
        ),
        pytest.param(
            {"deprecated": {"docs": "https://a.example", "documentation": "https://b.example"}},
            [("deprecated.docs", "alias", "error")],
            id="H-21-differ",
        ),
        pytest.param({"protocoloptions": []}, [("protocoloptions", "structure", "error")], id="H-9-object"),
        pytest.param(
            {"messagegroups": ["/messagegroups/g", "https://x.example/messagegroups/g", "#/messagegroups/g"]},
            [],
            id="H-12",
        ),
        pytest.param(
            {"messagegroups": ["/messagegroups/g/messages/m", "g", 5]},
            [
                ("messagegroups[0]", "xid", "error"),
                ("messagegroups[1]", "uri", "error"),
                ("messagegroups[2]", "type", "error"),
            ],
            id="H-12-others",
        ),
        pytest.param({"messagegroups": "/messagegroups/g"}, [("messagegroups", "structure", "error")], id="H-12-array"),
    ],
)
def test_attributes(endpoint: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert found({**PRODUCER, **endpoint}) == expected


@pytest.mark.parametrize(
    ("protocol", "addresses", "expected"),
    [
        pytest.param(
            "HTTP", [{"uri": "https://x.example"}, {"uri": "{scheme}://x"}, {"uri": "HTTP://{host}/"}], [], id="H-9"
        ),
        pytest.param("HTTP", [], [], id="H-11-abstract"),
        pytest.param("HTTP", [{}], [("endpoints[0].uri", "required")], id="H-9-uri"),
        pytest.param("HTTP", [{"uri": "ftp://x"}], [("endpoints[0].uri", "scheme")], id="H-16-scheme"),
        pytest.param("HTTP", ["https://x.example"], [("endpoints[0]", "structure")], id="H-9-objects"),
        pytest.param("HTTP", {"uri": "https://x.example"}, [("endpoints", "structure")], id="H-9-array"),
        pytest.param("AMQP", [{"uri": "amqps://x/q"}], [], id="H-17-scheme"),
        pytest.param("AMQP/1.0", [{"uri": "https://x"}], [("endpoints[0].uri", "scheme")], id="H-17-other-scheme"),
        pytest.param("MQTT", [{"uri": "mqtts://x/a/b"}, {"uri": "wss://x"}], [], id="H-18-scheme"),
        pytest.param("MQTT", [{"uri": "tcp://x:1883/a"}], [("endpoints[0].uri", "path")], id="H-18-path"),
        pytest.param("NATS", [{"uri": "nats://x:4222"}, {"uri": "tls://{host}"}], [], id="H-20-scheme"),
        pytest.param(
            "NATS",
            [{"uri": "nats://x"}, {"uri": "ws://x:port"}],
            [("endpoints[0].uri", "port"), ("endpoints[1].uri", "port")],
            id="H-20-port",
        ),
        pytest.param("KAFKA", [{"bootstrap.servers": ["x:9092"], "more": 1}], [], id="H-9-kafka"),
        pytest.param(
            "KAFKA",
            [{"uri": "SSL://x:1"}, {"bootstrap.servers": []}, {"bootstrap.servers": [""]}],
            [(f"endpoints[{i}].bootstrap.servers", rule) for i, rule in enumerate(["required", "required", "type"])],
            id="H-9-kafka-servers",
        ),
        pytest.param("SMTP", [{"host": "x"}], [], id="H-9-other-protocols"),
    ],
)
def test_addresses(protocol: str, addresses: Any, expected: list[tuple[str, str]]) -> None:
    """H-9, H-11, I-6."""
    told = [
        (path, rule) for path, rule, severity in found(options(protocol, endpoints=addresses)) if severity == "error"
    ]
    assert told == [(f"protocoloptions.{path}", rule) for path, rule in expected]


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
    """H-10"""
    place = "protocoloptions.authorization[0]"
    assert found(options("HTTP", authorization=[entry])) == [(f"{place}.{name}", *rest) for name, *rest in expected]
    assert found(options("HTTP", authorization=["x"])) == [(place, "structure", "error")]
    assert found(options("HTTP", authorization={})) == [("protocoloptions.authorization", "structure", "error")]


def test_placeholders() -> None:
    """H-14: anywhere in the options, keys included; resolved by clients, so that one name may have any one value."""
    good = options(
        "HTTP", query={"{name}": "{value}"}, more=[{"x": "a/{b}/{b}"}], endpoints=[{"uri": "https://{host}"}]
    )
    assert found(good) == []
    bad = options("HTTP", query={"{+name}": "{a,b}"})
    assert found(bad) == [("protocoloptions.query.{+name}", "uritemplate", "warning")] * 2


def test_message_ids() -> None:
    """H-13: unique over inline messages and those of the groups, in any case."""
    pairs = [
        ("a", "/endpoints/e/messages/a"),
        ("A", "/messagegroups/g/messages/A"),
        ("b", "/messagegroups/g/messages/b"),
    ]
    (finding,) = lint_messageids(pairs)
    assert (finding.rule, finding.severity) == ("duplicate_id", "warning")
    assert all(place in finding.message for _, place in pairs[:2])


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["{", "{a}", "://", "nats://[x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("usage", "channel", "envelope", "envelopeoptions", "deprecated", "messagegroups", "protocoloptions")
INNER = ("endpoints", "authorization", "topic", "topicfilter", "acks", "headers", "qos", "subject", "willmessage")


@given(
    st.dictionaries(st.sampled_from(NAMES), json),
    st.dictionaries(st.sampled_from(INNER), json),
    st.sampled_from(["HTTP", "AMQP", "MQTT", "KAFKA", "NATS", 5, None]),
)
def test_nothing_breaks_it(endpoint: dict[str, Any], inner: dict[str, Any], protocol: Any) -> None:
    """Documents nobody checked get findings, no failure."""
    lint_endpoint({**endpoint, "protocol": protocol})
    lint_endpoint({**endpoint, "protocol": protocol, "protocoloptions": inner})
