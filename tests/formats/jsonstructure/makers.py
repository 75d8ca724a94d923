"""Random JSON Structure documents, changed documents, and values that are likely to be of a type."""

from random import Random

from signalbook.formats.jsonstructure.types import PRIMITIVES, Structure, resolve_type
from signalbook.values import JSON, JSONObject

KINDS = sorted(PRIMITIVES)
NAMES = ["a", "b", "c"]
MEMBERS = [*NAMES, "base", "z"]
TYPES = ["P", "Q", "R"]
SAMPLES: list[JSON] = [
    None, True, False, 0, 1, -1, 127, 200, -128, 300, 3400, 3401, 70000, 2**31, 0.5, 1e39, 1.0, 5.0,
    "", "a", "abc", "0", "-0", "1", "-1", "12", "0.5", "-0.25", "12.34", "300",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615", "340282366920938463463374607431768211455",
    "-170141183460469231731687303715884105728",
    "2030-12-31", "2030-12-31T23:59:59Z", "23:59:59Z", "P1D", "P1Y2M3DT4H5M6.789012345S",
    "123e4567-e89b-12d3-a456-426614174000", "https://example.com/x", "/a/b", "aGk=", "ab", "AB", "YQ", "_-8",
    "2031-01-01", "2031-01-01T00:00:00Z", "00:00:00Z", "P2D", "123e4567-e89b-12d3-a456-426614174001", "a b", "/a~1",
    "2032-02-02", "2032-02-02T00:00:00Z", "12:00:00Z", "P3D", "123e4567-e89b-12d3-a456-426614174002", "/b~0", 40000,
    "2033-03-03T03:03:03.123456789012+03:00", "03:03:03.123456789012+03:00",
    "/a b", "0.1234567890123456789012", "/a-longer-pointer-than-most-others-have", "https://example.com/a/longer/path/than/most",
]  # fmt: skip


