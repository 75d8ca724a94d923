from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.storage.test_behaviour import GROUP, STAMP, plant, plant_things, plant_version

from signalbook.storage import open_store
from signalbook.storage.base import DuplicateId, Row, StorageError
from signalbook.storage.dialect import DriverConnection
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import ReadTransaction, Store
from signalbook.values import digest
from signalbook.xid import ROOT


class Refused(Exception):
    """Ends a part of a transaction."""


def seen(reader: ReadTransaction, row: Row) -> Row | None:
    """Return the entity as a reader sees it, checking that both queries agree."""
    assert reader.entities.get(row.xid) == reader.entities.get_many([row.xid]).get(row.xid)
    return reader.entities.get(row.xid)


def test_entity_is_that_of_the_last_successful_part(store: Store) -> None:
    with store.write() as writer:
        first = plant_things(writer, ["one"])[0]
    second, third = replace(first, epoch=2), replace(first, epoch=3)
    with store.write() as writer:
        assert seen(writer, first) == first
        with writer.savepoint():
            writer.entities.update([second])
            assert seen(writer, first) == second
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.update([third])
            assert seen(writer, first) == third
            writer.entities.delete([third.key])
            assert seen(writer, first) is None
            raise Refused
        assert seen(writer, first) == second
    with store.read() as reader:
        assert seen(reader, first) == second


def test_more_entities_than_are_remembered(store: Store) -> None:
    with store.write() as writer:
        rows = plant_things(writer, [f"t{number}" for number in range(2500)])
        assert seen(writer, rows[0]) == rows[0]
        newer = [replace(row, epoch=2) for row in rows]
        writer.entities.update(newer)
        assert seen(writer, rows[0]) == newer[0]
        assert writer.entities.get_many([row.xid for row in rows]) == {row.xid: row for row in newer}


def test_documents_are_readable_before_the_commit_and_follow_a_rollback(store: Store) -> None:
    stored, new, lost = (digest(content) for content in (b"stored", b"new", b"lost"))
    with store.write() as writer:
        resource = plant_things(writer, ["one"])[0]
        plant_version(writer, resource, "1", b"stored")
    with store.write() as writer:
        with writer.savepoint():
            plant_version(writer, resource, "2", b"new")
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            plant_version(writer, resource, "3", b"lost")
            assert writer.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new", lost: b"lost"}
            raise Refused
        assert writer.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new"}
    with store.read() as reader:
        assert reader.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new"}


def test_members_are_counted_before_the_commit_and_back_again(store: Store) -> None:
    with store.write() as writer:
        first, two = plant_things(writer, ["one", "two"])
        with writer.savepoint():
            plant_version(writer, first, "1", b"1")
            plant_version(writer, two, "1", b"1")
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.delete([first.key])
            actual = writer.entities.counts([first.parent, first.key, two.key])
            assert actual == {(first.parent, "things"): 1, (two.key, "versions"): 1}
            raise Refused
        everything = {(first.parent, "things"): 2, (first.key, "versions"): 1, (two.key, "versions"): 1}
        assert writer.entities.counts([first.parent, first.key, two.key]) == everything
        with writer.savepoint():
            writer.entities.delete([two.key])
    with store.read() as reader:
        expected = {(first.parent, "things"): 1, (first.key, "versions"): 1}
        assert reader.entities.counts([first.parent, first.key, two.key]) == expected


def test_nothing_is_counted_under_deleted_entities(store: Store) -> None:
    with store.write() as writer:
        resource = plant_things(writer, ["one"])[0]
        version = plant_version(writer, resource, "1", b"1")
    with store.write() as writer:
        for key in (version.key, resource.key):
            with writer.savepoint():
                writer.entities.delete([key])
    with store.read() as reader:
        assert reader.entities.counts([resource.key]) == {}


