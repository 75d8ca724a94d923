import gzip
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs
from tests.messages.builders import make_contract, make_event

from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import Accepted, Contract, Dropped, Message, Outcome, Passed, Rejected
from signalbook.messages.bindings.http import request
from signalbook.messages.bindings.kafka import record
from signalbook.messages.bindings.mqtt import publish
from signalbook.messages.matching.contract import Deferred
from signalbook.values import Finding, JSONObject, dump_json

G = "/messagegroups/g/messages/"
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
BODY = b'{"specversion":"1.0","type":"t","id":"1","source":"/s","data":{}}'
EVENT = Message(content_type="application/cloudevents+json", body=BODY)
SENT_BY_MQTT = publish("MQTT/5.0", EVENT.body or b"", {"topic_name": "s/7", "content_type": EVENT.content_type})


def event(**metadata: Any) -> JSONObject:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}


def typed(name: str, **metadata: Any) -> JSONObject:
    return event(type={"value": name}, **metadata)


def http(*headers: tuple[str, str], **options: Any) -> JSONObject:
    items = [{"name": name, "value": value, "required": True} for name, value in headers]
    return {"protocol": "HTTP", "protocoloptions": {"headers": items, **options}}


def schema(document: Any) -> JSONObject:
    return {"dataschema": document, "dataschemaformat": "JsonSchema/draft-07"}


def post(*headers: tuple[str, str], body: bytes | None = b"{}", path: str = "/hooks") -> Message:
    return request("POST", path, [("Content-Type", "application/json"), *headers], body)


def one(contract: Contract, message: Message) -> Outcome:
    (outcome,) = contract.process(message)
    return outcome


def word(outcome: Outcome) -> str:
    """The message's id where accepted, else the reason."""
    if isinstance(outcome, Accepted):
        return outcome.definition.message_id
    return outcome.reason.value if isinstance(outcome, Rejected) else type(outcome).__name__


def rules(outcome: Outcome) -> set[tuple[str, str]]:
    assert isinstance(outcome, Rejected)
    return {(finding.path, finding.rule) for finding in outcome.violations}


def test_a_conforming_event() -> None:
    """K-9, K-26, K-34, K-47"""
    contract = make_contract({"m": {**typed("t", source={"type": "uritemplate", "value": "/d/{d}"}), **schema(SCHEMA)}})
    outcome = one(contract, make_event(source="/d/7%20a", data={"n": 1}))
    assert isinstance(outcome, Accepted)
    assert (outcome.definition.xid, outcome.context, outcome.data) == (G + "m", {"d": "7 a"}, {"n": 1})
    assert outcome.event is not None
    assert outcome.payload() == b'{"n":1}'


@pytest.mark.parametrize(
    ("members", "expected", "expected_rules"),
    [
        ({"source": "/x/7"}, "metadata_violation", {("source", "uritemplate")}),
        ({"source": "/d/7", "n": "x"}, "metadata_violation", {("n", "type")}),
        ({"source": "/d/7"}, "metadata_violation", {("n", "required")}),
        ({"source": "/x/7"}, "metadata_violation", {("source", "uritemplate"), ("n", "required")}),
        ({"source": "/d/7", "n": 1, "subject": "8"}, "placeholder_conflict", {("subject", "placeholder_conflict")}),
        ({"type": "other"}, "unknown_kind", {("type", "unknown_kind")}),
        ({"id": None}, "invalid_cloudevent", {("id", "required")}),
        ({"source": "/d/7", "n": 1, "data": {"n": "x"}}, "schema_violation", {("/n", "type")}),
        ({"source": "/d/7", "n": 1}, "schema_violation", {("", "required")}),
        ({"source": "/d/7", "n": 1, "data_base64": "e30"}, "invalid_cloudevent", {("data_base64", "base64")}),
        ({"source": "/d/7", "n": 1, "data_base64": "ew=="}, "decode_error", {("", "json")}),
        ({"source": "/d/7", "n": 1, "data": "x", "datacontenttype": "text/plain"}, "metadata_violation",
         {("datacontenttype", "content_type")}),
    ],
)  # fmt: skip
def test_reasons(members: JSONObject, expected: str, expected_rules: set[tuple[str, str]]) -> None:
    """The reasons include a missing definition (K-2) and other rejections (K-9, K-26, K-27, K-28, K-38, K-41, K-44)."""
    source, subject = {"type": "uritemplate", "value": "/d/{d}"}, {"type": "uritemplate", "value": "{d}"}
    declared = typed("t", source=source, subject=subject, n={"type": "integer", "required": True})
    outcome = one(make_contract({"m": {**declared, **schema(SCHEMA)}}), make_event(**members))
    assert word(outcome) == expected
    assert expected_rules <= rules(outcome)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message(content_type="application/cloudevents+json", body=b'{"specversion'), "decode_error"),
        (Message(content_type="application/cloudevents+json", body=None), "decode_error"),
        (Message(content_type="application/cloudevents+json", body=b"[]"), "invalid_cloudevent"),
        (Message(content_type="application/cloudevents+xml", body=b"x"), "unsupported_format"),
        (Message(content_type="application/json", body=b"{}"), "not_cloudevent"),
        (Message(protocol="SMTP", body=b"{}"), "unsupported_format"),
        (Message(content_encoding="gzip", body=b"{}"), "decode_error"),
        (post(), "not_cloudevent"),
        (post(("ce-id", "1"), ("ce-source", "/"), ("ce-type", "t"), ("ce-specversion", "0.3")), "invalid_cloudevent"),
        (post(("ce-id", "%C0"), ("ce-source", "/"), ("ce-type", "t"), ("ce-specversion", "1")), "invalid_cloudevent"),
        (post(("ce-id", "1"), ("ce-source", "/"), ("ce-type", "t")), "not_cloudevent"),
    ],
)
def test_non_events_are_rejected(message: Message, expected: str) -> None:
    """K-21, K-22, K-24, K-44"""
    outcome = one(make_contract({"m": typed("t")}), message)
    assert word(outcome) == expected
    assert (("", "content_mode") in rules(outcome)) == (expected == "not_cloudevent")
    assert outcome.message is message  # K-45: untouched


