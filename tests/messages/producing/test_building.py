from datetime import UTC, datetime
from typing import Any

import pytest
from tests.messages.builders import define

from signalbook.messages.producing.building import Outbound, OutboundError, Surroundings, build

HERE = Surroundings(clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), new_id=lambda: "new")
NOW = "2026-01-02T03:04:05Z"
SCHEMA = {"dataschema": {"type": "object", "required": ["n"]}, "dataschemaformat": "JsonSchema/draft-07"}


def event(**metadata: Any) -> dict[str, Any]:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/s"}, **metadata}}


def attributes(outbound: Outbound) -> dict[str, Any]:
    assert outbound.event is not None
    return dict(outbound.event.attributes)


def rules(error: pytest.ExceptionInfo[OutboundError]) -> dict[str, str]:
    return {finding.path: finding.rule for finding in error.value.findings}


def test_an_event() -> None:
    """The attributes are constants, templates, the sentinel, implied and given values (K-50)."""
    metadata = event(
        type={"value": "com.shop.order"},
        source={"value": "/shops/{shop}", "type": "uritemplate"},
        subject={"value": "order {shop}"},
        time={"value": "0000-01-01T00:00:00Z"},
        level={"type": "integer", "value": "5"},
        urgent={"type": "boolean", "required": True},
    )
    outbound = build(define(**metadata, **SCHEMA), {"shop": "7 b"}, {"n": 1}, {"urgent": True}, surroundings=HERE)
    assert attributes(outbound) == {
        "specversion": "1.0", "id": "new", "source": "/shops/7%20b", "type": "com.shop.order", "subject": "order 7 b",
        "time": NOW, "level": 5, "urgent": True, "datacontenttype": "application/json",
    }  # fmt: skip
    assert (outbound.context, outbound.body, outbound.options) == ({"shop": "7 b"}, b'{"n":1}', {})


@pytest.mark.parametrize(
    ("entry", "override", "expected"),
    [
        ({}, {}, NOW),  # F-31
        ({"value": "01-01-0000T00:00:00Z"}, {}, NOW),  # I-6
        ({"required": True}, {}, NOW),
        ({}, {"time": "2020-01-01T00:00:00Z"}, "2020-01-01T00:00:00Z"),
        ({}, {"time": None}, None),
        ({}, {"time": datetime(2020, 1, 1, tzinfo=UTC)}, "2020-01-01T00:00:00Z"),
    ],
)
def test_the_time_of_an_event(entry: Any, override: dict[str, Any], expected: str | None) -> None:
    """K-50, F-25"""
    outbound = build(define(**event(time=entry)), overrides=override, surroundings=HERE)
    assert attributes(outbound).get("time") == expected


def test_undeclared_attributes_get_defaults() -> None:
    """The type is the id of the message; the event has no time unless requested (K-50, F-4)."""
    outbound = build(define(envelope="CloudEvents/1.0"), overrides={"source": "/s", "ext": "x"}, surroundings=HERE)
    assert attributes(outbound) == {"specversion": "1.0", "id": "new", "source": "/s", "type": "order", "ext": "x"}


@pytest.mark.parametrize(
    ("context", "overrides", "data", "expected"),
    [
        ({"shop": "7"}, {"type": "other", "n": 1}, {"n": 1}, {"envelopemetadata.type": "constant"}),
        ({"shop": "7"}, {"n": "x"}, {"n": 1}, {"envelopemetadata.n": "type"}),
        ({"shop": "7"}, {}, {"n": 1}, {"envelopemetadata.n": "required"}),
        ({}, {"n": 1}, {"n": 1}, {"envelopemetadata.source": "context"}),
        ({"shop": ""}, {"n": 1}, {"n": 1}, {"{shop}": "context", "envelopemetadata.source": "context"}),
        ({"shop": "\ud800"}, {"n": 1}, {"n": 1}, {"envelopemetadata.source": "context"}),
        ({"shop": "7", "stop": "8"}, {"n": 1}, {"n": 1}, {"{stop}": "context"}),
        ({"shop": "7", "desk": "8"}, {"n": 1}, {"n": 1}, {"{desk}": "context"}),
        ({"shop": "7"}, {"n": 1, "source": "/x/7"}, {"n": 1}, {"envelopemetadata.source": "uritemplate"}),
        ({"shop": "7"}, {"n": 1, "source": "/shops/8"}, {"n": 1}, {"envelopemetadata.source": "placeholder_conflict"}),
        ({"shop": "7"}, {"n": 1}, {}, {"data": "required"}),
        ({"shop": "7"}, {"n": 1, "Bad-Name": 1}, {"n": 1}, {"Bad-Name": "unknown"}),
        ({"shop": "7"}, {"n": 1, "protocoloptions.topic": "t"}, {"n": 1}, {"protocoloptions.topic": "unknown"}),
        ({"shop": "7"}, {"n": 1, "time": "now"}, {"n": 1}, {"time": "cloudevents"}),
        ({"shop": "7"}, {"n": 1, "specversion": "0.3"}, {"n": 1}, {"specversion": "cloudevents"}),
        ({}, {"type": "other"}, {}, {"envelopemetadata.type": "constant", "envelopemetadata.source": "context",
                                     "envelopemetadata.n": "required", "data": "required"}),
    ],
)  # fmt: skip
def test_all_errors_are_reported(
    context: dict[str, str], overrides: dict[str, Any], data: Any, expected: dict[str, str]
) -> None:
    """The errors are reported together, each with its path (K-18, K-19, K-50)."""
    metadata = event(
        type={"value": "t"},
        source={"value": "/shops/{shop}", "type": "uritemplate"},
        subject={"value": "{shop}/{desk}/{till}"},
        n={"type": "integer", "required": True},
    )
    with pytest.raises(OutboundError) as caught:
        build(define(**metadata, **SCHEMA), context, data, overrides)
    assert rules(caught) == expected