def test_keys_of_a_failed_part_are_free_again(store: Store) -> None:
    with store.write() as writer:
        plant(writer, None, [ROOT])
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            lost = writer.entities.reserve(3)
            raise Refused
        with writer.savepoint():
            reserved = writer.entities.reserve(2)
        assert list(writer.entities.reserve(0)) == []
    with store.write() as writer:
        assert (list(reserved), list(writer.entities.reserve(1))) == (list(lost[:2]), [lost[2]])


def test_changes_of_parts_are_reported_in_their_order(store: Store) -> None:
    with store.write() as writer:
        for number in range(3):
            with writer.savepoint():
                writer.outbox.append([{"n": number}, {"n": number}], time=STAMP, correlationid=str(number))
    with store.read() as reader:
        records = reader.outbox.records()
    expected = [(str(n), n) for n in (0, 0, 1, 1, 2, 2)]
    assert [(record.correlationid, record.change["n"]) for record in records] == expected


def test_references_are_found_whenever_they_come(store: Store) -> None:
    with store.write() as writer:
        first, two = plant_things(writer, ["one", "two"])
        assert writer.entities.referrers([first.xid]) == []
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.update([replace(two, xref=first.xid)])
            assert [row.xid for row in writer.entities.referrers([first.xid])] == [two.xid]
            raise Refused
        assert writer.entities.referrers([first.xid]) == []
        writer.entities.update([replace(two, xref=first.xid)])
    with store.write() as writer:
        assert [row.xid for row in writer.entities.referrers([first.xid])] == [two.xid]


