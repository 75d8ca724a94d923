import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.postgres import new_database
from tests.storage.test_migrate import OLD_ROWS, at_revision

from signalbook.engine.engine import Engine
from signalbook.engine.read.nodes import ALL, EXPORT
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.backup import BackupError, back_up, restore, verify
from signalbook.storage.base import StorageError
from signalbook.storage.schema import REVISION
from signalbook.storage.store import WriteTransaction
from signalbook.values import JSON, JSONObject, now
from signalbook.xid import ROOT, Xid

TIMEOUT = 60.0


@contextmanager
def registry(url: str) -> Iterator[Engine]:
    """The registry in this database."""
    with closing(open_store(url)) as store:
        yield Engine(store, settings=Settings())


def put(engine: Engine, xid: str, body: JSONObject) -> None:
    """Create or replace an entity."""
    with engine.writing() as session:
        session.execute(Command(method=Method.PUT, target=Xid.parse(xid), body=body))


def everything(url: str) -> tuple[JSONObject, list[tuple[int, JSONObject]]]:
    """The whole registry, and its history."""
    with registry(url) as engine:
        with engine.reading() as view:
            exported = view.render_entity(ROOT, ViewOptions(inline=EXPORT))
        with engine.store.read() as transaction:
            return exported, [(record.position, record.change) for record in transaction.outbox.records()]


@pytest.fixture
def filled(store_url: str) -> str:
    """A database with entities, a document, and a history whose beginning was pruned."""
    with registry(store_url) as engine:
        for number in range(3):
            put(engine, f"/schemagroups/e{number}", {"name": "é \u0000 \\ \t \u2028", "labels": {}})
        put(engine, "/schemagroups/e0/schemas/s", {"format": "JsonSchema/draft-07", "schema": {"type": "object"}})
        engine.prune(before=now(), upto=2)
    return store_url


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of another new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'target.db'}"
    return new_database(request.getfixturevalue("postgres_url"))


def test_progress_is_reported_for_portions_of_rows(
    filled: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signalbook.storage.backup._PROGRESS_ROWS", 2)
    reports: list[tuple[str, int]] = []

    def report(table: str, rows: int) -> None:
        reports.append((table, rows))

    backup = back_up(filled, tmp_path / "backup", timeout=TIMEOUT, progress=report)
    expected = [(name, rows) for name, contents in backup.tables.items() for rows in range(2, contents.rows + 1, 2)]
    assert len(expected) > 3
    assert sorted(reports) == sorted(expected)
    restore(tmp_path / "backup", target, timeout=TIMEOUT, progress=report)
    assert set(reports) == set(expected)
    assert len(reports) == 3 * len(expected)


def test_restore_into_any_database_is_complete(filled: str, target: str, tmp_path: Path) -> None:
    backup = back_up(filled, tmp_path / "backup", timeout=TIMEOUT)
    assert backup == restore(tmp_path / "backup", target, timeout=TIMEOUT)
    assert everything(target) == everything(filled)
    # The copy says of itself the same, digest by digest.
    assert back_up(target, tmp_path / "again", timeout=TIMEOUT).tables == backup.tables
    with registry(target) as engine:
        before = engine.position()
        put(engine, "/schemagroups/more", {})
        assert engine.read_changes(before, 10), "history goes on behind its last position"


def test_backup_is_private_and_leaves_no_other_files(filled: str, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    back_up(filled, folder / "backup", timeout=TIMEOUT)
    assert [path.name for path in folder.iterdir()] == ["backup"]
    assert stat.S_IMODE((folder / "backup").stat().st_mode) == 0o600


def test_backup_under_load_contains_acknowledged_writes(store_url: str, tmp_path: Path) -> None:
    """Every write creates two groups, and the backup contains both or none."""
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(engine: Engine, writer: int) -> None:
        for number in range(10_000):
            if stop.is_set():
                return
            name = f"w{writer}-{number}"
            with engine.writing() as session:
                for group in (name, f"{name}-twin"):
                    session.execute(Command(method=Method.PUT, target=ROOT / "schemagroups" / group, body={}))
            acknowledged.append(name)

    with registry(store_url) as engine:
        writers = [threading.Thread(target=write, args=(engine, number)) for number in range(3)]
        for thread in writers:
            thread.start()
        try:
            for number in range(3):
                before = wait_for_more(acknowledged)
                back_up(store_url, tmp_path / f"backup{number}", timeout=TIMEOUT)
                assert len(acknowledged) > len(before), "writers go on meanwhile"
                url = f"sqlite:///{tmp_path / str(number)}"
                restore(tmp_path / f"backup{number}", url, timeout=TIMEOUT)
                with registry(url) as copy, copy.reading() as view:
                    backed_up_groups = set(view.render_entity(ROOT, ViewOptions(inline=ALL))["schemagroups"])
                assert {*before, *(f"{name}-twin" for name in before)} <= backed_up_groups
                assert {name.removesuffix("-twin") for name in backed_up_groups} == {
                    name for name in backed_up_groups if "-twin" not in name
                }
                assert len(backed_up_groups) % 2 == 0
        finally:
            stop.set()
            for thread in writers:
                thread.join()


def wait_for_more(acknowledged: list[str]) -> list[str]:
    """Return the acknowledged writes once there are new ones."""
    already = len(acknowledged)
    while len(acknowledged) < already + 5:
        time.sleep(0.01)
    return list(acknowledged)


def test_only_empty_databases_are_restored_into(filled: str, target: str, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "backup", timeout=TIMEOUT)
    with registry(target) as engine:
        put(engine, "/schemagroups/mine", {})
    with pytest.raises(BackupError, match=r"not empty.*--replace"):
        restore(tmp_path / "backup", target, timeout=TIMEOUT)
    assert "mine" in everything(target)[0]["schemagroups"]
    restore(tmp_path / "backup", target, timeout=TIMEOUT, replace=True)
    assert everything(target) == everything(filled)


def test_a_restore_that_fails_leaves_the_database_as_it_was(filled: str, target: str, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "backup", timeout=TIMEOUT)
    with registry(target) as engine:
        put(engine, "/schemagroups/mine", {})
    before = everything(target)
    # Read and sound, and yet of other content when it is copied: a table of it does not fit the schema.
    with closing(sqlite3.connect(tmp_path / "backup")) as connection:
        connection.execute("ALTER TABLE subscriptions RENAME COLUMN sink TO other")
        connection.commit()
    with pytest.raises(StorageError):
        restore(tmp_path / "backup", target, timeout=TIMEOUT, replace=True)
    assert everything(target) == before


def test_restore_writes_in_its_transaction(filled: str, target: str, tmp_path: Path) -> None:
    """The function runs in the transaction of the restore, after the restored content."""

    def restored(transaction: WriteTransaction) -> None:
        met.append(transaction.settings.get("mark"))
        transaction.settings.put("mark", len(met))
        if len(met) == 1:
            raise StorageError("no more room")

    with closing(open_store(filled)) as store, store.write() as transaction:
        transaction.settings.put("mark", "stored")
    met: list[JSON] = []
    back_up(filled, tmp_path / "backup", timeout=TIMEOUT)
    with pytest.raises(StorageError, match="no more room"):
        restore(tmp_path / "backup", target, timeout=TIMEOUT, restored=restored)
    restore(tmp_path / "backup", target, timeout=TIMEOUT, restored=restored)  # it is empty still
    with closing(open_store(target)) as store, store.read() as reader:
        assert (met, reader.settings.get("mark")) == (["stored", "stored"], 2)
    assert everything(target) == everything(filled)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entities SET epoch = epoch + 1 WHERE xid = '/schemagroups/e1'",
        "DELETE FROM outbox WHERE position = (SELECT max(position) FROM outbox)",
        "DROP TABLE notes",
        "DELETE FROM backup",
    ],
)
def test_damaged_backups_are_refused(tmp_path: Path, damage: str) -> None:
    url, backup = f"sqlite:///{tmp_path / 'signalbook.db'}", tmp_path / "backup"
    with registry(url) as engine:
        put(engine, "/schemagroups/e1", {})
    assert back_up(url, backup, timeout=TIMEOUT) == verify(backup)
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(BackupError, match="use another backup"):
        verify(backup)
    with pytest.raises(BackupError, match="use another backup"):
        restore(backup, f"sqlite:///{tmp_path / 'target.db'}", timeout=TIMEOUT)
    assert not (tmp_path / "target.db").exists()


