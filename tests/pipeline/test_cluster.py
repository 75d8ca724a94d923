"""The same job, unchanged, on a Spark cluster: a standalone master with two workers on this machine.

Starting it takes half a minute of processor time: ``make cluster`` runs this test, the others do not.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from tests.pipeline.commands.test_stream_spools import GIVES, check, job_for, landed, sender
from tests.pipeline.s3 import place

from signalbook.pipeline.journal import Journal
from signalbook.pipeline.table_names import DEAD_LETTERS, find_table_folder

_PATIENCE = 300.0
_LOCAL = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
_AT = re.compile(r"Starting Spark master at (spark://[\w.:]+)")
GROUP = "/messagegroups/parcels/messages"
EVENTS = 20_000
_COVER = 'mount -t tmpfs none "$0" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master's URL, the folders that its workers work in, and one of the driver's that they cannot see into."""

    master: str
    workers: tuple[Path, ...]
    driver: Path

    def executors(self) -> list[list[Path]]:
        """The executors that ran on each worker."""
        return [sorted(folder.glob("app-*/*")) for folder in self.workers]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    if not request.config.getoption("--cluster"):
        pytest.skip("make cluster runs this")
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as started:
        log = _start(started, folder, "master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        master = _wait(log, _AT.search)[1]
        homes = tuple(folder / f"worker{number}" for number in (1, 2))
        size = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1")
        driver = folder / "driver"
        driver.mkdir()
        for home in homes:
            options = (*size, "--work-dir", str(home), master)
            _start(started, folder, home.name, "worker.Worker", *options, hidden=driver if _can_hide(driver) else None)
        for home in homes:
            _wait(folder / f"{home.name}.log", re.compile("Successfully registered with master").search)
        yield Cluster(master, homes, driver)


def _hiding(folder: Path) -> list[str]:
    """Return the command prefix that hides the content of a folder, by mounting an empty file system over it."""
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _COVER, str(folder)]


def _can_hide(folder: Path) -> bool:
    """Return True if this machine permits it."""
    return subprocess.run([*_hiding(folder), "true"], capture_output=True, check=False).returncode == 0


