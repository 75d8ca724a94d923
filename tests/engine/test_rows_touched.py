"""Writes on PostgreSQL find by index what they need, whatever the planner knows of the tables."""

from __future__ import annotations

import time
from contextlib import closing

import psycopg
import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

SCHEMAS = 1500
GROUP = "/schemagroups/g"


@pytest.fixture(scope="module")
def filled(postgres_url: str) -> str:
    """A database filled at once, of which the planner knows nothing yet; autovacuum would tell it in its own time."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('CREATE DATABASE "rows_touched"')
    url = postgres_url.replace("/postgres?", "/rows_touched?")
    open_store(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE entities SET (autovacuum_enabled = false)")
        connection.execute("ALTER TABLE documents SET (autovacuum_enabled = false)")
    versions: JSONObject = {
        f"s{n}": {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"title": str(n)}}}}
        for n in range(SCHEMAS)
    }
    _run(url, _put(GROUP, {"schemas": versions}))
    return url


def _put(path: str, body: JSON) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(path), body=body)


def _document(path: str, title: str) -> Command:
    content = DocumentBody(content=f'{{"title":"{title}"}}'.encode(), attributes={"format": "JsonSchema/draft-07"})
    return Command(method=Method.PUT, target=Xid.parse(path), document=content)


def _run(url: str, *commands: Command) -> None:
    with closing(open_store(url)) as store:
        engine = Engine(store, settings=Settings())
        for command in commands:
            with engine.writing() as session:
                session.execute(command)


def _scanned(url: str) -> dict[str, int]:
    """Rows read by walking through each table, once all connections but this one have reported theirs."""
    with psycopg.connect(url, autocommit=True) as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while connection.execute(others).fetchall()[0][0]:
            time.sleep(0.01)
        query = "SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE relname IN ('entities', 'documents')"
        return dict(connection.execute(query).fetchall())


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_write_walks_through_a_table(filled: str, analyzed: bool) -> None:
    """As often as it takes the driver to prepare statements and the server to plan them for any parameters."""
    if analyzed:
        with psycopg.connect(filled, autocommit=True) as connection:
            connection.execute("ANALYZE")
    before = _scanned(filled)
    name = f"{GROUP}/schemas/new-{analyzed}"
    commands = [
        command
        for n in range(12)
        for command in (
            _document(f"{name}-{n}/versions/1", f"new {n}"),
            _document(f"{GROUP}/schemas/s{n}/versions/{analyzed}", f"version {n}"),
            _document(f"{GROUP}/schemas/s{n}/versions/1", f"changed {n} {analyzed}"),
            _put(f"{name}-{n}/meta", {"defaultversionsticky": False}),
            Command(method=Method.DELETE, target=Xid.parse(f"{GROUP}/schemas/s{n}/versions/{analyzed}")),
            Command(method=Method.DELETE, target=Xid.parse(f"{name}-{n}")),
        )
    ]
    _run(filled, *commands)
    assert _scanned(filled) == before
