"""The journal of an output folder: it records the files of each batch before any of them is committed.

A batch is *prepared* once all of its files are staged and its totals add up. It is *committed* once every table has its
files. If a run dies before its batch is prepared, it leaves only staged files, which the next run removes. If it dies
between the two states, the next run completes the batch, because committing a file or a table twice changes nothing.
Entries are replaced atomically, so that a reader sees one state or the other. ``commit.py`` has the steps in between.
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
from signalbook.pipeline.report import Report, Tally, read_counters
from signalbook.pipeline.table_names import (
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
# An object next to the staged files of an attempt in a store. Its content says whether the attempt was prepared or
# swept. ``_FORGOTTEN`` is the time in nanoseconds after which the object may be removed.
_CLAIM: Final = "claim"
_PREPARED: Final = b"prepared"
_SWEPT: Final = b"swept"
_FORGOTTEN: Final = 24 * 3600 * 10**9

TableFormat = Literal["iceberg", "parquet", "delta"]
# How to partition tables that do not exist yet.
Partition = Literal["day", "none"]


# The columns of times, dates and decimals that are sent as text or numbers: of their own type, or as they were sent.
ColumnKinds = Literal["typed", "as_sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table. ``name`` is its path below the folder of the table once its batch is committed.

    ``staged`` is its path below the output folder until then.
    """

    table: TableName
    staged: str
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of the journal: one batch. ``origin`` identifies its input, to detect another input under the same id.

    ``landed_at`` is the value of ``_landed_at`` in its rows, and ``finished`` the time of the commit. Older entries
    lack both. ``removed`` are files of earlier batches that ``files`` replace. ``replayed`` counts the dead letters
    that are the input of a replay, and ``changed`` those that remain dead letters for another reason. ``stream`` is the
    name of the batch's stream, and ``offsets`` where the batch ends in the stream, as Spark writes it. ``left_out`` are
    definitions that could not be used, with the reasons. A ``compaction`` has no input: its files hold the rows of the
    removed files. A backfill is a compaction that changes values (``changes``). ``columns`` is the kind of columns for
    times, dates and decimals, as in the policy of that name. Older entries have only ``as_sent``.
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
        """Raise ``PipelineError`` if the counts of messages do not match the rows in the files."""
        dead = sum(file.rows for file in self.files if file.table == DEAD_LETTERS)
        landed = sum(file.rows for file in self.files) - dead
        gone = sum(file.rows for file in self.removed)
        self.tally.check(landed_rows=landed, dead_letter_rows=dead - gone + self.replayed)

    def report(self, note: str = "") -> Report:
        """Return the report of the batch, with ``note``."""
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


# Built at import, because msgspec fails if several threads, which read the first entries, analyse the types at once.
_DECODER: Final = msgspec.json.Decoder(JournalEntry, dec_hook=read_counters)


