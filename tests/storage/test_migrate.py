"""Databases come to this program's schema when opened."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect

from signalbook.cncf.ids import uri_digest
from signalbook.storage import open_store
from signalbook.storage.base import StorageError
from signalbook.storage.migrate import MIGRATIONS
from signalbook.storage.schema import REVISION, TABLES
from signalbook.xid import ROOT

OLD_ROWS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter)
SELECT k, p, x, t, f, 1, 0, 0, '{}', FALSE, 0
FROM (SELECT 1 k, 0 p, '/' x, '' t, '' f UNION ALL SELECT 2, 1, '/gs/a', 'gs', 'a' UNION ALL
      SELECT 3, 1, '/gs/b', 'gs', 'b' UNION ALL SELECT 4, 2, '/gs/a/rs/r', 'rs', 'r') old
"""
OPEN = """
import sys
from signalbook.storage import open_store
open_store(sys.argv[1], timeout=600).close()
print("opened")
"""


@pytest.fixture
def database(store_url: str) -> Iterator[Connection]:
    """A connection past the store, to a database it has migrated."""
    open_store(store_url).close()
    engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_revision_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [REVISION]


def test_migrations_end_at_the_tables(database: Connection) -> None:
    assert compare_metadata(MigrationContext.configure(database), TABLES) == []


def test_text_is_compared_by_code_point(database: Connection) -> None:
    database.exec_driver_sql("INSERT INTO config VALUES ('_', 1, ''), ('a', 1, ''), ('B', 1, ''), ('é', 1, '')")
    names = database.exec_driver_sql("SELECT name FROM config ORDER BY name").scalars().all()
    assert names == ["B", "_", "a", "é"]


def test_opening_again_keeps_everything(store_url: str) -> None:
    for expected in (1, 2, 3):
        store = open_store(store_url)
        with store.write() as writer:
            writer.settings.put_config("modelsource", {})
            assert writer.settings.config_epoch("modelsource") == expected
        store.close()


def test_children_stored_before_they_were_counted_are_counted(store_url: str) -> None:
    at_revision("0001", store_url, OLD_ROWS)
    store = open_store(store_url)
    with store.read() as reader:
        assert reader.entities.counts([0, 1, 2, 3]) == {(0, ""): 1, (1, "gs"): 2, (2, "rs"): 1}
        assert [(row.rank, row.settled) for row in reader.entities.children([1], "gs")] == [(None, None)] * 2
    store.close()


def test_notes_that_were_configuration_are_notes(store_url: str) -> None:
    old = (
        """INSERT INTO config VALUES ('note.catalogue', 3, '{"mark": 1}'), ('note.gone', 2, NULL), ('notes', 1, '1')"""
    )
    at_revision("0002", store_url, old)
    store = open_store(store_url)
    with store.read() as reader:
        assert (reader.settings.get("catalogue"), reader.settings.get("gone")) == ({"mark": 1}, None)
        assert (reader.settings.config("note.catalogue"), reader.settings.config("notes")) == (None, 1)
    store.close()


OLD_VERSIONS = """
INSERT INTO entities (key, parent, xid, type, folded, epoch, createdat, modifiedat, attributes, defaultversionsticky,
                      versioncounter)
SELECT k, p, x, t, f, 1, 0, 0, a, FALSE, c
FROM (SELECT 1 k, 0 p, '/gs/a/rs/r' x, 'rs' t, 'r' f, '{}' a, 2 c UNION ALL
      SELECT 2, 1, '/gs/a/rs/r/versions/7', 'versions', '7', '{"globaluri": "/342", "authority": "urn:x"}', 0 UNION ALL
      SELECT 3, 1, '/gs/a/rs/r/versions/v8', 'versions', 'v8', '{"globaluri": "342"}', 0 UNION ALL
      SELECT 4, 1, '/gs/a/rs/r/versions/9x', 'versions', '9x', '{"globaluri": "a b"}', 0 UNION ALL
      SELECT 5, 1, '/gs/a/rs/r/versions/2', 'versions', '2', '{"globaluri": 1, "authority": "https://a.example/"}', 0
     ) old
"""


def test_versions_stored_before_they_had_uris_are_found(store_url: str) -> None:
    """A-19, A-54"""
    at_revision("0003", store_url, OLD_VERSIONS)
    store = open_store(store_url)
    with store.read() as reader:
        (resource,) = reader.entities.by_key([1])
        assert resource.versioncounter == 7
        rows = list(reader.entities.children([1]))
        assert [row.uri for row in rows] == [uri_digest("gs", row.attributes) for row in rows]
        assert [row.xid.id for row in rows if row.uri] == ["7", "9x", "v8"]
    store.close()


def at_revision(revision: str, url: str, rows: str) -> None:
    """Make a database as an older program left it, with these rows in it."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.exec_driver_sql(rows)
    engine.dispose()


@pytest.mark.parametrize("revision", ["9999", "none of ours"])
def test_a_newer_schema_is_left_alone(store_url: str, database: Connection, revision: str) -> None:
    database.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    database.commit()
    with pytest.raises(StorageError, match=f"schema is {revision}.*update Signalbook"):
        open_store(store_url)


def test_several_programs_may_open_a_new_database_at_once(store_url: str) -> None:
    command = [sys.executable, "-c", OPEN, store_url]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [program.communicate(timeout=300)[0] for program in programs] == ["opened\n"] * 4
    store = open_store(store_url)
    with store.read() as reader:
        assert reader.entities.get(ROOT) is None
    store.close()


def test_a_migration_that_fails_leaves_no_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE outbox (of TEXT)")
    with pytest.raises(StorageError, match="outbox already exists"):
        open_store(url)
    assert inspect(engine).get_table_names() == ["outbox"]
    engine.dispose()
