"""The fast path for Kafka records that say by which schema they were written: in a wire prefix, or in a header.

Records that share their topic and what they say of the schema have one route: the definition that has this schema, and
what decodes its payloads into the columns of the definition's table. Whatever has none is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats.base import is_elsewhere, is_indexed
from signalbook.formats.protobuf import FORMAT as PROTOBUF
from signalbook.messages import CompiledDefinition, Contract, Message, Rejected
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.messages.payloads.content import SCHEMA_HEADER, read_schema_id
from signalbook.pipeline import columns
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.fastpath import resolving
from signalbook.pipeline.fastpath.batch import EventBatch, EventColumns, groups
from signalbook.pipeline.fastpath.headers import Headers
from signalbook.pipeline.fastpath.native import Decode, PayloadSpans
from signalbook.pipeline.fastpath.reasons import Judge, PayloadReasons, reasons_of
from signalbook.pipeline.fastpath.routes import LeftOver, Result, Route, landed
from signalbook.pipeline.fastpath.routing import LEAST_BATCH
from signalbook.pipeline.fastpath.verdicts import RejectionVerdict, Verdicts
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import ATTRIBUTE_PREFIX, MessageBatch, Offsets

PROTOCOL: Final = "KAFKA"
_PREFIX: Final = 5
_OTHERS: Final = ("content-type", "content-encoding")
# What a byte of a number has if another one follows.
_MORE: Final = 0x80
# A head as a number, the first byte in the lowest bits.
_NUMBER: Final = np.dtype("<u8")
# Bytes in which all of a prefix mostly is, as many as a number has.
_HEAD: Final = 8
# Message types inside of each other, beyond which indices are looked at one by one.
_MOST_NESTED: Final = 8
# Anybody may send any number of ids that mean nothing.
_MOST_PLANS: Final = 10_000
# What a record says of its schema: a header, or else the beginning of its value.
_Said = tuple[bool, bytes]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The route of records with the same schema, if there is one, and the reasons for refused ones."""

    route: Route | None
    reasons: PayloadReasons


@dataclass(frozen=True, slots=True)
class _Records:
    """Records of one batch: what the header for schemas has in each, if it is there, and how their values begin."""

    columns: EventColumns
    stated: pa.BinaryArray
    heads: npt.NDArray[np.uint64]


