"""The fast path for messages that carry no CloudEvent: rows in bulk, with a decoder for each definition.

Messages are grouped by address and content type, and then by the values of properties for which definitions have
constants. All messages of a group have the same candidates. Where a group has several candidates, members of the
payload with closed sets of values leave at most one of them (``members.py``). The decoder of that definition then
decides whether the payload lands. Kafka records that state their schema are routed by it (``prefixed.py``). Whatever
is in doubt goes the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import numpy as np
import pyarrow as pa

from signalbook.messages import CompiledDefinition, Contract, Message, Mode, Rejected
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.processing.attributes import EnvelopeChecks
from signalbook.pipeline.processing.batch import (
    MIN_BATCH_BYTES,
    NO_DATA,
    EventBatch,
    EventColumns,
    combine,
    encode_texts,
    group_by_number,
)
from signalbook.pipeline.processing.decoding import find_payload_decoder
from signalbook.pipeline.processing.members import DefinitionChooser
from signalbook.pipeline.processing.prefixed import PayloadHeads, PlanCache, PrefixedRoutes, is_prefixed, read_heads
from signalbook.pipeline.processing.properties import ADDRESSES, is_known
from signalbook.pipeline.processing.rows import LeftOver, Result, Route, RowBuilder, land_rows, list_unlanded, undecoded
from signalbook.pipeline.processing.verdicts import PayloadReasons, RejectionVerdict, Verdicts, find_reasons

_CONTENT_TYPE: Final = ATTRIBUTES.index("datacontenttype")
# The limit of routes and of the length of their content types, because senders may make up any number of these. A route
# may hold a decoder, so the slow path is cheaper for messages of further content types.
_MAX_ROUTES: Final = 10_000
_MAX_CONTENT_TYPE_CHARS: Final = 1_000
# The limit of cached choosers: there is one per list of candidates, which depends on values that anybody may send.
_MAX_CHOOSERS: Final = 10_000
# Addresses whose candidates are cached: anybody may send messages to any number of addresses.
_MAX_CACHED_ADDRESSES: Final = 10_000
_Candidates = Sequence[CompiledDefinition]
# A function from a value of a property, None if a message lacks it, to the candidates that allow the value: bit ``n``
# stands for candidate ``n``.
_CandidateBits = Callable[[Any], int]


class AddressIndex:
    """An index of definitions for messages of a protocol by the address that each definition demands.

    ``address_property`` is the name of the property that holds the address, empty if the protocol has no addresses.
    """

    def __init__(self, definitions: Iterable[CompiledDefinition], protocol: str) -> None:
        self.address_property = ADDRESSES.get(protocol, "")
        self.definitions = list(definitions)
        self._by_constant: dict[str, list[CompiledDefinition]] = {}
        for definition in self.definitions:
            self._by_constant.setdefault(self._find_constant_address(definition), []).append(definition)
        self._without_constant = self._by_constant.pop("", [])
        self._cache: dict[str, Sequence[CompiledDefinition]] = {}

    def find_candidates(self, address: str) -> Sequence[CompiledDefinition]:
        """Return the definitions that a message sent to ``address`` may fit; all definitions if it is empty."""
        if not address:
            return self.definitions
        if address not in self._cache:
            if len(self._cache) >= _MAX_CACHED_ADDRESSES:
                self._cache.clear()
            matching = [
                definition for definition in self._without_constant if self._matches_template(definition, address)
            ]
            self._cache[address] = [*self._by_constant.get(address, ()), *matching]
        return self._cache[address]

    def _find_constant_address(self, definition: CompiledDefinition) -> str:
        """Return the only address that a definition allows, empty if it allows several."""
        values = (key.value for key in definition.protocol_keys if key.name == self.address_property and key.value)
        return next((value for value in values if isinstance(value, str)), "")

    def _matches_template(self, definition: CompiledDefinition, address: str) -> bool:
        """Return True if the definition has no template for addresses, or one that ``address`` matches."""
        template = definition.protocol_templates.get(self.address_property)
        return template is None or template.match(address) is not None


@dataclass(frozen=True, slots=True)
class _WaitingMessages:
    """Messages of one batch that wait to be processed, with their content types.

    ``heads`` are the first bytes of their payloads, ``None`` if no definition expects a wire prefix.
    """

    columns: EventColumns
    content_types: pa.StringArray
    heads: PayloadHeads | None


class PlainPath:
    """The fast path of a contract for messages that carry no event and came by ``protocol`` (empty for files).

    Callers must exhaust the iterators that ``take`` and ``flush`` return: results are made while they are read.
    """

    def __init__(self, contract: Contract, protocol: str, target: Callable[[CompiledDefinition], RowBuilder]) -> None:
        self._contract = contract
        self._protocol = protocol
        self._target = target
        self._index = AddressIndex(_find_definitions_without_event(contract, protocol), protocol)
        self._prefixed = {definition.xid for definition in self._index.definitions if is_prefixed(definition)}
        self._routes: dict[tuple[str, str, bool], Route | None] = {}
        self._checks: dict[str, EnvelopeChecks] = {}
        self._prefixed_plans: PlanCache = {}
        self._choosers: dict[tuple[str, ...], DefinitionChooser] = {}
        self._waiting: list[_WaitingMessages] = []
        self._waiting_bytes = 0

    @property
    def is_needed(self) -> bool:
        """True if the contract has definitions that messages without an event may fit."""
        return bool(self._index.definitions)

    def take(self, events: EventColumns) -> Iterator[Result]:
        """Take messages and yield the results that are ready.

        Messages without a body are left over at once. The others wait until there are enough for a batch.
        """
        if events.forms is not None and (events.forms == NO_DATA).any():
            absent = events.forms == NO_DATA
            yield LeftOver(events.messages, events.indices[absent].tolist())
            events = events.take(np.flatnonzero(~absent))
        if not len(events):
            return
        # These messages have no attributes, even if some of their headers have the names of attributes.
        no_attributes = [pa.nulls(len(events), pa.string())] * len(ATTRIBUTES)
        plain = replace(events, arrays=no_attributes, extensions={}, versions=None)
        # Read now, while the payloads are in the processor's caches. Later, payloads of one topic are far apart.
        heads = read_heads(events.data) if self._prefixed else None
        self._waiting.append(_WaitingMessages(plain, events.arrays[_CONTENT_TYPE], heads))
        self._waiting_bytes += max(events.messages.weight, events.data.weight)
        if self._waiting_bytes >= MIN_BATCH_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[Result]:
        """Process all waiting messages and yield the results."""
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self._process(EventBatch([part.columns for part in parts]), parts)

    def _process(self, batch: EventBatch, parts: Sequence[_WaitingMessages]) -> Iterator[Result]:
        left_over, verdicts = np.ones(len(batch), np.bool_), Verdicts(len(batch))
        routed: list[tuple[Route, Offsets]] = []
        contexts = [pa.nulls(0, columns.TEXT_MAP)]
        explained: list[tuple[PayloadReasons, Offsets]] = []
        for plan, events in self._plan_messages(batch, parts):
            if isinstance(plan, RejectionVerdict):
                verdicts.assign(events, np.zeros(len(events), np.int64), [plan])
                continue
            fitting, context = _select_fitting(batch, plan, events)
            if plan.reasons is not None:
                explained.append((plan.reasons, fitting))
            if plan.decode is not undecoded:
                routed.append((plan, fitting))
                contexts.append(context)
                left_over[fitting] = False
        yield from land_rows(batch, routed, pa.concat_arrays(contexts), left_over)
        # Of these messages, the ones that are still left over have refused payloads.
        for payload_reasons, events in explained:
            verdicts.explain(batch, payload_reasons, events[left_over[events]])
        yield from list_unlanded(batch, verdicts, left_over)

    def _plan_messages(
        self, batch: EventBatch, parts: Sequence[_WaitingMessages]
    ) -> Iterator[tuple[Route | RejectionVerdict, Offsets]]:
        """Yield messages with their route or their rejection. Messages for the slow path are left out."""
        heads = np.concatenate([part.heads for part in parts if part.heads is not None] or [np.zeros(0, np.uint64)])
        for address, content_type, events in self._group_by_address(batch, parts):
            candidates = self._index.find_candidates(address)
            if not candidates or (self._index.address_property and not address):
                continue
            if all(candidate.xid in self._prefixed for candidate in candidates):
                if not content_type:
                    routes = PrefixedRoutes(self._contract, address, candidates, self._target, self._prefixed_plans)
                    yield from routes.plan_records(batch, events, heads[events])
                continue
            alone = len(candidates) == 1 and candidates[0].options <= {self._index.address_property}
            for definition, chosen_events in self._choose_definitions(batch, candidates, content_type, events):
                route = self._get_route(definition, content_type, alone)
                if route is not None:
                    yield route, chosen_events

    def _group_by_address(
        self, batch: EventBatch, parts: Sequence[_WaitingMessages]
    ) -> Iterator[tuple[str, str, Offsets]]:
        """Yield each address and content type with the messages that have both; either may be empty."""
        codes, content_types = encode_texts(pa.concat_arrays([part.content_types for part in parts]))
        addresses = [""]
        if self._index.address_property:
            address_codes, addresses = batch.encode_property(self._index.address_property)
            codes = codes * len(addresses) + address_codes
        for events in group_by_number(codes, len(content_types) * len(addresses)):
            content_type, address = divmod(int(codes[events[0]]), len(addresses))
            yield addresses[address] or "", content_types[content_type] or "", events

    def _choose_definitions(
        self, batch: EventBatch, candidates: _Candidates, content_type: str, events: Offsets
    ) -> Iterator[tuple[CompiledDefinition, Offsets]]:
        """Yield each definition with the messages that only this definition may fit. Other messages are left out."""
        message = Message(content_type=content_type)
        fitting = [
            candidate
            for candidate in candidates
            if not any(check(message, Mode.NONE) for check in candidate.message_checks)
        ]
        if not all(map(self._is_decidable, fitting)):
            return
        for remaining, group in self._group_by_constants(batch, fitting, events):
            if len(remaining) == 1:
                yield remaining[0], group
            elif len(remaining) > 1 and not any(candidate.policy.prefer_specific for candidate in remaining):
                yield from self._get_chooser(remaining).choose(batch, group)

    def _is_decidable(self, definition: CompiledDefinition) -> bool:
        """Return True if columns decide whether messages fit a definition, and nothing else affects what lands."""
        plain = not definition.is_event and definition.removal is None and definition.policy.wire_prefix == "none"
        return plain and all(is_known(self._protocol, name) for name in definition.options)

    def _group_by_constants(
        self, batch: EventBatch, candidates: _Candidates, events: Offsets
    ) -> Iterator[tuple[_Candidates, Offsets]]:
        """Yield the candidates that allow the properties of messages, with these messages.

        Only properties other than the address for which a candidate has a constant are compared.
        """
        keys = (key for candidate in candidates for key in candidate.protocol_keys if isinstance(key.value, str))
        names = dict.fromkeys(key.name for key in keys if key.name != self._index.address_property)
        if len(candidates) < 2 or not names:
            yield candidates, events
            return
        parts: list[tuple[Offsets, list[int]]] = []
        for name in names:
            value_codes, values = batch.encode_property(name)
            # There may be as many values as messages, so values that the same candidates allow share a code.
            code_by_bits: dict[int, int] = {}
            allowing = _build_candidate_bits(candidates, name)
            codes = np.array(
                [code_by_bits.setdefault(allowing(value), len(code_by_bits)) for value in values], np.int64
            )
            parts.append((codes[value_codes[events]], list(code_by_bits)))
        for group in group_by_number(*combine(parts, len(events))):
            bits = reduce(and_, (bits_by_code[codes[group[0]]] for codes, bits_by_code in parts))
            remaining = [candidate for position, candidate in enumerate(candidates) if bits >> position & 1]
            yield remaining, events[group]

    def _get_chooser(self, candidates: _Candidates) -> DefinitionChooser:
        key = tuple(candidate.xid for candidate in candidates)
        if key not in self._choosers:
            if len(self._choosers) >= _MAX_CHOOSERS:
                self._choosers.clear()
            self._choosers[key] = DefinitionChooser(candidates)
        return self._choosers[key]

    def _get_route(self, definition: CompiledDefinition, content_type: str, alone: bool) -> Route | None:
        key = definition.xid, content_type, alone
        if key not in self._routes:
            if len(self._routes) >= _MAX_ROUTES or len(content_type) > _MAX_CONTENT_TYPE_CHARS:
                return None
            self._routes[key] = self._build_route(definition, content_type, alone)
        return self._routes[key]

    def _build_route(self, definition: CompiledDefinition, content_type: str, alone: bool) -> Route | None:
        """Return the route to a definition, or ``None`` if payloads of this content type cannot be decoded.

        If the definition is ``alone`` at its address, the route rejects the payloads that break its schema.
        """
        decode = find_payload_decoder(definition, content_type)
        if decode is None:
            return None
        has_checks = definition.protocol == self._protocol and (
            definition.protocol_templates or definition.options - {self._index.address_property}
        )
        # shared by all content types, which do not matter to it
        if has_checks and definition.xid not in self._checks:
            self._checks[definition.xid] = EnvelopeChecks(definition, "", definition.options)
        checks = self._checks.get(definition.xid)
        payload_reasons = None
        if alone:

            def judge(payload: bytes) -> Rejected | None:
                return rejected_payload(Message(content_type=content_type, body=payload), None, definition)

            payload_reasons = PayloadReasons(definition, find_reasons(definition), judge)
        target = self._target(definition)
        return Route(definition, target, target.wrap_decoder(decode), checks, payload_reasons)


def _build_candidate_bits(candidates: _Candidates, name: str) -> _CandidateBits:
    """Return the function from a value of the property ``name`` to the candidates that allow the value, as bits."""
    bits_by_value: dict[str, int] = {}
    bits_without_value = bits_of_any_value = 0
    for position, definition in enumerate(candidates):
        keys = [key for key in definition.protocol_keys if key.name == name and isinstance(key.value, str)]
        for key in keys:
            bits_by_value[str(key.value)] = bits_by_value.get(str(key.value), 0) | 1 << position
        bits_of_any_value |= 0 if keys else 1 << position
        bits_without_value |= 0 if any(key.required for key in keys) else 1 << position

    def allowing(value: Any) -> int:
        if value is None:
            return bits_without_value
        occurrences = value if isinstance(value, tuple) else (value,)
        return reduce(or_, (bits_by_value.get(occurrence, 0) for occurrence in occurrences), bits_of_any_value)

    return allowing


def _select_fitting(batch: EventBatch, route: Route, events: Offsets) -> tuple[Offsets, pa.Array]:
    """Return the messages whose protocol properties fit the definition of a route, with their contexts."""
    if route.checks is None:
        return events, pa.nulls(len(events), columns.TEXT_MAP)
    numbers = route.checks.number_contexts(batch, events)
    fits = numbers >= 0
    return events[fits], route.checks.build_maps(batch, events[fits], numbers[fits])


def _find_definitions_without_event(contract: Contract, protocol: str) -> list[CompiledDefinition]:
    """Return the definitions that messages without an event may fit.

    These are the definitions for the protocol. If it has none, they are the definitions without a protocol.
    """
    policy = contract.policy
    same_protocol = [outline for outline in contract.outlines if outline.protocol == protocol]
    xids = [
        outline.xid
        for outline in same_protocol
        if not outline.is_event or (protocol and policy.of(outline.xid).native_mapping)
    ]
    if not xids:
        xids = [outline.xid for outline in contract.outlines if not outline.is_event and not outline.protocol]
    return [contract.definitions[xid] for xid in xids]
