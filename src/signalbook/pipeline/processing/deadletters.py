"""Write rejected messages as rows of the dead-letter table, which ``commands/dead_letters.py`` reads.

A dead letter keeps the bytes and the metadata of its message unchanged, so that the same message can be restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from signalbook.messages import Message, Reason, Rejected, to_record
from signalbook.messages.message import find_address
from signalbook.pipeline import columns
from signalbook.pipeline.processing.rows import AcceptedRow, Bookkeeping, RowBuilder, build_violation_row
from signalbook.pipeline.processing.verdicts import Rejections, RejectionVerdict
from signalbook.pipeline.sources.base import LIGHTEST, NOWHERE, MessageBatch, MessageLocation, Source
from signalbook.pipeline.sources.message_records import Recording
from signalbook.values import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that did not land, with the reason and its origin.

    ``message`` is None for bytes that are not a message. ``definition`` is None, unless the message has outcomes for
    several definitions: then it is the xid of the definition for which the message did not land.
    """

    reason: str
    violations: Sequence[Finding]
    original: bytes
    location: MessageLocation
    candidates: Sequence[str] = ()
    message: Message | None = None
    definition: str | None = None

    @classmethod
    def of_rejected(cls, rejected: Rejected, original: bytes, location: MessageLocation, *, shared: bool) -> DeadLetter:
        """Return the dead letter of a rejected message. ``shared`` means that the message has several outcomes."""
        return cls(
            reason=rejected.reason,
            violations=rejected.violations,
            candidates=rejected.candidates,
            original=original,
            location=location,
            message=rejected.message,
            definition=rejected.candidates[0] if shared and rejected.candidates else None,
        )

    @classmethod
    def of_misfit(cls, target: RowBuilder, row: AcceptedRow, error: Exception) -> DeadLetter:
        """Return the dead letter of an accepted message with a value that does not fit its column.

        ``error`` is the exception of ``build_rows`` for this row.
        """
        return cls(
            reason=Reason.MAPPING_ERROR,
            violations=(target.find_column_violation(row, error),),
            candidates=(target.xid,),
            original=row.original,
            location=row.location,
            message=row.message,
            definition=target.xid if row.shared else None,
        )


@dataclass(slots=True)
class DeadLetterRows:
    """Dead letters that wait to be written to their table."""

    bookkeeping: Bookkeeping
    bytes: int = 0
    _dead_letters: list[DeadLetter] = field(default_factory=list)

    def add(self, dead_letter: DeadLetter) -> None:
        self._dead_letters.append(dead_letter)
        self.bytes += max(len(dead_letter.original), LIGHTEST)

    def take(self) -> pa.RecordBatch:
        """Return all waiting dead letters as rows of ``columns.DEAD_LETTER``, and stop holding them."""
        dead_letters, self._dead_letters, self.bytes = self._dead_letters, [], 0
        verdict, original, location = _build_verdict_columns(dead_letters), *_build_other_columns(dead_letters)
        names = pa.array([dead_letter.definition for dead_letter in dead_letters], pa.string())
        return _build_rows([*verdict, *original, *location, names], self.bookkeeping)


def build_rejected_rows(rejections: Rejections, source: Source, bookkeeping: Bookkeeping) -> pa.RecordBatch:
    """Return the rows of rejected messages, which may share verdicts. Raises ``UnreadableMessage``."""
    batch, indices = rejections.messages, rejections.indices
    used, numbers = np.unique(rejections.numbers, return_inverse=True)
    verdict = [
        column.take(pa.array(numbers))
        for column in _build_verdict_columns([rejections.verdicts[number] for number in used.tolist()])
    ]
    positions = batch.positions[np.asarray(indices)]
    *original, received = _build_columns(batch, indices, source)
    location = [
        _build_constant(len(indices), batch.path or None, pa.string()),
        pa.array(positions, pa.int64(), mask=positions == NOWHERE),
        pa.nulls(len(indices), pa.int32()),
        received,
    ]
    return _build_rows([*verdict, *original, *location, pa.nulls(len(indices), pa.string())], bookkeeping)


