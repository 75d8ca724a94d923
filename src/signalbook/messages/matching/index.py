"""Find the definitions that a message may fit without trying each of them (K-14, K-30, K-32).

Every definition is indexed once, under the constant or template that distinguishes it best. Definitions are looked up
by the values of a message, so the time is the same for fifty definitions and for five thousand. If many definitions
share the best key, they are indexed again under their other keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from signalbook.messages.definitions.definition import CompiledDefinition, IndexKey, MemberPath
from signalbook.messages.properties import Values
from signalbook.messages.uritemplates import Template, TemplateTree
from signalbook.values import JSON

# Up to this number, definitions are tried one after the other instead of being indexed.
MAX_TRIED: Final = 8
# The largest number of definitions that are checked to explain why a message fits none.
MAX_EXPLAINED: Final = 20
_HTTP: Final = "HTTP"

_Entry = tuple[CompiledDefinition, tuple[IndexKey, ...]]
# The values that a definition allows for members of the payload.
_Constants = Mapping[MemberPath, frozenset[JSON]]


class IndexBucket:
    """Definitions that share a key. A few definitions are tried one by one, more are indexed by their other keys."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.definitions = tuple(definition for definition, _ in entries)
        # Trying a few definitions costs less than looking them up, and without keys there is nothing to look up by.
        self._inner = (
            DefinitionIndex(entries) if len(entries) > MAX_TRIED and any(keys for _, keys in entries) else None
        )

    def find_buckets(self, values: Values) -> list[IndexBucket]:
        """Return this bucket, or the inner buckets whose definitions a message with ``values`` may fit."""
        return [self] if self._inner is None else self._inner.find_buckets(values)

    def narrow(self, payload: JSON) -> tuple[CompiledDefinition, ...]:
        """Return the definitions whose schemas allow the constants in ``payload``. Other schemas cannot accept it."""
        if len(self.definitions) == 1 or not isinstance(payload, dict):
            return self.definitions
        return self._by_payload.narrow(payload)

    def read_constants(self, body: bytes) -> dict[str, JSON] | None:
        """Return the members of a JSON object that ``narrow`` needs, or ``None`` if ``body`` is not a JSON object.

        Other members are skipped without checking their values.
        """
        try:
            members = self._glimpses.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        values = zip(self._members, msgspec.structs.astuple(members), strict=True)
        return {name: value for name, value in values if value is not msgspec.UNSET}

    @cached_property
    def kinds(self) -> Mapping[MemberPath, Mapping[JSON, None]]:
        """The payload members whose constants distinguish the definitions, each with its known values in order.

        If no two definitions allow the same value of a member, there is only this member. Otherwise there are all
        top-level members for which some definitions allow different values. The values of a member are all texts or all
        whole numbers.

        The mapping is empty for a single definition, whose schema explains violations better. It is also empty for
        definitions of events and HTTP requests, which are distinguished by type, method, path and headers.
        """
        if len(self.definitions) < 2 or any(
            definition.is_event or definition.protocol == _HTTP for definition in self.definitions
        ):
            return {}
        kinds = _find_kinds([_list_top_constants(definition) for definition in self.definitions])
        if not any(map(self._tells_all_apart, kinds)):
            nested = _find_kinds([definition.nested_constants for definition in self.definitions])
            kinds |= {path: values for path, values in nested.items() if self._tells_all_apart(path)}
        decisive = min(filter(self._tells_all_apart, kinds), key=lambda path: (len(path), path), default=None)
        return kinds if decisive is None else {decisive: kinds[decisive]}

    def _tells_all_apart(self, path: MemberPath) -> bool:
        """Return True if no two definitions allow the same value of the member at ``path``."""
        value_sets = [_list_constants(definition, path) for definition in self.definitions]
        return sum(map(len, value_sets)) == len(frozenset().union(*value_sets))

    @cached_property
    def _by_payload(self) -> _PayloadIndex:
        return _PayloadIndex(self.definitions)

    @cached_property
    def _members(self) -> tuple[str, ...]:
        names = (name for definition in self.definitions for name in definition.constants)
        return tuple(dict.fromkeys((*names, *self._by_payload.path[:1])))

    @cached_property
    def _glimpses(self) -> msgspec.json.Decoder[msgspec.Struct]:
        names = {f"m{number}": name for number, name in enumerate(self._members)}
        fields = [(field, Any, msgspec.UNSET) for field in names]
        return msgspec.json.Decoder(msgspec.defstruct("Glimpse", fields, rename=names))


