"""Objects that a member tells apart: an order paid by card has a number, one paid by transfer an account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from signalbook.pipeline.inference.seen import Seen
from signalbook.values import JSON, JSONObject, dump_json

Draft = Callable[[Seen], JSONObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """A place whose objects are of several shapes, told apart by the text of ``by``.

    ``kinds`` are the types of JSON Schema that the place takes, ``least`` is how many objects of a case have to be seen
    before anything is said of it, and ``draft`` makes the schema of a place.
    """

    by: str
    cases: dict[str, Seen]
    kinds: list[JSON]
    least: int
    draft: Draft

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
        told: JSON = {"const": texts[0]} if len(texts) == 1 else {"enum": [*texts]}
        shape = {"properties": {self.by: told, **said.get("properties", {})}, "required": [self.by, *said["required"]]}
        return {"type": "object", **shape} if self.kinds != ["object"] else shape

    def _said(self, case: Seen) -> JSONObject:
        """What holds in a case and not in all: members that others never have, and those of another type or shape."""
        own = [name for name, member in case.members.items() if member.count == case.objects and self._lacked(name)]
        others = {name: self.draft(member) for name, member in case.members.items() if self._differs(name, member)}
        return {"required": own, **({"properties": others} if others else {})}

    def _lacked(self, name: str) -> bool:
        return any(name not in case.members for case in self.cases.values())

    def _differs(self, name: str, member: Seen) -> bool:
        """Whether the values of a member share no type with those of another case, or are objects of other members."""
        other = (case.members[name] for case in self.cases.values() if name in case.members)
        return any(_unlike(member, each) for each in other if each is not member)


def _unlike(one: Seen, other: Seen) -> bool:
    types, others = _types(one), _types(other)
    if not types or not others:
        return False
    return not types & others or (types == others == {"objects"} and _strange(one.names(), other.names()))


def _types(seen: Seen) -> set[str]:
    """The types of values other than null; integers are numbers."""
    numbers = {"numbers"} if seen.integers or seen.numbers else set()
    texts = {"texts"} if seen.texts.count else set()
    return numbers | texts | {name for name in ("booleans", "arrays", "objects") if getattr(seen, name)}


def _strange(names: set[str], others: set[str]) -> bool:
    """Whether most of the members of two kinds of objects are not members of both."""
    return len(names & others) * 2 < len(names | others)
