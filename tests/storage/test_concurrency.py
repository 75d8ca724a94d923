import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import pytest
from msgspec.structs import replace

from signalbook.storage import open_store
from signalbook.storage.base import Row, StorageBusy
from signalbook.storage.store import Store
from signalbook.values import now
from signalbook.xid import ROOT, Xid

TWIN = Xid.parse("/things/twin")
RAISE = """
import sys
from msgspec.structs import replace
from signalbook.storage import open_store
from signalbook.xid import ROOT, Xid
store = open_store(sys.argv[1], timeout=600)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with store.write() as writer:
        rows = [writer.entities.get(xid) for xid in (ROOT, Xid.parse("/things/twin"))]
        writer.entities.update([replace(row, epoch=row.epoch + 1) for row in rows])
        writer.outbox.append([{"epoch": rows[0].epoch}], time=rows[0].createdat, correlationid="c")
"""


@pytest.fixture
def shared(store_url: str) -> Iterator[Store]:
    """A store with two rows whose epochs are equal in every commit."""
    store = open_store(store_url, timeout=600)
    with store.write() as writer:
        for key, xid in enumerate((ROOT, TWIN)):
            writer.entities.insert([Row(key=key, parent=key - 1, xid=xid, epoch=0, createdat=now(), modifiedat=now())])
    yield store
    store.close()


def epochs(store: Store) -> tuple[int, int]:
    with store.read() as reader:
        root, other = reader.entities.get(ROOT), reader.entities.get(TWIN)
        assert root
        assert other
        return root.epoch, other.epoch


def raise_epochs(store: Store, times: int) -> None:
    for _ in range(times):
        with store.write() as writer:
            rows = [row for row in (writer.entities.get(ROOT), writer.entities.get(TWIN)) if row]
            writer.entities.update([replace(row, epoch=row.epoch + 1) for row in rows])
            writer.outbox.append([{"epoch": rows[0].epoch}], time=now(), correlationid="c")


def read_until(is_done: threading.Event, store: Store) -> list[tuple[int, int]]:
    seen = [epochs(store)]
    while not is_done.is_set():
        seen.append(epochs(store))
    return seen


def started(url: str, *, times: int) -> subprocess.Popen[str]:
    """A program that is about to raise the epochs, and does on the first line it reads."""
    command = [sys.executable, "-c", RAISE, url, str(times)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    return program


def check(store: Store, seen: list[tuple[int, int]], total: int) -> None:
    assert all(root_epoch == other for root_epoch, other in seen), "a reader saw half a commit"
    assert all(before <= after for before, after in pairwise(seen)), "a reader went back in time"
    assert epochs(store) == (total, total)
    with store.read() as reader:
        assert [record.change["epoch"] for record in reader.outbox.records()] == list(range(total))


def test_threads_lose_no_update_and_see_whole_commits(shared: Store) -> None:
    is_done = threading.Event()
    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read_until, is_done, shared) for _ in range(2)]
        for writer in [threads.submit(raise_epochs, shared, 25) for _ in range(4)]:
            writer.result()
        is_done.set()
        for reader in readers:
            check(shared, reader.result(), 100)


def test_programs_lose_no_update_and_see_whole_commits(shared: Store, store_url: str) -> None:
    seen = []
    with ExitStack() as stack:
        programs = [stack.enter_context(started(store_url, times=100)) for _ in range(3)]
        for program in programs:
            assert program.stdin
            program.stdin.write("go\n")
            program.stdin.flush()
        while any(program.poll() is None for program in programs):
            seen.append(epochs(shared))
        assert [program.returncode for program in programs] == [0, 0, 0]
    check(shared, seen, 300)


def test_a_writer_that_waits_too_long_is_refused(store_url: str) -> None:
    stores = [open_store(store_url, timeout=0.05) for _ in range(2)]
    with stores[0].write() as writer:
        writer.settings.put_config("modelsource", {})
        for store in stores:  # the same program and, in effect, another one
            with pytest.raises(StorageBusy, match="try again"), store.write():
                pass
            with store.read() as reader:
                assert reader.settings.config_epoch("modelsource") == 0
    for store in stores:
        with store.write() as writer:
            writer.settings.put_config("modelsource", {})
        store.close()


def test_more_readers_than_connections_wait_their_turn(shared: Store) -> None:
    with ThreadPoolExecutor(40) as threads:
        assert set(threads.map(lambda _: epochs(shared), range(200))) == {(0, 0)}
