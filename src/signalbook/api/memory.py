"""Answers to reads, kept for as long as nothing in the store changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from signalbook.api.answers import Answer

_LARGEST: Final = 1 << 20
_HEADERS: Final = 4096
"""What an answer counts for beside its body."""


class Memory:
    """Answers by key, all of one ``generation`` of the store. For one event loop, not for threads.

    ``generation`` tells when to forget: what it returns differs once anything was committed by any process; None
    means that it cannot tell, and nothing is kept. ``limit`` bounds the bytes kept; the oldest answers go first.
    """

    def __init__(self, generation: Callable[[], int | None], *, limit: int = 64 << 20) -> None:
        self._now = generation
        self._generation: int | None = None
        self._answers: dict[Hashable, Answer] = {}
        self._left = self._limit = limit

    def recall(self, key: Hashable) -> tuple[int | None, Answer | None]:
        """The present generation, to hand to ``keep``, and the answer if it is known."""
        now = self._now()
        if now != self._generation:
            self._answers.clear()
            self._generation, self._left = now, self._limit
        return now, self._answers.get(key)

    def keep(self, key: Hashable, generation: int | None, answer: Answer) -> None:
        """Remember an answer that was made after ``generation`` was told, unless that is over by now."""
        fits = len(answer.body) <= _LARGEST and answer.status in (200, 303)
        if generation is None or generation != self._generation or not fits or key in self._answers:
            return
        self._answers[key] = answer
        self._left -= _size(answer)
        while self._left < 0:
            self._left += _size(self._answers.pop(next(iter(self._answers))))


def _size(answer: Answer) -> int:
    return len(answer.body) + _HEADERS
