"""Files that are damaged, or in other encodings, or cannot be read: what is whole is read, the rest is named."""

import codecs
import errno
import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.s3 import SERVERS, place
from tests.pipeline.sources.test_avro import block, container, header
from tests.pipeline.sources.test_compression import COMPRESS
from tests.pipeline.sources.test_protobuf import EVENTS, delimited

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace, Place, Storage, StorePlace, place_of
from signalbook.pipeline.sources import avro, input_file
from signalbook.pipeline.sources.avro import CONTAINER, FileWindow, read_blocks, read_header
from signalbook.pipeline.sources.base import DAMAGED, UNREADABLE, DamagedFile, FileSource, Split, read_split
from signalbook.pipeline.sources.files import BATCH, JSONL
from signalbook.pipeline.sources.inputs import plan_tasks
from signalbook.pipeline.sources.protobuf import BATCH as PROTOBUF_BATCH
from signalbook.pipeline.sources.protobuf import STREAM

LINES = b"".join(b'{"n": %d, "x": "%s"}\n' % (n, Random(n).randbytes(30).hex().encode()) for n in range(200))
ARRAY = b"[" + LINES.strip().replace(b"\n", b",\n") + b"]"
# Of each format a file, which packed is no multiple of anything.
FILES: dict[str, tuple[Any, bytes]] = {
    "lines": (JSONL, LINES),
    "array": (BATCH, ARRAY),
    "avro": (CONTAINER, container(200, interval=300)),
    "protobuf": (STREAM, delimited(*EVENTS * 30)),
    "protobuf batch": (PROTOBUF_BATCH, delimited(*EVENTS * 30, tag=b"\x0a")),
}


