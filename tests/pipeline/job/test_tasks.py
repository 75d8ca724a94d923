"""One task by itself: files, a manifest, and its own words when it fails."""

import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signalbook.messages import Policy
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import PLAN, PROGRESS, SNAPSHOT, TaskPlan, process_files, read_manifest
from signalbook.pipeline.sources.base import Split
from signalbook.values import now


@pytest.fixture
def staging(tmp_path: Path, parcels: Any, definitions: Path) -> Path:
    """A staging folder with a plan of one task of 2,000 events."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(parcels.lines(*(parcels.event(n, data={"id": "x" * n, "weight": 1}) for n in range(2000))))
    return staged(tmp_path / "out" / ".staging" / "attempt", Snapshot.load(str(definitions)), path)


def staged(folder: Path, snapshot: Snapshot, events: Path) -> Path:
    (folder / PROGRESS).mkdir(parents=True)
    task = (Split(path=str(events), start=0, end=events.stat().st_size),)
    plan = TaskPlan(
        source="cloudevents-jsonl", tasks=(task,), batch="b1", fingerprint=snapshot.fingerprint, landed_at=now(),
        staged=f".staging/{folder.name}", policy=Policy(),
    )  # fmt: skip
    (folder / PLAN).write_bytes(msgspec.json.encode(plan))
    (folder / SNAPSHOT).write_bytes(snapshot.to_json())
    return folder


def test_task_returns_a_manifest(staging: Path) -> None:
    (text,) = process_files(str(staging), [0])
    manifest = read_manifest(text)
    assert (manifest.tally.read, manifest.tally.landed.total()) == (2000, 2000)
    assert [(file.rows, (staging.parents[1] / file.staged).is_file()) for file in manifest.files] == [(2000, True)]


def test_a_message_that_is_too_long_is_a_dead_letter(staging: Path) -> None:
    plan = msgspec.json.decode((staging / PLAN).read_bytes(), type=TaskPlan)
    (staging / PLAN).write_bytes(msgspec.json.encode(replace(plan, max_message_bytes=1500)))
    (text,) = process_files(str(staging), [0])
    tally = read_manifest(text).tally
    assert tally.read == 2000
    assert 0 < tally.dead_lettered < 1000
    assert tally.landed.total() + tally.dead_lettered == 2000


_HUGE = 96 * 1024 * 1024
# The most that a process has of memory more for a task than before it, in bytes.
_MEASURE = """
import re, sys
from pathlib import Path
from signalbook.pipeline.job.tasks import process_files

def memory(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

small, *others = sys.argv[1:]
list(process_files(small, [0]))
for folder in others:
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    list(process_files(folder, [0]))
    print(memory("VmHWM") - before)
"""


@pytest.mark.merge
@pytest.mark.skipif(sys.platform != "linux", reason="takes what Linux says of a process's memory")
def test_a_huge_message_is_in_memory_few_times(staging: Path, parcels: Any) -> None:
    """The memory would be 13 and 15 times its size if each step kept a copy."""
    text = "x" * _HUGE
    wrong: dict[str, Any] = {"id": "1", "weight": "heavy"}
    inputs: dict[str, list[dict[str, Any]]] = {
        "landed": [{"id": text, "weight": 1}],
        "rejected": [wrong | {"note": text}],
        "both": [{"id": text, "weight": 1}, wrong | {"note": text}, {"id": "1", "weight": 1}],
    }
    folders, snapshot = [], Snapshot.from_json((staging / SNAPSHOT).read_bytes())
    for name, payloads in inputs.items():
        (path := staging / f"{name}.jsonl").write_bytes(parcels.lines(*(parcels.event(data=data) for data in payloads)))
        folders.append(staged(staging.parent / name, snapshot, path))
    command = [sys.executable, "-c", _MEASURE, str(staging), *map(str, folders)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    landed, rejected, both = (int(line) / _HUGE for line in output.split())
    assert max(landed, rejected, both) < 3.5, output


def test_file_size_limit_is_reported_with_the_place(staging: Path) -> None:
    """The error names, as on a full disk, the place; a child process is used because limits are per process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            list(process_files(str(staging), [0]))
        except PipelineError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as words:
        assert f"cannot write to {staging.parents[1]}: " in words.read()


def test_a_folder_the_worker_does_not_see(staging: Path) -> None:
    (staging / SNAPSHOT).unlink()
    plan = msgspec.json.decode((staging / PLAN).read_bytes())
    (staging / PLAN).write_bytes(msgspec.json.encode({**plan, "fingerprint": "unheard of"}))
    with pytest.raises(PipelineError, match="a folder all workers share"):
        list(process_files(str(staging), [0]))
