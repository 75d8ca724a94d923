"""What is shown of streams."""

from pathlib import Path

import pytest
from tests.pipeline.s3 import place

from signalbook.pipeline import PipelineError, Place, status
from signalbook.pipeline.commands import stream
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.report import Tally
from signalbook.pipeline.sources import spool
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage


def streamed(output: Place) -> Journal:
    """An output with a batch of the stream ``s``."""
    journal = Journal.open(output)
    batch = JournalEntry(
        id="s-1", fingerprint="f", origin="o", table_format="parquet", tally=Tally(), files=(), seconds=0.1, stream="s"
    )
    with journal.lock_output():
        journal.prepare(batch)
        journal.commit(batch)
    return journal


@pytest.mark.parametrize("kind", ["local", "s3proxy"])
def test_a_stream_whose_spool_is_full(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_LOOK", 0.0)
    monkeypatch.setattr(stream, "_LOOK_REQUEST", 0.0)
    output = place(kind, tmp_path, request)
    journal = streamed(output)
    message = SpooledMessage(address="a", value=b"", received_at=0)
    warnings: list[str] = []
    watch = stream._SpoolWatch(journal, "s", warnings.append)
    with MessageSpool(output / "streams/s/received", limit=1) as opened:
        for full in (False, True, True, False):
            opened.trim(opened.end)
            opened.append([message] * (1 + full))
            watch.check()
            (state,) = status(output).streams
            assert state.full is full is ("full" in state.to_json())
    assert [words.partition(": ")[0] for words in warnings] == ["the stream s is behind", "the stream s receives again"]


def test_error_names_the_store_of_an_unreadable_spool(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = place("s3proxy", tmp_path, request)
    streamed(output)

    def failing(_: object) -> bool:
        raise OSError(5, "the store answers 503", "s3://b/out/full")

    monkeypatch.setattr(spool, "is_full", failing)
    with pytest.raises(PipelineError, match="the store answers 503"):
        status(output)