class Found:
    """The content read from a file: its messages, and the damages with position, bytes, rule and text."""

    def __init__(self, source: FileSource, path: Path | Place, *, cuts: int = 1, stop: bool = False) -> None:
        place = place_of(path)
        size, storage = place.find_size(), place.storage if isinstance(place, StorePlace) else Storage()
        bounds = [(size * n // cuts, size * (n + 1) // cuts) for n in range(cuts)]
        tasks = [Split(path=str(place), start=start, end=end, storage=storage) for start, end in bounds]
        batches = [batch for split in tasks for batch in read_split(source, split, stop=stop)]
        sound = [batch for batch in batches if not batch.error]
        self.messages = [batch.raw(n) for batch in sound for n in range(len(batch))]
        broken = [batch for batch in batches if batch.error]
        self.damage = [(int(batch.positions[0]), batch.raw(0), batch.rule, batch.error) for batch in broken]


@pytest.mark.parametrize("kind", FILES)
def test_messages_before_the_end_of_a_truncated_file_are_read(kind: str, tmp_path: Path) -> None:
    """Wherever they are: messages before are read, and one that is none says from where on there are none."""
    source, content = FILES[kind]
    path = tmp_path / "f.gz"
    path.write_bytes(packed := gzip.compress(content))
    whole = Found(source, path)
    assert len(whole.messages) > 100
    assert whole.damage == []
    for cut in [1, 30, *range(100, len(packed), max(len(packed) // 40, 1)), len(packed) - 1]:
        path.write_bytes(packed[:cut])
        truncated = Found(source, path)
        assert truncated.messages == whole.messages[: len(truncated.messages)]
        ((position, last_bytes, rule, words),) = truncated.damage
        assert "damaged" in words or "cut off" in words
        assert rule == DAMAGED or not truncated.messages
        if kind == "lines":
            assert (
                b"".join(raw + b"\n" for raw in truncated.messages) + last_bytes
                == content[: position + len(last_bytes)]
            )
        with pytest.raises(PipelineError, match=r"cannot read .*f\.gz"):
            Found(source, path, stop=True)
    assert len(truncated.messages) >= len(whole.messages) - 1, "only the checksum was cut off"


def test_a_packed_file_whose_checksum_is_another(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(LINES)[:-8] + b"x" * 8)
    content = Found(JSONL, path)
    assert len(content.messages) == 200
    assert [(position, damaged, rule) for position, damaged, rule, _ in content.damage] == [(len(LINES), b"", DAMAGED)]
    assert "CRC" in content.damage[0][3]


def test_invalid_gzip_file_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(b"no gzip")
    content = Found(JSONL, path)
    assert content.messages == []
    assert [(position, rule) for position, _, rule, _ in content.damage] == [(0, UNREADABLE)]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("compression", COMPRESS)
def test_compression_is_detected_by_content(kind: str, compression: str, tmp_path: Path) -> None:
    """Every source reads them whole in the first of its splits, and up to where they are cut off."""
    source, content = FILES[kind]
    compressed = COMPRESS[compression](content)
    plain, path = tmp_path / "plain", tmp_path / "f"
    plain.write_bytes(content)
    path.write_bytes(compressed)
    file_content = Found(source, path, cuts=3 if source.divisible else 1)
    assert (file_content.messages, file_content.damage) == (Found(source, plain).messages, [])
    path.write_bytes(compressed[:-1])
    file_content = Found(source, path)
    assert file_content.messages == Found(source, plain).messages[: len(file_content.messages)]
    assert [rule for _, _, rule, _ in file_content.damage] in ([DAMAGED], [UNREADABLE])
    assert f"damaged {compression}" in file_content.damage[0][3] or "cut off" in file_content.damage[0][3]


@given(
    st.lists(st.text(st.characters(exclude_characters="\n")), max_size=8),
    st.sampled_from(["utf-16-le", "utf-16-be"]),
    st.booleans(),
    st.integers(1, 4),
)
def test_utf_16_with_a_mark_is_read_as_utf_8(texts: list[str], encoding: str, pack: bool, cuts: int) -> None:
    content = ("\ufeff" + "".join(text + "\n" for text in texts)).encode(encoding)
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("f.gz" if pack else "f")
        path.write_bytes(gzip.compress(content) if pack else content)
        file_content = Found(JSONL, path, cuts=1 if pack else cuts)
    assert file_content.messages == [text.encode() for text in texts]
    assert file_content.damage == []


def test_lone_surrogate_damages_only_its_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(codecs.BOM_UTF16_LE + "a\n".encode("utf-16-le") + b"\x00\xd8" + "\nb\n".encode("utf-16-le"))
    assert Found(JSONL, path).messages == [b"a", b"\xed\xa0\x80", b"b"]
    path.write_bytes(codecs.BOM_UTF16_LE + "a\nb".encode("utf-16-le") + b"c")
    content = Found(JSONL, path)
    assert (content.messages, content.damage[0][:3]) == ([b"a"], (2, b"b", DAMAGED))
    assert "ends inside of a character" in content.damage[0][3]


@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("source", [JSONL, BATCH], ids=["lines", "array"])
def test_utf_32_is_named(source: FileSource, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("\ufeff{}\n".encode(encoding))
    ((_, _, rule, words),) = Found(source, path).damage
    assert (rule, words) == (UNREADABLE, "the text is UTF-32: give it as UTF-8")


class Failing(io.RawIOBase):
    """A file that has ``content``, and then fails."""

    def __init__(self, content: bytes, error: OSError) -> None:
        self._file = io.BytesIO(content)
        self._error = error

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._file.read(min(size, 100))
        if not chunk:
            raise self._error
        return chunk

    def seek(self, place: int, whence: int = 0, /) -> int:
        return self._file.seek(place, whence)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bytes, OSError], Path]:
    """Makes a file that fails behind some bytes, or at once; tests may run as root, who may read everything."""

    def make(content: bytes, error: OSError) -> Path:
        def fail(_: LocalPlace) -> Any:
            if not content:
                raise error
            return Failing(content, error)

        monkeypatch.setattr(LocalPlace, "open", fail)
        (tmp_path / "f").write_bytes(LINES)
        return tmp_path / "f"

    return make


@pytest.mark.parametrize("number", [errno.EACCES, errno.EISDIR])
def test_unreadable_file_is_damaged_or_an_error(failing: Callable[[bytes, OSError], Path], number: int) -> None:
    error = OSError(number, os.strerror(number))
    content = Found(JSONL, failing(LINES[:1000], error))
    assert b"".join(raw + b"\n" for raw in content.messages) + content.damage[0][1] == LINES[:1000]
    assert content.damage[0][2:] == (DAMAGED, os.strerror(number))
    path = failing(b"", error)
    expected = [(start, b"", UNREADABLE, os.strerror(number)) for start in (0, len(LINES) // 2)]
    assert Found(JSONL, path, cuts=2).damage == expected
    with pytest.raises(PipelineError, match=rf"cannot read .*/f: {os.strerror(number)}"):
        Found(JSONL, path, stop=True)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ETIMEDOUT, errno.ECONNRESET, errno.ESTALE, errno.EIO])
def test_passing_errors_are_tried_again(failing: Callable[[bytes, OSError], Path], number: int) -> None:
    """A worker that does not see the file, or a network, for which mounted buckets say EIO: Spark tries again."""
    for content in (b"", LINES[:1000]):
        with pytest.raises(PipelineError, match=r"cannot read .*/f") as caught:
            Found(JSONL, failing(content, OSError(number, os.strerror(number))))
        assert not isinstance(caught.value, DamagedFile)


@pytest.mark.parametrize("server", SERVERS)
def test_files_in_stores_are_read_as_those_on_disk(
    server: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read in ranges, compressed, in parts, in UTF-16 and damaged; a missing file fails the task."""
    monkeypatch.setattr(input_file, "_REQUEST", 1000)
    monkeypatch.setattr(input_file, "_LOOK", 100)
    home = place(server, tmp_path, request)
    packed = gzip.compress(LINES)
    contents = {"a.jsonl": LINES, "b.gz": packed, "c.gz": packed[:-100], "d": LINES.decode().encode("utf-16")}
    for name, content in contents.items():
        (home / name).write(content)
        (tmp_path / name).write_bytes(content)
        cuts = 3 if name in "ad.jsonl" else 1
        there, here = Found(JSONL, home / name, cuts=cuts), Found(JSONL, tmp_path / name, cuts=cuts)
        assert (there.messages, there.damage) == (here.messages, here.damage)
    (home / "e.avro").write(FILES["avro"][1])
    assert len(Found(CONTAINER, home / "e.avro", cuts=4).messages) == 200
    storage = home.storage if isinstance(home, StorePlace) else Storage()
    gone = Split(path=str(home / "gone.jsonl"), start=0, end=5, storage=storage)
    with pytest.raises(PipelineError, match=r"cannot read \w+://.*/gone\.jsonl"):
        list(read_split(JSONL, gone))


@given(
    st.binary(max_size=200),
    st.lists(st.tuples(st.booleans(), st.integers(0, 250)), max_size=8),
    st.integers(1, 50),
    st.integers(1, 50),
)
def test_reading_ahead_is_reading(content: bytes, steps: list[tuple[bool, int]], request_size: int, look: int) -> None:
    """Whatever is read and sought, it is what the file has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_file, "_REQUEST", request_size)
        patch.setattr(input_file, "_LOOK", look)
        plain, ahead = io.BytesIO(content), input_file.ReadAhead(io.BytesIO(content))
        for seeks, number in steps:
            if seeks:
                assert ahead.seek(number) == plain.seek(number)
            else:
                assert ahead.read(number) == plain.read(number)
        ahead.close()


class Counted(io.BytesIO):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.requests: list[int] = []

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size)
        self.requests += [len(chunk)] if chunk else []
        return chunk


@pytest.mark.parametrize(("size", "requests", "share"), [(300, 20, 1.1), (20_000, 150, 0.2)], ids=["small", "large"])
def test_blocks_are_counted_cheaply(size: int, requests: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones are read over, large ones are not read, and nothing is read twice."""
    monkeypatch.setattr(input_file, "_REQUEST", 4000)
    monkeypatch.setattr(input_file, "_LOOK", 100)
    monkeypatch.setattr(avro, "_USUAL_HEADER", 2000)
    blocks = [block(n, bytes(size)) for n in range(120)]
    content = header() + b"".join(blocks)
    file = Counted(content)
    ahead = input_file.ReadAhead(file)
    window = FileWindow(ahead)
    start = len(content) - sum(map(len, blocks[115:]))
    blocks_ = list(read_blocks(window, read_header("f", window), start, len(content)))
    ahead.close()
    assert [(number, block_.count) for number, block_ in blocks_] == [(sum(range(n)), n) for n in range(115, 120)]
    assert len(file.requests) <= requests
    assert sum(file.requests) < share * len(content)


def test_error_of_a_read_ahead_is_raised_at_its_bytes() -> None:
    ahead = input_file.ReadAhead(Failing(b"x" * 10, OSError(errno.EIO, "down")))  # type: ignore[arg-type]
    assert ahead.read(10) == b"x" * 10
    with pytest.raises(OSError, match="down"):
        ahead.read(1)
    ahead.close()


def test_parts_of_a_file_share_its_mark(tmp_path: Path) -> None:
    """Tasks divide large files into such parts."""
    path = tmp_path / "f.jsonl"
    path.write_bytes(("\ufeff" + LINES.decode()).encode("utf-16-le"))
    tasks = plan_tasks(JSONL, [(str(path), path.stat().st_size)], 1)
    assert sum(len(batch) for task in tasks for split in task for batch in read_split(JSONL, split)) == 200
