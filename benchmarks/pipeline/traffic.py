"""The events of the pipeline's figures: 490 bytes of JSON CloudEvent with a nested payload, evenly of many types."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

GROUP = "bench.parcels"
STATUSES = ("accepted", "in_transit", "out_for_delivery", "delivered")

ADDRESS: dict[str, Any] = {
    "type": "object",
    "required": ["country", "city"],
    "properties": {
        "country": {"type": "string", "minLength": 2, "maxLength": 2},
        "city": {"type": "string", "minLength": 1, "maxLength": 60},
        "zip": {"type": "string"},
    },
}
SIDE = {"type": "integer", "minimum": 1, "maximum": 300}
SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["parcel", "from", "to", "status", "codes", "insured"],
    "properties": {
        "parcel": {
            "type": "object",
            "required": ["id", "weight", "size"],
            "properties": {
                "id": {"type": "string", "pattern": "^P[0-9]{9}$"},
                "weight": {"type": "number", "minimum": 0, "maximum": 100},
                "size": {
                    "type": "object",
                    "required": ["l", "w", "h"],
                    "properties": {"l": SIDE, "w": SIDE, "h": SIDE},
                },
            },
        },
        "from": ADDRESS,
        "to": ADDRESS,
        "status": {"enum": list(STATUSES)},
        "codes": {"type": "array", "items": {"type": "integer"}, "maxItems": 20},
        "insured": {"type": "boolean"},
        "note": {"type": "string"},
    },
}


def event_type(number: int) -> str:
    """The type, and message id, of definition ``number``."""
    return f"bench.parcels.event{number:04d}"


def catalogue(definitions: int) -> dict[str, Any]:
    """A registry document with so many message definitions, each with a schema of its own."""
    names = [event_type(number) for number in range(definitions)]
    return {
        "messagegroups": {GROUP: {"envelope": "CloudEvents/1.0", "messages": {name: _message(name) for name in names}}},
        "schemagroups": {GROUP: {"schemas": {name: _schema(name) for name in names}}},
    }


def write_events(path: Path, count: int, *, types: int = 50, faults: float = 0.0) -> None:
    """So many events as JSON lines, evenly of the first ``types`` types; ``faults`` is the share of wrong ones."""
    random = Random(7)
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps(event(number, random, types, faults), separators=(",", ":")) + "\n")


def _message(name: str) -> dict[str, Any]:
    return {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": name},
            "source": {"type": "uritemplate", "value": "/carriers/{carrier}/depots/{depot}"},
            "subject": {"type": "string", "required": True},
            "time": {"required": True},
        },
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschemauri": f"/schemagroups/{GROUP}/schemas/{name}",
    }


def _schema(name: str) -> dict[str, Any]:
    return {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"title": name, **SCHEMA}}}}


def event(number: int, random: Random, types: int, faults: float) -> dict[str, Any]:
    """One event."""
    status = "lost" if random.random() < faults else random.choice(STATUSES)
    minute, second = divmod(number, 60)
    return {
        "specversion": "1.0",
        "id": f"ev-{number:012d}",
        "source": f"/carriers/{random.randrange(20)}/depots/{random.randrange(40):03d}",
        "type": event_type(random.randrange(types)),
        "time": f"2026-03-{1 + number % 28:02d}T{number % 24:02d}:{minute % 60:02d}:{second:02d}.{number % 1000:03d}Z",
        "subject": f"parcel-{random.randrange(10**6):06d}",
        "datacontenttype": "application/json",
        "data": {
            "parcel": {
                "id": f"P{random.randrange(10**9):09d}",
                "weight": random.randrange(1, 3000) / 100,
                "size": {"l": random.randrange(1, 120), "w": random.randrange(1, 120), "h": random.randrange(1, 120)},
            },
            "from": {"country": "DE", "city": "Cologne", "zip": f"{random.randrange(10**5):05d}"},
            "to": {"country": "FR", "city": "Lyon", "zip": f"{random.randrange(10**5):05d}"},
            "status": status,
            "codes": [random.randrange(100) for _ in range(6)],
            "insured": random.random() < 0.5,
            "note": "Leave it at the door",
        },
    }
