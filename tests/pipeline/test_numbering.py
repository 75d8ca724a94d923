"""Numbers that stand for values, against sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.fastpath.batch import dense, firsts, groups


@pytest.mark.parametrize("more", [1, 10**9])
@given(st.lists(st.integers(0, 30)))
def test_numbers_become_dense_and_grouped(more: int, found: list[int]) -> None:
    numbers = np.array(found, np.int64) * more
    known, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    places, count = dense(numbers, 31 * more)
    assert (places.tolist(), count) == (inverse.tolist(), len(known))
    assert firsts(places, count).tolist() == first.tolist()
    expected = [np.flatnonzero(numbers == number).tolist() for number in known]
    assert [group.tolist() for group in groups(numbers, 31 * more)] == expected


def test_nothing_has_no_numbers() -> None:
    assert dense(np.arange(0), 0)[1] == 0
    assert list(groups(np.arange(0), 0)) == []
