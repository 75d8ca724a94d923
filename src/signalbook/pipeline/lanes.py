"""The fast path for structured JSON CloudEvents: one lane per event type, whole columns at a time.

An event takes a lane if its type belongs to one definition and no other definition could fit it; then the definition's
envelope checks and its payload decoder are all there is to ask, and what they say is what ``Contract.process`` would
say. Whatever a lane does not take goes the thorough way, message by message, which also finds the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from signalbook.formats import PayloadError, Typed
from signalbook.messages import CompiledDefinition, Contract, Policy
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS, text_map, timestamps
from signalbook.pipeline.contexts import Contexts
from signalbook.pipeline.envelopes import Envelopes, Vetting, extension_texts
from signalbook.pipeline.rows import ATTRIBUTES, Target
from signalbook.pipeline.sources.base import Frame

# Input bytes of one lane that are turned into columns at a time.
SLICE: Final = 2 * 1024 * 1024
_TIME: Final = ATTRIBUTES.index("time")
_ENVELOPE: Final = len(columns.ENVELOPE)

Land = Callable[[Target, pa.RecordBatch], None]
# Messages that no lane takes: their frame and indices.
Aside = Callable[[Frame, Sequence[int]], None]


class Lanes:
    """All lanes of a contract. ``land`` takes finished rows, ``aside`` the messages that go the thorough way."""

    def __init__(
        self, contract: Contract, target: Callable[[CompiledDefinition], Target], land: Land, aside: Aside
    ) -> None:
        self.envelopes = Envelopes()
        self._shared = _Shared(envelopes=self.envelopes, vetting=Vetting(), land=land, aside=aside)
        self._definitions = _by_type(contract)
        self._target = target
        self._lanes: dict[str, _Lane | None] = {}

    def take(self, frame: Frame) -> None:
        """Deal a frame's events out to their lanes."""
        events, indices, refused = self.envelopes.decode(frame)
        weight = len(frame.block) / max(len(frame), 1)
        for name, (members, places) in _grouped(events, indices).items():
            lane = self._lane(name)
            if lane is None:
                refused += places
            elif lane.add(_Segment(frame, members, places), weight) >= SLICE:
                lane.clear()
        if refused:
            self._shared.aside(frame, sorted(refused))

    def clear(self) -> None:
        """Land everything that waits in a lane."""
        for lane in self._lanes.values():
            if lane is not None:
                lane.clear()

    def _lane(self, name: str) -> _Lane | None:
        definition = self._definitions.get(name)
        if definition is None:
            return None
        if name not in self._lanes:
            self._lanes[name] = _open(definition, self._target, self._shared)
        return self._lanes[name]


def _grouped(events: list[Any], indices: list[int]) -> dict[str, tuple[list[Any], list[int]]]:
    groups: dict[str, tuple[list[Any], list[int]]] = {}
    for event, index in zip(events, indices, strict=True):
        group = groups.get(event.type)
        if group is None:
            group = groups[event.type] = ([], [])
        group[0].append(event)
        group[1].append(index)
    return groups


def _by_type(contract: Contract) -> dict[str, CompiledDefinition]:
    """Event types that lead to one definition, whatever else an event says."""
    typed: dict[str, list[CompiledDefinition]] = {}
    for definition in contract.definitions.values():
        if not definition.is_event:
            continue
        name = _type(definition)
        if name is None:
            return {}  # it may fit an event of any type
        typed.setdefault(name, []).append(definition)
    return {name: found[0] for name, found in typed.items() if len(found) == 1 and _settled(found[0], contract.policy)}


def _type(definition: CompiledDefinition) -> str | None:
    key = next((key for key in definition.event_keys if key.name == "type" and key.tier == 0), None)
    return key.value if key is not None and isinstance(key.value, str) else None


def _settled(definition: CompiledDefinition, policy: Policy) -> bool:
    """Whether envelope and payload are all that decides on a structured event out of a file."""
    at_rest = not (definition.protocol and policy.strict_delivery)
    return definition.simple and definition.removal is None and at_rest