@pytest.mark.parametrize("packed", [False, True])
def test_an_event_in_binary_mode(packed: bool) -> None:
    """K-21, K-40"""
    encoding = [("Content-Encoding", "gzip")] if packed else []
    body = gzip.compress(b'{"n": 1}') if packed else b'{"n": 1}'
    outcome = one(make_contract({"m": {**typed("t"), **schema(SCHEMA)}}), post(*CE, *encoding, body=body))
    assert isinstance(outcome, Accepted)
    assert outcome.data == {"n": 1}
    assert outcome.message.body == body


def test_the_payload_of_an_encoded_message_without_an_envelope() -> None:
    """It is what the encoding hides: rows of tables are made of it."""
    packed = post(("Content-Encoding", "gzip"), ("X", "1"), body=gzip.compress(b'{"n": 1}'))
    outcome = one(make_contract({"m": {**http(("X", "1")), **schema(SCHEMA)}}), packed)
    assert isinstance(outcome, Accepted)
    assert (outcome.payload(), outcome.message.body) == (b'{"n": 1}', packed.body)


PROTO_A = 'syntax = "proto3"; message A { int64 whole_number = 1; string text = 2; }'
PROTO = {"dataschemaformat": "Protobuf/3", "dataschema": PROTO_A}
CE = [("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t"), ("ce-specversion", "1.0")]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/protobuf", b"\x08\x07"),
        ("application/json", b'{"wholeNumber": "7"}'),
        ("application/vnd.a+json; charset=utf-8", b'{"whole_number": 7}'),
    ],
)
def test_protobuf_by_content_type(content_type: str, body: bytes) -> None:
    """The content type alone selects binary or ProtoJSON, in requests, JSON events and bare messages."""
    request_of = request("POST", "/", [("Content-Type", content_type), *CE], body)
    outcomes = [one(make_contract({"m": {**typed("t"), **PROTO}}), request_of)]
    outcomes.append(one(make_contract({"m": {"protocol": "HTTP", **PROTO}}), request("POST", "/", [HTTP_JSON], JSON)))
    for members in ({"data": {"wholeNumber": "7"}}, {"datacontenttype": content_type, "data_base64": b64(body)}):
        outcomes.append(one(make_contract({"m": {**typed("t"), **PROTO}}), make_event(**members)))
    assert [getattr(outcome, "data", outcome) for outcome in outcomes] == [{"whole_number": 7, "text": ""}] * 4


HTTP_JSON = ("Content-Type", "application/json")
JSON = b'{"wholeNumber": "7"}'


def b64(body: bytes) -> str:
    return b64encode(body).decode()


@pytest.mark.parametrize(
    "data", [{"@type": "x"}, {"more": 1}, {"wholeNumber": "x"}, {"wholeNumber": 1.5}, {"text": 1}, {"text": [""]}]
)
def test_invalid_protojson_is_a_violation(data: JSONObject) -> None:
    """Unknown members and values of another type are rejected, as by the library."""
    assert word(one(make_contract({"m": {**typed("t"), **PROTO}}), make_event(data=data))) == "schema_violation"


def test_unknown_fields_by_policy() -> None:
    """Dropped where the policy says so, as in binary; values of other types are violations all the same."""
    contract = make_contract({"m": {**typed("t"), **PROTO}}, unknown_fields="drop")
    outcome = one(contract, make_event(data={"@type": "x", "wholeNumber": 7, "more": {}}))
    assert getattr(outcome, "data", outcome) == {"whole_number": 7, "text": ""}
    assert word(one(contract, make_event(data={"wholeNumber": "x"}))) == "schema_violation"


