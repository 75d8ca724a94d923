"""Choose one of several definitions by members of JSON payloads whose schemas allow only a fixed set of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats import Schema
from signalbook.formats.jsonschema.columns import find_closed_members
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import CompiledDefinition
from signalbook.pipeline import native, rescue
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.native import Decode, NoPlan, PayloadSpans, Reading, check_json_name
from signalbook.pipeline.processing.batch import EventBatch, combine, encode_texts, find_firsts
from signalbook.values import JSON, JSONError, parse_json

_MAX_DEPTH: Final = 4
_MAX_MEMBERS: Final = 8
# Combinations of values whose definition is cached: anybody may send any number of values, of any length.
_MAX_CACHED_VALUES: Final = 10_000
_MAX_CACHED_CHARS: Final = 1_000
# Takes the place of a definition's position if no definition, or more than one, may allow a payload.
_UNDECIDED: Final = -1

# The names that lead from the payload to a member.
MemberPath = tuple[str, ...]
# The values that each definition allows for one member, in the order of the definitions.
_AllowedValues = Sequence[frozenset[JSON]]
# Members by name, each with its inner members. The inner members are empty for a member that is read as a whole.
_MemberTree = dict[str, Any]


class DefinitionChooser:
    """A chooser of one of several definitions by the values of members that all of their schemas require.

    A payload whose value is not among those that a definition allows certainly breaks the schema of that definition.
    """

    def __init__(self, definitions: Sequence[CompiledDefinition]) -> None:
        self._definitions = definitions
        self._members = _find_deciding_members([definition.schema_use.schema for definition in definitions])
        self._positions = list(map(_index_positions, self._members.values()))
        self._decode = _build_decoder(self._members)
        self._cache: dict[tuple[str | None, ...], int] = {}

    def choose(self, batch: EventBatch, events: Offsets) -> Iterator[tuple[CompiledDefinition, Offsets]]:
        """Yield each definition with the messages that only this definition may allow. Other messages are left out."""
        if not self._members:
            return
        chosen = np.concatenate([self._choose_positions(batch.take_payloads(part)) for part in batch.split(events)])
        for position, definition in enumerate(self._definitions):
            chosen_events = events[chosen == position]
            if len(chosen_events):
                yield definition, chosen_events

    def _choose_positions(self, payloads: PayloadSpans) -> Offsets:
        """Return for each payload the position of the only definition that may allow it, or ``_UNDECIDED``."""
        (members, _), unreadable = self._decode(payloads)
        parts = [encode_texts(pc.struct_field(members, path)) for path in self._members]
        combined, count = combine(parts, len(members))
        samples = find_firsts(combined, count)
        combinations = zip(*([texts[code] for code in codes[samples].tolist()] for codes, texts in parts), strict=True)
        by_combination = np.array(list(map(self._choose_position, combinations)), np.int64)
        positions = np.full(len(payloads), _UNDECIDED, np.int64)
        positions[np.delete(np.arange(len(payloads)), unreadable)] = by_combination[combined]
        return positions

    def _choose_position(self, texts: tuple[str | None, ...]) -> int:
        """Return the position of the only definition that allows these values, or ``_UNDECIDED``.

        The values are JSON texts in the order of the members, ``None`` where a payload lacks the member.
        """
        if texts in self._cache:
            return self._cache[texts]
        positions = set.intersection(*map(_find_allowing, texts, self._positions))
        position = positions.pop() if len(positions) == 1 else _UNDECIDED
        if sum(len(text or "") for text in texts) <= _MAX_CACHED_CHARS:
            if len(self._cache) >= _MAX_CACHED_VALUES:
                self._cache.clear()
            self._cache[texts] = position
        return position


def _index_positions(allowed_values: _AllowedValues) -> Mapping[JSON, set[int]]:
    """Return the positions of the definitions that allow each value."""
    positions: dict[JSON, set[int]] = {}
    for position, values in enumerate(allowed_values):
        for value in values:
            positions.setdefault(value, set()).add(position)
    return positions


def _find_allowing(text: str | None, positions_by_value: Mapping[JSON, set[int]]) -> set[int]:
    """Return the positions of the definitions that allow a value, which is given as JSON text."""
    # No definition allows lists, objects, or numbers that are too large to be read.
    with suppress(JSONError, TypeError):
        if text is not None:
            return positions_by_value.get(parse_json(text, exact=True), set())
    return set()


def _find_deciding_members(schemas: Sequence[Schema | None]) -> Mapping[MemberPath, _AllowedValues]:
    """Return members by which payloads of the schemas differ, with the values that each schema allows.

    The result is a single member if no two schemas allow the same value of it. It is empty if nothing decides.
    """
    closed = [
        find_closed_members(schema.node, _MAX_DEPTH) if isinstance(schema, JsonSchema) else {} for schema in schemas
    ]
    shared = [path for path in closed[0] if all(path in members for members in closed) and _is_readable(path)]
    allowed = {path: [members[path] for members in closed] for path in shared}
    for path, value_sets in allowed.items():
        if sum(map(len, value_sets)) == len(frozenset().union(*value_sets)):
            return {path: value_sets}
    different = [path for path in shared if len(set(allowed[path])) > 1]
    return {path: allowed[path] for path in different[:_MAX_MEMBERS]}


def _is_readable(path: MemberPath) -> bool:
    """Return True if the native module can look for members of these names."""
    with suppress(NoPlan):
        return all(map(check_json_name, path))
    return False


def _build_decoder(paths: Iterable[MemberPath]) -> Decode:
    """Return the decoder of payloads into one column of objects. Each has the members at ``paths`` as JSON texts."""
    tree: _MemberTree = {}
    for *parents, name in paths:
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = {}
    read = native.load_module().JsonDecoder(_build_program(tree), rescue.ALL).read
    return native.build_decoder(read, Reading(_build_type(tree)), members=False, with_rescue=True)


def _build_program(tree: _MemberTree) -> tuple[Any, ...]:
    """Return the program by which the native module reads the members of a tree."""
    if not tree:
        return ("raw", False, False)
    return ("object", False, False, [(name, False, _build_program(inner)) for name, inner in tree.items()])


def _build_type(tree: _MemberTree) -> pa.DataType:
    return pa.struct([(name, _build_type(inner)) for name, inner in tree.items()]) if tree else pa.string()
