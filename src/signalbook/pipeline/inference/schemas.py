"""What was seen, as a JSON Schema: no stricter than the number of values seen can carry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from signalbook.pipeline.inference.maps import is_map, merge_members
from signalbook.pipeline.inference.summaries import MemoryBudget, TextSummary, ValueSummary
from signalbook.values import JSON, JSONObject, dump_json

_PlaceSchema = Callable[[ValueSummary], JSONObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """A place whose objects are of several shapes, distinguished by the text of ``by``.

    ``kinds`` are the types of JSON Schema that the place takes, ``least`` is how many objects of a case have to be seen
    before anything is said of it, and ``place_schema`` makes the schema of a place.
    """

    by: str
    cases: dict[str, ValueSummary]
    kinds: list[JSON]
    least: int
    place_schema: _PlaceSchema

    def build_schema(self) -> JSONObject:
        """``oneOf`` the shapes, which adds to what is said of all objects; nothing if they do not really differ.

        Every text has to have been seen often enough that no other one is to be expected.
        """
        if len(self.cases) < 2 or min(case.objects for case in self.cases.values()) < self.least:
            return {}
        grouped: dict[bytes, tuple[list[str], JSONObject]] = {}
        for text, case in sorted(self.cases.items()):
            distinction = self._find_distinction(case)
            grouped.setdefault(dump_json(distinction), ([], distinction))[0].append(text)
        if len(grouped) < 2:
            return {}
        shapes: list[JSON] = [self._build_shape(texts, distinction) for texts, distinction in grouped.values()]
        # To what is no object, every shape would have to say no.
        other_types = [kind for kind in self.kinds if kind != "object"]
        return {
            "oneOf": [*shapes, {"type": other_types[0] if len(other_types) == 1 else other_types}]
            if other_types
            else shapes
        }

    def _build_shape(self, texts: list[str], distinction: JSONObject) -> JSONObject:
        case: JSON = {"const": texts[0]} if len(texts) == 1 else {"enum": [*texts]}
        shape = {
            "properties": {self.by: case, **distinction.get("properties", {})},
            "required": [self.by, *distinction["required"]],
        }
        return {"type": "object", **shape} if self.kinds != ["object"] else shape

    def _find_distinction(self, case: ValueSummary) -> JSONObject:
        """Return the members that distinguish a case: those others never have, or have with another type or shape."""
        shared = set.intersection(*(set(other_case.members) for other_case in self.cases.values()))
        own_names = [
            name for name, member in case.members.items() if member.count == case.objects and name not in shared
        ]
        different = {
            name: self.place_schema(member) for name, member in case.members.items() if self._is_different(name, member)
        }
        return {"required": own_names, **({"properties": different} if different else {})}

    def _is_different(self, name: str, member: ValueSummary) -> bool:
        """Return True if the values of a member differ in type from those of another case, or in their members."""
        other = (case.members[name] for case in self.cases.values() if name in case.members)
        return any(_is_unlike(member, other_member) for other_member in other if other_member is not member)


def _is_unlike(first: ValueSummary, other: ValueSummary) -> bool:
    types, other_types = _list_types(first), _list_types(other)
    if not types or not other_types:
        return False
    return not types & other_types or (
        types == other_types == {"objects"} and _has_few_in_common(first.list_names(), other.list_names())
    )


def _list_types(seen: ValueSummary) -> set[str]:
    """The types of values other than null; integers are numbers."""
    numbers = {"numbers"} if seen.integers or seen.numbers else set()
    texts = {"texts"} if seen.texts.count else set()
    return numbers | texts | {name for name in ("booleans", "arrays", "objects") if getattr(seen, name)}


def _has_few_in_common(names: set[str], other_names: set[str]) -> bool:
    """Return True if two kinds of objects do not share most of their members."""
    return len(names & other_names) * 2 < len(names | other_names)


# Fewer names than these may be alike by chance.
_LEAST_NAMES: Final = 4
_ALIKE: Final = 0.7
# Each set of names is held to every family: more of them are not looked at.
_MOST_SETS: Final = 500
# With as many values and no exception, the chance of one is below 1 % (the rule of three: 3 / n).
ENOUGH: Final = 300

Names = frozenset[str]


class Family(msgspec.Struct):
    """Places whose objects have about the same ``names``: what stood there as members, not what was within those."""

    names: Names
    objects: int = 0
    members: dict[str, ValueSummary] = {}

    def add(self, place: ValueSummary, room: MemoryBudget) -> None:
        """Add one more place."""
        self.objects += place.objects
        for name, member in place.members.items():
            if name in self.members or room.take(name):
                self.members.setdefault(name, ValueSummary()).tally(member, room)

    def is_similar(self, names: Names) -> bool:
        """Return True if most of these names belong to both kinds of objects."""
        return len(self.names & names) >= _ALIKE * len(self.names | names)


class ObjectFamilies:
    """The families of a stream."""

    def __init__(self, places: Iterable[ValueSummary]) -> None:
        self._families: dict[Names, Family] = {}
        self._room = MemoryBudget()
        for place in places:
            for objects in _iterate_objects(place):
                self._sort(objects)

    def _sort(self, place: ValueSummary) -> None:
        names = frozenset(place.members)
        family = self._families.get(names)
        if family is None:
            if len(names) < _LEAST_NAMES or len(self._families) == _MOST_SETS:
                return
            families = {id(family): family for family in self._families.values()}
            family = next(
                (candidate for candidate in families.values() if candidate.is_similar(names)), Family(names=names)
            )
            self._families[names] = family
        family.add(place, self._room)

    def find_family(self, place: ValueSummary) -> Family | None:
        """Return what similar objects tell about those in ``place``, or None."""
        # A place with enough objects of its own speaks for itself: kin would only blur it.
        return None if place.objects >= ENOUGH else self._families.get(frozenset(place.members))


def _iterate_objects(place: ValueSummary) -> Iterator[ValueSummary]:
    """Yield all places of objects in ``place``."""
    whole = place.merge_cases()
    if whole.objects and whole.others is None:
        yield whole
    if place.items is not None:
        yield from _iterate_objects(place.items)
    for member in whole.members.values():
        yield from _iterate_objects(member)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FORMAT: Final = "JsonSchema/draft/2020-12"
# Words are short, and not numbers, addresses or keys in disguise.
_LONGEST_WORD: Final = 40
_MOST_WORDS: Final = 32
_NO_WORD: Final = re.compile(r"://|\d{5}|(?:\d\D*){8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The number of observations after which something is required of the next value.

    A member is required if all of at least ``required`` objects had it. An enum lists the words of a place with at
    least ``enough`` texts if no word was seen fewer than ``enum`` times: the share of values never seen yet is about
    that of values seen once (Good and Turing, 1953), so that a place whose texts all recur has hardly any left. Shapes
    that a word distinguishes are inferred by the same measure. 0 requires nothing of the kind. With fewer than ``few``
    values, null is allowed as well, and a fraction for an integer if other members of the object have fractions.
    """

    required: int = 0
    enum: int = 0
    enough: int = 0
    few: int = 0

    @property
    def words(self) -> str:
        """The rules in words for people."""
        required = f"members that all of {self.required} objects had" if self.required else "no members"
        enums = f"words seen {self.enum} times each, of {self.enough} and more" if self.enum else "no words"
        few = f", and null is taken where fewer than {self.few} values stood" if self.few else ""
        return f"required are {required}, enums list {enums}{few}"


