"""A batch is prepared, then committed, and never in between."""

import json
import shutil
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.s3 import place

from signalbook.messages import Policy
from signalbook.pipeline.errors import PipelineError, Stopped
from signalbook.pipeline.job.tasks import settle_columns
from signalbook.pipeline.journal import DataFile, Journal, JournalEntry
from signalbook.pipeline.report import Tally
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName

FILE = DataFile(table=TableName("g", "m"), staged="s/f", name="f", rows=2, bytes=9)


def batch(id: str = "b1") -> JournalEntry:
    tally = Tally(read=2, landed=Counter({"/messagegroups/g/messages/m": 2}))
    return JournalEntry(
        id=id, fingerprint="f", origin="o", table_format="parquet", tally=tally, files=(FILE,), seconds=0.5
    )


@pytest.mark.parametrize("id", ["b1", "../b1", "a/b", "ü"])
def test_an_entry_reads_back(tmp_path: Path, id: str) -> None:
    journal = Journal.open(tmp_path / "out")
    assert journal.find(id) is None
    journal.prepare(batch(id))
    assert (journal.list_unfinished(), journal.find(id)) == ([batch(id)], None)
    journal.commit(batch(id))
    assert (journal.list_unfinished(), journal.find(id)) == ([], batch(id))
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["batches"]


def test_news_are_in_the_order_of_their_commits(tmp_path: Path) -> None:
    """Also of batches that are committed faster than the clock of a file system ticks."""
    journal = Journal.open(tmp_path)
    names = [f"{number:03}" for number in reversed(range(100))]
    land(journal, *map(batch, names))
    assert journal.list_new(()) == names
    assert journal.list_new(names[:98]) == names[98:]


def land(journal: Journal, *entries: JournalEntry) -> None:
    for entry in entries:
        journal.prepare(entry)
        journal.commit(entry)


