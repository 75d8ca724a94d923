"""The journal of an output folder: what each batch consists of, written down before any of it is committed.

A batch is *prepared* once all of its files are staged and its totals add up, and *committed* when every table has
them. A run that dies before the first leaves only staged files, which the next run removes; one that dies between the
two is completed by the next run, since committing a file or a table twice changes nothing. Entries are replaced
atomically, so that a reader sees one state or the other. ``commit.py`` has the steps in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from signalbook.pipeline.errors import PipelineError, Stopped, build_disk_error
from signalbook.pipeline.locks import Lock, lock_of
from signalbook.pipeline.places import Place, Stored, Where, place_of, run_in_parallel
from signalbook.pipeline.reports.report import Report, Tally, read_counters
from signalbook.pipeline.tables.table_names import (
    CATALOG_DATABASE,
    CATALOG_FILE,
    DEAD_LETTERS,
    TABLES,
    TableName,
    escape,
    find_table_folder,
)

BATCHES: Final = "batches"
PREPARED: Final = "batches/prepared"
STAGING: Final = ".staging"
_LOCK: Final = ".lock"
_ENTRY: Final = ".json"
# In a folder of staged files on a store: what became of the attempt they are of, and when that may be forgotten.
_CLAIM: Final = "claim"
_PREPARED: Final = b"prepared"
_SWEPT: Final = b"swept"
_FORGOTTEN: Final = 24 * 3600 * 10**9

TableFormat = Literal["iceberg", "parquet", "delta"]
# How tables that do not exist yet are to be divided.
Partition = Literal["day", "none"]


# What times, dates and decimals have columns of, where they come as text or numbers.
ColumnKinds = Literal["typed", "as_sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table. ``staged`` is its path below the output folder until its batch is committed."""

    table: TableName
    staged: str
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of the journal. ``origin`` distinguishes the input from another under the same batch id.

    ``landed_at`` is the rows' ``_landed_at``, ``finished`` the time of the commit; older entries lack them. ``removed``
    are files of earlier batches that ``files`` replace from now on; ``replayed`` counts the dead letters that are the
    input of a replay, ``changed`` those of them that stay for another reason; ``stream`` is the name of its stream, and
    ``offsets`` its end in that, in Spark's words. ``left_out`` are definitions that could not be used, with the
    reasons. A ``compaction`` has no input: its files hold the rows of those it removes, in a backfill with other values
    (``changes``). ``columns`` are those of times, dates and decimals, as in the policy of that name; older entries have
    only ``as_sent``.
    """

    id: str
    fingerprint: str
    origin: str
    table_format: TableFormat
    tally: Tally
    files: tuple[DataFile, ...]
    seconds: float
    partition: Partition = "none"
    landed_at: datetime | None = None
    finished: datetime | None = None
    removed: tuple[DataFile, ...] = ()
    replayed: int = 0
    changed: int = 0
    compaction: bool = False
    changes: bool = False
    stream: str = ""
    offsets: str = ""
    columns: ColumnKinds = "as_sent"
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self) -> None:
        """Compare the counts with the rows in files. Raises ``PipelineError``."""
        dead = sum(file.rows for file in self.files if file.table == DEAD_LETTERS)
        landed = sum(file.rows for file in self.files) - dead
        gone = sum(file.rows for file in self.removed)
        self.tally.check(landed_rows=landed, dead_letter_rows=dead - gone + self.replayed)

    def report(self, note: str = "") -> Report:
        """Return the report of the batch."""
        return Report(
            batch=self.id,
            fingerprint=self.fingerprint,
            tally=self.tally,
            seconds=self.seconds,
            written=sum(file.bytes for file in self.files),
            finished=self.finished,
            note=note,
            left_out=self.left_out,
        )


# Made now: threads that read the first entries at once would each work out the types, which msgspec does not survive.
_DECODER: Final = msgspec.json.Decoder(JournalEntry, dec_hook=read_counters)


@dataclass(slots=True)
class _Beginning:
    """The part that a journal may remove again: an output that did not exist at first.

    ``existing`` is the nearest folder that existed; ``files`` are the files that may appear next to its lock,
    ``attempts`` those with staged files. ``waiting`` means that the lock was not taken yet.
    """

    fresh: bool = False
    existing: Path | None = None
    files: tuple[str, ...] = ()
    attempts: set[str] = field(default_factory=set)
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal in the output ``output``, a folder or a place in a store."""

    output: Place
    _lock: Lock = field(init=False, repr=False, compare=False)
    _beginning: _Beginning = field(init=False, repr=False, compare=False, default_factory=_Beginning)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lock", lock_of(self.output / _LOCK))

    @classmethod
    def open(cls, output: Where) -> Journal:
        """The journal of ``output``, which is made if need be. Raises ``PipelineError`` if it cannot be written.

        What was made is taken away again where ``lock_output`` or ``discard`` finds that no batch came of it.
        """
        journal = cls(place_of(output))
        journal.make()
        return journal

    def make(self) -> None:
        """Make the folders of the output, unless they are there. Raises as ``open`` does."""
        with suppress(OSError, PipelineError):  # which are said by what comes next
            self.is_begun()
        self._beginning.waiting = True
        try:
            self._make()
        except OSError as error:
            raise build_disk_error(error, self.output) from error

    def _make(self) -> None:
        """Raises ``OSError``."""
        for folder in (PREPARED, BATCHES, TABLES):
            (self.output / folder).make()
        # Made now, so that a folder that cannot be written to is refused before anything is read.
        if self.output.folder is not None:
            (self.output.folder / _LOCK).open("ab").close()

    @contextmanager
    def lock_output(self, patience: float = 0.0, stop: threading.Event | None = None) -> Iterator[None]:
        """Keep other runs out of this output while the context lasts.

        Raises ``PipelineError`` if one is still at work after ``patience`` seconds, and ``Stopped`` if ``stop`` is set
        before. Where the output is in a store, one that may be dead is waited for. What fails before a batch was
        entered leaves nothing of an output that was not there.
        """
        deadline = time.monotonic() + patience
        stop = stop or threading.Event()
        lock = self._lock
        with store_errors(self.output):
            while not self._take_lock():
                if time.monotonic() >= deadline and not lock.can_become_free():
                    who = f" ({lock.holder})" if lock.holder else ""
                    raise PipelineError(
                        f"another run is writing to {self.output}{who}; wait for it or choose another output"
                    )
                if stop.wait(lock.pause):
                    raise Stopped(f"stopped while another run is writing to {self.output}")
        try:
            yield
        except BaseException:
            self._remove()
            raise
        finally:
            lock.release()

    def _take_lock(self) -> bool:
        """Return True if the lock was taken. Until then another failing run may remove the output."""
        if not self._beginning.waiting:
            return self._lock.take()
        try:
            self._make()
            if not self._lock.take():
                return False
        except FileNotFoundError:
            return False
        self._beginning.waiting = False
        self._make()
        return True

    @property
    def is_fresh(self) -> bool:
        """True if the output did not exist before, and has no batch yet."""
        return self._beginning.fresh

    def discard(self) -> None:
        """Take away an output that was not there when this was opened, if no batch came of it and nobody is at it."""
        with suppress(OSError, PipelineError):
            if self._beginning.fresh and self._lock.take():
                try:
                    self._remove()
                finally:
                    self._lock.release()

    def _remove(self) -> None:
        """Take away what this journal made, unless there is anything else; the lock has to be taken."""
        if not self._beginning.fresh:
            return
        with suppress(OSError, PipelineError):  # what is left holds nobody up
            self._lock.check()
            claims = (f"{STAGING}/{attempt}/{_CLAIM}" for attempt in self._beginning.attempts)
            mine = {*self._beginning.files, _LOCK, *claims}
            if {file.path for file in self.output.list_files(deep=True)} - mine:
                return
            # The lock is the last: until then nobody else begins anything.
            for path in sorted(mine - {_LOCK}):
                (self.output / path).delete()
            if self.output.folder is not None:
                self._remove_folders(self.output.folder)
            else:
                (self.output / _LOCK).delete()

    def _remove_folders(self, output: Path) -> None:
        """Empty ones, up to the one that was there before."""
        for name in (PREPARED, BATCHES, TABLES, STAGING):
            with suppress(FileNotFoundError):
                (output / name).rmdir()
        (output / _LOCK).unlink()
        for folder in (output, *output.parents):
            if folder == self._beginning.existing:
                return
            folder.rmdir()

    def find(self, batch: str) -> JournalEntry | None:
        """The entry of a committed batch, if there is one."""
        return _find(self._build_path(BATCHES, batch))

    @classmethod
    def open_existing(cls, output: Where) -> Journal:
        """Return the journal of an output that runs have written to. Raises ``PipelineError`` for other outputs."""
        journal = cls(place_of(output))
        if not journal.is_begun():
            raise PipelineError(
                f"{journal.output} is no output folder of the pipeline: no batch was ever written there"
            )
        return journal

    def is_begun(self) -> bool:
        """Return True if runs have written to this output, or tried to. Raises ``PipelineError``."""
        with store_errors(self.output):
            # A store has no empty folders: what was begun there has a lease.
            mark = BATCHES if self.output.folder is not None else _LOCK
            begun = (self.output / mark).exists() or next(self.list_names(), None) is not None
            if not (begun or self._beginning.fresh):
                # Now: streams keep definitions in the output before the journal is made.
                names = (CATALOG_FILE, CATALOG_DATABASE)
                self._beginning.files = tuple(name for name in names if not (self.output / name).exists())
                self._beginning.existing = _find_existing(self.output.folder)
                self._beginning.fresh = True
            return begun

    def iterate_committed(self) -> Iterator[JournalEntry]:
        """Yield the entries of all committed batches by their ids, without compactions."""
        return (entry for entry in self._read_entries() if not entry.compaction)

    def find_files(self, is_wanted: Callable[[TableName], bool] = lambda _: True) -> dict[TableName, list[DataFile]]:
        """Return the files of each table that were not replaced and still exist.

        Only tables for which ``is_wanted`` is true are searched: each is a folder to list.
        """
        files_by_table: dict[TableName, dict[str, DataFile]] = {}
        # Those that a compaction or replay replaced, as long as what it replaces was not read: what is kept is little
        # more than the files there are, and not all there ever were.
        early: set[tuple[TableName, str]] = set()
        homes: dict[TableName, Place] = {}
        for entry in self._read_entries():
            for file in entry.removed:
                if is_wanted(file.table) and files_by_table.get(file.table, {}).pop(file.name, None) is None:
                    early.add((file.table, file.name))
            for file in entry.files:
                if not is_wanted(file.table):
                    continue
                homes[file.table] = self.output / find_table_folder(file.table, entry.table_format)
                if (file.table, file.name) in early:
                    early.remove((file.table, file.name))
                else:
                    files_by_table.setdefault(file.table, {})[file.name] = file
        tables_with_files = sorted(table for table, files in files_by_table.items() if files)
        # Or taken away by somebody else: either way readers have it no more.
        names_by_table = run_in_parallel(self.output, lambda table: _list_names(homes[table]), tables_with_files)
        standing = {
            table: [file for name, file in files_by_table[table].items() if name in names]
            for table, names in zip(tables_with_files, names_by_table, strict=True)
        }
        return {table: files for table, files in standing.items() if files}

    def find_table_format(self) -> TableFormat | None:
        """Return the format of the tables; None without tables."""
        # Of entries there may be many, and they are the same in this.
        first = next((file.path for file in self._list_entries(BATCHES)), None)
        return None if first is None else _read(self.output / BATCHES / first).table_format

    def find_column_kinds(self) -> ColumnKinds | None:
        """Return the kind of columns of the last landed batch for times, dates and decimals; None without tables."""
        entries = (
            _read(self.output / BATCHES / file.path) for file in reversed(_sort_by_commit(self._list_entries(BATCHES)))
        )
        landed = (entry for entry in entries if any(file.table != DEAD_LETTERS for file in entry.files))
        return next((entry.columns for entry in landed), None)

    def list_new(self, known_names: Container[str]) -> list[str]:
        """Return the names of committed entries outside ``known_names``, in the order of the commits."""
        fresh = (file for file in self._list_entries(BATCHES) if file.path.removesuffix(_ENTRY) not in known_names)
        return [file.path.removesuffix(_ENTRY) for file in _sort_by_commit(fresh)]

    def read_entry(self, name: str) -> JournalEntry:
        """Return a committed entry by one of the names from ``list_new``."""
        return _read(self.output / BATCHES / f"{name}{_ENTRY}")

    def list_names(self) -> Iterator[str]:
        """Yield the names of committed entries, in no order."""
        return (file.path.removesuffix(_ENTRY) for file in self._list_entries(BATCHES))

    def list_unfinished(self) -> list[JournalEntry]:
        """Return the entries of prepared batches, some of which may be committed in all but this entry."""
        names = {file.path for file in self._list_entries(PREPARED)}
        entries = list(self._read_all(PREPARED, sorted(names)))
        # The one that died before us may be so fresh that a listing does not have it.
        if self._lock.note and f"{escape(self._lock.note)}{_ENTRY}" not in names:
            late = _find(self._build_path(PREPARED, self._lock.note))
            return [*entries, *([] if late is None else [late])]
        return entries

    def prepare(self, batch: JournalEntry) -> None:
        """Enter a batch whose files are all staged.

        Raises ``PipelineError`` if another run of the same batch was faster, or swept the files: which only happens in
        a store, to one that was held up for so long that others took it for dead.
        """
        self._lock.check(batch.id)
        self._beginning.fresh = False
        entry = self._build_path(PREPARED, batch.id)
        # Each of these can be made once: of two that believe to be alone only one goes on. That of the attempt is
        # first, for with the entry there the files have to stay.
        mine = all(self._claim(attempt, _PREPARED) for attempt in _list_attempts(batch))
        if not (mine and entry.create(msgspec.json.encode(batch))):
            raise PipelineError(f"another run of batch {batch.id!r} was faster; nothing of this one was committed")
        if (committed := self.find(batch.id)) is not None and committed.files != batch.files:
            entry.delete()
            raise PipelineError(f"batch {batch.id!r} was committed by another run; nothing of this one was committed")

    def commit(self, batch: JournalEntry) -> None:
        """Enter a batch as committed, once all of its tables are."""
        # in this order: killed in between, the batch is committed and merely committed again; never is it in neither
        entry = self._build_path(BATCHES, batch.id)
        if not entry.create(msgspec.json.encode(batch)) and _read(entry).files != batch.files:
            raise PipelineError(f"batch {batch.id!r} was committed by another run, with other files")
        self.withdraw(batch)

    def withdraw(self, batch: JournalEntry) -> None:
        """Take back a prepared batch that is committed, or cannot be any more."""
        self._build_path(PREPARED, batch.id).delete()
        if self.output.folder is None:
            for attempt in _list_attempts(batch):
                (self.output / attempt).clear()

    def make_staging(self, attempt: str) -> Place:
        """Return an empty folder for the files of one attempt."""
        self._beginning.attempts.add(attempt)
        folder = self.output / STAGING / attempt
        folder.make()
        return folder

    def sweep(self) -> None:
        """Remove what dead runs staged. Only with no entry unfinished."""
        # A worker of a dead run may still be writing there. What it leaves behind is in no entry, and swept the next
        # time.
        staging = self.output / STAGING
        if staging.folder is not None:
            staging.clear()
            return
        with suppress(OSError, PipelineError):  # what is left is removed the next time
            self._sweep(staging)

    def _sweep(self, staging: Place) -> None:
        """Remove the remains of attempts in a store, unless their driver lives after all and has prepared one."""
        attempts: dict[str, list[Stored]] = {}
        for file in staging.list_files(deep=True):
            attempt, _, path = file.path.partition("/")
            attempts.setdefault(attempt, []).append(replace(file, path=path))
        forgotten = time.time_ns() - _FORGOTTEN
        dead = {attempt: files for attempt, files in attempts.items() if not _is_mark(files, forgotten)}
        if not dead:
            return
        # Only now: as long as it is ours nobody else begins an attempt, so that none of those seen is at work.
        self._lock.check()
        prepared = {attempt for entry in self.list_unfinished() for attempt in _list_attempts(entry)}
        for attempt, files in dead.items():
            if f"{STAGING}/{attempt}" not in prepared:
                self._sweep_attempt(staging / attempt, files, forgotten)

    def _sweep_attempt(self, folder: Place, files: Sequence[Stored], forgotten: int) -> None:
        # The claim stays for a while, so that who was held up finds it; and with it the files, if it is theirs.
        over = any(file.path == _CLAIM and file.modified < forgotten for file in files)
        if over or self._claim(f"{STAGING}/{folder.name}", _SWEPT):
            for file in files:
                if over or file.path != _CLAIM:
                    (folder / file.path).delete()

    def _claim(self, attempt: str, state: bytes) -> bool:
        """Return True if an attempt got this state, and no other. In a folder the lock ensures that."""
        place = self.output / attempt / _CLAIM
        return place.folder is not None or place.create(state)

    def _read_entries(self) -> Iterator[JournalEntry]:
        return self._read_all(BATCHES, sorted(file.path for file in self._list_entries(BATCHES)))

    def _list_entries(self, state: str) -> Iterator[Stored]:
        with store_errors(self.output):
            # What is below batches that are prepared are few: deep listings come in pieces, and most want the first.
            deep = self.output.folder is None
            for file in (self.output / state).list_files(deep=deep):
                if file.path.endswith(_ENTRY) and "/" not in file.path:
                    yield file

    def _read_all(self, state: str, names: Iterable[str]) -> Iterator[JournalEntry]:
        return run_in_parallel(self.output, _read, (self.output / state / name for name in names))

    def _build_path(self, state: str, batch: str) -> Place:
        return self.output / state / f"{escape(batch)}{_ENTRY}"


