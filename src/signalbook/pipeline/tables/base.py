"""The interface of table formats: tables that follow their definitions, and commits that may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import pyarrow as pa

from signalbook.pipeline.columns import DAY, LANDED_AT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile, JournalEntry
from signalbook.pipeline.places import Place, run_in_parallel
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, quote_name

DAY_OF_INSTANT: Final = f"date_from_unix_date(CAST(unix_micros({quote_name(LANDED_AT)}) DIV 86400000000 AS INT))"
"""A Spark SQL expression for the UTC day of ``LANDED_AT``. It does not depend on the time zone of the session."""


class Tables(Protocol):
    """The tables of one output folder.

    Methods raise ``PipelineError`` if another program damaged or changed a table.
    """

    @property
    def concurrent(self) -> bool:
        """True if several threads may read and commit different tables at once."""
        return False

    def find_versions(self, table: TableName) -> list[TableName]:
        """Return the existing tables of the definition whose first table is ``table``, oldest first."""
        ...

    def read_columns(self, table: TableName) -> pa.Schema: ...

    def follow(self, table: TableName, columns: pa.Schema) -> None:
        """Check that ``table`` can accept files with ``columns``.

        Do not change it yet. Raises ``Incompatible`` if not.
        """
        ...

    def expect(self, table: TableName, columns: pa.Schema) -> None:  # noqa: ARG002 - read with the rest
        """Remember the ``columns`` of the files that the next commit adds, so that it need not read them again."""
        return

    def choose_folder(self, table: TableName, batch: JournalEntry) -> str:
        """Return the folder for files of ``batch``, relative to that of ``table``: empty, or ending in ``/``."""
        ...

    def find_paths(self, table: TableName) -> list[str]:
        """Return the paths that Spark reads to get all rows of ``table``: its files, or a folder that contains them."""
        ...

    def find_live_paths(self, table: TableName) -> set[str]:
        """Return the paths of the files that readers of ``table`` see now. Raises the errors of ``find_paths``.

        Their folder may also contain files of older versions, or of a table that was dropped.
        """
        return set(self.find_paths(table))

    def build_source(self, table: TableName, catalog: str) -> str:
        """Return the name of ``table`` in Spark SQL.

        ``catalog`` is Spark's name for the Iceberg catalog. Empty means that Spark uses the same name as pyiceberg.
        """
        ...

    def is_by_day(self, table: TableName) -> bool:
        """Return True if the table's files are in folders by day of landing."""
        ...

    def build_day(self, table: TableName, catalog: str) -> str:  # noqa: ARG002 - of Iceberg alone
        """Return a Spark SQL expression for the UTC day on which a row of ``build_source(table, catalog)`` landed."""
        return quote_name(DAY) if self.is_by_day(table) else DAY_OF_INSTANT

    def commit_together(self) -> AbstractContextManager[object]:
        """Return a context in which commits of different tables may be delayed until its end, to be made together."""
        return nullcontext()

    def commit(self, batch: JournalEntry, table: TableName) -> None:
        """Add the batch's files to ``table`` and remove the files that they replace. Repeating it changes nothing.

        The change is atomic if the format allows it. Raises ``PipelineError`` or ``OSError``: the batch then stays
        prepared, and the next run continues. Raises ``Outdated`` if another program changed the table so that the batch
        does not fit.
        """
        ...


class Outdated(PipelineError):
    """The error for a table changed so that a batch no longer fits. Repeating the commit fails until that is undone."""

    @classmethod
    def from_missing(cls, table: TableName, count: int) -> Outdated:
        """Return the error for ``count`` files of ``table`` that were to be replaced and are missing."""
        return cls(
            f"table {table} was changed by someone else: {count} of the files that were to be replaced are no longer "
            "in it"
        )


def select_versions(table: TableName, names: Iterable[str]) -> list[TableName]:
    """Return the tables of the definition of ``table`` among ``names`` in its group, oldest first."""
    first = table.first
    # Compare prefixes first, because this runs for each of thousands of tables with the names of all of them.
    tables = [TableName(table.group, name) for name in names if name.startswith(first.message)]
    return sorted(
        (candidate for candidate in tables if candidate.first == first), key=lambda candidate: candidate.version
    )


def of_table(files: Sequence[DataFile], table: TableName) -> list[DataFile]:
    """Return the ``files`` that belong to ``table``."""
    return [file for file in files if file.table == table]


def is_divided_by_day(batch: JournalEntry, table: TableName) -> bool:
    """Return True if ``table`` is to be divided by day if ``batch`` creates it.

    Dead letters are never divided, because a replay rewrites dead letters of many days.
    """
    return batch.partition == "day" and batch.landed_at is not None and table != DEAD_LETTERS


def build_day_folder(batch: JournalEntry) -> str:
    """Return the folder for the day of ``batch``, named as in Hive; empty for older entries without a landing time."""
    return "" if batch.landed_at is None else f"{DAY}={batch.landed_at:%Y-%m-%d}/"


def move_in(output: Place, folder: Place, files: Sequence[DataFile]) -> list[Place]:
    """Move staged files from ``output`` into ``folder``, unless they were moved before. Return their new places."""
    places = [folder / file.name for file in files]
    # The distinct parent folders: one for each day, so usually one.
    parents = {str(place.parent): place.parent for place in places}.values()
    for parent in parents:
        parent.make()

    def move(file: DataFile, place: Place) -> None:
        staged = output / file.staged
        try:
            staged.move(place)
        except FileNotFoundError:
            # In a repeated commit, the first attempt may have moved the file already.
            if not place.exists():
                raise FileNotFoundError(2, "a staged file of a prepared batch is gone", str(staged)) from None

    for _ in run_in_parallel(output, lambda pair: move(*pair), zip(files, places, strict=True)):
        pass
    for parent in parents:
        parent.settle()
    return places