@pytest.mark.parametrize("text", ["{a}-{b}", "{a}{b}", "/{a}/{b}"])
def test_ambiguous_value_is_rejected(text: str) -> None:
    """A value is rejected if its placeholders would be read back differently (K-18, K-55)."""
    with pytest.raises(OutboundError, match="would be read"):
        build(define(**event(subject={"value": text, "required": True})), {"a": "1-2/3", "b": "4"})


def test_given_values_fill_placeholders_elsewhere() -> None:
    """K-50, F-27"""
    metadata = event(source={"value": "/s/{x}", "type": "uritemplate"}, subject={"value": "{x}", "required": True})
    outbound = build(define(**metadata), overrides={"source": "/s/a%20b"})
    assert (attributes(outbound)["subject"], outbound.context) == ("a b", {"x": "a b"})


def test_a_message_of_a_protocol() -> None:
    """Constants of all sections are included, also those about delivery; values have the types of AMQP (K-50)."""
    options = {
        "properties": {"to": {"value": "/shops/{shop}", "type": "uritemplate"}, "message-id": {"required": True},
                       "absolute-expiry-time": {"value": "0000-01-01T00:00:00Z"}},
        "application-properties": {"n": {"type": "integer", "value": "5"}, "x": {"type": "boolean"}},
        "header": {"durable": True},
    }  # fmt: skip
    definition = define(protocol="AMQP/1.0", protocoloptions=options, **SCHEMA)
    overrides = {"protocoloptions.properties.message-id": "m1", "protocoloptions.application-properties.y": b"\xff"}
    outbound = build(definition, {"shop": "7"}, {"n": 1}, overrides, surroundings=HERE)
    assert outbound.event is None
    assert outbound.options == {
        "properties.to": "/shops/7", "properties.message-id": "m1", "application-properties.n": 5,
        "properties.absolute-expiry-time": HERE.clock(), "header.durable": True, "application-properties.y": b"\xff",
    }  # fmt: skip
    assert (outbound.body, outbound.content_type) == (b'{"n":1}', "application/json")


def test_repeated_headers_are_built() -> None:
    """The definition requires both headers (K-50)."""
    headers = [{"name": "Link", "value": value} for value in ("a", "b")]
    outbound = build(define(protocol="HTTP", protocoloptions={"headers": headers}))
    assert outbound.options == {"headers.Link": ("a", "b")}
    overridden = build(define(protocol="HTTP", protocoloptions={"headers": headers}), overrides={
        "protocoloptions.headers.link": ("b", "a", "c")
    })  # fmt: skip
    assert overridden.options == {"headers.Link": ("b", "a", "c")}


@pytest.mark.parametrize(
    ("members", "data", "expected"),
    [
        ({"protocol": "KAFKA"}, {"a": 1}, ("application/json", b'{"a":1}')),
        ({"protocol": "KAFKA"}, b"raw", ("", b"raw")),
        ({"protocol": "KAFKA", "datacontenttype": "text/plain"}, "text", ("text/plain", b"text")),
        ({"protocol": "KAFKA", "protocoloptions": {"headers": {"content-type": "text/csv"}}}, "a;b",
         ("text/csv", b"a;b")),
        ({"protocol": "KAFKA", **SCHEMA}, {"n": 1}, ("application/json", b'{"n":1}')),
        ({"envelope": "CloudEvents/1.0", "datacontenttype": "application/cloudevents+json"}, [1],
         ("application/json", b"[1]")),
    ],
)  # fmt: skip
def test_content_types(members: dict[str, Any], data: Any, expected: tuple[str, bytes]) -> None:
    """K-52, F-14, F-32"""
    overrides = {"source": "/s"} if "envelope" in members else {}
    outbound = build(define(**members), data=data, overrides=overrides)
    assert (outbound.content_type, outbound.body) == expected


def test_protobuf_as_json() -> None:
    """The definition leaves the content type open, and the content type selects ProtoJSON."""
    schema = {"dataschemaformat": "Protobuf/3", "dataschema": 'syntax = "proto3"; message A { int64 n = 1; }'}
    definition = define(**event(type={"value": "t"}), **schema)
    outbound = build(definition, {}, {"n": 7}, {"datacontenttype": "application/json"}, surroundings=HERE)
    assert (outbound.body, attributes(outbound)["datacontenttype"]) == (b'{"n":"7"}', "application/json")
    assert build(definition, {}, {"n": 7}, surroundings=HERE).body == b"\x08\x07"


def test_a_schema_with_a_uri_is_named() -> None:
    """The URI is included if an event may have it (F-32)."""
    more = {"dataschemauri": "https://r.example/s", "dataschemaformat": "JsonSchema/draft-07"}
    with pytest.raises(OutboundError, match="the schema cannot be used"):
        build(define(**event(), **more), data={})
    definition = define(**event(dataschema={"value": "/schemagroups/g/schemas/s", "required": True}))
    with pytest.raises(OutboundError) as caught:
        build(definition)
    assert rules(caught) == {"envelopemetadata.dataschema": "required"}
    with pytest.raises(OutboundError, match="dataschema must name"):
        build(definition, overrides={"dataschema": "https://r.example/schemagroups/g/schemas/t"})
    uri = "https://r.example/schemagroups/g/schemas/s"
    assert attributes(build(definition, overrides={"dataschema": uri}))["dataschema"] == uri
