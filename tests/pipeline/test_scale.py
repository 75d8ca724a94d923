"""What grows with the messages, and what does not; on a cluster in test_cluster.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signalbook.messages import Policy
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.landing.tasks import PLAN, PROGRESS, SNAPSHOT, TaskPlan, process_files, read_manifest
from signalbook.pipeline.sources.base import Split
from signalbook.values import now

Stage = Callable[[int], Path]


@pytest.fixture
def stage(tmp_path: Path, parcels: Any, definitions: Path) -> Stage:
    """Makes the staging folder of one task of so many events: 95 % of one type, each twentieth of them wrong."""

    def event(number: int) -> dict[str, Any]:
        made: dict[str, Any] = parcels.event(number, type=f"parcel.{'accepted' if number % 20 else 'delivered'}")
        return made | ({"data": {"id": number, f"x{number}": 1}} if number % 20 == 7 else {})

    def made(count: int) -> Path:
        path = tmp_path / f"{count}.jsonl"
        path.write_bytes(parcels.lines(*map(event, range(count))))
        folder = tmp_path / "out" / ".staging" / str(count)
        (folder / PROGRESS).mkdir(parents=True)
        snapshot = Snapshot.load(str(definitions))
        plan = TaskPlan(
            source="cloudevents-jsonl",
            tasks=((Split(path=str(path), start=0, end=path.stat().st_size),),),
            batch="b1",
            fingerprint=snapshot.fingerprint,
            landed_at=now(),
            staged=f".staging/{count}",
            policy=Policy(),
        )
        (folder / PLAN).write_bytes(msgspec.json.encode(plan))
        (folder / SNAPSHOT).write_bytes(snapshot.to_json())
        return folder

    return made


def manifest(folder: Path) -> bytes:
    (text,) = process_files(str(folder), [0])
    return text


def test_what_a_task_tells_the_driver_does_not_grow_with_its_messages(stage: Stage) -> None:
    few, many = manifest(stage(200)), manifest(stage(6000))
    assert read_manifest(many).tally.dead_lettered == 300
    assert len(many) < len(few) + 200  # digits


def test_rare_messages_land_beside_frequent_ones(stage: Stage, tmp_path: Path) -> None:
    tally = read_manifest(manifest(stage(2000))).tally
    assert tally.landed == Counter(
        {
            "/messagegroups/parcels/messages/parcel.accepted": 1800,
            "/messagegroups/parcels/messages/parcel.delivered": 100,
        }
    )
    assert (tally.read, tally.dead_lettered) == (2000, 100)
    assert tally.bytes == (tmp_path / "2000.jsonl").stat().st_size


def test_a_process_reads_the_definitions_once(stage: Stage) -> None:
    manifest(stage(20))
    folder = stage(40)
    (folder / SNAPSHOT).unlink()
    assert read_manifest(manifest(folder)).tally.read == 40
