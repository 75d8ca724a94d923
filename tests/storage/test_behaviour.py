from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from signalbook.storage.base import DuplicateId, Row, StorageError
from signalbook.storage.store import Store, WriteTransaction
from signalbook.values import JSONObject, digest
from signalbook.xid import ROOT, Xid

STAMP = datetime(2030, 12, 19, 6, 0, 0, 123456, tzinfo=UTC)
GROUP = Xid.parse("/groups/g")
RESOURCE = Xid.parse("/groups/g/things/t")
# Names below a Resource in code point order of the folded ids: digits, then _, then letters.
CHILDREN = [("notes", "z"), *(("versions", name) for name in ("10", "2", "_", "a", "B", "c"))]


def a_row(key: int, parent: int, xid: Xid, **more: Any) -> Row:
    return Row(key=key, parent=parent, xid=xid, epoch=1, createdat=STAMP, modifiedat=STAMP, **more)


def plant(writer: WriteTransaction, parent: Row | None, xids: Sequence[Xid], **more: Any) -> list[Row]:
    """Insert rows with these xids below ``parent``."""
    keys = writer.entities.reserve(len(xids))
    rows = [a_row(key, parent.key if parent else 0, xid, **more) for key, xid in zip(keys, xids, strict=True)]
    writer.entities.insert(rows)
    return rows


def plant_things(writer: WriteTransaction, ids: Sequence[str], **more: Any) -> list[Row]:
    """A Registry with one Group and these Resources."""
    (root,) = plant(writer, None, [ROOT])
    (group,) = plant(writer, root, [GROUP])
    return plant(writer, group, [GROUP / "things" / name for name in ids], **more)


def plant_version(writer: WriteTransaction, resource: Row, name: str, content: bytes | None) -> Row:
    if content is not None:
        writer.entities.put_documents({digest(content): content})
    document = None if content is None else digest(content)
    return plant(writer, resource, [resource.xid / "versions" / name], document=document)[0]


@pytest.fixture
def writer(store: Store) -> Iterator[WriteTransaction]:
    with store.write() as transaction:
        yield transaction


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"attributes": {"text": "é 中 \0 \"'", "n": 2**63 - 1, "f": 0.1, "deep": {"a": [1, None, True]}}},
        {"defaultversionid": "V1", "defaultversionsticky": True, "versioncounter": 2**40},
        {"xref": Xid.parse("/groups/h/things/Other")},
        {"rank": "3", "uri": "0" * 64},
        {"ancestorid": "v0", "document": digest(b""), "rank": "1 Z"},
        {"settled": "by whom"},
        {"createdat": datetime.min.replace(tzinfo=UTC), "modifiedat": datetime.max.replace(tzinfo=UTC)},
    ],
)
def test_a_row_comes_back_equal(store: Store, values: JSONObject) -> None:
    row = replace(a_row(7, 3, RESOURCE), **values)
    with store.write() as writer:
        writer.entities.insert([row])
    with store.read() as reader:
        assert reader.entities.get(RESOURCE) == row


def test_timestamps_of_other_zones_are_the_same_instant(store: Store) -> None:
    elsewhere = STAMP.astimezone(timezone(timedelta(hours=5, minutes=30)))
    with store.write() as writer:
        writer.entities.insert([replace(a_row(1, 0, ROOT), createdat=elsewhere)])
    with store.read() as reader:
        row = reader.entities.get(ROOT)
    assert row is not None
    assert (row.createdat, row.createdat.tzinfo) == (STAMP, UTC)


def test_an_xid_is_found_in_its_exact_case_only(writer: WriteTransaction) -> None:
    plant_things(writer, ["Thing"])
    assert writer.entities.get(GROUP / "things" / "Thing") is not None
    assert writer.entities.get(GROUP / "things" / "thing") is None


def test_get_many_returns_existing_entities(writer: WriteTransaction) -> None:
    rows = plant_things(writer, [f"t{n}" for n in range(3000)])
    xids = [row.xid for row in rows]
    assert writer.entities.get_many([*xids, GROUP / "things" / "none"]) == dict(zip(xids, rows, strict=True))
    assert writer.entities.get_many([]) == {}


