from typing import Any

import pytest

from signalbook.values import JSON

from .conftest import Mend

MESSAGE = "/messagegroups/m/messages/one"
ENDPOINT = "/endpoints/e"
KAFKA = {"bootstrap.servers": ["h:9092"], "security.protocol": "SSL"}
META, BASE = "envelopemetadata", "/messagegroups/m/messages/b"
MESSAGES: dict[str, Any] = {
    "I-5 format": ({"format": "CloudEvents/1.0"}, {"envelope": "CloudEvents/1.0"}, ["format [I-6]"]),
    "I-6 protocol in format": ({"format": "Kafka"}, {"protocol": "Kafka"}, ["format [I-6]"]),
    "rc4's own format": ({"format": "JsonSchema/draft-07"}, {"format": "JsonSchema/draft-07"}, []),
    "L-2 B-3": ({"format": "CloudsEvents"}, {"envelope": "CloudEvents/1.0"}, ["format [I-6]", "envelope [L-2]"]),
    "rc1 no protocol": ({"protocol": "None"}, {}, ["protocol [rc1]"]),
    "L-30 any case of a protocol will do": ({"protocol": "Kafka"}, {"protocol": "Kafka"}, []),
    "I-6 metadata.attributes": ({"metadata": {"attributes": {"type": {"type": "var"}, "time": {"type": "datetime"}}}},
        {"envelopemetadata": {"type": {"type": "any"}, "time": {"type": "timestamp"}}},
        [f"{name} [I-6]" for name in ("metadata", META, f"{META}.type.type", f"{META}.time.type")]),
    "I-6 sentinel, F-52": (
        {"envelopemetadata": {"time": {"value": "01-01-0000T00:00:00Z"}, "subject": {"type": "urireference"}}},
        {"envelopemetadata": {"time": {}, "subject": {"type": "uri"}}},
        ["envelopemetadata.time.value [I-6]", "envelopemetadata.subject.type [I-6]"],
    ),
    "I-6 schema names": ({"schemaformat": "Avro/1.11", "schemaurl": "#/schemaGroups/g/schemas/s"},
        {"dataschemaformat": "Avro/1.11", "dataschemauri": "/schemagroups/g/schemas/s"},
        ["schemaformat [I-6]", "schemaurl [I-6]", "dataschemauri [I-3]"]),
    "L-5": ({"dataschemauri": "/schemagroups/g/schema/s/version/1"},
        {"dataschemauri": "/schemagroups/g/schemas/s/versions/1"}, ["dataschemauri [L-5]"]),
    "L-31 an xid is as good as a URL": ({"dataschemauri": "/schemagroups/g/schemas/s"}, None, []),
    "F-57": ({"basemessageurl": BASE}, {"basemessageuri": BASE}, ["basemessageurl [F-57]"]),
    "L-27 F-58": ({"uri": f"#{BASE}", "messageid": "one", "envelope": "CloudEvents/1.0"},
        {"messageid": "one", "meta": {"xref": BASE}}, ["uri [F-58]"]),
    "L-27": ({"messageid": "two"}, {"messageid": "one"}, ["messageid [L-27]"]),
    "L-30": ({"protocol": "HTTP", "protocoloptions": {"query": {"a": {"value": "1"}, "b": "2"}}},
        {"protocol": "HTTP", "protocoloptions": {"query": [{"name": n, "value": v} for n, v in ("a1", "b2")]}},
        ["protocoloptions.query [L-30]"]),
    "L-33": ({"dataschemaformat": "Protobuf/3", "dataschema": 'message A { string s = 1 [x = "}"]; } }\n'},
        {"dataschemaformat": "Protobuf/3", "dataschema": 'message A { string s = 1 [x = "}"]; }\n'},
        ["dataschema [L-33]"]),
    "L-18 neither value nor required": ({META: {"subject": {"description": "d"}}}, None, []),
    "L-19 kept as it is": ({"authority": "cloudevents.io"}, {"authority": "cloudevents.io"}, []),
    "F-50": ({"ancestor": "1"}, {"ancestorid": "1"}, ["ancestor [F-50]"]),
    "two that differ are nobody's to choose from": ({"envelope": "CloudEvents/1.0", "metadata": {}, META: {"id": {}}},
        None, []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected", "repairs"), MESSAGES.values(), ids=MESSAGES)
def test_messages(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    assert mend(MESSAGE, body) == (body if expected is None else expected, repairs)


ABSTRACT: JSON = {"deployed": False, "endpoints": []}
ENDPOINTS: dict[str, Any] = {
    "I-6 usage": ({"usage": "consumer"}, {"usage": ["consumer"]}, ["usage [I-6]"]),
    "I-6 config": (
        {"config": {"protocol": "MQTT/5.0", "strict": False, "endpoints": ["mqtt://h"], "options": {"topic": "t"}}},
        {"protocol": "MQTT/5.0", "protocoloptions": {"topic": "t", "endpoints": [{"uri": "mqtt://h"}]}},
        ["config [I-6]", "protocoloptions.endpoints [I-6]"],
    ),
    "I-6 config alone": ({"config": {"protocol": "NATS"}}, {"protocol": "NATS"}, ["config [I-6]"]),
    "I-7 top level": (ABSTRACT, {"protocoloptions": ABSTRACT}, ["deployed [I-7]", "endpoints [I-7]"]),
    "I-7 H-9 kafka": ({"protocol": "KAFKA", "protocoloptions": {"endpoints": [{"uri": "SSL://h:9092"}, dict(KAFKA)]}},
        {"protocol": "KAFKA", "protocoloptions": {"endpoints": [KAFKA, KAFKA]}}, ["protocoloptions.endpoints [I-7]"]),
    "I-7 underscores": (
        {"protocol": "AMQP/1.0", "protocoloptions": {"link_properties": {"a_b": "c"}, "distribution_mode": "copy"}},
        {"protocol": "AMQP/1.0", "protocoloptions": {"link-properties": {"a_b": "c"}, "distribution-mode": "copy"}},
        ["protocoloptions.link_properties [I-7]", "protocoloptions.distribution_mode [I-7]"],
    ),
    "I-6 definitionGroups": ({"definitionGroups": ["#/definitionGroups/g", "https://h/messagegroups/g"]},
        {"messagegroups": ["/messagegroups/g", "https://h/messagegroups/g"]},
        ["definitionGroups [I-6]", "messagegroups [I-3]"]),
    "beyond repair": ({"config": 1, "usage": 1, "endpoints": 1, "protocoloptions": 1}, None, []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected", "repairs"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_endpoints(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    result = mend(ENDPOINT, body)
    assert result == (body if expected is None else expected, repairs)


def test_versions_are_modernised_like_messages(mend: Mend) -> None:
    group, _ = mend("/messagegroups/m", {"definitions": {"one": {"versions": {"1": {"format": "AMQP", "id": "1"}}}}})
    versions = group["messages"]["one"]["versions"]
    assert (versions["1"]["protocol"], versions["1"]["versionid"]) == ("AMQP", "1")