RULES_BY_STRICTNESS: Final = (
    Rules(required=10, enum=10, enough=100),
    Rules(required=20, enum=20, enough=300, few=30),
    Rules(required=50, enum=100, enough=1000, few=100),
    Rules(few=1000),
)
"""From strict to lenient: the first is taken whose schemas accept what was held back."""


def build_schema(seen: ValueSummary, rules: Rules, kin: ObjectFamilies | None = None) -> JSONObject:
    """Return a schema that accepts every value in ``seen``. ``kin`` holds the object families of the whole stream."""
    return {"$schema": DIALECT, **_SchemaBuilder(rules, kin or ObjectFamilies(())).build_place(seen, seen, root=True)}


@dataclass(frozen=True, slots=True)
class _SchemaBuilder:
    """Schemas of places, by the same rules and from the same stream."""

    rules: Rules
    kin: ObjectFamilies
    unions: bool = True

    def build_place(
        self, seen: ValueSummary, similar: ValueSummary, *, fractions: bool = False, root: bool = False
    ) -> JSONObject:
        """Return the schema of a place. ``similar`` are similar objects, ``seen`` the places above it.

        ``fractions`` tells whether members next to it have some, ``root`` whether the place is the whole payload.
        """
        kinds = _list_kinds(similar, self.rules, fractions=fractions)
        schema: JSONObject = {} if not kinds else {"type": kinds[0] if len(kinds) == 1 else kinds}
        if similar.texts.count:
            schema |= self._build_texts(seen.texts, similar.texts, kinds)
        if seen.arrays and seen.items is not None:
            schema["items"] = self.build_place(seen.items, seen.items)
        if seen.objects:
            schema |= self._build_object(seen, kinds, root=root)
        return schema

    def _build_texts(self, seen: TextSummary, similar: TextSummary, kinds: list[JSON]) -> JSONObject:
        if similar.formats:
            return {"format": similar.formats[0]}
        rules, values = self.rules, similar.values
        if not (values and 0 < rules.enough <= seen.count and 0 < rules.enum <= min(values.values())):
            return {}
        # One word says nothing of which others there are.
        if len(values) < 2 or not set(kinds) <= {"string", "null"} or not _are_words(values):
            return {}
        return {"enum": [*sorted(values), *([None] if "null" in kinds else [])]}

    def _build_object(self, seen: ValueSummary, kinds: list[JSON], *, root: bool) -> JSONObject:
        whole = seen.merge_cases()
        if is_map(whole, root=root):
            values = merge_members(whole)
            return {"additionalProperties": self.build_place(values, values)}
        family = self.kin.find_family(whole)
        fractions = any(member.numbers for member in whole.members.values())
        members = {
            name: self.build_place(member, _find_similar(family, name, member), fractions=fractions)
            for name, member in whole.members.items()
        }
        schema: JSONObject = {"properties": members} if members else {}
        required = self._find_required(whole, family)
        if required:
            schema["required"] = required
        return schema | self._build_union(seen, kinds)

    def _build_union(self, seen: ValueSummary, kinds: list[JSON]) -> JSONObject:
        if not (self.unions and seen.cases and 0 < self.rules.enough <= seen.objects):
            return {}
        # What a case says of a member adds to what is said of all: unions within need not be said again.
        plain = replace(self, unions=False)
        return Union(
            by=seen.by,
            cases=seen.cases,
            kinds=kinds,
            least=max(self.rules.enum, self.rules.required),
            place_schema=lambda member: plain.build_place(member, member),
        ).build_schema()

    def _find_required(self, whole: ValueSummary, family: Family | None) -> list[JSON]:
        least = self.rules.required
        objects = whole.objects if family is None else family.objects
        if not 0 < least <= whole.objects:
            return []
        return [name for name, member in whole.members.items() if _find_similar(family, name, member).count == objects]


def _find_similar(family: Family | None, name: str, member: ValueSummary) -> ValueSummary:
    return member if family is None else family.members.get(name, member)


def _list_kinds(seen: ValueSummary, rules: Rules, *, fractions: bool) -> list[JSON]:
    few = seen.count < rules.few
    numbers = seen.numbers or (seen.integers and few and fractions)
    counts = {
        "object": seen.objects,
        "array": seen.arrays,
        "string": seen.texts.count,
        "number": numbers,
        "integer": 0 if numbers else seen.integers,
        "boolean": seen.booleans,
        "null": seen.nulls or few,
    }
    # Only nulls say that there may be something, and nothing of what.
    return [kind for kind, count in counts.items() if count] if seen.nulls < seen.count else []


def _are_words(values: dict[str, int]) -> bool:
    return len(values) <= _MOST_WORDS and all(
        len(text) <= _LONGEST_WORD and not _NO_WORD.search(text) for text in values
    )