@dataclass(slots=True)
class _Beginning:
    """The things that a journal may remove again if no batch follows.

    ``fresh`` means that the output did not exist at first. ``existing`` is the nearest parent folder that existed then.
    ``files`` are names of files that may be created next to the lock, and ``attempts`` the names of folders with staged
    files. ``waiting`` means that the lock was not taken yet.
    """

    fresh: bool = False
    existing: Path | None = None
    files: tuple[str, ...] = ()
    attempts: set[str] = field(default_factory=set)
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of ``output``, a folder or a place in a store."""

    output: Place
    _lock: Lock = field(init=False, repr=False, compare=False)
    _beginning: _Beginning = field(init=False, repr=False, compare=False, default_factory=_Beginning)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lock", lock_of(self.output / _LOCK))

    @classmethod
    def open(cls, output: Where) -> Journal:
        """Return the journal of ``output``, which is created if necessary.

        Raises ``PipelineError`` if it cannot be written. ``lock_output`` and ``discard`` remove a new output again if
        it gets no batch.
        """
        journal = cls(place_of(output))
        journal.make()
        return journal

    def make(self) -> None:
        """Create the folders of the output unless they exist. Raises ``PipelineError`` if that fails."""
        with suppress(OSError, PipelineError):  # the next step reports the same error
            self.is_begun()
        self._beginning.waiting = True
        try:
            self._make()
        except OSError as error:
            raise build_disk_error(error, self.output) from error

    def _make(self) -> None:
        """Create the folders and, in a file system, the lock file. Raises ``OSError``."""
        for folder in (PREPARED, BATCHES, TABLES):
            (self.output / folder).make()
        # The lock file is created now, so that a read-only folder is an error before any input is read.
        if self.output.folder is not None:
            (self.output.folder / _LOCK).open("ab").close()

    @contextmanager
    def lock_output(self, patience: float = 0.0, stop: threading.Event | None = None) -> Iterator[None]:
        """Lock this output against other runs while the context lasts.

        Raises ``PipelineError`` if another run still holds the lock after ``patience`` seconds, and ``Stopped`` if
        ``stop`` is set before. In a store, wait longer if the holder of the lock may be dead. If the context fails
        before its first batch is prepared, a new output is removed again.
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
        """Try to take the lock, and return True on success.

        The folders are created again, because another failing run may remove a new output until the lock is taken.
        """
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
        """Remove an output that did not exist when this journal was opened, if it has no batch and is not locked."""
        with suppress(OSError, PipelineError):
            if self._beginning.fresh and self._lock.take():
                try:
                    self._remove()
                finally:
                    self._lock.release()

    def _remove(self) -> None:
        """Remove a new output, unless it contains files of other programs. The lock must be held."""
        if not self._beginning.fresh:
            return
        with suppress(OSError, PipelineError):  # remaining files do not block other runs
            self._lock.check()
            claims = (f"{STAGING}/{attempt}/{_CLAIM}" for attempt in self._beginning.attempts)
            mine = {*self._beginning.files, _LOCK, *claims}
            if {file.path for file in self.output.list_files(deep=True)} - mine:
                return
            # The lock file is removed last, because no other run begins before that.
            for path in sorted(mine - {_LOCK}):
                (self.output / path).delete()
            if self.output.folder is not None:
                self._remove_folders(self.output.folder)
            else:
                (self.output / _LOCK).delete()

    def _remove_folders(self, output: Path) -> None:
        """Remove the empty folders of the output, and its parents up to the folder that existed before."""
        for name in (PREPARED, BATCHES, TABLES, STAGING):
            with suppress(FileNotFoundError):
                (output / name).rmdir()
        (output / _LOCK).unlink()
        for folder in (output, *output.parents):
            if folder == self._beginning.existing:
                return
            folder.rmdir()

    def find(self, batch: str) -> JournalEntry | None:
        """Return the entry of the committed batch with this id, or None if it is not committed."""
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
        """Return True if runs have written to this output, or tried to.

        Raises ``PipelineError`` if a store cannot be used.
        """
        with store_errors(self.output):
            # A store has no empty folders. There, an output that was begun has the object of the lock.
            mark = BATCHES if self.output.folder is not None else _LOCK
            begun = (self.output / mark).exists() or next(self.list_names(), None) is not None
            if not (begun or self._beginning.fresh):
                # Recorded now, because streams store definitions in the output before the journal is created.
                names = (CATALOG_FILE, CATALOG_DATABASE)
                self._beginning.files = tuple(name for name in names if not (self.output / name).exists())
                self._beginning.existing = _find_existing(self.output.folder)
                self._beginning.fresh = True
            return begun

    def iterate_committed(self) -> Iterator[JournalEntry]:
        """Yield the entries of all committed batches except compactions, in the order of their file names."""
        return (entry for entry in self._read_entries() if not entry.compaction)

    def find_files(self, is_wanted: Callable[[TableName], bool] = lambda _: True) -> dict[TableName, list[DataFile]]:
        """Return the files of each table that were not replaced and still exist.

        Only tables for which ``is_wanted`` returns True are included, because listing the folder of each table takes
        time.
        """
        files_by_table: dict[TableName, dict[str, DataFile]] = {}
        # Replaced files whose own entry was not read yet. So only about as many files are in memory as exist now, and
        # not all files that ever existed.
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
        # Files that another program removed are left out, because readers do not see them either.
        names_by_table = run_in_parallel(self.output, lambda table: _list_names(homes[table]), tables_with_files)
        standing = {
            table: [file for name, file in files_by_table[table].items() if name in names]
            for table, names in zip(tables_with_files, names_by_table, strict=True)
        }
        return {table: files for table, files in standing.items() if files}

    def find_table_format(self) -> TableFormat | None:
        """Return the format of the tables; None if no batch was committed."""
        # One entry is enough, because all entries have the same format.
        first = next((file.path for file in self._list_entries(BATCHES)), None)
        return None if first is None else _read(self.output / BATCHES / first).table_format

    def find_column_kinds(self) -> ColumnKinds | None:
        """Return the kind of columns for times, dates and decimals in the last batch with landed rows, or None."""
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
        """Return the committed entry with this ``name``, which ``list_new`` or ``list_names`` returned."""
        return _read(self.output / BATCHES / f"{name}{_ENTRY}")

    def list_names(self) -> Iterator[str]:
        """Yield the names of committed entries, in no particular order."""
        return (file.path.removesuffix(_ENTRY) for file in self._list_entries(BATCHES))

    def list_unfinished(self) -> list[JournalEntry]:
        """Return the entries of prepared batches.

        Some of them may be committed already, except for the journal entry.
        """
        names = {file.path for file in self._list_entries(PREPARED)}
        entries = list(self._read_all(PREPARED, sorted(names)))
        # The batch of the previous lock holder may be so new that the listing does not contain it yet.
        if self._lock.note and f"{escape(self._lock.note)}{_ENTRY}" not in names:
            late = _find(self._build_path(PREPARED, self._lock.note))
            return [*entries, *([] if late is None else [late])]
        return entries

    def prepare(self, batch: JournalEntry) -> None:
        """Record a batch as prepared. All of its files must be staged.

        Raises ``PipelineError`` if another run of the same batch was faster, or swept the files. This happens only in a
        store, if this run was delayed for so long that others considered it dead.
        """
        self._lock.check(batch.id)
        self._beginning.fresh = False
        entry = self._build_path(PREPARED, batch.id)
        # The claims and the entry can be created only once, so that of two runs only one continues. The claims come
        # first, because once the entry exists the files must stay.
        mine = all(self._claim(attempt, _PREPARED) for attempt in _list_attempts(batch))
        if not (mine and entry.create(msgspec.json.encode(batch))):
            raise PipelineError(f"another run of batch {batch.id!r} was faster; nothing of this one was committed")
        if (committed := self.find(batch.id)) is not None and committed.files != batch.files:
            entry.delete()
            raise PipelineError(f"batch {batch.id!r} was committed by another run; nothing of this one was committed")

    def commit(self, batch: JournalEntry) -> None:
        """Record a batch as committed, after all of its tables have its files.

        Raises ``PipelineError`` if another run committed the batch with other files.
        """
        # In this order, the batch is never missing in both folders. If this is killed in between, the batch is
        # committed again, which changes nothing.
        entry = self._build_path(BATCHES, batch.id)
        if not entry.create(msgspec.json.encode(batch)) and _read(entry).files != batch.files:
            raise PipelineError(f"batch {batch.id!r} was committed by another run, with other files")
        self.withdraw(batch)

    def withdraw(self, batch: JournalEntry) -> None:
        """Remove the prepared entry of a batch that is committed, or that cannot be committed any more."""
        self._build_path(PREPARED, batch.id).delete()
        if self.output.folder is None:
            for attempt in _list_attempts(batch):
                (self.output / attempt).clear()

    def make_staging(self, attempt: str) -> Place:
        """Create and return an empty folder for the staged files of ``attempt``."""
        self._beginning.attempts.add(attempt)
        folder = self.output / STAGING / attempt
        folder.make()
        return folder

    def sweep(self) -> None:
        """Remove the staged files of dead runs. Only call this if no prepared batch is unfinished."""
        # A worker of a dead run may still be writing there. Its files are in no entry, and the next sweep removes
        # them.
        staging = self.output / STAGING
        if staging.folder is not None:
            staging.clear()
            return
        with suppress(OSError, PipelineError):  # remaining files are removed by the next sweep
            self._sweep(staging)

    def _sweep(self, staging: Place) -> None:
        """Remove the staged files of dead attempts in a store, except of those whose batch was prepared after all."""
        attempts: dict[str, list[Stored]] = {}
        for file in staging.list_files(deep=True):
            attempt, _, path = file.path.partition("/")
            attempts.setdefault(attempt, []).append(replace(file, path=path))
        forgotten = time.time_ns() - _FORGOTTEN
        dead = {attempt: files for attempt, files in attempts.items() if not _is_mark(files, forgotten)}
        if not dead:
            return
        # Checked after the listing: while this run holds the lock nobody else begins an attempt, so that the listed
        # attempts are dead.
        self._lock.check()
        prepared = {attempt for entry in self.list_unfinished() for attempt in _list_attempts(entry)}
        for attempt, files in dead.items():
            if f"{STAGING}/{attempt}" not in prepared:
                self._sweep_attempt(staging / attempt, files, forgotten)

    def _sweep_attempt(self, folder: Place, files: Sequence[Stored], forgotten: int) -> None:
        # The claim stays for a while, so that a delayed run finds it. If that run has claimed its files, they stay,
        # too.
        over = any(file.path == _CLAIM and file.modified < forgotten for file in files)
        if over or self._claim(f"{STAGING}/{folder.name}", _SWEPT):
            for file in files:
                if over or file.path != _CLAIM:
                    (folder / file.path).delete()

    def _claim(self, attempt: str, state: bytes) -> bool:
        """Claim ``state`` for an attempt in a store. Return False if the attempt has another state already.

        In a local folder, return True without a claim, because the lock is sufficient.
        """
        place = self.output / attempt / _CLAIM
        return place.folder is not None or place.create(state)

    def _read_entries(self) -> Iterator[JournalEntry]:
        return self._read_all(BATCHES, sorted(file.path for file in self._list_entries(BATCHES)))

    def _list_entries(self, state: str) -> Iterator[Stored]:
        with store_errors(self.output):
            # In a store the listing is deep, because deep listings come in pieces and most callers need the first piece
            # only. Few other files are below these folders.
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
    """Convert an ``OSError`` about a store to ``PipelineError``. If ``output`` is a local folder, errors stay as is."""
    try:
        yield
    except OSError as error:
        if output.folder is not None:
            raise
        raise PipelineError(f"cannot use {output}: {error.strerror}") from error


