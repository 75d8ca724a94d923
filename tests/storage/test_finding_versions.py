from contextlib import closing

import pytest
from sqlalchemy import make_url
from tests.storage.test_behaviour import a_row

from signalbook.storage import open_store
from signalbook.storage.entities import EntityStatements
from signalbook.storage.postgres import Postgres
from signalbook.storage.store import Store
from signalbook.values import digest
from signalbook.xid import Xid

VERSIONS = Xid.parse("/groups/g/things/t/versions")
ONE, TWO = digest(b"1"), digest(b"2")
# parent, uri, document; keys count from 10.
ROWS = [(1, "a", ONE), (1, None, TWO), (1, "b", ONE), (2, "a", ONE), (2, None, None)]


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as writer:
        writer.entities.put_documents({ONE: b"1", TWO: b"2"})
        rows = enumerate(ROWS, 10)
        writer.entities.insert(
            [a_row(key, parent, VERSIONS / str(key), uri=uri, document=doc) for key, (parent, uri, doc) in rows]
        )
    return store


@pytest.mark.parametrize(
    ("uris", "limit", "keys"),
    [("a", 9, [10, 13]), ("a", 1, [10]), ("b", 9, [12]), ("c", 9, []), ("cba", 9, [10, 13, 12]), ("", 9, [])],
)
def test_version_with_a_uri_is_found(filled: Store, uris: str, limit: int, keys: list[int]) -> None:
    """Versions are found by their URI (A-54)."""
    with filled.read() as reader:
        assert [row.key for row in reader.entities.named(list(uris), limit)] == keys


def test_a_uri_is_free_again(filled: Store) -> None:
    with filled.write() as writer:
        writer.entities.delete([10])
        assert [row.key for row in writer.entities.named(["a"], 9)] == [13]


@pytest.mark.parametrize(
    ("parent", "document", "limit", "keys"),
    [(1, ONE, 9, [10, 12]), (1, ONE, 1, [10]), (2, ONE, 9, [13]), (2, TWO, 9, [])],
)
def test_version_with_a_document_is_found(
    filled: Store, parent: int, document: str, limit: int, keys: list[int]
) -> None:
    """Versions are found by the digest of their document (A-45)."""
    with filled.read() as reader:
        assert [row.key for row in reader.entities.holders(parent, document, limit)] == keys


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_postgres_uses_the_index_too(postgres_database: str, mode: str) -> None:
    """The index is used whether or not the URIs are known when the query is planned (A-21)."""
    store = open_store(postgres_database)
    with store.write() as writer:
        writer.entities.insert([a_row(n, 1, VERSIONS / str(n), uri=f"u{n}") for n in range(2, 5000)])
    store.close()
    dialect = Postgres(make_url(postgres_database), timeout=9)
    sql = EntityStatements(dialect).named.replace("%(uris)s", "$1").replace("%(limit)s", "$2")
    with closing(dialect.connect()) as connection:
        connection.execute(f"ANALYZE entities; SET plan_cache_mode = {mode}; PREPARE named AS {sql}")
        plan_rows = connection.execute("EXPLAIN EXECUTE named (ARRAY['u7', 'u9'], 9)").fetchall()
    plan = "\n".join(str(plan_row[0]) for plan_row in plan_rows)
    assert "entities_by_uri" in plan
    assert "Seq Scan" not in plan


def test_last_numbers(store: Store) -> None:
    """The number is the highest stored one, for any case of the id, and belongs to the transaction (A-19)."""
    first, other = (Xid.parse(f"/schemagroups/g/schemas/{name}") for name in ("One", "other"))
    for numbers in ({first: 7}, {first: 3, other: 1}, {}):
        with store.write() as writer:
            writer.entities.keep_numbers(numbers)
    with pytest.raises(ZeroDivisionError), store.write() as writer:
        writer.entities.keep_numbers({first: 1 // 0})
    with store.read() as reader:
        lower = Xid.parse("/schemagroups/G/schemas/one")
        assert reader.entities.last_numbers([lower, other, first.owner]) == {lower: 7, other: 1}
