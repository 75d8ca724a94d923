"""The examples printed in the message definitions specification (of rc2 and since): written, read back and used."""

import gzip
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml
from tests.api.conftest import Client, Serve

from signalbook.messages import Accepted, Contract, Message, Policy, Rejected, bind, build
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.storage.store import Store

G: Final = "/messagegroups/com.example.abc"
EVENT: Final[dict[str, Any]] = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
FORMAT: Final = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "object"}}
_VALUES: Final[dict[str, Any]] = {
    "binary": "AAECAw==",
    "boolean": True,
    "duration": "PT5S",
    "integer": 5,
    "number": 2.5,
}
_TEXTS: Final = {"string": "{a} b", "symbol": "a_1", "timestamp": "2026-01-02T03:04:05Z", "uri": "https://x.example/a"}
_REFERENCES: Final = {"urireference": "../a?b#c", "uritemplate": "{a}/bar"}
EVERY_TYPE: Final[dict[str, Any]] = {
    "anynumber": {"type": "any", "value": 5},
    "anytext": {"type": "any", "value": "five"},
    "anything": {"type": "any"},
    "now": {"type": "timestamp", "value": "0000-01-01T00:00:00Z"},
    **{name: {"type": name, "value": value} for name, value in {**_VALUES, **_TEXTS, **_REFERENCES}.items()},
}

EXAMPLES: Final[Mapping[str, dict[str, Any]]] = yaml.safe_load("""
CloudEvents/1.0:
  envelope: CloudEvents/1.0
  envelopemetadata:
    type: {value: com.example.myevent}
    source: {value: "https://{tenant}/{module}/myevent", type: uritemplate}
    subject: {type: urireference}
    time: {required: true}
  dataschemaformat: JsonSchema/draft-07
  dataschemauri: https://example.com/schemas/com.example.myevent.json
HTTP/1.1:
  protocol: HTTP
  protocoloptions:
    headers: [{name: Content-Type, value: application/json}]
    query: [{name: foo, value: bar}]
    path: "/foo/{bar}"
    method: POST
  dataschemaformat: JsonSchema/draft-07
  dataschemauri: https://example.com/schemas/com.example.myevent.json
AMQP/1.0:
  protocol: AMQP/1.0
  protocoloptions:
    properties:
      message-id: {required: true}
      to: {value: "https://{host}/{queue}"}
      subject: {value: MyMessageType, required: true}
      content-type: {value: application/json}
      content-encoding: {value: gzip}
    application-properties: {my-application-property: {value: my-application-property-value}}
MQTT/5.0:
  protocol: MQTT/5.0
  protocoloptions:
    qos: 1
    retain: false
    topic_name: mytopic
    user_properties: [{name: My Application Property, value: Value 1}]
KAFKA: {protocol: Kafka, protocoloptions: {topic: mytopic, key: thisdevice}}
NATS: {protocol: NATS, protocoloptions: {subject: mytopic, reply-to: replytopic}}
""")


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """The default model; what breaks a rule is refused."""
    return serve(store, model="default", domain_rules="reject")


