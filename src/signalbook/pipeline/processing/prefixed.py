"""Routes of Kafka records that state the schema that wrote them: in a wire prefix, or in a header.

Records of a topic with the same statement share a route: the one definition that has this schema, and the decoder of
its payloads into the columns of that definition's table. Records without a route go the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from signalbook.formats.base import is_elsewhere, is_indexed
from signalbook.formats.protobuf import FORMAT as PROTOBUF
from signalbook.messages import CompiledDefinition, Contract, Message, Rejected
from signalbook.messages.content import SCHEMA_HEADER, read_schema_id
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.native import Decode, PayloadSpans
from signalbook.pipeline.processing import resolution
from signalbook.pipeline.processing.batch import EventBatch, group_by_number
from signalbook.pipeline.processing.rows import Route, RowBuilder, undecoded
from signalbook.pipeline.processing.verdicts import Judge, PayloadReasons, RejectionVerdict, find_schema_reasons

_PROTOCOL: Final = "KAFKA"
_SCHEMA_HEADER_PROPERTY: Final = f"headers.{SCHEMA_HEADER}"
# Longer headers are no schema ids, and would be kept with their plans.
_MAX_HEADER_BYTES: Final = 256
# The magic byte of the wire prefix, and the number of the schema in four bytes. Indices of a message type may follow.
_PREFIX_BYTES: Final = 5
# A byte of a variable-length number has this bit if another byte follows.
_CONTINUATION_BIT: Final = 0x80
# The number of first bytes that are compared as one number. They mostly contain the whole prefix.
_HEAD_BYTES: Final = 8
# The first byte of the head is in the lowest bits of the number.
_HEAD_NUMBER: Final = np.dtype("<u8")
# Records with more indices go the slow path.
_MAX_INDICES: Final = 8
# The limit of cached plans, because anybody may send any number of ids that no schema has.
_MAX_PLANS: Final = 10_000
# The statement of a record about its schema: whether it is in a header, and the bytes of that header or of the prefix.
# The bytes are empty for records that state no schema.
_SchemaStatement = tuple[bool, bytes]
# The route or the rejection of records with the same statement.
Plan = Route | RejectionVerdict
# Plans by topic and statement; None stands for the slow path.
PlanCache = dict[tuple[str, _SchemaStatement], Plan | None]
# The first bytes of payloads, as one number each.
PayloadHeads = npt.NDArray[np.uint64]


def read_heads(payloads: PayloadSpans) -> PayloadHeads:
    """Return the first bytes of each payload as one number."""
    heads: PayloadHeads = payloads.read_heads(_HEAD_BYTES).view(_HEAD_NUMBER)[:, 0]
    return heads


class PrefixedRoutes:
    """The routes of the records of one topic, all of whose ``candidates`` expect a wire prefix.

    All topics share ``plans``, so that the number of plans in memory has one limit.
    """

    def __init__(
        self,
        contract: Contract,
        topic: str,
        candidates: Sequence[CompiledDefinition],
        target: Callable[[CompiledDefinition], RowBuilder],
        plans: PlanCache,
    ) -> None:
        self._contract = contract
        self._topic = topic
        self._candidates = candidates
        self._target = target
        self._plans = plans

    def plan_records(self, batch: EventBatch, events: Offsets, heads: PayloadHeads) -> Iterator[tuple[Plan, Offsets]]:
        """Yield plans with the records of the topic that they are for. Records for the slow path are left out.

        ``heads`` are the first bytes of the payloads of ``events``.
        """
        for statement, group in self._group_by_statement(batch, events, heads):
            plan = self._get_plan(statement)
            if plan is not None:
                yield plan, group

    def _group_by_statement(
        self, batch: EventBatch, events: Offsets, heads: PayloadHeads
    ) -> Iterator[tuple[_SchemaStatement, Offsets]]:
        """Yield each statement with the records that make it. Records with several headers are left out."""
        codes, values = batch.encode_property(_SCHEMA_HEADER_PROPERTY)
        for group in group_by_number(codes[events], len(values)):
            occurrences = values[codes[events[group[0]]]]
            if occurrences is None:
                yield from self._group_by_prefix(batch, events[group], heads[group])
            elif len(occurrences) == 1:
                (value,) = occurrences
                header = value if isinstance(value, bytes) else value.encode()
                if len(header) <= _MAX_HEADER_BYTES:
                    yield (True, header), events[group]

    def _group_by_prefix(
        self, batch: EventBatch, events: Offsets, heads: PayloadHeads
    ) -> Iterator[tuple[_SchemaStatement, Offsets]]:
        """Yield each prefix with the records that have it, an empty one for records without a prefix.

        Records whose prefix has a GUID instead of a number are left out.
        """
        payloads = batch.take_payloads(events)
        # Mostly all records have the prefix of the first one.
        first = self._read_prefix(heads[0].tobytes()[: payloads.lengths[0]])
        if first:
            bits = np.uint64(8 * (_HEAD_BYTES - len(first)))
            same = (payloads.lengths >= len(first)) & (heads << bits == heads[0] << bits)
            yield (False, first), events[same]
            if same.all():
                return
            events = events[~same]
            payloads = batch.take_payloads(events)
        yield from self._group_by_any_prefix(events, payloads)

    def _group_by_any_prefix(
        self, events: Offsets, payloads: PayloadSpans
    ) -> Iterator[tuple[_SchemaStatement, Offsets]]:
        """Yield the same as ``_group_by_prefix`` for records with many different prefixes."""
        heads, lengths = payloads.read_heads(_PREFIX_BYTES + 1 + _MAX_INDICES), payloads.lengths
        without_prefix = (lengths < _PREFIX_BYTES) | (heads[:, 0] > 1)
        if without_prefix.any():
            yield (False, b""), events[without_prefix]
        has_number = (lengths >= _PREFIX_BYTES) & (heads[:, 0] == 0)
        events, heads, lengths = events[has_number], heads[has_number], lengths[has_number]
        if not len(events):
            return
        numbers, codes = _find_distinct(np.ascontiguousarray(heads[:, 1:_PREFIX_BYTES]).view(">u4")[:, 0])
        for number, group in zip(numbers.tolist(), group_by_number(codes, len(numbers)), strict=True):
            prefix = b"\0" + number.to_bytes(_PREFIX_BYTES - 1, "big")
            if not self._has_indices(number):
                yield (False, prefix), events[group]
                continue
            for indices, positions in _group_by_indices(heads[group], lengths[group]):
                yield (False, prefix + indices), events[group][positions]

    def _read_prefix(self, head: bytes) -> bytes:
        """Return the prefix at the beginning of a payload, with its indices; empty if ``head`` has no whole prefix."""
        if len(head) < _PREFIX_BYTES or head[0]:
            return b""
        if not self._has_indices(int.from_bytes(head[1:_PREFIX_BYTES], "big")):
            return head[:_PREFIX_BYTES]
        try:
            return head.removesuffix(read_schema_id(head, PROTOBUF.name)[1])
        except ValueError:
            return b""

    def _has_indices(self, number: int) -> bool:
        """Return True if indices of a message type follow this number of a schema."""
        schemas = [candidate.schema_of_number(number).schema for candidate in self._candidates]
        return any(map(is_indexed, schemas))

    def _get_plan(self, statement: _SchemaStatement) -> Plan | None:
        key = self._topic, statement
        if key not in self._plans:
            if len(self._plans) >= _MAX_PLANS:
                return None
            self._plans[key] = self._build_plan(*statement)
        return self._plans[key]

    def _build_plan(self, in_header: bool, stated: bytes) -> Plan | None:
        """Return the plan of records with a statement, ``None`` if only the slow path can decide.

        The route leads to the definition that has the schema, if it is the only one. If the topic has a single
        candidate, and that lacks the schema, the records are rejected whatever their payloads are.
        """
        matches, candidates = [], self._candidates
        for definition in candidates:
            own_schema = definition.schema_use.schema
            if own_schema is None:
                return None
            try:
                schema_id, remainder = read_schema_id(stated, own_schema.format)
            except ValueError:  # an id of another format
                continue
            use = definition.schema_of_number(schema_id.id)
            schema = use.schema
            if schema is None or is_elsewhere(schema, schema_id.indices):
                continue
            if remainder:  # a header must end with the id
                return None
            matches.append((definition, use))
        judge, prefix_bytes = self._build_judge(stated if in_header else None), 0 if in_header else len(stated)
        alone = len(candidates) == 1
        if not matches:
            # Indices may follow an unknown number, and errors in the indices are reported before the unknown number.
            # Of several definitions, the payload may show which one was meant.
            indexed = any(is_indexed(candidate.schema_use.schema) for candidate in candidates)
            rejected = judge(stated) if alone and (in_header or not stated or not indexed) else None
            if rejected is not None:
                return RejectionVerdict.of(rejected)
            payload_reasons = PayloadReasons(candidates[0], None, judge, prefix_bytes)
            return Route(candidates[0], self._target(candidates[0]), undecoded, None, payload_reasons)
        if len(matches) != 1:
            return None
        definition, use = matches[0]
        decode = resolution.find_decoder(definition, use)
        if decode is None:
            return None
        target = self._target(definition)
        same_reasons = find_schema_reasons(use.schema, definition.policy) if alone else None
        payload_reasons = PayloadReasons(definition, same_reasons, judge, prefix_bytes)
        return Route(definition, target, target.wrap_decoder(_skip_prefix(prefix_bytes, decode)), None, payload_reasons)

    def _build_judge(self, header: bytes | None) -> Judge:
        """Return the judge of refused records, which state their schema in ``header``, or in a prefix if it is None."""
        headers = () if header is None else ((SCHEMA_HEADER, header),)
        sections: dict[str, Any] = {"topic": self._topic, "headers": headers}

        def judge(payload: bytes) -> Rejected | None:
            message = Message(protocol=_PROTOCOL, body=payload, sections=sections)
            if len(self._candidates) == 1:
                return rejected_payload(message, None, self._candidates[0])
            return self._contract.rejection(message)

        return judge


def is_prefixed(definition: CompiledDefinition) -> bool:
    """Return True if a definition demands nothing but a topic and a schema that records state in a wire prefix."""
    constant = all(isinstance(key.value, str) for key in definition.protocol_keys)
    plain = not definition.is_event and definition.removal is None and definition.options <= {"topic"}
    of_kafka = definition.protocol == _PROTOCOL and definition.policy.wire_prefix == "confluent"
    return plain and constant and of_kafka and not definition.broken


def _group_by_indices(heads: npt.NDArray[np.uint8], lengths: Offsets) -> Iterator[tuple[bytes, Offsets]]:
    """Yield the bytes of indices with the positions of the payloads that have them.

    Payloads with more than ``_MAX_INDICES`` indices, or with an index of several bytes, are left out.
    """
    # The number of indices is encoded as zigzag, that is doubled. A single zero stands for one index, which is zero.
    doubled_counts = np.where(lengths > _PREFIX_BYTES, heads[:, _PREFIX_BYTES], 1)
    short_counts = doubled_counts[(doubled_counts % 2 == 0) & (doubled_counts <= 2 * _MAX_INDICES)]
    for doubled_count in np.unique(short_counts).tolist():
        width = 1 + doubled_count // 2
        positions = np.flatnonzero((doubled_counts == doubled_count) & (lengths >= _PREFIX_BYTES + width))
        indices = heads[positions, _PREFIX_BYTES : _PREFIX_BYTES + width]
        one_byte_each = (indices < _CONTINUATION_BIT).all(axis=1)
        positions, indices = positions[one_byte_each], indices[one_byte_each]
        # Each byte is below 128, so that the bytes are the digits of one number.
        _, codes = _find_distinct(indices @ _CONTINUATION_BIT ** np.arange(width, dtype=np.int64))
        for group in group_by_number(codes, int(codes.max(initial=-1)) + 1):
            yield indices[group[0]].tobytes(), positions[group]


def _find_distinct(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Offsets]:
    """Return the distinct numbers, and the position of each number among them."""
    # Mostly all numbers are equal, and finding that out is faster than sorting them.
    if (numbers == numbers[:1]).all():
        return numbers[:1], np.zeros(len(numbers), np.int64)
    return np.unique(numbers, return_inverse=True)


def _skip_prefix(length: int, decode: Decode) -> Decode:
    """Return the decoder of payloads that have a prefix of ``length`` bytes before what ``decode`` reads."""
    return lambda payloads: decode(payloads.skip(length))
