"""Every verdict on random pairs of Avro schemas is sound and every reason true, judged by fastavro (G-30)."""

import re
from io import BytesIO
from random import Random
from typing import Any

import fastavro
from tests.formats.reasons import Tally, judge_pairs

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.values import JSON, JSONObject, dump_json

NAMES = ["a", "b", "c"]
SIMPLE = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
LOGICAL: list[JSONObject] = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
]
DEFAULTS: dict[str, JSON] = {"null": None, "boolean": True, "int": 1, "long": 2, "double": 1.5, "string": "s"}
# Libraries disagree about these: fastavro reads the value one way or another.
SKIPPED = {"alias_ambiguous", "union_ambiguous"}
WIDER: dict[str, list[JSON]] = {
    "int": ["long", "float", "double", ["null", "long"]], "long": ["float", "double"], "float": ["double"],
    "string": ["bytes", ["bytes", "null"]],
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "null": [None], "boolean": [True, False], "int": [0, 1, -9, 2**31 - 1], "long": [0, 5, 2**40], "float": [0.5],
    "double": [0.25, 1e300], "string": ["", "s", "é"], "bytes": [b"", b"x"],
}  # fmt: skip
FAILED = object()


class Maker:
    """Makes schemas and changes them by chance; each named type has a namespace of its own."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def type(self, depth: int = 2) -> JSON:
        dice = self.dice
        kinds = ["simple", "simple", "enum", "fixed", "logical"]
        match dice.choice(kinds + (["array", "map", "record", "record", "record", "union"] if depth else [])):
            case "simple":
                return dice.choice(SIMPLE)
            case "logical":
                return dict(dice.choice(LOGICAL))
            case "enum":
                return self.enum()
            case "fixed":
                return {"type": "fixed", "name": dice.choice(["F", "F", "G"]), "size": dice.randint(1, 2)}
            case "array":
                return {"type": "array", "items": self.type(depth - 1)}
            case "map":
                return {"type": "map", "values": self.type(depth - 1)}
            case "union":
                branches = {
                    label(branch_type): branch_type
                    for branch_type in (self.type(dice.choice([0, 0, 1])) for _ in range(3))
                }
                return [branch_type for branch_type in branches.values() if not isinstance(branch_type, list)] or [
                    "null"
                ]
        fields = [self.field(name, depth) for name in dice.sample(NAMES, dice.randint(0, 3))]
        return {"type": "record", "name": dice.choice(["R", "R", "S"]), "fields": fields}

    def enum(self) -> JSONObject:
        symbols = self.dice.sample("ABC", self.dice.randint(1, 3))
        default = {"default": symbols[0]} if self.dice.random() < 0.3 else {}
        return {"type": "enum", "name": self.dice.choice(["E", "E", "D"]), "symbols": symbols, **default}

    def field(self, name: str, depth: int) -> JSONObject:
        kind = self.type(depth - 1)
        field: JSONObject = {"name": name, "type": kind}
        if isinstance(kind, str) and kind in DEFAULTS and self.dice.random() < 0.5:
            field["default"] = DEFAULTS[kind]
        if self.dice.random() < 0.1:
            field["aliases"] = [self.dice.choice(NAMES)]
        return field

    def changed(self, node: JSON) -> JSON:
        """A type that differs here and there, or not at all."""
        dice = self.dice
        if dice.random() < 0.1:
            return self.type(1)
        if isinstance(node, list):
            changed_branches = [self.changed(part) for part in node if dice.random() < 0.9]
            by_label = {label(part): part for part in changed_branches if not isinstance(part, list)}
            return dice.sample(list(by_label.values()), len(by_label)) or ["null"]
        if isinstance(node, str) or "logicalType" in node or node["type"] == "fixed":
            wider = WIDER.get(node, []) if isinstance(node, str) else []
            return dice.choice([node, node, ["null", node], *wider]) if node != "null" else node
        if node["type"] == "enum":
            return dice.choice([node, {**self.enum(), "name": node["name"]}])
        for inner in {"items", "values"} & node.keys():
            return {**node, inner: self.changed(node[inner])}
        fields = [{**part, "type": self.changed(part["type"])} for part in node["fields"] if dice.random() < 0.85]
        for part in fields:
            if dice.random() < 0.1:
                part |= {"name": "n", "aliases": [part["name"]]}
        fields += [self.field("d", 1)] if dice.random() < 0.2 else []
        for part in fields:
            if not isinstance(part["type"], str):
                part.pop("default", None)
            elif "default" in part:
                part["default"] = DEFAULTS.get(part["type"], 1 if part["type"] == "float" else "s")
        several = {part["name"]: part for part in fields}
        return {**node, "fields": dice.sample(list(several.values()), len(several))}

    def value(self, node: JSON) -> Any:
        """A value of a type."""
        if isinstance(node, list):
            branch = self.dice.choice(node)
            return (label(branch), self.value(branch))
        kind = node if isinstance(node, str) else node["type"]
        if isinstance(node, dict) and "logicalType" in node:
            return b"x" if kind == "bytes" else 5
        if kind in VALUES:
            return self.dice.choice(VALUES[kind])
        if kind == "enum":
            return self.dice.choice(node["symbols"])
        if kind == "fixed":
            return b"xy"[: node["size"]]
        if kind == "array":
            return [self.value(node["items"]) for _ in range(self.dice.randint(0, 2))]
        if kind == "map":
            return {name: self.value(node["values"]) for name in self.dice.sample("kl", self.dice.randint(0, 2))}
        return {field["name"]: self.value(field["type"]) for field in node["fields"]}


def settled(node: JSON, path: str = "n") -> JSON:
    """Return ``node`` with a namespace of its own for each named type, so that none is defined twice."""
    if isinstance(node, list):
        return [settled(branch, f"{path}.u{index}") for index, branch in enumerate(node)]
    if isinstance(node, str):
        return node
    renamed = {**node, **({"namespace": path} if "name" in node else {})}
    renamed |= {key: settled(node[key], f"{path}.i") for key in ("items", "values") if key in node}
    if "fields" in node:
        renamed["fields"] = [
            {**part, "type": settled(part["type"], f"{path}.{part['name']}")} for part in node["fields"]
        ]
    return renamed


def label(node: JSON) -> str:
    """Return the label that distinguishes the alternatives of a union."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node
    return ".".join(filter(None, (node.get("namespace"), node["name"]))) if "name" in node else str(node["type"])