def test_children_come_by_parent_type_and_folded_id(writer: WriteTransaction) -> None:
    first, two = plant_things(writer, ["one", "two"])
    expected = [resource.xid / plural / name for resource in (first, two) for plural, name in CHILDREN]
    for resource in (two, first):
        plant(writer, resource, [resource.xid / plural / name for plural, name in reversed(CHILDREN)])
    assert [row.xid for row in writer.entities.children([two.key, first.key, first.key])] == expected
    assert [row.xid for row in writer.entities.children([two.key], "notes")] == [two.xid / "notes" / "z"]
    assert list(writer.entities.children([], "notes")) == []


def test_children_by_ids_in_any_case(writer: WriteTransaction) -> None:
    rows = plant_things(writer, ["A", "b", "c"])
    parent = rows[0].parent
    assert list(writer.entities.children([parent], "things", ids=["a", "B", "nope"])) == rows[:2]
    assert list(writer.entities.children([parent], ids=["C"])) == rows[2:]
    assert list(writer.entities.children([parent], "things", ids=[])) == []


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [
        (None, 2, ["a", "B"]),
        ("b", 2, ["c", "d"]),
        ("B", None, ["c", "d"]),
        ("bb", 1, ["c"]),
        ("d", 5, []),
        (None, 0, []),
    ],
)
def test_children_page_by_page(
    writer: WriteTransaction, after: str | None, limit: int | None, expected: list[str]
) -> None:
    parent = plant_things(writer, ["a", "B", "c", "d"])[0].parent
    page = writer.entities.children([parent], "things", after=after, limit=limit)
    assert [row.xid.id for row in page] == expected


@pytest.mark.parametrize(
    ("upto", "limit", "expected"),
    [
        (None, 2, ["d", "c"]),
        ("c", 2, ["c", "B"]),
        ("b", 9, ["B", "a"]),
        ("bb", 1, ["B"]),
        ("A", 9, ["a"]),
        ("0", 9, []),
    ],
)
def test_preceding_siblings(writer: WriteTransaction, upto: str | None, limit: int, expected: list[str]) -> None:
    parent = plant_things(writer, ["a", "B", "c", "d"])[0].parent
    rows = writer.entities.preceding(parent, "things", limit, upto=upto)
    assert [row.xid.id for row in rows] == expected


@pytest.mark.parametrize(("parents", "type"), [([1, 2], "things"), ([1], None), ([], "things")])
def test_paging_needs_one_collection(store: Store, parents: list[int], type: str | None) -> None:
    with store.read() as reader, pytest.raises(ValueError, match="one parent"):
        reader.entities.children(parents, type, after="a")


@pytest.mark.parametrize("limit", [None, 999, 1000, 1001, 2500, 9999])
@pytest.mark.parametrize("several", [False, True])
def test_children_of_many_batches(writer: WriteTransaction, limit: int | None, several: bool) -> None:
    rows = plant_things(writer, [f"t{n:05}" for n in range(2400)])
    below = plant(writer, rows[0], [rows[0].xid / "versions" / f"{n:05}" for n in range(1200)])
    parents = [rows[0].parent, rows[0].key, rows[1].key] if several else [rows[0].parent]
    expected = [*rows, *below] if several else rows
    assert list(writer.entities.children(parents, limit=limit)) == expected[:limit]


def test_reading_on_while_children_stream(store: Store) -> None:
    with store.write() as writer:
        rows = plant_things(writer, [f"t{n:05}" for n in range(2200)])
        plant(writer, rows[2100], [rows[2100].xid / "versions" / "1"])
    with store.read() as reader:
        parent = [rows[0].parent]
        streams = zip(reader.entities.children(parent), reader.entities.children(parent), strict=True)
        ids = [[v.xid.id for v in reader.entities.children([first.key])] for first, other in streams if first == other]
    assert ids == [[]] * 2100 + [["1"]] + [[]] * 99


