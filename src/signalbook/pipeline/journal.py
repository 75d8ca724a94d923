"""The journal of an output folder: what each batch consists of, written down before any of it is committed.

A batch is *prepared* once all of its files are staged and its totals add up, and *committed* when every table has
them. A run that dies before the first leaves only staged files, which the next run removes; one that dies between the
two is completed by the next run, since committing a file or a table twice changes nothing. Entries are replaced
atomically, so that a reader sees one state or the other. ``commit.py`` has the steps in between.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from signalbook.pipeline.errors import PipelineError, Stopped, disk_failure
from signalbook.pipeline.reports.report import Report, Tally, decode
from signalbook.pipeline.tables.naming import DEAD_LETTERS, TABLES, TableName, escape, home

BATCHES: Final = "batches"
PREPARED: Final = "batches/prepared"
STAGING: Final = ".staging"
_LOCK: Final = ".lock"
_ENTRY: Final = ".json"
_PAUSE: Final = 0.1
_SCHEMES: Final = frozenset(
    {
        "abfs",
        "abfss",
        "adl",
        "az",
        "cos",
        "dbfs",
        "file",
        "ftp",
        "gcs",
        "gs",
        "hdfs",
        "http",
        "https",
        "oss",
        "s3",
        "s3a",
    }
    | {"s3a", "s3n", "wasb", "wasbs", "webhdfs"}
)

TableFormat = Literal["iceberg", "parquet", "delta"]
# How tables that do not exist yet are to be divided.
Partition = Literal["day", "none"]


# What times, dates and decimals have columns of, where they come as text or numbers.
ColumnKinds = Literal["typed", "as_sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a table. ``staged`` is its path below the output folder until its batch is committed."""

    table: TableName
    staged: str
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry of the journal. ``origin`` distinguishes the input from another under the same batch id.

    ``landed_at`` is what its rows say in ``_landed_at``, ``finished`` when all of it was committed; older entries do
    not say. ``removed`` are files of earlier batches that ``files`` replace from now on; ``replayed`` counts the
    dead letters that are the input of a replay, ``changed`` those of them that stay for another reason; ``stream`` is
    the name of the stream it is a part of, and ``offsets`` where it ends in that, in Spark's words. ``left_out`` are
    definitions that could not be used, with the reasons. A ``compaction`` has no input: its files hold the rows of
    those it removes. ``columns`` are those of times, dates and decimals, as the policy of that name has it; older
    entries know no others than ``as_sent``.
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
        """What became of it."""
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


