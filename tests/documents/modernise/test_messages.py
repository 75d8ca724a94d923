"""Endpoints, message groups and messages of other days."""

from __future__ import annotations

import pytest

from signalbook.values import JSON

from .conftest import Mend

MESSAGE = "/messagegroups/m/messages/one"
ENDPOINT = "/endpoints/e"
KAFKA = {"bootstrap.servers": ["h:9092"], "security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("body", "expected", "repairs"),
    [
        pytest.param({"format": "CloudEvents/1.0"}, {"envelope": "CloudEvents/1.0"}, ["format [I-6]"], id="I-5 format"),
        pytest.param({"format": "Kafka"}, {"protocol": "Kafka"}, ["format [I-6]"], id="I-6 protocol in format"),
        pytest.param({"format": "JsonSchema/draft-07"}, {"format": "JsonSchema/draft-07"}, [], id="rc4's own format"),
        pytest.param(
            {"format": "CloudsEvents"},
            {"envelope": "CloudEvents/1.0"},
            ["format [I-6]", "envelope [L-2]"],
            id="L-2 B-3",
        ),
        pytest.param({"protocol": "None"}, {}, ["protocol [rc1]"], id="rc1 no protocol"),
        pytest.param({"protocol": "Kafka"}, {"protocol": "Kafka"}, [], id="L-30 any case of a protocol will do"),
        pytest.param(
            {"metadata": {"attributes": {"type": {"type": "var"}, "time": {"type": "datetime"}}}},
            {"envelopemetadata": {"type": {"type": "any"}, "time": {"type": "timestamp"}}},
            [
                "metadata [I-6]",
                "envelopemetadata [I-6]",
                "envelopemetadata.type.type [I-6]",
                "envelopemetadata.time.type [I-6]",
            ],
            id="I-6 metadata.attributes",
        ),
        pytest.param(
            {"envelopemetadata": {"time": {"value": "01-01-0000T00:00:00Z"}, "subject": {"type": "urireference"}}},
            {"envelopemetadata": {"time": {}, "subject": {"type": "uri"}}},
            ["envelopemetadata.time.value [I-6]", "envelopemetadata.subject.type [I-6]"],
            id="I-6 sentinel, F-52",
        ),
        pytest.param(
            {"schemaformat": "Avro/1.11", "schemaurl": "#/schemaGroups/g/schemas/s"},
            {"dataschemaformat": "Avro/1.11", "dataschemauri": "/schemagroups/g/schemas/s"},
            ["schemaformat [I-6]", "schemaurl [I-6]", "dataschemauri [I-3]"],
            id="I-6 schema names",
        ),
        pytest.param(
            {"dataschemauri": "/schemagroups/g/schema/s/version/1"},
            {"dataschemauri": "/schemagroups/g/schemas/s/versions/1"},
            ["dataschemauri [L-5]"],
            id="L-5",
        ),
        pytest.param(
            {"dataschemauri": "/schemagroups/g/schemas/s"},
            {"dataschemauri": "/schemagroups/g/schemas/s"},
            [],
            id="L-31 an xid is as good as a URL",
        ),
        pytest.param(
            {"basemessageurl": "/messagegroups/m/messages/b"},
            {"basemessageuri": "/messagegroups/m/messages/b"},
            ["basemessageurl [F-57]"],
            id="F-57",
        ),
        pytest.param(
            {"uri": "#/messagegroups/m/messages/b", "messageid": "one", "envelope": "CloudEvents/1.0"},
            {"messageid": "one", "meta": {"xref": "/messagegroups/m/messages/b"}},
            ["uri [F-58]"],
            id="L-27 F-58",
        ),
        pytest.param({"messageid": "two"}, {"messageid": "one"}, ["messageid [L-27]"], id="L-27"),
        pytest.param(
            {"protocol": "HTTP", "protocoloptions": {"query": {"a": {"value": "1"}, "b": "2"}}},
            {
                "protocol": "HTTP",
                "protocoloptions": {"query": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]},
            },
            ["protocoloptions.query [L-30]"],
            id="L-30",
        ),
        pytest.param(
            {"dataschemaformat": "Protobuf/3", "dataschema": 'message A { string s = 1 [x = "}"]; } }\n'},
            {"dataschemaformat": "Protobuf/3", "dataschema": 'message A { string s = 1 [x = "}"]; }\n'},
            ["dataschema [L-33]"],
            id="L-33",
        ),
        pytest.param(
            {"envelopemetadata": {"subject": {"description": "d"}}},
            {"envelopemetadata": {"subject": {"description": "d"}}},
            [],
            id="L-18 neither value nor required",
        ),
        pytest.param({"authority": "cloudevents.io"}, {"authority": "cloudevents.io"}, [], id="L-19 kept as it is"),
        pytest.param({"ancestor": "1"}, {"ancestorid": "1"}, ["ancestor [F-50]"], id="F-50"),
        pytest.param(
            {"envelope": "CloudEvents/1.0", "metadata": {}, "envelopemetadata": {"id": {}}},
            {"envelope": "CloudEvents/1.0", "metadata": {}, "envelopemetadata": {"id": {}}},
            [],
            id="two that differ are nobody's to choose from",
        ),
    ],
)
def test_messages(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    assert mend(MESSAGE, body) == (expected, repairs)


@pytest.mark.parametrize(
    ("body", "expected", "repairs"),
    [
        pytest.param({"usage": "consumer"}, {"usage": ["consumer"]}, ["usage [I-6]"], id="I-6 usage"),
        pytest.param(
            {
                "config": {
                    "protocol": "MQTT/5.0",
                    "strict": False,
                    "endpoints": ["mqtt://h"],
                    "options": {"topic": "t"},
                },
            },
            {
                "protocol": "MQTT/5.0",
                "protocoloptions": {"topic": "t", "endpoints": [{"uri": "mqtt://h"}]},
            },
            ["config [I-6]", "protocoloptions.endpoints [I-6]"],
            id="I-6 config",
        ),
        pytest.param({"config": {"protocol": "NATS"}}, {"protocol": "NATS"}, ["config [I-6]"], id="I-6 config alone"),
        pytest.param(
            {"deployed": False, "endpoints": []},
            {"protocoloptions": {"deployed": False, "endpoints": []}},
            ["deployed [I-7]", "endpoints [I-7]"],
            id="I-7 top level",
        ),
        pytest.param(
            {"protocol": "KAFKA", "protocoloptions": {"endpoints": [{"uri": "SSL://h:9092"}, dict(KAFKA)]}},
            {"protocol": "KAFKA", "protocoloptions": {"endpoints": [KAFKA, KAFKA]}},
            ["protocoloptions.endpoints [I-7]"],
            id="I-7 H-9 kafka",
        ),
        pytest.param(
            {"protocol": "AMQP/1.0", "protocoloptions": {"link_properties": {"a_b": "c"}, "distribution_mode": "copy"}},
            {"protocol": "AMQP/1.0", "protocoloptions": {"link-properties": {"a_b": "c"}, "distribution-mode": "copy"}},
            ["protocoloptions.link_properties [I-7]", "protocoloptions.distribution_mode [I-7]"],
            id="I-7 underscores",
        ),
        pytest.param(
            {"definitionGroups": ["#/definitionGroups/g", "https://h/messagegroups/g"]},
            {"messagegroups": ["/messagegroups/g", "https://h/messagegroups/g"]},
            ["definitionGroups [I-6]", "messagegroups [I-3]"],
            id="I-6 definitionGroups",
        ),
        pytest.param({"config": 1, "usage": 1, "endpoints": 1, "protocoloptions": 1}, None, [], id="beyond repair"),
    ],
)
def test_endpoints(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    found = mend(ENDPOINT, body)
    assert found == (body if expected is None else expected, repairs)


def test_messages_and_their_versions_alike(mend: Mend) -> None:
    found, _ = mend("/messagegroups/m", {"definitions": {"one": {"versions": {"1": {"format": "AMQP", "id": "1"}}}}})
    versions = found["messages"]["one"]["versions"]
    assert (versions["1"]["protocol"], versions["1"]["versionid"]) == ("AMQP", "1")