def test_children_end_with_their_transaction(store: Store) -> None:
    with store.write() as writer:
        parent = plant_things(writer, [f"t{n}" for n in range(1100)])[0].parent
    with store.read() as reader:
        unread = reader.entities.children([parent])
        begun = reader.entities.children([parent])
        assert len([next(begun) for _ in range(1050)]) == 1050
    for stream in (unread, begun):
        with pytest.raises(StorageError, match="over"):
            list(stream)


def test_unfinished_reading_blocks_no_writer(store: Store) -> None:
    with store.write() as writer:
        parent = plant_things(writer, [f"t{n:05}" for n in range(3000)])[0].parent
    with store.read() as reader:
        begun = reader.entities.children([parent])
        assert len([next(begun) for _ in range(1050)]) == 1050
    with store.read(), store.write() as writer:  # so that the write has another connection than the first read had
        writer.settings.put_config("modelsource", {})
    with store.read() as reader:
        assert reader.settings.config_epoch("modelsource") == 1
    del begun


def test_counts_by_parent_and_type(writer: WriteTransaction) -> None:
    first, two, three = plant_things(writer, ["a", "b", "c"])
    plant(writer, first, [first.xid / "versions" / "1", first.xid / "versions" / "2"])
    plant(writer, first, [first.xid / "notes" / "1"])
    plant(writer, two, [two.xid / "versions" / "1"])
    expected = {(first.key, "versions"): 2, (first.key, "notes"): 1, (two.key, "versions"): 1}
    assert writer.entities.counts([first.key, two.key, three.key]) == expected
    assert writer.entities.counts([]) == {}


def test_referrers_are_those_whose_xref_is_the_target(writer: WriteTransaction) -> None:
    plain = plant_things(writer, ["plain"])[0]
    xids = [GROUP / "things" / name for name in ("b", "A")]
    b, a = (replace(plain, key=plain.key + n, xid=xid, xref=plain.xid) for n, xid in enumerate(xids, 1))
    writer.entities.insert([b, a])
    assert writer.entities.referrers([plain.xid]) == [a, b]
    assert writer.entities.referrers([a.xid]) == writer.entities.referrers([]) == []


@pytest.mark.parametrize("content", [b"", b"\0\r\n\xff", bytes(range(256)) * 4096], ids=["empty", "bytes", "1 MiB"])
def test_documents_come_back_exactly(store: Store, content: bytes) -> None:
    with store.write() as writer:
        plant_version(writer, plant_things(writer, ["t"])[0], "1", content)
    with store.read() as reader:
        assert reader.entities.documents([digest(content), digest(b"other")]) == {digest(content): content}
        assert reader.entities.documents([]) == {}


def kept(store: Store, *contents: bytes) -> list[bytes]:
    with store.read() as reader:
        return sorted(reader.entities.documents([digest(content) for content in contents]).values())


def test_replaced_document_is_deleted(store: Store) -> None:
    with store.write() as writer:
        resource = plant_things(writer, ["t"])[0]
        first = plant_version(writer, resource, "1", b"one")
        two = plant_version(writer, resource, "2", b"two")
    with store.write() as writer:
        writer.entities.put_documents({digest(b"new"): b"new"})
        writer.entities.update([replace(first, document=digest(b"two")), replace(two, document=digest(b"new"))])
    assert kept(store, b"one", b"two", b"new") == [b"new", b"two"]
    with store.write() as writer:
        writer.entities.update([replace(first, document=None), replace(two, epoch=2, document=digest(b"new"))])
    assert kept(store, b"one", b"two", b"new") == [b"new"]


def test_a_document_may_change_hands_within_a_transaction(store: Store) -> None:
    with store.write() as writer:
        resource = plant_things(writer, ["t"])[0]
        old = plant_version(writer, resource, "1", b"same")
    with store.write() as writer:
        writer.entities.delete([old.key])
        plant(writer, resource, [resource.xid / "versions" / "2"], document=digest(b"same"))
    assert kept(store, b"same") == [b"same"]


