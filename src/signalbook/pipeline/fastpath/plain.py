"""The fast path for messages that are no CloudEvents: routed by their address, and by what tells definitions apart.

Messages with the same address, content type and values of properties that some definition demands have the same
candidates. Among several candidates a closed set of values of a member of the payload decides, wherever it is in there:
the definitions that do not allow its value certainly reject the payload. So one definition is left, whose decoder says
whether the payload lands. Records that state their schema are routed by that (``prefixed.py``). Whatever is in doubt
goes the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import numpy as np
import pyarrow as pa

from signalbook.messages import CompiledDefinition, Contract, Message, Mode, Rejected
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline import columns
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.fastpath.addresses import AddressIndex
from signalbook.pipeline.fastpath.attributes import EnvelopeChecks
from signalbook.pipeline.fastpath.batch import (
    LEAST_BATCH,
    NO_DATA,
    EventBatch,
    EventColumns,
    combine,
    groups,
    text_codes,
)
from signalbook.pipeline.fastpath.members import MemberChoice
from signalbook.pipeline.fastpath.modes import sent_as, without_schema
from signalbook.pipeline.fastpath.prefixed import Heads, Plans, PrefixedRoutes, is_prefixed, read_heads
from signalbook.pipeline.fastpath.properties import is_known
from signalbook.pipeline.fastpath.reasons import PayloadReasons, reasons
from signalbook.pipeline.fastpath.routes import LeftOver, PlainRoute, Result, landed, undecoded
from signalbook.pipeline.fastpath.verdicts import RejectionVerdict, Verdicts
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import Offsets

_CONTENT_TYPE: Final = ATTRIBUTES.index("datacontenttype")
# Anybody may send any number of content types, and of values that are no definition's.
_MAX_ROUTES: Final = 10_000
_Candidates = Sequence[CompiledDefinition]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Messages of one batch: their content types, and how their payloads begin if these may have a wire prefix."""

    columns: EventColumns
    content_types: pa.StringArray
    heads: Heads | None


