"""Compressed files: recognised by their first bytes, read in pieces, never with much memory."""

import bz2
import gzip
import io
import lzma
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import pytest
import zstandard

from signalbook.pipeline.sources.compression import (
    BROKEN,
    SIGNATURE_BYTES,
    Compression,
    detect_compression,
    has_compressed_name,
    remove_compressed_suffix,
)

CONTENT = b"".join(b"line %d\n" % number for number in range(50_000))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zstd": zstandard.compress,
}
MEBIBYTE = 1 << 20


def detected(path: str, content: bytes) -> Compression:
    compression = detect_compression(path, content[:SIGNATURE_BYTES])
    assert compression is not None
    return compression


def read_all(compressed: bytes, path: str = "f") -> bytes:
    """Return what ``read1`` returns piece by piece."""
    file = detected(path, compressed).open(io.BytesIO(compressed))
    return b"".join(iter(lambda: file.read1(5000), b""))


@pytest.mark.parametrize("name", COMPRESS)
def test_detection_by_the_first_bytes(name: str) -> None:
    for content in (b"", CONTENT):
        compression = detected("events.jsonl", COMPRESS[name](content))
        assert compression.name == name
        assert has_compressed_name(f"events.jsonl{compression.suffix}")
        assert remove_compressed_suffix(f"events.jsonl{compression.suffix}") == "events.jsonl"


@pytest.mark.parametrize(
    "head", [b"", b"{}", b"[", b"Obj\x01", b"BZh9 is text", b"\x1f\x8bx", b"\n\x0a\x01a", b"\xff\xfe"]
)
def test_other_first_bytes(head: bytes) -> None:
    assert detect_compression("events.jsonl", head) is None
    assert detected("events.jsonl.xz", head).name == "xz"


def test_the_first_bytes_count_more_than_the_name() -> None:
    assert detected("events.gz", zstandard.compress(CONTENT)).name == "zstd"


@pytest.mark.parametrize("name", COMPRESS)
def test_reading_of_one_stream_and_of_several(name: str) -> None:
    compress = COMPRESS[name]
    assert read_all(compress(CONTENT)) == CONTENT
    assert read_all(compress(b"")) == b""
    assert read_all(compress(CONTENT) + compress(b"") + compress(b"end")) == CONTENT + b"end"
    assert read_all(compress(CONTENT) + bytes(8)) == CONTENT


def test_skippable_zstd_frame_is_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"size"
    assert read_all(skippable + zstandard.compress(CONTENT)) == CONTENT


@pytest.mark.parametrize("name", COMPRESS)
def test_damage(name: str) -> None:
    """A file that is cut off, other bytes behind it, and bytes that changed; what is before them is read."""
    compressed = COMPRESS[name](CONTENT)
    for damaged in (compressed[:-1], compressed + b"other bytes", compressed[:-5] + b"\xff\x00\xff\x00\xff"):
        with pytest.raises(BROKEN):
            read_all(damaged)


@pytest.mark.parametrize("name", COMPRESS)
def test_seeking(name: str) -> None:
    compressed = COMPRESS[name](CONTENT)
    file = detected("f", compressed).open(io.BytesIO(compressed))
    for offset in (0, 3, 200_000, 100_000, 0, 400_000):
        file.seek(offset)
        assert CONTENT.startswith(file.read1(10), offset)


@pytest.mark.parametrize("name", COMPRESS)
def test_a_small_file_of_very_many_bytes_takes_little_memory(name: str) -> None:
    """128 MiB of zeros are read in pieces; a piece of zstd may take 32 MiB."""
    bomb = COMPRESS[name](bytes(128 * MEBIBYTE))
    file = detected("f", bomb).open(io.BytesIO(bomb))
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in iter(lambda: file.read1(MEBIBYTE), b""))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 128 * MEBIBYTE
    assert peak < 80 * MEBIBYTE


def test_excessive_decompression_memory_is_an_error() -> None:
    """A window of 1 GiB of zstd, a dictionary of 512 MiB of xz."""
    window = zstandard.ZstdCompressionParameters(window_log=30)
    zstd = zstandard.ZstdCompressor(compression_params=window).compressobj()
    with pytest.raises(BROKEN, match="memory"):
        read_all(zstd.compress(CONTENT) + zstd.flush())
    # the filter's properties are one byte: 0x22 is 512 MiB (the xz file format 5.3.1)
    header = b"\x02\x00\x21\x01\x22\x00\x00\x00"
    xz = lzma.compress(CONTENT)
    xz = xz[:12] + header + zlib.crc32(header).to_bytes(4, "little") + xz[24:]
    with pytest.raises(BROKEN, match=r"[Mm]emory"):
        read_all(xz)
