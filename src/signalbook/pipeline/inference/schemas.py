"""What was seen, as a JSON Schema: no stricter than the number of values seen can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbook.pipeline.inference.seen import Room, Seen, Texts
from signalbook.values import JSON, JSONObject

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FORMAT: Final = "JsonSchema/draft/2020-12"
# An object is a map if it has many names of which each of them has few.
_MAP_NAMES: Final = 20
_MAP_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How much has to be seen before something is demanded of the next value.

    A member is required if all of at least ``required`` objects had it. An enum lists texts of which no one was seen
    fewer than ``enum`` times: the share of values never seen yet is about that of values seen once (Good and Turing,
    1953), so that a place whose texts all recur has hardly any left. 0 demands nothing of the kind. Where fewer than
    ``null`` values stood, null may stand as well.
    """

    required: int
    enum: int
    null: int = 0

    @property
    def words(self) -> str:
        """For people."""
        required = f"members that all of {self.required} objects had" if self.required else "no members"
        enums = f"texts seen {self.enum} times each" if self.enum else "no texts"
        nulls = f", and null is taken where fewer than {self.null} values stood" if self.null else ""
        return f"required are {required}, enums list {enums}{nulls}"


LADDER: Final = (
    Rules(required=5, enum=10),
    Rules(required=50, enum=100, null=50),
    Rules(required=0, enum=0, null=1000),
)
"""From strict to lenient: the first is taken whose schemas accept what was held back."""


def schema(seen: Seen, rules: Rules) -> JSONObject:
    """A schema that every value accepts that ``seen`` was made of."""
    return {"$schema": DIALECT, **_place(seen, rules)}


def _place(seen: Seen, rules: Rules) -> JSONObject:
    kinds = _kinds(seen, rules)
    found: JSONObject = {} if not kinds else {"type": kinds[0] if len(kinds) == 1 else kinds}
    if seen.texts.count:
        found |= _texts(seen.texts, rules, alone=set(kinds) <= {"string", "null"}, nullable="null" in kinds)
    if seen.arrays and seen.items is not None:
        found["items"] = _place(seen.items, rules)
    if seen.objects:
        found |= _object(seen, rules)
    return found


def _kinds(seen: Seen, rules: Rules) -> list[JSON]:
    counts = {
        "object": seen.objects,
        "array": seen.arrays,
        "string": seen.texts.count,
        "number": seen.numbers,
        "integer": 0 if seen.numbers else seen.integers,
        "boolean": seen.booleans,
        "null": seen.nulls or seen.count < rules.null,
    }
    # Only nulls say that there may be something, and nothing of what.
    return [kind for kind, count in counts.items() if count] if seen.nulls < seen.count else []


def _texts(texts: Texts, rules: Rules, *, alone: bool, nullable: bool) -> JSONObject:
    if texts.formats:
        return {"format": texts.formats[0]}
    if alone and rules.enum and texts.values and min(texts.values.values()) >= rules.enum:
        values: list[JSON] = [*sorted(texts.values)]
        return {"enum": [*values, None] if nullable else values}
    return {}


def _object(seen: Seen, rules: Rules) -> JSONObject:
    if is_map(seen):
        every, room = Seen(), Room()
        for member in (*seen.members.values(), *([seen.others] if seen.others else [])):
            every.merge(member, room)
        return {"additionalProperties": _place(every, rules)}
    found: JSONObject = {}
    if seen.members:
        found["properties"] = {name: _place(member, rules) for name, member in seen.members.items()}
    required = [name for name, member in seen.members.items() if member.count == seen.objects >= rules.required > 0]
    return {**found, "required": required} if required else found


def is_map(seen: Seen) -> bool:
    """Whether the names of its members are values themselves, rather than names."""
    if seen.others is not None:
        return True
    names = len(seen.members)
    if names < _MAP_NAMES:
        return False
    return sum(member.count for member in seen.members.values()) < _MAP_SHARE * names * seen.objects
