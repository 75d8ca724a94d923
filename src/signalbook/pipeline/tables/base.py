"""What a table format offers: tables that follow their definitions, and a commit that may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import pyarrow as pa

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile, JournalEntry
from signalbook.pipeline.places import Place, run_in_parallel
from signalbook.pipeline.tables.table_names import DEAD_LETTERS, TableName, quote_name

DAY_OF_INSTANT: Final = f"date_from_unix_date(CAST(unix_micros({quote_name(LANDED_AT)}) DIV 86400000000 AS INT))"
"""The day of an instant in UTC, whatever the time zone of Spark's session is."""


class Tables(Protocol):
    """The tables of one output folder. Methods raise ``PipelineError`` where a table is not as it was left."""

    @property
    def concurrent(self) -> bool:
        """True if several threads may read and commit different tables at once."""
        return False

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the existing tables of the definition whose first table is ``table``, oldest first."""
        ...

    def read_columns(self, table: TableName) -> pa.Schema:
        """Return the columns of a table."""
        ...

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Make sure that a table can take ``columns``, without changing it yet. Raises ``Incompatible`` if not."""
        ...

    def expect(self, table: TableName, columns: pa.Schema) -> None:  # noqa: ARG002 - read with the rest
        """Take note of the columns of the files that the next commit adds, which need not be read for that again."""
        return

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return the folder, below its home, for a table's files of ``batch``: empty, or ending in ``/``."""
        ...

    def find_paths(self, table: TableName) -> list[str]:
        """Return what Spark reads for all rows of a table: its files, or a folder of them."""
        ...

    def find_live_paths(self, table: TableName) -> set[str]:
        """Return the paths of the files that readers of a table see now. Raises as ``find_paths`` does.

        Others may lie beside them: of older versions, or of a table that was dropped.
        """
        return set(self.find_paths(table))

    def build_source(self, table: TableName, catalog: str) -> str:
        """Return a table's name in Spark's SQL. ``catalog`` is the name of Iceberg's catalog, empty for the default."""
        ...

    def is_by_day(self, table: TableName) -> bool:
        """Return True if the table's files are in folders by day of landing."""
        ...

    def build_day(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - of Iceberg alone
        """Return the day on which a row of ``build_source`` landed, in UTC, as an expression of Spark's SQL."""
        return quote_name(DAY) if self.is_by_day(table) else DAY_OF_INSTANT

    def commit_together(self) -> AbstractContextManager[object]:
        """Begin a context in which commits of different tables may wait for its end."""
        return nullcontext()

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Make the batch's files part of ``table`` in place of those it removes. Doing it again changes nothing.

        All at once where the format can. Raises ``PipelineError`` or ``OSError``; the batch stays prepared then, and
        the next run goes on from there. Raises ``Outdated`` if the table is no longer as it was left.
        """
        ...


class Outdated(PipelineError):
    """A table that is no longer what a batch was made for; doing it again will not help until someone undoes that."""

    @classmethod
    def from_missing(cls, table: TableName, count: int) -> Outdated:
        """Return the error for files that were to be replaced and are missing."""
        return cls(
            f"table {table} was changed by someone else: {count} of the files that were to be replaced are no longer "
            "in it"
        )


def select_versions(table: TableName, names: Iterable[str]) -> list[TableName]:
    """Return the tables of the definition of ``table`` among ``names`` in its group, oldest first."""
    first = table.first
    # By their beginning first: each of thousands of tables looks through the names of all.
    tables = [TableName(table.group, name) for name in names if name.startswith(first.message)]
    return sorted(
        (candidate for candidate in tables if candidate.first == first), key=lambda candidate: candidate.version
    )


def of_table(files: Sequence[DataFile], table: TableName) -> list[DataFile]:
    """Return those of ``files`` that belong to ``table``."""
    return [file for file in files if file.table == table]


def is_divided_by_day(batch: JournalEntry, table: TableName) -> bool:
    """Return True if ``batch`` creates ``table`` divided by day: a replay rewrites dead letters of many days."""
    return batch.partition == "day" and batch.landed_at is not None and table != DEAD_LETTERS


def build_day_folder(batch: JournalEntry) -> str:
    """Return the folder for the day on which a batch landed, as Hive names it; empty for older entries without it."""
    return "" if batch.landed_at is None else f"{DAY}={batch.landed_at:%Y-%m-%d}/"


def move_in(output: Place, folder: Place, files: Sequence[DataFile]) -> list[Place]:
    """Move staged files into ``folder``, those not moved before, and return where all of them are."""
    places = [folder / file.name for file in files]
    # as many as there are days, and mostly one
    parents = {str(place.parent): place.parent for place in places}.values()
    for parent in parents:
        parent.make()

    def move(file: DataFile, place: Place) -> None:
        staged = output / file.staged
        try:
            staged.move(place)
        except FileNotFoundError:
            # a commit that is repeated finds files that the first one moved
            if not place.exists():
                raise FileNotFoundError(2, "a staged file of a prepared batch is gone", str(staged)) from None

    for _ in run_in_parallel(output, lambda pair: move(*pair), zip(files, places, strict=True)):
        pass
    for parent in parents:
        parent.settle()
    return places
