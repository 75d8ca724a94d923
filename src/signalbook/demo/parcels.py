"""The parcel carrier: its definitions, and events made up from it in JSON, Avro and Protobuf over CloudEvents."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from random import Random
from typing import Final

import fastavro
import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessages

from signalbook.demo.traffic import TOKEN, SeededFault, TrafficTemplate, broken, missing_fields, wrong_types
from signalbook.formats.protobuf.compiler import compile_set, gather
from signalbook.values import JSONObject, dump_json

PARCELS: Final = "/messagegroups/example.parcels"
FLEET: Final = "/messagegroups/example.fleet"

_VARIANTS: Final = 60
_CITIES: Final = (
    ("Bremen", "28195", "DE"),
    ("Lyon", "69001", "FR"),
    ("Gdańsk", "80-001", "PL"),
    ("Porto", "4000", "PT"),
)
_PERSON_NAMES: Final = ("Ada Lovelace", "Grace Hopper", "Emmy Noether", "Ibn al-Haytham", "李善兰")


def carrier_definitions(name: str = "parcels") -> JSONObject:
    """The carrier's definitions, as shipped in ``definitions/parcels.xreg.yaml``, or another that is beside it."""
    text = files("signalbook.demo").joinpath("definitions", f"{name}.xreg.yaml").read_text(encoding="utf-8")
    document: JSONObject = yaml.safe_load(text)
    return document


def templates(seed: int) -> tuple[list[TrafficTemplate], list[TrafficTemplate]]:
    """Sound and faulty CloudEvents in the structured JSON form, one a line. The same ``seed`` gives the same ones."""
    random = Random(seed)  # noqa: S311 - made-up events, nothing secret
    sound: list[TrafficTemplate] = []
    faulty: list[TrafficTemplate] = []
    for _ in range(_VARIANTS):
        for name, make in _PAYLOADS.items():
            payload = make(random)
            event = _build_parcel_event(name, random, payload)
            sound.append(_build_template(PARCELS, event))
            faulty += _make_faults(event, payload)
        sound.append(_build_template(FLEET, _make_position(random)))
        sound.append(_build_template(FLEET, _make_locker_opened(random)))
    return sound, faulty


def later_templates(seed: int) -> dict[str, list[TrafficTemplate]]:
    """Sound CloudEvents that other documents define, by the name of the document.

    ``parcels-co2`` are of a message that is known, with a member that is not; ``parcels-returned`` of an unknown one.
    """
    random = Random(seed)  # noqa: S311 - made-up events, nothing secret
    payloads: dict[str, tuple[str, Callable[[], JSONObject]]] = {
        "parcels-co2": ("delivered", lambda: {**_make_delivered(random), "co2": round(random.uniform(0, 2), 3)}),
        "parcels-returned": ("returned", lambda: {"parcel": _make_number(random), "days": random.randint(0, 40)}),
    }
    return {
        carrier_definitions: [
            _build_template(PARCELS, _build_parcel_event(name, random, make())) for _ in range(_VARIANTS)
        ]
        for carrier_definitions, (name, make) in payloads.items()
    }


def _make_faults(event: JSONObject, payload: JSONObject) -> list[TrafficTemplate]:
    return [
        _build_template(PARCELS, {**event, "data": next(wrong_types(payload))}, SeededFault.WRONG_TYPE),
        _build_template(PARCELS, {**event, "data": next(missing_fields(payload))}, SeededFault.MISSING_FIELD),
        _build_template(PARCELS, {**event, "type": "example.parcels.vanished"}, SeededFault.UNKNOWN_EVENT),
        _build_template(PARCELS, event, SeededFault.BROKEN_JSON),
        _build_template(PARCELS, {**event, "source": "/impostors/1/depots"}, SeededFault.BAD_SOURCE),
    ]


def _build_template(group: str, event: JSONObject, fault: SeededFault | None = None) -> TrafficTemplate:
    line = dump_json(event)
    line = broken(line) if fault is SeededFault.BROKEN_JSON else line
    return TrafficTemplate.of(line, f"{group}/messages/{event['type']}", fault)


def _build_parcel_event(name: str, random: Random, payload: JSONObject) -> JSONObject:
    return {
        "specversion": "1.0",
        "id": TOKEN.decode(),
        "type": f"example.parcels.{name}",
        "source": f"/depots/{random.randint(1, 40)}",
        "subject": payload["parcel"],
        "time": _time(random),
        "datacontenttype": "application/json",
        "data": payload,
    }


