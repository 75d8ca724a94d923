"""Streams of MQTT and AMQP whose output is in a store: what was confirmed is there, and lands from there once."""

import os
import pickle
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.brokers.program import Broker
from tests.brokers.servers import BUCKET
from tests.pipeline import storeway
from tests.pipeline.commands.following import build_stream_job, follow
from tests.pipeline.commands.test_disturbed import FATES, Refusing
from tests.pipeline.commands.test_stream_amqp import Queue
from tests.pipeline.commands.test_stream_mqtt import PATIENT, Topic
from tests.pipeline.lake import Lake
from tests.pipeline.s3 import place, storage_of
from tests.pipeline.storeway import StoreWay, in_turn, now_and_then, store_way
from tests.pipeline.test_commit_stores import Killing

from signalbook.pipeline import Job, PipelineError, Place, place_of
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName

pytestmark = [pytest.mark.usefixtures("spark_session"), pytest.mark.merge]
ROOT = Path(__file__).parents[3]
ACCEPTED = TableName("parcels", "parcel.accepted")
GIVES = ("mqtt", "amqp")


class Sending(Protocol):
    """A topic or a queue."""

    url: str
    sent: int

    def send(self, number: int) -> None:
        """Send ``number`` further events."""


@pytest.fixture
def sending(protocol: str, request: pytest.FixtureRequest, parcels: Any) -> Sending:
    return sender(protocol, request, parcels)


def sender(protocol: str, request: pytest.FixtureRequest, parcels: Any) -> Sending:
    """Something new to receive from."""
    if protocol == "mqtt":
        return Topic(request.getfixturevalue("mosquitto"), parcels)
    return Queue(request.getfixturevalue("artemis"), parcels)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the local state of streams."""
    monkeypatch.setenv("SIGNALBOOK_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def job_for(root: Place, definitions: Path, protocol: str, sending: Sending) -> Job:
    """Lands what is received at ``root``."""
    input_format, more = {"mqtt": "mqtt5", "amqp": "amqp"}[protocol], {"storage": root.storage, "options": PATIENT}
    return build_stream_job(definitions, str(root / "lake"), sending.url, input_format, master="local[1]", **more)


def landed(job: Job) -> tuple[Counter[tuple[str, int]], Counter[str]]:
    """Count how often each place in the spool, and each event, is in a table or among the dead letters."""
    if not Journal(job.place).is_begun():
        return Counter(), Counter()
    lake = Lake(Path("unused"), "parquet", stored=job.place)
    files = lake.journal.find_files()
    rows = lake.rows(ACCEPTED) if ACCEPTED in files else []
    letters = lake.rows(DEAD_LETTERS) if DEAD_LETTERS in files else []
    places = [(row["_source"], row["_position"]) for row in rows]
    places += [(letter["source"], letter["position"]) for letter in letters]
    events = [row["ce_id"] for row in rows] + [event_id for letter in letters for event_id in set(ids(str(letter)))]
    return Counter(places), Counter(events)


def ids(text: str) -> list[str]:
    return re.findall(r"\be-\d+\b", text)


def until(job: Job, number: int) -> None:
    """Follow until so many events are somewhere."""
    deadline = time.monotonic() + 900
    follow(job)
    while len(landed(job)[1]) < number and time.monotonic() < deadline:
        follow(job)


def check(job: Job, number: int, *, twice: bool = False) -> None:
    """Check that each message of the spool and each event is in one place, once, unless the broker delivered the
    event ``twice``.
    """
    places, events = landed(job)
    assert set(places.values()) == {1}
    assert set(events) == {f"e-{number_}" for number_ in range(number)}
    assert twice or set(events.values()) == {1}


@pytest.mark.parametrize(
    ("protocol", "server"), [("mqtt", "s3proxy"), pytest.param("amqp", "s3mock", marks=pytest.mark.soak)]
)
def test_stream_continues_where_it_ended(
    protocol: str,
    server: str,
    sending: Sending,
    state: Path,
    definitions: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Whatever is left of what this machine knew, in which no message ever is."""
    job = job_for(place(server, tmp_path, request), definitions, protocol, sending)
    follow(job)
    sending.send(20)
    until(job, 20)
    shutil.rmtree(state)
    sending.send(10)
    until(job, 30)
    check(job, 30)
    assert not [*state.rglob("received")]