def test_invalid_backup_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text " * 1000)
    open_store(f"sqlite:///{tmp_path / 'signalbook.db'}").close()
    for name, words in (("text", "no backup"), ("signalbook.db", "no backup"), ("gone", "there is no backup")):
        with pytest.raises(BackupError, match=words):
            restore(tmp_path / name, f"sqlite:///{tmp_path / 'target.db'}", timeout=TIMEOUT)


def test_an_existing_file_is_never_replaced(filled: str, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("mine")
    with pytest.raises(BackupError, match="there already"):
        back_up(filled, tmp_path / "backup", timeout=TIMEOUT)
    assert (tmp_path / "backup").read_text() == "mine"


def test_a_database_without_a_registry_is_refused(store_url: str, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no registry in this database"):
        back_up(store_url, tmp_path / "backup", timeout=TIMEOUT)
    assert not (tmp_path / "backup").exists()


def test_an_older_database_is_restored_migrated(store_url: str, tmp_path: Path) -> None:
    at_revision("0001", store_url, OLD_ROWS)
    assert back_up(store_url, tmp_path / "backup", timeout=TIMEOUT).revision == "0001"
    # Nothing was migrated by the way: servers of the older version may be at work on it.
    back_up(store_url, tmp_path / "again", timeout=TIMEOUT)
    assert verify(tmp_path / "again").revision == "0001"
    url = f"sqlite:///{tmp_path / 'target.db'}"
    restore(tmp_path / "backup", url, timeout=TIMEOUT)
    with closing(open_store(url)) as store, store.read() as reading:
        row = reading.entities.get(Xid.parse("/gs/a"))
    assert row is not None
    assert verify(tmp_path / "backup").revision == "0001", "the backup stays as it is"


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    url, backup = f"sqlite:///{tmp_path / 'signalbook.db'}", tmp_path / "backup"
    open_store(url).close()
    back_up(url, backup, timeout=TIMEOUT)
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("UPDATE backup SET manifest = replace(manifest, ?, '9999')", (REVISION,))
        connection.commit()
    with pytest.raises(BackupError, match=r"9999.*update Signalbook"):
        restore(backup, f"sqlite:///{tmp_path / 'target.db'}", timeout=TIMEOUT)


def test_every_table_is_backed_up(tmp_path: Path) -> None:
    from signalbook.storage.schema import TABLES

    url = f"sqlite:///{tmp_path / 'signalbook.db'}"
    open_store(url).close()
    made_of_others = {name for name in TABLES.tables if name.startswith("index_")}
    table_names = back_up(url, tmp_path / "backup", timeout=TIMEOUT).tables.keys()
    # A session that was ended since the backup must not hold again.
    assert table_names == TABLES.tables.keys() - made_of_others - {"sessions"}
