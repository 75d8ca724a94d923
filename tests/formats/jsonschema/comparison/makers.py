"""Random JSON Schemas, changed schemas, and values that lie close to what two schemas say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from signalbook.values import JSON, JSONObject

NAMES: Final = ["a", "b", "ab", "c"]
PATTERNS: Final = ["^a", "b", "^c$"]
SCALARS: Final[list[JSON]] = [None, True, False, 0, 1, 2, 3, 1.0, 1.5, 0.3, 2.02, -1, "", "a", "ab", "abc"]
TYPES: Final = ["null", "boolean", "integer", "number", "string", "array", "object"]
_KINDS: Final[dict[str, list[str]]] = {
    "number": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    "string": ["minLength", "maxLength", "pattern"],
    "array": ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
              "unevaluatedItems"],
    "object": ["properties", "properties", "required", "additionalProperties", "patternProperties", "minProperties",
               "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"],
    "any": ["allOf", "anyOf", "oneOf", "not", "if", "enum", "const", "$ref"],
}  # fmt: skip


# What most schemas are made of: keywords that hardly ever contradict each other.
_PLAIN: Final[dict[str, list[str]]] = {
    "number": _KINDS["number"],
    "string": ["minLength", "maxLength"],
    "array": ["items", "items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
    "object": ["properties", "properties", "properties", "required", "additionalProperties", "minProperties",
               "maxProperties", "dependentRequired"],
    "any": ["anyOf", "enum", "const", "$ref"],
}  # fmt: skip


class Maker:
    """Makes schemas and changes them by chance, of all keywords if they may be ``wild``."""

    def __init__(self, dice: Random, *, wild: bool) -> None:
        self.dice = dice
        self.wild = wild
        self.kinds = _KINDS if wild else _PLAIN

    def document(self) -> JSONObject:
        root = self.schema(0)
        # A document whose top says nothing is a collection of definitions.
        return {
            "maxProperties": 9,
            **(root if isinstance(root, dict) else {"allOf": [root]}),
            "$defs": {"x": self.schema(2), "y": self.schema(2)},
        }

    def schema(self, depth: int) -> JSON:
        chance = self.dice.random()
        if depth > 3 or (depth > 0 and chance < 0.1):
            return self.dice.choice([True, True, {}, False, {"type": self.dice.choice(TYPES)}])
        if chance < 0.15 and self.wild:
            keywords = self.dice.sample([name for kind in self.kinds.values() for name in kind], 3)
            return {name: self.keyword(name, depth) for name in keywords}
        kind = self.dice.choice(["number", "string", "array", "object", "object", "object", "any"])
        found: JSONObject = {}
        if kind != "any" and self.dice.random() < 0.8:
            own = self.dice.choice(["number", "integer"]) if kind == "number" else kind
            found["type"] = own if self.dice.random() < 0.8 else [own, "null"]
        for name in self.dice.choices(self.kinds[kind], k=self.dice.randint(1, 3 if kind == "object" else 2)):
            found[name] = self.keyword(name, depth)
        if "if" in found:
            found |= {name: self.schema(depth + 1) for name in ("then", "else") if self.dice.random() < 0.7}
        return found

    def value(self, depth: int = 0) -> JSON:
        chance = self.dice.random()
        if depth > 1 or chance < 0.7:
            return self.dice.choice(SCALARS)
        if chance < 0.85:
            return [self.value(depth + 1) for _ in range(self.dice.randint(0, 2))]
        return {name: self.value(depth + 1) for name in self.some(NAMES, 2)}

    def some(self, items: list[Any], most: int, least: int = 0) -> list[Any]:
        return self.dice.sample(items, self.dice.randint(least, most))

    def keyword(self, name: str, depth: int) -> JSON:
        dice = self.dice
        match name:
            case "enum":
                return [self.value() for _ in range(dice.randint(1, 3))]
            case "const":
                return self.value()
            case "$ref":
                return dice.choice(["#/$defs/x", "#/$defs/y", *(["#"] if self.wild else [])])
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                return dice.choice([0, 1, 2, 0.5, 1.5, 2.5])
            case "multipleOf":
                return dice.choice([1, 2, 0.5, 0.25, 0.1, 0.02])
            case "uniqueItems":
                return dice.random() < 0.8
            case "pattern":
                return dice.choice(PATTERNS)
            case "required":
                return self.some(NAMES, 2, 1)
            case "dependentRequired":
                return {one: self.some(NAMES, 2) for one in self.some(NAMES, 2, 1)}
            case "properties" | "dependentSchemas":
                return {one: self.schema(depth + 1) for one in self.some(NAMES, 3, 1)}
            case "patternProperties":
                return {one: self.schema(depth + 1) for one in self.some(PATTERNS, 2, 1)}
            case "propertyNames":
                return dice.choice([{"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a", "b"]}, self.schema(depth + 1)])
            case "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems":
                return False if dice.random() < 0.6 else self.schema(depth + 1)
            case "allOf" | "anyOf" | "oneOf" | "prefixItems":
                return [self.schema(depth + 1) for _ in range(dice.randint(1, 3))]
            case "items" | "contains" | "not" | "if":
                return self.schema(depth + 1)
        return dice.randint(0, 2)

    def changed(self, schema: JSON, depth: int = 0) -> JSON:
        """A schema that differs here and there, or not at all."""
        if not isinstance(schema, dict):
            return schema
        found: JSONObject = {}
        for name, item in schema.items():
            chance = self.dice.random()
            if chance < 0.8 or name in ("$defs", "maxProperties"):
                found[name] = self._changed_parts(item, depth + 1) if name not in ("const", "enum") else item
            elif chance < 0.9 and name not in ("then", "else", "type"):
                found[name] = self.keyword(name, max(2, depth))
        if self.dice.random() < 0.1:
            name = self.dice.choice(self.dice.choice(list(self.kinds.values())))
            found[name] = self.keyword(name, max(2, depth))
        return found

    def _changed_parts(self, item: JSON, depth: int) -> JSON:
        """What a keyword says, with its schemas changed: one, several, or several by name."""
        if isinstance(item, list):
            return [self.changed(part, depth) for part in item]
        if isinstance(item, dict) and (not item or {*NAMES, *PATTERNS, "x", "y"} & item.keys()):
            return {name: self.changed(part, depth) for name, part in item.items() if self.dice.random() < 0.95}
        return self.changed(item, depth)


class Guide:
    """Makes values that a writer's schema is likely to accept, near the limits that a reader's schema sets."""

    def __init__(self, dice: Random, writer: JSONObject, reader: JSONObject, paths: Iterable[str]) -> None:
        self.dice = dice
        self.paths = [frozenset(path.split("/")) for path in paths]
        self.focus: frozenset[str] = frozenset()
        self.roots = (writer, reader)
        self.scalars: list[JSON] = [None, True, False, 0, 1, -1, 0.5, 7, 7.25, "", "a", "q", "abcd"]
        self.names: dict[str, None] = dict.fromkeys([*NAMES, "z", "bz", "az"])
        self.sizes: dict[int, None] = dict.fromkeys([0, 1, 2])
        for root in self.roots:
            self._collect(root)

    def _collect(self, node: JSON) -> None:
        if isinstance(node, list):
            for item in node:
                self._collect(item)
        elif isinstance(node, dict):
            for name, item in node.items():
                if name in ("const", "enum"):
                    self.scalars += item if name == "enum" and isinstance(item, list) else [item]
                elif type(item) in (int, float):
                    self.scalars += [item * 126, item, item + 1, item - 1, item + 0.5, item - 0.25, item * 3]
                    if type(item) is int:
                        self.sizes |= dict.fromkeys([max(0, item - 1), item, item + 1])
                self._collect(item)

    def value(self) -> JSON:
        """Make a value that usually has the members and items on the path of a difference."""
        self.focus = self.dice.choice(self.paths) if self.paths and self.dice.random() < 0.7 else frozenset()
        return self._of([(0, self.roots[0]), (1, self.roots[1])], 0)

    def _applied(self, views: list[tuple[int, JSON]]) -> list[tuple[int, JSONObject]]:
        """The schemas that apply to the same value, one alternative of each union."""
        found: list[tuple[int, JSONObject]] = []
        waiting = list(views)
        while waiting and len(found) < 40:
            side, schema = waiting.pop()
            if not isinstance(schema, dict):
                continue
            found.append((side, schema))
            more: list[JSON] = list(schema.get("allOf", ()))
            for keyword in ("anyOf", "oneOf"):
                if isinstance(schema.get(keyword), list):
                    more.append(self.dice.choice(schema[keyword]))
            if "if" in schema:
                more += [schema["if"], schema.get("then")] if self.dice.random() < 0.5 else [schema.get("else")]
            more += [item for item in schema.get("dependentSchemas", {}).values() if self.dice.random() < 0.5]
            if "not" in schema and self.dice.random() < 0.2:
                more.append(schema["not"])
            if isinstance(schema.get("$ref"), str):
                more.append(self._resolve(side, schema["$ref"]))
            waiting += [(side, item) for item in more]
        return found

    def _resolve(self, side: int, ref: str) -> JSON:
        node: JSON = self.roots[side]
        for part in ref.split("/")[1:]:
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _of(self, views: list[tuple[int, JSON]], depth: int) -> JSON:
        dice = self.dice
        if len(views) > 1 and dice.random() < 0.2:
            views = [dice.choice(views)]
        schemas = self._applied(views)
        if dice.random() < 0.08 or depth > 4:
            return dice.choice(self.scalars)
        writers = [schema for side, schema in schemas if side == 0] or [schema for _, schema in schemas]
        listed = [
            item for one in writers for item in [*one.get("enum", ()), *([one["const"]] if "const" in one else [])]
        ]
        if listed and dice.random() < 0.9:
            return dice.choice(listed)
        listed = [one for _, one in schemas if "const" in one or "enum" in one]
        if listed and dice.random() < 0.3:
            one = dice.choice(listed)
            return dice.choice(one["enum"]) if one.get("enum") else one.get("const")
        kinds = {*TYPES}
        for one in writers:
            if "type" in one:
                said = one["type"] if isinstance(one["type"], list) else [one["type"]]
                kinds &= {*said, *(["integer"] if "number" in said else [])}
        if not kinds or dice.random() < 0.05:
            kinds = {*TYPES}
        if len(kinds) > 2 and dice.random() < 0.7:
            keywords = {keyword for _, one in schemas for keyword in one}
            kinds = {kind for kind in kinds if keywords & {*_KINDS.get(kind, ())}} or kinds
        kind = dice.choice(sorted(kinds))
        match kind:
            case "null":
                return None
            case "boolean":
                return dice.random() < 0.5
            case "integer" | "number":
                return dice.choice([one for one in self.scalars if type(one) in (int, float)])
            case "string":
                if dice.random() < 0.5:
                    return dice.choice([one for one in self.scalars if isinstance(one, str)])
                size = dice.choice([*self.sizes])
                return (dice.choice(["a", "b", "c", "ab", "q"]) + dice.choice("abq") * size)[:size]
            case "array":
                return self._array(schemas, depth)
        return self._object(schemas, writers, depth)

    def _array(self, schemas: list[tuple[int, JSONObject]], depth: int) -> list[JSON]:
        found: list[JSON] = []
        size = self.dice.choice([*self.sizes])
        if self.focus and self.dice.random() < 0.6:
            size = 1 + max((int(part) for part in self.focus if part.isdigit()), default=0)
        for index in range(size):
            if found and self.dice.random() < 0.25:
                found.append(self.dice.choice(found))
                continue
            views: list[tuple[int, JSON]] = []
            for side, one in schemas:
                prefix = one.get("prefixItems", [])
                if index < len(prefix):
                    views.append((side, prefix[index]))
                else:
                    views += [(side, one[name]) for name in ("items", "unevaluatedItems") if name in one]
                if "contains" in one and self.dice.random() < 0.5:
                    views.append((side, one["contains"]))
            found.append(self._of(views, depth + 1))
        return found

    def _object(self, schemas: list[tuple[int, JSONObject]], writers: list[JSONObject], depth: int) -> JSONObject:
        dice = self.dice
        required = [name for one in writers for name in one.get("required", ())]
        mentioned = [name for _, one in schemas for name in [*one.get("properties", ()), *one.get("required", ())]]
        density = dice.choice([0.0, 0.3, 0.7])
        names = [name for name in required if dice.random() < 0.95]
        if self.focus:
            names += [name for name in dict.fromkeys(mentioned) if name in self.focus and dice.random() < 0.8]
            density = dice.choice([0.05, 0.05, 0.7])
        names += [name for name in mentioned if dice.random() < density]
        names += [name for name in self.names if dice.random() < density / 5]
        if dice.random() < 0.3:
            names = names[: dice.choice([*self.sizes])]
        names += [
            needed
            for one in writers
            for name, several in one.get("dependentRequired", {}).items()
            for needed in several
            if name in names and dice.random() < 0.9
        ]
        if dice.random() < 0.1:
            names += [f"m{number}" for number in range(dice.choice([*self.sizes]))]
        names = list(dict.fromkeys(names))
        dice.shuffle(names)
        found: JSONObject = {}
        for name in names:
            views: list[tuple[int, JSON]] = []
            for side, one in schemas:
                own = [(side, one["properties"][name])] if name in one.get("properties", {}) else []
                patterns = one.get("patternProperties", {})
                own += [(side, patterns[p]) for p in patterns if _MATCHES[p](name)]
                others = [(side, one[key]) for key in ("additionalProperties", "unevaluatedProperties") if key in one]
                views += own or others
            found[name] = self._of(views, depth + 1)
        return found


_MATCHES: Final[dict[str, Callable[[str], bool]]] = {
    "^a": lambda name: name[:1] == "a",
    "b": lambda name: "b" in name,
    "^c$": lambda name: name == "c",
}
