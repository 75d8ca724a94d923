"""The fast path for CloudEvents: from messages to rows of the tables of definitions, whole columns at a time.

Events among messages become columns (``modes.py``) and wait until there are enough for a batch (``batch.py``). Then
each event gets a route by its type, if that belongs to one definition and no other definition could fit the event. What
is left to ask are its attributes and its payload (``payloads.py``), and what they say is what ``Contract.process``
would say. Whatever fails one of these steps is left over: it goes the slow path, message by message, which also finds
the reasons.

Attributes are held to the checks of ``messages``, but each distinct value, or combination of values that a definition
looks at, is asked about once, and the answer remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats.base import is_json
from signalbook.messages import CompiledDefinition, Contract, Reason, Rejected
from signalbook.messages.cloudevents import SPECVERSION, invalid_attributes
from signalbook.pipeline import columns, rescue
from signalbook.pipeline.arrays import MISFITS, text_map
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.batch import EventBatch, EventColumns, dense, firsts
from signalbook.pipeline.fastpath.modes import ContentMode
from signalbook.pipeline.fastpath.native import Decode
from signalbook.pipeline.fastpath.reasons import UNSAID, Reasons, reasons
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import MessageBatch, Offsets
from signalbook.values import Finding, canonical_json

# Answers that are kept, before all are forgotten: anybody may send any number of values.
_MOST_SOUND_VALUES: Final = 50_000
_MOST_CONTEXTS: Final = 50_000
_EVENT: Final[dict[str, Any]] = {"specversion": SPECVERSION, "id": "i", "source": "s", "type": "t"}
# Lengths of times, and that of the date in them.
_LENGTHS: Final = (20, 24, 27, 30)
_DATE: Final = 10
_PRINTABLE: Final = range(ord(" "), ord("~") + 1)
# The start of the year 1900 in microseconds; whatever is older gets a closer look.
_ANCIENT: Final = -2_208_988_800_000_000
NO_MATCH: Final = -1
# Attributes of which a definition without a value for them asks no more than whether they are there.
_PRESENCE: Final = {"id": (None, "string"), "subject": (None, "string"), "time": (None, "timestamp")}
# Attributes that decide without being declared: a content type may be implied (domain.md F-32).
_UNDECLARED: Final = frozenset({"datacontenttype"})


class AttributeChecks:
    """Soundness of attribute values (domain.md K-24); with ``json`` data has to be JSON, unless an event is opaque."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._sound: dict[str, set[Any]] = {}

    def doubtful(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """For each event whether an attribute of it is not surely sound."""
        doubtful = np.zeros(len(batch), np.bool_)
        for name, array in batch.attributes.items():
            if array.null_count == len(array) or (name in _PLAIN and _PLAIN[name](batch)):
                continue
            codes, values = batch.codes(name)
            doubtful |= self._bad(name, values)[codes]
            if self._json and name == "datacontenttype":
                other = np.array([value is not None and not is_json(value) for value in values], np.bool_)[codes]
                doubtful |= other if batch.opaque is None else other & ~batch.opaque
        for name, column in batch.extensions.items():
            codes, values = column.codes()
            doubtful |= self._bad(name, values)[codes]
        return doubtful

    def _bad(self, name: str, values: list[Any]) -> npt.NDArray[np.bool_]:
        known = self._sound.setdefault(name, {None})
        known |= {value for value in set(values) - known if not invalid_attributes({**_EVENT, name: value})}
        bad = np.fromiter((value not in known for value in values), np.bool_, len(values))
        if len(known) > _MOST_SOUND_VALUES:
            self._sound[name] = {None}
        return bad


def _plain_text(texts: pa.StringArray) -> bool:
    """Whether all texts are printable ASCII, and none is empty."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if pc.min(pc.binary_length(texts)).as_py() == 0:
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return bool(found.min(initial=_PRINTABLE[0]) >= _PRINTABLE[0] and found.max(initial=0) <= _PRINTABLE[-1])


def _plain_times(batch: EventBatch) -> bool:
    """Whether all times are like ``2026-01-02T03:04:05Z``, with 3, 6 or 9 digits more at most.

    Arrow reads a few spellings that are none in RFC 3339; with these lengths, T and Z in their places, none is left.
    """
    texts, times = batch.attributes["time"], batch.times
    if times is None or pc.min(times.cast(pa.int64())).as_py() <= _ANCIENT:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    places, lengths = offsets[:-1], np.diff(offsets)
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        places, lengths = places[there], lengths[there]
    if not np.isin(lengths, _LENGTHS).all():
        return False
    found = np.frombuffer(texts.buffers()[2], np.uint8)
    return bool((found[places + _DATE] == ord("T")).all() and (found[places + lengths - 1] == ord("Z")).all())


# A look at a whole column, which is not all null, that may settle it; what it does not is looked at value by value.
_PLAIN: Final[Mapping[str, Callable[[EventBatch], bool]]] = {
    "id": lambda batch: _plain_text(batch.attributes["id"]),
    "subject": lambda batch: _plain_text(batch.attributes["subject"]),
    "time": _plain_times,
}


def demands(definition: CompiledDefinition) -> bytes:
    """Equal for definitions that a ``EnvelopeChecks`` of one answers for, in one source."""
    raw = definition.definition
    metadata = {name: entry for name, entry in (raw.get("envelopemetadata") or {}).items() if name != "type"}
    stated = raw.get("datacontenttype"), raw.get("dataschemaformat"), raw.get("protocol"), raw.get("protocoloptions")
    return canonical_json([metadata, *stated, definition.payload_type])


class EnvelopeChecks:
    """Holds envelopes of known type to a definition, and finds what stands for its placeholders (domain.md K-34).

    ``address`` is the protocol property that says where messages were sent to, where that is looked at as well.
    """

    def __init__(self, definition: CompiledDefinition, type: str, address: str = "") -> None:
        self._address = address
        self._definition = definition
        self._type = type
        self._declared: Mapping[str, Any] = definition.definition.get("envelopemetadata") or {}
        # contexts by number, and numbers by the attributes that make a difference and their values
        self._maps = pa.array([], columns.TEXT_MAP)
        self._numbers: dict[tuple[str, ...], dict[Any, int]] = {}

    def numbers(self, batch: EventBatch, events: Offsets) -> Offsets:
        """For each of these events the number of its context, or ``NO_MATCH`` if it does not fit the definition."""
        if (
            sum(map(len, self._numbers.values())) > _MOST_CONTEXTS
        ):  # those without a match are kept too, and have no maps
            self._maps, self._numbers = self._maps.slice(0, 0), {}
        # Which attributes make a difference may change from batch to batch, so that answers are filed under their names
        # too.
        names, keys, firsts, inverse = self._distinct(batch, events)
        known = self._numbers.setdefault(names, {})
        fresh: list[dict[str, str]] = []
        for key, first in zip(keys, firsts, strict=True):
            if key not in known:
                context = self._ask(batch.attributes_of(int(first)), self._place(batch, int(first)))
                known[key] = NO_MATCH if context is None else len(self._maps) + len(fresh)
                fresh += [] if context is None else [context]
        if fresh:
            maps = text_map([tuple(context.items()) or None for context in fresh])
            self._maps = pa.concat_arrays([self._maps, maps])
        found: Offsets = np.array([known[key] for key in keys], np.int64)[inverse]
        return found

    def maps(self, numbers: Offsets) -> pa.Array:
        """The contexts with these numbers, as a ``columns.TEXT_MAP``."""
        if self._maps.null_count == len(self._maps):
            return pa.nulls(len(numbers), columns.TEXT_MAP)
        return self._maps.take(pa.array(numbers))

    def _distinct(self, batch: EventBatch, events: Offsets) -> tuple[tuple[str, ...], list[Any], Offsets, Offsets]:
        """What tells envelopes apart: attribute names, their distinct values, an event with each, each event's one."""
        # Codes of several attributes become one number each, made dense after every step: their product would overflow.
        combined, count = np.zeros(len(events), np.int64), min(len(events), 1)
        parts: dict[str, tuple[Offsets, list[Any]]] = {}
        for name in (*batch.attributes, *batch.extensions):
            part = self._part(batch, name)
            if part is not None:
                parts[name] = part
        if self._address:
            parts["@"] = batch.addresses  # no name of an attribute
        for codes, values in parts.values():
            combined, count = dense(combined * len(values) + codes[events], count * len(values))
        samples = events[firsts(combined, count)]
        columns = [[values[code] for code in codes[samples].tolist()] for codes, values in parts.values()]
        keys = list(zip(*columns, strict=True)) if columns else [()]
        return tuple(parts), keys, samples, combined

    def _part(self, batch: EventBatch, name: str) -> tuple[Offsets, list[Any]] | None:
        """What the checks see of an attribute, as codes and values; ``None`` if it makes no difference."""
        if name == "type" or (name not in self._declared and name not in _UNDECLARED):
            return None
        if name in batch.extensions:
            codes, values = batch.codes(name)
            return codes, [(value.__class__, value) for value in values]  # for True == 1
        if not self._is_presence(name):
            return batch.codes(name)
        absent = batch.attributes[name].is_null()
        return (absent.cast(pa.int64()).to_numpy(), [False, True]) if absent.true_count else None

    def _is_presence(self, name: str) -> bool:
        declared = self._declared.get(name) or {}
        return name in _PRESENCE and declared.get("value") is None and declared.get("type") in _PRESENCE[name]

    def _place(self, batch: EventBatch, number: int) -> dict[str, Any]:
        """The protocol's properties that are looked at, of one event."""
        if not self._address:
            return {}
        codes, values = batch.addresses
        return {self._address: values[codes[number]]}

    def _ask(self, attributes: dict[str, Any], place: dict[str, Any]) -> dict[str, str] | None:
        """The context of an event with these attributes, or ``None`` if it does not fit."""
        context: dict[str, str] = {}
        known = {"specversion": SPECVERSION, **attributes, "type": self._type}
        if self._definition.check_event(known, context):
            return None
        checks = self._definition.protocol_checks if self._address else ()
        return None if any(check(place, context) is not None for check in checks) else context


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
_ADDRESSES: Final = {"KAFKA": "topic", "HTTP": "path", "NATS": "subject", "MQTT/5.0": "topic_name"}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionVerdict:
    """Why messages are dead letters, as ``messages.Rejected`` has it."""

    reason: Reason
    violations: tuple[Finding, ...]
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejections:
    """Messages, by index, that are dead letters, with the number of the verdict on each."""

    messages: MessageBatch
    indices: Sequence[int]
    verdicts: Sequence[RejectionVerdict]
    numbers: Offsets


@dataclass(frozen=True, slots=True)
class Ignored:
    """So many messages that no definition fits, and that nobody wants by policy."""

    messages: int


Result = LandedRows | LeftOver | Rejections | Ignored


@dataclass(frozen=True, slots=True)
class Route:
    """Where messages of one kind go."""

    definition: CompiledDefinition
    target: RowBuilder
    decode: Decode


@dataclass(frozen=True, slots=True)
class _EventRoute(Route):
    """Where events go, what they have to pass, and what says why their payloads are refused."""

    checks: EnvelopeChecks
    reasons: Reasons | None


# Events of a batch with their route, by number.
_Routed = list[tuple[_EventRoute, Offsets]]


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
        self._known = {outline.type for outline in contract.outlines if outline.is_event}
        self._unknown = contract.of_unknown_type(protocol)
        self._checks: dict[bytes, EnvelopeChecks] = {}
        self._routes: dict[tuple[Any, ...], _EventRoute | None] = {}
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
            # Data that was encoded takes more than its messages.
            self._waiting_bytes += max(messages.weight, events.data.nbytes)
        if self._waiting_bytes >= self._enough():
            yield from self.flush()

    def flush(self) -> Iterator[Result]:
        """Process all that waits."""
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self.process(EventBatch(parts))

    def process(self, batch: EventBatch) -> Iterator[Result]:
        """What lands of a batch, what is rejected, and then what is left over of it."""
        left = self._attribute_checks.doubtful(batch)
        unmatched = self._unmatched_events(batch, left)
        refused: _Routed = []
        for checks, routed in self._by_checks(batch, left).items():
            matched, contexts = _matched(batch, checks, routed, left)
            yield from landed(batch, matched, contexts, left)
            refused += [(route, events[left[events]]) for route, events in matched]
        left[unmatched] = False
        yield from self._unmatched(batch, unmatched)
        yield from _rejected(batch, refused, left)
        for messages, indices, _ in batch.messages(np.flatnonzero(left)):
            yield LeftOver(messages, indices)

    def _enough(self) -> int:
        """Input bytes that make a batch: the more kinds of events there are, and the larger these."""
        events = sum(map(len, self._waiting))
        of_type = max(_BATCH_OF_TYPE, _COMPANY * self._waiting_bytes // max(events, 1))
        # Many types in a small batch make columns of a few rows each, and Arrow costs the same for five rows as for
        # five thousand.
        return min(max(LEAST_BATCH, len(self._routes) * of_type), LARGEST_BATCH)

    def _unmatched_events(self, batch: EventBatch, left: npt.NDArray[np.bool_]) -> Offsets:
        """Sound events of types that no definition has, if that is all there is to know of them."""
        codes, types = batch.codes("type")
        unknown = np.array([self._unknown is not None and name not in self._known for name in types], np.bool_)
        events = np.flatnonzero(unknown[codes] & ~left)
        return events[_are_json(batch.payloads(events))] if self.mode.json and len(events) else events

    def _unmatched(self, batch: EventBatch, unmatched: Offsets) -> Iterator[Result]:
        if not isinstance(self._unknown, Rejected):
            yield Ignored(len(unmatched))
            return
        rejected = self._unknown
        verdict = RejectionVerdict(
            reason=rejected.reason, violations=rejected.violations, candidates=rejected.candidates
        )
        for messages, indices, events in batch.messages(unmatched):
            yield Rejections(messages, indices, [verdict], np.zeros(len(events), np.int64))

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

    def _route(self, kind: tuple[Any, ...]) -> _EventRoute | None:
        xid = self._types.get(kind[0])
        if xid is None:
            return None
        if kind not in self._routes:
            # A route holds a decoder. Beyond so many the slow path is the cheaper answer to made-up content types.
            if len(self._routes) >= _LEAST_KINDS + _MOST_KINDS * len(self._types):
                return None
            self._routes[kind] = self._planned(self._definitions[xid], kind)
        return self._routes[kind]

    def _planned(self, definition: CompiledDefinition, kind: tuple[Any, ...]) -> _EventRoute | None:
        """The definition's route for events of a kind, unless it asks for more or nothing decodes their payloads."""
        if not _is_decided(definition, self._protocol, self.mode):
            return None
        decode = self.mode.decoder(definition, kind)
        if decode is None:
            return None
        address = _ADDRESSES[self._protocol] if self._protocol and definition.protocol_checks else ""
        checks = self._checks.setdefault(demands(definition), EnvelopeChecks(definition, kind[0], address))
        target = self._target(definition)
        return _EventRoute(definition, target, target.decoding(decode), checks, reasons(definition))


def _are_json(payloads: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which of these, of those that are there, are JSON beyond doubt."""
    _, refused, _ = native.module().JsonDecoder(("raw", False, False), rescue.ALL).read(*native.in_one_piece(payloads))
    found: npt.NDArray[np.bool_] = payloads.is_null().to_numpy(zero_copy_only=False)
    sound = np.ones(len(payloads), np.bool_)
    sound[refused] = False
    return found | sound


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
    # All are left at first, and those that match are taken back: whatever is forgotten goes the slow path, which is
    # right.
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
    # Identity, not equality: another Version that reads alike still has other columns, which the slow path resolves.
    own = np.array([name is None or schema_for(name) is use for name in asked], np.bool_)
    found: npt.NDArray[np.bool_] = own[places]
    return found


def landed(
    batch: EventBatch, matched: Sequence[tuple[Route, Offsets]], contexts: pa.Array, left: npt.NDArray[np.bool_]
) -> Iterator[LandedRows]:
    """Rows of messages whose payloads conform, with their contexts in the same order; others are left."""
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


def _rejected(batch: EventBatch, refused: _Routed, left: npt.NDArray[np.bool_]) -> Iterator[Rejections]:
    """Events whose payloads are refused, where there is a way to say why; the others are left."""
    verdicts: list[RejectionVerdict] = []
    numbers = np.full(len(batch), UNSAID, np.int64)
    for route, events in refused:
        if route.reasons is None or not len(events):
            continue
        step, candidates = batch.payloads_at_once(), (route.definition.xid,)
        for start in range(0, len(events), step):
            part = events[start : start + step]
            found, violations = route.reasons.of(batch.payloads(part))
            numbers[part] = np.where(found == UNSAID, UNSAID, found + len(verdicts))
            verdicts += [
                RejectionVerdict(reason=Reason.SCHEMA_VIOLATION, violations=each, candidates=candidates)
                for each in violations
            ]
    rejected = np.flatnonzero(numbers != UNSAID)
    left[rejected] = False
    for messages, indices, events in batch.messages(rejected):
        yield Rejections(messages, indices, verdicts, numbers[events])


def _rows(route: Route, payloads: pa.BinaryArray, arrays: list[pa.Array]) -> tuple[pa.RecordBatch | None, list[int]]:
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
