"""Avro schemas are stored as Avro's library for Java writes them, which is run beside."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from signalbook.confluent.avro import rewrite_schema
from signalbook.formats.avro.format import AvroFormat
from signalbook.formats.base import SchemaError

JARS = Path(sys.prefix) / "brokers" / "iceberg"
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Made:
    """Schemas at random, each with its members in any order, and names as long as any writer makes them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._numbers = count()
        self._defined: list[str] = []

    def schema(self, depth: int, space: str) -> Any:
        chosen = self._random.randrange(8 if depth else 2)
        if chosen == 0:
            return self._random.choice(PRIMITIVES)
        if chosen == 1:
            return self._primitive() if self._random.random() < 0.6 or not self._defined else self._named_before(space)
        if chosen == 2:
            return self._any_order({"type": "array", "items": self.schema(depth - 1, space), "x": {"b": 1, "a": 2}})
        if chosen == 3:
            return self._any_order({"type": "map", "values": self.schema(depth - 1, space)})
        if chosen == 4:
            return ["null", {"type": "array", "items": self.schema(depth - 1, space)}]
        return self._named(depth, space)

    def _primitive(self) -> dict[str, Any]:
        kind = self._random.choice(PRIMITIVES)
        more: tuple[dict[str, Any], ...] = (
            {},
            {"name": "x"},
            {"logicalType": "none", "precision": 4},
            {"size": 4, "note": "ü"},
        )
        return self._any_order({"type": kind, **self._random.choice(more)})

    def _named_before(self, space: str) -> str:
        full = self._random.choice(self._defined)
        namespace, _, name = full.rpartition(".")
        return name if namespace == space and self._random.random() < 0.5 else full

    def _named(self, depth: int, space: str) -> dict[str, Any]:
        name = f"N{next(self._numbers)}"
        namespace = self._random.choice(("", "a.b", "c", space))
        style = self._random.randrange(3) if namespace else 1
        definition: dict[str, Any] = {"name": f"{namespace}.{name}" if style == 0 else name}
        if style == 1 or namespace != space:
            definition["namespace"] = namespace
        if self._random.random() < 0.5:
            definition["doc"] = 'what it "is"'
        if self._random.random() < 0.3:
            definition["aliases"] = [f"{namespace}.Old{name}" if namespace else f"Old{name}", "z.Older"]
        full = f"{namespace}.{name}" if namespace else name
        kind = self._random.choice(("record", "enum", "fixed", "error"))
        definition |= {"type": kind, "extra": [1, {"q": None}]}
        if kind == "enum":
            definition |= {"symbols": ["A", "B"], **({"default": "A"} if self._random.random() < 0.5 else {})}
        elif kind == "fixed":
            definition |= {"size": 12}
        self._defined.append(full)
        if kind in ("record", "error"):
            definition["fields"] = [
                self._field(number, depth, namespace) for number in range(self._random.randrange(4))
            ]
        return self._any_order(definition)

    def _field(self, number: int, depth: int, space: str) -> dict[str, Any]:
        field: dict[str, Any] = {"name": f"f{number}", "type": self.schema(depth - 1, space)}
        more: tuple[tuple[str, Any], ...] = (
            ("doc", "a field"),
            ("default", None),
            ("order", self._random.choice(("ascending", "descending", "ignore"))),
            ("aliases", ["g"]),
            ("tag", {"z": 1, "y": 2}),
        )
        field |= {name: value for name, value in more if self._random.random() < 0.3}
        return self._any_order(field)

    def _any_order(self, schema: dict[str, Any]) -> dict[str, Any]:
        names = list(schema)
        self._random.shuffle(names)
        return {name: schema[name] for name in names}


def schemas() -> Iterator[Any]:
    yield from PRIMITIVES
    for seed in range(500):
        yield Made(seed).schema(3, "")


@pytest.mark.merge
def test_schema_has_the_text_of_java() -> None:
    every = list(schemas())
    command = ["java", "-cp", str(JARS / "*"), str(Path(__file__).parent / "Parse.java")]
    lines = "\n".join(map(json.dumps, every))
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    for schema, text in zip(every, ran.stdout.splitlines(), strict=True):
        assert json.dumps(rewrite_schema(schema)) == json.dumps(json.loads(text))


def test_parsing_is_idempotent() -> None:
    for schema in schemas():
        assert rewrite_schema(rewrite_schema(schema)) == rewrite_schema(schema)


@pytest.mark.parametrize(
    "broken",
    [None, 5, {}, {"type": 5}, {"type": "array"}, [[5]],
     {"type": "record", "name": "R", "fields": [5, {"name": "a"}, {"type": "int"}]},
     {"type": "enum", "name": "E", "aliases": 5}, {"type": ["int", {"type": []}], "x": 1}],
)  # fmt: skip
def test_invalid_schema_is_unchanged(broken: Any) -> None:
    assert rewrite_schema(rewrite_schema(broken)) == rewrite_schema(broken)


@pytest.mark.parametrize("schema", [{"type": "record"}, {"type": "enum", "name": 5}, {"type": "fixed", "size": 1}])
def test_types_without_a_name_are_unchanged(schema: Any) -> None:
    assert rewrite_schema(schema) == schema


@pytest.mark.parametrize("aliases", ["A", "", None, {}, [5]])
def test_aliases_that_are_no_names_are_left_to_be_refused(aliases: Any) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": aliases}]}
    for schema in (record, {"type": "enum", "name": "E", "symbols": ["S"], "aliases": aliases}):
        document = json.dumps(rewrite_schema(schema)).encode()
        with pytest.raises(SchemaError, match="aliases are an array of names"):
            AvroFormat().parse(document, "Avro/1.12.0")
