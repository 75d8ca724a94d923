"""Patterns that run natively find what Python's engine finds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.formats.jsonschema.pattern import translate
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.json import program
from signalbook.pipeline.fastpath.native import Inexpressible
from signalbook.values import dump_json

PATTERNS = (
    *("^P[0-9]{9}$", "^[a-z]+$", "b", "^.$", "[^a]", "^\\w*$", "^\\d{1,2}$", "", "^", "$", "^$", "a?", "a{2}b?$"),
    *("^a{1,}-b$", "^[a-c-]{2}$", "^[-a]$", "^[^a-z0-9]$", "^é+$", "^[à-ü]$", "^[^é]a$", "^a.*b$",),
    *("\\.\\$", "^[\\]\\\\]$", "^a?b?a?b?$"),
)  # fmt: skip
TEXTS = (
    *("", "a", "b", "ab", "aab", "ba", "-", "a-", "a--b", "é", "éé", "éa", "ü", "😀", "😀a", "\n", "a\n"),
    *("a\nb", "]", "\\"),
    *("P123456789", "P12345678", "P1234567890", "xP123456789", "1", "12", "123", "٣", "_", "a.$", "a-b"),
    *("aaa-b", "abab"),
)  # fmt: skip


def found(pattern: str, texts: list[str]) -> list[bool]:
    """What the native module says."""
    translated = translate(pattern)
    assert translated is not None
    decoder = native.module().Decoder(("string", False, 0, None, None, program(translated)))
    raw = [*map(dump_json, texts)]
    _, refused = decoder.read(b"".join(raw), np.cumsum([0, *map(len, raw)]).astype(np.int32).tobytes())
    return [number not in refused for number in range(len(texts))]


def expected(pattern: str, texts: list[str]) -> list[bool]:
    translated: Any = translate(pattern)
    return [re.search(translated, text) is not None for text in texts]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: str) -> None:
    assert found(pattern, [*TEXTS]) == expected(pattern, [*TEXTS])


@given(st.text("ab^$.|?*+()[]{}\\dw-,12é", max_size=10), st.lists(st.text("ab1-é\n", max_size=6), max_size=8))
@settings(max_examples=500, deadline=None)
def test_any_pattern(pattern: str, texts: list[str]) -> None:
    try:
        program(translate(pattern) or "(")
        re.compile(translate(pattern) or "")
    except (Inexpressible, re.error):
        return
    assert found(pattern, texts) == expected(pattern, texts)


@pytest.mark.parametrize("pattern", ["^(?:a|ab)$", "[+-a-z]"])
def test_what_is_no_sequence_of_sets(pattern: str) -> None:
    translated = translate(pattern)
    assert translated is not None
    with pytest.raises(Inexpressible):
        program(translated)