def check_local(output: Path) -> None:
    """Raise ``PipelineError`` if ``output`` was made of a URL: ``s3://bucket/lake`` would be a folder named ``s3:``."""
    for place, part in enumerate(output.parts):
        if part.endswith(":") and part[:-1].lower() in _SCHEMES:
            url = f"{part}//{'/'.join(output.parts[place + 1 :])}"
            raise PipelineError(f"{url} is no folder: an output is one of a file system, such as a mounted bucket")


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal in the output folder ``output``. Raises ``PipelineError`` for a URL."""

    output: Path

    def __post_init__(self) -> None:
        check_local(self.output)

    @classmethod
    def open(cls, output: Path) -> Journal:
        """The journal of ``output``, which is made if need be. Raises ``PipelineError`` if it cannot be written."""
        check_local(output)
        try:
            for folder in (output / PREPARED, output / BATCHES, output / TABLES):
                folder.mkdir(parents=True, exist_ok=True)
            # Made now, so that a folder that cannot be written to is refused before anything is read.
            (output / _LOCK).open("ab").close()
        except OSError as error:
            raise disk_failure(error, output) from error
        return cls(output)

    @contextmanager
    def alone(self, patience: float = 0.0, stop: threading.Event | None = None) -> Iterator[None]:
        """Keep other runs out of this output folder.

        Raises ``PipelineError`` if one is still at work after ``patience`` seconds, and ``Stopped`` if ``stop`` is set
        before.
        """
        deadline = time.monotonic() + patience
        stop = stop or threading.Event()
        with (self.output / _LOCK).open("ab") as lock:
            while not locked(lock):
                if time.monotonic() >= deadline:
                    raise PipelineError(
                        f"another run is writing to {self.output}; wait for it or choose another output"
                    )
                if stop.wait(_PAUSE):
                    raise Stopped(f"stopped while another run is writing to {self.output}")
            yield

    def find(self, batch: str) -> JournalEntry | None:
        """The entry of a committed batch, if there is one."""
        path = self._path(BATCHES, batch)
        return _read(path) if path.exists() else None

    @classmethod
    def existing(cls, output: Path) -> Journal:
        """The journal of a folder that runs have written to. Raises ``PipelineError`` if there is none."""
        check_local(output)
        if not (output / BATCHES).is_dir():
            raise PipelineError(f"{output} is no output folder of the pipeline: no batch was ever written there")
        return cls(output)

    def committed(self) -> Iterator[JournalEntry]:
        """Entries of all committed batches, by their ids, without compactions; one is read after the other."""
        return (entry for entry in self._entries() if not entry.compaction)

    def files(self) -> dict[TableName, list[DataFile]]:
        """The files of each table that no others replaced, as far as they are still where they were left."""
        entries = list(self._entries())
        removed = {(file.table, file.name) for entry in entries for file in entry.removed}
        found: dict[TableName, list[DataFile]] = {}
        for entry in entries:
            for file in entry.files:
                place = self.output / home(file.table, entry.table_format) / file.name
                # Removed by a compaction or replay of ours, or taken away by somebody else: either way readers have it
                # no more.
                if (file.table, file.name) not in removed and place.exists():
                    found.setdefault(file.table, []).append(file)
        return dict(sorted(found.items()))

    def tables(self) -> dict[TableName, list[Path]]:
        """The files of each table, as far as they are still where the batches left them."""
        table_format = self.table_format() or "parquet"
        return {
            table: [self.output / home(table, table_format) / file.name for file in files]
            for table, files in self.files().items()
        }

    def table_format(self) -> TableFormat | None:
        """The format of the tables here; None while there are none."""
        first = self._any()
        return None if first is None else first.table_format

    def columns(self) -> ColumnKinds | None:
        """What columns there are of times, dates and decimals; None while there are no tables."""
        first = self._any()
        return None if first is None else first.columns

    def _any(self) -> JournalEntry | None:
        with os.scandir(self.output / BATCHES) as entries:  # which may be many, and are the same in what is asked
            first = next((entry.path for entry in entries if entry.name.endswith(_ENTRY)), None)
        return None if first is None else _read(Path(first))

    def news(self, known: Container[str]) -> list[str]:
        """The names of committed entries that are not ``known``, in the order they were committed in."""
        with os.scandir(self.output / BATCHES) as entries:  # which are asked for after each of many batches
            names = (entry.name for entry in entries if entry.name.endswith(_ENTRY))
            fresh = [self.output / BATCHES / name for name in names if name.removesuffix(_ENTRY) not in known]
        # By time and not by name: batches are named by their callers, and reports go out in the order of commits.
        return [path.stem for path in sorted(fresh, key=lambda path: (path.stat().st_mtime_ns, path.name))]

    def entry(self, name: str) -> JournalEntry:
        """A committed entry by one of the names out of ``news``."""
        return _read(self.output / BATCHES / f"{name}.json")

    def unfinished(self) -> list[JournalEntry]:
        """Entries of batches that are prepared; some may be committed, all but this entry."""
        return [_read(path) for path in sorted((self.output / PREPARED).glob("*.json"))]

    def prepare(self, batch: JournalEntry) -> None:
        """Enter a batch whose files are all staged."""
        replace_file(self._path(PREPARED, batch.id), msgspec.json.encode(batch))

    def commit(self, batch: JournalEntry) -> None:
        """Enter a batch as committed, once all of its tables are."""
        # in this order: killed in between, the batch is committed and merely committed again; never is it in neither
        replace_file(self._path(BATCHES, batch.id), msgspec.json.encode(batch))
        self._path(PREPARED, batch.id).unlink()

    def withdraw(self, batch: JournalEntry) -> None:
        """Take back a prepared batch that cannot be committed any more."""
        self._path(PREPARED, batch.id).unlink()

    def staging(self, attempt: str) -> Path:
        """An empty folder for the files of one attempt."""
        folder = self.output / STAGING / attempt
        folder.mkdir(parents=True)
        return folder

    def sweep(self) -> None:
        """Remove what dead runs staged. Only with no entry unfinished."""
        # A worker of a dead run may still be writing there. What it leaves behind is in no entry, and swept the next
        # time.
        shutil.rmtree(self.output / STAGING, ignore_errors=True)

    def _entries(self) -> Iterator[JournalEntry]:
        return (_read(path) for path in sorted((self.output / BATCHES).glob(f"*{_ENTRY}")))

    def _path(self, state: str, batch: str) -> Path:
        return self.output / state / f"{escape(batch)}.json"


def locked(lock: BinaryIO | int) -> bool:
    """Whether an open file could be locked, which nobody else can then until it is closed or this process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` last through a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Give a file this content, lasting through a crash of the machine; readers see the old or the new one."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        # ``news`` goes by this time; the clock of a file system may tick more slowly than batches are committed
        os.utime(file.fileno(), ns=(time.time_ns(), time.time_ns()))
        os.fsync(file.fileno())
    # the content is on disk before the name is, and the name before anyone relies on it
    fresh.replace(path)
    sync_folder(path.parent)


def _read(path: Path) -> JournalEntry:
    try:
        return decode(path.read_bytes(), JournalEntry)
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"cannot read the batch journal {path}: {error}") from error
