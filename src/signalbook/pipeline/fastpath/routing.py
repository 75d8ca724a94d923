"""The fast path for CloudEvents: lanes to the tables of definitions, whole columns at a time.

An event takes a lane if its type belongs to one definition and no other definition could fit it; then the definition's
envelope checks and a reader of its payloads are all there is to ask, and what they say is what ``Contract.process``
would say. Whatever a lane does not take goes the thorough way, message by message, which also finds the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.messages import CompiledDefinition, Contract
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.fastpath.attributes import (
    STRANGER,
    Contexts,
    Vetting,
    demands,
)
from signalbook.pipeline.fastpath.batch import Block, Window
from signalbook.pipeline.fastpath.modes import Way
from signalbook.pipeline.fastpath.payloads import Reader
from signalbook.pipeline.landing.rows import Target
from signalbook.pipeline.sources.base import MessageBatch, Offsets

# Input bytes that wait until they are turned into rows: enough for each type to have company.
LEAST_WINDOW: Final = 32 * 1024 * 1024
LARGEST_WINDOW: Final = 64 * 1024 * 1024
_WINDOW_OF_TYPE: Final = 256 * 1024
# Of large messages so many of a type: what is done once per column and slice is worth it only for as many.
_COMPANY: Final = 100
# Kinds of events for each definition, on average: whoever makes up content types is not worth a lane for each.
_MOST_KINDS: Final = 4
_LEAST_KINDS: Final = 64
_ENVELOPE: Final = len(columns.ENVELOPE)

Land = Callable[[Target, pa.RecordBatch], None]
# Properties that say where messages of a protocol were sent to, and so in records their address.
_ADDRESSES: Final = {"KAFKA": "topic"}

# Messages that no lane takes: their frame and indices.
Aside = Callable[[MessageBatch, Sequence[int]], None]


class Lanes:
    """All lanes of a contract in one content mode, for events that came by ``protocol``, empty for those of files.

    ``land`` takes finished rows, ``aside`` the messages that go the thorough way.
    """

    def __init__(
        self,
        contract: Contract,
        protocol: str,
        way: Way,
        target: Callable[[CompiledDefinition], Target],
        land: Land,
        aside: Aside,
    ) -> None:
        self.way = way
        self._protocol = protocol
        self._vetting = Vetting(json=way.json)
        self._definitions = contract.definitions
        self._types = _types(contract, protocol)
        self._contexts: dict[bytes, Contexts] = {}
        self._lanes: dict[tuple[Any, ...], _Lane | None] = {}
        self._target = target
        self._land = land
        self._aside = aside
        self._blocks: list[Block] = []
        self._waiting = 0
        self._messages = 0

    def take(self, frame: MessageBatch) -> None:
        """Take a frame's messages; most wait a while for others of their type."""
        if not self._types:
            self._aside(frame, range(len(frame)))
            return
        block, refused = self.way.block(frame)
        if refused:
            self._aside(frame, refused)
        if len(block):
            self._blocks.append(block)
            self._waiting += frame.weight
            self._messages += len(block.indices)
        of_type = max(_WINDOW_OF_TYPE, _COMPANY * self._waiting // max(self._messages, 1))
        if self._waiting >= min(max(LEAST_WINDOW, len(self._lanes) * of_type), LARGEST_WINDOW):
            self.clear()

    def clear(self) -> None:
        """Land all that waits."""
        blocks, self._blocks, self._waiting, self._messages = self._blocks, [], 0, 0
        if blocks:
            self._settle(Window(blocks))

    def _settle(self, window: Window) -> None:
        left = self._vetting.faulty(window)
        lanes: list[tuple[_Lane, Offsets]] = []
        for kind, events in window.kinds(self.way.kind):
            lane = self._lane(kind)
            if lane is None:
                left[events] = True
            else:
                lanes.append((lane, events[~left[events]]))
        for events in self._land_all(window, lanes):
            left[events] = True
        for frame, indices in window.messages(np.flatnonzero(left)):
            self._aside(frame, indices)

    def _land_all(self, window: Window, lanes: list[tuple[_Lane, Offsets]]) -> Iterator[Offsets]:
        """Land the events of each lane, and tell which could not be."""
        groups: dict[Contexts, list[tuple[_Lane, Offsets]]] = {}
        for lane, events in lanes:
            groups.setdefault(lane.contexts, []).append((lane, events))
        for contexts, members in groups.items():
            numbers = np.full(len(window), STRANGER, np.int64)
            asked = np.concatenate([events for _, events in members])
            numbers[asked] = contexts.numbers(window, asked)
            fit = [(lane, events[(numbers[events] != STRANGER) & lane.own(window, events)]) for lane, events in members]
            order = np.concatenate([events for _, events in fit])
            rest = np.zeros(len(window), np.bool_)
            rest[asked] = True
            rest[order] = False
            yield np.flatnonzero(rest)
            yield from self._land_fit(window, fit, order, contexts.maps(numbers[order]))

    def _land_fit(
        self, window: Window, lanes: list[tuple[_Lane, Offsets]], order: Offsets, contexts: pa.Array
    ) -> Iterator[Offsets]:
        """Bring the columns of all lanes in order at once; each lane then has its slice of them."""
        try:
            envelope, transport = window.envelope(order), window.transport(order)
        except MISFITS:
            yield order
            return
        first = 0
        for lane, events in lanes:
            step = window.step(lane.most)
            for start in range(0, len(events), step):
                part = events[start : start + step]
                arrays = [array.slice(first, len(part)) for array in (*envelope, contexts, *transport)]
                first += len(part)
                yield lane.land(window.payloads(part), part, arrays, self._land)

    def _lane(self, kind: tuple[Any, ...]) -> _Lane | None:
        xid = self._types.get(kind[0])
        if xid is None:
            return None
        if kind not in self._lanes:
            if len(self._lanes) >= _LEAST_KINDS + _MOST_KINDS * len(self._types):
                return None
            self._lanes[kind] = self._open(self._definitions[xid], kind)
        return self._lanes[kind]

    def _open(self, definition: CompiledDefinition, kind: tuple[Any, ...]) -> _Lane | None:
        """The definition's lane for events of a kind, unless it asks for more or nothing reads their payloads."""
        if not _settled(definition, self._protocol, self.way) or definition.schema_use.schema is None:
            return None
        target = self._target(definition)
        reader = self.way.reader(definition, kind, target)
        if reader is None:
            return None
        address = _ADDRESSES[self._protocol] if self._protocol and definition.protocol_checks else ""
        contexts = self._contexts.setdefault(demands(definition), Contexts(definition, kind[0], address))
        return _Lane(definition, target, reader, contexts)


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


def _settled(definition: CompiledDefinition, protocol: str, way: Way) -> bool:
    """Whether envelope, payload and address are all that decides on an event, in a file or by this protocol."""
    if not way.settles(definition) or definition.removal is not None:
        return False
    if definition.protocol and definition.protocol == protocol:
        return definition.options <= {_ADDRESSES.get(protocol)}
    return not (definition.protocol and (protocol or definition.policy.strict_delivery))


class _Lane:
    """The way of events of one kind to their table."""

    def __init__(self, definition: CompiledDefinition, target: Target, reader: Reader, contexts: Contexts) -> None:
        self.contexts = contexts
        self.most = reader.most
        self._definition = definition
        self._target = target
        self._reader = reader

    def land(self, payloads: pa.BinaryArray, events: Offsets, arrays: list[pa.Array], land: Land) -> Offsets:
        """Land events with these payloads and the arrays of their other columns, and tell which could not be."""
        try:
            read, refused = self._reader.read(payloads)
        except MISFITS:
            return events
        if len(refused) == len(events):
            return events
        if refused:
            kept = pa.array(np.delete(np.arange(len(events)), refused))
            arrays = [array.take(kept) for array in arrays]
        land(self._target, self._target.whole(arrays[:_ENVELOPE], read, arrays[_ENVELOPE:]))
        return events[refused]

    def own(self, window: Window, events: Offsets) -> npt.NDArray[np.bool_]:
        """Whether events are written with the definition's own schema, as far as they say (domain.md K-39)."""
        array = window.attributes["dataschema"]
        if array.null_count == len(array):
            return np.ones(len(events), np.bool_)
        codes, names = window.codes("dataschema")
        use, schema_for = self._definition.schema_use, self._definition.schema_for
        mine, places = np.unique(codes[events], return_inverse=True)
        asked = [names[code] for code in mine.tolist()]
        own = np.array([name is None or schema_for(name) is use for name in asked], np.bool_)
        found: npt.NDArray[np.bool_] = own[places]
        return found
