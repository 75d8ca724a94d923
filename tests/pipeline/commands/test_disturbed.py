"""Whole commands whose way to a store disturbs them: each message is in one place, once, by then or by the next run."""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.brokers.servers import BUCKET
from tests.pipeline import storeway
from tests.pipeline.commands.test_replay import relax
from tests.pipeline.commands.test_stream import Topic, producer, topic  # noqa: F401 - fixtures
from tests.pipeline.lake import Lake
from tests.pipeline.local import replay, run
from tests.pipeline.s3 import storage_of
from tests.pipeline.storeway import (
    Answer,
    Asked,
    Deliver,
    Fate,
    OldListings,
    StoreWay,
    in_turn,
    now_and_then,
    store_way,
)

from signalbook.pipeline import Job, PipelineError, Place, ReplayJob, backfill, compact, place_of, profile
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName

ACCEPTED = TableName("parcels", "parcel.accepted")
# The library of Delta begins a commit anew where a listing is cut, which those of each third would never let it end.
FATES = (storeway.lost, storeway.failing, storeway.twice, storeway.unknown, storeway.cut, storeway.never_came)
KINDS = ("parquet-s3proxy", "iceberg-s3proxy", "delta-s3proxy", "parquet-s3mock", "iceberg-s3mock", "delta-s3mock")
ALL = [(kind, in_turn(*FATES, storeway.slow)) for kind in KINDS] + list(zip(KINDS, FATES, strict=True))


def merge_some(kinds: Sequence[str], most: int) -> list[Any]:
    """Return test cases of which ``make merge`` runs the first ``most``, and ``make soak`` the others."""
    marks = [pytest.mark.merge] * most + [pytest.mark.soak] * len(kinds)
    return [pytest.param(kind, marks=mark) for kind, mark in zip(kinds, marks, strict=False)]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """A format and a server."""
    return cast("str", request.param)


@pytest.fixture
def way(kind: str, request: pytest.FixtureRequest) -> Iterator[StoreWay]:
    """A way to the server."""
    with store_way(request.getfixturevalue(kind.partition("-")[2]).ports["plain"]) as opened:
        yield opened


@pytest.fixture
def root(way: StoreWay, parcels: Any) -> Place:
    """Two files of ten events by that way, of which the last ones are wrong: one will conform."""
    root = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(way.own))
    for name, first in (("a", 0), ("b", 10)):
        wrong: dict[int, Any] = {9: {"data": {"id": 9}}, 19: {"data": {"id": True}}}
        events = [parcels.event(n, **wrong.get(n, {})) for n in range(first, first + 10)]
        (root / f"in/{name}.jsonl").write(parcels.lines(*events))
    return root


@pytest.fixture
def job(kind: str, root: Place, definitions: Path) -> Job:
    """Lands the first of them."""
    return Job(
        registry=str(definitions),
        inputs=(f"{root}/in/a.jsonl",),
        output=str(root / "lake"),
        storage=root.storage,
        table_format=cast("TableFormat", kind.partition("-")[0]),
        batch_id="b1",
    )


def lands(job: Job) -> Lake:
    return Lake(Path("unused"), job.table_format, stored=job.place)


def landed(job: Job) -> list[int]:
    """The numbers of the events in the table."""
    return sorted(int(row["ce_id"].removeprefix("e-")) for row in lands(job).rows(ACCEPTED))


def second(job: Job, root: Place) -> Job:
    """The one that lands the other file."""
    return replace(job, inputs=(f"{root}/in/b.jsonl",), batch_id="b2")


@pytest.mark.parametrize(
    ("kind", "fate"),
    [pytest.param(*case, marks=pytest.mark.merge if case in ALL[:3] else pytest.mark.soak) for case in ALL],
    ids=[*(f"{kind}-all" for kind in KINDS), *map("-".join, zip(KINDS, [f.__name__ for f in FATES], strict=True))],
    indirect=["kind"],
)
def test_all_commands_survive_temporary_errors(
    way: StoreWay, root: Place, job: Job, fate: Fate, definitions: Path
) -> None:
    """Landing, replay, compaction and merging continue without user action."""
    way.fate = now_and_then(fate)
    assert (run(job).landed, run(second(job, root)).landed) == (9, 9)
    assert "committed before" in run(job).note
    relax(definitions)
    again = replay(ReplayJob(registry=str(definitions), output=job.output, storage=job.storage))
    assert (again.report.landed, again.report.tally.dead_lettered) == (1, 1)
    assert {result.files_after for result in compact(job.place)} == {1}
    assert [table_profile.rows for table_profile in profile(job.place)] == [19]
    assert backfill(job.place, str(definitions)) == []
    way.fate = storeway.delivered
    assert landed(job) == [*range(19)]
    assert len(lands(job).rows(DEAD_LETTERS)) == 1
    lands(job).check_whole()


