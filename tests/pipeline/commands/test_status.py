"""What is shown of streams."""

from __future__ import annotations

from pathlib import Path

from signalbook.pipeline import status
from signalbook.pipeline.commands import stream
from signalbook.pipeline.commands.status import home
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.reports.report import Tally


def test_a_stream_whose_folder_is_full(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    batch = JournalEntry(
        id="s-1", fingerprint="f", origin="o", table_format="parquet", tally=Tally(), files=(), seconds=0.1, stream="s"
    )
    journal.prepare(batch)
    journal.commit(batch)
    place = home(journal, "s") / "received" / "full"
    place.parent.mkdir(parents=True)
    told: list[str] = []
    full = False
    for there in (False, True, True, False):
        place.touch() if there else place.unlink(missing_ok=True)
        full = stream._look(journal, "s", told.append, full)
        (state,) = status(tmp_path).streams
        assert full is state.full is there is ("full" in state.to_json())
    assert [words.partition(": ")[0] for words in told] == ["the stream s is behind", "the stream s receives again"]
