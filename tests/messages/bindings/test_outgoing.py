from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Uncarriable
from signalbook.messages.bindings.options import group_values
from signalbook.messages.bindings.outgoing import regroup


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (5, "5"),
        (2.5, "2.5"),
        (b"\xff", "/w=="),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    ],
)
def test_values_as_text(value: Any, expected: str) -> None:
    """The text is canonical (K-19)."""
    assert outgoing.texts({"a": value, "b": (value, value)}) == {"a": expected, "b": (expected, expected)}


def test_all_invalid_values_are_reported() -> None:
    rules = {"topic": outgoing.topic, "headers.": outgoing.header}
    with pytest.raises(Uncarriable) as caught:
        outgoing.refuse({"topic": "a", "headers.x": ("fine", "a\nb"), "key": "k", "headers": "x"}, rules)
    findings = [(finding.path, finding.rule) for finding in caught.value.findings]
    assert findings == [("protocoloptions.headers.x", "value"), ("protocoloptions.key", "unknown"),
                    ("protocoloptions.headers", "unknown")]  # fmt: skip


NAMES = st.sampled_from(["a", "A", "b"])


@given(
    st.lists(st.tuples(NAMES, st.text())), st.dictionaries(NAMES, st.one_of(st.text(), st.tuples(st.text(), st.text())))
)
def test_new_values_replace_existing_ones(pairs: list[tuple[str, str]], values: dict[str, Any]) -> None:
    """The function ``regroup`` is the inverse of ``group_values`` (K-23)."""
    merged = regroup(pairs, {f"h.{name}": value for name, value in values.items()}, "h.", fold=False)
    expected = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
    assert group_values(merged, "", fold=False) == {**group_values(pairs, "", fold=False), **expected}
