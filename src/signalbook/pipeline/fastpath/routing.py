"""The fast path for CloudEvents: from messages to rows of the tables of definitions, whole columns at a time.

Events among messages become columns (``modes.py``) and wait until there are enough for a batch (``batch.py``). Then
each event gets a route by its type, if that belongs to one definition and no other definition could fit the event. What
is left to ask are its attributes (``attributes.py``) and its payload (``payloads.py``), and what they say is what
``Contract.process`` would say. Whatever fails one of these steps is left over: it goes the slow path, message by
message, which also finds the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.messages import CompiledDefinition, Contract
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.fastpath.attributes import NO_MATCH, AttributeChecks, EnvelopeChecks, demands
from signalbook.pipeline.fastpath.batch import EventBatch, EventColumns
from signalbook.pipeline.fastpath.modes import ContentMode
from signalbook.pipeline.fastpath.native import Decode
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import MessageBatch, Offsets

# Input bytes that wait until they are a batch: enough for each type to have company.
LEAST_BATCH: Final = 32 * 1024 * 1024
LARGEST_BATCH: Final = 64 * 1024 * 1024
_BATCH_OF_TYPE: Final = 256 * 1024
# Of large messages so many of a type: what is done once per column and slice is worth it only for as many.
_COMPANY: Final = 100
# Kinds of events for each definition, on average: whoever makes up content types is not worth a route for each.
_MOST_KINDS: Final = 4
_LEAST_KINDS: Final = 64
_ENVELOPE: Final = len(columns.ENVELOPE)
# Properties that say where messages of a protocol were sent to, and so in records their address.
_ADDRESSES: Final = {"KAFKA": "topic"}


@dataclass(frozen=True, slots=True)
class LandedRows:
    """Rows of one table."""

    target: RowBuilder
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Messages, by index, that go the slow path."""

    messages: MessageBatch
    indices: Sequence[int]


Result = LandedRows | LeftOver


@dataclass(frozen=True, slots=True)
class _Route:
    """Where events of one kind go, and what they have to pass."""

    definition: CompiledDefinition
    target: RowBuilder
    checks: EnvelopeChecks
    decode: Decode


# Events of a batch with their route, by number.
_Routed = list[tuple[_Route, Offsets]]