def _build_columns(batch: MessageBatch, indices: Sequence[int], source: Source) -> list[pa.Array]:
    """Return the columns of the messages at ``indices``, time of receipt last. Raises ``UnreadableMessage``."""
    originals = [batch.raw(index) for index in indices]
    records = source.to_records(batch, indices) if isinstance(source, Recording) else None
    if records is None:
        messages = [source.message(batch, index) for index in indices]
        return [*_build_message_columns(messages, originals), _build_received(messages)]
    count = len(indices)
    return [
        pa.array(originals, pa.binary()),
        pa.nulls(count, pa.binary()),
        records.texts,
        _build_constant(count, records.protocol, pa.string()),
        records.content_types,
        records.addresses,
        records.received_at,
    ]


def _build_rows(arrays: list[pa.Array], bookkeeping: Bookkeeping) -> pa.RecordBatch:
    values = (bookkeeping.fingerprint, bookkeeping.batch, bookkeeping.landed_at)
    kinds = columns.DEAD_LETTER.types[-len(values) :]
    constants = [_build_constant(len(arrays[0]), value, kind) for value, kind in zip(values, kinds, strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, *constants], schema=columns.DEAD_LETTER)


def _build_constant(count: int, value: Any, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _build_verdict_columns(verdicts: Sequence[DeadLetter | RejectionVerdict]) -> list[pa.Array]:
    """Return the columns for reason, violations and candidates."""
    parts = [
        [verdict.reason for verdict in verdicts],
        [[build_violation_row(finding) for finding in verdict.violations] for verdict in verdicts],
        [verdict.candidates for verdict in verdicts],
    ]
    return [pa.array(values, kind) for values, kind in zip(parts, columns.DEAD_LETTER.types, strict=False)]


def _build_other_columns(dead_letters: Sequence[DeadLetter]) -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the columns of messages, and the columns that say where they were read and when they were received."""
    messages = [dead_letter.message for dead_letter in dead_letters]
    locations = [dead_letter.location for dead_letter in dead_letters]
    return _build_message_columns(messages, [dead_letter.original for dead_letter in dead_letters]), [
        pa.array([location.path or None for location in locations], pa.string()),
        pa.array([location.position for location in locations], pa.int64()),
        pa.array([location.element for location in locations], pa.int32()),
        _build_received(messages),
    ]


def _build_message_columns(messages: Sequence[Message | None], originals: Sequence[bytes]) -> list[pa.Array]:
    """Return the columns for originals, bodies and metadata of messages. Metadata is null if a message is None."""
    bodies = [
        None if message is None or message.body == original else message.body
        for message, original in zip(messages, originals, strict=True)
    ]
    cached_records: dict[tuple[str, ...], str] = {}
    return [
        pa.array(originals, pa.binary()),
        pa.array(bodies, pa.binary()),
        pa.array([message and _encode_record(message, cached_records) for message in messages], pa.string()),
        pa.array([message.protocol or None if message else None for message in messages], pa.string()),
        pa.array([message.content_type or None if message else None for message in messages], pa.string()),
        pa.array(
            [find_address(message) if message and message.sections else None for message in messages], pa.string()
        ),
    ]


def _encode_record(message: Message, cached_records: dict[tuple[str, ...], str]) -> str:
    """Return the result of ``to_record`` for a message.

    ``cached_records`` caches the results for messages that have a body, no sections and no time of receipt.
    """
    if message.sections or message.received_at is not None or message.body is None:
        return to_record(message)
    key = message.protocol, message.content_type, message.content_encoding, message.reference
    return cached_records.get(key) or cached_records.setdefault(key, to_record(message))


def _build_received(messages: Sequence[Message | None]) -> pa.Array:
    return pa.array([message.received_at if message else None for message in messages], columns.TIMESTAMP)