class PlainPath:
    """The fast path of a contract for messages that came by ``protocol`` (empty for files) and carry no event.

    Results come as they are found; the caller has to take all of them.
    """

    def __init__(self, contract: Contract, protocol: str, target: Callable[[CompiledDefinition], RowBuilder]) -> None:
        self._contract = contract
        self._protocol = protocol
        self._target = target
        self._definitions = AddressIndex(_definitions(contract, protocol), protocol)
        self._has_prefixes = any(map(is_prefixed, self._definitions.definitions))
        self._routes: dict[tuple[str, str, bool], PlainRoute | None] = {}
        self._prefixed: dict[str, PrefixedRoutes] = {}
        self._prefixed_plans: Plans = {}
        self._choices: dict[tuple[str, ...], MemberChoice] = {}
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0

    @property
    def is_needed(self) -> bool:
        """True if there are definitions of such messages."""
        return bool(self._definitions.definitions)

    def take(self, events: EventColumns) -> Iterator[Result]:
        """Take messages; most wait a while for others of their kind. Those without a body do not."""
        if events.forms is not None and (events.forms == NO_DATA).any():
            absent = events.forms == NO_DATA
            yield LeftOver(events.messages, events.indices[absent].tolist())
            events = events.take(np.flatnonzero(~absent))
        if not len(events):
            return
        # Of attributes these have none, whatever headers have their names.
        nothing = [pa.nulls(len(events), pa.string())] * len(ATTRIBUTES)
        plain = replace(events, arrays=nothing, extensions={}, versions=None)
        # While they are in the processor's caches: each lies far from the next of its topic.
        heads = read_heads(events.data) if self._has_prefixes else None
        self._waiting.append(_Waiting(plain, events.arrays[_CONTENT_TYPE], heads))
        self._waiting_bytes += max(events.messages.weight, events.data.weight)
        if self._waiting_bytes >= LEAST_BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[Result]:
        """Process all that waits."""
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self._process(EventBatch([part.columns for part in parts]), parts)

    def _process(self, batch: EventBatch, parts: Sequence[_Waiting]) -> Iterator[Result]:
        left, verdicts = np.ones(len(batch), np.bool_), Verdicts(len(batch))
        routed: list[tuple[PlainRoute, Offsets]] = []
        contexts = [pa.nulls(0, columns.TEXT_MAP)]
        asked: list[tuple[PayloadReasons, Offsets]] = []
        for plan, events in self._plans(batch, parts):
            if isinstance(plan, RejectionVerdict):
                verdicts.say(events, np.zeros(len(events), np.int64), [plan])
                continue
            fitting, context = _fitting(batch, plan, events)
            if plan.reasons is not None:
                asked.append((plan.reasons, fitting))
            if plan.decode is not undecoded:
                routed.append((plan, fitting))
                contexts.append(context)
                left[fitting] = False
        yield from landed(batch, routed, pa.concat_arrays(contexts), left)
        for said, events in asked:
            for part in batch.portions(events[left[events]]):
                verdicts.say(part, *said.of(batch.payloads(part)))
        left[verdicts.events] = False
        yield from verdicts.rejections(batch)
        for messages, indices, _ in batch.messages(np.flatnonzero(left)):
            yield LeftOver(messages, indices)

    def _plans(
        self, batch: EventBatch, parts: Sequence[_Waiting]
    ) -> Iterator[tuple[PlainRoute | RejectionVerdict, Offsets]]:
        """Yield what becomes of messages; those that the slow path has to look at are left out."""
        heads = np.concatenate([part.heads for part in parts if part.heads is not None] or [np.zeros(0, np.uint64)])
        for address, content_type, events in self._places(batch, parts):
            candidates = self._definitions.candidates(address)
            if not candidates or (self._definitions.property and not address):
                continue
            if all(map(is_prefixed, candidates)):
                if not content_type:
                    yield from self._of_topic(address, candidates).of(batch, events, heads[events])
                continue
            alone = len(candidates) == 1 and candidates[0].options <= {self._definitions.property}
            for definition, mine in self._chosen(batch, candidates, content_type, events):
                route = self._route(definition, content_type, alone)
                if route is not None:
                    yield route, mine

    def _places(self, batch: EventBatch, parts: Sequence[_Waiting]) -> Iterator[tuple[str, str, Offsets]]:
        """Yield the messages that share address and content type, with both."""
        codes, content_types = text_codes(pa.concat_arrays([part.content_types for part in parts]))
        addresses = [""]
        if self._definitions.property:
            of_address, addresses = batch.property(self._definitions.property)
            codes = codes * len(addresses) + of_address
        for events in groups(codes, len(content_types) * len(addresses)):
            content_type, address = divmod(int(codes[events[0]]), len(addresses))
            yield addresses[address] or "", content_types[content_type] or "", events

    def _of_topic(self, topic: str, candidates: _Candidates) -> PrefixedRoutes:
        if topic not in self._prefixed:
            if len(self._prefixed) >= _MAX_ROUTES:
                self._prefixed.clear()
            self._prefixed[topic] = PrefixedRoutes(
                self._contract, topic, candidates, self._target, self._prefixed_plans
            )
        return self._prefixed[topic]

    def _chosen(
        self, batch: EventBatch, candidates: _Candidates, content_type: str, events: Offsets
    ) -> Iterator[tuple[CompiledDefinition, Offsets]]:
        """Yield the messages that may fit one definition alone, with that."""
        message = Message(content_type=content_type)
        fitting = [each for each in candidates if not any(check(message, Mode.NONE) for check in each.message_checks)]
        if not all(map(self._is_decided, fitting)):
            return
        for few, same in self._by_constants(batch, fitting, events):
            if len(few) == 1:
                yield few[0], same
            elif len(few) > 1 and not any(each.policy.prefer_specific for each in few):
                yield from self._choice(few).of(batch, same)

    def _is_decided(self, definition: CompiledDefinition) -> bool:
        """Return True if what has columns decides whether messages fit a definition, and what becomes of them."""
        plain = not definition.is_event and definition.removal is None and definition.policy.wire_prefix == "none"
        return plain and all(is_known(self._protocol, name) for name in definition.options)

    def _by_constants(
        self, batch: EventBatch, candidates: _Candidates, events: Offsets
    ) -> Iterator[tuple[_Candidates, Offsets]]:
        """Yield the messages to which constants of the protocol's properties leave the same candidates, with these."""
        keys = (key for each in candidates for key in each.protocol_keys if isinstance(key.value, str))
        names = dict.fromkeys(key.name for key in keys if key.name != self._definitions.property)
        if len(candidates) < 2 or not names:
            yield candidates, events
            return
        parts: list[tuple[Offsets, list[int]]] = []
        for name in names:
            codes, values = batch.property(name)
            # Values that leave the same candidates are alike: there may be as many as messages.
            numbers: dict[int, int] = {}
            allowing = _allowing(candidates, name)
            alike = np.array([numbers.setdefault(allowing(value), len(numbers)) for value in values], np.int64)
            parts.append((alike[codes[events]], list(numbers)))
        for same in groups(*combine(parts, len(events))):
            bits = reduce(and_, (masks[codes[same[0]]] for codes, masks in parts))
            yield [each for place, each in enumerate(candidates) if bits >> place & 1], events[same]

    def _choice(self, candidates: _Candidates) -> MemberChoice:
        key = tuple(each.xid for each in candidates)
        if key not in self._choices:
            if len(self._choices) >= _MAX_ROUTES:
                self._choices.clear()
            self._choices[key] = MemberChoice(candidates)
        return self._choices[key]

    def _route(self, definition: CompiledDefinition, content_type: str, alone: bool) -> PlainRoute | None:
        key = definition.xid, content_type, alone
        if key not in self._routes:
            if len(self._routes) >= _MAX_ROUTES:
                return None
            self._routes[key] = self._planned(*key)
        return self._routes[key]

    def _planned(self, xid: str, content_type: str, alone: bool) -> PlainRoute | None:
        """Return the route to a definition, if payloads of a content type can be decoded.

        If it is ``alone`` at its address, what it rejects is rejected.
        """
        definition = self._contract.definitions[xid]
        has_schema = definition.schema_use.schema is not None
        decode = sent_as(definition, content_type) if has_schema else without_schema(definition, content_type)
        if decode is None:
            return None
        asks = definition.protocol == self._protocol and (
            definition.protocol_templates or definition.options - {self._definitions.property}
        )
        checks = EnvelopeChecks(definition, "", definition.options) if asks else None
        said = None
        if alone:

            def judge(payload: bytes) -> Rejected | None:
                return rejected_payload(Message(content_type=content_type, body=payload), None, definition)

            said = PayloadReasons(definition, reasons(definition), judge)
        target = self._target(definition)
        return PlainRoute(definition, target, target.decoding(decode), checks, said)


