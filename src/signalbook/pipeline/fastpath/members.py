"""Definitions told apart by members of JSON payloads that have closed sets of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats import Schema
from signalbook.formats.jsonschema.columns import closed_members
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import CompiledDefinition
from signalbook.pipeline import rescue
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.batch import EventBatch, combine, firsts, text_codes
from signalbook.pipeline.fastpath.native import Decode, NoPlan, PayloadSpans, Reading, json_name
from signalbook.pipeline.sources.base import Offsets
from signalbook.values import JSON, JSONError, parse_json

_MAX_DEPTH: Final = 4
_MAX_MEMBERS: Final = 8
# Answers that are kept: anybody may send any number of values.
_MAX_ANSWERS: Final = 10_000
_NONE: Final = -1

Path = tuple[str, ...]
# The values that each definition allows at a path.
_Allowed = Sequence[frozenset[JSON]]
_Tree = dict[str, Any]


class MemberChoice:
    """A choice among definitions by the values of members that all of their schemas require, each with its own."""

    def __init__(self, definitions: Sequence[CompiledDefinition]) -> None:
        self._definitions = definitions
        self._members = _telling_members([each.schema_use.schema for each in definitions])
        self._decode = _decoder(self._members)
        self._answers: dict[tuple[str | None, ...], int] = {}

    def of(self, batch: EventBatch, events: Offsets) -> Iterator[tuple[CompiledDefinition, Offsets]]:
        """Yield the messages whose payloads one definition alone may allow, with that; others are left out."""
        if not self._members:
            return
        places = np.concatenate([self._places(batch.payloads(part)) for part in batch.portions(events)])
        for place, definition in enumerate(self._definitions):
            mine = events[places == place]
            if len(mine):
                yield definition, mine

    def _places(self, payloads: PayloadSpans) -> Offsets:
        """Return the place of the one definition that may allow each payload, ``_NONE`` without one."""
        (members, _), refused = self._decode(payloads)
        parts = [text_codes(pc.struct_field(members, path)) for path in self._members]
        combined, count = combine(parts, len(members))
        samples = firsts(combined, count)
        keys = zip(*([texts[code] for code in codes[samples].tolist()] for codes, texts in parts), strict=True)
        found = np.full(len(payloads), _NONE, np.int64)
        found[np.delete(np.arange(len(payloads)), refused)] = np.array(list(map(self._answer, keys)), np.int64)[
            combined
        ]
        return found

    def _answer(self, texts: tuple[str | None, ...]) -> int:
        """Return the place of the definition that allows these values, as JSON texts, if it is the only one."""
        if texts not in self._answers:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            places = set(range(len(self._definitions)))
            for text, allowed in zip(texts, self._members.values(), strict=True):
                places &= _allowing(text, allowed)
            self._answers[texts] = places.pop() if len(places) == 1 else _NONE
        return self._answers[texts]


def _allowing(text: str | None, allowed: _Allowed) -> set[int]:
    """Return the places of the sets that have a value, given as JSON text."""
    # Numbers beyond what is read, and lists and objects, are in no set.
    with suppress(JSONError, TypeError):
        if text is not None:
            value = parse_json(text, exact=True)
            return {place for place, values in enumerate(allowed) if value in values}
    return set()


def _telling_members(schemas: Sequence[Schema | None]) -> Mapping[Path, _Allowed]:
    """Return the members that tell payloads of schemas apart, with the values that each schema allows.

    There is one if it is enough.
    """
    closed = [closed_members(each.node, _MAX_DEPTH) if isinstance(each, JsonSchema) else {} for each in schemas]
    shared = [path for path in closed[0] if all(path in each for each in closed) and _is_readable(path)]
    members = {path: [each[path] for each in closed] for path in shared}
    for path, allowed in members.items():
        if sum(map(len, allowed)) == len(frozenset().union(*allowed)):
            return {path: allowed}
    return {path: members[path] for path in shared[:_MAX_MEMBERS] if len(set(members[path])) > 1}


def _is_readable(path: Path) -> bool:
    with suppress(NoPlan):
        return all(map(json_name, path))
    return False


def _decoder(paths: Iterable[Path]) -> Decode:
    """Return the decoder of payloads into a column of objects with these members alone, as JSON texts."""
    tree: _Tree = {}
    for *parents, name in paths:
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = {}
    read = native.module().JsonDecoder(_program(tree), rescue.ALL).read
    return native.decoder(read, Reading(_kind(tree)), members=False, rest=True)


def _program(tree: _Tree) -> tuple[Any, ...]:
    return ("object", False, False, [(name, False, _program(inner)) for name, inner in tree.items()]) if tree else _RAW


def _kind(tree: _Tree) -> pa.DataType:
    return pa.struct([(name, _kind(inner)) for name, inner in tree.items()]) if tree else pa.string()


_RAW: Final = ("raw", False, False)