@pytest.fixture
def way(s3proxy: Broker) -> Iterator[StoreWay]:
    with store_way(s3proxy.ports["plain"]) as opened:
        yield opened


@pytest.fixture
def disturbed(way: StoreWay, definitions: Path, protocol: str, sending: Sending) -> Job:
    root = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(way.own))
    return job_for(root, definitions, protocol, sending)


_FOLLOWS = """
import pickle, sys, threading
from signalbook.pipeline import StreamJob, stream

stream(StreamJob(job=pickle.load(sys.stdin.buffer), interval=0, most=7), threading.Event())
"""


def kill(session: int) -> None:
    """Kill all processes of a session, which contains Spark's workers."""
    while pids := [int(path.name) for path in Path("/proc").iterdir() if _is_of(path, session)]:
        for process in pids:
            with suppress(ProcessLookupError):  # two may kill at once
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _is_of(process: Path, session: int) -> bool:
    try:
        state, _, _, session_id = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return False
    return int(session_id) == session and state not in "ZX"


# The session at the broker, what is received before it is confirmed, and what is trimmed when it has landed.
STAGES = [
    (r"PUT .*/received/memory\.json", 1, False),
    (r"PUT .*/received/memory\.json", 1, True),
    (r"PUT .*/received/\d+\.messages", 1, False),
    (r"PUT .*/received/\d+\.messages", 1, True),
    (r"PUT .*/received/\d+\.messages", 3, True),
    (r"POST .*delete.*/received/\d+\.messages", 1, False),
    (r"POST .*delete.*/received/\d+\.messages", 2, True),
]
# Each with one of both: what follows the broker is the same.
KILLED = [(GIVES[number % 2], *stage, number // 2 % 2 == 0) for number, stage in enumerate(STAGES)]


@pytest.mark.parametrize(
    ("protocol", "request_", "at", "after", "lost"),
    [pytest.param(*case, marks=[] if case == KILLED[4] else pytest.mark.soak) for case in KILLED],
)
def test_stream_continues_after_its_driver_is_killed(
    way: StoreWay, disturbed: Job, sending: Sending, state: Path, request_: str, at: int, after: bool, lost: bool
) -> None:
    """The driver is killed at a request to the spool, and in half of the cases its local files are lost too."""
    receives = "messages" in request_
    if receives:
        follow(disturbed)  # so that the broker has a session, and what is sent waits
    command = [sys.executable, "-c", _FOLLOWS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True) as driver:
        assert driver.stdin is not None
        try:
            way.fate = killing = Killing(partial(kill, driver.pid), at, after=after, pattern=request_)
            driver.stdin.write(pickle.dumps(disturbed))
            driver.stdin.close()
            deadline = time.monotonic() + 300
            while not killing.done.wait(1) and time.monotonic() < deadline and driver.poll() is None:
                sending.send(5 * receives)
        finally:
            kill(driver.pid)
    assert killing.done.is_set()
    way.fate = storeway.delivered
    if lost:
        shutil.rmtree(state)
    follow(disturbed)
    sending.send(5)
    until(disturbed, sending.sent)
    check(disturbed, sending.sent, twice=True)


@pytest.mark.parametrize("protocol", [GIVES[0], pytest.param(GIVES[1], marks=pytest.mark.soak)])
def test_stream_tolerates_temporary_errors_of_the_store(way: StoreWay, disturbed: Job, sending: Sending) -> None:
    """The stream continues after temporary errors, and ends with the error of the store if it persists."""
    way.fate = now_and_then(in_turn(*FATES))
    follow(disturbed)
    sending.send(20)
    until(disturbed, 20)
    way.fate = Refusing(r"/received/\d+\.messages", 1)
    sending.send(5)
    with pytest.raises(PipelineError, match=r"cannot write to s3://.*/received: the store answers 403"):
        until(disturbed, 25)
    way.fate = now_and_then(in_turn(*FATES))
    until(disturbed, 25)
    way.fate = storeway.delivered
    check(disturbed, 25, twice=True)
