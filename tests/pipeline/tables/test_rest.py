"""Iceberg tables in a real REST catalog: what is committed once, whatever becomes of requests, answers and catalog."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.brokers.program import Broker
from tests.pipeline.lake import ORDER, Lake, rest_choice
from tests.pipeline.storeway import Answer, Asked, Deliver, Fate, delivered, lost, never_came, store_way, twice

from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.tables.iceberg import OUTPUT_KEY, IcebergTables

INT = pa.int32()
COLUMNS = {"a": INT}


@dataclass(slots=True)
class Passage:
    """A proxy of the catalog. It applies fates to the next commits of tables, and delivers all other requests."""

    url: str
    fates: list[Fate] = field(default_factory=list)

    def __call__(self, request: Asked, deliver: Deliver) -> Answer | None:
        commits = request.method == "POST" and "/tables/" in request.path
        return (self.fates.pop(0) if commits and self.fates else delivered)(request, deliver)


def timed_out(_: Asked, deliver: Deliver) -> Answer:
    """Commit the table, but answer as a proxy whose request timed out."""
    deliver()
    body = b'{"error": {"message": "slow", "type": "GatewayTimeout", "code": 504}}'
    return Answer(504, (("content-type", "application/json"), ("content-length", str(len(body)))), body)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Iterator[Passage]:
    """A proxy of the catalog."""
    with store_way(int(rest_choice(request).properties["uri"].rpartition(":")[2])) as opened:
        opened.fate = passage = Passage(url=f"http://127.0.0.1:{opened.own}")
        yield passage


@pytest.fixture
def lake(way: Passage, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    choice = replace(rest_choice(request), properties={"type": "rest", "uri": way.url})
    return Lake(tmp_path / "lake", "iceberg", catalog=choice)


def created(lake: Lake) -> JournalEntry:
    return lake.prepared([{"a": 1}], COLUMNS)


def appended(lake: Lake) -> JournalEntry:
    lake.put([{"a": 0}], COLUMNS)
    return lake.prepared([{"a": 1}], COLUMNS)


def widened(lake: Lake) -> JournalEntry:
    lake.put([{"a": 0}], COLUMNS)
    return lake.prepared([{"a": 1, "b": 2}], {"a": INT, "b": INT})


def replaced(lake: Lake) -> JournalEntry:
    lake.put([{"a": 0}], COLUMNS)
    batch = replace(lake.prepared([{"a": 0}, {"a": 1}], COLUMNS), removed=tuple(lake.journal.find_files()[ORDER]))
    lake.journal.withdraw(batch)
    lake.journal.prepare(batch)
    return batch


Make = Callable[[Lake], JournalEntry]
MADE = pytest.mark.parametrize("make", [created, appended, widened, replaced])


def numbers(lake: Lake) -> list[int]:
    return [row["a"] for row in lake.rows()]


LOST: list[tuple[list[Fate], list[Make]]] = [
    ([lost], [created, appended, widened, replaced]),
    ([timed_out], [created, appended]),
    ([never_came], [created, replaced]),
    ([twice], [appended, replaced]),
    ([never_came, lost], [created, widened]),
]


@pytest.mark.parametrize(("make", "fates"), [(make, fates) for fates, makes in LOST for make in makes])
def test_lost_response_is_resolved_from_the_table(way: Passage, lake: Lake, make: Make, fates: list[Fate]) -> None:
    """The table shows if the commit was made, and it is repeated if it was not."""
    batch = make(lake)
    way.fates = list(fates)
    if len(fates) > 1:
        with pytest.raises(PipelineError, match="there is no answer of an Iceberg catalog"):
            lake.commit(batch)
        assert lake.journal.list_unfinished() == [batch]
        complete_unfinished(lake.journal, lambda _: None)
    else:
        lake.commit(batch)
    assert numbers(lake) == ([1] if make is created else [0, 1])
    assert lake.journal.list_unfinished() == []


@pytest.mark.merge
@pytest.mark.parametrize(
    ("make", "is_created"),
    [
        pytest.param(created, True, marks=pytest.mark.soak),
        pytest.param(widened, False, marks=pytest.mark.soak),
        (appended, True),
        (replaced, False),
    ],
)
def test_a_catalog_that_is_killed_while_a_table_is_committed(
    way: Passage, lake: Lake, own_catalog: Broker, make: Make, is_created: bool
) -> None:
    def killed(_: Asked, deliver: Deliver) -> None:
        if is_created:
            deliver()
        own_catalog.kill()

    batch = make(lake)
    way.fates = [killed]
    with pytest.raises(PipelineError, match=r"table shop.order: there is no answer of an Iceberg catalog"):
        lake.commit(batch)
    assert lake.journal.list_unfinished() == [batch]
    own_catalog.start()
    complete_unfinished(lake.journal, lambda _: None)
    assert numbers(lake) == ([1] if make is created else [0, 1])


@MADE
def test_a_request_that_comes_when_its_sender_is_dead(way: Passage, lake: Lake, make: Make) -> None:
    """The next run has looked at the table before, and has not found the commit."""
    delayed: list[Deliver] = []

    def hold(_: Asked, deliver: Deliver) -> None:
        delayed.append(deliver)

    def overtaken(_: Asked, deliver: Deliver) -> Answer:
        assert delayed[0]().status == 200
        return deliver()

    batch = make(lake)
    way.fates = [hold, never_came, overtaken]
    with pytest.raises(PipelineError):
        lake.commit(batch)
    complete_unfinished(lake.journal, lambda _: None)
    assert numbers(lake) == ([1] if make is created else [0, 1])
    assert way.fates == []


@pytest.mark.parametrize("make", [appended, replaced])
def test_concurrently_dropped_table_is_created_again(way: Passage, lake: Lake, make: Make) -> None:
    """The table is created again; a compaction or replay of the old one is discarded."""

    def dropped(_: Asked, deliver: Deliver) -> Answer:
        there = IcebergTables(lake.output)
        there.catalog.drop_table(there.build_identifier(ORDER))
        there.catalog.close()
        return deliver()

    batch = make(lake)
    way.fates = [dropped]
    if make is appended:
        lake.commit(batch)
        assert numbers(lake) == [1]
    else:
        with pytest.raises(PipelineError, match="1 of the files that were to be replaced are no longer in it"):
            lake.commit(batch)
    assert lake.journal.list_unfinished() == []


def test_tables_of_another_output(lake: Lake, tmp_path: Path) -> None:
    """The batches of both outputs may have the same ids."""
    lake.put([{"a": 1}], COLUMNS)
    other = Lake(tmp_path / "other", "iceberg", catalog=lake.catalog)
    with pytest.raises(
        PipelineError, match=r"\.shop\.order in the catalog is not of .*/other: give this output a name"
    ):
        other.put([{"a": 2}], COLUMNS)
    tables = IcebergTables(other.output)
    table = tables.catalog.load_table(tables.build_identifier(ORDER))
    with table.transaction() as transaction:
        transaction.set_properties({OUTPUT_KEY: tables._connection.owner})
    other.put([{"a": 2}], COLUMNS)
    assert numbers(other) == [1, 2]