class PrefixedPath:
    """The fast path of those definitions of a contract whose payloads have a wire prefix, for records of Kafka.

    Results come as they are found; the caller has to take all of them.
    """

    def __init__(self, contract: Contract, target: Callable[[CompiledDefinition], RowBuilder]) -> None:
        self._contract = contract
        self._target = target
        self._plans: dict[tuple[str, _Said], _Plan | RejectionVerdict | None] = {}
        self._of_topic: dict[str, list[CompiledDefinition]] = {}
        self._waiting: list[_Records] = []
        self._waiting_bytes = 0

    @cached_property
    def is_needed(self) -> bool:
        """True if there are such definitions."""
        return any(_is_prefixed(each) for each in self._definitions)

    @cached_property
    def _definitions(self) -> list[CompiledDefinition]:
        """All definitions for records that are not events; none if no policy mentions prefixes."""
        policy = self._contract.policy
        settings = [pair for override in policy.overrides for pair in override.settings]
        if policy.wire_prefix == "none" and not any(name == "wire_prefix" for name, _ in settings):
            return []
        known = [each for each in self._contract.outlines if each.protocol == PROTOCOL]
        fit = [each.xid for each in known if not each.is_event or policy.of(each.xid).native_mapping]
        return [self._contract.definitions[xid] for xid in fit]

    def take(self, messages: MessageBatch) -> tuple[list[Result], list[int]]:
        """Take records; most wait a while for others of their kind. What is landed, and who is not taken."""
        records = messages.records
        assert records is not None
        headers = Headers.of(messages, folded=False)
        headers.forbid([name for name in headers.names if name in _OTHERS or name.startswith(ATTRIBUTE_PREFIX)])
        stated = headers.values(SCHEMA_HEADER)  # those that have it twice are refused
        refused = headers.refused | ~records.column("value").is_valid().to_numpy(zero_copy_only=False)
        nothing = [pa.nulls(len(messages), pa.string())] * len(ATTRIBUTES)
        values = PayloadSpans.within(messages.content, messages.starts, messages.ends)
        events = EventColumns(messages, nothing, {}, values, np.arange(len(messages)), _no_attributes)
        if refused.any():
            kept = np.flatnonzero(~refused)
            events, stated = events.take(kept), stated.take(pa.array(kept))
        if len(events):
            # While they are in the processor's caches: each lies far from the next of its topic.
            heads = events.data.heads(_HEAD).view(_NUMBER)[:, 0]
            self._waiting.append(_Records(events, stated, heads))
            self._waiting_bytes += messages.weight
        found = list(self.flush()) if self._waiting_bytes >= LEAST_BATCH else []
        return found, np.flatnonzero(refused).tolist()

    def flush(self) -> Iterator[Result]:
        """Process all that waits."""
        parts, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if parts:
            yield from self._process(EventBatch([part.columns for part in parts]), parts)

    def _process(self, batch: EventBatch, parts: Sequence[_Records]) -> Iterator[Result]:
        left = np.ones(len(batch), np.bool_)
        verdicts = Verdicts(len(batch))
        routed: list[tuple[Route, Offsets]] = []
        asked: list[tuple[PayloadReasons, Offsets]] = []
        for topic, said, events in self._kinds(batch, parts):
            plan = self._plan(topic, said)
            if isinstance(plan, RejectionVerdict):
                verdicts.say(events, np.zeros(len(events), np.int64), [plan])
            elif plan is not None:
                asked.append((plan.reasons, events))
                if plan.route is not None:
                    routed.append((plan.route, events))
                    left[events] = False
        if routed:
            contexts = pa.nulls(sum(len(events) for _, events in routed), columns.TEXT_MAP)
            yield from landed(batch, routed, contexts, left)
        for reasons, events in asked:
            for part in batch.portions(events[left[events]]):
                verdicts.say(part, *reasons.of(batch.payloads(part)))
        left[verdicts.events] = False
        yield from verdicts.rejections(batch)
        for messages, indices, _ in batch.messages(np.flatnonzero(left)):
            yield LeftOver(messages, indices)

    def _kinds(self, batch: EventBatch, parts: Sequence[_Records]) -> Iterator[tuple[str, _Said, Offsets]]:
        """The records that share their topic and what they say, with both."""
        topics, names = batch.property("topic")
        stated = pa.concat_arrays([part.stated for part in parts])
        heads = np.concatenate([part.heads for part in parts])
        if stated.null_count < len(stated):
            encoded = stated.dictionary_encode(null_encoding="encode")
            values = encoded.dictionary.to_pylist()
            codes = encoded.indices.to_numpy().astype(np.int64) * len(names) + topics
            for events in groups(codes, len(values) * len(names)):
                value = values[codes[events[0]] // len(names)]
                topic = names[topics[events[0]]]
                if value is not None:
                    yield topic, (True, value), events
                else:
                    yield from self._by_prefix(batch, topic, events, heads[events])
            return
        for events in groups(topics, len(names)):
            yield from self._by_prefix(batch, names[topics[events[0]]], events, heads[events])

    def _by_prefix(
        self, batch: EventBatch, topic: str, events: Offsets, heads: npt.NDArray[np.uint64]
    ) -> Iterator[tuple[str, _Said, Offsets]]:
        """Yield the records of a topic by prefix; the prefix is empty for records without one. Guids are left out."""
        payloads = batch.payloads(events)
        # Mostly all have the prefix of the first.
        first = self._beginning(topic, heads[0].tobytes()[: payloads.lengths[0]])
        if first:
            bits = np.uint64(8 * (_HEAD - len(first)))
            alike = (payloads.lengths >= len(first)) & (heads << bits == heads[0] << bits)
            yield topic, (False, first), events[alike]
            if alike.all():
                return
            events = events[~alike]
            payloads = batch.payloads(events)
        yield from self._by_each_prefix(topic, events, payloads)

    def _by_each_prefix(
        self, topic: str, events: Offsets, payloads: PayloadSpans
    ) -> Iterator[tuple[str, _Said, Offsets]]:
        heads, lengths = payloads.heads(_PREFIX + 1 + _MOST_NESTED), payloads.lengths
        bare = (lengths < _PREFIX) | (heads[:, 0] > 1)
        if bare.any():
            yield topic, (False, b""), events[bare]
        sound = (lengths >= _PREFIX) & (heads[:, 0] == 0)
        events, heads, lengths = events[sound], heads[sound], lengths[sound]
        if not len(events):
            return
        found, codes = _distinct(np.ascontiguousarray(heads[:, 1:_PREFIX]).view(">u4")[:, 0])
        for place, same in enumerate(groups(codes, len(found))):
            prefix = b"\0" + int(found[place]).to_bytes(_PREFIX - 1, "big")
            if not self._has_indices(topic, int(found[place])):
                yield topic, (False, prefix), events[same]
                continue
            for indices, some in _by_indices(heads[same], lengths[same]):
                yield topic, (False, prefix + indices), events[same][some]

    def _beginning(self, topic: str, head: bytes) -> bytes:
        """The number of a schema in the head of a payload, and the indices behind it; empty if it has none."""
        if len(head) < _PREFIX or head[0]:
            return b""
        if not self._has_indices(topic, int.from_bytes(head[1:_PREFIX], "big")):
            return head[:_PREFIX]
        try:
            return head.removesuffix(read_schema_id(head, PROTOBUF.name)[1])
        except ValueError:
            return b""

    def _has_indices(self, topic: str, number: int) -> bool:
        """Return True if indices of a message type follow this number."""
        uses = [each.schema_of_number(number).schema for each in self._candidates(topic)]
        return any(is_indexed(schema) for schema in uses)

    def _plan(self, topic: str, said: _Said) -> _Plan | RejectionVerdict | None:
        key = topic, said
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                return None
            self._plans[key] = self._planned(topic, *said)
        return self._plans[key]

    def _planned(self, topic: str, in_header: bool, said: bytes) -> _Plan | RejectionVerdict | None:
        """The way of records of the one definition that has the schema they name, unless another may fit them.

        Where the only one that may fit has no such schema, they are rejected, whatever their payloads are.
        """
        found, candidates = [], self._candidates(topic)
        for definition in candidates:
            own = definition.schema_use.schema
            if own is None:
                return None
            try:
                written, rest = read_schema_id(said, own.format)
            except ValueError:  # of another format
                continue
            use = definition.schema_of_number(written.id)
            schema = use.schema
            if schema is None or is_elsewhere(schema, written.indices):
                continue
            if rest:  # of a header, which ends there
                return None
            found.append((definition, use))
        judge, prefix = self._judge(topic, candidates, said if in_header else None), 0 if in_header else len(said)
        if candidates and not found:
            # Behind an unknown number may be indices, and what is wrong with these goes before that. Of several
            # definitions the payload may say which it was meant for.
            indexed = any(is_indexed(each.schema_use.schema) for each in candidates)
            rejected = judge(said) if len(candidates) == 1 and (in_header or not said or not indexed) else None
            if rejected is not None:
                return RejectionVerdict.of(rejected)
            return _Plan(None, PayloadReasons(candidates[0], None, judge, prefix))
        if len(found) != 1:
            return None
        definition, use = found[0]
        decode = resolving.decoder(definition, use)
        if decode is None:
            return None
        target = self._target(definition)
        route = Route(definition, target, target.decoding(_behind(prefix, decode)))
        alike = reasons_of(use.schema, definition.policy) if len(candidates) == 1 else None
        return _Plan(route, PayloadReasons(definition, alike, judge, prefix))

    def _judge(self, topic: str, candidates: Sequence[CompiledDefinition], header: bytes | None) -> Judge:
        """Return the judge of refused records of a topic that state their schema in a header or prefix."""
        headers = () if header is None else ((SCHEMA_HEADER, header),)
        sections: dict[str, Any] = {"topic": topic, "headers": headers}

        def judge(payload: bytes) -> Rejected | None:
            message = Message(protocol=PROTOCOL, body=payload, sections=sections)
            if len(candidates) == 1:
                return rejected_payload(message, None, candidates[0])
            return self._contract.rejection(message)

        return judge

    def _candidates(self, topic: str) -> list[CompiledDefinition]:
        """The definitions for records of a topic; none if others may fit them, too."""
        if topic not in self._of_topic:
            found = [each for each in self._definitions if _takes(each, topic)] if topic else []
            self._of_topic[topic] = found if all(map(_is_prefixed, found)) else []
        return self._of_topic[topic]


def _no_attributes(_: int) -> Sequence[str]:
    return ()


def _is_prefixed(definition: CompiledDefinition) -> bool:
    """Return True if a definition only demands a topic and a schema, which records state."""
    constant = all(isinstance(key.value, str) for key in definition.protocol_keys)
    plain = not definition.is_event and definition.removal is None and definition.options <= {"topic"}
    return plain and constant and definition.policy.wire_prefix == "confluent" and not definition.broken


def _takes(definition: CompiledDefinition, topic: str) -> bool:
    """Return True if a definition may fit records of a topic, by its constants."""
    keys = [key for key in definition.protocol_keys if key.name == "topic" and isinstance(key.value, str)]
    return all(key.value == topic for key in keys)


def _by_indices(heads: npt.NDArray[np.uint8], lengths: Offsets) -> Iterator[tuple[bytes, Offsets]]:
    """The places of values with the same indices; those with numbers of several bytes are left out."""
    # How many there are, twice over, as zigzag has it; a single zero stands for one of zero.
    count = np.where(lengths > _PREFIX, heads[:, _PREFIX], 1)
    for twice in np.unique(count[(count % 2 == 0) & (count <= 2 * _MOST_NESTED)]).tolist():
        width = 1 + twice // 2
        found = np.flatnonzero((count == twice) & (lengths >= _PREFIX + width))
        indices = heads[found, _PREFIX : _PREFIX + width]
        short = (indices < _MORE).all(axis=1)
        found, indices = found[short], indices[short]
        # Each is below 128, so that they are the digits of a number.
        _, codes = _distinct(indices @ _MORE ** np.arange(width, dtype=np.int64))
        for same in groups(codes, int(codes.max(initial=-1)) + 1):
            yield indices[same[0]].tobytes(), found[same]


def _distinct(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Offsets]:
    """Distinct numbers, and the place of each among those."""
    # Mostly there is one of them, and to sort them takes longer than to see that.
    if (numbers == numbers[:1]).all():
        return numbers[:1], np.zeros(len(numbers), np.int64)
    return np.unique(numbers, return_inverse=True)


def _behind(length: int, decode: Decode) -> Decode:
    """Return the decoder of payloads after a prefix of ``length`` bytes."""
    return lambda payloads: decode(payloads.behind(length))