def written(client: Client, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A message as it is read back, which says all that was written."""
    answer = client.put(f"{G}/messages/{name}", body)
    assert answer.status_code == 201, answer.text
    message: dict[str, Any] = client.get(f"{G}/messages/{name}").json()
    assert lacking(message, body) == []
    return message


def lacking(actual: Any, expected: Any, path: str = "") -> list[str]:
    """Return the paths where ``actual`` lacks something of ``expected`` or differs from it; additional defaults of
    the model are allowed.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [missing for name in expected for missing in lacking(actual.get(name), expected[name], f"{path}.{name}")]
    if isinstance(expected, list) and isinstance(actual, list) and len(actual) == len(expected):
        return [missing for n in range(len(expected)) for missing in lacking(actual[n], expected[n], f"{path}[{n}]")]
    return [] if (type(actual), actual) == (type(expected), expected) else [path]


def contract(client: Client) -> Contract:
    """Return the contract that a pipeline builds from all definitions in the registry."""
    snapshot = Snapshot.of_documents([("registry", client.get("/export").json())]).check(Policy())
    return Snapshot.from_json(snapshot.to_json()).compile(Policy())


def sent(contract_: Contract, name: str, data: Any, metadata: Mapping[str, str], **context: str) -> Message:
    """A message of a definition, for its protocol, which is received as one of it."""
    message = bind(build(contract_.definitions[f"{G}/messages/{name}"], context, data, metadata))
    (outcome,) = contract_.process(message)
    assert isinstance(outcome, Accepted), outcome
    assert (outcome.definition.xid, outcome.context) == (f"{G}/messages/{name}", context)
    return message


@pytest.mark.parametrize("name", EXAMPLES)
def test_printed_examples_are_stored(client: Client, name: str) -> None:
    """The examples are stored as printed, without an error (F-24, F-35, F-40)."""
    assert written(client, "m", EXAMPLES[name])["xid"] == f"{G}/messages/m"
    assert len(contract(client).definitions) == 1


def test_printed_examples_are_used(client: Client) -> None:
    """Each example makes a message that is received as an instance of it and of no other (F-24, F-28, K-26, K-52)."""
    for name, body in EXAMPLES.items():
        without = {key: value for key, value in body.items() if key != "dataschemauri"}
        written(client, name.partition("/")[0].lower(), without)
    compiled = contract(client)
    event = {"envelopemetadata.subject": "../a?b", "envelopemetadata.time": "2026-01-02T03:04:05Z"}
    message = sent(compiled, "cloudevents", {"n": 1}, event, tenant="t", module="m")
    assert json.loads(message.body or b"")["source"] == "https://t/m/myevent"
    request = sent(compiled, "http", {"n": 1}, {}, bar="7").sections
    assert (request["method"], request["path"], request["query"]) == ("POST", "/foo/7", (("foo", "bar"),))
    amqp = sent(compiled, "amqp", {"n": 1}, {"protocoloptions.properties.message-id": "1"}, host="h", queue="q")
    assert (amqp.content_encoding, gzip.decompress(amqp.body or b"")) == ("gzip", b'{"n":1}')
    assert amqp.sections["application-properties"] == {"my-application-property": "my-application-property-value"}
    mqtt = sent(compiled, "mqtt", {"n": 1}, {}).sections
    assert (mqtt["topic_name"], mqtt["user_properties"]) == ("mytopic", (("My Application Property", "Value 1"),))
    assert sent(compiled, "kafka", {"n": 1}, {}).sections["key"] == b"thisdevice"
    assert sent(compiled, "nats", {"n": 1}, {}).sections["reply-to"] == "replytopic"


@pytest.mark.parametrize("query", [{"foo": "bar"}, [{"name": "foo", "value": "bar"}]], ids=["map", "list"])
def test_query_parameters_of_both_forms(client: Client, query: Any) -> None:
    """F.7: "a map of string keys to string values" in the text, an array in its example."""
    written(client, "m", {"protocol": "HTTP", "protocoloptions": {"query": query, "path": "/a"}})
    compiled = contract(client)
    assert sent(compiled, "m", b"", {}).sections["query"] == (("foo", "bar"),)
    (other,) = compiled.process(Message(protocol="HTTP", sections={"method": "POST", "path": "/a", "headers": ()}))
    assert isinstance(other, Accepted)  # a parameter is not required unless it says so
    wrong = Message(protocol="HTTP", sections={"path": "/a", "query": (("foo", "x"),), "headers": ()})
    (refusal,) = compiled.process(wrong)
    assert isinstance(refusal, Rejected)


def test_values_of_every_type(client: Client) -> None:
    """Native values are stored unchanged, and messages have them with their types (F-24, F-41)."""
    written(client, "m", {**EVENT, "envelopemetadata": {**EVENT["envelopemetadata"], **EVERY_TYPE}})
    compiled = contract(client)
    message = sent(compiled, "m", {"n": 1}, {"envelopemetadata.source": "/s"}, a="1")
    event = json.loads(message.body or b"")
    assert (event["integer"], event["boolean"], event["string"]) == (5, True, "1 b")

    def accepted(**members: Any) -> bool:
        changed = Message(content_type="application/cloudevents+json", body=json.dumps(event | members).encode())
        return isinstance(compiled.process(changed)[0], Accepted)

    assert accepted(integer="5", boolean="true", anynumber=5, anything=7)
    assert accepted(anynumber="5")
    wrong = {"integer": 6, "boolean": False, "anynumber": 6, "anytext": "six", "urireference": " "}
    assert [name for name, value in wrong.items() if accepted(**{name: value})] == []


def test_native_values_in_amqp(client: Client) -> None:
    """The rule also applies to numeric and boolean properties (F-41)."""
    section = {name: EVERY_TYPE[name] for name in ("boolean", "integer", "number", "urireference")}
    options = {"properties": {"group-sequence": {"value": 5}}, "application-properties": section}
    written(client, "m", {"protocol": "AMQP/1.0", "protocoloptions": options})
    sections = sent(contract(client), "m", b"", {}).sections
    assert sections["properties"]["group-sequence"] == 5
    assert sections["application-properties"] == {
        "boolean": True, "integer": 5, "number": 2.5, "urireference": "../a?b#c"}  # fmt: skip


def test_impossible_attribute_values_are_rejected(client: Client) -> None:
    """The value "MUST be a valid value for the property"; the finding names it (F-23, F-41)."""
    metadata = {"type": {"value": "t"}, "x": {"type": "any", "value": {"a": 1}}, "y": {"type": "integer", "value": "a"}}
    answer = client.put(f"{G}/messages/m", {**EVENT, "envelopemetadata": metadata})
    assert (answer.status_code, "envelopemetadata.x.value" in answer.text) == (400, True)


def test_attributes_one_level_down(client: Client) -> None:
    """The object "contains a property attributes, which is an object"; both forms are equivalent (F-36, F-38)."""
    written(client, "m", {**EVENT, "envelopemetadata": {"attributes": EVENT["envelopemetadata"]}})
    message = sent(contract(client), "m", {"n": 1}, {"envelopemetadata.source": "/s"})
    assert json.loads(message.body or b"")["type"] == "t"


def test_unknown_envelopes_and_protocols_are_accepted(client: Client) -> None:
    """Applications may define their own ones with any content (F-5, F-6, F-44)."""
    body = {"envelope": "SOAP/1.2", "envelopemetadata": {"Header": {"wsa:To": "x"}}, "envelopeoptions": {"a-b": [1]},
            "protocol": "COAP/1.0", "protocoloptions": {"uri-path": "/a", "observe": 0}}  # fmt: skip
    written(client, "m", body)
    # a known one keeps its rules
    assert client.put(f"{G}/messages/n", {"protocol": "HTTP", "protocoloptions": {"verb": "GET"}}).status_code == 400


def test_extensions(client: Client) -> None:
    """The rule is "Server-unknown extension attributes MUST be silently stored"; a check finds misspelt ones (F-45)."""
    body = {**EVENT, "team": {"name": "a", "size": 3}, "metadata": {"owner": "x"}, "schema": "none", "rank": 1}
    written(client, "m", body)
    sent(contract(client), "m", {"n": 1}, {"envelopemetadata.source": "/s"})
    answer = client.put(f"/check{G}/messages/n", {**EVENT, "datashema": {}}).json()
    findings = [(finding["path"], finding["severity"]) for finding in answer["findings"]]
    assert (answer["accepted"], findings) == (True, [(f"{G}/messages/n/versions/1#datashema", "warning")])


def test_borrowed_and_derived_messages(client: Client) -> None:
    """The printed xids are accepted as basemessage, and the older reference under uri (F-15, F-58)."""
    client.put("/messagegroups/group1/messages/msg1/versions/v1.0", EVENT)
    for name, body in {
        "resource": {"basemessage": "/messagegroups/group1/messages/msg1"},
        "version": {"basemessage": "/messagegroups/group1/messages/msg1/versions/v1.0"},
        "borrowed": {"uri": "#/messagegroups/group1/messages/msg1"},
    }.items():
        written(client, name, {**body, "envelope": "CloudEvents/1.0"})
        metadata = contract(client).definitions[f"{G}/messages/{name}"].definition["envelopemetadata"]
        assert metadata["type"]["value"] == "t"


def test_the_specifications_own_models_stay_strict(store: Store, serve: Serve) -> None:
    """The option ``--model spec`` selects the unchanged model of rc4 (F-40, F-41, F-45)."""
    client = serve(store, model="spec", domain_rules="warn")
    for body in (
        {"team": "a"},
        {**EVENT, "envelopemetadata": {"subject": {"type": "urireference"}}},
        {**EVENT, "envelopemetadata": {"x": {"value": 5}}},
        {"protocol": "HTTP", "protocoloptions": {"query": {"a": "b"}}},
        {"protocol": "COAP", "protocoloptions": {}},
    ):
        assert client.put(f"{G}/messages/m", body).status_code == 400
