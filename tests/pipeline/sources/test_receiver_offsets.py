"""Offsets of what was received."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import receiver
from signalbook.pipeline.sources.brokers import ReadRequest
from signalbook.pipeline.sources.receiver import _Stream, parse_spool_limit
from signalbook.pipeline.sources.spool import SpooledMessage


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[_Stream]:
    request = ReadRequest(inputs=("amqp://127.0.0.1:1/a",), options={}, tasks=1, source="amqp", spool=str(tmp_path))
    opened = _Stream(request, StructType([StructField("value", BinaryType())]))
    yield opened
    opened.stop()


@pytest.mark.parametrize("count", [0, 9])
def test_a_folder_that_was_emptied_is_reported(stream: _Stream, count: int) -> None:
    """Else nothing would be landed until as many messages as before have come, and those never.

    What comes before the first look is not taken for what was there.
    """
    if count:
        stream._open_spool().append([SpooledMessage(address="a", value=b"", received_at=0)] * count)
    with pytest.raises(PipelineError, match="has had 0 messages, and the stream has read 5: restore it"):
        stream.latestOffset({"number": 5}, ReadAllAvailable())
    for start in (0, count):
        assert stream.latestOffset({"number": start}, ReadAllAvailable()) == {"number": count}


def test_large_messages_have_their_own_batches(stream: _Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a task would have a thousand of them in memory."""
    monkeypatch.setattr(receiver, "_ROWS", 3)
    monkeypatch.setattr(receiver, "_ROWS_BYTES", 100)
    sizes = [(60, 0), (60, 0), (1, 0), (1, 0), (1, 0), (1, 0), (0, 200), (1, 0)]
    messages = [SpooledMessage(address="a", value=bytes(size), key=bytes(key), received_at=0) for size, key in sizes]
    stream._open_spool().append(messages)
    (part,) = stream.partitions({"number": 0}, {"number": len(sizes)})
    batch_sizes = [[len(value) for value in batch.column(0).to_pylist()] for batch in stream.read(part)]
    assert batch_sizes == [[60, 60], [1, 1, 1], [1, 0], [1]]


@pytest.mark.parametrize("text", ["", "0", "-1", "4GiB"])
def test_invalid_spool_limit_is_rejected(text: str) -> None:
    with pytest.raises(PipelineError, match="the option maxSpoolBytes is a whole number of bytes, not"):
        parse_spool_limit({"maxSpoolBytes": text})
    assert parse_spool_limit({}) == 4 * 1024**3