def _start(
    started: ExitStack, folder: Path, name: str, class_name: str, *options: str, hidden: Path | None = None
) -> Path:
    """Run a class of Spark's until the end of the tests, with a folder ``hidden`` from it; where its log is."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = folder / f"{name}.log"
    command = [str(program), f"org.apache.spark.deploy.{class_name}", *options, "--webui-port", "0"]
    if hidden is not None:
        command = [*_hiding(hidden), *command]
    output = started.enter_context(log.open("wb"))
    process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | _LOCAL)
    started.callback(process.wait)
    started.callback(process.terminate)
    return log


def _wait(log: Path, search: Callable[[str], re.Match[str] | None]) -> re.Match[str]:
    deadline = time.monotonic() + _PATIENCE
    while (match := search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.2)
    return match


@pytest.fixture
def skewed(tmp_path: Path, parcels: Any) -> Path:
    """Events of 2 KB, enough for two tasks, of which 95 % are of one type, in no order; each thousandth is wrong."""
    chance, path = Random(7), tmp_path / "events.jsonl"
    with path.open("wb") as file:
        for number in range(EVENTS):
            rare = chance.random() < 0.05
            more = {"type": f"parcel.{'delivered' if rare else 'accepted'}"}
            data = {"id": str(number), "weight": 1, "stops": [str(number) * 400]} if number % 1000 != 999 else {}
            file.write(parcels.lines(parcels.event(number, **more, data=data)))
    return path


def run(definitions: Path, events: Path, output: Path, master: str) -> dict[str, Any]:
    """The report of ``signalbook pipeline run`` in a process of its own."""
    options = ["--registry", definitions, "--input", events, "--output", output, "--master", master, "--json"]
    command = [sys.executable, "-m", "signalbook", "pipeline", "run", "--table-format", "parquet", *options]
    ended = subprocess.run([str(part) for part in command], capture_output=True, env=os.environ | _LOCAL, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def rows(output: Path, message: str) -> Counter[str]:
    """Count the rows of a message that each task wrote."""
    counts: Counter[str] = Counter()
    for path in (output / "tables" / "parcels" / message).rglob("*.parquet"):
        counts[path.name.split("-")[-3]] += pq.ParquetFile(path).metadata.num_rows
    return counts


def test_job_runs_on_a_cluster(cluster: Cluster, definitions: Path, skewed: Path, tmp_path: Path) -> None:
    """Every worker does its part, a frequent type is shared by the tasks, and the rare one lands with it."""
    report = run(definitions, skewed, tmp_path / "out", cluster.master)
    assert [len(executors) for executors in cluster.executors()] == [1, 1]
    wrong = EVENTS // 1000
    assert (report["read"], report["dead_lettered"], report["reasons"]) == (EVENTS, wrong, {"schema_violation": wrong})
    shares = {message: rows(tmp_path / "out", message) for message in ("parcel.accepted", "parcel.delivered")}
    for message, share in shares.items():
        assert report["by_message"][f"{GROUP}/{message}"]["landed"] == share.total()
        # work is divided by bytes, so that no task has all of a type
        assert len(share) >= 2
        assert max(share.values()) < 2 * min(share.values())
    assert shares["parcel.accepted"].total() > 15 * shares["parcel.delivered"].total()


def test_workers_need_no_shared_folder(
    cluster: Cluster, definitions: Path, skewed: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Input and output are in a store; a worker's executor is killed while it works, and the batch is whole."""
    root = place("s3proxy", tmp_path, request)
    (root / "in/events.jsonl").write(skewed.read_bytes())
    options = [f"--storage={name}={value}" for name, value in root.storage.options]
    before = {path for report in cluster.executors() for path in report}
    command = [sys.executable, "-m", "signalbook", "pipeline", "run", "--registry", str(definitions)]
    command += ["--input", f"{root}/in/", "--output", f"{root}/out", "--master", cluster.master, "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | _LOCAL) as driver:
        try:
            _kill_executor(cluster, before)
        finally:
            output = driver.communicate(timeout=_PATIENCE)[0]
    assert driver.returncode == 0
    wrong = EVENTS // 1000
    report = json.loads(output)
    assert (report["read"], report["landed"], report["dead_lettered"]) == (EVENTS, EVENTS - wrong, wrong)
    lake = root / "out"
    journal = Journal.open_existing(lake)
    table_format = journal.find_table_format()
    assert table_format is not None
    ids: Counter[str] = Counter()
    for table, files in journal.find_files().items():
        if table != DEAD_LETTERS:
            for file in files:
                path = lake / find_table_folder(table, table_format) / file.name
                ids.update(pq.ParquetFile(path.open_for_arrow()).read(["ce_id"]).column("ce_id").to_pylist())
    assert len(ids) == ids.total() == EVENTS - wrong
    staged = [entry.path for entry in lake.list_files(deep=True) if entry.path.startswith(".staging")]
    assert not [path for path in staged if path.endswith(".parquet")]


@pytest.mark.parametrize("protocol", GIVES)
def test_workers_get_received_messages_through_the_store(
    cluster: Cluster, protocol: str, definitions: Path, parcels: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Workers see nothing of what the driver keeps: messages come to them by the store alone."""
    if not _can_hide(cluster.driver):
        pytest.skip("this machine lets nobody hide a folder")
    sending = sender(protocol, request, parcels)
    job = job_for(place("s3proxy", tmp_path, request), definitions, protocol, sending)
    options = [f"--storage={name}={value}" for name, value in job.storage.options]
    options += ["--registry", job.registry, "--input", f"{sending.url}?timeout=300", "--input-format", job.input_format]
    options += ["--output", str(job.output), "--table-format", "parquet", "--partition", "none"]
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--once", "--master", cluster.master, *options]
    environment = os.environ | _LOCAL | {"SIGNALBOOK_STATE": str(cluster.driver / protocol)}
    deadline = time.monotonic() + 2 * _PATIENCE
    before = {path for paths in cluster.executors() for path in paths}
    while len(landed(job)[1]) < 30 and time.monotonic() < deadline:
        ended = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=2 * _PATIENCE)
        assert ended.returncode == 0, ended.stderr.decode()
        sending.send(30 - sending.sent)  # there is a session by now
    check(job, 30)
    assert [*(cluster.driver / protocol).rglob("checkpoint")]
    assert {path for paths in cluster.executors() for path in paths} > before


def _kill_executor(cluster: Cluster, before: set[Path]) -> None:
    """Kill the first executor of this job that has a worker process of Python: it is at a task."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        fresh = [path for paths in cluster.executors() for path in paths if path not in before]
        for folder in fresh:
            executors = [process for process in _processes() if _works_in(process, folder)]
            if len(executors) > 1:  # Java, and the Python that it started
                for process in executors:
                    os.kill(process, signal.SIGKILL)
                return
        time.sleep(0.05)
    pytest.fail("no executor came to work")


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _works_in(process: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{process}/cwd").readlink() == folder
    except OSError:
        return False
