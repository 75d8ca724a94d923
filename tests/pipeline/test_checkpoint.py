"""Checkpoints of streams that are rebuilt from the journal."""

import shutil
from pathlib import Path

import pytest

from signalbook.pipeline import Job, PipelineError, StreamJob
from signalbook.pipeline.checkpoint import build_input_fingerprint, read_end_offsets, restore_checkpoint
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.report import Tally


class Landed:
    """A stream's checkpoint and journal, of micro-batches that end at 10, 20 and so on."""

    def __init__(self, output: Path, name: str = "s") -> None:
        self.checkpoint = output / "checkpoint"
        self.journal = Journal.open(output)
        self.stream = StreamJob(job=Job(registry="r", inputs=("i",), output=output), name=name)

    def plan(self, number: int, *, is_done: bool = True, end: int = 0) -> None:
        """Write the files that Spark writes for a planned batch."""
        self._write("offsets", number, f'v1\n{{"conf":{{"a":"b"}}}}\n{{"t":{end or number * 10 + 10}}}')
        if is_done:
            self._write("commits", number, "v1\n{}")

    def land(self, number: int, offsets: str | None = None) -> None:
        """Write the journal entry of a landed batch."""
        end = read_end_offsets(self.checkpoint, number) if offsets is None else offsets
        batch = JournalEntry(
            id=self.stream.batch_id(number), fingerprint="f", origin="o", table_format="parquet", tally=Tally(),
            files=(), seconds=0.1, stream=self.stream.name, offsets=end,
        )  # fmt: skip
        self.journal.prepare(batch)
        self.journal.commit(batch)

    def resume(self) -> str:
        """Begin once more."""
        return restore_checkpoint(self.checkpoint, self.journal, self.stream)

    def _write(self, kind: str, number: int, content: str) -> None:
        (self.checkpoint / kind).mkdir(parents=True, exist_ok=True)
        (self.checkpoint / kind / str(number)).write_text(content)


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    return Landed(tmp_path)


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_consistent_checkpoint_is_unchanged(landed: Landed, count: int, is_done: bool) -> None:
    """Also of a driver that died between the journal's commit and Spark's, or before the journal's."""
    for number in range(count):
        landed.plan(number, is_done=is_done or number < count - 1)
        landed.land(number)
    landed.plan(count, is_done=False)
    assert landed.resume() == ""


@pytest.mark.parametrize("planned", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 12])
def test_lost_checkpoint_is_recreated(landed: Landed, count: int, planned: int) -> None:
    for number in range(count):
        landed.plan(number)
        landed.land(number)
    origins = [build_input_fingerprint(landed.checkpoint, number) for number in range(count)]
    shutil.rmtree(landed.checkpoint)
    for number in range(min(planned, count - 1)):
        landed.plan(number)
    assert landed.resume() == f"s-{count - 1:09d}"
    assert read_end_offsets(landed.checkpoint, count - 1) == f'{{"t":{count * 10}}}'
    assert (landed.checkpoint / "commits" / str(count - 1)).is_file()
    assert count == 2 or build_input_fingerprint(landed.checkpoint, count - 1) == origins[-1]
    assert not list(landed.checkpoint.rglob("*.new"))
    assert landed.resume() == ""


def test_unfinished_first_write_is_removed(landed: Landed) -> None:
    """Spark does not start where there is anything beside the offsets of its first batch."""
    offsets = landed.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    for name in (".0.cc2c244e.tmp", "..0.cc2c244e.tmp.crc"):
        (offsets / name).touch()
    assert landed.resume() == ""
    assert list(offsets.iterdir()) == []


def test_checkpoint_ahead_of_the_journal_is_an_error(landed: Landed) -> None:
    """The stream does not skip what the journal has lost."""
    landed.plan(0)
    with pytest.raises(PipelineError, match=r"there are none.: remove .*checkpoint, and the stream goes on"):
        landed.resume()
    landed.land(0)
    landed.plan(1)
    with pytest.raises(PipelineError, match=r"the last one is s-000000000.: remove"):
        landed.resume()


def test_differing_checkpoint_is_an_error(landed: Landed) -> None:
    landed.plan(0)
    landed.land(0)
    landed.plan(0, end=7)
    with pytest.raises(PipelineError, match="does not fit its landed batches"):
        landed.resume()


def test_a_journal_of_a_former_program_makes_no_checkpoint(landed: Landed) -> None:
    landed.land(0, offsets="")
    assert landed.resume() == ""
    assert not landed.checkpoint.exists()


def test_batches_of_other_streams_are_theirs(tmp_path: Path) -> None:
    other = Landed(tmp_path, name="s-000000007")
    other.plan(0)
    other.land(0)
    shutil.rmtree(other.checkpoint)
    assert Landed(tmp_path).resume() == ""
    assert other.resume() == "s-000000007-000000000"