def test_a_batch_has_an_outcome_for_each_event() -> None:
    """K-21, K-22, K-47"""
    sound, other = ({"specversion": "1.0", "id": "1", "source": "/", "type": name} for name in ("t", "u"))
    message = Message(content_type="application/cloudevents-batch+json", body=dump_json([sound, other, 5]))
    contract = make_contract({"m": typed("t")})
    outcomes = contract.process(message)
    assert [word(outcome) for outcome in outcomes] == ["m", "unknown_kind", "invalid_cloudevent"]
    assert [outcome.message.body for outcome in outcomes] == [dump_json(sound), dump_json(other), b"5"]
    assert contract.rejection(message) is None
    empty = Message(content_type="application/cloudevents-batch+json", body=b"[]")
    assert contract.rejection(empty) is None
    assert contract.process(empty) == ()


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [("json", b"{}", "decode_error"), ("json", b"", "decode_error"), ("avro", b"[]", "unsupported_format")],
)
def test_invalid_batch_is_rejected(content_type: str, body: bytes, expected: str) -> None:
    """K-21, K-22"""
    message = Message(content_type=f"application/cloudevents-batch+{content_type}", body=body)
    assert word(one(make_contract({"m": typed("t")}), message)) == expected


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with two bytes per "event" would otherwise need hundreds of bytes of memory for each (K-47)."""
    monkeypatch.setattr("signalbook.messages.matching.contract.MAX_BATCH", 3)
    contract = make_contract({"m": typed("t")})
    for count, expected in ((3, ["invalid_cloudevent"] * 3), (4, ["decode_error"])):
        message = Message(content_type="application/cloudevents-batch+json", body=dump_json([0] * count))
        assert [word(outcome) for outcome in contract.process(message)] == expected


@pytest.mark.parametrize(
    ("definition", "message", "expected"),
    [
        pytest.param(typed("t"), post(*CE), "m", id="F-46-envelope-only"),
        pytest.param({**typed("t"), **http(("X", "1"))}, post(*CE, ("x", "1")), "m", id="F-46-both"),
        pytest.param({**typed("t"), **http(("X", "1"))}, post(*CE, ("x", "2")), "metadata_violation", id="K-28-type"),
        pytest.param({**typed("t"), **http(("X", "1"))}, post(*CE), "metadata_violation", id="K-26.4-missing"),
        pytest.param(http(("X", "1")), post(*CE, ("x", "1")), "m", id="F-46-protocol-only"),
        pytest.param(http(("X", "1")), post(("x", "2"), ("x", "1")), "m", id="K-26.4-any-occurrence"),
        pytest.param(http(("X", "1")), post(("x", "2")), "no_match", id="K-28-discriminator"),
        pytest.param(http(("X", "1"), ("Y", "{y}")), post(("x", "1")), "metadata_violation", id="K-28-near-miss"),
        pytest.param(http(path="/hooks"), post(), "m", id="path"),
        pytest.param(http(path="/h/{x}"), post(path="/h/1?q=2"), "m", id="path-template"),
        pytest.param(http(path="/h/{x}"), post(path="/i/1"), "no_match", id="path-template-other"),
        pytest.param(http(query={"q": "1"}), post(path="/?q=2&q=1"), "m", id="K-26.4-query"),
        pytest.param(http(query={"q": "1"}), post(path="/?q=2"), "no_match", id="query-other"),
        pytest.param(http(method="post"), post(), "m", id="method"),
        pytest.param(http(method="PUT"), post(), "no_match", id="method-other"),
        pytest.param({**http(("X", "1")), "protocol": "http/1.1"}, post(("X", "1")), "m", id="K-11"),
        pytest.param({**typed("t"), "protocol": "KAFKA"}, post(*CE), "no_match", id="K-26.1-gate"),
        pytest.param({**http(("Content-Type", "application/json")), **schema({})},
                     post(("X", "1")), "m", id="K-26.5-content-type"),
        pytest.param({**http(("X", "1")), "datacontenttype": "application/xml"},
                     post(("x", "1")), "metadata_violation", id="K-26.6"),
    ],
)  # fmt: skip
def test_http(definition: JSONObject, message: Message, expected: str) -> None:
    """K-26, K-28, F-46"""
    assert word(one(make_contract({"m": definition}), message)) == expected


@pytest.mark.parametrize(
    ("more", "attribute", "expected"),
    [
        ({"dataschemaformat": "JsonSchema/x"}, "application/vnd.x+json", "m"),  # F-32, F-33: implied
        ({"dataschemaformat": "JsonSchema/x"}, "application/xml", "metadata_violation"),
        ({"dataschemaformat": "JsonSchema/x"}, None, "m"),  # K-26.6: absent is no mismatch
        ({"datacontenttype": "application/json"}, "APPLICATION/json; charset=utf-8", "m"),
        ({"datacontenttype": "application/json"}, "text/json", "metadata_violation"),
        ({"datacontenttype": "application/cloudevents+json"}, "text/plain", "m"),  # F-14: that of the envelope
        ({"datacontenttype": "application/cloudevents+avro"}, "text/plain", "metadata_violation"),
        ({"envelopeoptions": {"mode": "structured", "format": "application/cloudevents+json"}}, None, "m"),  # K-26.7
        ({"envelopeoptions": {"mode": "binary"}}, None, "metadata_violation"),
        ({"envelopeoptions": {"format": "application/cloudevents+avro"}}, None, "metadata_violation"),
    ],
)
def test_content_types_and_modes(more: JSONObject, attribute: str | None, expected: str) -> None:
    """K-26.6, K-26.7, F-14, F-32 to F-34"""
    outcome = one(make_contract({"m": {**typed("t"), **more}}), make_event(datacontenttype=attribute))
    assert word(outcome) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"online": True}, "birth"),
        ({"online": False}, "death"),
        ({"online": 5}, "schema_violation"),
        ({}, "schema_violation"),
        ([], "schema_violation"),
    ],
)
def test_the_payload_decides_among_definitions(data: Any, expected: str) -> None:
    """The example is like STATE.Birth and STATE.Death of Sparkplug (K-2, K-30)."""

    def state(online: bool) -> JSONObject:
        document = {"type": "object", "required": ["online"], "properties": {"online": {"const": online}}}
        return {**http(path="/STATE/{host}"), **schema(document)}

    contract = make_contract({"birth": state(True), "death": state(False)})
    outcome = one(contract, post(path="/STATE/h", body=dump_json(data)))
    assert word(outcome) == expected
    if isinstance(outcome, Rejected):
        assert set(outcome.candidates) == {G + "birth", G + "death"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"at":[{"kind":"b"}],"kind":"a"}', "a"),
        (b'{"kind":"a","kind":"b","\xff":1e999}', "b"),
        (b'{"\\u006bind":"b"}', "b"),
        (b'{"kind":"c"}', None),
        (b'{"kind":["a"]}', None),
        (b'["a"]', None),
        (b"", None),
        (b'{"kind":', None),
    ],
)
def test_constants_in_the_payload_select_a_definition(body: bytes, expected: str | None) -> None:
    """The validity of the rest of the payload is checked elsewhere (K-30)."""

    def of(kind: str) -> JSONObject:
        return {"type": "object", "required": ["kind"], "properties": {"kind": {"const": kind}, "n": {"type": "null"}}}

    contract = make_contract({name: {**http(path="/kinds/{host}"), **schema(of(name))} for name in "ab"})
    outcome = contract.presumed(post(path="/kinds/h", body=body))
    assert outcome is None if expected is None else outcome is not None and outcome.definition.xid == G + expected
    assert outcome is None or (outcome.context, outcome.payload()) == ({"host": "h"}, body)


def test_definition_is_not_presumed_if_more_than_the_payload_decides() -> None:
    bare, whole = http(path="/bare"), {**http(path="/typed"), **schema({"type": "object"})}
    removed = {**whole, **http(path="/removed"), "deprecated": {"removal": "2020-01-01T00:00:00Z"}}
    contract = make_contract({"bare": bare, "typed": whole, "removed": removed, "either": {**whole}})
    for path in ("/bare", "/typed", "/removed", "/none"):
        assert contract.presumed(post(path=path, body=b"{}")) is None
    alone = make_contract({"typed": whole})
    assert alone.presumed(post(path="/typed", body=b"{}")) is not None
    assert alone.presumed(post(("Content-Encoding", "gzip"), path="/typed", body=b"{}")) is None
    assert alone.presumed(post(path="/typed", body=None)) is None


def test_other_schemas_are_tried_only_for_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[Any] = []
    validate = JsonSchema.validate

    def counted(self: JsonSchema, value: Any) -> list[Finding]:
        validated.append(value)
        return validate(self, value)

    monkeypatch.setattr(JsonSchema, "validate", counted)
    sizes = {name: {"type": "object", "minProperties": size, "maxProperties": size} for size, name in enumerate("abc")}
    contract = make_contract({name: {**http(("X", "1")), **schema(value_size)} for name, value_size in sizes.items()})
    assert word(one(contract, post(("X", "1"), body=b'{"n":1}'))) == "b"
    assert len(validated) == 1
    assert word(one(contract, post(("X", "1"), body=b'{"n":1,"m":2,"o":3}'))) == "schema_violation"
    assert len(validated) == 4


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, ["ambiguous"]),
        ({"on_ambiguous": "all"}, ["loose", "tight"]),
        ({"on_ambiguous": "best"}, ["tight"]),
        ({"prefer_specific": True}, ["tight"]),
    ],
)
def test_several_definitions_fit(policy: Any, expected: list[str]) -> None:
    """K-2, K-29, K-30, K-46"""
    definitions = {"loose": typed("t"), "tight": typed("t", subject={"value": "s", "required": True})}
    outcomes = make_contract(definitions, **policy).process(make_event(subject="s"))
    assert [word(outcome) for outcome in outcomes] == expected


@pytest.mark.parametrize(
    ("message", "policy", "expected"),
    [
        (EVENT, {}, ["base"]),
        (EVENT, {"on_ambiguous": "best"}, ["base"]),
        (EVENT, {"on_ambiguous": "all"}, ["base"]),
        (EVENT, {"prefer_specific": True}, ["base"]),
        (EVENT, {"strict_delivery": True}, ["base"]),
        (SENT_BY_MQTT, {}, ["mqtt"]),
        (SENT_BY_MQTT, {"prefer_specific": True}, ["mqtt"]),
        (structs.replace(SENT_BY_MQTT, sections={**SENT_BY_MQTT.sections, "topic_name": "other"}), {}, ["base"]),
        (record("s", EVENT.body, headers=[("content-type", EVENT.content_type.encode())]), {}, ["base"]),
        (structs.replace(EVENT, body=b'{"specversion":"1.0","type":"t","id":"1","source":"/s","data":1}'), {},
         ["schema_violation"]),
        (structs.replace(EVENT, body=b'{"specversion":"1.0","type":"t","id":"1","source":"/"}'), {},
         ["metadata_violation"]),
    ],
)  # fmt: skip
def test_protocol_variants(message: Message, policy: Any, expected: list[str]) -> None:
    """An event from a file has no protocol, and therefore matches the base (K-26.1, K-29)."""
    base = "/messagegroups/g/messages/base"
    mqtt = {"topic_name": "s/{id}", "qos": 0}
    amqp = {"application-properties": {"k": {"value": "{id}", "type": "uritemplate", "required": True}}}
    definitions = {
        "base": {**typed("t", source={"value": "/s"}), **schema({"type": "object"})},
        "mqtt": {"basemessageuri": base, "protocol": "MQTT/5.0", "protocoloptions": mqtt},
        "amqp": {"basemessageuri": base, "protocol": "AMQP/1.0", "protocoloptions": amqp},
    }
    outcomes = make_contract(definitions, **policy).process(message)
    assert [word(outcome) for outcome in outcomes] == expected
    assert all(outcome.candidates == (base,) for outcome in outcomes if isinstance(outcome, Rejected))


def test_only_options_that_were_compared_count() -> None:
    """Only the options of a compared definition count for its score (K-29)."""
    definitions = {"more": {**typed("t"), **http(("X", "1"))}, "less": {**typed("t"), "protocol": "KAFKA"}}
    contract = make_contract(definitions, on_ambiguous="best")
    outcome = one(contract, make_event())
    assert isinstance(outcome, Rejected)
    (violation,) = outcome.violations
    assert (word(outcome), violation.message.partition(". ")[2]) == (
        "ambiguous",
        "Choose message groups, set the policy on_ambiguous to all, or make types, constants or schemas of the "
        "definitions differ",
    )


def test_equal_scores_are_ambiguous() -> None:
    """Equal scores leave a message ambiguous (K-29)."""
    outcome = one(make_contract({"a": typed("t"), "b": typed("t")}, on_ambiguous="best"), make_event())
    assert isinstance(outcome, Rejected)
    assert (word(outcome), outcome.candidates) == ("ambiguous", (G + "a", G + "b"))


@pytest.mark.parametrize(("policy", "kind"), [("dead_letter", Rejected), ("pass", Passed), ("drop", Dropped)])
def test_unknown_messages_follow_the_policy(policy: str, kind: type) -> None:
    """The policy on_no_match decides (K-46)."""
    contract = make_contract({"m": typed("other")}, on_no_match=policy)
    outcome = one(contract, make_event())
    assert type(outcome) is kind
    assert contract.decides_unknown_types("")
    assert contract.of_unknown_type("t", "") == structs.replace(outcome, message=Message())
    native = one(contract, record("t", b"1"))
    assert contract.of_no_event("KAFKA") == structs.replace(native, message=Message(protocol="KAFKA"))


@pytest.mark.parametrize("names", ["a", "ab"])
def test_definitions_of_other_topics_leave_events_alone(names: str) -> None:
    """Unless they are filed by something else, such as a header that tells those of one topic apart."""
    headers = {name: {"kind": {"value": name, "required": True}} for name in names}
    natives = {
        name: {"protocol": "KAFKA", "protocoloptions": {"topic": "orders", "headers": headers[name]}} for name in names
    }
    contract = make_contract({"m": typed("other"), **natives})
    required = {"specversion": b"1.0", "id": b"1", "source": b"s", "type": b"t"}
    found = one(contract, record("elsewhere", b"1", [(f"ce_{name}", value) for name, value in required.items()]))
    assert contract.decides_unknown_types("KAFKA", "topic") is (names == "a")
    if names == "a":
        assert contract.of_unknown_type("t", "KAFKA") == structs.replace(found, message=Message(protocol="KAFKA"))
    assert not contract.decides_unknown_types("KAFKA")


@pytest.mark.parametrize("other", [event(), schema({"enum": [1]}), http(("X", "1"))])
def test_outcome_is_unknown_if_more_than_the_type_decides(other: JSONObject) -> None:
    contract = make_contract({"m": typed("other"), "o": other})
    assert not contract.decides_unknown_types("HTTP")
    assert not make_contract({"o": other}).decides_unknown_types("HTTP")
    assert contract.of_no_event("HTTP") is None or other == event()


def test_native_mapping_prevents_the_outcome_of_non_events() -> None:
    mapped = make_contract({"m": {**event(), "protocol": "KAFKA"}}, native_mapping=True)
    assert mapped.of_no_event("KAFKA") is None
    assert mapped.of_no_event("HTTP") is not None


ONE_HEADER = http(("X", "1"))
TWO_ENUMS = {name: {**ONE_HEADER, **schema({"enum": [name]})} for name in "ab"}
RECORDS = {"m": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}, **schema({"type": "object"})}}
PAYLOADS = {"p": schema({"enum": [1]}), "q": schema({"enum": [2]}), "h": ONE_HEADER}
UNTYPED = {"t": event(), "u": event()}
S = "/schemagroups/g/schemas/s"


def of_dataschema(uri: str) -> dict[str, JSONObject]:
    return {"m": typed("t", dataschema={"type": "uritemplate", "value": uri})}


# by the rule: definitions, policy, message, outcome
OUTCOMES: dict[str, tuple[dict[str, JSONObject], dict[str, Any], Message, str]] = {
    "nothing defined": ({}, {}, make_event(), "no_match"),
    "a declared content type excludes others": (
        {"m": {**typed("t", datacontenttype={"value": "application/protobuf"}), **PROTO}},
        {},
        make_event(datacontenttype="application/json", data={}),
        "metadata_violation",
    ),
    "K-26.1 files have no protocol": ({"m": {**typed("t"), **ONE_HEADER}}, {}, make_event(), "m"),
    "K-27 but strict delivery": (
        {"m": {**typed("t"), **ONE_HEADER}},
        {"strict_delivery": True},
        make_event(),
        "no_match",
    ),
    "K-30 broken JSON is no schema violation": (TWO_ENUMS, {}, post(("X", "1"), body=b"{"), "decode_error"),
    "K-46 tombstone dropped": (RECORDS, {"on_tombstone": "drop"}, record("t", None, key=b"k"), "Dropped"),
    "K-46 tombstone": (RECORDS, {"on_tombstone": "dead_letter"}, record("t", None, key=b"k"), "schema_violation"),
    "K-46 no key": (RECORDS, {"on_tombstone": "drop"}, record("t", None), "schema_violation"),
    "K-46 an empty value": (RECORDS, {"on_tombstone": "drop"}, record("t", b"", key=b"k"), "decode_error"),
    "K-46 a value": (RECORDS, {"on_tombstone": "drop"}, record("t", b"{}", key=b"k"), "m"),
    "K-46 another topic": (RECORDS, {"on_tombstone": "drop"}, record("other", None, key=b"k"), "no_match"),
    "K-28 a near miss is not dropped": (
        {"m": typed("t", subject={"required": True})},
        {"on_no_match": "drop"},
        make_event(),
        "metadata_violation",
    ),
    "K-42 no schema": ({"m": typed("t")}, {}, make_event(data=5), "m"),
    "K-42 a schema is required": ({"m": typed("t")}, {"required_schema": True}, make_event(data=5), "schema_not_found"),
    "K-31 F-49 payloads come last": (PAYLOADS, {}, post(("X", "1"), body=b"1"), "h"),
    "K-31 F-49 a payload": (PAYLOADS, {}, post(body=b"2"), "q"),
    "K-31 F-49 no payload of any": (PAYLOADS, {}, post(body=b"3"), "schema_violation"),
    "F-4 F-55b the type is the id": (UNTYPED, {}, make_event(type="t"), "t"),
    "F-4 K-32 the type is another id": (UNTYPED, {}, make_event(type="u"), "u"),
    "K-32 the type is no id": (UNTYPED, {}, make_event(type="x"), "ambiguous"),
    "K-32 an id is but a hint": ({**UNTYPED, "t": event(subject={"required": True})}, {}, make_event(type="t"), "u"),
    "F-32 L-31 a version": (of_dataschema(S), {}, make_event(dataschema=f"https://r.example{S}/versions/2"), "m"),
    "F-32 L-31 another schema": (
        of_dataschema(S),
        {},
        make_event(dataschema=f"https://r.example{S}2"),
        "metadata_violation",
    ),
    "F-32 a URL": (of_dataschema("https://r.example/s"), {}, make_event(dataschema="https://r.example/s"), "m"),
    "F-32 another URL": (
        of_dataschema("https://r.example/s"),
        {},
        make_event(dataschema="https://r.example/t"),
        "metadata_violation",
    ),
}


@pytest.mark.parametrize(("definitions", "policy", "message", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes(definitions: dict[str, JSONObject], policy: dict[str, Any], message: Message, expected: str) -> None:
    assert word(one(make_contract(definitions, **policy), message)) == expected


def test_violations_may_be_tagged() -> None:
    """The policy tag accepts violations with findings (K-46)."""
    contract = make_contract({"m": {**typed("t"), **schema(SCHEMA)}}, on_schema_violation="tag")
    outcome = one(contract, make_event(data={"n": "x"}))
    assert isinstance(outcome, Accepted)
    assert outcome.data == {"n": "x"}
    assert [finding.path for finding in outcome.warnings] == ["/n"]


@pytest.mark.parametrize(("uri", "expected"), [("/nowhere", "schema_not_found"), ("/broken", "contract_unavailable")])
def test_missing_schemas_have_a_reason(uri: str, expected: str) -> None:
    """K-39, K-44"""
    definition = {**typed("t"), "dataschemauri": uri, "dataschemaformat": "JsonSchema/draft-07"}
    contract = make_contract({"m": definition}, {"/broken": {"type": 5}})
    assert word(one(contract, make_event(data=5))) == expected
    assert set(contract.verify()) == {G + "m"}


def kind(value: Any) -> JSONObject:
    """A definition that only a constant of its payload tells apart from others."""
    return schema({"type": "object", "required": ["kind"], "properties": {"kind": {"const": value}}})


@pytest.mark.parametrize(
    ("body", "values", "expected"),
    [
        (b'{"kind":"a"}', "ab", "m0"),
        (b'{"kind":"c"}', "ab", "unknown_kind"),
        (b'{"kind":3}', (1, 2), "unknown_kind"),
        (b'{"kind":"1"}', (1, 2), "schema_violation"),
        (b'{"kind":true}', (1, 2), "schema_violation"),
        (b"{}", "ab", "schema_violation"),
        (b'{"kind":"c"}', "a", "schema_violation"),
    ],
)
def test_an_unknown_kind_blames_no_definition(body: bytes, values: Any, expected: str) -> None:
    contract = make_contract({f"m{number}": kind(value) for number, value in enumerate(values)})
    outcome = one(contract, Message(content_type="application/json", body=body))
    assert word(outcome) == expected
    if expected == "unknown_kind":
        assert isinstance(outcome, Rejected)
        assert (outcome.candidates, rules(outcome)) == ((), {("/kind", "unknown_kind")})
        assert "no definition has the value" in outcome.violations[0].message


def test_broken_json_is_one_violation() -> None:
    contract = make_contract({"a": kind("a"), "b": kind("b")})
    outcome = one(contract, Message(content_type="application/json", body=b'{"kind":'))
    assert isinstance(outcome, Rejected)
    assert (word(outcome), outcome.candidates) == ("decode_error", (G + "a", G + "b"))
    assert [finding.message for finding in outcome.violations] == ["not JSON: Input data was truncated"]


def of_table(name: str, **more: Any) -> JSONObject:
    """A definition that only a constant inside of an object of its payload tells apart from others."""
    source = {"type": "object", "required": ["table"], "properties": {"table": {"const": name}}}
    properties = {"source": source, "n": {"type": "integer"}, **more}
    return schema({"type": "object", "required": ["source", *more], "properties": properties})


@pytest.mark.parametrize(
    ("body", "expected", "expected_rules"),
    [
        (b'{"source":{"table":"t77"}}', "m77", set()),
        (b'{"source":{"table":"t77"},"n":"x"}', "schema_violation", {("/n", "type")}),
        (b'{"source":{"table":"t100"}}', "unknown_kind", {("/source/table", "unknown_kind")}),
    ],
)
def test_nested_constants_have_an_index(
    body: bytes, expected: str, expected_rules: set[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the schema of the message's own definition checks the payload, however many definitions there are."""
    checked: set[JsonSchema] = set()
    allows = JsonSchema.allows

    def count_allows(self: JsonSchema, value: Any) -> bool:
        checked.add(self)
        return allows(self, value)

    monkeypatch.setattr(JsonSchema, "allows", count_allows)
    contract = make_contract({f"m{number}": of_table(f"t{number}") for number in range(100)})
    message = Message(content_type="application/json", body=body)
    outcome = one(contract, message)
    assert word(outcome) == expected
    assert len(checked) == (expected != "unknown_kind")
    presumed = contract.presumed(message)
    assert (presumed is None) is (expected == "unknown_kind")
    if isinstance(outcome, Rejected):
        assert rules(outcome) == expected_rules
        candidates = {"schema_violation": (G + "m77",), "unknown_kind": ()}
        assert outcome.candidates == candidates[expected]