def test_many_documents_are_read_and_deleted_together(store: Store) -> None:
    contents = {digest(str(n).encode()): str(n).encode() for n in range(10_500)}
    with store.write() as writer:
        keeper, gone = plant_things(writer, ["keeper", "gone"])
        writer.entities.put_documents(contents)
        keys = writer.entities.reserve(len(contents))
        rows = [
            a_row(key, gone.key, gone.xid / "versions" / str(key), document=document)
            for key, document in zip(keys, contents, strict=True)
        ]
        writer.entities.insert(rows)
        plant_version(writer, keeper, "1", b"1")
    with store.write() as writer:
        writer.entities.delete([gone.key])
    with store.read() as reader:
        assert reader.entities.documents(list(contents)) == {digest(b"1"): b"1"}


def test_values_are_stored_by_name(store: Store) -> None:
    with store.write() as writer:
        for name in ("a/2", "a/1", "a/1/x", "a0", "a", "A/1", "b/1"):
            writer.settings.put(name, {"is": name})
        assert writer.settings.get("a/1/x") == {"is": "a/1/x"}
        writer.settings.put("a/1", None)
        writer.settings.put("a/2", 2)
    with store.read() as reader:
        stored = {name: reader.settings.get(name) for name in ("a/1", "a/2", "a/1/x", "A/1", "c")}
        assert stored == {"a/1": None, "a/2": 2, "a/1/x": {"is": "a/1/x"}, "A/1": {"is": "A/1"}, "c": None}
        assert reader.outbox.position() == 0


def test_config_and_its_epoch(writer: WriteTransaction) -> None:
    assert (writer.settings.config("modelsource"), writer.settings.config_epoch("modelsource")) == (None, 0)
    for value in ({"groups": {"a": [1.5, "é\0"]}}, {}, None, {"b": 1}):
        writer.settings.put_config("modelsource", value)
        assert writer.settings.config("modelsource") == value
    assert writer.settings.config_epoch("modelsource") == 4
    assert writer.settings.config_epoch("capabilities") == 0


def test_outbox_in_commit_order(store: Store) -> None:
    for correlation in ("c1", "c2"):
        with store.write() as writer:
            writer.outbox.append([{"n": 1}, {"n": "é\0"}], time=STAMP, correlationid=correlation)
            writer.outbox.append([], time=STAMP, correlationid=correlation)
    with store.read() as reader:
        records = reader.outbox.records()
        expected = [("c1", 1), ("c1", "é\0"), ("c2", 1), ("c2", "é\0")]
        assert [(r.correlationid, r.change["n"]) for r in records] == expected
        assert [r.position for r in records] == sorted({r.position for r in records})
        assert {r.time for r in records} == {STAMP}
        assert reader.outbox.records(records[0].position, limit=2) == records[1:3]
        assert reader.outbox.records(records[-1].position) == []
        assert reader.outbox.position() == records[-1].position


def test_the_beginning_of_the_outbox_is_forgotten(store: Store) -> None:
    with store.write() as writer:
        writer.outbox.append([{"n": n} for n in range(5)], time=STAMP, correlationid="c")
    with store.read() as reader:
        positions = [record.position for record in reader.outbox.records()]
        assert reader.outbox.pruned() == 0
    for position in (positions[2], positions[1]):  # who comes later and knows less takes nothing back
        with store.write() as writer:
            writer.outbox.prune(position)
        with store.read() as reader:
            assert [record.change["n"] for record in reader.outbox.records()] == [3, 4]
            assert (reader.outbox.pruned(), reader.outbox.position()) == (positions[2], positions[4])


def test_reserved_keys_are_never_given_twice(store: Store) -> None:
    reserved: list[int] = []
    for count in (3, 0, 1):
        with store.write() as writer:
            reserved += writer.entities.reserve(count)
            reserved += writer.entities.reserve(2)
    assert reserved == sorted(set(reserved))
    assert min(reserved) > 0


