import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from signalbook.storage import open_store
from signalbook.storage.dialect import DriverConnection
from signalbook.storage.entities import ChildrenQuery
from signalbook.storage.postgres import Postgres
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import Statements
from signalbook.storage.words import PostgresWords

HOT = (
    *("get", "get_many", "referrers", "refers", "counts", "documents", "named_by_rows", "leaving", "beneath", "config"),
    *("config_epoch", "numbered", "ids", "content", "places", "highest", "gone_of_group", "gone_of_schemas"),
    *("gone_with_id", "setting", "settings", "following", "in_force", "groups", "current_entries"),
    *("texts", "candidates", "referrers", "links", "documented"),
)
WRITES = ("update", "drop_members", "delete", "sweep")
PARAMETERS: dict[str, Any] = dict.fromkeys(
    ("xid", "xref", "name", "key", "limit", "epoch", "createdat", "modifiedat", "attributes", "defaultversionid",
     "defaultversionsticky", "versioncounter", "ancestorid", "document", "settled", "rank", "uri", "schemaid", "after",
     "last", "first", "group", "id", "schema", "kind", "scope", "folded", "flags", "want",
     "root", "parent", "rank"), 0
) | dict.fromkeys(("xids", "xrefs", "parents", "keys", "digests", "contents", "scopes", "groups",
                   "schemas", "targets", "without", "within", "uris", "ancestors"), "[1]")  # fmt: skip


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Statements, DriverConnection]]:
    path = tmp_path_factory.mktemp("plans") / "s.db"
    open_store(f"sqlite:///{path}").close()
    dialect = SQLite(Path(path), timeout=1)
    connection = dialect.connect()
    yield Statements(dialect), connection
    connection.close()


def plan(connection: DriverConnection, sql: str, parameters: dict[str, Any]) -> str:
    return "\n".join(str(step[3]) for step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())


def _sql(statements: Statements, name: str) -> str:
    entities = statements.entities
    parts = (entities, entities.versions, statements.confluent, statements.settings, statements.index)
    return str(next(getattr(part, name) for part in parts if hasattr(part, name)))


@pytest.mark.parametrize("name", [*HOT, *WRITES])
def test_no_statement_walks_through_a_table(explained: tuple[Statements, DriverConnection], name: str) -> None:
    statements, connection = explained
    steps = plan(connection, _sql(statements, name), PARAMETERS)
    tables = ("entities", "documents", "schema_ids", "soft_deleted", "index_entries", "index_links")
    assert not [table for table in tables if f"SCAN {table}" in steps]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("named", "entities_by_uri (uri=?)"),
        ("holders", "entities_by_document (document=? AND parent=?)"),
    ],
)
def test_versions_are_searched_first(explained: tuple[Statements, DriverConnection], name: str, step: str) -> None:
    """A-21, A-45"""
    statements, connection = explained
    first, *others = plan(connection, _sql(statements, name), PARAMETERS).splitlines()
    assert first == f"SEARCH entities USING INDEX {step}"
    assert "SCAN entities" not in "".join(others)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("newest", "USING INDEX entities_by_rank (parent=? AND rank>?)"),
        ("leaves", "USING INDEX entities_by_rank (parent=? AND (rank,folded)>(?,?))"),
        ("leaves", "USING INDEX entities_by_ancestor (parent=? AND ancestorid=?)"),
        ("before", "USING INDEX entities_by_rank (parent=? AND rank>? AND (rank,folded)<(?,?))"),
        ("after", "USING INDEX entities_by_rank (parent=? AND (rank,folded)>(?,?))"),
        ("derived", "USING INDEX entities_by_ancestor (parent=? AND ancestorid=?)"),
        ("ancestors", "USING INDEX entities_by_ancestor (parent=? AND ancestorid=?)"),
    ],
)
def test_versions_are_found_by_index(explained: tuple[Statements, DriverConnection], name: str, step: str) -> None:
    """A-21"""
    statements, connection = explained
    steps = plan(connection, _sql(statements, name), PARAMETERS)
    assert step in steps
    assert "SCAN entities" not in steps