def test_the_member_that_tells_all_definitions_apart_decides() -> None:
    """Values of another member, which definitions share or restrict further, are violations of one definition."""
    states = {"a": ["new", "open"], "b": ["new", "gone"]}
    contract = make_contract({name: of_table(name, state={"enum": enum}) for name, enum in states.items()})
    body = b'{"source":{"table":"a"},"state":"lost"}'
    outcome = one(contract, Message(content_type="application/json", body=body))
    assert isinstance(outcome, Rejected)
    assert (word(outcome), outcome.candidates) == ("schema_violation", (G + "a",))


def test_few_definitions_are_blamed_for_a_missing_discriminator() -> None:
    contract = make_contract({f"m{number}": of_table(f"t{number}") for number in range(100)})
    outcome = one(contract, Message(content_type="application/json", body=b"{}"))
    assert isinstance(outcome, Rejected)
    assert (word(outcome), len(outcome.candidates)) == ("schema_violation", 20)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"a": kind("a"), "b": kind("b")}, "unknown_kind"),
        ({"http": ONE_HEADER}, "unknown_kind"),
        ({"topic": RECORDS["m"]}, "unknown_kind"),
        ({"untyped": event(source={"value": "/other"})}, "no_match"),
        ({"template": event(type={"type": "uritemplate", "value": "other/{name}"})}, "no_match"),
    ],
)
def test_an_event_of_an_unknown_type_blames_no_definition(others: dict[str, JSONObject], expected: str) -> None:
    contract = make_contract({"t": typed("t"), "s": typed("s"), **others})
    outcome = one(contract, make_event(type="u", data={"kind": "c"}))
    assert isinstance(outcome, Rejected)
    assert (word(outcome), outcome.candidates) == (expected, ())
    if expected == "unknown_kind":
        (finding,) = outcome.violations
        text = 'no definition has the value "u" of "type"; there are definitions for "s", "t"'
        assert (finding.path, finding.rule, finding.message) == ("type", "unknown_kind", text)