def _time(random: Random) -> str:
    return f"2030-06-{random.randint(1, 30):02}T{random.randint(0, 23):02}:{random.randint(0, 59):02}:00Z"


def _make_number(random: Random) -> str:
    return f"P{random.randint(0, 10**10 - 1):010}"


def _make_address(random: Random) -> JSONObject:
    city, postcode, country = random.choice(_CITIES)
    return {
        "name": random.choice(_PERSON_NAMES),
        "street": f"Quay {random.randint(1, 90)}",
        "city": city,
        "postcode": postcode,
        "country": country,
    }


def _make_accepted(random: Random) -> JSONObject:
    return {
        "parcel": _make_number(random),
        "service": random.choice(("standard", "express", "economy")),
        "weight": random.randint(1, 70_000),
        "insured": random.random() < 0.2,
        "sender": _make_address(random),
        "recipient": _make_address(random),
        "contents": [{"description": "Books", "quantity": random.randint(1, 9)} for _ in range(random.randint(0, 3))],
    }


def _make_scanned(random: Random) -> JSONObject:
    return {
        "parcel": _make_number(random),
        "scanner": random.randint(1, 999),
        "step": random.choice(("inbound", "sorted", "loaded")),
        "temperature": random.choice((None, 18.5, 21.0, -3.25)),
    }


def _make_delivered(random: Random) -> JSONObject:
    return {
        "parcel": _make_number(random),
        "to": random.choice(("recipient", "neighbour", "locker")),
        "at": {"latitude": round(random.uniform(36, 60), 4), "longitude": round(random.uniform(-9, 20), 4)},
        "photos": [f"photo-{n}.jpg" for n in range(random.randint(0, 2))],
    }


def _make_refused(random: Random) -> JSONObject:
    return {"parcel": _make_number(random), "reason": random.choice(("damaged", "unknown", "unpaid", "unwanted"))}


_PAYLOADS: Final[dict[str, Callable[[Random], JSONObject]]] = {
    "accepted": _make_accepted,
    "scanned": _make_scanned,
    "delivered": _make_delivered,
    "refused": _make_refused,
}


def _build_fleet_event(name: str, source: str, contenttype: str, payload: bytes, random: Random) -> JSONObject:
    return {
        "specversion": "1.0",
        "id": TOKEN.decode(),
        "type": f"example.fleet.{name}",
        "source": source,
        "time": _time(random),
        "datacontenttype": contenttype,
        "data_base64": base64.b64encode(payload).decode(),
    }


@cache
def _read_schema(name: str) -> JSONObject | str:
    document: JSONObject | str = carrier_definitions()["schemagroups"]["example.fleet"]["schemas"][name]["versions"][
        "1"
    ]["schema"]
    return document


def _make_position(random: Random) -> JSONObject:
    van = f"van-{random.randint(1, 200)}"
    value = {
        "van": van,
        "measured": 1_908_000_000_000 + random.randint(0, 10**9),
        "latitude": random.uniform(36, 60),
        "longitude": random.uniform(-9, 20),
        "speed": float(random.randint(0, 120)),
        "heading": random.choice((None, random.randint(0, 359))),
        "parcels": [_make_number(random) for _ in range(random.randint(0, 4))],
    }
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(_read_schema("position")), value)
    return _build_fleet_event("position", f"/vans/{van}", "application/avro", buffer.getvalue(), random)


def _make_locker_opened(random: Random) -> JSONObject:
    locker = f"locker-{random.randint(1, 300)}"
    message = _compile_locker_opened()(
        locker=locker,
        door=random.randint(1, 60),
        parcel=_make_number(random),
        by=random.randint(1, 3),
        opened_at_ms=1_908_000_000_000 + random.randint(0, 10**9),
    )
    payload = message.SerializeToString()
    return _build_fleet_event("locker-opened", f"/lockers/{locker}", "application/protobuf", payload, random)


@cache
def _compile_locker_opened() -> type[Message]:
    compiled = compile_set(gather(str(_read_schema("locker-opened")).encode(), None))
    return GetMessages(FileDescriptorSet.FromString(compiled).file)["example.fleet.LockerOpened"]
