"""What a write transaction knows by itself is what the database would say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.test_behaviour import STAMP, plant, plant_things, plant_version

from signalbook.storage.base import ReadTransaction, Row, Store, WriteTransaction
from signalbook.values import digest
from signalbook.xid import ROOT


class Refused(Exception):
    """Ends a part of a transaction."""


def seen(reader: ReadTransaction, row: Row) -> Row | None:
    """What a reader says of an entity, asked both ways."""
    assert reader.entities.get(row.xid) == reader.entities.get_many([row.xid]).get(row.xid)
    return reader.entities.get(row.xid)


def test_an_entity_is_as_the_last_part_that_held_left_it(store: Store) -> None:
    with store.write() as writer:
        one = plant_things(writer, ["one"])[0]
    second, third = replace(one, epoch=2), replace(one, epoch=3)
    with store.write() as writer:
        assert seen(writer, one) == one
        with writer.savepoint():
            writer.entities.update([second])
            assert seen(writer, one) == second
        with pytest.raises(Refused), writer.savepoint():
            refuse(writer, third)
        assert seen(writer, one) == second
    with store.read() as reader:
        assert seen(reader, one) == second


def refuse(writer: WriteTransaction, row: Row) -> None:
    writer.entities.update([row])
    assert seen(writer, row) == row
    writer.entities.delete([row.key])
    assert seen(writer, row) is None
    raise Refused


def test_more_entities_than_are_remembered(store: Store) -> None:
    with store.write() as writer:
        rows = plant_things(writer, [f"t{number}" for number in range(2500)])
        assert seen(writer, rows[0]) == rows[0]
        newer = [replace(row, epoch=2) for row in rows]
        writer.entities.update(newer)
        assert seen(writer, rows[0]) == newer[0]
        assert writer.entities.get_many([row.xid for row in rows]) == {row.xid: row for row in newer}


def test_documents_are_there_before_the_commit_and_gone_with_their_part(store: Store) -> None:
    stored, new, lost = (digest(content) for content in (b"stored", b"new", b"lost"))
    with store.write() as writer:
        one = plant_things(writer, ["one"])[0]
        plant_version(writer, one, "1", b"stored")
    with store.write() as writer:
        with writer.savepoint():
            plant_version(writer, one, "2", b"new")
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            plant_version(writer, one, "3", b"lost")
            assert writer.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new", lost: b"lost"}
            raise Refused
        assert writer.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new"}
    with store.read() as reader:
        assert reader.entities.documents([stored, new, lost]) == {stored: b"stored", new: b"new"}


def test_members_are_counted_before_the_commit_and_back_again(store: Store) -> None:
    with store.write() as writer:
        one, two = plant_things(writer, ["one", "two"])
        with writer.savepoint():
            plant_version(writer, one, "1", b"1")
            plant_version(writer, two, "1", b"1")
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.delete([one.key])
            assert writer.entities.counts([one.parent, one.key, two.key]) == {
                (one.parent, "things"): 1,
                (two.key, "versions"): 1,
            }
            raise Refused
        everything = {(one.parent, "things"): 2, (one.key, "versions"): 1, (two.key, "versions"): 1}
        assert writer.entities.counts([one.parent, one.key, two.key]) == everything
        with writer.savepoint():
            writer.entities.delete([two.key])
    with store.read() as reader:
        assert reader.entities.counts([one.parent, one.key, two.key]) == {
            (one.parent, "things"): 1,
            (one.key, "versions"): 1,
        }


def test_keys_of_a_part_that_failed_are_free_again(store: Store) -> None:
    with store.write() as writer:
        plant(writer, None, [ROOT])
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            lost = writer.entities.reserve(3)
            raise Refused
        with writer.savepoint():
            kept = writer.entities.reserve(2)
        assert list(writer.entities.reserve(0)) == []
    with store.write() as writer:
        assert (list(kept), list(writer.entities.reserve(1))) == (list(lost[:2]), [lost[2]])


def test_changes_of_parts_are_told_in_their_order(store: Store) -> None:
    with store.write() as writer:
        for number in range(3):
            with writer.savepoint():
                writer.outbox.append([{"n": number}, {"n": number}], time=STAMP, correlationid=str(number))
    with store.read() as reader:
        records = reader.outbox.records()
    assert [(record.correlationid, record.change["n"]) for record in records] == [
        (str(n), n) for n in (0, 0, 1, 1, 2, 2)
    ]


def test_references_are_found_whenever_they_come(store: Store) -> None:
    with store.write() as writer:
        one, two = plant_things(writer, ["one", "two"])
        assert writer.entities.referrers([one.xid]) == []
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.entities.update([replace(two, xref=one.xid)])
            assert [row.xid for row in writer.entities.referrers([one.xid])] == [two.xid]
            raise Refused
        assert writer.entities.referrers([one.xid]) == []
        writer.entities.update([replace(two, xref=one.xid)])
    with store.write() as writer:
        assert [row.xid for row in writer.entities.referrers([one.xid])] == [two.xid]
