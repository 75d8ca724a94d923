"""The journal in a store: what one folder's lock decides elsewhere is decided by conditional writes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.s3 import SERVERS, place
from tests.pipeline.test_journal import FILE, batch

from signalbook.pipeline import journal as journal_module
from signalbook.pipeline import locks
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.places import HdfsPlace, Place, Storage, Stored, hdfs, place_of, stores
from signalbook.pipeline.places.base import TOGETHER

pytestmark = pytest.mark.merge


@pytest.fixture(params=SERVERS)
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def staged(journal: Journal, attempt: str, id: str = "b1") -> JournalEntry:
    """A batch whose one file is staged."""
    (journal.make_staging(attempt) / "f").write(b"x")
    return replace(batch(id), files=(replace(FILE, staged=f".staging/{attempt}/f"),))


def test_lifecycle_of_an_entry(output: Place) -> None:
    journal = Journal.open(output)
    with pytest.raises(PipelineError, match="no output folder of the pipeline"):
        Journal.open_existing(output)
    with journal.lock_output():
        entry = staged(journal, "x")
        journal.prepare(entry)
        assert (journal.list_unfinished(), journal.find("b1"), journal.find_table_format()) == ([entry], None, None)
        journal.commit(entry)
        journal.commit(entry)  # again, as after a kill
        assert (journal.list_unfinished(), journal.find("b1"), journal.list_new(())) == ([], entry, ["b1"])
    assert [listed.path for listed in output.list_files(deep=True) if listed.path.startswith(".staging")] == []
    assert Journal.open_existing(output).find_table_format() == "parquet"
    assert [listed.id for listed in Journal.open_existing(output).iterate_committed()] == ["b1"]


def test_two_drivers_that_believe_to_be_alone_commit_a_batch_once(output: Place) -> None:
    """The one that was slower has nothing in the way of its next try."""
    first, second = Journal.open(output), Journal.open(output)
    with first.lock_output():
        mine, theirs = staged(first, "x"), staged(second, "y")
        # as after a lease that was lost without anyone's fault
        second._lock.check = lambda note=None: None  # type: ignore[method-assign]
        first.prepare(mine)
        with pytest.raises(PipelineError, match="another run of batch 'b1' was faster"):
            second.prepare(theirs)
        first.commit(mine)
        with pytest.raises(PipelineError, match="batch 'b1' was committed by another run"):
            second.prepare(staged(second, "z"))
        assert (first.list_unfinished(), first.find("b1")) == ([], mine)


def test_swept_files_are_not_prepared(output: Place) -> None:
    """Prepared files are not swept either; whichever happens first wins."""
    first, second = Journal.open(output), Journal.open(output)
    with first.lock_output():
        late, early = staged(first, "late", "b1"), staged(first, "early", "b2")
        first.prepare(early)
        second.sweep()
        assert (output / ".staging/early/f").exists()
        assert not (output / ".staging/late/f").exists()
        with pytest.raises(PipelineError, match="another run of batch 'b1' was faster"):
            first.prepare(late)
        assert first.list_unfinished() == [early]


def test_staged_files_of_dead_runs_are_swept(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark remains, which is removed on the next day."""
    journal = Journal.open(output)
    staged(journal, "x")
    journal.sweep()
    assert [entry.path for entry in output.list_files(deep=True)] == [".staging/x/claim"]
    monkeypatch.setattr(journal_module, "_FORGOTTEN", 0)
    journal.sweep()
    assert list(output.list_files(deep=True)) == []


def test_run_without_the_lease_sweeps_nothing(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The staged files may belong to the new owner of the lease."""
    first, second = Journal.open(output), Journal.open(output)
    monkeypatch.setattr(locks, "TERM", 0.0)
    with first.lock_output(), second.lock_output(60.0):
        entry = staged(second, "y")
        first.sweep()
        second.prepare(entry)
        assert (output / ".staging/y/f").exists()


def test_run_that_loses_the_lease_while_it_lists_sweeps_nothing(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing may show an attempt that the new owner of the lease has just begun."""
    first, second = Journal.open(output), Journal.open(output)
    list_files, entries = type(output).list_files, list[JournalEntry]()

    def take_over_and_list(self: Place, *, deep: bool = False) -> Iterator[Stored]:
        if self.name == ".staging" and not entries:
            entries.append(staged(second, "y"))
            (output / ".lock").replace(b'{"token": "of the new owner"}')
        return list_files(self, deep=deep)

    monkeypatch.setattr(type(output), "list_files", take_over_and_list)
    with first.lock_output():
        first.sweep()
        second.prepare(*entries)
        assert (output / ".staging/y/f").exists()


def test_prepared_files_are_not_swept(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files claimed by a delayed driver are kept as well, however old they are."""
    journal = Journal.open(output)
    journal.prepare(staged(journal, "x"))
    staged(journal, "y")
    (output / ".staging/y/claim").write(b"prepared")
    files = type(output).list_files

    def aged(self: Place, *, deep: bool = False) -> Iterator[Stored]:
        for entry in files(self, deep=deep):
            yield entry if entry.path.endswith("y/claim") else replace(entry, modified=0)

    monkeypatch.setattr(type(output), "list_files", aged)
    journal.sweep()
    assert (output / ".staging/x/f").exists()
    assert (output / ".staging/y/f").exists()


def test_marks_of_dead_runs_take_no_requests(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the listing needs a request."""
    journal = Journal.open(output)
    for number in range(5):
        staged(journal, f"x{number}")
    journal.sweep()
    requested: list[str] = []
    module = hdfs if isinstance(output, HdfsPlace) else stores
    connect: Callable[[str, Storage], Any] = module.connect

    def counted(root: str, storage: Storage) -> Any:
        requested.append(root)
        return connect(root, storage)

    monkeypatch.setattr(module, "connect", counted)
    journal.sweep()
    assert len(requested) == 1


def test_prepared_batch_is_known_before_it_is_listed(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease tells whoever has it next."""
    first, second = Journal.open(output), Journal.open(output)
    with first.lock_output():
        entry = staged(first, "x")
        first.prepare(entry)
    monkeypatch.setattr(type(output), "list_files", lambda self, *, deep=False: iter(()))
    with second.lock_output():
        assert second.list_unfinished() == [entry]


def test_many_entries_are_read_on_demand(output: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some are read ahead: the entries of years would take gigabytes."""
    journal = Journal.open(output)
    for number in range(20):
        (output / "batches" / f"b{number:02}.json").write(msgspec.json.encode(batch(f"b{number:02}")))
    requested: list[str] = []
    read = journal_module._read

    def counted(place: Place) -> JournalEntry:
        requested.append(place.name)
        return read(place)

    monkeypatch.setattr(journal_module, "_read", counted)
    committed = journal.iterate_committed()
    assert next(committed).id == "b00"
    assert len(requested) <= 1 + TOGETHER
    assert [entry.id for entry in committed] == [f"b{number:02}" for number in range(1, 20)]
    assert journal.find_files() == {}


def test_refusal_of_the_store_is_an_error(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    there = place("s3proxy", tmp_path, request)
    wrong = dict(there.storage.options) | {"secret_access_key": "wrong-4711"}
    journal = Journal.open(place_of(str(there), Storage.of(wrong)))
    with (
        pytest.raises(PipelineError, match=r"cannot use s3://.*: the store answers 403") as failure,
        journal.lock_output(),
    ):
        pass
    assert "wrong-4711" not in str(failure.value)
