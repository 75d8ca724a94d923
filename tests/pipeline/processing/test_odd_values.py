"""Odd numbers, texts and depths in payloads of every definition: no message stops a batch, and both paths agree."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
import yaml
from tests.pipeline.kafkarows import batches, event_headers

from signalbook.formats import ListOf, MapOf, PayloadError, Shape, Struct
from signalbook.formats.base import read_json
from signalbook.messages import CompiledDefinition, Policy
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.table_names import TableName
from signalbook.values import JSONObject

ROOT: Final = Path(__file__).parents[3]
FILES: Final = [*sorted((ROOT / "tests/data/samples").glob("*.json")), ROOT / "examples/orders/orders.xreg.yaml"]
KINDS: Final = {
    "integer": {"type": "integer"},
    "unsigned": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
    "long": {"type": "integer", "minimum": -(10**30), "maximum": 10**30},
    "number": {"type": "number"},
    "price": {"type": "number", "multipleOf": 0.01},
    "step": {"type": "number", "multipleOf": 3},
    "bounded": {"type": "number", "exclusiveMaximum": 1e300},
    "constant": {"const": 1},
    "either": {"type": ["string", "number"]},
    "anything": {},
    "day": {"type": "string", "format": "date"},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "several": {"type": "array", "items": {"type": "number"}},
    "prices": {"type": "object", "additionalProperties": {"type": "number", "multipleOf": 0.001}},
    "inner": {"type": "object", "minProperties": 1, "properties": {"n": {"type": "number"}, "i": {"type": "integer"}}},
}
OWN: Final = {"type": "object", "properties": KINDS, "dependentRequired": {"n": ["integer"]}}
ODD: Final = [
    *("0", "-0", "1", "1.0", "-0.0", "3", "1e0", "0.10", "0.1", "12.345", "1e23", "1e400", "-1E+400", "1e-400"),
    *("9007199254740993", "9007199254740993.0", "9223372036854775807.0", "9223372036854775808"),
    *("1.8446744073709551615e19", "0.1234567890123456789", "12345678901234567890.0", "9" * 40, "9" * 400, "9" * 5000),
    *("9" * 400 + ".0", "9" * 400 + ".5", "1e3999", "1e-3999", "1e9999", "1e1000000000", "1e-1000000000", "0e99999"),
    *("1e99999999999999999999", "1e39", "1e300", "NaN", "Infinity", "-", "01", "1.", ".5", "true", "null", "{}", "[]"),
    *('"NaN"', '"1e400"', '"9007199254740993"', '"1.5"', '"\\ud800"', '"\\ud800\\udc00"', '"\\u0000"', '""'),
    *("[" * 70 + "]" * 70, "[" * 63 + "]" * 63, "[" * 5000, '{"a":' * 70 + "1" + "}" * 70, '{"a":1,"a":2}'),
]
POLICIES: Final = [
    Policy(),
    Policy(on_schema_violation="tag"),
    Policy(columns="as_sent"),
    Policy(on_schema_violation="tag", columns="as_sent", rescue="drop"),
    Policy(on_duplicate_names="dead_letter", rescue="drop", unknown_fields="drop"),
]


@cache
def documents() -> list[tuple[str, JSONObject]]:
    definition = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "own.kinds"}},
        "dataschemaformat": "JsonSchema/draft/2020-12",
        "dataschema": OWN,
    }
    files = [(str(path), yaml.safe_load(path.read_bytes())) for path in FILES]
    return [*files, ("own", {"messagegroups": {"own": {"messages": {"kinds": definition}}}})]


def event_types() -> dict[str, str]:
    types_by_xid = {}
    for _, document in documents():
        for group, members in document.get("messagegroups", {}).items():
            for message, definition in members.get("messages", {}).items():
                kind = definition.get("envelopemetadata", {}).get("type", {}).get("value")
                if kind:
                    types_by_xid[f"/messagegroups/{group}/messages/{message}"] = kind
    return types_by_xid


def payload(shape: Shape, choose: random.Random, odd: str, depth: int = 0) -> str:
    """Return JSON for ``shape``: ``odd`` in about every third place, else any of the others."""
    match shape:
        case Struct() if depth < 6:
            parts = (f'"{field.name}":{payload(field.shape, choose, odd, depth + 1)}' for field in shape.fields)
            return "{" + ",".join(part for part in parts if choose.random() < 0.7) + "}"
        case ListOf() if depth < 6:
            return "[" + ",".join(payload(shape.item, choose, odd, depth + 1) for _ in range(choose.randrange(3))) + "]"
        case MapOf() if depth < 6:
            return f'{{"k":{payload(shape.value, choose, odd, depth + 1)}}}'
    return odd if choose.random() < 0.4 else choose.choice(("1", '"x"', "2.5", "null"))


def records(definition: CompiledDefinition, kind: str) -> Iterator[tuple[bytes, list[tuple[str, bytes]]]]:
    schema = definition.schema_use.schema
    assert schema is not None
    choose = random.Random(7)
    for number, odd in enumerate([odd for odd in ODD for _ in range(3)]):
        data = payload(schema.shape(), choose, odd) if number % 3 else f'{{"undeclared":{odd}}}'
        event = f'"specversion":"1.0","id":"{number}","source":"/s","type":"{kind}"'
        yield f'{{{event},"data":{data}}}'.encode(), [("content-type", b"application/cloudevents+json")]
        stated = {"ce_id": f"b{number}".encode(), "ce_source": b"/s", "ce_type": kind.encode()}
        yield data.encode(), event_headers({"content-type": b"application/json", **stated})


class Rows:
    def __init__(self) -> None:
        self.tables: dict[TableName, list[JSONObject]] = defaultdict(list)

    def add(self, name: TableName, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)
        self.tables[name] += batch.to_pylist()


def process(policy: Policy, *, slow: bool) -> tuple[dict[str, Any], Processing]:
    contract = Snapshot.of_documents(documents()).compile(policy)
    landing = Rows()
    bookkeeping = Bookkeeping(fingerprint="f", batch="b", landed_at=datetime(2026, 1, 1, tzinfo=UTC))
    processing = Processing(contract, KAFKA, landing, bookkeeping)
    for xid, kind in event_types().items():
        definition = contract.definitions[xid]
        if definition.schema_use.schema is not None:
            for batch in batches(*records(definition, kind)):
                processing.take(replace(batch, slow_path=slow))
    processing.clear()
    landed = {f"{name} {row['ce_id']}": row for name, part in landing.tables.items() for row in part if "ce_id" in row}
    return landed, processing


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.merge) for number in (1, 2)), 3, 4])
def test_odd_values_end_no_batch(number: int) -> None:
    policy = POLICIES[number]
    fast, processing = process(policy, slow=False)
    tally = processing.tally
    assert tally.read == tally.landed.total() + tally.dead_lettered + tally.dropped
    slow, _ = process(policy, slow=True)
    assert fast.keys() == slow.keys()
    assert fast
    for key, row in fast.items():
        assert comparable(row) == comparable(slow[key])


def comparable(row: JSONObject) -> str:
    """Return a row as text, its JSON without spelling and order; ``nan`` is not itself."""
    return str({name: spelt(value) for name, value in row.items() if name not in ("_position", "_source")})


def spelt(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "{[-0123456789":
        try:
            return f"JSON {spelt(read_json(value.encode()))!r}"
        except PayloadError:
            return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize(Context(prec=500))
    if isinstance(value, dict):
        return {name: spelt(member) for name, member in sorted(value.items())}
    return [spelt(item) for item in value] if isinstance(value, list) else value