def test_a_constant_that_all_share_is_no_kind() -> None:
    def of(name: str) -> JSONObject:
        constants = {"kind": {"const": name}, "version": {"const": "1"}}
        return schema({"type": "object", "required": ["kind", "version"], "properties": constants})

    contract = make_contract({"a": of("a"), "b": of("b")})
    outcome = one(contract, Message(content_type="application/json", body=b'{"kind":"a","version":"2"}'))
    assert isinstance(outcome, Rejected)
    assert (word(outcome), outcome.candidates) == ("schema_violation", (G + "a",))


@pytest.mark.parametrize(("policy", "outcome"), [("pass", Passed), ("drop", Dropped)])
def test_unknown_kinds_follow_the_policy(policy: str, outcome: type) -> None:
    contract = make_contract({"a": kind("a"), "b": kind("b")}, on_no_match=policy)
    assert type(one(contract, Message(content_type="application/json", body=b'{"kind":"c"}'))) is outcome


def test_payloads_of_files_are_presumed_to_conform() -> None:
    contract = make_contract({"a": kind("a"), "b": kind("b")})
    outcome = contract.presumed(Message(content_type="application/json", body=b'{"kind":"b"}'))
    assert outcome is not None
    assert outcome.definition.xid == G + "b"
    assert contract.presumed(Message(content_type="application/json", body=b'{"kind":"c"}')) is None


