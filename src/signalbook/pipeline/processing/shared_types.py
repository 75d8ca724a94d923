"""Choose between several definitions that share an event type, by checking events against each of them.

An event that only one definition accepts lands in the table of this definition. Events that break the same rules of all
definitions share a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.native import decode_or_refuse
from signalbook.pipeline.processing.attributes import EnvelopeChecks, has_own_schema
from signalbook.pipeline.processing.batch import EventBatch, make_dense
from signalbook.pipeline.processing.rows import LandedRows, Route, land_rows, undecoded
from signalbook.pipeline.processing.verdicts import NO_VERDICT, Reasons, load_reasons


@dataclass(frozen=True, slots=True)
class EventRoute(Route):
    """The route of events, whose envelopes are always checked."""

    checks: EnvelopeChecks


def are_decidable(routes: Sequence[EventRoute], protocol: str) -> bool:
    """Return True if payloads decide between ``routes``.

    They do if every route is provable, or if exactly one route is for ``protocol``, because it takes precedence.
    """
    if any(route.definition.policy.prefer_specific or route.decode is undecoded for route in routes):
        return False
    return all(map(is_provable, routes)) or [route.definition.protocol for route in routes].count(protocol) == 1


def is_provable(route: EventRoute) -> bool:
    """Return True if the fast path can prove that a payload breaks the schema of the route's definition."""
    definition = route.definition
    return isinstance(definition.schema_use.schema, JsonSchema) and definition.policy.wire_prefix == "none"


@dataclass(frozen=True, slots=True)
class HeldEvents:
    """The events of a type, checked against each of its definitions: arrays with a row for each definition.

    ``numbers`` are the results of ``EnvelopeChecks.number_contexts``. The other arrays are True for these events:

    - ``fits``: The attributes of the event fit the definition.
    - ``counts``: The attributes fit, and no definition for the protocol of the events accepts the event instead.
    - ``own_schema``: The event states the definition's own schema, or no schema.
    - ``decoded``: ``counts`` is True, and the decoder of the definition accepts the payload.
    """

    routes: Sequence[EventRoute]
    events: Offsets
    numbers: Offsets
    fits: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.bool_]
    own_schema: npt.NDArray[np.bool_]
    decoded: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, batch: EventBatch, routes: Sequence[EventRoute], events: Offsets, protocol: str) -> HeldEvents:
        """Check events that came by ``protocol`` against ``routes``. Routes for the protocol must come first."""
        # Once for all routes that share checks, because a second call may forget the contexts of the first.
        known = {
            checks: checks.number_contexts(batch, events) for checks in dict.fromkeys(route.checks for route in routes)
        }
        numbers = np.stack([known[route.checks] for route in routes])
        fits = numbers >= 0
        own_schema = np.stack([has_own_schema(batch, route.definition, events) for route in routes])
        counts, decoded, settled = fits.copy(), np.zeros_like(fits), np.zeros(len(events), np.bool_)
        for place, route in enumerate(routes):
            if route.definition.protocol != protocol:
                counts[place] &= ~settled
            positions = np.flatnonzero(counts[place])
            decoded[place, positions] = _are_decoded(batch, route, events[positions])
            if route.definition.protocol == protocol:
                settled |= decoded[place] & own_schema[place]
        return cls(routes, events, numbers, fits, counts, own_schema, decoded)

    def load_reasons(self, place: int) -> Reasons:
        """Return the reasons why payloads break the schema of the definition at ``place``."""
        schema = self.routes[place].definition.schema_use.schema
        assert isinstance(schema, JsonSchema)
        return load_reasons(schema)

    def group_alike(self, batch: EventBatch) -> Offsets:
        """Return a number for each event, equal for events that break the same rules of all definitions.

        The rules are about attributes or payloads. The number is ``NO_VERDICT`` if it is unknown which are broken.
        """
        provable = np.ones(len(self.events), np.bool_)
        provable[(self.counts & ~self.own_schema).any(axis=0)] = False
        if any(route.definition.policy.on_duplicate_names != "last" for route in self.routes):
            provable[self.fits.any(axis=0)] = False
        combined, count = np.zeros(len(self.events), np.int64), 1
        for place, numbers in enumerate(self.numbers):
            codes = np.where(self.fits[place], 0, -numbers)
            first = int(codes.max(initial=0)) + 1
            positions = np.flatnonzero(provable & self.counts[place] & ~self.decoded[place])
            if not is_provable(self.routes[place]):
                provable[positions] = False
                positions = positions[:0]
            parts = [
                self.load_reasons(place).read_keys(batch.take_payloads(part))
                for part in batch.split(self.events[positions])
            ]
            keys = pa.concat_arrays([pa.nulls(0, pa.binary()), *parts]).dictionary_encode()
            provable[positions[keys.indices.is_null().to_numpy(zero_copy_only=False)]] = False
            codes[positions] = first + keys.indices.fill_null(0).to_numpy()
            bound = first + len(keys.dictionary) + 1
            combined, count = make_dense(combined * bound + codes, count * bound)
        return np.where(provable, combined, NO_VERDICT)


def land_exclusive(batch: EventBatch, held: HeldEvents, left_over: npt.NDArray[np.bool_]) -> Iterator[LandedRows]:
    """Yield rows of events that conform to one definition of their type and certainly break all others.

    All events must be marked in ``left_over``. The events that land are unmarked.
    """
    events, counts, decoded = held.events, held.counts, held.decoded
    decided = (~counts | held.own_schema).all(axis=0) & (decoded.sum(axis=0) == 1)
    for place, route in enumerate(held.routes):
        positions = np.flatnonzero(decided & counts[place] & ~decoded[place])
        if not is_provable(route):
            decided[positions] = False
            continue
        broken = [
            held.load_reasons(place).find_broken(batch.take_payloads(part)) for part in batch.split(events[positions])
        ]
        decided[positions] = np.concatenate([np.zeros(0, np.bool_), *broken])
    for place, route in enumerate(held.routes):
        mine = np.flatnonzero(decided & decoded[place])
        if len(mine):
            left_over[events[mine]] = False
            contexts = route.checks.build_maps(batch, events[mine], held.numbers[place][mine])
            yield from land_rows(batch, [(route, events[mine])], contexts, left_over)


def _are_decoded(batch: EventBatch, route: Route, events: Offsets) -> npt.NDArray[np.bool_]:
    """Return a mask: True for events whose payload the decoder of ``route`` accepts."""
    decoded, first = np.ones(len(events), np.bool_), 0
    for part in batch.split(events):
        _, refused = decode_or_refuse(route.decode, batch.take_payloads(part))
        decoded[first + np.array(refused, np.int64)] = False
        first += len(part)
    return decoded
