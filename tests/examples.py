"""How many examples property tests try."""

from __future__ import annotations

from hypothesis import settings

FEW = 50


def examples(count: int) -> int:
    """Return ``count``, but a quarter of it and at least ``FEW`` for ``make test``, which repeats the same examples."""
    return count if settings().max_examples > FEW else max(FEW, count // 4)
