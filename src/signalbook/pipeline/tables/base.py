"""What a table format offers: tables that follow their definitions, and a commit that may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import pyarrow as pa

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile, JournalEntry
from signalbook.pipeline.places import Place, in_parallel
from signalbook.pipeline.tables.naming import DEAD_LETTERS, TableName, quoted

DAY_OF_INSTANT: Final = f"date_from_unix_date(CAST(unix_micros({quoted(LANDED_AT)}) DIV 86400000000 AS INT))"
"""The day of an instant in UTC, whatever the time zone of Spark's session is."""


class Tables(Protocol):
    """The tables of one output folder. Methods raise ``PipelineError`` where a table is not as it was left."""

    @property
    def concurrent(self) -> bool:
        """True if several threads may read and commit different tables at once."""
        return False

    def versions(self, table: TableName) -> list[TableName]:
        """The tables there are of the definition that ``table`` is the first of, oldest first."""
        ...

    def columns(self, table: TableName) -> pa.Schema:
        """The columns of a table."""
        ...

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Make sure that a table can take ``columns``, without changing it yet. Raises ``Incompatible`` if not."""
        ...

    def expect(self, table: TableName, columns: pa.Schema) -> None:  # noqa: ARG002 - read with the rest
        """Take note of the columns of the files that the next commit adds, which need not be read for that again."""
        return

    def folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return the folder, below its home, for a table's files of ``batch``: empty, or ending in ``/``."""
        ...

    def paths(self, table: TableName) -> list[str]:
        """Return what Spark reads for all rows of a table: its files, or a folder of them."""
        ...

    def live(self, table: TableName) -> set[str]:
        """The paths of the files that readers of a table see now. Raises as ``paths`` does.

        Others may lie beside them: of older versions, or of a table that was dropped.
        """
        return set(self.paths(table))

    def source(self, table: TableName, catalog: str) -> str:
        """Return a table's name in Spark's SQL. ``catalog`` is the name of Iceberg's catalog, empty for the default."""
        ...

    def by_day(self, table: TableName) -> bool:
        """Return True if the table's files are in folders by day of landing."""
        ...

    def day(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - of Iceberg alone
        """The day that a row of ``source`` landed on, in UTC, as an expression of Spark's SQL."""
        return quoted(DAY) if self.by_day(table) else DAY_OF_INSTANT

    def together(self) -> AbstractContextManager[object]:
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
    def without(cls, table: TableName, count: int) -> Outdated:
        """The error for so many files that were to be replaced and are not there."""
        return cls(
            f"table {table} was changed by someone else: {count} of the files that were to be replaced are no longer "
            "in it"
        )


def versions_of(table: TableName, names: Iterable[str]) -> list[TableName]:
    """The tables of the definition of ``table`` among those in its group called ``names``, oldest first."""
    first = table.first
    # By their beginning first: each of thousands of tables looks through the names of all.
    found = [TableName(table.group, name) for name in names if name.startswith(first.message)]
    return sorted((each for each in found if each.first == first), key=lambda each: each.version)


def of_table(files: Sequence[DataFile], table: TableName) -> list[DataFile]:
    """Return those of ``files`` that belong to ``table``."""
    return [file for file in files if file.table == table]


def divides(batch: JournalEntry, table: TableName) -> bool:
    """Return True if ``batch`` creates ``table`` divided by day: a replay rewrites dead letters of many days."""
    return batch.partition == "day" and batch.landed_at is not None and table != DEAD_LETTERS


def day_folder(batch: JournalEntry) -> str:
    """The folder of the day a batch is landed on, as Hive names it; older entries of the journal do not know."""
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

    for _ in in_parallel(output, lambda pair: move(*pair), zip(files, places, strict=True)):
        pass
    for parent in parents:
        parent.settle()
    return places
