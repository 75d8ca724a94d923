"""Options of endpoints, protocol by protocol."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.messages.definitions.endpoints import OPTIONS, option_findings
from signalbook.model import builtin, compile_model

GOOD: dict[str, dict[str, Any]] = {
    "HTTP": {
        "method": "POST",
        "headers": [{"name": "a", "value": "b"}, {"name": "a", "value": "c"}],
        "query": {"x": "y"},
        "apikeyname": "k",
        "apikeyin": "query",
        "plainscheme": "form",
        "plainusernamefield": "u",
        "plainpasswordfield": "p",
    },
    "AMQP/1.0": {
        "node": "q",
        "durable": True,
        "link-properties": {"a": "b"},
        "connection-properties": {},
        "distribution-mode": "copy",
        "connection-capabilities": ["a"],
        "node-capabilities": [],
        "source-filters": {"f": 1},
        "dynamic": False,
        "terminus-durability": "unsettled-state",
        "expiry-policy": "never",
        "timeout": 5,
        "sender-settle-mode": "mixed",
        "receiver-settle-mode": "second",
    },
    "MQTT/3.1.1": {
        "topic": "a/{b}",
        "qos": 2,
        "retain": True,
        "willtopic": "w",
        "willmessage": "/messagegroups/g/messages/m",
        "cleansession": False,
    },
    "MQTT/5.0": {
        "topicfilter": "a/+/b/#",
        "qos": 0,
        "cleanstart": True,
        "sessionexpiryinterval": 4294967295,
        "sharedsubscriptiongroup": "g",
        "nolocal": True,
        "retainaspublished": True,
        "retainhandling": 2,
    },
    "KAFKA": {
        "topic": "t",
        "acks": -1,
        "key": "k",
        "partition": 0,
        "headers": {"a": "b"},
        "keyserializer": "k",
        "valueserializer": "v",
    },
    "NATS": {"subjectfilter": "a.*.>", "queuegroup": "g"},
}


def found(protocol: str, *roles: str, **options: Any) -> list[tuple[str, str, str]]:
    findings = option_findings(options, protocol, frozenset(roles))
    return [(f.path.removeprefix("protocoloptions."), f.rule, f.severity) for f in findings]


@pytest.mark.parametrize("protocol", OPTIONS)
def test_good_options(protocol: str) -> None:
    """H-16, H-17, H-18, H-19, H-20: every option of the tables, and extensions."""
    assert found(protocol, "producer", **GOOD[protocol], mine={"any": ["thing"]}) == []


@pytest.mark.parametrize("protocol", OPTIONS)
def test_the_model_has_the_same_options(protocol: str) -> None:
    """H-22: the model's declared options are those known here; HTTP lists its query."""
    attributes = compile_model(builtin("default")).document["groups"]["endpoints"]["attributes"]
    declared = attributes["protocol"]["ifvalues"][protocol]["siblingattributes"]["protocoloptions"]["attributes"]
    assert set(OPTIONS[protocol]) == set(declared) - {"*", "endpoints", "authorization", "deployed"}