class Watched(SQLite):
    """SQLite that notes the statements it runs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, timeout=1)
        self.statements: list[str] = []

    def connect(self) -> DriverConnection:
        connection: Any = super().connect()
        connection.set_trace_callback(self.statements.append)
        return cast(DriverConnection, connection)

    def count(self, start: str) -> int:
        return sum(statement.startswith(start) for statement in self.statements)


@pytest.mark.parametrize(("expected", "queries"), [(False, 21), (True, 2)])
def test_rows_are_written_once_for_all_parts_of_a_transaction(tmp_path: Path, expected: bool, queries: int) -> None:
    """Every part queries one place, unless all were read together; savepoints are for parts that need them."""
    open_store(f"sqlite:///{tmp_path / 's.db'}").close()
    dialect = Watched(tmp_path / "s.db")
    with closing(Store(dialect, timeout=1)) as store:
        with store.write() as writer:
            (root,) = plant(writer, None, [ROOT])
            (group,) = plant(writer, root, [GROUP])
        dialect.statements.clear()
        with store.write() as writer:
            assert writer.entities.get(GROUP) == group
            if expected:
                assert writer.entities.get_many([GROUP / "things" / f"t{number}" for number in range(20)]) == {}
            for number in range(20):
                with writer.savepoint():
                    xid = GROUP / "things" / f"t{number}"
                    assert writer.entities.get(xid) is None
                    (resource,) = plant(writer, group, [xid])
                    plant_version(writer, resource, "1", b"same")
                    writer.entities.update([replace(group, epoch=number + 2)])
    assert dialect.count("UPDATE entities") == 1
    assert dialect.count("INSERT INTO entities") == 40
    assert dialect.count("SELECT entities.") == queries
    assert dialect.count("SAVEPOINT") == 0


def test_a_place_is_taken_before_its_row_is_written(store: Store) -> None:
    """Ids that differ in case only, in one part after the other and beneath what is new itself"""
    with store.write() as writer:
        resource = plant_things(writer, ["one"])[0]
    group = resource.xid.owner
    upper, lower = group / "things" / "Two", group / "things" / "two"
    with store.write() as writer:
        owner = writer.entities.get(group)
        assert writer.entities.get(upper) is None
        with writer.savepoint():
            (two,) = plant(writer, owner, [upper])
            plant_version(writer, two, "v", None)
        for other_xid in (lower, upper):
            with pytest.raises(DuplicateId), writer.savepoint():  # noqa: PT012
                writer.entities.get(other_xid)
                plant(writer, owner, [other_xid])
        with pytest.raises(DuplicateId), writer.savepoint():
            plant_version(writer, two, "V", None)
        with pytest.raises(DuplicateId), writer.savepoint():
            plant(writer, owner, [group / "things" / "three", group / "things" / "THREE"])
        assert writer.entities.get(lower) is None
    with store.read() as reader:
        assert reader.entities.get(upper) == two
        assert [row.xid.id for row in reader.entities.children([resource.parent])] == ["one", "Two"]
        counts = {(resource.parent, "things"): 2, (two.key, "versions"): 1}
        assert reader.entities.counts([resource.parent, two.key]) == counts


def test_queries_see_unwritten_rows(store: Store) -> None:
    with store.write() as writer:
        first = plant_things(writer, ["one"])[0]
    group = first.xid.owner
    with store.write() as writer:
        owner = writer.entities.get(group)
        with writer.savepoint():
            writer.entities.get(group / "things" / "two")
            plant(writer, owner, [group / "things" / "two"])
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.get(group / "things" / "three")
            plant(writer, owner, [group / "things" / "three"])
            writer.entities.update([replace(first, epoch=9)])
            children = writer.entities.children([first.parent])
            assert [(row.xid.id, row.epoch) for row in children] == [("one", 9), ("three", 1), ("two", 1)]
            raise Refused
        assert writer.entities.get(group / "things" / "three") is None
        assert writer.entities.get(first.xid) == first
        (three,) = plant(writer, owner, [group / "things" / "three"])
    with store.read() as reader:
        assert [row.xid.id for row in reader.entities.children([first.parent])] == ["one", "three", "two"]
        assert reader.entities.get(first.xid) == first
        assert reader.entities.get(three.xid) == three


def test_a_place_is_empty_again_once_its_part_failed(store: Store) -> None:
    with store.write() as writer:
        resource = plant_things(writer, ["one"])[0]
    with store.write() as writer:
        writer.entities.get(resource.xid.owner)
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.delete([resource.key])
            assert writer.entities.get(resource.xid) is None
            raise Refused
        with pytest.raises(DuplicateId), writer.savepoint():
            plant(writer, writer.entities.get(resource.xid.owner), [resource.xid.parent / "ONE"])
        assert writer.entities.get(resource.xid) == resource


def test_error_outside_of_a_savepoint_ends_the_transaction(postgres_database: str) -> None:
    store = open_store(postgres_database)
    with store.write() as writer:
        resource = plant_things(writer, ["one"])[0]
    with closing(store), pytest.raises(StorageError, match="earlier failure"), store.write() as writer:  # noqa: PT012
        with writer.savepoint():
            writer.entities.update([replace(resource, epoch=2)])
        with pytest.raises(StorageError), writer.savepoint():
            writer.entities.counts([2**70])
    with closing(open_store(postgres_database)) as again, again.read() as reader:
        assert reader.entities.get(resource.xid) == resource


def test_vacant_places(store: Store) -> None:
    with store.write() as writer:
        resource = plant_things(writer, ["One"])[0]
        plural = resource.xid.parts[-2]

        def free(reader: ReadTransaction, name: str) -> bool:
            return reader.entities.is_vacant(resource.parent, plural, name)

        assert [free(writer, name) for name in ("one", "ONE", "two")] == [False, False, True]
    with store.read() as reader:
        assert [free(reader, name) for name in ("one", "ONE", "two")] == [False, False, True]
    with store.write() as writer:
        # Once it is known that there is nothing, it is so until something comes.
        assert writer.entities.get(resource.xid.parent.owner) is not None
        assert writer.entities.get(resource.xid.parent / "two") is None
        assert free(writer, "Two")
        group = writer.entities.get(resource.xid.parent.owner)
        plant(writer, group, [resource.xid.parent / "TWO"])
        assert not free(writer, "Two")
