"""Routes of Kafka records that say by which schema they were written: in a wire prefix, or in a header.

Records that share their topic and what they say of the schema have one route: the definition that has this schema, and
what decodes its payloads into the columns of the definition's table. Whatever has none is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from signalbook.formats.base import is_elsewhere, is_indexed
from signalbook.formats.protobuf import FORMAT as PROTOBUF
from signalbook.messages import CompiledDefinition, Contract, Message, Rejected
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.messages.payloads.content import SCHEMA_HEADER, read_schema_id
from signalbook.pipeline.fastpath import resolving
from signalbook.pipeline.fastpath.batch import EventBatch, groups
from signalbook.pipeline.fastpath.native import Decode, PayloadSpans
from signalbook.pipeline.fastpath.reasons import Judge, PayloadReasons, reasons_of
from signalbook.pipeline.fastpath.routes import PlainRoute, undecoded
from signalbook.pipeline.fastpath.verdicts import RejectionVerdict
from signalbook.pipeline.landing.rows import RowBuilder
from signalbook.pipeline.sources.base import Offsets

PROTOCOL: Final = "KAFKA"
_STATED: Final = f"headers.{SCHEMA_HEADER}"
_PREFIX: Final = 5
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
# What becomes of records that say the same.
Plan = PlainRoute | RejectionVerdict
# Plans by topic and by what records say, None for the slow path.
Plans = dict[tuple[str, _Said], Plan | None]
Heads = npt.NDArray[np.uint64]


def read_heads(payloads: PayloadSpans) -> Heads:
    """Return how payloads begin, each as one number."""
    found: Heads = payloads.heads(_HEAD).view(_NUMBER)[:, 0]
    return found


class PrefixedRoutes:
    """The routes of the records of a topic, to the ``candidates`` that may fit them: all have a wire prefix.

    ``plans`` keeps the plans of all topics, so that their number has one limit.
    """

    def __init__(
        self,
        contract: Contract,
        topic: str,
        candidates: Sequence[CompiledDefinition],
        target: Callable[[CompiledDefinition], RowBuilder],
        plans: Plans,
    ) -> None:
        self._contract = contract
        self._topic = topic
        self._candidates = candidates
        self._target = target
        self._plans = plans

    def of(self, batch: EventBatch, events: Offsets, heads: Heads) -> Iterator[tuple[Plan, Offsets]]:
        """Yield what becomes of records of the topic, whose payloads begin with ``heads``. Some are left out."""
        for said, same in self._kinds(batch, events, heads):
            plan = self._plan(said)
            if plan is not None:
                yield plan, same

    def _kinds(self, batch: EventBatch, events: Offsets, heads: Heads) -> Iterator[tuple[_Said, Offsets]]:
        """Yield the records that say the same of their schema."""
        codes, values = batch.property(_STATED)
        for same in groups(codes[events], len(values)):
            stated = values[codes[events[same[0]]]]
            if stated is None:
                yield from self._by_prefix(batch, events[same], heads[same])
            elif len(stated) == 1:
                (header,) = stated
                yield (True, header if isinstance(header, bytes) else header.encode()), events[same]

    def _by_prefix(self, batch: EventBatch, events: Offsets, heads: Heads) -> Iterator[tuple[_Said, Offsets]]:
        """Yield the records by prefix; the prefix is empty for records without one. Guids are left out."""
        payloads = batch.payloads(events)
        # Mostly all have the prefix of the first.
        first = self._beginning(heads[0].tobytes()[: payloads.lengths[0]])
        if first:
            bits = np.uint64(8 * (_HEAD - len(first)))
            alike = (payloads.lengths >= len(first)) & (heads << bits == heads[0] << bits)
            yield (False, first), events[alike]
            if alike.all():
                return
            events = events[~alike]
            payloads = batch.payloads(events)
        yield from self._by_each_prefix(events, payloads)

    def _by_each_prefix(self, events: Offsets, payloads: PayloadSpans) -> Iterator[tuple[_Said, Offsets]]:
        heads, lengths = payloads.heads(_PREFIX + 1 + _MOST_NESTED), payloads.lengths
        bare = (lengths < _PREFIX) | (heads[:, 0] > 1)
        if bare.any():
            yield (False, b""), events[bare]
        sound = (lengths >= _PREFIX) & (heads[:, 0] == 0)
        events, heads, lengths = events[sound], heads[sound], lengths[sound]
        if not len(events):
            return
        found, codes = _distinct(np.ascontiguousarray(heads[:, 1:_PREFIX]).view(">u4")[:, 0])
        for place, same in enumerate(groups(codes, len(found))):
            prefix = b"\0" + int(found[place]).to_bytes(_PREFIX - 1, "big")
            if not self._has_indices(int(found[place])):
                yield (False, prefix), events[same]
                continue
            for indices, some in _by_indices(heads[same], lengths[same]):
                yield (False, prefix + indices), events[same][some]

    def _beginning(self, head: bytes) -> bytes:
        """The number of a schema in the head of a payload, and the indices behind it; empty if it has none."""
        if len(head) < _PREFIX or head[0]:
            return b""
        if not self._has_indices(int.from_bytes(head[1:_PREFIX], "big")):
            return head[:_PREFIX]
        try:
            return head.removesuffix(read_schema_id(head, PROTOBUF.name)[1])
        except ValueError:
            return b""

    def _has_indices(self, number: int) -> bool:
        """Return True if indices of a message type follow this number."""
        uses = [each.schema_of_number(number).schema for each in self._candidates]
        return any(is_indexed(schema) for schema in uses)

    def _plan(self, said: _Said) -> Plan | None:
        key = self._topic, said
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                return None
            self._plans[key] = self._planned(*said)
        return self._plans[key]

    def _planned(self, in_header: bool, said: bytes) -> Plan | None:
        """The way of records of the one definition that has the schema they name, unless another may fit them.

        Where the only one that may fit has no such schema, they are rejected, whatever their payloads are.
        """
        found, candidates = [], self._candidates
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
        judge, prefix = self._judge(said if in_header else None), 0 if in_header else len(said)
        alone = len(candidates) == 1
        if not found:
            # Behind an unknown number may be indices, and what is wrong with these goes before that. Of several
            # definitions the payload may say which it was meant for.
            indexed = any(is_indexed(each.schema_use.schema) for each in candidates)
            rejected = judge(said) if alone and (in_header or not said or not indexed) else None
            if rejected is not None:
                return RejectionVerdict.of(rejected)
            reasons = PayloadReasons(candidates[0], None, judge, prefix)
            return PlainRoute(candidates[0], self._target(candidates[0]), undecoded, None, reasons)
        if len(found) != 1:
            return None
        definition, use = found[0]
        decode = resolving.decoder(definition, use)
        if decode is None:
            return None
        target = self._target(definition)
        reasons = PayloadReasons(
            definition, reasons_of(use.schema, definition.policy) if alone else None, judge, prefix
        )
        return PlainRoute(definition, target, target.decoding(_behind(prefix, decode)), None, reasons)

    def _judge(self, header: bytes | None) -> Judge:
        """Return the judge of refused records that state their schema in a header or prefix."""
        headers = () if header is None else ((SCHEMA_HEADER, header),)
        sections: dict[str, Any] = {"topic": self._topic, "headers": headers}

        def judge(payload: bytes) -> Rejected | None:
            message = Message(protocol=PROTOCOL, body=payload, sections=sections)
            if len(self._candidates) == 1:
                return rejected_payload(message, None, self._candidates[0])
            return self._contract.rejection(message)

        return judge


def is_prefixed(definition: CompiledDefinition) -> bool:
    """Return True if a definition only demands a topic and a schema, which records state."""
    constant = all(isinstance(key.value, str) for key in definition.protocol_keys)
    plain = not definition.is_event and definition.removal is None and definition.options <= {"topic"}
    of_kafka = definition.protocol == PROTOCOL and definition.policy.wire_prefix == "confluent"
    return plain and constant and of_kafka and not definition.broken


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
