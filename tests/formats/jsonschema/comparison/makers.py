"""Random JSON Schemas, changed schemas, and values that lie close to what two schemas say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import unquote

from signalbook.formats.compatibility import Difference
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
        result: JSONObject = {}
        if kind != "any" and self.dice.random() < 0.8:
            type_name = self.dice.choice(["number", "integer"]) if kind == "number" else kind
            result["type"] = type_name if self.dice.random() < 0.8 else [type_name, "null"]
        for name in self.dice.choices(self.kinds[kind], k=self.dice.randint(1, 3 if kind == "object" else 2)):
            result[name] = self.keyword(name, depth)
        if "if" in result:
            result |= {name: self.schema(depth + 1) for name in ("then", "else") if self.dice.random() < 0.7}
        return result

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
                return {name_: self.some(NAMES, 2) for name_ in self.some(NAMES, 2, 1)}
            case "properties" | "dependentSchemas":
                return {name_: self.schema(depth + 1) for name_ in self.some(NAMES, 3, 1)}
            case "patternProperties":
                return {name_: self.schema(depth + 1) for name_ in self.some(PATTERNS, 2, 1)}
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
        result: JSONObject = {}
        for name, item in schema.items():
            chance = self.dice.random()
            if chance < 0.8 or name in ("$defs", "maxProperties"):
                result[name] = self._changed_parts(item, depth + 1) if name not in ("const", "enum") else item
            elif chance < 0.9 and name not in ("then", "else", "type"):
                result[name] = self.keyword(name, max(2, depth))
        if self.dice.random() < 0.1:
            name = self.dice.choice(self.dice.choice(list(self.kinds.values())))
            result[name] = self.keyword(name, max(2, depth))
        return result

    def _changed_parts(self, item: JSON, depth: int) -> JSON:
        """Return the value of a keyword with its schemas changed: a single schema, a list or a map of schemas."""
        if isinstance(item, list):
            return [self.changed(part, depth) for part in item]
        if isinstance(item, dict) and (not item or {*NAMES, *PATTERNS, "x", "y"} & item.keys()):
            return {name: self.changed(part, depth) for name, part in item.items() if self.dice.random() < 0.95}
        return self.changed(item, depth)


class Guide:
    """Makes values that a writer's schema is likely to accept, and a reader's schema to reject for known differences.

    Each value is for one difference. Where a schema of the reader leads to the place of the difference, the value has
    the member or item that is looked at there; at that place, it is likely to break the keyword.
    """

    def __init__(
        self, dice: Random, writer: JSONObject, reader: JSONObject, differences: Sequence[Difference] = ()
    ) -> None:
        self.dice = dice
        self.roots = (writer, reader)
        self.scalars: list[JSON] = [None, True, False, 0, 1, -1, 0.5, 0.3, 7, 7.25, 7.3, -7.3]
        self.scalars += ["", "a", "b", "c", "q", "abcd"]
        self.names: dict[str, None] = dict.fromkeys([*NAMES, "z", "bz", "az", ""])
        self.sizes: dict[int, None] = dict.fromkeys([0, 1, 2])
        for root in self.roots:
            self._collect(root)
        self.goals = [self._goal(difference) for difference in differences]
        self.goal: Goal | None = None
        self.left = 0

    def _collect(self, node: JSON) -> None:
        if isinstance(node, list):
            for item in node:
                self._collect(item)
        elif isinstance(node, dict):
            for name, item in node.items():
                if name in ("const", "enum"):
                    self.scalars += item if name == "enum" and isinstance(item, list) else [item]
                elif type(item) in (int, float):
                    self.scalars += [item * 126, item, item + 1, item - 1, item + 0.5, item - 0.25, item * 3, item * -2]
                    if type(item) is int:
                        self.sizes |= dict.fromkeys([max(0, item - 1), item, item + 1])
                self._collect(item)

    def _goal(self, difference: Difference) -> Goal:
        """Measure how far each part of the reader's schema is from the place of a difference, references followed."""
        *parts, last = unquote(difference.path.lstrip("#")).split("/")[1:] or [""]
        place: Any = self.roots[1]
        for part in parts:
            place = place[int(part)] if isinstance(place, list) else place[part]
        above: dict[int, list[JSON]] = {}
        waiting: list[JSON] = [self.roots[1]]
        while waiting:
            node = waiting.pop()
            for name, item in node.items() if isinstance(node, dict) else enumerate(node):
                inner = self._resolve(1, item) if name == "$ref" else item
                if isinstance(inner, (dict, list)):
                    if name != "$defs":
                        above.setdefault(id(inner), []).append(node)
                    if name != "$ref":
                        waiting.append(inner)
        away, waiting = {id(place): 0}, [place]
        for node in waiting:
            for outer in above.get(id(node), ()):
                if id(outer) not in away:
                    away[id(outer)] = away[id(node)] + 1
                    waiting.append(outer)
        inner = place[int(last)] if isinstance(place, list) else place.get(last)
        return Goal(difference, away, last, inner if isinstance(inner, dict) else None)

    def drop(self, difference: Difference) -> None:
        """Make no more values for a difference."""
        self.goals = [goal for goal in self.goals if goal.difference is not difference]

    def value(self) -> JSON:
        self.goal = self.dice.choice(self.goals) if self.goals and self.dice.random() < 0.9 else None
        self.left = 100  # parts: schemas that contain themselves would make thousands
        return self._of([(0, self.roots[0]), (1, self.roots[1])], 0)

    def _lead(self, schema: JSONObject) -> tuple[str, str]:
        """Return the keyword and the name or index in it that lead from a schema of the reader to the difference."""
        away = self.goal.away if self.goal else {}
        own_way = away.get(id(schema))
        if self.goal and schema is self.goal.place:
            return self.dice.choice([*schema, ""]), ""
        if own_way is None or self.goal is None:
            return "", ""
        for keyword, item in schema.items():
            inner = self._resolve(1, item) if keyword == "$ref" else item
            if away.get(id(inner), own_way) >= own_way or keyword == "$defs":
                continue
            if keyword not in _SEVERAL:
                return keyword, ""
            names = [str(name_) for name_ in (inner if isinstance(inner, dict) else range(len(inner)))]
            parts = inner.values() if isinstance(inner, dict) else inner
            nearer = [
                name for name, part in zip(names, parts, strict=True) if away.get(id(part), own_way) < own_way - 1
            ]
            return keyword, self.goal.last if away[id(inner)] == 0 else nearer[0]
        return self.goal.last, ""

    def _applied(self, views: list[tuple[int, JSON]]) -> list[tuple[int, JSONObject]]:
        """The schemas that apply to the same value, one alternative of each union."""
        applied: list[tuple[int, JSONObject]] = []
        waiting = list(views)
        while waiting and len(applied) < 40:
            side, schema = waiting.pop()
            if not isinstance(schema, dict):
                continue
            applied.append((side, schema))
            leading, name = self._lead(schema)
            more: list[JSON] = list(schema.get("allOf", ()))
            for keyword in ("anyOf", "oneOf"):
                if isinstance(schema.get(keyword), list):
                    chosen = int(name) if leading == keyword and name else self.dice.randrange(len(schema[keyword]))
                    more.append(schema[keyword][chosen])
            if "if" in schema:
                positive = leading != "else" and (leading in ("if", "then") or self.dice.random() < 0.5)
                more += [schema["if"], schema.get("then")] if positive else [schema.get("else")]
            for needing, item in schema.get("dependentSchemas", {}).items():
                if (leading, name) == ("dependentSchemas", needing) or self.dice.random() < 0.3:
                    more.append(item)
            if "not" in schema and (leading == "not" or self.dice.random() < 0.2):
                more.append(schema["not"])
            if isinstance(schema.get("$ref"), str):
                more.append(self._resolve(side, schema["$ref"]))
            waiting += [(side, item) for item in more]
        return applied

    def _resolve(self, side: int, ref: str) -> JSON:
        node: JSON = self.roots[side]
        for part in ref.split("/")[1:]:
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _of(self, views: list[tuple[int, JSON]], depth: int) -> JSON:
        dice = self.dice
        self.left -= 1
        if self.left < 0:
            return dice.choice(self.scalars)
        schemas = self._applied(views)
        leads = [(chosen, *self._lead(chosen)) for side, chosen in schemas if side == 1 and self._lead(chosen)[0]]
        if not leads and len(views) > 1 and dice.random() < 0.3:
            views = [dice.choice(views)]
            schemas = self._applied(views)
        if dice.random() < (0.02 if leads else 0.08) or depth > (9 if leads else 4):
            return dice.choice(self.scalars)
        writers = [schema for side, schema in schemas if side == 0] or [schema for _, schema in schemas]
        listed = [
            item
            for chosen in writers
            for item in [*chosen.get("enum", ()), *([chosen["const"]] if "const" in chosen else [])]
        ]
        if listed and dice.random() < 0.9:
            return dice.choice(listed)
        listed = [chosen for _, chosen in schemas if "const" in chosen or "enum" in chosen]
        if listed and dice.random() < 0.3:
            chosen = dice.choice(listed)
            return dice.choice(chosen["enum"]) if chosen.get("enum") else chosen.get("const")
        kinds = {*TYPES}
        for chosen in writers:
            if "type" in chosen:
                types = chosen["type"] if isinstance(chosen["type"], list) else [chosen["type"]]
                kinds &= {*types, *(["integer"] if "number" in types else [])}
        if not kinds or dice.random() < 0.05:
            kinds = {*TYPES}
        if len(kinds) > 2 and dice.random() < 0.7:
            keywords = {keyword for _, keyword, _ in leads} or {keyword for _, chosen in schemas for keyword in chosen}
            kinds = {kind for kind in kinds if keywords & {*_KINDS.get(kind, ())}} or kinds
        kind = dice.choice(sorted(kinds))
        match kind:
            case "null":
                return None
            case "boolean":
                return dice.random() < 0.5
            case "integer" | "number" if any(keyword == "multipleOf" for _, keyword, _ in leads):
                steps = [step for chosen in writers if type(step := chosen.get("multipleOf", 1)) in (int, float)]
                multiple = dice.choice(steps or [1]) * dice.choice([-7, -3, -1, 1, 3, 7])
                return dice.choice([0.33, 1.33, 7.33, -7.33, 0.3, 1.3, 7.3, *[multiple] * 7])
            case "integer" | "number":
                return dice.choice([chosen for chosen in self.scalars if type(chosen) in (int, float)])
            case "string":
                if dice.random() < 0.5:
                    return dice.choice([chosen for chosen in self.scalars if isinstance(chosen, str)])
                size = dice.choice([*self.sizes])
                return (dice.choice(["a", "b", "c", "ab", "q"]) + dice.choice("abq") * size)[:size]
            case "array":
                return self._array(schemas, leads, depth)
        return self._object(schemas, writers, leads, depth)

    def _size(self, leads: list[Lead]) -> int:
        """Choose a number of members or items: often the one that the difference speaks of."""
        bounded = any(keyword in _SIZES for _, keyword, _ in leads)
        if bounded and self.goal and type(self.goal.difference.old) is int and self.dice.random() < 0.7:
            return self.goal.difference.old
        return self.dice.choice([*self.sizes])

    def _array(self, schemas: list[tuple[int, JSONObject]], leads: list[Lead], depth: int) -> list[JSON]:
        items: list[JSON] = []
        size = self._size(leads)
        for lead_schema, keyword, name in leads:
            if self.dice.random() < 0.8 and keyword in ("prefixItems", "items", "unevaluatedItems", "uniqueItems"):
                first = max(len(other.get("prefixItems", ())) for _, other in schemas)
                needed = 1 + (int(name) if name else self.dice.randint(len(lead_schema.get("prefixItems", ())), first))
                size = needed if self.dice.random() < 0.5 else max(size, needed)
        repeat = 0.7 if any(keyword == "uniqueItems" for _, keyword, _ in leads) else 0.15
        for index in range(size):
            if items and self.dice.random() < repeat:
                items.append(self.dice.choice(items))
                continue
            views: list[tuple[int, JSON]] = []
            for side, side_schema in schemas:
                prefix = side_schema.get("prefixItems", [])
                if index < len(prefix):
                    views.append((side, prefix[index]))
                else:
                    views += [
                        (side, side_schema[name]) for name in ("items", "unevaluatedItems") if name in side_schema
                    ]
                if "contains" in side_schema and self.dice.random() < 0.5:
                    views.append((side, side_schema["contains"]))
            items.append(self._of(views, depth + 1))
        return items

    def _led_names(self, leads: list[Lead], mentioned: list[str]) -> tuple[list[str], set[str]]:
        """Return names of members that lead to the difference, and names whose absence does."""
        dice, names, absent = self.dice, list[str](), set[str]()
        for lead_schema, keyword, name in leads:
            if keyword in ("properties", "dependentSchemas") and name:
                names.append(name)
            elif keyword == "patternProperties" and name:
                names += [dice.choice([other for other in [*self.names, *mentioned] if _MATCHES[name](other)])]
            elif keyword in ("additionalProperties", "unevaluatedProperties", "propertyNames"):
                declared = lead_schema.get("properties", ()) if keyword == "additionalProperties" else ()
                others = [other for other in [*self.names, *mentioned] if other not in declared]
                described = [
                    other for other in others if self.goal and f"member {other} " in self.goal.difference.message
                ]
                names.append(dice.choice(described if described and dice.random() < 0.8 else others))
            elif keyword == "required" and self.goal:
                absent |= {
                    other for other in lead_schema["required"] if f"member {other} is" in self.goal.difference.message
                }
            elif keyword == "dependentRequired" and lead_schema["dependentRequired"]:
                needing = dice.choice([*lead_schema["dependentRequired"]])
                names.append(needing)
                absent |= {*lead_schema["dependentRequired"][needing][:1]}
        return names, absent

    def _object(
        self, schemas: list[tuple[int, JSONObject]], writers: list[JSONObject], leads: list[Lead], depth: int
    ) -> JSONObject:
        dice = self.dice
        required = [name for side_schema in writers for name in side_schema.get("required", ())]
        mentioned = [
            name
            for _, side_schema in schemas
            for name in [*side_schema.get("properties", ()), *side_schema.get("required", ())]
        ]
        density = dice.choice([0.05, 0.05, 0.7] if leads else [0.0, 0.3, 0.7])
        names, absent = self._led_names(leads, mentioned)
        names += [name for name in required if dice.random() < 0.95]
        names += [name for name in mentioned if dice.random() < density]
        names += [name for name in self.names if dice.random() < density / 5]
        dependent = [pair for side_schema in writers for pair in side_schema.get("dependentRequired", {}).items()]
        for _ in range(3):
            names += [
                needed
                for name, several in dependent
                for needed in several
                if name in names and needed not in names and dice.random() < 0.9
            ]
        names = [name for name in dict.fromkeys(names) if name not in absent or dice.random() < 0.1]
        least = max((side_schema.get("minProperties", 0) for side_schema in writers), default=0)
        if any(keyword in _SIZES for _, keyword, _ in leads) or len(names) < least or dice.random() < 0.2:
            size = max(least, self._size(leads)) if dice.random() < 0.9 else self._size(leads)
            start = dice.choice(["m", "ab", "b"])
            fresh = dice.choice([[f"{start}{number}" for number in range(size)], [*"abcdefghijklm"]])
            names = [*names, *(name for name in fresh if name not in names)][:size]
        dice.shuffle(names)
        result: JSONObject = {}
        for name in names:
            views: list[tuple[int, JSON]] = []
            for side, side_schema in schemas:
                declared = (
                    [(side, side_schema["properties"][name])] if name in side_schema.get("properties", {}) else []
                )
                patterns = side_schema.get("patternProperties", {})
                declared += [(side, patterns[p]) for p in patterns if _MATCHES[p](name)]
                additional = [
                    (side, side_schema[key])
                    for key in ("additionalProperties", "unevaluatedProperties")
                    if key in side_schema
                ]
                views += declared or additional
            result[name] = self._of(views, depth + 1)
        return result


@dataclass(frozen=True)
class Goal:
    """A difference, its distance from parts of the reader's schema by their ``id``, and the last part of its path.

    ``place`` is the schema that the path leads to; None if it leads to a keyword.
    """

    difference: Difference
    away: dict[int, int]
    last: str
    place: JSONObject | None


# A schema of the reader, with the keyword and the name or index in it that lead to the difference.
Lead = tuple[JSONObject, str, str]
_SEVERAL: Final = (
    "properties",
    "patternProperties", "dependentSchemas", "dependentRequired", "allOf", "anyOf", "oneOf", "prefixItems",
)  # fmt: skip
_SIZES: Final = ("minItems", "maxItems", "minProperties", "maxProperties")
_MATCHES: Final[dict[str, Callable[[str], bool]]] = {
    "^a": lambda name: name[:1] == "a",
    "b": lambda name: "b" in name,
    "^c$": lambda name: name == "c",
}
