"""What is kept with each write is what is made anew from all that is stored."""

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.search.query import parse_query
from signalbook.engine.search.search import Search
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.searchindex import complete_index
from signalbook.formats.imports import ROOT_LABEL
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.backup import back_up, restore
from signalbook.storage.store import Store
from signalbook.storage.words import WORD_TABLES
from signalbook.values import JSON
from signalbook.xid import Xid

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "customer_id", "type": "string", "doc": "who"}]}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "buyer", "type": "string"}]}
ORDER = "/schemagroups/g/schemas/Order"


def avro(schema: JSON, **more: JSON) -> dict[str, JSON]:
    return {"format": "Avro/1.11.0", "schema": schema, **more}


WRITES: list[tuple[str, str, JSON]] = [
    ("PUT", "/schemagroups/g", {"name": "Sales", "schemas": {"Order": {"versions": {"1": avro(SCHEMA)}}}}),
    ("PUT", f"{ORDER}/versions/2", avro(OTHER, description="the second")),
    ("PATCH", f"{ORDER}/versions/1", {"description": "an old one", "labels": {"team": "payments"}}),
    ("PATCH", f"{ORDER}/meta", {"defaultversionid": "1", "defaultversionsticky": True}),
    ("PATCH", f"{ORDER}/meta", {"deprecated": {}}),
    ("PUT", "/schemagroups/h/schemas/Copy", {"meta": {"xref": ORDER}}),
    ("PUT", "/schemagroups/h/schemas/Was", {"meta": {"xref": ORDER}}),
    ("PUT", "/schemagroups/h/schemas/Was", avro(OTHER, meta={"xref": None})),
    ("PUT", "/messagegroups/m/messages/made", {"dataschemaformat": "JsonSchema/draft-07", "envelope": "CloudEvents/1.0",
      "dataschema": {"properties": {"total": {"description": "in euros"}}}, "dataschemaxid": ORDER}),
    ("PATCH", "/messagegroups/m/messages/made", {"description": "by a customer"}),
    ("PUT", "/schemagroups/gone", {"schemas": {"a": {"versions": {"1": avro(SCHEMA)}}}}),
    ("DELETE", "/schemagroups/gone", None),
    ("DELETE", f"{ORDER}/versions/2", None),
    ("PUT", "/schemagroups/g/schemas/broken", {"format": "Other/1", "schemabase64": "e30=", "name": "no Avro"}),
]  # fmt: skip


def content(store: Store) -> dict[str, list[Any]]:
    """Return the content of the index tables."""
    with closing(store._dialect.connect()) as connection:
        columns = "rowid, *" if store._dialect.sql.name == "sqlite" else "key, words::text"
        words = [f"SELECT {columns} FROM {table}" for table in WORD_TABLES]
        queries = ["SELECT * FROM index_entries", "SELECT * FROM index_links", *words]
        return {query: sorted(connection.execute(query).fetchall(), key=str) for query in queries}


def write(engine: Engine, method: str, path: str, body: JSON) -> None:
    with engine.writing() as session:
        session.execute(Command(method=Method(method), target=Xid.parse(path), body=body))


def filled(store: Store) -> Engine:
    engine = Engine(store, settings=Settings())
    for method, path, body in WRITES:
        write(engine, method, path, body)
    return engine


def test_index_equals_a_rebuilt_index(store: Store) -> None:
    engine = Engine(store, settings=Settings())
    for method, path, body in WRITES:
        write(engine, method, path, body)
        before = content(store)
        complete_index(store, anew=True)
        assert content(store) == before, (method, path)


def test_words_follow_their_version_when_another_is_the_default(store: Store) -> None:
    engine = filled(store)
    write(engine, "PUT", f"{ORDER}/versions/9", avro(SCHEMA, name="newest"))
    for default, current, past in (("9", 1, 0), ("1", 0, 1)):
        write(engine, "PATCH", f"{ORDER}/meta", {"defaultversionid": default, "defaultversionsticky": True})
        words = content(store)
        key = next(row[0] for row in words["SELECT * FROM index_entries"] if row[1] == f"{ORDER}/versions/9")
        counts = [sum(row[0] == key for row in rows) for query, rows in words.items() if "index_words" in query]
        assert counts == [current, past]


def test_omitted_members_are_indexed_when_there_is_room(store: Store) -> None:
    engine = Engine(store, settings=Settings())
    long = {f"k{at}": "long words " * 180 for at in range(51)}
    write(engine, "PUT", ORDER, avro(SCHEMA, labels=long))
    write(engine, "PATCH", ORDER, {"labels": {}})
    before = content(store)
    complete_index(store, anew=True)
    assert content(store) == before
    with engine.reading() as view:
        assert view.search(Search(query=parse_query("field:customer_id"))).count == 1


