"""One program at a time: by a file's lock, or a lease in a store."""

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.pipeline.s3 import KINDS, SERVERS, place

from signalbook.pipeline import locks
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.locks import FolderLock, Lease, lock_of
from signalbook.pipeline.places import Place


@pytest.fixture(params=KINDS)
def spot(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return the place of a lock."""
    return place(request.param, tmp_path, request) / ".lock"


@pytest.fixture(params=SERVERS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return the place of a lease."""
    return place(request.param, tmp_path, request) / ".lock"


def lease(spot: Place) -> Lease:
    """Another look at it."""
    return Lease(spot)


def test_one_has_it_at_a_time(spot: Place) -> None:
    first, second = lock_of(spot), lock_of(spot)
    for mine, other in ((first, second), (second, first)):
        assert mine.take()
        assert not other.take()
        assert not other.can_become_free()
        mine.check()
        mine.release()
        mine.release()


def test_lock_shows_its_holder(stored: Place) -> None:
    first, second = lock_of(stored), lock_of(stored)
    assert first.take()
    assert not second.take()
    assert f"process {os.getpid()}" in second.holder
    first.release()


_TAKES = """
import pickle, sys, time
from signalbook.pipeline.locks import lock_of
lock = lock_of(pickle.loads(bytes.fromhex(sys.argv[1])))
print(lock.take(), flush=True)
time.sleep(600)
"""


def test_lock_of_a_dead_process_is_free(spot: Place) -> None:
    """Killed on this machine: it is not waited for."""
    command = [sys.executable, "-c", _TAKES, pickle.dumps(spot).hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        output = other.stdout.readline()
        mine = lock_of(spot)
        could = mine.take()
        other.kill()
    assert (output, could) == (b"True\n", False)
    assert mine.take()
    mine.release()


class _Nobody(set[str]):
    def add(self, element: str) -> None:
        """Leases of this process are like any other's."""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def elsewhere(monkeypatch: pytest.MonkeyPatch, renewal: float) -> None:
    """Treat leases as those of other machines, and renew them after ``renewal`` real seconds."""
    monkeypatch.setattr(locks, "_find_machine", lambda: "")
    monkeypatch.setattr(locks, "_LIVE", _Nobody())
    monkeypatch.setattr(locks, "_RENEWAL", renewal)


def test_lease_of_a_dead_machine_is_taken_over(stored: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is taken over if it has not changed for a term; the old owner is told when it continues."""
    elsewhere(monkeypatch, 600.0)  # held up
    clock = Clock()
    late, mine = Lease(stored, clock), Lease(stored, clock)
    assert late.take()
    late.check("what was prepared")
    assert not mine.take()
    clock.now += locks.TERM - 1
    assert not mine.take()
    assert mine.can_become_free()
    clock.now += 1
    assert mine.take()
    assert mine.note == "what was prepared"
    with pytest.raises(PipelineError, match=r"took .* over while this one was held up"):
        late.check()
    late.release()  # takes nothing away
    mine.check()
    mine.release()


def test_lease_of_a_living_machine_is_not_taken(stored: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, 600.0)
    clock = Clock()
    first, second = Lease(stored, clock), Lease(stored, clock)
    assert first.take()
    assert not second.take()
    for _ in range(3):
        clock.now += locks.TERM
        first.check()  # as it does by itself
        assert not second.take()
        assert not second.can_become_free()
    first.release()
    assert second.take()
    second.release()


def test_lease_is_renewed_in_the_background(stored: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, 0.01)
    mine, other = lease(stored), lease(stored)
    assert mine.take()
    deadline = time.monotonic() + 60
    while other.can_become_free():
        assert not other.take()
        assert time.monotonic() < deadline
    mine.release()


def test_one_of_many_gets_the_lease(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nobody had it before: then s3proxy, too, lets only one make it."""
    spot = place("s3proxy", tmp_path, request) / ".lock"
    leases = [lease(spot) for _ in range(6)]
    holders: list[Lease] = []
    threads = [
        threading.Thread(target=lambda lease_=lease_: holders.append(lease_) if lease_.take() else None)
        for lease_ in leases
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holders) == 1
    holders[0].release()


def test_invalid_lease_is_reported(stored: Place) -> None:
    stored.write(b"{")
    with pytest.raises(PipelineError, match=r"cannot read \w+://.*\.lock, which says who is at work there"):
        lease(stored).take()


def test_removed_lock_file_locks_nobody_out(tmp_path: Path) -> None:
    """A process that opened the file before waits for a lock on a removed file; other processes lock the new file."""
    path = tmp_path / ".lock"
    first, second = FolderLock(path), FolderLock(path)
    assert first.take()
    real, opened = Path.open, path.open("ab")

    def removed(self: Path, mode: str) -> object:
        path.unlink()
        first.release()
        return opened

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", removed)
        assert not second.take()
    assert Path.open is real
    assert first.take()
    assert not second.take()
    first.release()


def test_held_lock_is_recognised(spot: Place) -> None:
    lock = lock_of(spot)
    assert not lock.is_held()
    assert lock.take()
    assert lock.is_held()
    lock.release()
    assert not lock.is_held()


def test_delayed_holder_checks_its_lease(stored: Place) -> None:
    """The holder checks a lease that it has not renewed for long, and notices if another process took it over."""
    clock = Clock()
    mine, other = Lease(stored, clock), lease(stored.parent / "other")
    assert mine.take()
    clock.now += locks.TERM
    assert mine.is_held()
    assert mine._renewed == clock.now
    assert other.take()
    stored.replace((stored.parent / "other").read())
    clock.now += locks.TERM
    assert not mine.is_held()
    other.release()
