"""What is produced of a definition is received as one of that definition, with nothing lost (K-55)."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.test_samples import SAMPLES, contract, load
from tests.messages.test_webhooks import LEAST, MESSAGES
from tests.messages.test_webhooks import load as load_webhooks

from signalbook.documents import read_source
from signalbook.formats import Anything, ListOf, MapOf, Scalar, Schema, Shape, Struct
from signalbook.messages import Accepted, CompiledDefinition, Contract, Message
from signalbook.messages.cloudevents import format_attribute
from signalbook.messages.definitions.lint import lint
from signalbook.messages.producing.building import Outbound, OutboundError, build, required_inputs
from signalbook.messages.producing.sending import bind, validate_outbound
from signalbook.values import JSON, JSONObject

ROOT: Final = Path(__file__).parents[3]
_SCALARS: Final[Mapping[str, Any]] = {
    "bool": True, "int32": 3, "int64": 7, "uint64": 5, "float32": 1.5, "float64": 2.5, "string": "é",
    "bytes": b"\xff", "timestamp": datetime(2026, 1, 2, tzinfo=UTC), "date": date(2026, 1, 2), "time": time(1, 2),
    "decimal": Decimal("1.5"), "uuid": "12345678-1234-1234-1234-123456789012",
}  # fmt: skip
_PROPERTIES: Final[Mapping[str, Any]] = {
    "binary": b64encode(b"\xff").decode(), "boolean": True, "integer": 5, "number": 1.5, "symbol": "s1", "ulong": 7,
    "timestamp": "2026-01-02T03:04:05Z", "uri": "https://a.example/b", "uuid": _SCALARS["uuid"],
}  # fmt: skip
# Members whose values are bounded by more than their columns tell.
_CHOICES: Final[Mapping[str, Any]] = {
    "outcome": "Failed", "inkColor": "Cyan", "maintenanceType": "Cleaning", "urgency": "Routine", "mode": "Microwave",
    "timerType": "Smart", "parcel": "P0123456789", "weight": 500, "country": "DE", "by": "OPENER_COURIER",
}  # fmt: skip


def sample(schema: Schema) -> JSON:
    """A value that conforms, as far as its columns and constants tell."""
    value = _value(schema.shape(), "")
    if not isinstance(value, dict):
        return value
    chosen: dict[str, JSON] = {}
    for name, values in schema.constants().items():
        chosen[name] = min(map(str, values)) if all(isinstance(text, str) for text in values) else next(iter(values))
    return {**value, **chosen}


def _value(shape: Shape, name: str) -> JSON:
    match shape:
        case Struct():
            return {field.name: _value(field.shape, field.name) for field in shape.fields}
        case ListOf():
            return [_value(shape.item, name)]
        case MapOf():
            return {"k": _value(shape.value, name)}
        case Scalar():
            return _CHOICES.get(name, _SCALARS[shape.kind])
        case Anything():
            return {}


def inputs(definition: CompiledDefinition) -> tuple[dict[str, str], dict[str, Any]]:
    """A context and overrides for all that is required or may be given."""
    params = required_inputs(definition)
    context = {parameter.name: f"{parameter.name} 1/2.é%" for parameter in params if parameter.source == "template"}
    properties = {
        parameter.name: _PROPERTIES.get(parameter.type, "v1") for parameter in params if parameter.source == "property"
    }
    return context, {name: value for name, value in properties.items() if name not in ("dataschema", "datacontenttype")}


def received(contract_: Contract, message: Message, outbound: Outbound) -> Accepted:
    """The message as it is received: matched, its context extracted, its payload decoded."""
    (outcome,) = contract_.process(message)
    assert isinstance(outcome, Accepted), outcome
    assert outcome.definition.xid == outbound.definition.xid
    assert outcome.context == outbound.context
    assert outcome.payload() == (outbound.body or (outcome.payload() and b""))
    return outcome


def travels(contract_: Contract, definition: CompiledDefinition, data: JSON) -> None:
    context, overrides = inputs(definition)
    outbound = build(definition, context, data, overrides)
    assert outbound.context == context
    outcome = received(contract_, bind(outbound), outbound)
    assert outcome.schema is None or outcome.data == data


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_definition(sample_file: Callable[[str], Path], name: str) -> None:
    """K-50, K-52, K-53, K-55"""
    compiled = contract(load(sample_file(f"{name}.xreg.json")))
    assert compiled.definitions
    for definition in compiled.definitions.values():
        use = definition.schema_use
        if use.reason is not None:  # Sparkplug's own file of Protobuf is not there
            with pytest.raises(OutboundError, match="the schema cannot be used"):
                build(definition, inputs(definition)[0], {})
        else:
            travels(compiled, definition, sample(use.schema) if use.schema is not None else {"a": 1})


@pytest.mark.parametrize(
    "path", ["examples/orders/orders.xreg.yaml", "src/signalbook/demo/definitions/parcels.xreg.yaml"]
)
def test_every_definition_of_the_catalogues(path: str) -> None:
    """The catalogues are those of the repository (K-55)."""
    compiled = contract(read_source(ROOT / path).document)
    assert compiled.definitions
    assert compiled.verify() == {}
    for definition in compiled.definitions.values():
        schema = definition.schema_use.schema
        travels(compiled, definition, {"a": 1} if schema is None else sample(schema))


def test_real_payloads_of_many_definitions(webhooks: Path) -> None:
    """The 344 definitions share headers; their published examples are produced and matched again (K-55)."""
    webhooks_contract, examples = load_webhooks(webhooks)
    sent = 0
    for event, body in examples:
        definition = webhooks_contract.definitions.get(f"{MESSAGES}{event}${body.get('action', 'event')}")
        if definition is None:
            continue
        if definition.schema_use.schema is None or definition.schema_use.schema.validate(body):
            with pytest.raises(OutboundError, match=": data"):
                build(definition, data=body)
        else:
            outbound = build(definition, data=body)
            assert received(webhooks_contract, bind(outbound), outbound).data == body
            sent += 1
    assert sent > LEAST[webhooks.name] * 4 // 5


# ---- definitions nobody wrote ----

_ANY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_PLAIN = st.text("abcXYZ019_", min_size=1, max_size=8)
_CONTEXTS = st.fixed_dictionaries({"a": _ANY, "b": _ANY, "x": _PLAIN, "y": _PLAIN})
_DATA = st.fixed_dictionaries(
    {"n": st.integers(-(2**31), 2**31 - 1), "t": st.text(st.characters(exclude_categories=["Cs"]))}
)
_URI = st.sampled_from(["/s/{a}", "/s/{a}/{b}", "{b}", "urn:x:{x}", "/fixed", "https://h.example/{a}/p/{a}"])
_TEXT = st.sampled_from(["{x}", "{x}:{y}", "kind {x}", "plain text", "{x}/{y}/{x}"])
_METADATA = st.fixed_dictionaries(
    {"source": _URI.map(lambda value: {"type": "uritemplate", "value": value})},
    optional={
        "type": st.sampled_from([{"value": "com.example.t"}, {"value": "com.{x}"}, {}]),
        "subject": st.one_of(
            _TEXT.map(lambda value: {"value": value, "required": True}),
            st.just({"type": "uritemplate", "value": "/{b}", "required": True}),
        ),
        "time": st.sampled_from([{}, {"value": "0000-01-01T00:00:00Z", "required": True}]),
        "level": st.sampled_from([{"type": "integer", "value": "5"}, {"type": "integer", "required": True}]),
        "urgent": st.just({"type": "boolean", "value": "true", "required": True}),
        "key": _TEXT.map(lambda value: {"value": value}),
    },
)
_HEADERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["X-A", "x-b", "Kind"]), "value": _TEXT, "required": st.booleans()}),
    max_size=2,
    unique_by=lambda item: str(item["name"]).lower(),
)
_OPTIONS: Mapping[str, st.SearchStrategy[JSONObject]] = {
    "HTTP": st.fixed_dictionaries(
        {}, optional={"path": st.sampled_from(["/p/{a}", "/p/{x}/{b}", "/p"]), "headers": _HEADERS, "query": _HEADERS,
                      "method": st.sampled_from(["PUT", "POST"])}
    ),
    "KAFKA": st.fixed_dictionaries(
        {"topic": st.sampled_from(["t.{x}", "t", "{y}"])},
        optional={"key": st.sampled_from(["{a}", "k/{b}", "k"]), "headers": _HEADERS, "partition": st.just(3)},
    ),
    "NATS": st.fixed_dictionaries(
        {"subject": st.sampled_from(["s.{a}.t.{b}", "s.{x}", "s"])},
        optional={"headers": _HEADERS, "reply-to": st.just("r.{y}")},
    ),
    "MQTT/3.1.1": st.fixed_dictionaries(
        {"topic_name": st.sampled_from(["t/{a}/{b}", "{a}", "t"])},
        optional={"qos": st.just(1), "retain": st.just(True)},
    ),
    "MQTT/5.0": st.fixed_dictionaries(
        {"topic_name": st.sampled_from(["t/{a}/{b}", "{a}", "t"])},
        optional={"user_properties": _HEADERS, "response_topic": st.just("r/{b}"),
                  "correlation_data": st.just("{a}"), "payload_format_indicator": st.sampled_from([0, 1])},
    ),
    "AMQP/1.0": st.fixed_dictionaries(
        {},
        optional={
            "properties": st.fixed_dictionaries({}, optional={
                "to": st.just({"type": "uritemplate", "value": "/q/{a}"}), "subject": _TEXT.map(lambda v: {"value": v}),
                "group-sequence": st.just({"value": "5"}), "message-id": st.just({"type": "uuid", "required": True}),
                "creation-time": st.just({"value": "0000-01-01T00:00:00Z"}), "user-id": st.just({
                    "type": "binary", "value": "/w=="}),
            }),
            "application-properties": st.fixed_dictionaries({}, optional={
                "kind": _TEXT.map(lambda v: {"value": v, "required": True}),
                "n": st.just({"type": "integer", "value": "7"}), "d": st.just({"type": "number", "value": "2.5"}),
                "f": st.just({"type": "boolean", "required": True}),
            }),
            "header": st.just({"durable": True, "priority": 4}),
        },
    ),
}  # fmt: skip
_JSON: Final = {
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschema": {"type": "object", "required": ["n"], "additionalProperties": False,
                   "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}},
}  # fmt: skip
_AVRO: Final = yaml.safe_load("""
dataschemaformat: Avro/1.11
dataschema: {type: record, name: R, fields: [{name: n, type: int}, {name: t, type: string}]}
""")
_PROTOBUF: Final = {
    "dataschemaformat": "Protobuf/3",
    "dataschema": 'syntax = "proto3"; message R { int32 n = 1; string t = 2; }',
}
_SCHEMAS: st.SearchStrategy[JSONObject] = st.sampled_from(
    [_JSON, _AVRO, {**_AVRO, "datacontenttype": "application/json"}, _PROTOBUF]
)
_MODES = st.sampled_from([{}, {"mode": "structured"}, {"mode": "binary"}, {"format": "application/cloudevents+avro"},
                          {"mode": "structured", "format": "application/cloudevents+protobuf"}])  # fmt: skip


@st.composite
def definitions(draw: st.DrawFn) -> JSONObject:
    """A definition of an event, of a message of a protocol, or of both."""
    protocol = draw(st.sampled_from(["", *_OPTIONS]))
    definition: JSONObject = {**draw(_SCHEMAS)}
    if protocol:
        definition |= {"protocol": protocol, "protocoloptions": draw(_OPTIONS[protocol])}
    if not protocol or draw(st.booleans()):
        definition |= {"envelope": "CloudEvents/1.0", "envelopemetadata": draw(_METADATA)}
        if protocol not in ("", "MQTT/3.1.1"):
            definition["envelopeoptions"] = draw(_MODES)
        if definition.get("datacontenttype"):  # of the payload, not of the envelope
            definition["envelopemetadata"]["datacontenttype"] = {"value": definition["datacontenttype"]}
    if any(finding.rule == "text" for finding in lint(definition)):  # binary payloads that are marked as text
        definition["protocoloptions"]["payload_format_indicator"] = 0
    return definition


@given(definitions(), _CONTEXTS, _DATA)
def test_generated_definitions(raw: JSONObject, values: dict[str, str], data: JSONObject) -> None:
    """The equation match(build(d, ctx)) == d holds, with the same context and payload (K-50 to K-55)."""
    compiled = Contract.compile({"/messagegroups/g/messages/com.example.t": raw}, lambda _: None)
    assert compiled.broken == {}
    (definition,) = compiled.definitions.values()
    names, given_values = inputs(definition)
    context = {name: values[name] for name in names}
    outbound = build(definition, context, data, given_values)
    assert outbound.context == context
    outcome = received(compiled, bind(outbound), outbound)
    assert outcome.data == data
    if outbound.event is not None:
        assert outcome.event is not None
        sent, got = ({name: format_attribute(value) for name, value in event.attributes.items()}
                     for event in (outbound.event, outcome.event))  # fmt: skip
        assert got == sent


_TOLD: Final[Mapping[str, JSONObject]] = {
    "HTTP": {"endpoints": [{"uri": "https://h.example/{a}/{tenant}"}], "headers": [{"name": "X-A", "value": "{x}"}]},
    "KAFKA": {"topic": "t.{x}", "key": "{a}/{tenant}", "headers": {"k": "{x}"}},
    "NATS": {"subject": "s.{a}.{tenant}"},
    "MQTT/3.1.1": {"topic": "{a}/{tenant}", "qos": 1},
    "MQTT/5.0": {"topic": "{a}/{tenant}", "retain": True},
    "AMQP/1.0": {"node": "{a}/{tenant}"},
}


@pytest.mark.parametrize("protocol", _TOLD)
@given(st.data())
def test_events_to_endpoints(protocol: str, data: st.DataObject) -> None:
    """An event stays the same over every protocol, in every mode and format (K-53, K-55, H-14)."""
    modes = [{}, {"mode": "structured"}]
    if protocol != "MQTT/3.1.1":
        modes += [{"mode": "binary"}, {"format": "application/cloudevents+avro"}]
    metadata = {"source": {"type": "uritemplate", "value": "/s/{a}"}, "subject": {"value": "{x}", "required": True}}
    raw = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, **data.draw(_SCHEMAS)}
    if "datacontenttype" in raw:
        raw["envelopemetadata"]["datacontenttype"] = {"value": raw.pop("datacontenttype")}
    compiled = Contract.compile({"/messagegroups/g/messages/com.example.t": raw}, lambda _: None)
    (definition,) = compiled.definitions.values()
    context, sent = data.draw(_CONTEXTS), data.draw(_DATA)
    outbound = build(definition, {name: context[name] for name in "ax"}, sent)
    mode = data.draw(st.sampled_from(modes))
    endpoint = {"protocol": protocol, "envelopeoptions": mode, "protocoloptions": _TOLD[protocol]}
    message = bind(outbound, endpoint, {"tenant": context["b"]})
    outcome = received(compiled, message, outbound)
    assert outcome.data == sent
    assert outcome.event is not None
    assert outbound.event is not None
    assert dict(outcome.event.attributes) == dict(outbound.event.attributes)
    assert validate_outbound(message, compiled, endpoint) == ()