def test_concurrent_runs_are_rejected(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    with journal.lock_output(), pytest.raises(PipelineError, match="another run"), Journal.open(tmp_path).lock_output():
        pass
    with journal.lock_output():
        pass


def test_waiting_for_another_run_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    journal = Journal.open(tmp_path)
    with journal.lock_output(600.0, stop):
        threading.Timer(0.1, stop.set).start()
        with pytest.raises(Stopped), Journal.open(tmp_path).lock_output(600.0, stop):
            pass
    with journal.lock_output(600.0, stop):  # nobody has to be waited for
        pass


def test_staged_files_of_dead_runs_go(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    (journal.make_staging("x") / "f").write(b"")
    journal.sweep()
    assert not list(tmp_path.rglob("f"))


def test_invalid_output_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(PipelineError, match="cannot write to"):
        Journal.open(tmp_path / "out")


def test_unusable_lock_file_is_an_error_before_the_first_run(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(PipelineError, match="cannot write to"):
        Journal.open(tmp_path)


def test_a_broken_entry_is_named(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    (tmp_path / "batches" / "b1.json").write_text("{")
    with pytest.raises(PipelineError, match=r"b1\.json"):
        journal.find("b1")


def test_an_entry_of_a_former_program(tmp_path: Path) -> None:
    tally = {"read": 2, "dropped": 0, "dead_lettered": 0, "landed": {"/x": 2}, "rejected": {}, "reasons": {}}
    entry = {"id": "b1", "fingerprint": "f", "origin": "o", "table_format": "parquet", "files": [], "seconds": 0.5}
    journal = Journal.open(tmp_path)
    (tmp_path / "batches" / "b1.json").write_text(json.dumps(entry | {"tally": tally}))
    stored_entry = journal.find("b1")
    assert stored_entry is not None
    assert (stored_entry.report().landed, stored_entry.report().finished) == (2, None)


def test_totals_have_to_add_up() -> None:
    batch().check()
    lost = batch()
    lost.tally.read = 3
    with pytest.raises(PipelineError, match="do not add up: 3 messages read, but 2 rows landed"):
        lost.check()


def test_dead_letters_are_counted_apart() -> None:
    tally = Tally(read=2)
    tally.reject("no_match")
    tally.reject("schema_violation", ["/messagegroups/g/messages/m"])
    dead = DataFile(table=DEAD_LETTERS, staged="s/d", name="d", rows=2, bytes=9)
    entry = JournalEntry(
        id="b", fingerprint="", origin="", table_format="iceberg", tally=tally, files=(dead,), seconds=1.0
    )
    entry.check()
    report = entry.report().to_json()
    counts = report["by_message"]["/messagegroups/g/messages/m"]
    assert (counts["landed"], counts["rejected"], counts["reasons"]) == (0, 1, {"schema_violation": 1})
    assert report["bytes"]["written"] == 9
    assert report["reasons"] == {"no_match": 1, "schema_violation": 1}
    assert (report["read"], report["landed"], report["dead_lettered"], report["dropped"]) == (2, 0, 2, 0)


def test_a_replay_takes_letters_out_of_files() -> None:
    """A replay selects two of three letters: one lands and one is unchanged."""
    old = DataFile(table=DEAD_LETTERS, staged="", name="old", rows=3, bytes=9)
    new = DataFile(table=DEAD_LETTERS, staged="s/new", name="new", rows=2, bytes=9)
    landed = DataFile(table=TableName("g", "m"), staged="s/f", name="f", rows=1, bytes=9)
    tally = Tally(read=2, landed=Counter({"/messagegroups/g/messages/m": 1}))
    tally.reject("no_match")
    entry = replace(batch(), tally=tally, files=(landed, new), removed=(old,), replayed=2)
    entry.check()
    with pytest.raises(PipelineError, match="do not add up"):
        replace(entry, files=(landed, replace(new, rows=3))).check()


def test_files_that_others_stand_for_are_no_files_of_a_table(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    for name in ("f", "g"):
        (tmp_path / "tables" / "g" / "m").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tables" / "g" / "m" / name).touch()
    land(journal, batch("b1"), replace(batch("b2"), files=(replace(FILE, name="g"),), removed=(FILE,)))
    assert journal.find_files() == {FILE.table: [replace(FILE, name="g")]}
    assert journal.find_files(lambda table: table == DEAD_LETTERS) == {}


def test_columns_are_as_they_were_decided_last(tmp_path: Path) -> None:
    """Tables that are there go on as they are, unless a policy says otherwise; new ones have columns of their types."""
    journal = Journal.open(tmp_path)
    assert settle_columns(Policy(), journal).columns == "typed"
    land(journal, batch("b1"))  # as former programs wrote them
    assert settle_columns(Policy(), journal).columns == "as_sent"
    assert settle_columns(Policy(columns="typed"), journal).columns == "typed"
    other = Journal.open(tmp_path / "other")
    land(other, replace(batch("b1"), columns="typed"))
    assert settle_columns(Policy(), other).columns == "typed"


def test_columns_follow_the_last_landed_batch(tmp_path: Path) -> None:
    """Whatever names batches have: one that had other columns is followed, or tables would alternate."""
    journal = Journal.open(tmp_path)
    land(journal, *(batch(str(number)) for number in reversed(range(1, 10))), replace(batch("0"), columns="typed"))
    land(journal, replace(batch("5x"), files=(replace(FILE, table=DEAD_LETTERS),)))
    assert settle_columns(Policy(), journal).columns == "typed"


@pytest.mark.parametrize("server", ["local", "s3proxy"])
def test_failure_before_a_batch_leaves_nothing(tmp_path: Path, request: pytest.FixtureRequest, server: str) -> None:
    """A new output is removed; foreign files in it and an existing output remain."""
    output = place(server, tmp_path / "deep" / "out", request)
    for _ in range(2):
        journal = Journal.open(output)
        with suppress(ZeroDivisionError), journal.lock_output():
            (journal.make_staging("attempt") / "f").write(b"x")
            (output / "catalog.json").write(b"{}")
            journal.sweep()
            raise ZeroDivisionError
        assert [entry.path for entry in output.list_files(deep=True)] == []
        assert not (tmp_path / "deep").exists()
    (output / "tables").make()
    (output / "tables/mine").write(b"x")
    (output / "catalog.json").write(b"{}")
    journal = Journal.open(output)
    with pytest.raises(ZeroDivisionError), journal.lock_output():
        raise ZeroDivisionError
    assert {entry.path for entry in output.list_files(deep=True)} == {".lock", "catalog.json", "tables/mine"}


def test_output_with_a_batch_is_not_removed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "out")
    with suppress(ZeroDivisionError), journal.lock_output():
        journal.prepare(batch())
        raise ZeroDivisionError
    journal.discard()
    assert Journal.open_existing(tmp_path / "out").list_unfinished() == [batch()]


def test_output_removed_during_its_creation_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing run removes the output between two steps of a run that waits for it."""
    output, opened = tmp_path / "out", Path.open
    journal, gone = Journal.open(output), list[Path]()

    def take_away_and_open(path: Path, *arguments: Any, **keywords: Any) -> Any:
        if not gone:
            gone.append(path)
            shutil.rmtree(output)
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", take_away_and_open)
    with journal.lock_output(5.0):
        journal.prepare(batch())
    assert gone == [output / ".lock"]
    assert Journal.open_existing(output).list_unfinished() == [batch()]


def test_output_removed_between_two_batches_is_not_created_again(tmp_path: Path) -> None:
    """A new output would have no trace of the batches that landed before."""
    journal = Journal.open(tmp_path / "out")
    with journal.lock_output():
        land(journal, batch())
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(FileNotFoundError), journal.lock_output():
        pass
    assert not (tmp_path / "out").exists()


def test_waiting_run_continues_after_a_run_that_leaves_nothing(tmp_path: Path) -> None:
    """The waiting run then has its own output."""
    output = tmp_path / "out"
    first, second = Journal.open(output), Journal.open(output)
    begun, entered = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        with second.lock_output(600.0):
            entered.set()
            land(second, batch())

    waiting = threading.Thread(target=wait)
    with suppress(ZeroDivisionError), first.lock_output():
        waiting.start()
        begun.wait()
        assert not entered.wait(0.3)
        raise ZeroDivisionError
    waiting.join()
    assert Journal.open_existing(output).find("b1") == batch()
