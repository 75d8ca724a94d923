"""Why values of one JSON Structure type may not be values of another: the clauses of each pair of types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import compress
from operator import and_, not_
from typing import Final, NamedTuple

from signalbook.formats.base import MAX_FINDINGS, pointer
from signalbook.formats.compatibility import Difference
from signalbook.formats.inclusion import Clause, TooMuch, answers, fault, refutations, undecided
from signalbook.formats.jsonstructure import primitives
from signalbook.formats.jsonstructure.document import containers, identities
from signalbook.formats.jsonstructure.primitives import Family
from signalbook.formats.jsonstructure.types import IMPORTS, PRIMITIVES, Structure, required, resolved
from signalbook.values import JSON, JSONObject, canonical_json
from signalbook.work import spend

MAX_STEPS: Final = 200_000
_VALUES_A_STEP: Final = 20
_NAMES_A_STEP: Final = 4
_MAX_TEXT: Final = 200
_MAX_NAMED: Final = 5
_FAMILIES: Final = frozenset[Family | None]({"null", "boolean", "number", "string", "array", "object"})
_ANY: Final[JSONObject] = {"type": "any"}
# ``any``, taken apart.
_EVERYTHING: Final[tuple[JSONObject, ...]] = (
    {"type": "null"}, {"type": "boolean"}, {"type": "number"}, {"type": "string"},
    {"type": "array", "items": _ANY}, {"type": "map", "values": _ANY},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """A type declaration at its place: ``suffix`` is a pointer from the object ``owner``, named by its ``id``.

    ``case`` is the name of one alternative where only those values of a choice are meant.
    """

    owner: int
    suffix: str
    schema: JSONObject = field(compare=False)
    case: str = ""

    @property
    def kind(self) -> str:
        return str(self.schema["type"])


class TypePair(NamedTuple):
    """The question whether ``reader`` has all values of ``writer``; ``top`` for whole payloads with ``$schema``."""

    writer: Type
    reader: Type
    top: bool


Clauses = list[Clause[TypePair]]


def differences(reader: Structure, writer: Structure) -> list[Difference]:
    """Every reason found why a payload of ``writer`` may not be one of ``reader``; paths are pointers into ``reader``.

    Documents without a type of their own are collections: their definitions are compared by name.
    """
    if reader.fingerprint == writer.fingerprint:
        return []
    comparison = _Comparison(reader, writer)
    old, new = writer.top(), reader.top()
    if old is not None and new is not None:
        top = TypePair(comparison.writer.of(old), comparison.reader.of(new), True)
        return refutations([top], comparison.examine, most=MAX_STEPS)
    if old is not None:
        return [fault("", "type_removed", _text(old), None, "whole payloads have a type for the writer, but none here")]
    return comparison.definitions()


@dataclass(frozen=True, slots=True)
class _Required:
    """The sets of members of which an object has exactly one.

    ``possible`` are those that an object can have: with a set that contains another one, it would have two of them.
    All objects have the members ``always``. None has one of the members ``never``: each completes a second set.
    """

    sets: list[frozenset[str]]
    possible: list[frozenset[str]]
    always: frozenset[str]
    never: frozenset[str]

    @classmethod
    def from_sets(cls, sets: list[frozenset[str]], spend: Callable[[int], None]) -> _Required | None:
        """Compare the sets with each other; return None if no object has exactly one of them."""
        spend(len(sets) * _count_names(sets) // _NAMES_A_STEP)
        pairs = list(enumerate(sets))
        possible = [names for at, names in pairs if not any(other <= names for there, other in pairs if there != at)]
        if not possible:
            return None
        missing = ([names - have for names in sets] for have in possible)
        never = (frozenset[str]().union(*(names for names in row if len(names) == 1)) for row in missing)
        return cls(sets, possible, frozenset[str].intersection(*possible), reduce(and_, never))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    """Objects of one kind. Of the sets ``required`` they have exactly one; ``more`` is the type of other members.

    ``free`` members may be anything, ``tag`` is a member with a constant value, and ``tagged`` are the required sets
    with that member. ``instance``: at the top of a payload, ``$schema`` and ``$uses`` may be there, too.
    """

    named: dict[str, Type]
    required: _Required
    more: Type | None
    instance: bool
    free: str | None = None
    tag: Type | None = None
    tagged: _Required | None = None


class _Side:
    """One of the two documents."""

    def __init__(self, structure: Structure, spend: Callable[[int], None]) -> None:
        self.structure = structure
        self._spend = spend
        self._parents: dict[int, tuple[int, str | int]] = {}
        self._alternatives: dict[Type, tuple[Type, ...]] = {}
        self._members: dict[Type, _Members | None] = {}
        self._empty: dict[Type, bool] = {}
        self._listed: dict[int, frozenset[str | bytes]] = {}
        waiting: list[JSON] = [structure.root]
        while waiting:
            node = waiting.pop()
            if not containers(node):  # such as a list of very many values
                continue
            for name, item in node.items() if isinstance(node, dict) else enumerate(node):
                if isinstance(item, (dict, list)):
                    self._parents[id(item)] = (id(node), name)
                    waiting.append(item)

    def of(self, schema: JSON, within: JSONObject | None = None, keyword: str = "") -> Type:
        """The type that a schema declares; of ``true``, which stands for anything, the place is in ``within``."""
        if isinstance(schema, dict):
            return Type(id(schema), "", schema)
        return Type(id(within), f"/{keyword}", _ANY)

    def path(self, type: Type, *parts: str | int) -> str:
        """A JSON Pointer to a type, or to something in it."""
        found: list[str | int] = []
        node = type.owner
        while node in self._parents:
            node, name = self._parents[node]
            found.append(name)
        return pointer(reversed(found)) + type.suffix + pointer(parts)

    def alternatives(self, type: Type) -> tuple[Type, ...]:
        """Return the parts of a type after references and unions are resolved, each of one kind."""
        if type not in self._alternatives:
            self._alternatives[type] = tuple(self._resolved(type))
        return self._alternatives[type]

    def _resolved(self, type: Type) -> Iterator[Type]:
        waiting, met = [type], set[Type]()
        while waiting:
            one = waiting.pop()
            if one in met:
                continue
            met.add(one)
            kind = one.schema.get("type")
            if isinstance(kind, list):
                items = (Type(one.owner, f"{one.suffix}/type/{at}", {"type": item}) for at, item in enumerate(kind))
                waiting += reversed(list(items))
            elif not isinstance(kind, dict):
                yield one
            elif "$ref" in kind:
                waiting.append(self.of(self.structure.lookup(kind["$ref"]), one.schema, "type"))
            else:
                waiting.append(self.of(kind))

    def refused(self, type: Type, values: list[JSON]) -> list[JSON]:
        """Return the scalar values that are not of a type other than a union."""
        kind, schema = type.kind, type.schema
        if kind not in PRIMITIVES:
            return [] if kind == "any" else values
        if "const" in schema or "enum" in schema:  # what they list was found to be of the type
            accepted = map(self._listed_values(schema).__contains__, identities(values))
            return list(compress(values, map(not_, accepted)))
        return [value for value in values if PRIMITIVES[kind](value, schema)]

    def _listed_values(self, schema: JSONObject) -> frozenset[str | bytes]:
        if id(schema) not in self._listed:
            listed = frozenset(identities(schema["enum"] if "enum" in schema else [schema["const"]]))
            self._listed[id(schema)] = listed & {*identities([schema["const"]])} if "const" in schema else listed
        return self._listed[id(schema)]

    def members(self, type: Type) -> _Members | None:
        """The members of an object, a map or one case of a choice; None if there is no such value."""
        if type not in self._members:
            self._members[type] = self._choice(type) if type.kind == "choice" else self._object(type.schema)
        return self._members[type]

    def is_empty(self, type: Type) -> bool:
        """Return True if there is no value of a type: a part is impossible, or of the type itself."""
        if type not in self._empty:
            self._empty |= answers(type, self._parts, most=MAX_STEPS)
        return self._empty[type]

    def _parts(self, type: Type) -> list[Clause[Type]]:
        """Return the ways to make a value, each with the types of its parts: it is impossible if one of them is."""
        several = self.alternatives(type)
        if several != (type,):
            return [Clause((one,)) for one in several]
        if type.kind == "choice" and not type.case:
            return [Clause((replace(type, case=name),)) for name in type.schema["choices"]]
        if type.kind == "tuple":
            named = self.structure.properties(type.schema)
            return [Clause(tuple(self.of(named[name]) for name in type.schema["tuple"]))]
        if type.kind in PRIMITIVES and primitives.is_empty(type.schema):
            return []
        if primitives.family(type.kind) != "object":
            return [Clause()]
        members = self.members(type)
        if members is None:
            return []
        ways = [[members.named.get(name, members.more) for name in names] for names in members.required.possible]
        return [Clause(tuple(part for part in way if part is not None)) for way in ways]

    def _object(self, schema: JSONObject) -> _Members | None:
        if schema["type"] == "map":
            more = self.of(schema["values"], schema, "values")
            return _Members(named={}, required=_require(), more=more, instance=False)
        sets = _Required.from_sets([frozenset(names) for names in required(self.structure, schema)], self._spend)
        if sets is None:
            return None
        more = schema.get("additionalProperties", True)
        return _Members(
            named={name: self.of(item) for name, item in self.structure.properties(schema).items()},
            required=sets,
            more=None if more is False else self.of(more, schema, "additionalProperties"),
            instance=True,
        )

    def _choice(self, type: Type) -> _Members | None:
        chosen = type.schema["choices"][type.case]
        name = selector(type.schema)
        if name is None:
            required = _require(type.case)
            return _Members(named={type.case: self.of(chosen)}, required=required, more=None, instance=False)
        inner = resolved(self.structure, chosen)
        if inner.get("type") != "object":
            return None
        found = self._object(inner)
        if found is None:
            return None
        if name in found.named and all(self.refused(one, [type.case]) for one in self.alternatives(found.named[name])):
            return None  # the selector cannot have the name of this alternative
        tagged = _Required.from_sets([names | {name} for names in found.required.sets], self._spend)
        if tagged is None:
            return None
        tag = Type(id(type.schema), "/selector", {"type": "string", "const": type.case}, type.case)
        return replace(found, free=name, tag=tag, tagged=tagged)


def selector(schema: JSONObject) -> str | None:
    """The member that tells the alternatives of a choice apart; None where the alternative's name is a member."""
    found = schema.get("selector") if "$extends" in schema else None
    return found if isinstance(found, str) else None