def plain(node: JSON) -> JSON:
    """A type without logical types, so that values are what the bytes hold."""
    if isinstance(node, list):
        return [plain(branch_type) for branch_type in node]
    if isinstance(node, dict):
        return {key: plain(item) for key, item in node.items() if key not in ("logicalType", "precision", "scale")}
    return node


class Channel:
    """Values that are written with one schema and read with another."""

    def __init__(self, writer: JSON, reader: JSON) -> None:
        self.plain, self.writer, self.reader = (
            fastavro.parse_schema(schema) for schema in (plain(writer), writer, reader)
        )

    def read(self, value: Any) -> Any:
        """Return what the library reads, or ``FAILED`` where it cannot."""
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self.plain, value)
        stream.seek(0)
        try:
            return fastavro.schemaless_reader(stream, self.writer, self.reader)
        except Exception:
            return FAILED


def branches(node: JSON) -> list[JSON]:
    """The alternatives of a union, or the type itself."""
    return node if isinstance(node, list) else [node]


def meanings(writer: JSON, reader: JSON) -> set[Any]:
    """Return what the logical types of both sides make of the same bytes."""
    logical = [
        branch_type for side in (writer, reader) for branch_type in branches(side) if "logicalType" in branch_type
    ]
    return {
        Channel(branch_type, branch_type).read(b"x" if branch_type["type"] == "bytes" else 5) for branch_type in logical
    }


STEP = re.compile(r"\.(\w+)|(\[\])|(\{\})|<([\w.]+)>")


def inside(writer: JSON, reader: JSON, path: str) -> list[tuple[JSON, JSON]]:
    """Return the pairs of types that the path of a difference leads to."""
    matching = [branch_type for branch_type in branches(reader) if path.startswith(label(branch_type) + ".")]
    matching += [branch_type for branch_type in branches(reader) if path == label(branch_type)]
    pairs = [(writer, branch_type) for branch_type in matching] or [(writer, reader)]
    path = path.removeprefix(label(matching[0])) if matching else path
    for name, item, value, branch in STEP.findall(path):
        pairs = [
            pair
            for branch_type in pairs
            for pair in _step(*branch_type, name, "items" if item else "values" if value else "", branch)
        ]
    return pairs


def _step(writer: JSON, reader: JSON, name: str, inner: str, branch: str) -> list[tuple[JSON, JSON]]:
    written, readers = branches(writer), branches(reader)
    if branch:
        return [(old, new) for old in written for new in readers if label(new) == branch]
    pairs: list[tuple[JSON, JSON]] = []
    for old in written:
        for new in readers:
            if inner:
                if isinstance(old, dict) and isinstance(new, dict) and inner in old and inner in new:
                    pairs.append((old[inner], new[inner]))
            elif isinstance(old, dict) and isinstance(new, dict) and "fields" in old and "fields" in new:
                for part in (field for field in new["fields"] if field["name"] == name):
                    names = [part["name"], *part.get("aliases", ())]
                    source = next((field for n in names for field in old["fields"] if field["name"] == n), None)
                    pairs.append((source["type"] if source else None, part["type"]) if source else (old, new))
    return pairs


def list_differences(reader: JSON, writer: JSON) -> list[Difference]:
    new, old = (SchemaText(document=dump_json(schema), format="Avro/1.11") for schema in (reader, writer))
    return FORMAT.differences(new, old)


def judge(dice: Random, tally: Tally) -> None:
    maker = Maker(dice)
    first = maker.type()
    second = maker.changed(first) if dice.random() < 0.8 else maker.type()
    writer, reader = settled(first), settled(second)
    try:
        differences = list_differences(reader, writer)
    except SchemaError:
        tally.counts["no schema"] += 1
        return
    again = {**writer, "doc": "again"} if isinstance(writer, dict) else writer
    assert {difference.rule for difference in list_differences(again, writer)} <= SKIPPED
    pair = f"{dump_json(writer).decode()} read as {dump_json(reader).decode()}"

    def rejections() -> Any:
        channel = Channel(writer, reader)
        values = (maker.value(writer) for _ in range(20))
        yield from (value for value in values if channel.read(value) is FAILED)

    def describes(difference: Difference, _: Any) -> bool:
        for old, new in inside(writer, reader, difference.path):
            # The library converts by the writer's logical type: that the reader's is another one is not seen there.
            if difference.rule in MISREAD and len(meanings(old, new)) > 1:
                return True
            channel = Channel(old, new)
            if any(channel.read(maker.value(old)) is FAILED for _ in range(40)):
                return True
        return False

    tally.add(pair, differences, rejections() if not differences else [None], describes)


MISREAD = {"logical_type_changed", "decimal_changed"}


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs, SKIPPED)