class FastPath:
    """The fast path of a contract in one content mode, for events that came by ``protocol``, empty for those of files.

    Results come as they are found; the caller has to take all of them.
    """

    def __init__(
        self, contract: Contract, protocol: str, mode: ContentMode, target: Callable[[CompiledDefinition], RowBuilder]
    ) -> None:
        self.mode = mode
        self._protocol = protocol
        self._attribute_checks = AttributeChecks(json=mode.json)
        self._definitions = contract.definitions
        self._types = _types(contract, protocol)
        self._checks: dict[bytes, EnvelopeChecks] = {}
        self._routes: dict[tuple[Any, ...], _Route | None] = {}
        self._target = target
        self._waiting: list[EventColumns] = []
        self._waiting_bytes = 0

    def take(self, messages: MessageBatch) -> Iterator[Result]:
        """Take messages; most wait a while for others of their type."""
        if not self._types:
            yield LeftOver(messages, range(len(messages)))
            return
        events, refused = self.mode.columns(messages)
        if refused:
            yield LeftOver(messages, refused)
        if len(events):
            self._waiting.append(events)
            self._waiting_bytes += messages.weight
        if self._waiting_bytes >= self._enough():
            yield from self.flush()

    def flush(self) -> Iterator[Result]:
        """Process all that waits."""
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self.process(EventBatch(parts))

    def process(self, batch: EventBatch) -> Iterator[Result]:
        """What lands of a batch, and then what is left over of it."""
        left = self._attribute_checks.doubtful(batch)
        for checks, routed in self._by_checks(batch, left).items():
            matched, contexts = _matched(batch, checks, routed, left)
            yield from _landed(batch, matched, contexts, left)
        for messages, indices in batch.left_over(np.flatnonzero(left)):
            yield LeftOver(messages, indices)

    def _enough(self) -> int:
        """Input bytes that make a batch: the more kinds of events there are, and the larger these."""
        events = sum(map(len, self._waiting))
        of_type = max(_BATCH_OF_TYPE, _COMPANY * self._waiting_bytes // max(events, 1))
        return min(max(LEAST_BATCH, len(self._routes) * of_type), LARGEST_BATCH)

    def _by_checks(self, batch: EventBatch, left: npt.NDArray[np.bool_]) -> dict[EnvelopeChecks, _Routed]:
        """The events that have a route, by the checks that their definitions share; those without are left."""
        found: dict[EnvelopeChecks, _Routed] = {}
        for kind, events in batch.kinds(self.mode.kind):
            route = self._route(kind)
            if route is None:
                left[events] = True
            else:
                found.setdefault(route.checks, []).append((route, events[~left[events]]))
        return found

    def _route(self, kind: tuple[Any, ...]) -> _Route | None:
        xid = self._types.get(kind[0])
        if xid is None:
            return None
        if kind not in self._routes:
            if len(self._routes) >= _LEAST_KINDS + _MOST_KINDS * len(self._types):
                return None
            self._routes[kind] = self._planned(self._definitions[xid], kind)
        return self._routes[kind]

    def _planned(self, definition: CompiledDefinition, kind: tuple[Any, ...]) -> _Route | None:
        """The definition's route for events of a kind, unless it asks for more or nothing decodes their payloads."""
        if not _is_decided(definition, self._protocol, self.mode):
            return None
        decode = self.mode.decoder(definition, kind)
        if decode is None:
            return None
        address = _ADDRESSES[self._protocol] if self._protocol and definition.protocol_checks else ""
        checks = self._checks.setdefault(demands(definition), EnvelopeChecks(definition, kind[0], address))
        return _Route(definition, self._target(definition), checks, decode)


def _types(contract: Contract, protocol: str) -> dict[str, str]:
    """Event types that lead to one definition, whatever else an event that came by ``protocol`` says, and its xid."""
    typed: dict[str, list[str]] = {}
    for outline in contract.outlines:
        if not outline.is_event:
            if protocol and outline.protocol == protocol:
                return {}  # it may fit an event by what the protocol says of it
        elif outline.type is None:
            return {}  # it may fit an event of any type
        else:
            typed.setdefault(outline.type, []).append(outline.xid)
    return {name: found[0] for name, found in typed.items() if len(found) == 1}


def _is_decided(definition: CompiledDefinition, protocol: str, mode: ContentMode) -> bool:
    """Whether envelope, payload and address are all that decides on an event, in a file or by this protocol."""
    if not mode.is_decided(definition) or definition.removal is not None:
        return False
    if definition.protocol and definition.protocol == protocol:
        return definition.options <= {_ADDRESSES.get(protocol)}
    return not (definition.protocol and (protocol or definition.policy.strict_delivery))


def _matched(
    batch: EventBatch, checks: EnvelopeChecks, routed: _Routed, left: npt.NDArray[np.bool_]
) -> tuple[_Routed, pa.Array]:
    """The events whose envelopes fit their definitions, with their contexts in the same order; others are left."""
    asked = np.concatenate([events for _, events in routed])
    numbers = np.full(len(batch), NO_MATCH, np.int64)
    numbers[asked] = checks.numbers(batch, asked)
    left[asked] = True
    matched = [
        (route, events[(numbers[events] != NO_MATCH) & _has_own_schema(batch, route.definition, events)])
        for route, events in routed
    ]
    order = np.concatenate([events for _, events in matched])
    left[order] = False
    return matched, checks.maps(numbers[order])


def _has_own_schema(batch: EventBatch, definition: CompiledDefinition, events: Offsets) -> npt.NDArray[np.bool_]:
    """Whether events are written with the definition's own schema, as far as they say (domain.md K-39)."""
    array = batch.attributes["dataschema"]
    if array.null_count == len(array):
        return np.ones(len(events), np.bool_)
    codes, names = batch.codes("dataschema")
    use, schema_for = definition.schema_use, definition.schema_for
    mine, places = np.unique(codes[events], return_inverse=True)
    asked = [names[code] for code in mine.tolist()]
    own = np.array([name is None or schema_for(name) is use for name in asked], np.bool_)
    found: npt.NDArray[np.bool_] = own[places]
    return found


def _landed(
    batch: EventBatch, matched: _Routed, contexts: pa.Array, left: npt.NDArray[np.bool_]
) -> Iterator[LandedRows]:
    """Rows of events whose payloads conform; others are left."""
    order = np.concatenate([events for _, events in matched])
    try:
        # All routes' at once, in order, so that each has a slice of them: Arrow takes its time for each array it makes.
        envelope, transport = batch.envelope(order), batch.transport(order)
    except MISFITS:
        left[order] = True
        return
    first, step = 0, batch.payloads_at_once()
    for route, events in matched:
        for start in range(0, len(events), step):
            part = events[start : start + step]
            arrays = [array.slice(first, len(part)) for array in (*envelope, contexts, *transport)]
            first += len(part)
            rows, refused = _rows(route, batch.payloads(part), arrays)
            left[part[refused]] = True
            if rows is not None:
                yield LandedRows(route.target, rows)


def _rows(route: _Route, payloads: pa.BinaryArray, arrays: list[pa.Array]) -> tuple[pa.RecordBatch | None, list[int]]:
    """Rows of payloads and the arrays of their other columns, and the numbers of payloads that are refused."""
    try:
        decoded, refused = route.decode(payloads)
    except MISFITS:
        return None, list(range(len(payloads)))
    if len(refused) == len(payloads):
        return None, refused
    if refused:
        kept = pa.array(np.delete(np.arange(len(payloads)), refused))
        arrays = [array.take(kept) for array in arrays]
    return route.target.whole(arrays[:_ENVELOPE], decoded, arrays[_ENVELOPE:]), refused
