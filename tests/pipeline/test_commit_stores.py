"""Batches in a store: each row lands once, whatever becomes of requests, and wherever the driver is killed."""

import pickle
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from tests.brokers.servers import BUCKET
from tests.pipeline import storeway
from tests.pipeline.lake import ORDER, Lake
from tests.pipeline.s3 import S3, storage_of
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

from signalbook.pipeline.commands.compact import TARGET, compact
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.places import place_of

INT = pa.int32()
ROOT = Path(__file__).parents[2]


SOME = ("parquet-s3proxy", "iceberg-s3proxy", "delta-s3proxy")
ALL = tuple(f"{table_format}-{server}" for table_format in ("parquet", "iceberg", "delta") for server in S3)
FATES = (storeway.lost, storeway.failing, storeway.twice, storeway.unknown, storeway.never_came, storeway.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Select the parameters: ``make stores`` tests all, which takes long; other runs test some."""
    every = metafunc.config.getoption("--every-request")
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", ALL if every else SOME)
    if "fate" in metafunc.fixturenames:
        # More often the library of Delta, which begins a commit anew where a listing is cut, would never end one.
        rarely = now_and_then(storeway.cut, 7)
        fates = [*map(now_and_then, FATES), rarely] if every else [now_and_then(in_turn(*FATES, storeway.cut))]
        metafunc.parametrize("fate", fates)


@pytest.fixture
def way(kind: str, request: pytest.FixtureRequest) -> Iterator[StoreWay]:
    """A way to a server."""
    with store_way(request.getfixturevalue(kind.partition("-")[2]).ports["plain"]) as opened:
        yield opened


@pytest.fixture
def lake(kind: str, way: StoreWay, tmp_path: Path) -> Lake:
    """A row in a table that is reached by that way."""
    stored = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(way.own))
    lake = Lake(tmp_path / "unused", cast("TableFormat", kind.partition("-")[0]), stored=stored)
    with lake.journal.lock_output():
        lake.put([{"a": 0}], {"a": INT})
    return lake


def numbers(lake: Lake) -> list[int]:
    return [row["a"] for row in lake.rows()]


@pytest.mark.merge
def test_commit_survives_temporary_errors(way: StoreWay, lake: Lake, fate: Fate) -> None:
    way.fate = fate
    with lake.journal.lock_output():
        for number in range(1, 3):
            lake.put([{"a": number}], {"a": INT} if number == 1 else {"a": INT, "b": INT})
    compact(lake.place, (), TARGET, lambda _: None)
    way.fate = storeway.delivered
    assert numbers(lake) == [0, 1, 2]
    assert len(lake.journal.find_files()[ORDER]) == 1
    assert lake.journal.list_unfinished() == []


def test_batch_is_completed_after_a_long_outage_of_the_store(
    way: StoreWay, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is kept, and completed once it is back."""
    with lake.journal.lock_output():
        batch = lake.prepared([{"a": 1}], {"a": INT})
        way.fate = lambda request, deliver: storeway.never_came(request, deliver)
        monkeypatch.setattr("signalbook.pipeline.places.stores._RETRIES", {"max_retries": 1})
        from signalbook.pipeline.places.stores import connect

        connect.cache_clear()
        with pytest.raises((PipelineError, OSError), match="the store does not answer"):
            lake.commit(batch)
        way.fate = storeway.delivered
        connect.cache_clear()
    with lake.journal.lock_output():
        assert list(complete_unfinished(lake.journal, lambda _: None)) == [batch.id]
    assert numbers(lake) == [0, 1]


def test_outdated_listings_are_tolerated(way: StoreWay, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is completed that the next run's listings do not show, and nothing of it is swept.

    Delta finds the end of its log by listings: with an old one it refuses the next batch, which is kept.
    """
    old = OldListings()
    way.fate = old
    lake.journal.list_unfinished()
    lake.journal.sweep()
    with lake.journal.lock_output():
        batch = lake.prepared([{"a": 1}], {"a": INT})
    journal = lake.journal
    with journal.lock_output():
        journal.sweep()
        assert list(complete_unfinished(journal, lambda _: None)) == [batch.id]
        last = lake.prepared([{"a": 2}], {"a": INT})
        if lake.table_format == "delta":
            monkeypatch.setattr("signalbook.pipeline.tables.delta._TRIES", 1)  # of which each is many requests
            with pytest.raises(PipelineError, match="does not take the batch, which is kept"):
                lake.commit(last)
        else:
            lake.commit(last)
    old.let_go()
    assert numbers(lake) == ([0, 1] if lake.table_format == "delta" else [0, 1, 2])
    with journal.lock_output():
        assert list(complete_unfinished(journal, lambda _: None)) == [last.id] * (lake.table_format == "delta")
    assert numbers(lake) == [0, 1, 2]
    assert journal.list_unfinished() == []


def work(lake: Lake) -> None:
    """Land two batches and compact, as far as that was not done before: what a driver does that is begun again."""
    journal = lake.journal
    with journal.lock_output(120.0):
        complete_unfinished(journal, lambda _: None)
        for number in (1, 2):
            lake.count = number
            if journal.find(f"b{number + 1:03}") is None:
                lake.put([{"a": number}], {"a": INT} if number == 1 else {"a": INT, "b": INT})
    compact(lake.place, (), TARGET, lambda _: None)


_WORKS = """
import pickle, sys
from pathlib import Path
from typing import cast
from tests.pipeline.lake import Lake
from tests.pipeline.test_commit_stores import work

lake = Lake(Path("unused"), sys.argv[2], stored=pickle.loads(bytes.fromhex(sys.argv[1])))
print("begins", flush=True)
sys.stdin.readline()
work(lake)
"""


class Killing:
    """Calls ``kill`` at the ``at``-th request that matches the pattern, before or after the server receives it."""

    def __init__(self, kill: Callable[[], object], at: int, *, after: bool, pattern: str = "") -> None:
        self.done = threading.Event()
        self._kill = kill
        self._left = at
        self._after = after
        self._pattern = re.compile(pattern, re.DOTALL)
        self._turn = threading.Lock()

    def __call__(self, request: Asked, deliver: Deliver) -> Answer | None:
        """Return the response to a request."""
        with self._turn:
            body = request.body.decode("latin-1") if request.method == "POST" else ""
            self._left -= self._pattern.search(f"{request.method} {request.path} {body}") is not None
            if self._left or self.done.is_set():
                return deliver()
            if self._after:
                deliver()
            self.done.set()  # who waits for that may see it before all of the processes are gone
            self._kill()
        return None


def kill_at(way: StoreWay, at: int, *, after: bool, program: str, arguments: Sequence[str]) -> tuple[bool, list[bytes]]:
    """Run a program that begins its work by a line. Return True if it was killed with a request, and what it wrote."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"begins\n"
        way.fate = killing = Killing(process.kill, at, after=after)
        process.stdin.write(b"\n")
        process.stdin.close()
        written = [*process.stdout]
        process.wait()
    way.fate = storeway.delivered
    assert killing.done.is_set() or process.returncode == 0
    return killing.done.is_set(), written


@pytest.mark.merge
def test_killed_driver_leaves_a_consistent_output(way: StoreWay, lake: Lake, request: pytest.FixtureRequest) -> None:
    """The driver is killed with some of its requests; with ``--every-request N``, before and after each N-th."""
    every = request.config.getoption("--every-request")
    step = every or 53
    at, after = step, False
    arguments = [pickle.dumps(lake.place).hex(), lake.table_format]
    while kill_at(way, at, after=after, program=_WORKS, arguments=arguments)[0]:
        work(lake)
        assert numbers(lake) == [0, 1, 2], f"killed with request {at}, which was{'' if after else ' not'} made"
        assert len(lake.journal.find_files()[ORDER]) == 1
        assert lake.journal.list_unfinished() == []
        lake.place.clear()
        with lake.journal.lock_output():
            lake.count = 0
            lake.put([{"a": 0}], {"a": INT})
        at, after = (at, True) if every and not after else (at + step, not every and not after)
    assert at > 53
