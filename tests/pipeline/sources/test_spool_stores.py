"""Spools in a store: nothing that was confirmed is lost, whatever becomes of requests, and wherever the writer dies."""

import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.brokers.servers import BUCKET
from tests.pipeline import storeway
from tests.pipeline.s3 import S3, storage_of
from tests.pipeline.storeway import Answer, OldListings, StoreWay, in_turn, now_and_then, store_way
from tests.pipeline.test_commit_stores import FATES, kill_at

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, place_of
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, SpoolSession, read_messages


@pytest.fixture(params=S3)
def way(request: pytest.FixtureRequest) -> Iterator[StoreWay]:
    with store_way(request.getfixturevalue(request.param).ports["plain"]) as opened:
        yield opened


@pytest.fixture
def spot(way: StoreWay) -> Place:
    return place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}/received", storage_of(way.own))


def message(number: int) -> SpooledMessage:
    return SpooledMessage(address=str(number), value=b"x" * 50, received_at=0)


def messages(spot: Place, begin: int | None = None) -> list[tuple[int, int]]:
    """The numbers of all that waits, or from ``begin`` on, and which message each is."""
    with MessageSpool(spot) as spool:
        begin, end = spool.begin if begin is None else begin, spool.end
        segments = spool.find_segments(begin, end)
    return [(number, int(message_.address or "")) for number, message_ in read_messages(spot, segments, begin, end)]


@pytest.mark.parametrize("fate", [now_and_then(fate) for fate in (in_turn(*FATES), storeway.cut)], ids=["all", "cut"])
def test_spool_tolerates_occasional_failures(way: StoreWay, spot: Place, fate: storeway.Fate) -> None:
    way.fate = fate
    for first in (0, 9):
        with MessageSpool(spot) as spool:
            for number in range(first, first + 9, 3):
                spool.remember(SpoolSession(name=str(number)))
                assert spool.append([message(number_) for number_ in range(number, number + 3)]) == 3
            segments = spool.find_segments(first, spool.end)
            messages_ = read_messages(spot, segments, first, spool.end)
            assert [number for number, _ in messages_] == list(range(first, first + 9))
            spool.trim(first + 6)
            assert spool.read_session() == SpoolSession(name=str(first + 6))
    way.fate = storeway.delivered
    assert messages(spot) == [(number, number) for number in range(15, 18)]


def test_refusal_of_the_store_is_an_error(way: StoreWay, spot: Place) -> None:
    """The error contains the response, and nothing was confirmed; the next writer continues."""
    with MessageSpool(spot) as spool:
        spool.append([message(0)])
        way.fate = lambda _, __: Answer(403, (("content-length", "0"),))
        with pytest.raises(PipelineError, match=f"cannot write to {spot}: the store answers 403"):
            spool.append([message(1)])
        assert spool.end == 1
        with pytest.raises(PipelineError, match=f"cannot read from {spot}: the store answers 403"):
            list(read_messages(spot, spool.find_segments(0, 1), 0, 1))
        way.fate = storeway.delivered
    assert messages(spot) == [(0, 0)]


def test_spool_tolerates_stale_listings(way: StoreWay, spot: Place) -> None:
    """Segments that a listing lacks are searched after the last listed one."""
    way.fate = old = OldListings()
    with MessageSpool(spot) as spool:
        for number in range(3):
            spool.append([message(number)])
    with MessageSpool(spot) as spool:
        assert (spool.initial_end, [segment.first for segment in spool.find_segments(0, 3)]) == (3, [0, 1, 2])
        spool.append([message(3)])
        spool.trim(4)
    old.let_go()
    assert messages(spot) == [(3, 3)]


@dataclass(slots=True)
class Landed:
    """The messages of a broker until they are confirmed, and the places they are written to; each writing process gets
    the unconfirmed ones.
    """

    way: StoreWay
    spot: Place
    confirmed: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def land(self) -> None:
        """Land all waiting messages as a batch does; the next process trims them."""
        new_messages = messages(self.spot, len(self.places))
        assert [number for number, _ in new_messages] == list(
            range(len(self.places), len(self.places) + len(new_messages))
        )
        self.places.update(new_messages)
        assert set(self.places.values()) >= set(range(self.confirmed))

    def killed(self, at: int, *, after: bool) -> bool:
        """Return True if a process was killed with its ``at``-th request; False if it finished before."""
        arguments = [pickle.dumps(self.spot).hex(), str(self.confirmed)]
        done, written = kill_at(self.way, at, after=after, program=_WRITES, arguments=arguments)
        self.confirmed = int(written[-1]) if written else self.confirmed
        return done


_WRITES = """
import pickle, sys
from tests.pipeline.sources.test_spool_stores import write

print("begins", flush=True)
sys.stdin.readline()
for confirmed in write(pickle.loads(bytes.fromhex(sys.argv[1])), int(sys.argv[2])):
    print(confirmed, flush=True)
"""


def write(spot: Place, first: int) -> Iterator[int]:
    """Receive from the message ``first`` on; up to where it is confirmed."""
    with MessageSpool(spot, limit=2000) as spool:
        before = spool.end
        spool.remember(SpoolSession(name=str(first)))
        for number in range(first, first + 9, 3):
            messages_ = [message(number_) for number_ in range(number, number + 3)]
            while messages_:
                accepted = spool.append(messages_)
                del messages_[:accepted]
                if not accepted:
                    spool.trim(before)
            yield number + 3
        spool.trim(before)


@pytest.mark.merge
@pytest.mark.parametrize("way", S3[:1], indirect=True)
def test_killed_writer_loses_no_messages(way: StoreWay, spot: Place, request: pytest.FixtureRequest) -> None:
    """The writer is killed with some of its requests; with ``--every-request N``, before and after each N-th."""
    every = request.config.getoption("--every-request")
    step = every or 5
    landed, at, after = Landed(way, spot), step, False
    while landed.killed(at, after=after):
        landed.land()
        at, after = (at, True) if every and not after else (at + step, not every and not after)
    landed.land()
    assert at > 15
    # What comes twice was written and not confirmed: three at a time.
    assert len(landed.places) - len(set(landed.places.values())) <= 3 * 2 * at