def _open(
    definition: CompiledDefinition, target: Callable[[CompiledDefinition], Target], shared: _Shared
) -> _Lane | None:
    """The definition's lane, unless its payloads have no typed decoder."""
    use = definition.schema_use
    typed = use.schema.typed() if use.schema is not None and use.of_values else None
    return None if typed is None else _Lane(definition, target(definition), typed, shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What lanes have in common."""

    envelopes: Envelopes
    vetting: Vetting
    land: Land
    aside: Aside


@dataclass(frozen=True, slots=True)
class _Segment:
    """Events of one frame that wait in a lane, and their indices in it."""

    frame: Frame
    events: list[Any]
    indices: list[int]


class _Lane:
    """Events of one type on their way to their table."""

    def __init__(self, definition: CompiledDefinition, target: Target, typed: Typed, shared: _Shared) -> None:
        self._target = target
        self._decode = typed.decode
        self._shared = shared
        self._contexts = Contexts(definition)
        self._segments: list[_Segment] = []
        self._waiting = 0.0

    def add(self, segment: _Segment, weight: float) -> float:
        """Take events of about ``weight`` bytes each; how many bytes wait now."""
        self._segments.append(segment)
        self._waiting += weight * len(segment.events)
        return self._waiting

    def clear(self) -> None:
        """Land what waits, and put aside what the fast path cannot answer for."""
        segments, self._segments, self._waiting = self._segments, [], 0.0
        events = list(chain.from_iterable(segment.events for segment in segments))
        if not events:
            return
        values = _attributes(events, self._shared.envelopes.extensions)
        arrays = [pa.array(values[name], pa.string()) for name in ATTRIBUTES]
        payloads, failed = self._payloads(events)
        contexts, strangers = self._contexts.of(values, len(events))
        failed |= strangers | self._shared.vetting.faulty_numbers(values, dict(zip(ATTRIBUTES, arrays, strict=True)))
        rest = [*arrays, text_map(extension_texts(values)), contexts, *_transport(segments)]
        if failed:
            _put_aside(segments, failed, self._shared.aside)
            payloads, rest = _kept(payloads, rest, failed)
        if payloads and not self._land(payloads, rest):
            _put_aside(segments, set(range(len(events))) - failed, self._shared.aside)

    def _land(self, payloads: list[Any], rest: list[pa.Array]) -> bool:
        """Land rows, unless a value does not fit its column; ``rest`` are all columns but the payload's."""
        try:
            rest[_TIME] = timestamps(rest[_TIME])
            rows = self._target.typed_rows(rest[:_ENVELOPE], payloads, rest[_ENVELOPE:])
        except MISFITS:
            return False
        self._shared.land(self._target, rows)
        return True

    def _payloads(self, events: list[Any]) -> tuple[list[Any], set[int]]:
        """The payload of each event, and the numbers of those the schema refuses."""
        decode = self._decode
        payloads: list[Any] = []
        failed: set[int] = set()
        for number, event in enumerate(events):
            try:
                payloads.append(decode(event.data))
            except PayloadError:
                payloads.append(None)
                failed.add(number)
        return payloads, failed


def _attributes(events: list[Any], extensions: Sequence[str]) -> dict[str, list[Any]]:
    """The attributes of all events, by name; extensions only where an event has them."""
    values = {name: list(map(attrgetter(name), events)) for name in ATTRIBUTES}
    for name in extensions:
        column = [getattr(event, f"ext_{name}", None) for event in events]
        if column.count(None) < len(column):
            values[name] = column
    return values


def _kept(payloads: list[Any], rest: list[pa.Array], failed: set[int]) -> tuple[list[Any], list[pa.Array]]:
    numbers = [number for number in range(len(payloads)) if number not in failed]
    taken = pa.array(numbers, pa.int64())
    return [payloads[number] for number in numbers], [array.take(taken) for array in rest]


def _transport(segments: Sequence[_Segment]) -> list[pa.Array]:
    """The arrays of ``columns.TRANSPORT`` for events out of files."""
    count = sum(len(segment.indices) for segment in segments)
    nothing = [pa.nulls(count, field.type) for field in list(columns.TRANSPORT)[:-2]]
    paths = pa.concat_arrays(pa.repeat(segment.frame.path, len(segment.indices)) for segment in segments)
    positions = np.concatenate([segment.frame.positions[segment.indices] for segment in segments])
    return [*nothing, paths, pa.array(positions)]


def _put_aside(segments: Sequence[_Segment], numbers: set[int], aside: Aside) -> None:
    first = 0
    for segment in segments:
        indices = [index for number, index in enumerate(segment.indices, first) if number in numbers]
        first += len(segment.indices)
        if indices:
            aside(segment.frame, indices)