def _find_existing(folder: Path | None) -> Path | None:
    """Return ``folder`` if it exists, else its nearest existing parent; None for None."""
    return None if folder is None else next(candidate for candidate in (folder, *folder.parents) if candidate.exists())


def _list_attempts(batch: JournalEntry) -> set[str]:
    """Return the paths, below the output, of the folders in which the files of ``batch`` are staged."""
    return {file.staged.rpartition("/")[0] for file in batch.files}


def _list_names(folder: Place) -> set[str]:
    """Return the paths of all files below a folder."""
    return {file.path for file in folder.list_files(deep=True)}


def _is_mark(files: Sequence[Stored], forgotten: int) -> bool:
    """Return True if ``files``, the remains of an attempt, are only a claim that is too new to be removed."""
    return len(files) == 1 and files[0].path == _CLAIM and files[0].modified >= forgotten


def _sort_by_commit(files: Iterable[Stored]) -> list[Stored]:
    """Return the files of entries in the order of the commits, by their modification times.

    The names of entries do not show the order.
    """
    return sorted(files, key=lambda file: (file.modified, file.path))


def _find(place: Place) -> JournalEntry | None:
    return _read(place) if place.exists() else None


def _read(place: Place) -> JournalEntry:
    try:
        return _DECODER.decode(place.read())
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"cannot read the batch journal {place}: {error}") from error