@pytest.mark.parametrize(
    ("received", "policy", "expected"),
    [(2030, "warn", "m"), (2030, "dead_letter", "metadata_violation"), (2020, "dead_letter", "m")],
)
def test_deprecated_definitions(received: int, policy: str, expected: str) -> None:
    """The policy on_removed decides after the removal date (K-33)."""
    deprecated = {"removal": "2025-01-01T00:00:00Z", "alternative": "/x"}
    contract = make_contract({"m": {**http(("X", "1")), "deprecated": deprecated}}, on_removed=policy)
    message = request("POST", "/", [("X", "1")], b"", received_at=datetime(received, 1, 1, tzinfo=UTC))
    outcome = one(contract, message)
    assert word(outcome) == expected
    if isinstance(outcome, Accepted):
        assert outcome.warnings[0].rule == "deprecated"


def test_the_writers_schema_decodes_the_payload() -> None:
    """The payload is decoded with the version that wrote it (K-39)."""
    uri = "/schemagroups/g/schemas/s"
    definition = {**typed("t"), "dataschemauri": uri, "dataschemaformat": "JsonSchema/draft-07"}
    schemas = {uri: {"type": "string"}, f"{uri}/versions/1": {"type": "null"}}
    contract = make_contract({"m": definition}, schemas)
    written = {"dataschema": f"https://r.example{uri}/versions/1", "data": "x"}
    assert word(one(contract, make_event(data="x"))) == "m"
    assert word(one(contract, make_event(**written))) == "schema_violation"
    missing = {**written, "dataschema": f"https://r.example{uri}/versions/9"}
    assert word(one(contract, make_event(**missing))) == "schema_not_found"


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        (typed("t", source={"type": "uritemplate", "value": "{a-b}"}), "envelopemetadata.source"),
        (typed("t", n={"type": "float"}), "envelopemetadata.n"),
        (typed("t", n=5), "envelopemetadata.n"),
        ({**typed("t"), "basemessage": "/b", "basemessageuri": G + "m"}, "basemessage"),
        ({"protocol": "HTTP", "protocoloptions": {"headers": [5]}}, "protocoloptions"),
    ],
)
def test_broken_definitions_are_isolated(definition: JSONObject, path: str) -> None:
    """F-24, F-26, F-57, K-14"""
    contract = make_contract({"broken": definition, "m": typed("t")})
    assert [finding.path for finding in contract.broken[G + "broken"]] == [path]
    assert word(one(contract, make_event())) == "m"


