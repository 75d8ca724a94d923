"""The number of examples that property tests try, and strategies that several of them share."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

FEW = 10
"""The number of examples of a property in ``make test``."""
SOME = 40
"""The number of examples of a property in ``make merge``."""
_DIVISORS = {FEW: 20, SOME: 3}
JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def examples(count: int) -> int:
    """Return the number of examples for a property that needs ``count`` of them in ``make soak``.

    ``make test`` and ``make merge`` repeat the same examples: a twentieth and a third of them, at least ``FEW``.
    """
    return max(FEW, count // _DIVISORS.get(settings().max_examples, 1))


def json_trees(
    scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str], *, size: int = 3, leaves: int = 8
) -> st.SearchStrategy[Any]:
    """Return JSON values: ``scalars``, and arrays and objects of at most ``size`` values."""

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=size) | st.dictionaries(names, inner, max_size=size)

    return st.recursive(scalars, grow, max_leaves=leaves)
