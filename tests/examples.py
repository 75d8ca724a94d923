"""The number of examples that property tests try, and strategies that several of them share."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

FEW = 10
JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def examples(count: int) -> int:
    """Return ``count``; for ``make test``, which repeats the same examples, a twentieth of it, and at least ``FEW``."""
    return count if settings().max_examples > FEW else max(FEW, count // 20)


def json_trees(
    scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str], *, size: int = 3, leaves: int = 8
) -> st.SearchStrategy[Any]:
    """Return JSON values: ``scalars``, and arrays and objects of at most ``size`` values."""

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=size) | st.dictionaries(names, inner, max_size=size)

    return st.recursive(scalars, grow, max_leaves=leaves)
