"""What was seen, as a JSON Schema: no stricter than the number of values seen can carry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from signalbook.pipeline.inference.maps import every, is_map
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

    def schema(self) -> JSONObject:
        """``oneOf`` the shapes, which adds to what is said of all objects; nothing if they do not really differ.

        Every text has to have been seen often enough that no other one is to be expected.
        """
        if len(self.cases) < 2 or min(case.objects for case in self.cases.values()) < self.least:
            return {}
        grouped: dict[bytes, tuple[list[str], JSONObject]] = {}
        for text, case in sorted(self.cases.items()):
            said = self._said(case)
            grouped.setdefault(dump_json(said), ([], said))[0].append(text)
        if len(grouped) < 2:
            return {}
        shapes: list[JSON] = [self._shape(texts, said) for texts, said in grouped.values()]
        # To what is no object, every shape would have to say no.
        others = [kind for kind in self.kinds if kind != "object"]
        return {"oneOf": [*shapes, {"type": others[0] if len(others) == 1 else others}] if others else shapes}

    def _shape(self, texts: list[str], said: JSONObject) -> JSONObject:
        case: JSON = {"const": texts[0]} if len(texts) == 1 else {"enum": [*texts]}
        shape = {"properties": {self.by: case, **said.get("properties", {})}, "required": [self.by, *said["required"]]}
        return {"type": "object", **shape} if self.kinds != ["object"] else shape

    def _said(self, case: ValueSummary) -> JSONObject:
        """Return the members that distinguish a case: those others never have, or have with another type or shape."""
        shared = set.intersection(*(set(each.members) for each in self.cases.values()))
        own = [name for name, member in case.members.items() if member.count == case.objects and name not in shared]
        others = {
            name: self.place_schema(member) for name, member in case.members.items() if self._differs(name, member)
        }
        return {"required": own, **({"properties": others} if others else {})}

    def _differs(self, name: str, member: ValueSummary) -> bool:
        """Return True if the values of a member differ in type from those of another case, or in their members."""
        other = (case.members[name] for case in self.cases.values() if name in case.members)
        return any(_unlike(member, each) for each in other if each is not member)


def _unlike(one: ValueSummary, other: ValueSummary) -> bool:
    types, others = _types(one), _types(other)
    if not types or not others:
        return False
    return not types & others or (types == others == {"objects"} and _strange(one.names(), other.names()))


def _types(seen: ValueSummary) -> set[str]:
    """The types of values other than null; integers are numbers."""
    numbers = {"numbers"} if seen.integers or seen.numbers else set()
    texts = {"texts"} if seen.texts.count else set()
    return numbers | texts | {name for name in ("booleans", "arrays", "objects") if getattr(seen, name)}


def _strange(names: set[str], others: set[str]) -> bool:
    """Return True if two kinds of objects do not share most of their members."""
    return len(names & others) * 2 < len(names | others)


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

    def alike(self, names: Names) -> bool:
        """Return True if most of these names belong to both kinds of objects."""
        return len(self.names & names) >= _ALIKE * len(self.names | names)


class ObjectFamilies:
    """The families of a stream."""

    def __init__(self, places: Iterable[ValueSummary]) -> None:
        self._families: dict[Names, Family] = {}
        self._room = MemoryBudget()
        for place in places:
            for objects in _objects(place):
                self._sort(objects)

    def _sort(self, place: ValueSummary) -> None:
        names = frozenset(place.members)
        family = self._families.get(names)
        if family is None:
            if len(names) < _LEAST_NAMES or len(self._families) == _MOST_SETS:
                return
            known = {id(family): family for family in self._families.values()}
            family = next((each for each in known.values() if each.alike(names)), Family(names=names))
            self._families[names] = family
        family.add(place, self._room)

    def known(self, place: ValueSummary) -> Family | None:
        """Return what similar objects tell about those in ``place``, or None."""
        # A place with enough objects of its own speaks for itself: kin would only blur it.
        return None if place.objects >= ENOUGH else self._families.get(frozenset(place.members))


def _objects(place: ValueSummary) -> Iterator[ValueSummary]:
    """Yield all places of objects in ``place``."""
    whole = place.whole()
    if whole.objects and whole.others is None:
        yield whole
    if place.items is not None:
        yield from _objects(place.items)
    for member in whole.members.values():
        yield from _objects(member)


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


def schema(seen: ValueSummary, rules: Rules, kin: ObjectFamilies | None = None) -> JSONObject:
    """A schema that every value accepts that ``seen`` was made of. ``kin`` is what all of the stream knows."""
    return {"$schema": DIALECT, **_SchemaBuilder(rules, kin or ObjectFamilies(())).place(seen, seen, root=True)}


@dataclass(frozen=True, slots=True)
class _SchemaBuilder:
    """Schemas of places, by the same rules and from the same stream."""

    rules: Rules
    kin: ObjectFamilies
    unions: bool = True

    def place(
        self, seen: ValueSummary, known: ValueSummary, *, fractions: bool = False, root: bool = False
    ) -> JSONObject:
        """Return the schema of a place. ``known`` are similar objects, ``seen`` the places above it.

        ``fractions`` tells whether members next to it have some, ``root`` whether the place is the whole payload.
        """
        kinds = _kinds(known, self.rules, fractions=fractions)
        found: JSONObject = {} if not kinds else {"type": kinds[0] if len(kinds) == 1 else kinds}
        if known.texts.count:
            found |= self._texts(seen.texts, known.texts, kinds)
        if seen.arrays and seen.items is not None:
            found["items"] = self.place(seen.items, seen.items)
        if seen.objects:
            found |= self._object(seen, kinds, root=root)
        return found

    def _texts(self, seen: TextSummary, known: TextSummary, kinds: list[JSON]) -> JSONObject:
        if known.formats:
            return {"format": known.formats[0]}
        rules, values = self.rules, known.values
        if not (values and 0 < rules.enough <= seen.count and 0 < rules.enum <= min(values.values())):
            return {}
        # One word says nothing of which others there are.
        if len(values) < 2 or not set(kinds) <= {"string", "null"} or not _are_words(values):
            return {}
        return {"enum": [*sorted(values), *([None] if "null" in kinds else [])]}

    def _object(self, seen: ValueSummary, kinds: list[JSON], *, root: bool) -> JSONObject:
        whole = seen.whole()
        if is_map(whole, root=root):
            values = every(whole)
            return {"additionalProperties": self.place(values, values)}
        family = self.kin.known(whole)
        fractions = any(member.numbers for member in whole.members.values())
        members = {
            name: self.place(member, _known(family, name, member), fractions=fractions)
            for name, member in whole.members.items()
        }
        found: JSONObject = {"properties": members} if members else {}
        required = self._required(whole, family)
        if required:
            found["required"] = required
        return found | self._union(seen, kinds)

    def _union(self, seen: ValueSummary, kinds: list[JSON]) -> JSONObject:
        if not (self.unions and seen.cases and 0 < self.rules.enough <= seen.objects):
            return {}
        # What a case says of a member adds to what is said of all: unions within need not be said again.
        plain = replace(self, unions=False)
        return Union(
            by=seen.by,
            cases=seen.cases,
            kinds=kinds,
            least=max(self.rules.enum, self.rules.required),
            place_schema=lambda member: plain.place(member, member),
        ).schema()

    def _required(self, whole: ValueSummary, family: Family | None) -> list[JSON]:
        least = self.rules.required
        objects = whole.objects if family is None else family.objects
        if not 0 < least <= whole.objects:
            return []
        return [name for name, member in whole.members.items() if _known(family, name, member).count == objects]


def _known(family: Family | None, name: str, member: ValueSummary) -> ValueSummary:
    return member if family is None else family.members.get(name, member)


def _kinds(seen: ValueSummary, rules: Rules, *, fractions: bool) -> list[JSON]:
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
