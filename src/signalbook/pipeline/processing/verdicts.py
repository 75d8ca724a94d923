"""Verdicts that say why messages are dead letters. Many messages share a verdict, which has a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from signalbook.messages import Reason, Rejected
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.processing.batch import EventBatch
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.values import Finding

NO_VERDICT: Final = -1
"""Stands for the number of a verdict, for messages without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionVerdict:
    """The reason why messages are dead letters, like ``messages.Rejected``."""

    reason: Reason
    violations: tuple[Finding, ...]
    candidates: tuple[str, ...] = ()

    @classmethod
    def of(cls, rejected: Rejected) -> RejectionVerdict:
        """Return the verdict of ``rejected``, the rejection of one message."""
        return cls(reason=rejected.reason, violations=rejected.violations, candidates=rejected.candidates)


@dataclass(frozen=True, slots=True)
class Rejections:
    """The messages at ``indices``, which are dead letters. ``numbers`` are the positions of their ``verdicts``."""

    messages: MessageBatch
    indices: Sequence[int]
    verdicts: Sequence[RejectionVerdict]
    numbers: Offsets


class Verdicts:
    """The verdicts on the events of a batch."""

    def __init__(self, events: int) -> None:
        self._numbers: Offsets = np.full(events, NO_VERDICT, np.int64)
        self._verdicts: list[RejectionVerdict] = []

    def assign(self, events: Offsets, numbers: Offsets, verdicts: Sequence[RejectionVerdict]) -> None:
        """Give each of ``events`` the verdict at its number in ``verdicts``, or none for ``NO_VERDICT``."""
        self._numbers[events] = np.where(numbers == NO_VERDICT, NO_VERDICT, numbers + len(self._verdicts))
        self._verdicts += verdicts

    def take_back(self, events: Offsets) -> None:
        """Remove the verdicts of these events."""
        self._numbers[events] = NO_VERDICT

    @property
    def events(self) -> Offsets:
        """The events that have a verdict."""
        return np.flatnonzero(self._numbers != NO_VERDICT)

    def group_rejections(self, batch: EventBatch) -> Iterator[Rejections]:
        """Yield the rejected messages of each batch of messages that ``batch`` consists of."""
        for messages, indices, events in batch.find_messages(self.events):
            yield Rejections(messages, indices, self._verdicts, self._numbers[events])