@pytest.mark.parametrize(
    ("protocol", "roles", "options", "expected"),
    [
        pytest.param("HTTP", "", {"method": "GET it"}, [("method", "value", "error")], id="H-16-method"),
        pytest.param("HTTP", "", {"apikeyin": "body"}, [("apikeyin", "enum", "error")], id="H-22-apikeyin"),
        pytest.param("HTTP", "", {"plainscheme": "x"}, [("plainscheme", "enum", "error")], id="H-22-plainscheme"),
        pytest.param("HTTP", "", {"headers": [{"value": "x"}]}, [("headers", "type", "error")], id="H-16-headers"),
        pytest.param("HTTP", "", {"query": [{"name": "a", "value": "b"}]}, [], id="H-16-query-as-a-list"),
        pytest.param(
            "AMQP/1.0", "", {"distribution-mode": "share"}, [("distribution-mode", "enum", "error")], id="H-17-mode"
        ),
        pytest.param("AMQP/1.0", "", {"timeout": -1}, [("timeout", "minimum", "error")], id="H-17-timeout"),
        pytest.param("AMQP/1.0", "", {"durable": "yes"}, [("durable", "type", "error")], id="H-17-durable"),
        pytest.param("AMQP/1.0", "", {"durable": "{durable}"}, [], id="H-14-placeholder"),
        pytest.param(
            "AMQP/1.0", "", {"link_properties": {}}, [("link_properties", "name", "warning")], id="I-7-underscores"
        ),
        pytest.param(
            "MQTT/5.0",
            "",
            {"topic": "a", "topicfilter": "b"},
            [("topicfilter", "exclusive", "error")],
            id="H-18-exclusive",
        ),
        pytest.param("MQTT/5.0", "", {"topic": "a/+"}, [("topic", "wildcard", "error")], id="H-18-plus"),
        pytest.param("MQTT/3.1.1", "", {"willtopic": "#"}, [("willtopic", "wildcard", "error")], id="H-18-will"),
        pytest.param("MQTT/5.0", "", {"topicfilter": "a/#/b"}, [("topicfilter", "wildcard", "error")], id="H-18-hash"),
        pytest.param(
            "MQTT/5.0", "", {"topicfilter": "a+"}, [("topicfilter", "wildcard", "error")], id="H-18-whole-level"
        ),
        pytest.param("MQTT/5.0", "", {"qos": 3}, [("qos", "enum", "error")], id="H-18-qos"),
        pytest.param(
            "MQTT/5.0",
            "",
            {"sharedsubscriptiongroup": "g"},
            [("sharedsubscriptiongroup", "requires", "error")],
            id="H-18-shared",
        ),
        pytest.param(
            "MQTT/5.0",
            "",
            {"sharedsubscriptiongroup": "$share/g", "topicfilter": "a"},
            [("sharedsubscriptiongroup", "value", "error")],
            id="H-18-shared-name",
        ),
        pytest.param(
            "MQTT/5.0",
            "",
            {"sessionexpiryinterval": 2**32},
            [("sessionexpiryinterval", "maximum", "error")],
            id="H-22-expiry",
        ),
        pytest.param("MQTT/5.0", "", {"willmessage": "/a"}, [("willmessage", "xid", "error")], id="H-18-willmessage"),
        pytest.param("MQTT/3.1.1", "", {"cleanstart": True}, [("cleanstart", "version", "warning")], id="H-18-version"),
        pytest.param(
            "MQTT/5.0", "", {"cleansession": True}, [("cleansession", "version", "warning")], id="H-18-version-3"
        ),
        pytest.param("KAFKA", "consumer", {}, [("consumergroup", "required", "error")], id="H-19-consumer"),
        pytest.param(
            "KAFKA", "consumer", {"consumergroup": ""}, [("consumergroup", "required", "error")], id="H-19-empty"
        ),
        pytest.param(
            "KAFKA",
            "consumer",
            {"consumergroup": "g", "autooffsetreset": "none", "enableautocommit": True},
            [],
            id="H-19-group",
        ),
        pytest.param(
            "KAFKA",
            "subscriber",
            {"consumergroup": "g"},
            [("consumergroup", "exclusive", "error")],
            id="H-19-subscriber",
        ),
        pytest.param(
            "KAFKA",
            "producer",
            {"autooffsetreset": "latest", "enableautocommit": True},
            [("autooffsetreset", "exclusive", "error"), ("enableautocommit", "exclusive", "error")],
            id="H-19-offsets",
        ),
        pytest.param(
            "KAFKA",
            "consumer",
            {"consumergroup": "g", "autooffsetreset": "now"},
            [("autooffsetreset", "enum", "error")],
            id="H-19-reset",
        ),
        pytest.param("KAFKA", "", {"acks": 2}, [("acks", "maximum", "error")], id="H-22-acks"),
        pytest.param("KAFKA", "", {"acks": True}, [("acks", "type", "error")], id="H-19-acks"),
        pytest.param(
            "NATS",
            "",
            {"subject": "a", "subjectfilter": "b"},
            [("subjectfilter", "exclusive", "error")],
            id="H-20-exclusive",
        ),
        pytest.param("NATS", "", {"subject": "a.>"}, [("subject", "wildcard", "error")], id="H-20-wildcard"),
        pytest.param("NATS", "", {"queuegroup": "g"}, [("queuegroup", "requires", "error")], id="H-20-queuegroup"),
        pytest.param("SMTP", "", {"topic": 5}, [], id="H-15-other-protocols"),
    ],
)
def test_what_is_found(
    protocol: str, roles: str, options: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """H-15 to H-20, H-22."""
    assert found(protocol, *roles.split(), **options) == expected
