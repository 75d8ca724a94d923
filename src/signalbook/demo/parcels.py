"""The parcel carrier: its definitions, and events made of them in JSON, Avro and Protobuf over CloudEvents."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

import yaml

from signalbook.demo.traffic import REASONS, TOKEN, SeededFault, TrafficTemplate, cut, spoil
from signalbook.messages import Policy, build, required_inputs
from signalbook.messages.eventformats import JSON_EVENTS
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSONObject, dump_json, parse_json

PARCELS: Final = "/messagegroups/example.parcels"
FLEET: Final = "/messagegroups/example.fleet"

_DEPOTS: Final = ("3", "14", "27")


def carrier_definitions(name: str = "parcels") -> JSONObject:
    """The carrier's definitions, as shipped in ``definitions/parcels.xreg.yaml``, or another that is beside it."""
    return _read_file(f"{name}.xreg.yaml")


def _read_file(name: str) -> JSONObject:
    text = files("signalbook.demo").joinpath("definitions", name).read_text(encoding="utf-8")
    document: JSONObject = yaml.safe_load(text)
    return document


def sound_templates() -> list[TrafficTemplate]:
    """CloudEvents of every message, in the structured JSON form."""
    return [_build_template(event) for event in _make_events()]


def faulty_templates() -> list[TrafficTemplate]:
    """CloudEvents with JSON payloads, each with one fault."""
    return [_build_faulty(event, fault) for event in _make_events() if "data" in event for fault in SeededFault]


def later_templates() -> dict[str, list[TrafficTemplate]]:
    """Sound CloudEvents that other documents define, by the name of the document.

    ``parcels-co2`` are of a message that is known, with a member that is not; ``parcels-returned`` of an unknown one.
    """
    delivered = [event for event in _make_events() if event["type"] == "example.parcels.delivered"]
    emitting = [
        {**event, "data": {**event["data"], "co2": grams / 1000}} for grams, event in enumerate(delivered, start=250)
    ]
    returned = [
        {**event, "type": "example.parcels.returned", "data": {"parcel": event["subject"], "days": days}}
        for days, event in enumerate(delivered)
    ]
    return {
        "parcels-co2": [_build_template(event) for event in emitting],
        "parcels-returned": [_build_template(event) for event in returned],
    }


def _make_events() -> Iterator[JSONObject]:
    """Yield events of every message, as a producer builds them by the carrier's definitions."""
    definitions = Snapshot.of_documents([("parcels", carrier_definitions())]).compile(Policy()).definitions
    for message, payloads in _read_file("parcels.payloads.yaml").items():
        definition = definitions[_find_definition(message)]
        for payload in payloads:
            for depot in _DEPOTS:
                values = {**payload, "depot": depot}
                names = [param.name for param in required_inputs(definition) if param.name in values]
                context = {name: values[name] for name in names}
                outbound = build(definition, context, payload, {"id": TOKEN, "time": "2030-06-18T06:00:00Z"})
                assert outbound.event is not None
                yield parse_json(JSON_EVENTS.encode(outbound.event))


def _find_definition(message: str) -> str:
    return f"/messagegroups/{message.rpartition('.')[0]}/messages/{message}"


def _build_template(event: JSONObject) -> TrafficTemplate:
    return TrafficTemplate(line=dump_json(event), definition=_find_definition(event["type"]))


def _build_faulty(event: JSONObject, fault: SeededFault) -> TrafficTemplate:
    definition = _find_definition(event["type"])
    event = {**event, "data": next(spoil(event["data"], fault))}
    if fault is SeededFault.UNKNOWN_EVENT:
        event["type"] = "example.parcels.vanished"
    if fault is SeededFault.BAD_SOURCE:
        event["source"] = "/impostors/1/depots"
    line = cut(dump_json(event), fault)
    return TrafficTemplate(line=line, definition=definition, reason=REASONS[fault], fault=fault)
