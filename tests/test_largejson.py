"""Large JSON texts, decoded in steps: the same values and refusals as at once."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook import largejson
from signalbook.largejson import LARGE, parse_large_json, parse_untrusted_json
from signalbook.values import JSONError, TooManyValues, parse_json

TEXTS = st.sampled_from(["", "a,b]", 'q"\\', "é{[", '\\"' * 3, "x" * 40, "\\u00e9"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)
STRAY = st.sampled_from([bytes([byte]) for byte in b'[]{},:"\\ 1an\xff'])


@pytest.fixture(autouse=True, scope="module")
def small_windows() -> Any:
    """Make the windows so small that strings and escapes are divided as in a large text."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(largejson, "_WINDOW", 17)
        yield


def outcome(decode: Any, text: bytes, **options: int) -> tuple[str, Any]:
    """The value, with the order of its members, or that there is none."""
    try:
        return "value", json.dumps(decode(text, unique=True, **options))
    except JSONError:
        return "error", None


@given(VALUES, st.sampled_from([None, 1]), st.booleans(), st.sampled_from([0, 3, 20]))
def test_the_same_values(value: Any, indent: int | None, escaped: bool, step: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped).encode()
    assert parse_large_json(text, step=step) == parse_json(text)


@given(VALUES, st.integers(0, 200), st.integers(0, 2), STRAY, st.sampled_from([0, 3, 20]))
def test_the_same_refusals(value: Any, at: int, cut: int, stray: bytes, step: int) -> None:
    """The text has missing, additional or changed bytes, and may still be valid JSON."""
    text = json.dumps(value).encode()
    broken = text[:at] + stray + text[at + cut :]
    assert outcome(parse_large_json, broken, step=step) == outcome(parse_json, broken)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": [1, 2, 3, 4], "b": [1, 2, nul]}', "byte 36"),
        (b'{"a": [1, 2, 3, 4], "b": {}, "a": 5}', "'a' twice"),
        (b'{"a": {"b": [[]], "b": [[]]}}', "'b' twice"),
        (b'{"a": [1, 2, 3, 4', "truncated"),
        (b'{"a": "bcdefghijklmnopqrstuvwxyz', "truncated"),
        (b'"bcdefghijklmnopqrstuvwxyz\\', "truncated"),
        (b"[1, 2, 3] 4", "trailing"),
        (b"[1, 2, 3, ]", "byte 10"),
        (b"[1, 2, 3}", "byte 8"),
        (b"]", "byte 0"),
        (b"4 [1]", "byte 0"),
        (b"[[1, 2, 3] [1, 2, 3]]", "byte 11"),
        (b"[[1, 2, 3] 5, 4]", "byte 10"),
        (b'{"a": 1[1, 2, 3]}', "byte"),
        (b"[\xff, 1, 2, 3, 4, 5]", "byte 1"),
    ],
)
def test_error_has_its_position(text: bytes, says: str) -> None:
    with pytest.raises(JSONError, match=says):
        parse_large_json(text, unique=True, step=3)


def test_bounds() -> None:
    """Characters in strings do not count; an array of n values has n - 1 commas and a bracket."""
    text = b'{"a": ["[[[[[[[,,,,,,,", [[1, 2, 3]]]}'
    assert parse_large_json(text, max_depth=4, max_values=7) == parse_json(text)
    with pytest.raises(JSONError, match="nested deeper than 3 levels"):
        parse_large_json(text, max_depth=3)
    with pytest.raises(TooManyValues, match="more than 6 values"):
        parse_large_json(text, max_values=6)


@pytest.mark.parametrize("size", [10, LARGE + 1])
def test_any_size(size: int) -> None:
    """Small texts at once, large ones in steps, with the same bounds."""
    text = b"[" + b"1," * (size // 2) + b"1]"
    assert parse_untrusted_json(text) == [1] * (size // 2 + 1)
    with pytest.raises(TooManyValues):
        parse_untrusted_json(text, max_values=3)
    with pytest.raises(JSONError, match="twice"):
        parse_untrusted_json(b'{"a": %b, "a": 1}' % text, unique=True)


def test_decoding_is_divided_into_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece that is decoded holds up all other threads."""
    monkeypatch.setattr(largejson, "_WINDOW", 1 << 20)
    pieces: list[int] = []

    def decode(text: bytes, **options: Any) -> Any:
        pieces.append(len(text))
        return parse_json(text, **options)

    monkeypatch.setattr(largejson, "parse_json", decode)
    chosen = random.Random(1)
    value: Any = {f"k{n}": "v" * chosen.randrange(50) for n in range(5000)}
    for _ in range(5):
        value = {"first": value, "then": [value, 1], "last": list(range(3000))}
    text = json.dumps(value).encode()
    assert parse_large_json(text) == value
    assert len(text) > 20 * largejson._STEP_BYTES
    assert max(pieces) < 2 * largejson._STEP_BYTES
