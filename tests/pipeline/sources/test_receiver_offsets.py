"""Offsets of what was received."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import receiver
from signalbook.pipeline.sources.brokers import ReadRequest
from signalbook.pipeline.sources.receiver import _Stream, spool_limit
from signalbook.pipeline.sources.spool import SpooledMessage


def test_a_folder_that_was_emptied_is_reported(tmp_path: Path) -> None:
    """Else nothing would be landed until as many messages as before have come, and those never."""
    request = ReadRequest(inputs=("amqp://127.0.0.1:1/a",), options={}, tasks=1, source="amqp", spool=str(tmp_path))
    stream = _Stream(request, StructType())
    try:
        with pytest.raises(PipelineError, match="has had 0 messages, and the stream has read 5: restore it"):
            stream.latestOffset({"number": 5}, ReadAllAvailable())
        assert stream.latestOffset({"number": 0}, ReadAllAvailable()) == {"number": 0}
    finally:
        stream.stop()


def test_a_folder_that_has_filled_again_is_no_other(tmp_path: Path) -> None:
    """What comes before the first look is not taken for what was there."""
    request = ReadRequest(inputs=("amqp://127.0.0.1:1/a",), options={}, tasks=1, source="amqp", spool=str(tmp_path))
    stream = _Stream(request, StructType())
    try:
        stream._opened().append([SpooledMessage(address="a", value=b"", received_at=0)] * 9)
        with pytest.raises(PipelineError, match="has had 0 messages, and the stream has read 5: restore it"):
            stream.latestOffset({"number": 5}, ReadAllAvailable())
        assert stream.latestOffset({"number": 0}, ReadAllAvailable()) == {"number": 9}
        assert stream.latestOffset({"number": 9}, ReadAllAvailable()) == {"number": 9}
    finally:
        stream.stop()


def test_large_messages_are_rows_of_batches_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a task would have a thousand of them in memory."""
    monkeypatch.setattr(receiver, "_ROWS", 3)
    monkeypatch.setattr(receiver, "_ROWS_BYTES", 100)
    request = ReadRequest(inputs=("amqp://127.0.0.1:1/a",), options={}, tasks=1, source="amqp", spool=str(tmp_path))
    stream = _Stream(request, StructType([StructField("value", BinaryType())]))
    sizes = [(60, 0), (60, 0), (1, 0), (1, 0), (1, 0), (1, 0), (0, 200), (1, 0)]
    try:
        stream._opened().append(
            [SpooledMessage(address="a", value=bytes(size), key=bytes(key), received_at=0) for size, key in sizes]
        )
        (part,) = stream.partitions({"number": 0}, {"number": len(sizes)})
        found = [[len(value) for value in batch.column(0).to_pylist()] for batch in stream.read(part)]
    finally:
        stream.stop()
    assert found == [[60, 60], [1, 1, 1], [1, 0], [1]]


@pytest.mark.parametrize("text", ["", "0", "-1", "4GiB"])
def test_a_limit_that_is_none(text: str) -> None:
    with pytest.raises(PipelineError, match="the option maxSpoolBytes is a whole number of bytes, not"):
        spool_limit({"maxSpoolBytes": text})
    assert spool_limit({}) == 4 * 1024**3
