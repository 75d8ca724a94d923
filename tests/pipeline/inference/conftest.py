"""Values of any kind, and summaries of them."""

from typing import Any, Final

from hypothesis import strategies as st

from signalbook.pipeline.inference.summaries import MemoryBudget, ValueSummary

SCALARS: Final = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.just("2026-01-01")
)
NAMES: Final = st.sampled_from(("a", "b", "c", "d", "type", "kind"))
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner), max_leaves=8
)


def summary(*values: Any) -> ValueSummary:
    """Return the summary of ``values``."""
    seen, room = ValueSummary(), MemoryBudget()
    for value in values:
        seen.take(value, room)
    return seen