@pytest.mark.parametrize(
    ("ids", "culprit"), [(["new", "old"], "old"), (["OLD"], "OLD"), (["x", "y", "X"], "X"), (["a", "a"], "a")]
)
def test_a_sibling_with_the_same_id_in_any_case_is_refused(store: Store, ids: list[str], culprit: str) -> None:
    """Sibling ids that differ only in case conflict (R25)."""
    with store.write() as writer:
        old = plant_things(writer, ["old"])[0]
        group = writer.entities.get(GROUP)
    with pytest.raises(DuplicateId) as caught, store.write() as writer:
        plant(writer, group, [GROUP / "things" / name for name in ids])
    assert caught.value.xid == GROUP / "things" / culprit
    with store.read() as reader:
        assert list(reader.entities.children([old.parent])) == [old]


def test_the_same_id_elsewhere_is_fine(writer: WriteTransaction) -> None:
    first, two = plant_things(writer, ["one", "two"])
    cousins = [first.xid / "versions" / "v", first.xid / "notes" / "V", two.xid / "versions" / "v"]
    for parent, xid in zip((first, first, two), cousins, strict=True):
        plant(writer, parent, [xid])
    assert len(list(writer.entities.children([first.key, two.key]))) == 3


def test_an_update_replaces_all_but_the_identity(writer: WriteTransaction) -> None:
    rows = plant_things(writer, ["a", "b"], attributes={"old": 1})
    changed = [replace(row, epoch=9, attributes={"new": 2}, versioncounter=4, ancestorid="x") for row in rows]
    writer.entities.update(changed)
    writer.entities.update([])
    assert list(writer.entities.children([rows[0].parent])) == changed


def test_update_of_a_missing_row_fails(store: Store) -> None:
    with store.write() as writer:
        row = plant_things(writer, ["a"])[0]
    with pytest.raises(StorageError, match="not stored"), store.write() as writer:
        writer.entities.update([replace(row, epoch=2), replace(row, key=12345)])
    with store.read() as reader:
        assert reader.entities.get(row.xid) == row


def test_delete_removes_only_the_subtree(writer: WriteTransaction) -> None:
    first, two = plant_things(writer, ["one", "two"])
    for resource in (first, two):
        plant(writer, resource, [resource.xid / "versions" / str(n) for n in range(3)])
    writer.entities.delete([first.key, first.key, 999_999])
    writer.entities.delete([])
    assert writer.entities.get(first.xid) is None
    assert writer.entities.get(first.xid / "versions" / "1") is None
    expected = {(first.parent, "things"): 1, (two.key, "versions"): 3}
    assert writer.entities.counts([first.parent, first.key, two.key]) == expected


def test_many_rows_are_written_together(writer: WriteTransaction) -> None:
    rows = plant_things(writer, [f"t{n}" for n in range(5_000)])
    writer.entities.update([replace(row, epoch=2) for row in rows])
    assert sum(row.epoch for row in writer.entities.children([rows[0].parent], "things")) == 10_000
    writer.entities.delete([row.key for row in rows[1:]])
    assert writer.entities.counts([rows[0].parent]) == {(rows[0].parent, "things"): 1}


def test_failed_transaction_changes_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.write() as writer:  # noqa: PT012
        plant_version(writer, plant_things(writer, ["t"])[0], "1", b"doc")
        writer.settings.put_config("modelsource", {})
        writer.outbox.append([{}], time=STAMP, correlationid="c")
        raise ZeroDivisionError
    with store.read() as reader:
        actual = (reader.entities.get(ROOT), reader.entities.documents([digest(b"doc")]), reader.outbox.records())
        assert actual == (None, {}, [])
        assert reader.settings.config_epoch("modelsource") == 0


