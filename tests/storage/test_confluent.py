from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import get_ident
from typing import Any

import pytest
from tests.storage.test_behaviour import a_row

from signalbook.storage import confluent
from signalbook.storage.confluent import MOST, IdTaken, NoIdLeft, SoftDeleted
from signalbook.storage.store import Store
from signalbook.storage.transaction import SqlTransaction
from signalbook.values import digest
from signalbook.xid import Xid

ONE, TWO, THREE = (digest(text) for text in (b"1", b"2", b"3"))
GONE = SoftDeleted(
    group="g",
    schema="Orders-value",
    version=2,
    schemaid=7,
    deletedat=datetime(2026, 11, 23, tzinfo=UTC),
    attributes={"format": "Avro/1.11"},
    document=b'"string"\x00',
)


class Refused(Exception):
    """Undoes a part."""


def test_a_content_has_one_number_in_each_group(store: Store) -> None:
    with store.write() as writer:
        assert writer.confluent.give("g", [TWO, ONE, TWO]) == {TWO: 1, ONE: 2}
        assert writer.confluent.give("g", [ONE, THREE]) == {ONE: 2, THREE: 3}
        assert writer.confluent.give("other", [THREE]) == {THREE: 1}
    with store.write() as writer:
        assert writer.confluent.give("g", [ONE, digest(b"4")]) == {ONE: 2, digest(b"4"): 4}
    with store.read() as reader:
        assert reader.confluent.ids("g", [ONE, TWO, "none"]) == {ONE: 2, TWO: 1}
        assert [reader.confluent.content("g", number) for number in (1, 2, 9)] == [TWO, ONE, None]
        assert reader.confluent.places(THREE[:32]) == [("g", 3), ("other", 1)]
        assert [reader.confluent.highest(group) for group in ("g", "other", "none")] == [4, 1, 0]
        assert reader.confluent.ids("g", []) == {}


def test_numbers_stay_unique_after_a_rollback(store: Store) -> None:
    with store.write() as writer:
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            assert writer.confluent.give("g", [ONE]) == {ONE: 1}
            raise Refused
        with writer.savepoint():
            assert writer.confluent.give("g", [TWO]) == {TWO: 2}
            assert writer.confluent.content("g", 2) == TWO
        assert writer.confluent.ids("g", [ONE, TWO]) == {TWO: 2}
    with store.read() as reader:
        assert reader.confluent.ids("g", [ONE, TWO]) == {TWO: 2}


def test_a_number_is_of_one_content(store: Store) -> None:
    with store.write() as writer:
        writer.confluent.claim("g", ONE, 41)
        writer.confluent.claim("g", ONE, 41)
        with pytest.raises(IdTaken, match="41 is the id of another schema"):
            writer.confluent.claim("g", TWO, 41)
        assert writer.confluent.give("g", [TWO]) == {TWO: 42}
    with store.write() as writer:
        writer.confluent.claim("g", THREE, 7)
        assert writer.confluent.give("g", [digest(b"4")]) == {digest(b"4"): 43}
        with pytest.raises(IdTaken):
            writer.confluent.claim("g", digest(b"5"), 7)
        writer.confluent.claim("g", ONE, 7, is_free=True)
        assert writer.confluent.all_ids("g", THREE) == []
        assert writer.confluent.give("g", [THREE]) == {THREE: 44}
    with store.read() as reader:
        assert reader.confluent.all_ids("g", THREE) == [44]
        assert reader.confluent.all_ids("g", ONE) == [7, 41]
        assert reader.confluent.content("g", 7) == ONE


def test_a_content_may_have_several_numbers(store: Store) -> None:
    """New Versions get the one that was claimed for them, else the lowest."""
    with store.write() as writer:
        writer.confluent.claim("g", ONE, 9)
        with writer.savepoint():
            writer.confluent.claim("g", ONE, 41)
            assert writer.confluent.give("g", [ONE]) == {ONE: 41}
        with pytest.raises(Refused), writer.savepoint():  # noqa: PT012
            writer.confluent.claim("g", ONE, 5)
            assert writer.confluent.all_ids("g", ONE) == [5, 9, 41]
            raise Refused
        assert writer.confluent.all_ids("g", ONE) == [9, 41]
        assert writer.confluent.give("g", [ONE]) == {ONE: 41}
    with store.write() as writer:
        assert writer.confluent.give("g", [ONE]) == {ONE: 9}
        writer.confluent.claim("g", ONE, 41)
        assert writer.confluent.give("g", [ONE]) == {ONE: 41}
    with store.read() as reader:
        assert (reader.confluent.ids("g", [ONE]), reader.confluent.all_ids("g", ONE)) == ({ONE: 9}, [9, 41])


def test_numbers_end_where_records_have_no_room_for_more(store: Store) -> None:
    with store.write() as writer:
        for number in (0, -1, MOST + 1):
            with pytest.raises(IdTaken, match="can be no id"):
                writer.confluent.claim("g", ONE, number)
        writer.confluent.claim("g", ONE, MOST)
        writer.confluent.claim("g", TWO, 2)
        assert writer.confluent.give("g", [THREE, digest(b"4")]) == {THREE: 1, digest(b"4"): 3}
    with store.write() as writer:
        assert writer.confluent.give("g", [digest(b"5")]) == {digest(b"5"): 4}