@contextmanager
def store_errors(output: Place) -> Iterator[None]:
    """Raise ``PipelineError`` for a store that cannot be used; files have an error of their own."""
    try:
        yield
    except OSError as error:
        if output.folder is not None:
            raise
        raise PipelineError(f"cannot use {output}: {error.strerror}") from error


def _find_existing(folder: Path | None) -> Path | None:
    """Return the folder, or the nearest one above it that exists."""
    return None if folder is None else next(candidate for candidate in (folder, *folder.parents) if candidate.exists())


def _list_attempts(batch: JournalEntry) -> set[str]:
    """Return the folders that the files of a batch are staged in."""
    return {file.staged.rpartition("/")[0] for file in batch.files}


def _list_names(folder: Place) -> set[str]:
    """Return the paths of all files below a folder."""
    return {file.path for file in folder.list_files(deep=True)}


def _is_mark(files: Sequence[Stored], forgotten: int) -> bool:
    """Return True if the only rest of an attempt is a claim that must stay."""
    return len(files) == 1 and files[0].path == _CLAIM and files[0].modified >= forgotten


def _sort_by_commit(files: Iterable[Stored]) -> list[Stored]:
    """Return entries in the order of their commits: batches are named by their callers."""
    return sorted(files, key=lambda file: (file.modified, file.path))


def _find(place: Place) -> JournalEntry | None:
    return _read(place) if place.exists() else None


def _read(place: Place) -> JournalEntry:
    try:
        return _DECODER.decode(place.read())
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"cannot read the batch journal {place}: {error}") from error