class _Comparison:
    """Finds the clauses of questions."""

    def __init__(self, reader: Structure, writer: Structure) -> None:
        self.reader = _Side(reader, self._spend)
        self.writer = _Side(writer, self._spend)
        self._steps = 0

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooMuch
        spend(steps)

    def definitions(self) -> list[Difference]:
        found: list[Difference] = []
        asked: list[TypePair] = []
        for path, schema in _named(self.writer.structure.root.get("definitions", {}), "/definitions"):
            other = self.reader.structure.lookup(path)
            if isinstance(other, dict) and "type" in other:
                asked.append(TypePair(self.writer.of(schema), self.reader.of(other), True))
            else:
                text = "the definition is gone; what refers to it finds nothing"
                found.append(fault(path, "definition_removed", _text(schema), None, text))
        return (found + refutations(asked, self.examine, most=MAX_STEPS))[:MAX_FINDINGS]

    def examine(self, question: TypePair) -> Clauses:
        """Return the clauses that must hold for a positive answer."""
        old, reader, top = question
        written, read = self.writer.alternatives(old), self.reader.alternatives(reader)
        self._spend(len(written) + len(read))
        if self.writer.is_empty(old):
            return []
        if any(one.kind == "any" for one in read):
            return []
        if len(written) > 1:
            return [Clause((TypePair(one, reader, top),)) for one in written]
        old = written[0]
        if old.kind == "choice" and not old.case:
            return [Clause((TypePair(replace(old, case=name), reader, top),)) for name in old.schema["choices"]]
        families = {primitives.family(one.kind) for one in read}
        if old.kind == "any" and families >= _FAMILIES:
            whole = (Type(old.owner, f"{old.suffix}/{at}", schema) for at, schema in enumerate(_EVERYTHING))
            return [Clause((TypePair(one, reader, top),)) for one in whole]
        if old.kind in PRIMITIVES and (values := primitives.listed(old.schema)) is not None:
            return self._listed(values, old, reader, read)
        fitting = [one for one in read if primitives.family(one.kind) == primitives.family(old.kind)]
        if not fitting:
            return [self._other_type(old, reader, read)]
        if len(read) == 1:
            return self._single(TypePair(old, fitting[0], top))
        why = f"no alternative takes all values of {_text(old.schema)}, several may together"
        otherwise = undecided(self.reader.path(reader, "type"), why, _text(old.schema), _text(reader.schema))
        questions = tuple(TypePair(old, one, top) for one in fitting)
        return [Clause(questions, otherwise if len(questions) > 1 else None)]

    def _single(self, question: TypePair) -> Clauses:
        """Two types of the same JSON type, neither a union nor ``any``."""
        old, new, _ = question
        if old.kind in PRIMITIVES:
            wrong = primitives.problem(old.schema, new.schema)
            if wrong is None:
                return []
            rule, keyword, message = wrong
            before, after = _shown(old.schema, keyword), _shown(new.schema, keyword)
            return [_failed(self.reader.path(new, keyword), rule, before, after, message)]
        if primitives.family(old.kind) == "array":
            return self._arrays(question)
        return self._choices(question) if new.kind == "choice" and not new.case else self._objects(question)

    def _other_type(self, old: Type, reader: Type, read: tuple[Type, ...]) -> Clause[TypePair]:
        path = self.reader.path(reader, "type")
        expected = " or ".join(_text(one.schema) for one in read[:_MAX_NAMED])
        rule, what = ("type_narrowed", "anything") if old.kind == "any" else ("type_changed", _text(old.schema))
        message = f"{what} may be written, but only {expected} is accepted here"
        return _failed(path, rule, _text(old.schema), expected, message)

    def _listed(self, values: list[JSON], old: Type, reader: Type, read: tuple[Type, ...]) -> Clauses:
        refused = values
        for one in read:
            self._spend(1 + len(refused) // _VALUES_A_STEP)
            refused = self.reader.refused(one, refused)
        if not refused:
            return []
        if not any(primitives.family(one.kind) == primitives.family(old.kind) for one in read):
            return [self._other_type(old, reader, read)]
        keyword = "enum" if "enum" in read[0].schema else "const" if "const" in read[0].schema else "type"
        shown = ", ".join(_short(value) for value in refused[:_MAX_NAMED])
        rule = "enum_narrowed" if keyword == "enum" else "value_refused"
        path = self.reader.path(read[0] if len(read) == 1 else reader, keyword if len(read) == 1 else "type")
        message = f"{shown} may be written, but is not accepted here"
        return [_failed(path, rule, _short(refused), _text(reader.schema), message)]

    def _arrays(self, question: TypePair) -> Clauses:
        old, new, _ = question
        if new.kind == "tuple":
            return self._tuples(old, new)
        items = self.reader.of(new.schema["items"])
        if old.kind == "tuple":
            named = self.writer.structure.properties(old.schema)
            found = [Clause((TypePair(self.writer.of(named[name]), items, False),)) for name in old.schema["tuple"]]
            different = len(found) < 2
        else:
            inner = self.writer.of(old.schema["items"], old.schema, "items")
            found = [Clause((TypePair(inner, items, False),))]
            different = old.kind == "set"
        if new.kind == "set" and not different:
            message = "items may be written twice, but must differ from each other here"
            found.append(_failed(self.reader.path(new, "type"), "unique_items_added", old.kind, new.kind, message))
        return found

    def _tuples(self, old: Type, new: Type) -> Clauses:
        path = self.reader.path(new, "tuple")
        names: list[str] = new.schema["tuple"]
        if old.kind != "tuple":
            message = f"lists of any length may be written, but exactly {len(names)} items are accepted here"
            return [_failed(self.reader.path(new, "type"), "type_narrowed", old.kind, new.kind, message)]
        before: list[str] = old.schema["tuple"]
        if len(before) != len(names):
            message = f"{len(before)} items are written, but exactly {len(names)} are accepted here"
            return [_failed(path, "tuple_length_changed", before, names, message)]
        if before != names and set(before) & set(names) != {
            name for at, name in enumerate(before) if names[at] == name
        }:
            return [_failed(path, "tuple_reordered", before, names, "the same items stand in another order here")]
        written, read = (
            side.structure.properties(one.schema) for side, one in ((self.writer, old), (self.reader, new))
        )
        pairs = zip(before, names, strict=True)
        return [Clause((TypePair(self.writer.of(written[a]), self.reader.of(read[b]), False),)) for a, b in pairs]

    def _choices(self, question: TypePair) -> Clauses:
        """Compare the writer's values with the alternatives of a choice."""
        old, new, top = question
        given, name = self.writer.members(old), selector(new.schema)
        if given is None:
            return []
        cases = self._cases(given, name, top)
        if cases is None:
            expected = f"the member {name}" if name else "exactly one member"
            message = f"objects may be written that lack {expected} to tell which of the alternatives here is meant"
            return [_failed(self.reader.path(new), "choice_added", _text(old.schema), _text(new.schema), message)]
        found: Clauses = []
        for case in cases:
            if case in new.schema["choices"]:
                found.append(Clause((TypePair(old, replace(new, case=case), top),)))
            else:
                message = f"the alternative {_short(case)} may be written, but there is none of that name here"
                path = self.reader.path(new, "choices")
                found.append(_failed(path, "choice_removed", case, None, message))
        return found

    def _cases(self, given: _Members, name: str | None, top: bool) -> list[str] | None:
        """The alternatives that what is written tells, by the member ``name`` or, without one, by its only member."""
        if name is None:
            alone = list(given.named) if given.more is None and not (top and given.instance) else []
            return alone if len(alone) == 1 and given.required.always == {*alone} else None
        if given.tag is not None and given.free == name:
            return [given.tag.case]
        if name not in given.named or name not in given.required.always:
            return None
        found: list[str] = []
        for one in self.writer.alternatives(given.named[name]):
            values = primitives.listed(one.schema) if one.kind == "string" else None
            if values is None:
                return None
            found += values
        return found

    def _objects(self, question: TypePair) -> Clauses:
        old, new, top = question
        given, taken = self.writer.members(old), self.reader.members(new)
        if given is None:
            return []
        if taken is None:
            message = f"no value can be the alternative {new.case!r}"
            return [_failed(self.reader.path(new), "nothing_accepted", _text(old.schema), None, message)]
        self._spend(len(given.named) + len(taken.named))
        if given.tag is not None and given.free is not None and given.tagged is not None:
            given = replace(given, named={**given.named, given.free: given.tag}, required=given.tagged)
        return [
            *self._required(given, taken, new),
            *self._written_members(given, taken),
            *self._other_members(given, taken, new),
            *(self._instance(taken, new) if top and given.instance and not taken.instance else ()),
        ]

    def _instance(self, taken: _Members, new: Type) -> Clauses:
        """``$schema`` and ``$uses`` of a payload are free in objects, but not in maps and choices."""
        if taken.more is not None:
            return [Clause((TypePair(Type(id(_ANY), "", _ANY), taken.more, False),))]
        message = "a payload may have $schema, which is not accepted here"
        return [_failed(self.reader.path(new), "additional_properties_removed", "$schema", None, message)]

    def _required(self, given: _Members, taken: _Members, new: Type) -> Clauses:
        path = self.reader.path(new, "required")
        expected = taken.required.sets
        if len(expected) == 1:
            message = "is required here, but may be missing in what is written"
            missing = sorted(expected[0] - given.required.always)
            return [_failed(path, "required_added", None, name, f"the property {name!r} {message}") for name in missing]
        written = given.required.sets
        names_compared = len(written) * (_count_names(written) * len(expected) + _count_names(expected))
        self._spend(names_compared // _NAMES_A_STEP)
        if all(_exactly_one(number, given, taken) for number in range(len(written))):
            return []
        shown = [sorted(names) for names in written], [sorted(names) for names in expected]
        message = "exactly one of these sets of properties is needed here, which what is written need not have"
        return [_failed(path, "required_changed", _short(shown[0]), _short(shown[1]), message)]

    def _written_members(self, given: _Members, taken: _Members) -> Clauses:
        found: Clauses = []
        for name, member in given.named.items():
            if name in given.required.never or self.writer.is_empty(member):
                continue
            expected = taken.named.get(name, taken.more)
            if expected is not None and not (name == taken.free and name not in taken.named):
                found.append(Clause((TypePair(member, expected, False),)))
            elif expected is None and name != taken.free:
                message = f"the property {name!r} may be written, but there is no such property here"
                path, rule = self.writer.path(member), "property_removed_from_closed_content_model"
                found.append(_failed(path, rule, _text(member.schema), None, message))
        return found

    def _other_members(self, given: _Members, taken: _Members, new: Type) -> Clauses:
        if given.more is None or self.writer.is_empty(given.more):
            return []
        ask = partial(TypePair, given.more, top=False)
        found: Clauses = []
        is_open = self.writer.alternatives(given.more)[0].kind == "any"
        for name, expected in taken.named.items():
            if name in given.named or name in given.required.never:
                continue
            rule = f"property_added_to_{'' if is_open else 'partially_'}open_content_model"
            message = (
                f"{name!r} is described here, but the writer's objects may hold {_text(given.more.schema)} by that name"
            )
            shown = _text(given.more.schema), _text(expected.schema)
            path = self.reader.path(expected)
            found.append(Clause((ask(reader=expected),), fault(path, rule, *shown, message)))
        if taken.more is None:
            message = "properties of any name may be written, but only the described ones are accepted here"
            shown = _text(given.more.schema), "false"
            path = self.reader.path(new, "additionalProperties")
            found.append(_failed(path, "additional_properties_removed", *shown, message))
        else:
            found.append(Clause((ask(reader=taken.more),)))
        return found


def _require(*names: str) -> _Required:
    """Return what objects require that all have the same members."""
    only = frozenset(names)
    return _Required([only], [only], only, frozenset())


def _count_names(sets: list[frozenset[str]]) -> int:
    return sum(1 + len(names) for names in sets)


def _exactly_one(number: int, given: _Members, taken: _Members) -> bool:
    """Return True if objects with exactly one of the writer's sets have exactly one of the reader's."""
    have, expected = given.required.sets[number], taken.required.sets
    others = [names for at, names in enumerate(given.required.sets) if at != number]
    if any(names <= have for names in others):
        return True  # there is no such object
    if sum(names <= have for names in expected) != 1:
        return False
    return all(
        names <= have
        or (given.more is None and not names <= given.named.keys())
        or any(map((names | have).issuperset, others))
        for names in expected
    )


def _named(namespace: JSON, path: str) -> Iterator[tuple[str, JSONObject]]:
    """The types in a namespace and those within, by their pointers."""
    waiting: list[tuple[str, JSON]] = [(path, namespace)]
    while waiting:
        path, node = waiting.pop(0)
        for name, item in node.items() if isinstance(node, dict) else ():
            if not isinstance(item, dict) or name in IMPORTS:
                continue
            if "type" in item:
                yield f"{path}/{name}", item
            else:
                waiting.append((f"{path}/{name}", item))


def _failed(path: str, rule: str, old: JSON, new: JSON, message: str) -> Clause[TypePair]:
    return Clause((), fault(path, rule, old, new, message))


def _shown(schema: JSONObject, keyword: str) -> JSON:
    value = _text(schema) if keyword == "type" else schema.get(keyword)
    return _short(value) if isinstance(value, list) else value


def _short(value: JSON) -> str:
    shown = canonical_json(value).decode()
    return shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + "…"


def _text(schema: JSONObject) -> str:
    """A type as people write it."""
    kind = schema.get("type")
    if isinstance(kind, dict):
        return _short(kind.get("$ref", "a type")).strip('"')
    if isinstance(kind, list):
        return " or ".join(_text({"type": one}) for one in kind[:_MAX_NAMED])
    named = schema.get("name")
    return f"{kind} {named[:_MAX_TEXT]}" if isinstance(named, str) else str(kind)
