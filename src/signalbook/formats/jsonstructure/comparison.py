"""The comparison of JSON Structure types: find the clauses that each pair of types has to satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import compress
from operator import and_, not_
from typing import Final, NamedTuple

from signalbook.formats.base import MAX_FINDINGS, format_pointer
from signalbook.formats.compatibility import Difference, TooManySteps
from signalbook.formats.inclusion import Clause, find_answers, find_refutations, make_difference, make_undecided
from signalbook.formats.jsonstructure import primitives
from signalbook.formats.jsonstructure.document import list_containers, list_identities
from signalbook.formats.jsonstructure.primitives import Family
from signalbook.formats.jsonstructure.types import IMPORTS, PRIMITIVES, Structure, list_required, resolve_type
from signalbook.values import JSON, JSONObject, canonical_json
from signalbook.work import spend

MAX_STEPS: Final = 200_000
_VALUES_PER_STEP: Final = 20
_NAMES_PER_STEP: Final = 4
_MAX_TYPE_CHARS: Final = 200
_MAX_LISTED_NAMES: Final = 5
_FAMILIES: Final = frozenset[Family | None]({"null", "boolean", "number", "string", "array", "object"})
_ANY: Final[JSONObject] = {"type": "any"}
# The alternatives that together equal ``any``.
_ALL_TYPES: Final[tuple[JSONObject, ...]] = (
    {"type": "null"}, {"type": "boolean"}, {"type": "number"}, {"type": "string"},
    {"type": "array", "items": _ANY}, {"type": "map", "values": _ANY},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """A type declaration and its place: ``suffix`` is a pointer from the object whose ``id()`` is ``owner``.

    ``case`` is the name of an alternative if the type stands only for the values of that alternative of a choice.
    """

    owner: int
    suffix: str
    schema: JSONObject = field(compare=False)
    case: str = ""

    @property
    def kind(self) -> str:
        return str(self.schema["type"])


class TypePair(NamedTuple):
    """The question whether ``reader`` has all values of ``writer``; ``top`` is True for whole
    payloads, with ``$schema``.
    """

    writer: Type
    reader: Type
    top: bool


Clauses = list[Clause[TypePair]]


def find_differences(reader: Structure, writer: Structure) -> list[Difference]:
    """Return all reasons found why a payload of ``writer`` may not conform to ``reader``; paths point into ``reader``.

    Documents without a type of their own are collections: their definitions are compared by name.
    """
    if reader.fingerprint == writer.fingerprint:
        return []
    comparison = _Comparison(reader, writer)
    old, new = writer.find_top(), reader.find_top()
    if old is not None and new is not None:
        top = TypePair(comparison.writer.make_type(old), comparison.reader.make_type(new), True)
        return find_refutations([top], comparison.examine, max_clauses=MAX_STEPS)
    if old is not None:
        message = "whole payloads have a type for the writer, but none here"
        return [make_difference("", "type_removed", _format_type(old), None, message)]
    return comparison.compare_definitions()


@dataclass(frozen=True, slots=True)
class _RequiredSets:
    """The required sets of an object type: an object has all members of exactly one of the ``sets``.

    ``possible`` are the sets that an object can have. A set that contains another set is impossible, because an object
    with it would have both. All objects have the members in ``always``. No object has a member in ``never``, because
    that member always completes a second set.
    """

    sets: list[frozenset[str]]
    possible: list[frozenset[str]]
    always: frozenset[str]
    never: frozenset[str]

    @classmethod
    def from_sets(cls, sets: list[frozenset[str]], spend: Callable[[int], None]) -> _RequiredSets | None:
        """Build the required sets from ``sets``; return None if no object can have exactly one of them."""
        spend(len(sets) * _count_names(sets) // _NAMES_PER_STEP)
        pairs = list(enumerate(sets))
        possible = [names for at, names in pairs if not any(other <= names for there, other in pairs if there != at)]
        if not possible:
            return None
        missing = ([names - have for names in sets] for have in possible)
        never = (frozenset[str]().union(*(names for names in row if len(names) == 1)) for row in missing)
        return cls(sets, possible, frozenset[str].intersection(*possible), reduce(and_, never))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectMembers:
    """The members of objects of one type. An object has exactly one of the sets in ``required``.

    ``more`` is the type of other members, None if there may be none. The member ``free`` may have any value. ``tag`` is
    the type of a selector member with a constant value; ``tagged`` are the required sets with that member. If
    ``instance`` is True, ``$schema`` and ``$uses`` may also occur at the top of a payload.
    """

    properties: dict[str, Type]
    required: _RequiredSets
    more: Type | None
    instance: bool
    free: str | None = None
    tag: Type | None = None
    tagged: _RequiredSets | None = None


class _ComparedDocument:
    """The document of the reader or of the writer, with lookups and caches for the comparison."""

    def __init__(self, structure: Structure, spend: Callable[[int], None]) -> None:
        self.structure = structure
        self._spend = spend
        self._parents: dict[int, tuple[int, str | int]] = {}
        self._alternatives: dict[Type, tuple[Type, ...]] = {}
        self._members: dict[Type, _ObjectMembers | None] = {}
        self._empty: dict[Type, bool] = {}
        self._listed: dict[int, frozenset[str | bytes]] = {}
        waiting: list[JSON] = [structure.root]
        while waiting:
            node = waiting.pop()
            if not list_containers(node):  # for example a list of very many values
                continue
            for name, item in node.items() if isinstance(node, dict) else enumerate(node):
                if isinstance(item, (dict, list)):
                    self._parents[id(item)] = (id(node), name)
                    waiting.append(item)

    def make_type(self, schema: JSON, within: JSONObject | None = None, keyword: str = "") -> Type:
        """Return the type that ``schema`` declares.

        If ``schema`` is ``true``, which accepts any value, its place is ``keyword`` in the object ``within``.
        """
        if isinstance(schema, dict):
            return Type(id(schema), "", schema)
        return Type(id(within), f"/{keyword}", _ANY)

    def find_path(self, type: Type, *parts: str | int) -> str:
        """Return the JSON Pointer to a type, or to the place ``parts`` in it."""
        steps: list[str | int] = []
        node = type.owner
        while node in self._parents:
            node, name = self._parents[node]
            steps.append(name)
        return format_pointer(reversed(steps)) + type.suffix + format_pointer(parts)

    def list_alternatives(self, type: Type) -> tuple[Type, ...]:
        """Return the alternatives of a type, each of one kind, after references and unions are resolved."""
        if type not in self._alternatives:
            self._alternatives[type] = tuple(self._resolve_unions(type))
        return self._alternatives[type]

    def _resolve_unions(self, type: Type) -> Iterator[Type]:
        waiting, seen = [type], set[Type]()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            kind = current.schema.get("type")
            if isinstance(kind, list):
                items = (
                    Type(current.owner, f"{current.suffix}/type/{at}", {"type": item}) for at, item in enumerate(kind)
                )
                waiting += reversed(list(items))
            elif not isinstance(kind, dict):
                yield current
            elif "$ref" in kind:
                waiting.append(self.make_type(self.structure.lookup(kind["$ref"]), current.schema, "type"))
            else:
                waiting.append(self.make_type(kind))

    def find_refused(self, type: Type, values: list[JSON]) -> list[JSON]:
        """Return the scalar ``values`` that do not conform to a type other than a union."""
        name, schema = type.kind, type.schema
        if name not in PRIMITIVES:
            return [] if name == "any" else values
        if "const" in schema or "enum" in schema:  # the listed values were already checked to conform to the type
            accepted = map(self._listed_values(schema).__contains__, list_identities(values))
            return list(compress(values, map(not_, accepted)))
        return [value for value in values if PRIMITIVES[name](value, schema)]

    def _listed_values(self, schema: JSONObject) -> frozenset[str | bytes]:
        if id(schema) not in self._listed:
            values = frozenset(list_identities(schema["enum"] if "enum" in schema else [schema["const"]]))
            self._listed[id(schema)] = values & {*list_identities([schema["const"]])} if "const" in schema else values
        return self._listed[id(schema)]

    def find_members(self, type: Type) -> _ObjectMembers | None:
        """Return the members of an object, a map or one case of a choice; None if no value conforms to the type."""
        if type not in self._members:
            self._members[type] = self._read_choice(type) if type.kind == "choice" else self._read_object(type.schema)
        return self._members[type]

    def is_empty(self, type: Type) -> bool:
        """Return True if no value conforms to a type, because it requires an impossible part or a
        part of the same type.
        """
        if type not in self._empty:
            self._empty |= find_answers(type, self._list_parts, max_clauses=MAX_STEPS)
        return self._empty[type]

    def _list_parts(self, type: Type) -> list[Clause[Type]]:
        """Return the ways to construct a value, each with the types of its parts. A way fails if
        one of its parts is empty.
        """
        alternatives = self.list_alternatives(type)
        if alternatives != (type,):
            return [Clause((alternative,)) for alternative in alternatives]
        if type.kind == "choice" and not type.case:
            return [Clause((replace(type, case=name),)) for name in type.schema["choices"]]
        if type.kind == "tuple":
            properties = self.structure.list_properties(type.schema)
            return [Clause(tuple(self.make_type(properties[name]) for name in type.schema["tuple"]))]
        if type.kind in PRIMITIVES and primitives.is_empty(type.schema):
            return []
        if primitives.find_json_type(type.kind) != "object":
            return [Clause()]
        members = self.find_members(type)
        if members is None:
            return []
        ways = [[members.properties.get(name, members.more) for name in names] for names in members.required.possible]
        return [Clause(tuple(part for part in way if part is not None)) for way in ways]

    def _read_object(self, schema: JSONObject) -> _ObjectMembers | None:
        if schema["type"] == "map":
            more = self.make_type(schema["values"], schema, "values")
            return _ObjectMembers(properties={}, required=_require_members(), more=more, instance=False)
        sets = _RequiredSets.from_sets(
            [frozenset(names) for names in list_required(self.structure, schema)], self._spend
        )
        if sets is None:
            return None
        more = schema.get("additionalProperties", True)
        return _ObjectMembers(
            properties={name: self.make_type(item) for name, item in self.structure.list_properties(schema).items()},
            required=sets,
            more=None if more is False else self.make_type(more, schema, "additionalProperties"),
            instance=True,
        )

    def _read_choice(self, type: Type) -> _ObjectMembers | None:
        case_schema = type.schema["choices"][type.case]
        name = find_selector(type.schema)
        if name is None:
            required = _require_members(type.case)
            return _ObjectMembers(
                properties={type.case: self.make_type(case_schema)}, required=required, more=None, instance=False
            )
        inner = resolve_type(self.structure, case_schema)
        if inner.get("type") != "object":
            return None
        members = self._read_object(inner)
        if members is None:
            return None
        if name in members.properties and all(
            self.find_refused(alternative, [type.case])
            for alternative in self.list_alternatives(members.properties[name])
        ):
            return None  # the selector cannot have the name of this alternative
        tagged = _RequiredSets.from_sets([names | {name} for names in members.required.sets], self._spend)
        if tagged is None:
            return None
        tag = Type(id(type.schema), "/selector", {"type": "string", "const": type.case}, type.case)
        return replace(members, free=name, tag=tag, tagged=tagged)


def find_selector(schema: JSONObject) -> str | None:
    """Return the name of the member that selects the alternative of a choice.

    None means that the name of the alternative is itself the only member.
    """
    name = schema.get("selector") if "$extends" in schema else None
    return name if isinstance(name, str) else None


class _Comparison:
    """Finds the clauses that the answer to a question depends on."""

    def __init__(self, reader: Structure, writer: Structure) -> None:
        self.reader = _ComparedDocument(reader, self._spend)
        self.writer = _ComparedDocument(writer, self._spend)
        self._steps = 0

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooManySteps
        spend(steps)

    def compare_definitions(self) -> list[Difference]:
        differences: list[Difference] = []
        pairs: list[TypePair] = []
        for path, schema in _list_types(self.writer.structure.root.get("definitions", {}), "/definitions"):
            reader_schema = self.reader.structure.lookup(path)
            if isinstance(reader_schema, dict) and "type" in reader_schema:
                pairs.append(TypePair(self.writer.make_type(schema), self.reader.make_type(reader_schema), True))
            else:
                text = "the definition is gone; what refers to it finds nothing"
                differences.append(make_difference(path, "definition_removed", _format_type(schema), None, text))
        return (differences + find_refutations(pairs, self.examine, max_clauses=MAX_STEPS))[:MAX_FINDINGS]

    def examine(self, question: TypePair) -> Clauses:
        """Return the clauses that must all hold if the reader accepts all values of the writer."""
        old, reader, top = question
        written, read = self.writer.list_alternatives(old), self.reader.list_alternatives(reader)
        self._spend(len(written) + len(read))
        if self.writer.is_empty(old):
            return []
        if any(alternative.kind == "any" for alternative in read):
            return []
        if len(written) > 1:
            return [Clause((TypePair(alternative, reader, top),)) for alternative in written]
        old = written[0]
        if old.kind == "choice" and not old.case:
            return [Clause((TypePair(replace(old, case=name), reader, top),)) for name in old.schema["choices"]]
        families = {primitives.find_json_type(alternative.kind) for alternative in read}
        if old.kind == "any" and families >= _FAMILIES:
            whole = (Type(old.owner, f"{old.suffix}/{at}", schema) for at, schema in enumerate(_ALL_TYPES))
            return [Clause((TypePair(alternative, reader, top),)) for alternative in whole]
        if old.kind in PRIMITIVES and (values := primitives.list_values(old.schema)) is not None:
            return self._compare_listed(values, old, reader, read)
        family = primitives.find_json_type(old.kind)
        fitting = [alternative for alternative in read if primitives.find_json_type(alternative.kind) == family]
        if not fitting:
            return [self._make_type_clause(old, reader, read)]
        if len(read) == 1:
            return self._compare_single(TypePair(old, fitting[0], top))
        reason = f"no alternative takes all values of {_format_type(old.schema)}, several may together"
        otherwise = make_undecided(
            self.reader.find_path(reader, "type"), reason, _format_type(old.schema), _format_type(reader.schema)
        )
        questions = tuple(TypePair(old, alternative, top) for alternative in fitting)
        return [Clause(questions, otherwise if len(questions) > 1 else None)]

    def _compare_single(self, question: TypePair) -> Clauses:
        """Return the clauses for two types of the same JSON type, neither of them a union or ``any``."""
        old, new, _ = question
        if old.kind in PRIMITIVES:
            problem = primitives.find_problem(old.schema, new.schema)
            if problem is None:
                return []
            rule, keyword, message = problem
            before, after = _format_keyword(old.schema, keyword), _format_keyword(new.schema, keyword)
            return [_make_failed_clause(self.reader.find_path(new, keyword), rule, before, after, message)]
        if primitives.find_json_type(old.kind) == "array":
            return self._compare_arrays(question)
        if new.kind == "choice" and not new.case:
            return self._compare_choices(question)
        return self._compare_objects(question)

    def _make_type_clause(self, old: Type, reader: Type, read: tuple[Type, ...]) -> Clause[TypePair]:
        path = self.reader.find_path(reader, "type")
        expected = " or ".join(_format_type(alternative.schema) for alternative in read[:_MAX_LISTED_NAMES])
        rule, written = (
            ("type_narrowed", "anything") if old.kind == "any" else ("type_changed", _format_type(old.schema))
        )
        message = f"{written} may be written, but only {expected} is accepted here"
        return _make_failed_clause(path, rule, _format_type(old.schema), expected, message)

    def _compare_listed(self, values: list[JSON], old: Type, reader: Type, read: tuple[Type, ...]) -> Clauses:
        refused = values
        for alternative in read:
            self._spend(1 + len(refused) // _VALUES_PER_STEP)
            refused = self.reader.find_refused(alternative, refused)
        if not refused:
            return []
        family = primitives.find_json_type(old.kind)
        if not any(primitives.find_json_type(alternative.kind) == family for alternative in read):
            return [self._make_type_clause(old, reader, read)]
        keyword = "enum" if "enum" in read[0].schema else "const" if "const" in read[0].schema else "type"
        examples = ", ".join(_format_json(value) for value in refused[:_MAX_LISTED_NAMES])
        rule = "enum_narrowed" if keyword == "enum" else "value_refused"
        path = self.reader.find_path(read[0] if len(read) == 1 else reader, keyword if len(read) == 1 else "type")
        message = f"{examples} may be written, but is not accepted here"
        return [_make_failed_clause(path, rule, _format_json(refused), _format_type(reader.schema), message)]

    def _compare_arrays(self, question: TypePair) -> Clauses:
        old, new, _ = question
        if new.kind == "tuple":
            return self._compare_tuples(old, new)
        items = self.reader.make_type(new.schema["items"])
        if old.kind == "tuple":
            properties = self.writer.structure.list_properties(old.schema)
            clauses = [
                Clause((TypePair(self.writer.make_type(properties[name]), items, False),))
                for name in old.schema["tuple"]
            ]
            has_distinct_items = len(clauses) < 2
        else:
            inner = self.writer.make_type(old.schema["items"], old.schema, "items")
            clauses = [Clause((TypePair(inner, items, False),))]
            has_distinct_items = old.kind == "set" or self.writer.is_empty(inner)
        if new.kind == "set" and not has_distinct_items:
            message = "items may be written twice, but must differ from each other here"
            path = self.reader.find_path(new, "type")
            clauses.append(_make_failed_clause(path, "unique_items_added", old.kind, new.kind, message))
        return clauses

    def _compare_tuples(self, old: Type, new: Type) -> Clauses:
        names: list[str] = new.schema["tuple"]
        if old.kind != "tuple":
            path = self.reader.find_path(new, "type")
            message = f"lists of any length may be written, but exactly {len(names)} items are accepted here"
            return [_make_failed_clause(path, "type_narrowed", old.kind, new.kind, message)]
        path = self.reader.find_path(new, "tuple")
        before: list[str] = old.schema["tuple"]
        if len(before) != len(names):
            message = f"{len(before)} items are written, but exactly {len(names)} are accepted here"
            return [_make_failed_clause(path, "tuple_length_changed", before, names, message)]
        kept = {name for name, reader_name in zip(before, names, strict=True) if name == reader_name}
        if set(before) & set(names) != kept:
            message = "the same items stand in another order here"
            return [_make_failed_clause(path, "tuple_reordered", before, names, message)]
        written, read = (
            side.structure.list_properties(compared_type.schema)
            for side, compared_type in ((self.writer, old), (self.reader, new))
        )
        pairs = zip(before, names, strict=True)
        return [
            Clause((TypePair(self.writer.make_type(written[a]), self.reader.make_type(read[b]), False),))
            for a, b in pairs
        ]

    def _compare_choices(self, question: TypePair) -> Clauses:
        """Return the clauses for the writer's values and the alternatives of the reader's choice."""
        old, new, top = question
        writer_members, name = self.writer.find_members(old), find_selector(new.schema)
        if writer_members is None:
            return []
        cases = self._list_cases(writer_members, name, top)
        if cases is None:
            expected = f"the member {name}" if name else "exactly one member"
            message = f"objects may be written that lack {expected} to tell which of the alternatives here is meant"
            before, after = _format_type(old.schema), _format_type(new.schema)
            return [_make_failed_clause(self.reader.find_path(new), "choice_added", before, after, message)]
        clauses: Clauses = []
        for case in cases:
            if case in new.schema["choices"]:
                clauses.append(Clause((TypePair(old, replace(new, case=case), top),)))
            else:
                message = f"the alternative {_format_json(case)} may be written, but there is none of that name here"
                path = self.reader.find_path(new, "choices")
                clauses.append(_make_failed_clause(path, "choice_removed", case, None, message))
        return clauses

    def _list_cases(self, writer_members: _ObjectMembers, name: str | None, top: bool) -> list[str] | None:
        """Return the alternatives that written values select, or None if values may select no alternative.

        The member ``name`` selects the alternative or, if it is None, the only member of the value.
        """
        if name is None:
            names = list(writer_members.properties)
            is_open = writer_members.more is not None or (top and writer_members.instance)
            return names if not is_open and len(names) == 1 and writer_members.required.always == {*names} else None
        if writer_members.tag is not None and writer_members.free == name:
            return [writer_members.tag.case]
        if name not in writer_members.properties or name not in writer_members.required.always:
            return None
        cases: list[str] = []
        for alternative in self.writer.list_alternatives(writer_members.properties[name]):
            values = primitives.list_values(alternative.schema) if alternative.kind == "string" else None
            if values is None:
                return None
            cases += values
        return cases

    def _compare_objects(self, question: TypePair) -> Clauses:
        old, new, top = question
        writer_members, reader_members = self.writer.find_members(old), self.reader.find_members(new)
        if writer_members is None:
            return []
        if reader_members is None:
            path, message = self.reader.find_path(new), f"no value can be the alternative {new.case!r}"
            return [_make_failed_clause(path, "nothing_accepted", _format_type(old.schema), None, message)]
        self._spend(len(writer_members.properties) + len(reader_members.properties))
        if writer_members.tag is not None and writer_members.free is not None and writer_members.tagged is not None:
            writer_members = replace(
                writer_members,
                properties={**writer_members.properties, writer_members.free: writer_members.tag},
                required=writer_members.tagged,
            )
        return [
            *self._compare_required(writer_members, reader_members, new),
            *self._compare_written_members(writer_members, reader_members),
            *self._compare_other_members(writer_members, reader_members, new),
            *(
                self._compare_instance(reader_members, new)
                if top and writer_members.instance and not reader_members.instance
                else ()
            ),
        ]

    def _compare_instance(self, reader_members: _ObjectMembers, new: Type) -> Clauses:
        """Return clauses for ``$schema`` and ``$uses``, which payloads of objects may have but maps and choices do not
        allow.
        """
        if reader_members.more is not None:
            return [Clause((TypePair(Type(id(_ANY), "", _ANY), reader_members.more, False),))]
        path, message = self.reader.find_path(new), "a payload may have $schema, which is not accepted here"
        return [_make_failed_clause(path, "additional_properties_removed", "$schema", None, message)]

    def _compare_required(self, writer_members: _ObjectMembers, reader_members: _ObjectMembers, new: Type) -> Clauses:
        path = self.reader.find_path(new, "required")
        expected = reader_members.required.sets
        if len(expected) == 1:
            message = "is required here, but may be missing in what is written"
            missing = sorted(expected[0] - writer_members.required.always)
            return [
                _make_failed_clause(path, "required_added", None, name, f"the property {name!r} {message}")
                for name in missing
            ]
        written = writer_members.required.sets
        names_compared = len(written) * (_count_names(written) * len(expected) + _count_names(expected))
        self._spend(names_compared // _NAMES_PER_STEP)
        impossible = {name for name, member in writer_members.properties.items() if self.writer.is_empty(member)}
        if all(_has_exactly_one(at, writer_members, reader_members, impossible) for at in range(len(written))):
            return []
        before, after = (_format_json([sorted(names) for names in sets]) for sets in (written, expected))
        message = "exactly one of these sets of properties is needed here, which what is written need not have"
        return [_make_failed_clause(path, "required_changed", before, after, message)]

    def _compare_written_members(self, writer_members: _ObjectMembers, reader_members: _ObjectMembers) -> Clauses:
        clauses: Clauses = []
        for name, member in writer_members.properties.items():
            if name in writer_members.required.never or self.writer.is_empty(member):
                continue
            expected = reader_members.properties.get(name, reader_members.more)
            if expected is not None and not (name == reader_members.free and name not in reader_members.properties):
                clauses.append(Clause((TypePair(member, expected, False),)))
            elif expected is None and name != reader_members.free:
                message = f"the property {name!r} may be written, but there is no such property here"
                path, rule = self.writer.find_path(member), "property_removed_from_closed_content_model"
                clauses.append(_make_failed_clause(path, rule, _format_type(member.schema), None, message))
        return clauses

    def _compare_other_members(
        self, writer_members: _ObjectMembers, reader_members: _ObjectMembers, new: Type
    ) -> Clauses:
        if writer_members.more is None or self.writer.is_empty(writer_members.more):
            return []
        make_pair = partial(TypePair, writer_members.more, top=False)
        clauses: Clauses = []
        is_open = self.writer.list_alternatives(writer_members.more)[0].kind == "any"
        for name, expected in reader_members.properties.items():
            if name in writer_members.properties or name in writer_members.required.never:
                continue
            rule = f"property_added_to_{'' if is_open else 'partially_'}open_content_model"
            old_type = _format_type(writer_members.more.schema)
            message = f"{name!r} is described here, but the writer's objects may hold {old_type} by that name"
            old_and_new = _format_type(writer_members.more.schema), _format_type(expected.schema)
            path = self.reader.find_path(expected)
            clauses.append(Clause((make_pair(reader=expected),), make_difference(path, rule, *old_and_new, message)))
        if reader_members.more is None:
            message = "properties of any name may be written, but only the described ones are accepted here"
            old_and_new = _format_type(writer_members.more.schema), "false"
            path = self.reader.find_path(new, "additionalProperties")
            clauses.append(_make_failed_clause(path, "additional_properties_removed", *old_and_new, message))
        else:
            clauses.append(Clause((make_pair(reader=reader_members.more),)))
        return clauses


def _require_members(*names: str) -> _RequiredSets:
    """Return the required sets of objects that must all have the members ``names`` and may have others."""
    only = frozenset(names)
    return _RequiredSets([only], [only], only, frozenset())


def _count_names(sets: list[frozenset[str]]) -> int:
    return sum(1 + len(names) for names in sets)


def _has_exactly_one(
    number: int, writer_members: _ObjectMembers, reader_members: _ObjectMembers, impossible: set[str]
) -> bool:
    """Return True if objects with exactly one set of the writer, set ``number``, have exactly one set of the reader.

    No object has the members ``impossible``.
    """
    have, expected = writer_members.required.sets[number], reader_members.required.sets
    other_sets = [names for at, names in enumerate(writer_members.required.sets) if at != number]
    if any(names <= have for names in other_sets):
        return True  # there is no such object
    if sum(names <= have for names in expected) != 1:
        return False
    return all(
        names <= have
        or not names.isdisjoint(impossible)
        or (writer_members.more is None and not names <= writer_members.properties.keys())
        or any(map((names | have).issuperset, other_sets))
        for names in expected
    )


def _list_types(namespace: JSON, path: str) -> Iterator[tuple[str, JSONObject]]:
    """Yield the types in ``namespace`` and in nested namespaces, with their JSON Pointers."""
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


def _make_failed_clause(path: str, rule: str, old: JSON, new: JSON, message: str) -> Clause[TypePair]:
    return Clause((), make_difference(path, rule, old, new, message))


def _format_keyword(schema: JSONObject, keyword: str) -> JSON:
    value = _format_type(schema) if keyword == "type" else schema.get(keyword)
    return _format_json(value) if isinstance(value, list) else value


def _format_json(value: JSON) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= _MAX_TYPE_CHARS else text[:_MAX_TYPE_CHARS] + "…"


def _format_type(schema: JSONObject) -> str:
    """Return a type as text for messages."""
    type_value = schema.get("type")
    if isinstance(type_value, dict):
        return _format_json(type_value.get("$ref", "a type")).strip('"')
    if isinstance(type_value, list):
        return " or ".join(_format_type({"type": item}) for item in type_value[:_MAX_LISTED_NAMES])
    name = schema.get("name")
    return f"{type_value} {name[:_MAX_TYPE_CHARS]}" if isinstance(name, str) else str(type_value)
