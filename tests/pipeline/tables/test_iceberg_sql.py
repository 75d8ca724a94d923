"""A catalog in a database: the tables of a batch are given it all at once, whoever else is at work, and once."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from sqlalchemy import event
from tests.pipeline.lake import Lake

from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Progress
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.table_names import CATALOG_DATABASE, TableName
from signalbook.pipeline.tables.catalogs import NAME
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.pipeline.tables.iceberg_sql import RememberingSqlCatalog

COLUMNS = {"a": pa.int32()}
NAMES = [TableName("shop", name) for name in ("a", "b", "c")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake", "iceberg")


def batch_of(lake: Lake, number: int, names: Sequence[TableName] = NAMES) -> JournalEntry:
    """A prepared batch with a row for each table."""
    parts = [lake.prepared([{"a": number}], COLUMNS, name) for name in names]
    for part in parts:
        lake.journal.withdraw(part)
    batch = replace(parts[0], files=tuple(file for part in parts for file in part.files))
    lake.journal.prepare(batch)
    return batch


def rows(lake: Lake) -> dict[str, list[int]]:
    return {name.message: [row["a"] for row in lake.rows(name)] for name in NAMES}


def theirs(lake: Lake, name: str) -> Table:
    """A table as another program sees it."""
    return SqlCatalog(NAME, uri=f"sqlite:///{lake.output / CATALOG_DATABASE}").load_table(("shop", name))


def there(lake: Lake) -> list[str]:
    """Return the metadata locations of the tables in the database."""
    with closing(sqlite3.connect(lake.output / CATALOG_DATABASE)) as database:
        return [row[0] for row in database.execute("SELECT metadata_location FROM iceberg_tables ORDER BY table_name")]


@pytest.mark.parametrize("existing", [False, True])
def test_all_tables_in_one_transaction(lake: Lake, monkeypatch: pytest.MonkeyPatch, existing: bool) -> None:
    if existing:
        lake.commit(batch_of(lake, 1))
    batch, tables = batch_of(lake, 2), lake.tables
    assert isinstance(tables, IcebergTables)
    tables.catalog.create_namespace("other")  # so that the one of the batch is made in another transaction than theirs
    monkeypatch.setattr(Lake, "tables", tables)
    transactions: list[list[str]] = []
    event.listen(tables.catalog.engine, "commit", lambda _: transactions.append(there(lake)))  # type: ignore[attr-defined]
    before = there(lake)
    lake.commit(batch)
    # each sees what was there before it
    assert all(locations == before for locations in transactions)
    assert len(transactions) == (1 if existing else 2)
    monkeypatch.undo()
    assert rows(lake) == {name.message: [1, 2] if existing else [2] for name in NAMES}


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("existing", [False, True])
def test_killed_with_some_tables_waiting(lake: Lake, monkeypatch: pytest.MonkeyPatch, existing: bool) -> None:
    """Their written metadata are not used, and all commits are repeated."""
    if existing:
        lake.commit(batch_of(lake, 1))
    batch, before = batch_of(lake, 2), there(lake)

    def killed(progress: Progress) -> None:
        if progress.stage == "committing" and progress.done == 2:
            raise _Killed

    with monkeypatch.context() as context:
        context.setattr("signalbook.pipeline.tables.iceberg_sql.RememberingSqlCatalog.make", lambda _: True)
        with pytest.raises(_Killed):
            lake.commit(batch, killed)
    assert there(lake) == before
    complete_unfinished(lake.journal, lambda _: None)
    assert rows(lake) == {name.message: [1, 2] if existing else [2] for name in NAMES}


def test_batch_is_completed_if_only_some_tables_exist(lake: Lake) -> None:
    """Nobody listed the others; the first that is made does not stand for all."""
    names = [TableName("shop", name) for name in "abcdefghijkl"]  # more than are worked on at once
    lake.commit(batch_of(lake, 1, names[1:]))
    batch_of(lake, 2, names)
    catalogs = []
    make = RememberingSqlCatalog.make

    def watched(catalog: RememberingSqlCatalog) -> bool:
        catalogs.append(make(catalog))
        return catalogs[-1]

    with patch.object(RememberingSqlCatalog, "make", watched):
        complete_unfinished(lake.journal, lambda _: None)
    assert catalogs == [True]
    assert [len(lake.rows(name)) for name in names] == [1, *[2] * 11]


def test_killed_after_the_transaction(lake: Lake) -> None:
    batch = batch_of(lake, 1)

    def killed(progress: Progress) -> None:
        if progress.stage == "committed":
            raise _Killed

    with pytest.raises(_Killed):
        lake.commit(batch, killed)
    lake.journal.prepare(batch)  # as if it had died before the journal knew
    complete_unfinished(lake.journal, lambda _: None)
    assert rows(lake) == {name.message: [1] for name in NAMES}


def add(lake: Lake) -> None:
    """Another program lands a file in a table that waits."""
    copied = shutil.copy(str(lake.files(NAMES[0])[0]), lake.output / "copy.parquet")
    theirs(lake, "a").add_files([str(copied)])


def drop(lake: Lake) -> None:
    theirs(lake, "a").catalog.drop_table(("shop", "a"))


@pytest.mark.parametrize(("change", "landed"), [(add, [1, 1, 2]), (drop, [2])])
def test_batch_lands_in_a_concurrently_changed_table(
    lake: Lake, change: Callable[[Lake], None], landed: list[int]
) -> None:
    lake.commit(batch_of(lake, 1))
    batch = batch_of(lake, 2)
    lake.commit(batch, lambda progress: change(lake) if (progress.stage, progress.done) == ("committing", 2) else None)
    assert rows(lake) == {"a": landed, "b": [1, 2], "c": [1, 2]}
    assert lake.journal.find(batch.id) is not None


def test_batch_lands_in_a_concurrently_created_table(lake: Lake) -> None:
    """The table has the same columns, and gets the batch like an existing one."""
    batch = batch_of(lake, 1)

    def make(progress: Progress) -> None:
        if (progress.stage, progress.done) == ("committing", 2):
            catalog = SqlCatalog(NAME, uri=f"sqlite:///{lake.output / CATALOG_DATABASE}")
            schema = pa.schema([("a", pa.int32()), ("_landed_at", pa.timestamp("us", "UTC"))])
            catalog.create_table(("shop", "b"), schema, location=f"file://{lake.output}/tables/shop/b")

    lake.commit(batch, make)
    assert rows(lake) == {name.message: [1] for name in NAMES}


def test_a_table_that_fails_keeps_no_other_from_the_batch(lake: Lake) -> None:
    lake.commit(batch_of(lake, 1))
    batch = batch_of(lake, 2)
    for path in (lake.output / "tables/shop/b/metadata").glob("*.metadata.json"):
        path.rename(path.with_suffix(".away"))
    with pytest.raises(PipelineError, match=r"table shop\.b has lost a file"):
        lake.commit(batch)
    for name in (NAMES[0], NAMES[2]):
        assert [row["a"] for row in lake.rows(name)] == [1, 2]
    for path in (lake.output / "tables/shop/b/metadata").glob("*.away"):
        path.rename(path.with_suffix(".json"))
    complete_unfinished(lake.journal, lambda _: None)
    assert rows(lake) == {name.message: [1, 2] for name in NAMES}