def test_numbers_after_high_claims_need_few_queries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many numbers were given: each registration searched from 1."""
    contents = [digest(b"%d" % number) for number in range(300)]
    with store.write() as writer:
        writer.confluent.give("g", contents[:250])
        for number in (MOST - 1, MOST, MOST - 10):
            writer.confluent.claim("g", digest(b"claimed %d" % number), number)
    queries: list[str] = []
    rows, thread = SqlTransaction.rows, get_ident()

    def counted(self: SqlTransaction, sql: str, parameters: Mapping[str, object]) -> Any:
        if get_ident() == thread:  # servers of other tests may still run in other threads
            queries.append(sql)
        return rows(self, sql, parameters)

    monkeypatch.setattr(SqlTransaction, "rows", counted)
    with store.write() as writer:
        numbers = [writer.confluent.give("g", [content])[content] for content in contents[250:260]]
    assert numbers == [*range(MOST - 9, MOST - 1), 251, 252]
    assert len(queries) < 40
    queries.clear()
    with store.write() as writer:
        writer.confluent.claim("g", digest(b"claimed 254"), 254)
        last_numbers = writer.confluent.give("g", contents[260:263])
    assert list(last_numbers.values()) == [253, 255, 256]
    assert len(queries) < 20


def test_all_numbers_used(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "MOST", 5)
    contents = [digest(b"%d" % number) for number in range(9)]
    with store.write() as writer:
        writer.confluent.claim("g", contents[0], 5)
        assert list(writer.confluent.give("g", contents[1:4]).values()) == [1, 2, 3]
    with store.write() as writer:
        assert writer.confluent.give("g", [contents[4]]) == {contents[4]: 4}
        with pytest.raises(NoIdLeft, match="all 5 schema ids of the group g are used: register in another group"):
            writer.confluent.give("g", [contents[5]])
        assert writer.confluent.give("h", [contents[5]]) == {contents[5]: 1}


def test_versions_are_found_by_number_in_their_group(store: Store) -> None:
    rows = [
        a_row(10, 1, Xid.parse("/schemagroups/g/schemas/a/versions/1"), schemaid=1),
        a_row(11, 1, Xid.parse("/schemagroups/g/schemas/b/versions/2"), schemaid=1),
        a_row(12, 1, Xid.parse("/schemagroups/g/schemas/b/versions/3"), schemaid=2),
        a_row(13, 1, Xid.parse("/schemagroups/g2/schemas/a/versions/4"), schemaid=1),
    ]
    with store.write() as writer:
        writer.entities.insert(rows)
        group = Xid.parse("/schemagroups/g")
        assert writer.entities.numbered(group, 1, 9) == rows[:2]
        assert writer.entities.numbered(group, 1, 1) == rows[:1]
        assert writer.entities.numbered(group, 1, 9, str(rows[0].xid)) == rows[1:2]
        assert writer.entities.numbered(Xid.parse("/schemagroups/g2"), 1, 9) == rows[3:]


def test_soft_deletion_is_kept_until_it_is_dropped(store: Store) -> None:
    first, other = replace(GONE, version=1, schemaid=3), replace(GONE, schema="a", version=1)
    with store.write() as writer:
        writer.confluent.put_soft_deleted([GONE, first, other, replace(GONE, group="h")])
        writer.confluent.put_soft_deleted([replace(first, schemaid=4)])
    first = replace(first, schemaid=4)
    with store.read() as reader:
        ids = reader.confluent
        assert ids.soft_deleted("g", [GONE.schema]) == [first, GONE]
        assert ids.soft_deleted("g", [GONE.schema.lower()]) == []
        assert ids.soft_deleted_of("g", "", 9) == [first, GONE, other]
        assert ids.soft_deleted_of("g", GONE.schema, 9) == [other]
        assert ids.soft_deleted_with("g", 7) == [GONE, other]
    with store.write() as writer:
        writer.confluent.drop_soft_deleted("g", GONE.schema, [1, 9])
        assert writer.confluent.soft_deleted(["f", "g"], [GONE.schema]) == [GONE]


def test_settings_of_subjects(store: Store) -> None:
    before = store.generation()
    with store.write() as writer:
        for scope in ("", ":.a:", ":.a:s", "s"):
            writer.confluent.put_setting("config", scope, {"compatibilityLevel": scope})
        writer.confluent.put_setting("config", "s", {"compatibilityLevel": "NONE"})
        writer.confluent.put_setting("mode", "s", {"mode": "IMPORT"})
    assert store.generation() != before
    with store.read() as reader:
        assert reader.confluent.setting("config", "s") == {"compatibilityLevel": "NONE"}
        assert reader.confluent.setting("config", "none") is None
        assert list(reader.confluent.settings("config", "", 2)) == [":.a:", ":.a:s"]
        following = reader.confluent.following("config", [":.a:", ":.a:a", ":.b:", "s"])
        assert sorted(config["compatibilityLevel"] for config in following) == [":.a:s", "NONE"]
        assert reader.confluent.following("config", []) == []
    with store.write() as writer:
        writer.confluent.put_setting("mode", "s", None)
        assert writer.confluent.setting("mode", "s") is None


def test_configs_and_modes_in_force_are_found(store: Store) -> None:
    with store.write() as writer:
        writer.confluent.put_setting("config", "", {"of": ""})
        writer.confluent.put_setting("mode", ":.:a", {"of": ":.:a"})
        writer.confluent.put_setting("config", ":.:b", {"of": ":.:b"})
        writer.confluent.put_setting("reference", ":.:a", {})
        expected = {("config", ""): {"of": ""}, ("mode", ":.:a"): {"of": ":.:a"}}
        assert writer.confluent.in_force(["", ":.:a"]) == expected
    with store.read() as reader:
        assert reader.confluent.in_force([":.:a", ""]) == expected
        assert reader.confluent.in_force([]) == {}