def test_definitions_are_completed_by_their_bases() -> None:
    """F-18, K-12"""
    base = {**typed("base", subject={"required": True}), **schema(SCHEMA)}
    contract = make_contract({"base": base, "m": {"basemessage": G + "base", **typed("t")}})
    assert word(one(contract, make_event(subject="s", data={"n": 1}))) == "m"
    assert rules(one(contract, make_event(data={"n": 1}))) == {("subject", "required")}


def test_compact_and_spread_form_mean_the_same() -> None:
    """The schema is inline, referenced, or a deep link into a document (I-4, F-12, K-39)."""
    uri = "/schemagroups/g/schemas/s"
    documents = {uri: SCHEMA, "/schemagroups/g/schemas/all": {"definitions": {"it": SCHEMA}}}
    forms: list[JSONObject] = [
        {"dataschema": SCHEMA},
        {"dataschemauri": uri},
        {"dataschemauri": f"#{uri}"},
        {"dataschemaxid": uri},
        {"dataschemauri": "/schemagroups/g/schemas/all#/definitions/it"},
    ]
    for form in forms:
        definition = {**typed("t"), "dataschemaformat": "JsonSchema/draft-07", **form}
        contract = make_contract({"m": definition}, documents)
        assert word(one(contract, make_event(data={"n": 1}))) == "m"
        assert rules(one(contract, make_event(data={"n": "x"}))) == {("/n", "type")}


