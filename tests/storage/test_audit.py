from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from signalbook.storage.audit import AuditEntry, AuditQuery
from signalbook.storage.base import StorageError
from signalbook.storage.dialect import Parameters
from signalbook.storage.store import Store, WriteTransaction

STAMP = datetime(2030, 1, 1, tzinfo=UTC)


def entry(
    who: str = "ann", *, day: float = 0, action: str = "update", outcome: str = "done", xids: tuple[str, ...] = ()
) -> AuditEntry:
    return AuditEntry(time=STAMP + timedelta(days=day), who=who, action=action, outcome=outcome, xids=xids)


def append(store: Store, *entries: AuditEntry) -> None:
    with store.write() as writer:
        writer.audit.append(entries)


def found(store: Store, query: AuditQuery | None = None, limit: int = 100) -> list[str]:
    with store.read() as reader:
        return [record.who for record in reader.audit.entries(query or AuditQuery(), limit)]


def test_entry_is_stored_unchanged(store: Store) -> None:
    details = {"peer": "::1", "count": 3}
    whole = AuditEntry(
        time=STAMP + timedelta(microseconds=1),
        who="Änn\n'\\",
        action="delete",
        outcome="refused",
        xids=("/schemagroups/a", "/schemagroups/b"),
        correlationid="c",
        details=details,
    )
    append(store, whole)
    with store.read() as reader:
        (stored,) = reader.audit.entries(AuditQuery(), 9)
    expected = AuditEntry(**{**{name: getattr(whole, name) for name in AuditEntry.__slots__}, "number": stored.number})
    assert stored == expected
    assert stored.number > 0


def test_entries_are_found_by_their_exact_times(store: Store) -> None:
    """Entries are found that were committed with a page of changes; no entries between them are read."""
    append(store, entry("a", day=1), entry("b", day=2), entry("c", day=3), entry("d", day=3, outcome="refused"))
    with store.read() as reader:
        times = [STAMP + timedelta(days=day) for day in (1, 3, 9)]
        assert [record.who for record in reader.audit.at_times(times, "done", 9)] == ["c", "a"]
        assert [record.who for record in reader.audit.at_times(times, "done", 1)] == ["c"]
        assert reader.audit.at_times([], "done", 9) == []


def test_a_text_with_nul_is_stored_too(store: Store) -> None:
    append(store, entry("a\0b"))
    assert found(store) == ["a\ufffdb"]


def test_entries_are_filtered_newest_first(store: Store) -> None:
    append(
        store,
        entry("ann", xids=("/schemagroups/pay/schemas/order", "/schemagroups/pay")),
        entry("bob", action="create", xids=("/schemagroups/pay_2",)),
        entry("cid", outcome="refused", xids=("/messagegroups/pay",)),
        entry("ann", action="create"),
    )
    assert found(store) == ["ann", "cid", "bob", "ann"]
    assert found(store, limit=2) == ["ann", "cid"]
    assert found(store, AuditQuery(who="ann")) == ["ann", "ann"]
    assert found(store, AuditQuery(who="ANN")) == []
    assert found(store, AuditQuery(who="ann", action="create")) == ["ann"]
    assert found(store, AuditQuery(outcome="refused")) == ["cid"]
    assert found(store, AuditQuery(xid="/schemagroups/PAY")) == ["bob", "ann"]
    assert found(store, AuditQuery(xid="/schemagroups/pay_")) == ["bob"]
    assert found(store, AuditQuery(xid="/schemas/order")) == []
    assert found(store, AuditQuery(xid="%")) == []


def test_pages_follow_numbers(store: Store) -> None:
    append(store, *(entry(f"n{number}") for number in range(5)))
    with store.read() as reader:
        numbers = [record.number for record in reader.audit.entries(AuditQuery(), 9)]
    assert found(store, AuditQuery(before=numbers[1]), 2) == ["n2", "n1"]
    assert found(store, AuditQuery(after=numbers[2])) == ["n4", "n3"]


def test_time_filters_tolerate_clock_differences(store: Store) -> None:
    minutes = timedelta(minutes=1) / timedelta(days=1)
    # The third was made by a server whose clock is behind.
    append(store, entry("a", day=0), entry("b", day=2), entry("late", day=2 - 5 * minutes), entry("c", day=4))
    assert found(store, AuditQuery(since=STAMP + timedelta(days=2, minutes=-5))) == ["c", "late", "b"]
    assert found(store, AuditQuery(since=STAMP + timedelta(days=2))) == ["c", "b"]
    assert found(store, AuditQuery(until=STAMP + timedelta(days=2))) == ["late", "a"]
    assert found(store, AuditQuery(since=STAMP + timedelta(days=1), until=STAMP + timedelta(days=3))) == ["late", "b"]
    assert found(store, AuditQuery(since=STAMP + timedelta(days=5))) == []
    assert found(store, AuditQuery(since=datetime.min.replace(tzinfo=UTC))) == ["c", "late", "b", "a"]
    assert found(store, AuditQuery(until=datetime.max.replace(tzinfo=UTC))) == ["c", "late", "b", "a"]


def test_undone_transaction_has_no_entry(store: Store) -> None:
    def append_and_fail(writer: WriteTransaction) -> None:
        writer.audit.append([entry("undone")])
        raise KeyError

    with store.write() as writer:
        with writer.savepoint():
            writer.audit.append([entry("first")])
        with pytest.raises(KeyError), writer.savepoint():
            append_and_fail(writer)
        writer.audit.append([entry("last")])
    with pytest.raises(KeyError), store.write() as writer:
        append_and_fail(writer)
    with pytest.raises(StorageError, match="over"):
        writer.audit.append([entry()])
    assert found(store) == ["last", "first"]


def test_entries_are_no_change_of_the_registry(store: Store) -> None:
    before = store.generation()
    append(store, entry())
    assert store.generation() == before


def test_all_entries_of_a_transaction_are_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store, Store)
    statements: list[int] = []
    with store.write() as writer:
        run_bulk = writer._transaction.run_bulk

        def counted(sql: str, parameters: Sequence[Parameters]) -> int:
            statements.append(len(parameters))
            return run_bulk(sql, parameters)

        monkeypatch.setattr(writer._transaction, "run_bulk", counted)
        for number in range(50):
            writer.audit.append([entry(str(number))])
    assert [count for count in statements if count] == [50]


def test_old_entries_are_removed_in_parts_the_oldest_first(store: Store) -> None:
    append(store, *(entry(str(day), day=day) for day in (3, 1, 2, 4)))
    removed = []
    for _ in range(3):
        with store.write() as writer:
            removed.append(writer.audit.prune(STAMP + timedelta(days=3.5), 2))
    assert removed == [2, 1, 0]
    assert found(store) == ["4"]
    append(store, entry("new"))
    assert found(store) == ["new", "4"]