class DefinitionIndex:
    """An index of definitions by constants and templates. ``entries`` pair each definition with its possible keys.

    ``typed`` has more definitions by the type that their events must have. ``constants`` are all constants of these.
    """

    def __init__(
        self, entries: Iterable[_Entry], *, typed: Table | None = None, constants: Iterable[tuple[str, str]] = ()
    ) -> None:
        entries = list(entries)
        # Count the constants of definitions that are not compiled yet too. The choice of a key must not depend on
        # which definitions happen to be compiled.
        shared = Counter(
            (key.name, key.value) for _, keys in entries for key in keys if isinstance(key.value, str)
        ) + Counter(constants)
        filed = [(definition, keys, _choose_key(keys, shared)) for definition, keys in entries]
        self.tables: dict[str, Table] = {**({"type": typed} if typed else {}), **_build_tables(filed)}
        self._absent = _index_absent(filed)
        self._trees = _build_trees(filed)
        self._rest = tuple((definition, keys) for definition, keys, best in filed if best is None)
        self._unkeyed = IndexBucket(self._rest) if self._rest else None
        self._by_id = {definition.message_id: IndexBucket([(definition, ())]) for definition, _ in self._rest}
        names = list(self.tables)
        plain = len(names) == 1 and not (self._absent or self._trees or self._rest)
        self._only = (names[0], self.tables[names[0]]) if plain else None

    def find_buckets(self, values: Values) -> list[IndexBucket]:
        """Return the buckets for a message with ``values``. Every definition that it can fit is in one of them."""
        # Usually, events differ only by type. Then a single lookup is enough.
        if self._only is not None:
            name, table = self._only
            value: Any = values.get(name)
            # Properties such as headers may have several values (a tuple), each with its own definitions.
            if type(value) is not tuple:
                bucket = table.get(value)
                return [] if bucket is None else bucket.find_buckets(values)
        buckets = [leaf for bucket in self._look_up(values) for leaf in bucket.find_buckets(values)]
        if self._unkeyed is not None:
            # If the type of an event is the id of a message without keys, the event belongs to that message (K-32).
            buckets.append(self._by_id.get(values.get("type", ""), self._unkeyed))
        return buckets

    def find_wider(self, values: Values) -> list[CompiledDefinition]:
        """Return the definitions to try if none in the buckets fits: with the same best key, or without a key."""
        shared = [definition for bucket in self._look_up(values) for definition in bucket.definitions[:MAX_EXPLAINED]]
        return [*shared[:MAX_EXPLAINED], *(definition for definition, _ in self._rest)]

    def is_filed_by(self, name: str) -> bool:
        """Return True if the index uses only the property ``name``, and every definition has a key."""
        return not self._rest and {*self.tables, *self._absent, *self._trees} <= {name}

    def _look_up(self, values: Values) -> list[IndexBucket]:
        buckets: list[IndexBucket] = []
        for name, table in self.tables.items():
            buckets += _lookup(table, values.get(name))
        for name, tree in self._trees.items():
            value = values.get(name)
            if isinstance(value, str):
                buckets += tree.find(value)
        # A message without an optional property also fits the definitions that are indexed by it (F-29).
        if self._absent:
            buckets += [bucket for name, bucket in self._absent.items() if name not in values]
        return buckets


Table = Mapping[str, IndexBucket]


def _lookup(table: Table, value: Any) -> list[IndexBucket]:
    values = dict.fromkeys(value) if type(value) is tuple else (value,)
    return [table[key] for key in values if key in table]


def _choose_key(keys: tuple[IndexKey, ...], shared: Mapping[tuple[str, str], int]) -> IndexKey | None:
    """Return the key of the lowest tier or, among several, the one that the fewest definitions share.

    Return None if there are no keys.
    """

    def rank(key: IndexKey) -> tuple[int, int]:
        return key.tier, shared[key.name, key.value] if isinstance(key.value, str) else 0

    return min(keys, key=rank, default=None)


_Filed = tuple[CompiledDefinition, tuple[IndexKey, ...], IndexKey | None]


def _build_tables(filed: Iterable[_Filed]) -> dict[str, Table]:
    tables: dict[str, dict[str, list[_Entry]]] = {}
    for definition, keys, best in filed:
        if best is not None and isinstance(best.value, str):
            entry = (definition, _remove_key(keys, best))
            tables.setdefault(best.name, {}).setdefault(best.value, []).append(entry)
    return {name: {value: IndexBucket(entries) for value, entries in table.items()} for name, table in tables.items()}


def _index_absent(filed: Iterable[_Filed]) -> dict[str, IndexBucket]:
    """Return the definitions with an optional key by property. Messages without the property fit them too (F-29)."""
    by_name: dict[str, list[_Entry]] = {}
    for definition, keys, best in filed:
        if best is not None and not best.required:
            by_name.setdefault(best.name, []).append((definition, _remove_key(keys, best)))
    return {name: IndexBucket(entries) for name, entries in by_name.items()}


