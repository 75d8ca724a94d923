"""Writes on PostgreSQL find by index what they need, whatever the planner knows of the tables."""

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
MOST = 10 * 288
"""Rows read by index: ten for each of the writes, of which one that walks through its siblings reads 1,500."""
TABLES = ("entities", "documents")
GROUP = "/schemagroups/g"


def _fill() -> Command:
    schemas = [{"format": "JsonSchema/draft-07", "schema": {"title": str(n)}} for n in range(SCHEMAS)]
    versions: JSONObject = {f"s{n}": {"versions": {"1": schema}} for n, schema in enumerate(schemas)}
    return _put(GROUP, {"schemas": versions})


def _put(path: str, body: JSON) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(path), body=body)


def _document(path: str, title: str) -> Command:
    content = DocumentBody(content=f'{{"title":"{title}"}}'.encode(), attributes={"format": "JsonSchema/draft-07"})
    return Command(method=Method.PUT, target=Xid.parse(path), document=content)


def _writes(name: str) -> list[list[Command]]:
    """Return enough writes for the driver to prepare statements and for the server to cache generic plans."""
    return [
        [
            _document(f"{GROUP}/schemas/new-{name}-{n}/versions/1", f"new {n}"),
            _document(f"{GROUP}/schemas/s{n}/versions/{name}", f"version {n}"),
            _document(f"{GROUP}/schemas/s{n}/versions/1", f"changed {n} {name}"),
            _put(f"{GROUP}/schemas/new-{name}-{n}/meta", {"defaultversionsticky": False}),
            Command(method=Method.DELETE, target=Xid.parse(f"{GROUP}/schemas/s{n}/versions/{name}")),
            Command(method=Method.DELETE, target=Xid.parse(f"{GROUP}/schemas/new-{name}-{n}")),
        ]
        for n in range(12)
    ]


def _run(engine: Engine, writes: list[list[Command]]) -> None:
    for commands in writes:
        for command in commands:
            with engine.writing() as session:
                session.execute(command)
        with engine.batch() as batch:
            batch.expect([command.target.owner for command in commands])
            for command in commands:
                with batch.writing() as session:
                    session.execute(command)


def _touched(url: str) -> dict[str, tuple[int, int]]:
    """Rows read by walking through each table and by index, once all connections but this one have reported theirs."""
    with psycopg.connect(url, autocommit=True) as connection:
        count_query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        while connection.execute(count_query).fetchall()[0][0]:
            time.sleep(0.01)
        query = "SELECT relname, seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = ANY(%s)"
        return {name: (seq, idx) for name, seq, idx in connection.execute(query, (list(TABLES),)).fetchall()}


@pytest.mark.merge
@pytest.mark.parametrize("analyzed", [False, True])
def test_writes_do_not_scan_tables(postgres_database: str, analyzed: bool) -> None:
    """Autovacuum would renew the planner's statistics in its own time: here they are made at once, or never."""
    open_store(postgres_database).close()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
    with closing(open_store(postgres_database)) as store:
        engine = Engine(store, settings=Settings())
        _run(engine, _writes("early"))
        _run(engine, [])
        with engine.writing() as session:
            session.execute(_fill())
        if analyzed:
            with psycopg.connect(postgres_database, autocommit=True) as connection:
                connection.execute("ANALYZE")
        _run(engine, _writes("late"))
    touched = _touched(postgres_database)
    assert {name: seq for name, (seq, _) in touched.items()} == dict.fromkeys(TABLES, 0)
    assert max(idx for _, idx in touched.values()) < MOST
