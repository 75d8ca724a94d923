"""Answers to reads, kept for as long as nothing in the store changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from signalbook.api.answers import Response

_LARGEST: Final = 1 << 20
_HEADERS: Final = 4096
"""What an answer counts for beside its body."""


class ResponseCache:
    """Answers by key, all of one generation of the store. For one event loop, not for threads.

    A generation tells when to forget: it is another one once anything of the registry was committed, by
    whichever process. ``limit`` bounds the bytes kept; the oldest answers go first.
    """

    def __init__(self, *, limit: int = 64 << 20) -> None:
        self._generation: Hashable = None
        self._answers: dict[Hashable, Response] = {}
        self._left = self._limit = limit

    def recall(self, key: Hashable, generation: Hashable) -> Response | None:
        """The answer if it is known of this, the present generation."""
        if generation != self._generation:
            self._answers.clear()
            self._generation, self._left = generation, self._limit
        return self._answers.get(key)

    def keep(self, key: Hashable, generation: Hashable, answer: Response) -> None:
        """Remember an answer that was made after ``generation`` was told, unless that is over by now."""
        fits = len(answer.body) <= _LARGEST and answer.status in (200, 303)
        if generation != self._generation or not fits or key in self._answers:
            return
        self._answers[key] = answer
        self._left -= _cost(answer)
        while self._left < 0:
            self._left += _cost(self._answers.pop(next(iter(self._answers))))


def _cost(answer: Response) -> int:
    return len(answer.body) + _HEADERS
