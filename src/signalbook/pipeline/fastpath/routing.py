"""The fast path for CloudEvents: from messages to rows of the tables of definitions, whole columns at a time.

Events among messages become columns (``modes.py``) and wait until there are enough for a batch (``batch.py``). Then
each event gets a route by its type, if that belongs to one definition and no other definition could fit the event, or
one to each of a few. What is left to ask are its attributes (``attributes.py``) and its payload (``payloads.py``), and
what they say is what ``Contract.process`` would say, as are the reasons for what they refuse (``reasons.py``). Whatever
is in doubt is left over: it goes the slow path, message by message.
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
from signalbook.pipeline.fastpath.addresses import AddressIndex
from signalbook.pipeline.fastpath.attributes import AttributeChecks, EnvelopeChecks, demands, lacking
from signalbook.pipeline.fastpath.batch import IN_JSON, LEAST_BATCH, NO_DATA, SENT_AS, EventBatch, EventColumns
from signalbook.pipeline.fastpath.modes import ContentMode, are_json, in_json, sent_as, without_schema
from signalbook.pipeline.fastpath.native import PayloadSpans
from signalbook.pipeline.fastpath.plain import PlainPath
from signalbook.pipeline.fastpath.properties import is_known
from signalbook.pipeline.fastpath.reasons import (
    PayloadReasons,
    broken_event,
    event_judge,
    judge_each,
    lack_of_data,
    reasons,
)
from signalbook.pipeline.fastpath.routes import (
    EventRoute,
    HeldEvents,
    Ignored,
    LeftOver,
    Result,
    are_decidable,
    has_own_schema,
    landed,
    landed_by_one,
    refuse_all,
    undecoded,
)
from signalbook.pipeline.fastpath.verdicts import UNSAID, Rejections, RejectionVerdict, Verdicts
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import MessageBatch, Offsets

_LARGEST_BATCH: Final = 128 * 1024 * 1024
_BATCH_OF_TYPE: Final = 256 * 1024
# Of large messages so many of a type: what is done once per column and slice is worth it only for as many.
_COMPANY: Final = 100
# Kinds of events for each definition, on average: whoever makes up content types is not worth a route for each.
_MOST_KINDS: Final = 4
_LEAST_KINDS: Final = 64
# So many kinds of events are judged before it counts that most of them are accepted after all.
_TRIED: Final = 64
# Definitions of one type, to all of which a payload is held.
_MOST_SHARED: Final = 8
# What events have in common whose payloads one decoder reads.
_KIND: Final = ("type", SENT_AS)


# Events of a batch with their route, by number.
_Routed = list[tuple[EventRoute, Offsets]]


class FastPath:
    """The fast path of a contract in one content mode, for events that came by ``protocol``, empty for those of files.

    ``judge`` is the slow path: what rejects one message, by index, if that is all that becomes of it. Results come as
    they are found; the caller has to take all of them.
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
        self._plain_index = AddressIndex(_plain_definitions(contract, protocol), protocol)
        self._types = _types(contract, protocol, self._plain_index)
        counts = Counter(outline.type for outline in contract.outlines if outline.is_event)
        self._known, self._alone = set(counts), {name for name, count in counts.items() if count == 1}
        self._unknown = contract.of_unknown_type(protocol, self._plain_index.address_property)
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
        """Take messages; most wait a while for others of their type."""
        if not self._types and self._plain_path is None:
            yield LeftOver(messages, range(len(messages)))
            return
        events, refused = self.mode.columns(messages)
        if refused:
            yield from _refused_events(messages, refused)
        if self._plain_path is not None and len(events):
            is_plain = lacking(EventBatch([events])) > 0
            if is_plain.any():
                yield from self._plain_path.take(events if is_plain.all() else events.take(np.flatnonzero(is_plain)))
                events = events.take(np.flatnonzero(~is_plain))
        if not self._types and len(events):
            yield LeftOver(messages, events.indices.tolist())
        elif len(events):
            self._waiting.append(events)
            # Data that was encoded takes more than its messages.
            self._waiting_bytes += max(messages.weight, events.data.weight)
        if self._is_enough():
            yield from self._flush_events()

    def flush(self) -> Iterator[Result]:
        """Process all that waits."""
        yield from self._flush_events()
        if self._plain_path is not None:
            yield from self._plain_path.flush()

    def _flush_events(self) -> Iterator[Result]:
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self.process(EventBatch(parts))

    def process(self, batch: EventBatch) -> Iterator[Result]:
        """Yield what lands of a batch, what is rejected, and then the rest for the slow path."""
        verdicts = Verdicts(len(batch))
        left = self._attribute_checks.doubtful(batch, verdicts) | self._may_be_plain(batch)
        alike = self._without_definition(batch, left)
        refused: _Routed = []
        by_checks, shared = self._by_checks(batch, left)
        for checks, routed in by_checks.items():
            matched, contexts = _matched(batch, checks, routed, left, verdicts)
            yield from landed(batch, matched, contexts, left)
            refused += [(route, events[left[events]]) for route, events in matched]
        for routes, events in shared:
            held = HeldEvents.of(batch, routes, events, self._protocol)
            yield from landed_by_one(batch, held, left)
            self._judge_alike(batch, held, left, verdicts)
        ignored = 0
        for outcome, events in alike:
            if isinstance(outcome, Rejected):
                verdicts.say(events, np.zeros(len(events), np.int64), [RejectionVerdict.of(outcome)])
            else:
                events = self._readable(batch, events)
                left[events] = False
                ignored += len(events)
        yield Ignored(ignored)
        # Reasons so far are about attributes, and those of an event in JSON count only where all of it is JSON.
        said = verdicts.events
        verdicts.take_back(np.setdiff1d(said, self._readable(batch, said), assume_unique=True))
        _judge_payloads(batch, refused, verdicts)
        left[verdicts.events] = False
        yield from verdicts.rejections(batch)
        for messages, indices, _ in batch.messages(np.flatnonzero(left)):
            yield LeftOver(messages, indices)

    def _may_be_plain(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """Return which events were sent to an address that a definition without an envelope may take."""
        if not self._plain_index.definitions:
            return np.zeros(len(batch), np.bool_)
        codes, addresses = batch.property(self._plain_index.address_property)
        has_candidates = np.array(
            [bool(self._plain_index.candidates(address or "")) for address in addresses], np.bool_
        )
        may_be_plain: npt.NDArray[np.bool_] = has_candidates[codes]
        return may_be_plain

    def _judge_alike(
        self, batch: EventBatch, held: HeldEvents, left: npt.NDArray[np.bool_], verdicts: Verdicts
    ) -> None:
        """Say of those events that are left what is said of the first one that breaks the same."""
        numbers, asked = held.alike(batch), np.zeros(len(batch), np.bool_)
        asked[self._readable(batch, held.events[left[held.events] & (numbers != UNSAID)])] = True
        places = np.flatnonzero(asked[held.events])
        accepted = 0
        kinds, samples, codes = np.unique(numbers[places], return_index=True, return_inverse=True)
        said, found = np.full(len(kinds), UNSAID, np.int64), list[RejectionVerdict]()
        for kind, sample in enumerate(samples.tolist()):
            ((messages, (index,), _),) = batch.messages(held.events[places[sample : sample + 1]])
            rejected = self._judge(messages, index)
            if rejected is not None:
                said[kind] = len(found)
                found.append(RejectionVerdict.of(rejected))
                continue
            accepted += 1
            # Those go the slow path, and are judged once more.
            if kind >= _TRIED and 2 * accepted > kind:
                break
        verdicts.say(held.events[places], said[codes], found)

    def _is_enough(self) -> bool:
        """Return True if the waiting events are enough for a batch: more for many kinds of events, and large ones."""
        if self._waiting_bytes < LEAST_BATCH:
            return False
        events = sum(map(len, self._waiting))
        of_type = max(_BATCH_OF_TYPE, _COMPANY * self._waiting_bytes // max(events, 1))
        # Many types in a small batch make columns of a few rows each, and Arrow costs the same for five rows as for
        # five thousand.
        return self._waiting_bytes >= min(len(self._routes) * of_type, _LARGEST_BATCH)

    def _without_definition(self, batch: EventBatch, left: npt.NDArray[np.bool_]) -> list[tuple[Outcome, Offsets]]:
        """Return the outcomes of valid events of undefined types, and of messages that are not events, if known."""
        found: list[tuple[Outcome, Offsets]] = []
        if self._unknown is not None:
            codes, types = batch.codes("type")
            unknown = np.array([name not in self._known for name in types], np.bool_)
            found.append((self._unknown, np.flatnonzero(unknown[codes] & ~left)))
        if self._no_event is not None:
            found.append((self._no_event, np.flatnonzero(lacking(batch))))
        return found

    def _readable(self, batch: EventBatch, events: Offsets) -> Offsets:
        """Return the events whose data certainly is JSON, where it must be."""
        asked = np.ones(len(events), np.bool_) if batch.forms is None else batch.forms[events] == IN_JSON
        sound = ~asked
        if asked.any():
            sound[asked] = are_json(batch.payloads(events[asked]))
        found: Offsets = events[sound]
        return found

    def _by_checks(
        self, batch: EventBatch, left: npt.NDArray[np.bool_]
    ) -> tuple[dict[EnvelopeChecks, _Routed], list[tuple[Sequence[EventRoute], Offsets]]]:
        """The events that have a route, by the checks that their definitions share, and those that have several.

        Those without are left.
        """
        found: dict[EnvelopeChecks, _Routed] = {}
        shared: list[tuple[Sequence[EventRoute], Offsets]] = []
        for kind, events in batch.kinds(_KIND):
            routes = self._routes_of(kind)
            sound = events[~left[events]]
            if len(routes) == 1:
                found.setdefault(routes[0].checks, []).append((routes[0], sound))
            else:
                left[events] = True
            if len(routes) > 1 and len(sound):
                shared.append((routes, sound))
        return found, shared

    def _routes_of(self, kind: tuple[Any, ...]) -> Sequence[EventRoute]:
        xids = self._types.get(kind[0], ())
        if xids and kind not in self._routes:
            # A route may hold a decoder. Beyond so many the slow path is the cheaper answer to made-up content types.
            if len(self._routes) >= _LEAST_KINDS + _MOST_KINDS * len(self._types):
                return ()
            self._routes[kind] = self._all_planned([self._definitions[xid] for xid in xids], kind)
        return self._routes.get(kind, ())

    def _all_planned(self, definitions: Sequence[CompiledDefinition], kind: tuple[Any, ...]) -> Sequence[EventRoute]:
        """Return a route to each definition that events of a kind may be of, or none if columns cannot decide.

        Routes for the protocol come first.
        """
        found = [self._planned(each, kind) for each in definitions]
        routes = [each for each in found if each is not None]
        if len(routes) < len(definitions) or (len(routes) > 1 and not are_decidable(routes, self._protocol)):
            return ()
        return sorted(routes, key=lambda route: route.definition.protocol != self._protocol)

    def _planned(self, definition: CompiledDefinition, kind: tuple[Any, ...]) -> EventRoute | None:
        """The definition's route for events of a kind, unless it asks for more.

        Where nothing decodes their payloads it is for those whose attributes break a rule.
        """
        if not _is_decided(definition, self._protocol, self.mode):
            return None
        sent = kind[1]
        properties = definition.options if self._protocol and definition.protocol_checks else ()
        key = demands(definition)
        if key not in self._checks:
            self._checks[key] = EnvelopeChecks(definition, kind[0], properties)
        checks = self._checks[key]
        target = self._target(definition)
        decode = None
        if definition.schema_use.schema is None:
            decode = without_schema(definition, sent)
        elif sent != NO_DATA:
            decode = in_json(definition) if sent is None else sent_as(definition, sent)
        if decode is None and sent == NO_DATA:
            same = lack_of_data(definition) if kind[0] in self._alone else None
            return EventRoute(definition, target, refuse_all, checks, same)
        if decode is None:
            return EventRoute(definition, target, undecoded, checks, None)
        # Where there are several of a type, also by other protocols, payloads are decoded before they are judged.
        judge = event_judge(definition, sent) if kind[0] in self._alone and sent is not None else None
        said = PayloadReasons(definition, reasons(definition), judge)
        return EventRoute(definition, target, target.decoding(decode), checks, said)


def _refused_events(messages: MessageBatch, indices: list[int]) -> Iterator[Result]:
    """Yield the outcomes of messages that no mode reads. Structured ones get the reason why they are not events."""
    numbers, verdicts = np.full(len(indices), UNSAID, np.int64), list[RejectionVerdict]()
    # A packet of MQTT may promise UTF-8, and what it has that is none has that for a reason.
    if messages.lines and not messages.binary and messages.protocol != V5:
        places = np.array(indices)
        spans = PayloadSpans.within(messages.content, messages.starts[places], messages.ends[places])
        judge_each(broken_event, spans, numbers, verdicts)
    said = numbers != UNSAID
    if said.any():
        yield Rejections(messages, np.array(indices)[said].tolist(), verdicts, numbers[said])
    if not said.all():
        yield LeftOver(messages, np.array(indices)[~said].tolist())


def _plain_definitions(contract: Contract, protocol: str) -> list[CompiledDefinition]:
    """Return the definitions without an envelope for messages that came by ``protocol``. Events may fit them, too."""
    return [
        contract.definitions[outline.xid]
        for outline in contract.outlines
        if protocol and not outline.is_event and outline.protocol == protocol
    ]


def _types(contract: Contract, protocol: str, plain_index: AddressIndex) -> dict[str, tuple[str, ...]]:
    """Return the xids of the definitions of each event type that has few of them.

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
    found = {name: _by_protocol(outlines, protocol) for name, outlines in typed.items()}
    return {name: xids for name, xids in found.items() if len(xids) <= _MOST_SHARED}


def _by_protocol(outlines: Sequence[Outline], protocol: str) -> tuple[str, ...]:
    """The definitions of a type but for those of other protocols, unless these are all there are."""
    own = [each.xid for each in outlines if not protocol or each.protocol in ("", protocol)]
    return tuple(own or [each.xid for each in outlines])


def _is_decided(definition: CompiledDefinition, protocol: str, mode: ContentMode) -> bool:
    """Return True if envelope, payload and properties with columns decide on an event of this protocol or a file."""
    if not mode.is_decided(definition) or definition.removal is not None:
        return False
    if definition.protocol and definition.protocol == protocol:
        return all(is_known(protocol, name) for name in definition.options)
    return not (definition.protocol and (protocol or definition.policy.strict_delivery))


def _matched(
    batch: EventBatch, checks: EnvelopeChecks, routed: _Routed, left: npt.NDArray[np.bool_], verdicts: Verdicts
) -> tuple[_Routed, pa.Array]:
    """The events whose envelopes fit their definitions, with their contexts in the same order; others are left."""
    asked = np.concatenate([events for _, events in routed])
    numbers = np.zeros(len(batch), np.int64)
    numbers[asked] = checks.numbers(batch, asked)
    # All are left at first, and those that match are taken back: whatever is forgotten goes the slow path, which is
    # right.
    left[asked] = True
    matched: _Routed = []
    for route, events in routed:
        fit = numbers[events] >= 0
        others = events[~fit]
        if len(others):
            breaches, places = np.unique(numbers[others], return_inverse=True)
            verdicts.say(others, places, [checks.verdict(number, route.definition) for number in breaches.tolist()])
        if route.decode is not undecoded:
            matched.append((route, events[fit & has_own_schema(batch, route.definition, events)]))
    order = np.concatenate([np.arange(0), *(events for _, events in matched)])
    left[order] = False
    return matched, checks.maps(batch, order, numbers[order])


def _judge_payloads(batch: EventBatch, refused: _Routed, verdicts: Verdicts) -> None:
    """Say of events why their payloads are refused, where there is a way to."""
    for route, events in refused:
        if route.reasons is not None:
            for part in batch.portions(events):
                verdicts.say(part, *route.reasons.of(batch.payloads(part)))