@pytest.mark.parametrize("name", ["current", "matching", "first_current", "first"])
def test_search_begins_with_words(explained: tuple[Statements, DriverConnection], name: str) -> None:
    statements, connection = explained
    parameters = {**PARAMETERS, "match": "order"}
    steps = plan(connection, getattr(statements.index, name), parameters).splitlines()
    searched = [step for step in steps if step.startswith(("SCAN", "SEARCH")) and "json_each" not in step]
    expected_steps = ["SCAN index_words VIRTUAL TABLE INDEX 0:M5", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"]
    past = [expected_steps[0].replace("words", "words_past"), expected_steps[1]]
    assert searched == (expected_steps if "current" in name else expected_steps + past)


def test_postgresql_search_begins_with_words(postgres_database: str) -> None:
    """Whatever it takes for cheap: it knows neither how long a tsvector is nor how rare a bit of the flags."""
    open_store(postgres_database).close()
    statements = Statements(Postgres(make_url(postgres_database), timeout=1))
    with psycopg.connect(postgres_database) as connection:
        connection.execute(PostgresWords.plan)
        parameters = {"match": "'nx':*", "flags": 1, "want": 1, "without": [1], "within": [2], "limit": 9}
        plan_rows = connection.execute(f"EXPLAIN {statements.index.first_current}".encode(), parameters).fetchall()
    steps = "\n".join(step for (step,) in plan_rows)
    assert "Bitmap Index Scan on index_words_by_word" in steps
    assert re.search(r"Index Scan using index_entries_pkey on index_entries.*\n *Index Cond: \(key = ", steps), steps


@pytest.mark.parametrize("parents", [(1,), (1, 2)])
@pytest.mark.parametrize("type", [None, "t"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("limit", [None, 9])
def test_children_come_in_the_order_of_the_index(
    explained: tuple[Statements, DriverConnection],
    parents: tuple[int, ...],
    type: str | None,
    after: bool,
    limit: int | None,
) -> None:
    statements, connection = explained
    query = ChildrenQuery(parents=parents, type=type, after=(1, "t", "a") if after else None, limit=limit)
    steps = plan(connection, *statements.entities.children(query))
    assert "SEARCH entities USING INDEX" in steps
    assert "TEMP B-TREE" not in steps


def test_a_page_starts_in_the_index_where_the_last_one_ended(explained: tuple[Statements, DriverConnection]) -> None:
    statements, connection = explained
    query = ChildrenQuery(parents=(1,), type="t", after=(1, "t", "a"), limit=9)
    assert "(parent=? AND type=? AND folded>?)" in plan(connection, *statements.entities.children(query))


@pytest.mark.parametrize(("name", "expected"), [("last", ""), ("preceding", " AND folded<?")])
def test_page_is_read_from_its_position(
    explained: tuple[Statements, DriverConnection], name: str, expected: str
) -> None:
    statements, connection = explained
    place = {"parent": 1, "type": "t", "folded": "a", "limit": 9}
    steps = plan(connection, _sql(statements, name), place)
    assert f"(parent=? AND type=?{expected})" in steps
    assert "TEMP B-TREE" not in steps


def test_schemas_are_found_by_index_and_come_in_its_order(explained: tuple[Statements, DriverConnection]) -> None:
    statements, connection = explained
    place = {"parent": 1, "first": "a", "last": "b", "offset": 5, "limit": 9}
    steps = plan(connection, _sql(statements, "schemas"), place)
    assert "(parent=? AND type=? AND folded>? AND folded<?)" in steps
    assert "(parent=? AND type=? AND folded=?)" in steps
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps
    assert "SCAN" not in plan(connection, _sql(statements, "count_schemas"), place)
