"""What is no text, and what is too deep."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from signalbook.pipeline.fastpath.texts import is_text, too_deep


@pytest.mark.parametrize(
    ("text", "deep"),
    [("[]" * 9, True), ("[[[[]]]]", True), ("[[[1]]]", False), ('{"a":[{}]}', False), ('"[[[[[["', False), ("", False)],
)
def test_what_is_deeper_than_three(text: str, deep: bool) -> None:
    """Or is none, and has many brackets."""
    texts = ["[[[]]]", text, "{}"]
    bounds = np.array([0, *accumulate(map(len, texts))])
    assert too_deep("".join(texts).encode(), bounds[:-1], bounds[1:], 3) == ({1} if deep else set())


def test_text_is_utf_8() -> None:
    assert is_text("é".encode())
    assert not is_text(b"\xff")