def _allowing(candidates: _Candidates, name: str) -> Callable[[Any], int]:
    """Return the function from a value of a property, ``None`` for none, to the candidates that allow it, as bits."""
    by_value: dict[str, int] = {}
    absent = any_value = 0
    for place, definition in enumerate(candidates):
        keys = [key for key in definition.protocol_keys if key.name == name and isinstance(key.value, str)]
        for key in keys:
            by_value[str(key.value)] = by_value.get(str(key.value), 0) | 1 << place
        any_value |= 0 if keys else 1 << place
        absent |= 0 if any(key.required for key in keys) else 1 << place

    def allowing(value: Any) -> int:
        if value is None:
            return absent
        occurrences = value if isinstance(value, tuple) else (value,)
        return reduce(or_, (by_value.get(each, 0) for each in occurrences), any_value)

    return allowing


def _fitting(batch: EventBatch, route: PlainRoute, events: Offsets) -> tuple[Offsets, pa.Array]:
    """Return the messages that fit the definition of a route by what the protocol says, and their contexts."""
    if route.checks is None:
        return events, pa.nulls(len(events), columns.TEXT_MAP)
    numbers = route.checks.numbers(batch, events)
    fit = numbers >= 0
    return events[fit], route.checks.maps(batch, events[fit], numbers[fit])


def _definitions(contract: Contract, protocol: str) -> list[CompiledDefinition]:
    """Return the definitions that messages without an event may fit."""
    policy = contract.policy
    own = [each for each in contract.outlines if each.protocol == protocol]
    fit = [each.xid for each in own if not each.is_event or (protocol and policy.of(each.xid).native_mapping)]
    if not fit:  # then those for any protocol, which their payloads tell apart
        fit = [each.xid for each in contract.outlines if not each.is_event and not each.protocol]
    return [contract.definitions[xid] for xid in fit]
