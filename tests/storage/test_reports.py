from datetime import UTC, datetime, timedelta
from threading import get_ident
from typing import Any

import pytest

from signalbook.storage.store import Store
from signalbook.storage.transaction import SqlTransaction

STAMP = datetime(2030, 1, 1, tzinfo=UTC)
ALL = 1 << 40


def put(
    store: Store, batch: str, *, name: str = "p", value: str = "{}", time: datetime = STAMP, keep: int = 100
) -> tuple[int, bool]:
    with store.write() as writer:
        return writer.reports.put_report(name, batch, value, {"batch": batch, "of": value}, time=time, keep=keep)


def numbers(store: Store, before: int = ALL, limit: int = 100, size: int = ALL) -> list[int]:
    with store.read() as reader:
        return [report.number for report in reader.reports.reports("p", before, limit, size)]


def test_numbers_grow_with_the_batches_of_each_pipeline(store: Store) -> None:
    assert [put(store, batch) for batch in ("b", "a", "B")] == [(1, True), (2, True), (3, True)]
    assert put(store, "a", name="q") == (1, True)
    with store.read() as reader:
        pipeline = reader.reports.pipeline("p")
        assert pipeline is not None
        assert (pipeline.newest, pipeline.time, pipeline.gist["batch"]) == (3, STAMP, "B")
        assert reader.reports.pipeline("P") is None
        assert reader.reports.pipeline_count() == 2


def test_repeated_report_keeps_its_position(store: Store) -> None:
    for batch in ("a", "b"):
        put(store, batch)
    assert put(store, "a", value='{"x":1}') == (1, False)
    with store.read() as reader:
        assert [report.value for report in reader.reports.reports("p", ALL, 9, ALL)] == ["{}", '{"x":1}']
        pipeline = reader.reports.pipeline("p")
        assert pipeline is not None
        assert pipeline.gist["batch"] == "b"
    assert put(store, "b", value="[]") == (2, False)
    with store.read() as reader:
        assert [pipeline_.gist["of"] for pipeline_ in reader.reports.pipelines("", 9)] == ["[]"]


def test_repeated_report_keeps_its_first_time(store: Store) -> None:
    put(store, "a")
    put(store, "a", value="[]", time=STAMP + timedelta(days=1))
    with store.read() as reader:
        assert [(row.time, row.gist["of"]) for row in reader.reports.pipelines("", 9)] == [(STAMP, "[]")]
        assert [(row.time, row.value) for row in reader.reports.reports("p", ALL, 9, ALL)] == [(STAMP, "[]")]
    put(store, "b", time=STAMP + timedelta(days=2))
    with store.read() as reader:
        assert [row.time for row in reader.reports.pipelines("", 9)] == [STAMP + timedelta(days=2)]


def test_the_newest_are_kept(store: Store) -> None:
    for number in range(7):
        put(store, f"b{number}", keep=3)
    assert numbers(store) == [7, 6, 5]
    put(store, "b6", keep=1)
    assert numbers(store) == [7, 6, 5]
    put(store, "b7", keep=1)
    assert numbers(store) == [8]


@pytest.mark.parametrize(
    ("before", "limit", "size", "expected"),
    [(ALL, 2, ALL, [5, 4]), (4, 9, ALL, [3, 2, 1]), (1, 9, ALL, []), (ALL, 9, 7, [5, 4, 3]), (ALL, 9, 1, [5])],
)
def test_pages(store: Store, before: int, limit: int, size: int, expected: list[int]) -> None:
    for number in range(5):
        put(store, f"b{number}")
        put(store, f"b{number}", name="other")
    assert numbers(store, before, limit, size) == expected


def test_pipelines_by_name(store: Store) -> None:
    for name in ("b", "a", "C"):
        put(store, "x", name=name)
    with store.read() as reader:
        assert [pipeline.name for pipeline in reader.reports.pipelines("", 2)] == ["C", "a"]
        assert [pipeline.name for pipeline in reader.reports.pipelines("a", 2)] == ["b"]


def test_a_pipeline_is_forgotten(store: Store) -> None:
    put(store, "x")
    put(store, "x", name="q")
    with store.write() as writer:
        assert (writer.reports.drop_pipeline("p"), writer.reports.drop_pipeline("p")) == (True, False)
    assert numbers(store) == []
    with store.read() as reader:
        assert [pipeline.name for pipeline in reader.reports.pipelines("", 9)] == ["q"]


def test_the_newest_of_many_pipelines_take_two_statements(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        put(store, "old", name=name)
        put(store, "new", name=name, value=f'"{name}"')
    run, ran, thread = SqlTransaction.rows, list[str](), get_ident()

    def rows(self: SqlTransaction, sql: str, parameters: Any) -> Any:
        if get_ident() == thread:  # servers of other tests may still run in other threads
            ran.append(sql)
        return run(self, sql, parameters)

    monkeypatch.setattr(SqlTransaction, "rows", rows)
    with store.read() as reader:
        newest = [(name, row.number, row.value) for name, row in reader.reports.newest(["c", "none", "a", "b"], ALL)]
        assert newest == [("c", 2, '"c"'), ("a", 2, '"a"'), ("b", 2, '"b"')]
        assert len(ran) == 2
        ran.clear()
        assert [name for name, _ in reader.reports.newest(["c", "a", "b"], 7)] == ["c", "a", "b"]
        assert len(ran) == 3, "what does not fit is read after that"
        assert [name for name, _ in reader.reports.newest(["c", "a"], 0)] == ["c", "a"]
        assert list(reader.reports.newest([], ALL)) == []
