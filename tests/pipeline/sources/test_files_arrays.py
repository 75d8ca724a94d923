"""Arrays of any length come apart like by a JSON parser, and broken ones say where they break."""

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.sources import base, files

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\,[]{} é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\,]'), inner, max_size=3),
    max_leaves=6,
)


def taken(content: bytes, limit: int = MAX_MESSAGE) -> list[tuple[bytes, int, str]]:
    """Return each message with its position and its error."""
    batches = base.separate_too_long(files.read_array_batches("f", BytesIO(content), limit), limit)
    return [(batch.raw(i), int(batch.positions[i]), batch.error) for batch in batches for i in range(len(batch))]


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1]), st.integers(1, 9))
def test_elements_are_found_at_any_block_size(elements: list[Any], indent: int | None, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        messages = taken(b" " + json.dumps(elements, indent=indent).encode() + b"\n")
    assert [json.loads(raw) for raw, _, _ in messages] == elements
    assert messages == [(raw.strip(), number, "") for number, (raw, _, _) in enumerate(messages)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b" \n", []),
        (b"[]", []),
        (b"[ \n ] \n", []),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf \n[1]", [(b"1", 0, "")]),
        (b"\xef\xbb[1]", [(b"\xef\xbb[1]", 0, "")]),
        (b'{"a": 1}\n', [(b'{"a": 1}', 0, "")]),
        ("\ufeff[1, 2]".encode("utf-16-le"), [(b"1", 0, ""), (b"2", 1, "")]),
        ("\ufeff[1, 2".encode("utf-16-be"), [(b"1", 0, ""), (b"2", 1, "cut off")]),
        (b"[1,", [(b"1", 0, ""), (b"", 1, "cut off")]),
        (b"[", [(b"", 0, "cut off")]),
        (b'[{"a": 1}, {"b": [', [(b'{"a": 1}', 0, ""), (b'{"b": [', 1, "cut off")]),
        (b'[1, "x]', [(b"1", 0, ""), (b'"x]', 1, "cut off")]),
        (b"[1] [2]", [(b"1", 0, ""), (b"[2]", 1, "follow")]),
        (b"[]x", [(b"x", 0, "follow")]),
        (b"[1,,2]", [(b"1", 0, ""), (b"", 1, ""), (b"2", 2, "")]),
        (b"[1,]", [(b"1", 0, ""), (b"", 1, "")]),
        (b'["\\\\", "\\""]', [(b'"\\\\"', 0, ""), (b'"\\""', 1, "")]),
    ],
)
def test_damaged_arrays(content: bytes, expected: list[tuple[bytes, int, str]]) -> None:
    for message, (raw, position, word) in zip(taken(content), expected, strict=True):
        assert message[:2] == (raw, position)
        assert word in message[2]
        assert bool(word) == bool(message[2])


def test_batches_contain_each_byte_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports and progress count the bytes of batches, and a character that is cut is no text."""
    monkeypatch.setattr(files, "BLOCK", 64)
    content = json.dumps(["é" * 50] * 9, ensure_ascii=False).encode()
    batches = list(files.read_array_batches("f", BytesIO(content)))
    assert 0.9 * len(content) < sum(len(batch.content) for batch in batches) <= len(content)
    assert "".join(batch.content.decode() for batch in batches).count("é") == 450


def test_blanks_before_an_array_are_skipped_in_pieces() -> None:
    reads = 0

    class Counted(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal reads
            reads += 1
            return super().read(size)

    batches = files.read_array_batches("f", Counted(b" " * 3_000_000 + b"[1]"))
    assert [batch.raw(0) for batch in batches] == [b"1"]
    assert reads < 10


def test_depth_does_not_matter() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert [raw for raw, _, _ in taken(b"[" + deep + b", 1]")] == [deep, b"1"]


@pytest.mark.parametrize(
    ("content", "head", "words"),
    [(b'["' + b"x" * 5000, b'"x', "cut off"), (b"[1] x" + b"x" * 5000, b"x", "follow"), (b"x" * 5000, b"x", "5000")],
)
def test_endless_elements_are_cut(monkeypatch: pytest.MonkeyPatch, content: bytes, head: bytes, words: str) -> None:
    monkeypatch.setattr(files, "BLOCK", 100)
    monkeypatch.setattr(files, "KEPT", 50)
    raw, _, fault = taken(content, limit=1000)[-1]
    assert raw.startswith(head)
    assert len(raw) < 500
    assert words in fault


@given(st.lists(st.sampled_from([1, "a,]", "x" * 40, [1, ["]" * 30]]]), max_size=6), st.integers(1, 90))
def test_reading_continues_after_too_long_elements(elements: list[Any], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        messages = taken(json.dumps(elements).encode(), limit=20)
    assert [position for _, position, _ in messages] == list(range(len(elements)))
    assert [len(json.dumps(element)) > 20 for element in elements] == [
        "at most 20" in fault for _, _, fault in messages
    ]
    assert [json.loads(raw) for raw, _, _ in messages] == elements