def test_indexing_at_start_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    with store.write() as transaction:
        transaction.index.clear()
    monkeypatch.setattr("signalbook.engine.engine._ENTITIES_PER_LOG_LINE", 1)
    caplog.set_level("INFO")
    Engine(store, settings=Settings())
    assert "indexing what is stored, for search" in caplog.text


def test_writes_in_one_transaction_leave_the_same(store: Store) -> None:
    engine = Engine(store, settings=Settings())
    with engine.batch() as batch:
        for method, path, body in WRITES:
            with batch.writing() as session:
                session.execute(Command(method=Method(method), target=Xid.parse(path), body=body))
            with suppress(RuntimeError), batch.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse("/schemagroups/never"), body={"name": "x"}))
                raise RuntimeError
    before = content(store)
    complete_index(store, anew=True)
    assert content(store) == before


def test_unchanged_members_of_a_group_are_not_indexed_again(store: Store) -> None:
    engine = filled(store)
    put: list[int] = []
    with engine.writing() as session:
        session.execute(Command(method=Method.PUT, target=Xid.parse("/schemagroups/g/schemas/n"), body=avro(SCHEMA)))
        put += session.transaction.index._writing.pending.index
    assert len(put) == 1


def test_missing_index_is_built_at_opening(store: Store) -> None:
    filled(store)
    before = content(store)
    with store.write() as transaction:
        transaction.index.clear()
    Engine(store, settings=Settings())
    assert content(store) == before


def test_interrupted_indexing_continues(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)
    before = content(store)
    monkeypatch.setattr("signalbook.engine.write.searchindex._ROWS_PER_PAGE", 3)
    reports: list[int] = []

    def stop(progress: int) -> None:
        reports.append(progress)
        if len(reports) == 2:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        complete_index(store, stop, anew=True)
    assert content(store) != before
    complete_index(store, reports.append)
    assert content(store) == before
    assert reports[:3] == [3, 6, 3]


def test_a_restored_registry_is_searched_as_before(store_url: str, tmp_path: Path) -> None:
    with closing(open_store(store_url)) as store:
        filled(store)
        before = content(store)
    back_up(store_url, tmp_path / "backup", timeout=10)
    restore(tmp_path / "backup", store_url, timeout=10, replace=True)
    with closing(open_store(store_url)) as store:
        assert not any(content(store).values())
        Engine(store, settings=Settings())
        assert content(store) == before


# U+FDFA is one character, and fifteen when it is folded.
LONG = [f"\ufdfa{chr(0x20000 + 2 * at)}-\ufdfa{chr(0x20001 + 2 * at)} " for at in range(16_000)]
WIDE = "".join(map(chr, range(4096, 4396)))
UNUSUAL: list[tuple[str, JSON]] = [
    ("/schemagroups/g/schemas/a", {"format": "Own\0/1", "schema": {}}),
    ("/schemagroups/g/schemas/b", {"format": "Own/1", "schema": '"a/b/c/d\0.proto", "/a/b/c\0"'}),
    ("/schemagroups/g/schemas/c", {"format": "Own/1", "schema": f'"a/b/c/{WIDE}.proto"'}),
    ("/messagegroups/g/messages/d", {"protocol": "HTTP\0/1.1", "envelope": "Own\0/1", "description": "\0"}),
    ("/schemagroups/h", {"labels": {f"k{at}": "".join(LONG[at : at + 300]) for at in range(0, 16_000, 300)}}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), UNUSUAL, ids=[path for path, _ in UNUSUAL])
def test_unusual_content_can_be_indexed(store: Store, path: str, body: JSON) -> None:
    engine = Engine(store, settings=Settings())
    write(engine, "PUT", path, body)
    with engine.reading() as view:
        page = view.search(Search(query=parse_query(path.rpartition("/")[2])))
        assert [str(hit.xid) for hit in page.hits] == [path]
        assert view.find_impact(Xid.parse(path)).complete


def test_impact_takes_what_no_database_can_look_for(store: Store) -> None:
    engine = Engine(store, settings=Settings())
    write(engine, "PUT", "/schemagroups/g", {"labels": {ROOT_LABEL: "a\0"}})
    schema = {"format": "Protobuf/3", "schema": 'syntax = "proto3"; message A {}', "name": "a\0.proto"}
    write(engine, "PUT", "/schemagroups/g/schemas/a.proto", schema)
    with engine.reading() as view:
        assert view.find_impact(Xid.parse("/schemagroups/g/schemas/a.proto")).dependents == ()
