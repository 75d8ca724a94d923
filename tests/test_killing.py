"""A server killed in the midst of writing has lost nothing that it acknowledged, and left nothing half-done.

``pytest tests/test_killing.py --kills 20`` kills it more often than the suite does.
"""

import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import groupby

import pytest
from tests.serving import answers, kept_port

from signalbook.storage import open_store
from signalbook.storage.base import Row
from signalbook.storage.store import ReadTransaction
from signalbook.values import digest
from signalbook.xid import Xid

PATIENCE = 300
WRITERS = 8
RESOURCE = Xid.parse("/schemagroups/g/schemas/s")
PROGRAM = """
import sys
from signalbook.server import run
from signalbook.settings import Settings
run(Settings(port=int(sys.argv[1]), db=sys.argv[2]))
"""


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kills"))


@contextmanager
def to_be_killed(db: str) -> Iterator[int]:
    """The port of a server that is killed, with all its processes, at the end of the block."""
    with kept_port() as port:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(port), db], stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            while not answers(f"http://127.0.0.1:{port}"):
                assert process.poll() is None, "the server stopped"
            yield port
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def write(port: int, name: str, written: threading.Semaphore) -> list[str]:
    """Add Versions until the server is gone; the ids of those acknowledged."""
    acknowledged: list[str] = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {"Content-Type": "text/plain", "xRegistry-format": "Text"}
    try:
        while True:
            versionid = f"{name}.{len(acknowledged)}"
            connection.request("PUT", f"{RESOURCE}/versions/{versionid}", versionid, headers)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (201, versionid.encode())
            acknowledged.append(versionid)
            written.release()
    except (OSError, http.client.HTTPException):
        return acknowledged
    finally:
        connection.close()


def killed_once(db: str, turn: int) -> list[str]:
    """Return the writes that were acknowledged before the server was killed."""
    written = threading.Semaphore(0)
    with ThreadPoolExecutor(WRITERS) as threads:
        with to_be_killed(db) as port:
            writes = [threads.submit(partial(write, port, f"v{turn}.{writer}", written)) for writer in range(WRITERS)]
            for _ in range(WRITERS):
                assert written.acquire(timeout=PATIENCE)
            time.sleep(random.uniform(0.05, 0.4))
        return [versionid for writer in writes for versionid in writer.result()]


def check(reader: ReadTransaction, acknowledged: list[str]) -> None:
    resource = reader.entities.get(RESOURCE)
    assert resource is not None
    versions = {row.xid.id: row for row in reader.entities.children([resource.key], "versions")}
    assert set(acknowledged) <= set(versions)
    assert reader.entities.counts([resource.key]) == {(resource.key, "versions"): len(versions)}
    assert resource.defaultversionid in versions
    check_whole(reader, versions)
    check_told(reader, resource)


def check_whole(reader: ReadTransaction, versions: dict[str, Row]) -> None:
    """Check that each Version has its document, its ancestor and one event, in the order of creation."""
    assert reader.entities.documents([row.document or "" for row in versions.values()]) == {
        digest(versionid.encode()): versionid.encode() for versionid in versions
    }
    reported = [
        record.change["xid"]
        for record in reader.outbox.records(limit=1_000_000)
        if record.change["action"] == "created"
    ]
    created = [str(row.xid) for row in sorted(versions.values(), key=lambda row: row.key)]
    assert [xid for xid in reported if "/versions/" in xid] == created
    assert {row.ancestorid for row in versions.values()} <= set(versions)


def check_told(reader: ReadTransaction, resource: Row) -> None:
    """Every write that is there was reported as a whole, once and in order, and no other was (R297, R307)."""
    records = reader.outbox.records(limit=1_000_000)
    actions = [record.change["action"] for record in records if record.change["xid"] == str(RESOURCE)]
    assert actions == ["created", *["updated"] * (resource.epoch - 1)]
    writes = [
        [record.change["entity"] for record in records_] for _, records_ in groupby(records, lambda r: r.correlationid)
    ]
    assert writes[0] == ["registry", "group", "resource", "version"]
    assert all(write == ["resource", "version"] for write in writes[1:])
    assert len(writes) == len({record.correlationid for record in records})


@pytest.mark.merge
def test_acknowledged_writes_survive_a_killed_server(store_url: str, kills: int) -> None:
    acknowledged: list[str] = []
    for turn in range(kills if store_url.startswith("sqlite") else max(1, kills // 3)):
        acknowledged += killed_once(store_url, turn)
        with closing(open_store(store_url)) as store, store.read() as reader:
            check(reader, acknowledged)
    assert len(acknowledged) > kills