def _build_trees(filed: Iterable[_Filed]) -> dict[str, TemplateTree[IndexBucket]]:
    groups: dict[tuple[str, str], dict[str, tuple[Template, list[_Entry]]]] = {}
    for definition, keys, best in filed:
        if best is not None and isinstance(best.value, Template):
            template = best.value
            group = groups.setdefault((best.name, template.separator), {})
            group.setdefault(template.text, (template, []))[1].append((definition, _remove_key(keys, best)))
    trees: dict[str, TemplateTree[IndexBucket]] = {}
    for (name, separator), templates in groups.items():
        # Each property has one separator: NATS subjects have dots, topics and paths have slashes.
        tree = trees.setdefault(name, TemplateTree(separator))
        for template, entries in templates.values():
            tree.add(template, IndexBucket(entries))
    return trees


def _remove_key(keys: tuple[IndexKey, ...], used: IndexKey) -> tuple[IndexKey, ...]:
    return tuple(key for key in keys if key is not used)


def find_member(payload: JSON, path: MemberPath) -> JSON:
    """Return the value of the member at ``path``, or ``UNSET`` if the payload does not have it."""
    for name in path:
        if not isinstance(payload, dict):
            return msgspec.UNSET
        payload = payload.get(name, msgspec.UNSET)
    return payload


def _list_top_constants(definition: CompiledDefinition) -> _Constants:
    return {(name,): values for name, values in definition.constants.items()}


def _list_constants(definition: CompiledDefinition, path: MemberPath) -> frozenset[JSON]:
    """Return the values that a definition allows for the member at ``path``; empty if it allows any value."""
    constants = definition.constants.get(path[0]) if len(path) == 1 else definition.nested_constants.get(path)
    return constants or frozenset()


def _find_kinds(constants: Sequence[_Constants]) -> dict[MemberPath, dict[JSON, None]]:
    """Return the members that all definitions have in their ``constants``, but not all with the same values."""
    kinds: dict[MemberPath, dict[JSON, None]] = {}
    for path in sorted(set.intersection(*map(set, constants))):
        values: set[Any] = set().union(*(of_definition[path] for of_definition in constants))
        differ = any(of_definition[path] != values for of_definition in constants)
        if differ and {type(value) for value in values} in ({str}, {int}):
            kinds[path] = dict.fromkeys(sorted(values))
    return kinds


class _PayloadIndex:
    """An index of definitions by the constants that their schemas require in the payload (K-30).

    ``path`` leads to the member whose value is the key. It is empty if no member has constants.
    """

    def __init__(self, definitions: tuple[CompiledDefinition, ...]) -> None:
        self.path = _choose_path(definitions)
        by_value: dict[JSON, list[CompiledDefinition]] = {}
        rest: list[CompiledDefinition] = []
        for definition in definitions:
            values = _list_constants(definition, self.path) if self.path else ()
            for value in values:
                by_value.setdefault(value, []).append(definition)
            if not values:
                rest.append(definition)
        self._rest = tuple(rest)
        self._by_value = {value: tuple(same_value) for value, same_value in by_value.items()}

    def narrow(self, payload: Mapping[str, JSON]) -> tuple[CompiledDefinition, ...]:
        value = find_member(payload, self.path)
        # Objects and lists are not hashable, and are never constants of a schema here.
        by_constant = () if isinstance(value, (dict, list)) else self._by_value.get(value, ())
        candidates = (*by_constant, *self._rest)
        # Keep a single candidate: the violations of its schema explain more than a missing constant.
        return tuple(d for d in candidates if allows(d, payload)) if len(candidates) > 1 else candidates


def _choose_path(definitions: tuple[CompiledDefinition, ...]) -> MemberPath:
    """Return the path to the member whose value leaves the fewest definitions; empty if no member has constants.

    Members inside of objects are used only if no top-level member tells all definitions apart.
    """
    best: MemberPath = ()
    fewest = len(definitions) + 1
    for list_constants in (_list_top_constants, _list_nested_constants):
        constants = list(map(list_constants, definitions)) if fewest > 1 else []
        for path in dict.fromkeys(path for of_definition in constants for path in of_definition):
            sharing = Counter(value for of_definition in constants for value in of_definition.get(path, ()))
            left = max(sharing.values()) + sum(path not in of_definition for of_definition in constants)
            if left < fewest:
                best, fewest = path, left
    return best


def _list_nested_constants(definition: CompiledDefinition) -> _Constants:
    return definition.nested_constants


def allows(definition: CompiledDefinition, payload: Mapping[str, JSON]) -> bool:
    """Return True if the payload has all constants that the definition's schema requires at its top level."""
    return all(
        name in payload and not isinstance(payload[name], (dict, list)) and payload[name] in allowed
        for name, allowed in definition.constants.items()
    )