class Refusing:
    """The store refuses to write what is called so, from the ``at``-th time on, and stays with that."""

    def __init__(self, pattern: str, at: int, status: int = 403) -> None:
        self.times = 0
        self._wanted = re.compile(pattern)
        self._at = at
        self._status = status

    def __call__(self, request_: Asked, deliver: Deliver) -> Answer:
        """Return the response to a request."""
        if request_.method in ("PUT", "POST") and self._wanted.search(request_.path):
            self.times += 1
            if self.times >= self._at:
                return Answer(self._status, (("content-length", "0"),))
        return deliver()


# What is written by workers, before anything is entered, with the entry, into tables, and when they are committed.
REFUSED = [
    (r"/\.staging/.*\.parquet", 2, False),
    (r"/\.staging/.*/claim", 1, False),
    (r"/batches/prepared/", 1, False),
    (r"/(tables|dead_letters)/", 1, True),
    (r"/(tables|dead_letters)/", 4, True),
    (r"/batches/b1", 1, True),
]
# One of what is not entered, and one of what is: make test refuses both with Parquet, make merge with all formats.
ENTRIES = (REFUSED[2], REFUSED[4])


@pytest.mark.parametrize(
    ("kind", "pattern", "at", "begun"),
    [
        pytest.param(kind, *refused, marks=marks if refused in ENTRIES else pytest.mark.soak)
        for kind, marks in zip(KINDS[:3], ([], [pytest.mark.merge], [pytest.mark.merge]), strict=True)
        for refused in REFUSED
    ],
    indirect=["kind"],
)
def test_refusing_store_is_reported(
    way: StoreWay, job: Job, pattern: str, at: int, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error contains the response; the next run lands or completes the batch."""
    way.fate = refusing = Refusing(pattern, at)
    with pytest.raises(PipelineError, match="the store answers 403"):
        run(job)
    assert refusing.times >= at
    way.fate = storeway.delivered
    assert len(lands(job).journal.list_unfinished()) == begun
    report = run(job)
    assert report.landed == 9
    assert ("died while committing: that was completed" in report.note) == begun
    assert landed(job) == [*range(9)]
    assert len(lands(job).rows(DEAD_LETTERS)) == 1
    if "prepared" in pattern:
        # An entry that nobody heard of may be there after all: its files stay for a day, like any claim.
        monkeypatch.setattr("signalbook.pipeline.journal._FORGOTTEN", 0)
        lands(job).journal.sweep()
    lands(job).check_whole()


@pytest.mark.parametrize("kind", merge_some(KINDS, 2), indirect=True)
def test_run_fails_on_a_lasting_overload_and_can_be_repeated(way: StoreWay, job: Job) -> None:
    way.fate = Refusing(r"/\.staging/.*\.parquet", 2, 503)
    with pytest.raises(PipelineError, match=rf"cannot write to {job.output}: the store answers 503"):
        run(job)
    way.fate = storeway.delivered
    lands(job).check_whole()
    assert run(job).landed == 9
    assert landed(job) == [*range(9)]


@pytest.mark.parametrize("kind", [KINDS[0], *merge_some(KINDS[1:], 2)], indirect=True)
def test_runs_tolerate_stale_listings(way: StoreWay, root: Place, job: Job, definitions: Path) -> None:
    """Two runs follow on one of which they see nothing in listings.

    Delta finds the end of its log by listings: with an old one it refuses the next batch, which is kept.
    """
    way.fate = old = OldListings()
    assert run(job).landed == 9
    if job.table_format == "delta":
        with pytest.raises(PipelineError, match="does not take the batch, which is kept"):
            run(second(job, root))
    else:
        assert run(second(job, root)).landed == 9
        assert "committed before" in run(job).note
    old.let_go()
    assert run(second(job, root)).landed == 9
    assert landed(job) == [*range(9), *range(10, 19)]
    assert len(lands(job).rows(DEAD_LETTERS)) == 2
    lands(job).check_whole()
