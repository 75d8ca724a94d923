"""Build JSON Schemas from summaries of values.

A schema is only as strict as the number of observed values justifies.
"""

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
    """A place whose objects have several shapes, distinguished by the text of the member ``by``.

    ``cases`` has the summary of objects for each text. ``kinds`` are the JSON Schema types of the place. ``least`` is
    the minimum number of objects of each case, and ``place_schema`` builds the schema of a member.
    """

    by: str
    cases: dict[str, ValueSummary]
    kinds: list[JSON]
    least: int
    place_schema: _PlaceSchema

    def build_schema(self) -> JSONObject:
        """Return a schema that allows exactly one of the shapes (``oneOf``), to be added to the schema of all objects.

        Return an empty schema if the shapes do not really differ, or if a text was seen too rarely to be sure that
        there are no other texts.
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
        # Values that are not objects match none of the shapes, so their types get an alternative.
        other_types = [kind for kind in self.kinds if kind != "object"]
        if other_types:
            shapes.append({"type": other_types[0] if len(other_types) == 1 else other_types})
        return {"oneOf": shapes}

    def _build_shape(self, texts: list[str], distinction: JSONObject) -> JSONObject:
        case: JSON = {"const": texts[0]} if len(texts) == 1 else {"enum": [*texts]}
        shape = {
            "properties": {self.by: case, **distinction.get("properties", {})},
            "required": [self.by, *distinction["required"]],
        }
        return {"type": "object", **shape} if self.kinds != ["object"] else shape

    def _find_distinction(self, case: ValueSummary) -> JSONObject:
        """Return a schema of the members that distinguish a case.

        These are members that not all cases have, or that have another type or shape in another case.
        """
        shared = set.intersection(*(set(other_case.members) for other_case in self.cases.values()))
        own_names = [
            name for name, member in case.members.items() if member.count == case.objects and name not in shared
        ]
        different = {
            name: self.place_schema(member) for name, member in case.members.items() if self._is_different(name, member)
        }
        return {"required": own_names, **({"properties": different} if different else {})}

    def _is_different(self, name: str, member: ValueSummary) -> bool:
        """Return True if another case has the member ``name`` with other types, or with mostly other members."""
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
    """Return the types of the values other than null. Integers count as numbers."""
    numbers = {"numbers"} if seen.integers or seen.numbers else set()
    texts = {"texts"} if seen.texts.count else set()
    return numbers | texts | {name for name in ("booleans", "arrays", "objects") if getattr(seen, name)}


def _has_few_in_common(names: set[str], other_names: set[str]) -> bool:
    """Return True if two kinds of objects share less than half of their members."""
    return len(names & other_names) * 2 < len(names | other_names)


# The minimum number of names to compare, because fewer names may be similar by chance.
_LEAST_NAMES: Final = 4
_ALIKE: Final = 0.7
# The maximum number of sets of names, because each one is compared with every family.
_MOST_SETS: Final = 500
# If this many values have no exception, the probability of an exception is at most 1 % (the rule of three: 3 / n).
ENOUGH: Final = 300

Names = frozenset[str]


class Family(msgspec.Struct):
    """The members of similar objects at several places, whose ``names`` are about the same.

    ``members`` summarizes the values of each member, without the places below it.
    """

    names: Names
    objects: int = 0
    members: dict[str, ValueSummary] = {}

    def add(self, place: ValueSummary, room: MemoryBudget) -> None:
        """Add the objects at a place."""
        self.objects += place.objects
        for name, member in place.members.items():
            if name in self.members or room.take(name):
                self.members.setdefault(name, ValueSummary()).tally(member, room)

    def is_similar(self, names: Names) -> bool:
        """Return True if the share of names in both ``names`` and this family is at least ``_ALIKE``."""
        return len(self.names & names) >= _ALIKE * len(self.names | names)


class ObjectFamilies:
    """The families of similar objects in a stream. ``places`` are the summaries of whole payloads."""

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
        """Return the family of the objects at ``place``; None without a family, or if ``place`` has enough objects."""
        return None if place.objects >= ENOUGH else self._families.get(frozenset(place.members))


def _iterate_objects(place: ValueSummary) -> Iterator[ValueSummary]:
    """Yield the summaries of all objects at or below ``place``."""
    whole = place.merge_cases()
    if whole.objects and whole.others is None:
        yield whole
    if place.items is not None:
        yield from _iterate_objects(place.items)
    for member in whole.members.values():
        yield from _iterate_objects(member)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FORMAT: Final = "JsonSchema/draft/2020-12"
# Texts count as words for an enum if they are short, and do not look like numbers, addresses or keys.
_LONGEST_WORD: Final = 40
_MOST_WORDS: Final = 32
_NO_WORD: Final = re.compile(r"://|\d{5}|(?:\d\D*){8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The numbers of observations that are necessary for each kind of constraint in a schema.

    A member is required if at least ``required`` objects were observed and all had it. A place gets an enum if it has
    at least ``enough`` texts and each word was observed at least ``enum`` times. The share of values never seen is
    about the share of values seen once (Good and Turing, 1953), so that a place whose words all recur has hardly any
    other words. Shapes that a word distinguishes are inferred by the same numbers. 0 switches a kind of constraint off.
    With fewer than ``few`` values, null is allowed as well, and a fraction for an integer if other members of the
    object have fractions.
    """

    required: int = 0
    enum: int = 0
    enough: int = 0
    few: int = 0

    @property
    def words(self) -> str:
        """A description of the rules for people."""
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
"""The rules from strict to lenient. The first rules are used whose schemas accept enough held-back messages."""


def build_schema(seen: ValueSummary, rules: Rules, kin: ObjectFamilies | None = None) -> JSONObject:
    """Return a schema that accepts every value in ``seen``. ``kin`` holds the object families of the whole stream."""
    return {"$schema": DIALECT, **_SchemaBuilder(rules, kin or ObjectFamilies(())).build_place(seen, seen, root=True)}


@dataclass(frozen=True, slots=True)
class _SchemaBuilder:
    """A builder of schemas with the same ``rules``, for places of one stream, whose object families are ``kin``.

    ``unions`` is False to leave out ``oneOf``.
    """

    rules: Rules
    kin: ObjectFamilies
    unions: bool = True

    def build_place(
        self, seen: ValueSummary, similar: ValueSummary, *, fractions: bool = False, root: bool = False
    ) -> JSONObject:
        """Return the schema of the place that ``seen`` summarizes.

        ``similar`` summarizes the values of the same member in similar objects, or is ``seen``. ``fractions`` is True
        if a member of the same object has fractions, ``root`` is True if the place is the whole payload.
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
        # A single word is no evidence about other words.
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
        # The schema of a case only adds to the schema of all objects, which has the nested unions already.
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
    # If all values are null, the type of other values is unknown, so that any type is allowed.
    return [kind for kind, count in counts.items() if count] if seen.nulls < seen.count else []


def _are_words(values: dict[str, int]) -> bool:
    return len(values) <= _MOST_WORDS and all(
        len(text) <= _LONGEST_WORD and not _NO_WORD.search(text) for text in values
    )