def test_a_swallowed_failure_is_not_committed(store: Store) -> None:
    with pytest.raises(StorageError, match="earlier failure"), store.write() as writer:  # noqa: PT012
        row = plant_things(writer, ["t"])[0]
        with pytest.raises(DuplicateId):
            writer.entities.insert([replace(row, key=row.key + 1)])
    with store.read() as reader:
        assert reader.entities.get(ROOT) is None


def test_a_reader_sees_one_instant(store: Store) -> None:
    with store.write() as writer:
        plant_things(writer, ["t"])
    with store.read() as before:
        assert before.settings.config_epoch("modelsource") == 0
        with store.write() as writer:
            writer.settings.put_config("modelsource", {})
            writer.entities.delete([row.key for row in writer.entities.children([0])])
            assert before.entities.get(ROOT) is not None
        assert before.entities.get(RESOURCE) is not None
        assert before.settings.config("modelsource") is None
    with store.read() as after:
        assert (after.entities.get(ROOT), after.settings.config("modelsource")) == (None, {})


def test_finished_transaction_cannot_be_used(store: Store) -> None:
    with store.read() as reader:
        pass
    with store.write() as writer:
        pass
    with pytest.raises(StorageError, match="over"):
        reader.entities.get(ROOT)
    with pytest.raises(StorageError, match="over"):
        writer.settings.put_config("modelsource", {})


def test_closed_store_is_an_error(store: Store) -> None:
    with store.read() as reader:
        store.close()
        assert reader.entities.get(ROOT) is None
    with pytest.raises(StorageError, match="closed"), store.read():
        pass


def test_a_part_that_fails_leaves_nothing_and_the_rest_is_kept(store: Store) -> None:
    with store.write() as writer:
        with writer.savepoint():
            first, _ = plant_things(writer, ["one", "two"])
            plant_version(writer, first, "1", b"kept")
        with pytest.raises(ZeroDivisionError), writer.savepoint():  # noqa: PT012
            plant_version(writer, first, "2", b"lost")
            writer.entities.delete([first.key])
            writer.outbox.append([{"lost": True}], time=STAMP, correlationid="c")
            writer.settings.put_config("lost", 1 // 0)
        with writer.savepoint():
            writer.settings.put_config("kept", 1)
    with store.read() as reader:
        counts = {(first.parent, "things"): 2, (first.key, "versions"): 1}
        assert reader.entities.counts([first.key, first.parent]) == counts
        assert reader.entities.documents([digest(b"kept"), digest(b"lost")]) == {digest(b"kept"): b"kept"}
        actual = (reader.settings.config("kept"), reader.settings.config("lost"), reader.outbox.records())
        assert actual == (1, None, [])


def test_a_database_error_ends_its_part_only(store: Store) -> None:
    with store.write() as writer:
        first, _ = plant_things(writer, ["one", "two"])
        with pytest.raises(DuplicateId), writer.savepoint():  # noqa: PT012
            plant_version(writer, first, "1", b"lost")
            plant(writer, first, [first.xid / "versions" / "1"])
        with writer.savepoint():
            plant_version(writer, first, "1", b"kept")
    with store.read() as reader:
        assert reader.entities.documents([digest(b"kept"), digest(b"lost")]) == {digest(b"kept"): b"kept"}


def test_a_swallowed_failure_is_not_kept_in_a_part(store: Store) -> None:
    with store.write() as writer:
        first, _ = plant_things(writer, ["one", "two"])
        with pytest.raises(StorageError), writer.savepoint():  # noqa: PT012
            plant_version(writer, first, "1", b"lost")
            with suppress(DuplicateId):
                plant(writer, first, [first.xid / "versions" / "1"])
    with store.read() as reader:
        assert list(reader.entities.children([first.key])) == []


def test_stream_of_a_savepoint_ends_with_it(writer: WriteTransaction) -> None:
    resource, _ = plant_things(writer, ["one", "two"])
    plant(writer, resource, [resource.xid / "versions" / str(number) for number in range(2500)])
    with writer.savepoint():
        rows = writer.entities.children([resource.key])
        next(rows)
    assert len(list(writer.entities.children([resource.key]))) == 2500
