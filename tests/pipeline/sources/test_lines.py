"""However a file is cut, each of its lines is read once."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources import lines
from signalbook.pipeline.sources.base import Split

CONTENT = st.lists(st.sampled_from([b"", b"a", b"bcd", b"\r", b"x" * 40]), max_size=20).map(b"\n".join)


def read(path: Path, cuts: list[int]) -> list[tuple[int, bytes]]:
    size = path.stat().st_size
    bounds = [0, *sorted(cut for cut in cuts if 0 < cut < size), size]
    splits = [Split(path=str(path), start=a, end=b) for a, b in pairwise(bounds)]
    frames = [frame for split in splits for frame in lines.frames(split)]
    return [(int(frame.positions[i]), frame.raw(i)) for frame in frames for i in range(len(frame))]


def expected(content: bytes) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    for text in content.removesuffix(b"\n").split(b"\n"):
        found.append((offset, text))
        offset += len(text) + 1
    return found


@given(CONTENT, st.lists(st.integers(0, 200), max_size=5), st.sampled_from([1, 3, 1 << 20]))
def test_splits_cover_a_file(content: bytes, cuts: list[int], block: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        path = Path(folder) / "f"
        path.write_bytes(content)
        assert read(path, cuts) == (expected(content) if content else [])


def test_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"a\nb\n" * 1000))
    assert len(read(path, [])) == 2000


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"a\n" * 9999, mtime=0)[:-20]])
def test_a_broken_packed_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(content)
    with pytest.raises(PipelineError, match=r"cannot read .*f\.gz"):
        read(path, [])


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(lines, "BLOCK", 50)
    path = tmp_path / "f"
    path.write_bytes(b"x\n" + b"a" * 200)
    with pytest.raises(PipelineError, match="the line at byte 2 is longer than 100 bytes"):
        read(path, [])