def test_missing_base_message_is_reported() -> None:
    """The definition is used without the base, and each of its messages has a warning (F-17)."""
    contract = make_contract({"m": {"basemessage": G + "gone", **typed("t")}})
    expected = {G + "m": ["basemessage_unresolved"]}
    assert {xid: [finding.rule for finding in doubts] for xid, doubts in contract.incomplete.items()} == expected
    outcome = one(contract, make_event())
    assert isinstance(outcome, Accepted)
    assert G + "gone" in outcome.warnings[0].message


@pytest.mark.parametrize(
    ("indicator", "body", "reasons"),
    [(1, b"\xff", ["decode_error"]), (1, "\u00fc".encode(), [""]), (0, b"\xff", [""]), (None, b"\xff", [""])],
)
def test_text_has_to_be_utf_8(indicator: int | None, body: bytes, reasons: list[str]) -> None:
    """Other encodings are rejected (K-43)."""
    sections = {"topic_name": "a", **({} if indicator is None else {"payload_format_indicator": indicator})}
    contract = make_contract({"m": {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "a"}}})
    outcomes = contract.process(publish("MQTT/5.0", body, sections))
    assert [outcome.reason if isinstance(outcome, Rejected) else "" for outcome in outcomes] == reasons
    if reasons == ["decode_error"]:
        assert isinstance(outcomes[0], Rejected)
        (violation,) = outcomes[0].violations
        assert (violation.rule, "byte 0 is not" in violation.message) == ("payload_format_indicator", True)


def test_values_are_computed_once_on_demand() -> None:
    converted: list[int] = []

    def make(source: int) -> str:
        converted.append(source)
        return str(source)

    values = Deferred({"a": 1, "b": 2, "c": 3}, make)
    assert (len(values), list(values), "c" in values, "d" in values) == (3, ["a", "b", "c"], True, False)
    assert converted == []
    expected = ("2", "2", "1", None, "-")
    assert (values["b"], values["b"], values.get("a"), values.get("d"), values.get("d", "-")) == expected
    assert converted == [2, 1]
    assert values == {"a": "1", "b": "2", "c": "3"}


def test_an_error_of_making_a_value_is_no_missing_key() -> None:
    values = Deferred({"a": {}}, lambda source: source["x"])
    with pytest.raises(KeyError, match="x"):
        values.get("a")
    with pytest.raises(KeyError, match="b"):
        values["b"]
