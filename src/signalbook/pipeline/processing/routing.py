"""The fast path: from messages to rows of the tables of definitions, whole columns at a time.

Messages become columns (``modes.py``). Those that carry no CloudEvent go to ``plain.py``. Events wait until there are
enough for a batch (``batch.py``). The type of an event gives it a route to the definition of this type, if no other
definition could fit the event. If a few definitions share the type, the event gets a route to each of them. Then its
attributes (``attributes.py``) and its payload (``decoding.py``) are checked. The results, and the reasons for
rejections (``verdicts.py``), are the same as those of ``Contract.process``. Doubtful messages are left over for the
slow path, which processes messages one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.messages import CompiledDefinition, Contract, Outcome, Rejected
from signalbook.messages.bindings.mqtt import V5
from signalbook.messages.definitions.source import Outline
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.native import PayloadSpans, refuse_all
from signalbook.pipeline.processing.attributes import AttributeChecks, EnvelopeChecks, build_checks_key, has_own_schema
from signalbook.pipeline.processing.batch import IN_JSON, MIN_BATCH_BYTES, NO_DATA, SENT_AS, EventBatch, EventColumns
from signalbook.pipeline.processing.decoding import are_json, find_payload_decoder
from signalbook.pipeline.processing.modes import ContentMode
from signalbook.pipeline.processing.plain import AddressIndex, PlainPath
from signalbook.pipeline.processing.properties import is_known
from signalbook.pipeline.processing.rows import (
    Ignored,
    LeftOver,
    Result,
    RowBuilder,
    land_rows,
    list_unlanded,
    undecoded,
)
from signalbook.pipeline.processing.shared_types import EventRoute, HeldEvents, are_decidable, land_exclusive
from signalbook.pipeline.processing.verdicts import (
    NO_VERDICT,
    PayloadReasons,
    Rejections,
    RejectionVerdict,
    Verdicts,
    apply_judge,
    build_event_judge,
    find_missing_data_reasons,
    find_reasons,
    reject_broken_event,
)
from signalbook.pipeline.sources.base import MessageBatch

_MAX_BATCH_BYTES: Final = 128 * 1024 * 1024
_BATCH_BYTES_OF_TYPE: Final = 256 * 1024
# The number of large messages of a type that a batch waits for: fewer are not worth the work per column and slice.
_MIN_EVENTS_OF_TYPE: Final = 100
# The limit of kinds of events per definition, on average: senders may make up any number of content types.
_KINDS_PER_DEFINITION: Final = 4
_MIN_KINDS: Final = 64
# The number of kinds of events after which judging them stops if most of them are accepted.
_MIN_JUDGED: Final = 64
# The limit of definitions that share an event type. A payload is checked against each of them.
_MAX_SHARED: Final = 8
# The attributes that make up the kind of an event. One decoder reads the payloads of all events of a kind.
_KIND: Final = ("type", SENT_AS)


# Routes, each with the numbers of its events in the batch.
_Routed = list[tuple[EventRoute, Offsets]]


class FastPath:
    """The fast path of a contract for messages in the content mode ``mode`` that came by ``protocol``.

    ``protocol`` is empty for files. Messages that carry no event go to a ``PlainPath`` if the mode reads them.
    ``target`` returns the row builder of a definition. ``judge`` processes the message at an index of a batch on the
    slow path, and returns its rejection, or ``None`` if the message has another outcome. Callers must exhaust the
    iterators that ``take`` and ``flush`` return: results are made while they are read.
    """

    def __init__(
        self,
        contract: Contract,
        protocol: str,
        mode: ContentMode,
        target: Callable[[CompiledDefinition], RowBuilder],
        judge: Callable[[MessageBatch, int], Rejected | None],
    ) -> None:
        self.mode = mode
        self._protocol = protocol
        self._attribute_checks = AttributeChecks(all_events=mode.all_events)
        self._definitions = contract.definitions
        self._plain_index = AddressIndex(_find_plain_definitions(contract, protocol), protocol)
        self._types = _index_types(contract, protocol, self._plain_index)
        counts = Counter(outline.type for outline in contract.outlines if outline.is_event)
        self._known, self._alone = set(counts), {name for name, count in counts.items() if count == 1}
        self._decides_unknown = contract.decides_unknown_types(protocol, self._plain_index.address_property)
        self._find_unknown_outcome = contract.of_unknown_type
        self._no_event = None if mode.all_events else contract.of_no_event(protocol)
        plain_path = PlainPath(contract, protocol, target) if mode.reads_plain else None
        self._plain_path = plain_path if plain_path and plain_path.is_needed else None
        self._checks: dict[bytes, EnvelopeChecks] = {}
        self._routes: dict[tuple[Any, ...], Sequence[EventRoute]] = {}
        self._target = target
        self._judge = judge
        self._waiting: list[EventColumns] = []
        self._waiting_bytes = 0

    def take(self, messages: MessageBatch) -> Iterator[Result]:
        """Take messages and yield the results that are ready. Most events wait until there are enough for a batch."""
        if not self._types and self._plain_path is None:
            yield LeftOver(messages, range(len(messages)))
            return
        events, refused = self.mode.read_events(messages)
        if refused:
            yield from _explain_refused(messages, refused)
        if self._plain_path is not None and len(events):
            is_plain = EventBatch([events]).missing > 0
            if is_plain.any():
                yield from self._plain_path.take(events if is_plain.all() else events.take(np.flatnonzero(is_plain)))
                events = events.take(np.flatnonzero(~is_plain))
        if not self._types and len(events):
            yield LeftOver(messages, events.indices.tolist())
        elif len(events):
            self._waiting.append(events)
            # Decoded data may take more memory than its messages.
            self._waiting_bytes += max(messages.weight, events.data.weight)
        if self._is_enough():
            yield from self._flush_events()

    def flush(self) -> Iterator[Result]:
        """Process all waiting messages and yield the results."""
        yield from self._flush_events()
        if self._plain_path is not None:
            yield from self._plain_path.flush()

    def _flush_events(self) -> Iterator[Result]:
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self.process(EventBatch(parts))

    def process(self, batch: EventBatch) -> Iterator[Result]:
        """Yield the rows and the rejections of a batch, and then the messages that are left over for the slow path."""
        verdicts = Verdicts(len(batch))
        left_over = self._attribute_checks.find_doubtful(batch, verdicts) | self._may_be_plain(batch)
        alike = self._find_undefined(batch, left_over)
        refused: _Routed = []
        by_checks, shared = self._group_by_checks(batch, left_over)
        for checks, routed in by_checks.items():
            matched, contexts = _match_envelopes(batch, checks, routed, left_over, verdicts)
            yield from land_rows(batch, matched, contexts, left_over)
            refused += [(route, events[left_over[events]]) for route, events in matched]
        for routes, events in shared:
            held = HeldEvents.of(batch, routes, events, self._protocol)
            yield from land_exclusive(batch, held, left_over)
            self._reject_alike(batch, held, left_over, verdicts)
        ignored = 0
        for outcomes, events, numbers in alike:
            rejected = [RejectionVerdict.of(outcome) for outcome in outcomes if isinstance(outcome, Rejected)]
            if rejected:
                verdicts.assign(events, numbers, rejected)
            else:
                events = self._select_readable(batch, events)
                left_over[events] = False
                ignored += len(events)
        yield Ignored(ignored)
        # The verdicts so far are about attributes. For an event in JSON they are right only if its data is JSON, too.
        rejected_events = verdicts.events
        verdicts.take_back(
            np.setdiff1d(rejected_events, self._select_readable(batch, rejected_events), assume_unique=True)
        )
        for route, events in refused:
            if route.reasons is not None:
                verdicts.explain(batch, route.reasons, events)
        yield from list_unlanded(batch, verdicts, left_over)

    def _may_be_plain(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """Return a mask: True for events that were sent to an address of a definition without an envelope."""
        if not self._plain_index.definitions:
            return np.zeros(len(batch), np.bool_)
        codes, addresses = batch.encode_property(self._plain_index.address_property)
        has_candidates = np.array(
            [bool(self._plain_index.find_candidates(address or "")) for address in addresses], np.bool_
        )
        may_be_plain: npt.NDArray[np.bool_] = has_candidates[codes]
        return may_be_plain

    def _reject_alike(
        self, batch: EventBatch, held: HeldEvents, left_over: npt.NDArray[np.bool_], verdicts: Verdicts
    ) -> None:
        """Reject left-over events by groups that break the same rules.

        The slow path judges one event of each group. If it rejects the event, the whole group gets its verdict.
        """
        numbers, is_undecided = held.group_alike(batch), np.zeros(len(batch), np.bool_)
        is_undecided[self._select_readable(batch, held.events[left_over[held.events] & (numbers != NO_VERDICT)])] = True
        places = np.flatnonzero(is_undecided[held.events])
        accepted = 0
        kinds, samples, codes = np.unique(numbers[places], return_index=True, return_inverse=True)
        verdict_numbers, new_verdicts = np.full(len(kinds), NO_VERDICT, np.int64), list[RejectionVerdict]()
        for kind, sample in enumerate(samples.tolist()):
            ((messages, (index,), _),) = batch.find_messages(held.events[places[sample : sample + 1]])
            rejected = self._judge(messages, index)
            if rejected is not None:
                verdict_numbers[kind] = len(new_verdicts)
                new_verdicts.append(RejectionVerdict.of(rejected))
                continue
            accepted += 1
            # The slow path judges the events of accepted groups again, so stop if most groups are accepted.
            if kind >= _MIN_JUDGED and 2 * accepted > kind:
                break
        verdicts.assign(held.events[places], verdict_numbers[codes], new_verdicts)

    def _is_enough(self) -> bool:
        """Return True if the waiting events are enough for a batch. Many kinds of events, or large ones, need more."""
        if self._waiting_bytes < MIN_BATCH_BYTES:
            return False
        events = sum(map(len, self._waiting))
        of_type = max(_BATCH_BYTES_OF_TYPE, _MIN_EVENTS_OF_TYPE * self._waiting_bytes // max(events, 1))
        # Many types in a small batch make columns of a few rows each, and Arrow costs the same for five rows as for
        # five thousand.
        return self._waiting_bytes >= min(len(self._routes) * of_type, _MAX_BATCH_BYTES)

    def _find_undefined(
        self, batch: EventBatch, left_over: npt.NDArray[np.bool_]
    ) -> list[tuple[list[Outcome], Offsets, Offsets]]:
        """Return outcomes of valid events of undefined types, and the outcome of messages that are not events.

        Each list of outcomes, which are all rejections or none, comes with its events and their numbers in the list.
        Outcomes that are unknown are left out.
        """
        outcomes: list[tuple[list[Outcome], Offsets, Offsets]] = []
        if self._decides_unknown:
            codes, types = batch.encode_attribute("type")
            unknown = np.array([name not in self._known for name in types], np.bool_)
            events = np.flatnonzero(unknown[codes] & ~left_over)
            used, numbers = np.unique(codes[events], return_inverse=True)
            of_types = [self._find_unknown_outcome(str(types[code]), self._protocol) for code in used.tolist()]
            outcomes.append((of_types, events, numbers))
        if self._no_event is not None:
            events = np.flatnonzero(batch.missing)
            outcomes.append(([self._no_event], events, np.zeros(len(events), np.int64)))
        return outcomes

    def _select_readable(self, batch: EventBatch, events: Offsets) -> Offsets:
        """Return the ``events`` whose data certainly is JSON, or does not have to be JSON."""
        must_be_json = np.ones(len(events), np.bool_) if batch.forms is None else batch.forms[events] == IN_JSON
        sound = ~must_be_json
        if must_be_json.any():
            sound[must_be_json] = are_json(batch.take_payloads(events[must_be_json]))
        readable: Offsets = events[sound]
        return readable

    def _group_by_checks(
        self, batch: EventBatch, left_over: npt.NDArray[np.bool_]
    ) -> tuple[dict[EnvelopeChecks, _Routed], list[tuple[Sequence[EventRoute], Offsets]]]:
        """Return events with one route by the checks of its definition, and separately events with several routes.

        Events without a route, and at first those with several routes, are marked in ``left_over``.
        """
        by_checks: dict[EnvelopeChecks, _Routed] = {}
        shared: list[tuple[Sequence[EventRoute], Offsets]] = []
        for kind, events in batch.group_by(_KIND):
            routes = self._find_routes(kind)
            sound = events[~left_over[events]]
            if len(routes) == 1:
                by_checks.setdefault(routes[0].checks, []).append((routes[0], sound))
            else:
                left_over[events] = True
            if len(routes) > 1 and len(sound):
                shared.append((routes, sound))
        return by_checks, shared

    def _find_routes(self, kind: tuple[Any, ...]) -> Sequence[EventRoute]:
        xids = self._types.get(kind[0], ())
        if xids and kind not in self._routes:
            # A route may hold a decoder, so routes are limited: the slow path is cheaper for made-up content types.
            if len(self._routes) >= _MIN_KINDS + _KINDS_PER_DEFINITION * len(self._types):
                return ()
            self._routes[kind] = self._plan_routes([self._definitions[xid] for xid in xids], kind)
        return self._routes.get(kind, ())

    def _plan_routes(self, definitions: Sequence[CompiledDefinition], kind: tuple[Any, ...]) -> Sequence[EventRoute]:
        """Return a route to each of ``definitions`` for events of a kind; empty if columns cannot decide.

        Routes to definitions for the protocol come first.
        """
        planned = [self._plan_route(definition, kind) for definition in definitions]
        routes = [route for route in planned if route is not None]
        if len(routes) < len(definitions) or (len(routes) > 1 and not are_decidable(routes, self._protocol)):
            return ()
        return sorted(routes, key=lambda route: route.definition.protocol != self._protocol)

    def _plan_route(self, definition: CompiledDefinition, kind: tuple[Any, ...]) -> EventRoute | None:
        """Return the route to a definition for events of a kind, ``None`` if columns cannot decide.

        If nothing decodes the payloads, the route can only reject events.
        """
        if not _is_decided(definition, self._protocol, self.mode):
            return None
        sent = kind[1]
        if (
            self.mode.all_events
            and self._protocol == "KAFKA"
            and isinstance(sent, str)
            and definition.policy.wire_prefix != "none"
        ):
            return None  # a header of the record may name the schema of the data
        properties = definition.options if self._protocol and definition.protocol_checks else ()
        key = build_checks_key(definition)
        if key not in self._checks:
            self._checks[key] = EnvelopeChecks(definition, kind[0], properties)
        checks = self._checks[key]
        target = self._target(definition)
        decode = find_payload_decoder(definition, sent)
        if decode is None and sent == NO_DATA:
            same = find_missing_data_reasons(definition) if kind[0] in self._alone else None
            return EventRoute(definition, target, refuse_all, checks, same)
        if decode is None:
            return EventRoute(definition, target, undecoded, checks, None)
        # If several definitions have the type, for any protocol, there is no judge: payloads are decoded first.
        judge = build_event_judge(definition, sent) if kind[0] in self._alone and sent is not None else None
        payload_reasons = PayloadReasons(definition, find_reasons(definition), judge)
        return EventRoute(definition, target, target.wrap_decoder(decode), checks, payload_reasons)


def _explain_refused(messages: MessageBatch, indices: list[int]) -> Iterator[Result]:
    """Yield the outcomes of the messages at ``indices``, which the content mode refused.

    Structured messages that are not events are rejected with the reason. The others are left over.
    """
    numbers, verdicts = np.full(len(indices), NO_VERDICT, np.int64), list[RejectionVerdict]()
    # MQTT is excluded: a packet may claim to be UTF-8, and a false claim is a reason of its own.
    if messages.lines and not messages.binary and messages.protocol != V5:
        places = np.array(indices)
        spans = PayloadSpans.within(messages.content, messages.starts[places], messages.ends[places])
        apply_judge(reject_broken_event, spans, numbers, verdicts)
    has_verdict = numbers != NO_VERDICT
    if has_verdict.any():
        yield Rejections(messages, np.array(indices)[has_verdict].tolist(), verdicts, numbers[has_verdict])
    if not has_verdict.all():
        yield LeftOver(messages, np.array(indices)[~has_verdict].tolist())


def _find_plain_definitions(contract: Contract, protocol: str) -> list[CompiledDefinition]:
    """Return the definitions without an envelope for messages that came by ``protocol``. Events may fit them, too."""
    return [
        contract.definitions[outline.xid]
        for outline in contract.outlines
        if protocol and not outline.is_event and outline.protocol == protocol
    ]


def _index_types(contract: Contract, protocol: str, plain_index: AddressIndex) -> dict[str, tuple[str, ...]]:
    """Return the xids of the definitions of each event type. Types with more than ``_MAX_SHARED`` are left out.

    The result is empty if the type of an event that came by ``protocol`` does not decide: if a definition has no type,
    or if definitions of ``plain_index`` may fit any event because the protocol has no addresses.
    """
    events = [outline for outline in contract.outlines if outline.is_event]
    if any(outline.type is None for outline in events):
        return {}
    if plain_index.definitions and not plain_index.address_property:
        return {}
    typed: dict[str, list[Outline]] = {}
    for outline in events:
        typed.setdefault(str(outline.type), []).append(outline)
    xids_by_type = {name: _select_by_protocol(outlines, protocol) for name, outlines in typed.items()}
    return {name: xids for name, xids in xids_by_type.items() if len(xids) <= _MAX_SHARED}


def _select_by_protocol(outlines: Sequence[Outline], protocol: str) -> tuple[str, ...]:
    """Return the definitions of a type for a protocol, or those of other protocols if there are no such definitions."""
    same_protocol = [outline.xid for outline in outlines if not protocol or outline.protocol in ("", protocol)]
    return tuple(same_protocol or [outline.xid for outline in outlines])


def _is_decided(definition: CompiledDefinition, protocol: str, mode: ContentMode) -> bool:
    """Return True if columns (envelope, payload, properties) decide whether an event by ``protocol`` fits."""
    if not mode.is_decided(definition) or definition.removal is not None:
        return False
    if definition.protocol and definition.protocol == protocol:
        return all(is_known(protocol, name) for name in definition.options)
    return not (definition.protocol and (protocol or definition.policy.strict_delivery))


def _match_envelopes(
    batch: EventBatch, checks: EnvelopeChecks, routed: _Routed, left_over: npt.NDArray[np.bool_], verdicts: Verdicts
) -> tuple[_Routed, pa.Array]:
    """Return the events whose envelopes fit their definitions, with their contexts.

    Other events are marked in ``left_over``; those that break a rule get a verdict.
    """
    candidates = np.concatenate([events for _, events in routed])
    numbers = np.zeros(len(batch), np.int64)
    numbers[candidates] = checks.number_contexts(batch, candidates)
    # First mark all events as left over, then unmark those that match. An event that no step handles then goes the
    # slow path, which is always correct.
    left_over[candidates] = True
    matched: _Routed = []
    for route, events in routed:
        fit = numbers[events] >= 0
        unfitting = events[~fit]
        if len(unfitting):
            breaches, places = np.unique(numbers[unfitting], return_inverse=True)
            verdicts.assign(
                unfitting, places, [checks.build_verdict(number, route.definition) for number in breaches.tolist()]
            )
        if route.decode is not undecoded:
            matched.append((route, events[fit & has_own_schema(batch, route.definition, events)]))
    order = np.concatenate([np.arange(0), *(events for _, events in matched)])
    left_over[order] = False
    return matched, checks.build_maps(batch, order, numbers[order])
