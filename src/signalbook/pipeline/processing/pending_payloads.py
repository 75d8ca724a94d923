"""Match messages one by one, and decode the payloads of many messages at once. They land if their payloads conform.

This is for messages that the fast path leaves over, and for messages of protocols that ``binary.py`` does not know.
Messages whose payload the native module refuses are processed again one by one, which finds the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from signalbook.messages import Accepted, CompiledDefinition, Contract, Message
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.native import Decode, PayloadSpans
from signalbook.pipeline.processing.decoding import find_bytes_decoder
from signalbook.pipeline.processing.rows import AcceptedRow, LandedRows, RowBuilder
from signalbook.pipeline.sources.base import LIGHTEST, MessageLocation

# The number of bytes of payloads that are decoded at once.
_SLICE: Final = 1024 * 1024
# The limit of pairs of definition and content type. Messages of further pairs are processed one by one.
_MOST_KINDS: Final = 4096


@dataclass(slots=True)
class _PayloadGroup:
    """Messages of one definition and content type that wait for their payloads to be decoded."""

    target: RowBuilder
    decode: Decode
    rows: list[AcceptedRow] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    bytes: int = 0

    def flush(self) -> Iterator[LandedRows | AcceptedRow]:
        """Yield rows of the messages whose payloads are accepted, and then the other messages."""
        rows, payloads = self.rows, self.payloads
        self.rows, self.payloads, self.bytes = [], [], 0
        try:
            arrays, refused = self.decode(PayloadSpans.of_list(payloads))
            accepted = np.delete(np.arange(len(rows)), refused).tolist()
            if accepted:
                yield LandedRows(self.target, self.target.build_decoded([rows[number] for number in accepted], arrays))
        except MISFITS:
            refused = list(range(len(rows)))
        for number in refused:
            yield rows[number]


class PendingPayloads:
    """The messages of one task that conform if their payloads do, and wait for these to be decoded."""

    def __init__(self, contract: Contract, target: Callable[[CompiledDefinition], RowBuilder]) -> None:
        self._contract = contract
        self._target = target
        self._kinds: dict[tuple[str, str], _PayloadGroup | None] = {}
        self._full: list[_PayloadGroup] = []

    def take(self, message: Message, original: bytes, location: MessageLocation) -> bool:
        """Take a message if its payload alone decides, and if there is a decoder for the payload.

        Return False if the message was not taken.
        """
        accepted = self._contract.presumed(message)
        payload = None if accepted is None else accepted.payload()
        kind = None if accepted is None else self._find_group(accepted)
        if accepted is None or payload is None or kind is None:
            return False
        kind.rows.append(kind.target.build_row(accepted, original, location, shared=False))
        kind.payloads.append(payload)
        kind.bytes += max(len(original), len(payload), LIGHTEST)
        if kind.bytes >= _SLICE:
            self._full.append(kind)
        return True

    def flush_full(self) -> Iterator[LandedRows | AcceptedRow]:
        """Yield the outcomes of groups that have enough messages for decoding."""
        full, self._full = self._full, []
        for kind in full:
            yield from kind.flush()

    def flush(self) -> Iterator[LandedRows | AcceptedRow]:
        """Yield the outcomes of all waiting messages."""
        for kind in list(self._kinds.values()):
            if kind is not None and kind.rows:
                yield from kind.flush()

    def _find_group(self, accepted: Accepted) -> _PayloadGroup | None:
        event, definition = accepted.event, accepted.definition
        content_type = accepted.message.content_type if event is None else event.content_type
        key = definition.xid, content_type
        if key not in self._kinds:
            if len(self._kinds) >= _MOST_KINDS:
                return None
            decode = find_bytes_decoder(definition, content_type)
            target = self._target(definition)
            self._kinds[key] = None if decode is None else _PayloadGroup(target, target.wrap_decoder(decode))
        return self._kinds[key]