class Maker:
    """Makes documents, changed documents and payloads by chance."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def document(self) -> JSONObject:
        abstract = {"type": "object", "abstract": True, "properties": {"base": self.type(2)}}
        definitions = {"Base": abstract, **{name: self.declared(name) for name in TYPES}}
        return self.named({"$root": "#/definitions/P", "definitions": definitions})

    def declared(self, name: str) -> JSONObject:
        definition = self.object(1) if name != "R" or self.dice.random() < 0.5 else self.type(1)
        if definition["type"] == "object" and self.dice.random() < 0.3:
            definition["$extends"] = "#/definitions/Base"
        return definition if isinstance(definition["type"], str) else self.object(1)

    def named(self, document: JSONObject) -> JSONObject:
        return {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/d", **document}

    def type(self, depth: int) -> JSONObject:
        chance = self.dice.random()
        if chance < 0.45 or depth > 3:
            return self.primitive()
        if chance < 0.55:
            return {"type": {"$ref": f"#/definitions/{self.dice.choice(TYPES)}"}}
        if chance < 0.65:
            kinds: list[JSON] = [*self.dice.sample(KINDS, 2), {"$ref": f"#/definitions/{self.dice.choice(TYPES)}"}]
            return {"type": self.dice.sample(kinds, self.dice.randint(1, 3))}
        if chance < 0.7:
            return {"type": "any"}
        if chance < 0.8:
            return {"type": self.dice.choice(["array", "set"]), "items": self.type(depth + 1)}
        if chance < 0.85:
            return {"type": "map", "values": self.type(depth + 1)}
        if chance < 0.9:
            names = self.dice.sample(NAMES, self.dice.randint(1, 2))
            return {"type": "tuple", "properties": {name: self.type(depth + 1) for name in names}, "tuple": names}
        if chance < 0.95:
            return self.choice(depth)
        return self.object(depth + 1)

    def choice(self, depth: int) -> JSONObject:
        names = self.dice.sample(NAMES, self.dice.randint(1, 2))
        if self.dice.random() < 0.5:
            return {"type": "choice", "choices": {name: self.type(depth + 1) for name in names}}
        choices = {name: {"type": {"$ref": f"#/definitions/{self.dice.choice(TYPES)}"}} for name in names}
        return {"type": "choice", "$extends": "#/definitions/Base", "selector": "a", "choices": choices}

    def primitive(self) -> JSONObject:
        schema: JSONObject = {"type": self.dice.choice(KINDS)}
        if self.dice.random() < 0.3:
            fitting = [value for value in SAMPLES if not PRIMITIVES[schema["type"]](value, schema)]
            schema["enum"] = self.dice.sample(fitting, min(2, len(fitting)))
        elif schema["type"] == "string" and self.dice.random() < 0.4:
            schema["maxLength"] = self.dice.choice([0, 2, 20, 36])
        elif schema["type"] == "decimal":
            for keyword in ("precision", "scale"):
                if self.dice.random() < 0.4:
                    schema[keyword] = self.dice.choice([0, 1, 2, 20])
        return schema

    def object(self, depth: int) -> JSONObject:
        names = self.dice.sample(NAMES, self.dice.randint(1, 3))
        schema: JSONObject = {"type": "object", "properties": {name: self.type(depth + 1) for name in names}}
        chance = self.dice.random()
        if chance < 0.3:
            schema["required"] = self.dice.sample(names, self.dice.randint(0, len(names)))
        elif chance < 0.45:
            schema["required"] = [self.dice.sample(names, self.dice.randint(0, len(names))) for _ in range(2)]
        more = self.dice.random()
        if more < 0.5:
            schema["additionalProperties"] = False
        elif more < 0.7:
            schema["additionalProperties"] = self.type(depth + 1)
        return schema

    def changed(self, node: JSON, depth: int = 0) -> JSON:
        """A document that differs here and there."""
        if not isinstance(node, dict):
            return node
        if depth > 1 and "type" in node and not node.get("abstract") and self.dice.random() < 0.08:
            return self.type(2)
        result = {name: self.changed(item, depth + 1) for name, item in node.items()}
        chance = self.dice.random()
        if "type" in node and chance < 0.1:
            for keyword in ("required", "additionalProperties", "enum", "maxLength", "precision", "scale"):
                result.pop(keyword, None)
        elif node.get("type") == "object" and chance < 0.2:
            result["properties"] = {**result["properties"], self.dice.choice(NAMES): self.type(2)}
        elif chance < 0.3 and isinstance(node.get("type"), str) and node["type"] in PRIMITIVES and "enum" not in node:
            result = {"type": self.dice.choice([*KINDS, "any"])}
        return result

    def value(self, structure: Structure, schema: JSON, depth: int = 0) -> JSON:
        """Return a probable value of a type."""
        schema = resolve_type(structure, schema) if isinstance(schema, dict) else {"type": "any"}
        kind = schema.get("type")
        if isinstance(kind, list):
            chosen = self.dice.choice(kind)
            return self.value(structure, {"type": chosen}, depth)
        if depth > 6 or kind == "any":
            return self.dice.choice([*SAMPLES, {}, [], {"a": 1}])
        if kind in PRIMITIVES:
            fitting = schema.get("enum") or [value for value in SAMPLES if not PRIMITIVES[kind](value, schema)]
            return self.dice.choice([*(fitting or SAMPLES), *([10**309] if schema == {"type": "number"} else [])])
        if kind in ("array", "set"):
            return [self.value(structure, schema["items"], depth + 1) for _ in range(self.dice.randint(0, 2))]
        if kind == "map":
            keys = self.some(MEMBERS)[: 1 if depth else None]  # a map of itself would grow to millions of members
            return {key: self.value(structure, schema["values"], depth + 1) for key in keys}
        members = structure.list_properties(schema)
        if kind == "tuple":
            return [self.value(structure, members[name], depth + 1) for name in schema["tuple"]]
        if kind == "choice":
            name = self.dice.choice(list(schema["choices"]))
            inner = self.value(structure, schema["choices"][name], depth + 1)
            return {**inner, "a": name} if "selector" in schema and isinstance(inner, dict) else {name: inner}
        needed = schema.get("required") or []
        needed = self.dice.choice(needed) if needed and isinstance(needed[0], list) else needed
        names = dict.fromkeys([*needed, *self.some([*members])])
        members_ = {name: self.value(structure, members[name], depth + 1) for name in names}
        more = schema.get("additionalProperties", True)
        if more is not False and self.dice.random() < 0.5:
            for name in self.some(MEMBERS)[: 1 if depth > 2 else None] or self.dice.sample(MEMBERS, 1):
                members_[name] = self.value(structure, more, depth + 1)
        if depth == 0 and self.dice.random() < 0.1:
            members_["$schema"] = "x"
        return members_

    def some(self, names: list[str]) -> list[str]:
        return self.dice.sample(names, self.dice.randint(0, len(names)))
