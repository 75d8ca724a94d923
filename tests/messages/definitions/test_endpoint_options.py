from typing import Any

import pytest
import yaml

from signalbook.messages.definitions.endpoints import OPTIONS, check_options
from signalbook.model import builtin, compile_model

GOOD: dict[str, dict[str, Any]] = yaml.safe_load("""
HTTP: {method: POST, headers: [{name: a, value: b}, {name: a, value: c}], query: {x: y}, apikeyname: k,
  apikeyin: query, plainscheme: form, plainusernamefield: u, plainpasswordfield: p}
AMQP/1.0: {node: q, durable: true, link-properties: {a: b}, connection-properties: {}, distribution-mode: copy,
  connection-capabilities: [a], node-capabilities: [], source-filters: {f: 1}, dynamic: false,
  terminus-durability: unsettled-state, expiry-policy: never, timeout: 5, sender-settle-mode: mixed,
  receiver-settle-mode: second}
MQTT/3.1.1: {topic: "a/{b}", qos: 2, retain: true, willtopic: w, willmessage: /messagegroups/g/messages/m,
  cleansession: false}
MQTT/5.0: {topicfilter: "a/+/b/#", qos: 0, cleanstart: true, sessionexpiryinterval: 4294967295,
  sharedsubscriptiongroup: g, nolocal: true, retainaspublished: true, retainhandling: 2}
KAFKA: {topic: t, acks: -1, key: k, partition: 0, headers: {a: b}, keyserializer: k, valueserializer: v}
NATS: {subjectfilter: "a.*.>", queuegroup: g}
""")


def found(protocol: str, *roles: str, **options: Any) -> list[tuple[str, str, str]]:
    findings = check_options(options, protocol, frozenset(roles))
    return [(f.path.removeprefix("protocoloptions."), f.rule, f.severity) for f in findings]


@pytest.mark.parametrize("protocol", OPTIONS)
def test_good_options(protocol: str) -> None:
    """The test contains every option of the tables, and extensions (H-16, H-17, H-18, H-19, H-20)."""
    assert found(protocol, "producer", **GOOD[protocol], mine={"any": ["thing"]}) == []


@pytest.mark.parametrize("protocol", OPTIONS)
def test_the_model_has_the_same_options(protocol: str) -> None:
    """The declared options of the model equal those known here; HTTP lists its query (H-22)."""
    attributes = compile_model(builtin("default")).document["groups"]["endpoints"]["attributes"]
    declared = attributes["protocol"]["ifvalues"][protocol]["siblingattributes"]["protocoloptions"]["attributes"]
    assert set(OPTIONS[protocol]) == set(declared) - {"*", "endpoints", "authorization", "deployed"}


OPTION_FINDINGS: dict[str, Any] = {
    "H-16-method": ("HTTP", "", {"method": "GET it"}, [("method", "value", "error")]),
    "H-22-apikeyin": ("HTTP", "", {"apikeyin": "body"}, [("apikeyin", "enum", "error")]),
    "H-22-plainscheme": ("HTTP", "", {"plainscheme": "x"}, [("plainscheme", "enum", "error")]),
    "H-16-headers": ("HTTP", "", {"headers": [{"value": "x"}]}, [("headers", "type", "error")]),
    "H-16-query-as-a-list": ("HTTP", "", {"query": [{"name": "a", "value": "b"}]}, []),
    "H-17-mode": ("AMQP/1.0", "", {"distribution-mode": "share"}, [("distribution-mode", "enum", "error")]),
    "H-17-timeout": ("AMQP/1.0", "", {"timeout": -1}, [("timeout", "minimum", "error")]),
    "H-17-durable": ("AMQP/1.0", "", {"durable": "yes"}, [("durable", "type", "error")]),
    "H-14-placeholder": ("AMQP/1.0", "", {"durable": "{durable}"}, []),
    "I-7-underscores": ("AMQP/1.0", "", {"link_properties": {}}, [("link_properties", "name", "warning")]),
    "H-18-exclusive": ("MQTT/5.0", "", {"topic": "a", "topicfilter": "b"}, [("topicfilter", "exclusive", "error")]),
    "H-18-plus": ("MQTT/5.0", "", {"topic": "a/+"}, [("topic", "wildcard", "error")]),
    "H-18-will": ("MQTT/3.1.1", "", {"willtopic": "#"}, [("willtopic", "wildcard", "error")]),
    "H-18-hash": ("MQTT/5.0", "", {"topicfilter": "a/#/b"}, [("topicfilter", "wildcard", "error")]),
    "H-18-whole-level": ("MQTT/5.0", "", {"topicfilter": "a+"}, [("topicfilter", "wildcard", "error")]),
    "H-18-qos": ("MQTT/5.0", "", {"qos": 3}, [("qos", "enum", "error")]),
    "H-18-shared": ("MQTT/5.0", "", {"sharedsubscriptiongroup": "g"},
        [("sharedsubscriptiongroup", "requires", "error")]),
    "H-18-shared-name": ("MQTT/5.0", "", {"sharedsubscriptiongroup": "$share/g", "topicfilter": "a"},
        [("sharedsubscriptiongroup", "value", "error")]),
    "H-22-expiry": ("MQTT/5.0", "", {"sessionexpiryinterval": 2**32}, [("sessionexpiryinterval", "maximum", "error")]),
    "H-18-willmessage": ("MQTT/5.0", "", {"willmessage": "/a"}, [("willmessage", "xid", "error")]),
    "H-18-version": ("MQTT/3.1.1", "", {"cleanstart": True}, [("cleanstart", "version", "warning")]),
    "H-18-version-3": ("MQTT/5.0", "", {"cleansession": True}, [("cleansession", "version", "warning")]),
    "H-19-consumer": ("KAFKA", "consumer", {}, [("consumergroup", "required", "error")]),
    "H-19-empty": ("KAFKA", "consumer", {"consumergroup": ""}, [("consumergroup", "required", "error")]),
    "H-19-group": ("KAFKA", "consumer", {"consumergroup": "g", "autooffsetreset": "none", "enableautocommit": True},
        []),
    "H-19-subscriber": ("KAFKA", "subscriber", {"consumergroup": "g"}, [("consumergroup", "exclusive", "error")]),
    "H-19-offsets": ("KAFKA", "producer", {"autooffsetreset": "latest", "enableautocommit": True},
        [("autooffsetreset", "exclusive", "error"), ("enableautocommit", "exclusive", "error")]),
    "H-19-reset": ("KAFKA", "consumer", {"consumergroup": "g", "autooffsetreset": "now"},
        [("autooffsetreset", "enum", "error")]),
    "H-22-acks": ("KAFKA", "", {"acks": 2}, [("acks", "maximum", "error")]),
    "H-19-acks": ("KAFKA", "", {"acks": True}, [("acks", "type", "error")]),
    "H-20-exclusive": ("NATS", "", {"subject": "a", "subjectfilter": "b"}, [("subjectfilter", "exclusive", "error")]),
    "H-20-wildcard": ("NATS", "", {"subject": "a.>"}, [("subject", "wildcard", "error")]),
    "H-20-queuegroup": ("NATS", "", {"queuegroup": "g"}, [("queuegroup", "requires", "error")]),
    "H-15-other-protocols": ("SMTP", "", {"topic": 5}, []),
}  # fmt: skip


@pytest.mark.parametrize(("protocol", "roles", "options", "expected"), OPTION_FINDINGS.values(), ids=OPTION_FINDINGS)
def test_options_have_findings(
    protocol: str, roles: str, options: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """H-15 to H-20, H-22."""
    assert found(protocol, *roles.split(), **options) == expected
