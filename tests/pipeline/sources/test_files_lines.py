"""However a file is cut, each of its lines is read once."""

import codecs
import gzip
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.sources import base, files
from signalbook.pipeline.sources.base import Split

MARK = codecs.BOM_UTF8
CONTENT = st.lists(st.sampled_from([b"", b"a", b"bcd", b"\r", b"x" * 40]), max_size=20).map(b"\n".join)


def read(path: Path, cuts: list[int], limit: int = MAX_MESSAGE) -> list[tuple[int, bytes]]:
    size = path.stat().st_size
    bounds = [0, *sorted(cut for cut in cuts if 0 < cut < size), size]
    splits = [Split(path=str(path), start=a, end=b, limit=limit) for a, b in pairwise(bounds)]
    batches = [batch for split in splits for batch in base.separate_too_long(files.read_line_batches(split), limit)]
    return [(int(batch.positions[i]), batch.raw(i)) for batch in batches for i in range(len(batch))]


def expected(content: bytes) -> list[tuple[int, bytes]]:
    lines, offset = [], 0
    if content.startswith(MARK):
        content, offset = content.removeprefix(MARK), len(MARK)
    for text in content.removesuffix(b"\n").split(b"\n"):
        lines.append((offset, text))
        offset += len(text) + 1
    return lines


@given(
    st.tuples(st.sampled_from([b"", b"", MARK, MARK[:2]]), CONTENT).map(b"".join),
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from([1, 3, 1 << 20]),
)
@example(MARK + b"a\nb", [1], 1)
def test_splits_cover_a_file(content: bytes, cuts: list[int], block: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        path = Path(folder) / "f"
        path.write_bytes(content)
        assert read(path, cuts) == (expected(content) if content.removeprefix(MARK) else [])


def test_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(MARK + b"a\nb\n" * 1000))
    assert read(path, []) == expected(MARK + b"a\nb\n" * 1000)


@given(CONTENT, st.lists(st.integers(0, 200), max_size=5), st.sampled_from([1, 3, 1 << 20]), st.booleans())
def test_overlong_lines_are_cut(content: bytes, cuts: list[int], block: int, packed: bool) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        patch.setattr(files, "_STEP", 7)
        patch.setattr(base, "KEPT", 5)
        patch.setattr(files, "KEPT", 5)
        path = Path(folder) / ("f.gz" if packed else "f")
        path.write_bytes(gzip.compress(content) if packed else content)
        lines = read(path, [] if packed else cuts, limit=10)
        all_lines = expected(content) if content else []
        assert lines == [(offset, text if len(text) <= 10 else text[:5]) for offset, text in all_lines]


def test_a_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x\n" + b"a" * 3_000_000)
    _, batch = files.read_line_batches(Split(path=str(path), start=0, end=path.stat().st_size, limit=100_000))
    assert (len(batch.content), int(batch.positions[0]), batch.rule) == (base.KEPT, 2, "too_long")
    assert batch.error.startswith("a message of 3000000 bytes; at most 100000 are read")
