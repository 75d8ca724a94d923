"""What grows with the messages, and what does not; on a cluster in test_cluster.py."""

import cProfile
import json
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.job.test_tasks import staged

from signalbook.messages import Policy
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import SNAPSHOT, process_files, read_manifest

Stage = Callable[[int], Path]


@pytest.fixture
def stage(tmp_path: Path, parcels: Any, definitions: Path) -> Stage:
    """Makes the staging folder of one task of so many events: 95 % of one type, each twentieth of them wrong."""

    def event(number: int) -> Any:
        wrong = {"data": {"id": number, f"x{number}": 1}} if number % 20 == 7 else {}
        return parcels.event(number, type=f"parcel.{'accepted' if number % 20 else 'delivered'}", **wrong)

    def make(count: int) -> Path:
        path = tmp_path / f"{count}.jsonl"
        path.write_bytes(parcels.lines(*map(event, range(count))))
        return staged(tmp_path / "out" / ".staging" / str(count), Snapshot.load(str(definitions)), path)

    return make


def manifest(folder: Path) -> bytes:
    (text,) = process_files(str(folder), [0])
    return text


def test_manifest_size_does_not_depend_on_the_messages(stage: Stage) -> None:
    few, many = manifest(stage(200)), manifest(stage(6000))
    assert read_manifest(many).tally.dead_lettered == 300
    assert len(many) < len(few) + 200  # digits


def test_rare_messages_land_with_frequent_ones(stage: Stage, tmp_path: Path) -> None:
    tally = read_manifest(manifest(stage(2000))).tally
    group = "/messagegroups/parcels/messages"
    assert tally.landed == {f"{group}/parcel.accepted": 1800, f"{group}/parcel.delivered": 100}
    assert (tally.read, tally.dead_lettered) == (2000, 100)
    assert tally.bytes == (tmp_path / "2000.jsonl").stat().st_size


def test_a_process_reads_the_definitions_once(stage: Stage) -> None:
    manifest(stage(20))
    folder = stage(40)
    (folder / SNAPSHOT).unlink()
    assert read_manifest(manifest(folder)).tally.read == 40


def wide(types: int, members: int) -> Snapshot:
    """Definitions of so many types of events, each with so many members in its payloads."""
    schemas: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    typed = {"envelope": "CloudEvents/1.0", "dataschemaformat": "JsonSchema/draft-07"}
    for name in (f"wide{members}.{number}" for number in range(types)):
        schema = {"type": "object", "properties": {f"m{number}": {"type": "string"} for number in range(members)}}
        schemas[name] = {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": schema}}}
        metadata, uri = {"type": {"value": name}}, f"/schemagroups/g/schemas/{name}"
        messages[name] = {**typed, "envelopemetadata": metadata, "dataschemauri": uri}
    document = {"schemagroups": {"g": {"schemas": schemas}}, "messagegroups": {"g": {"messages": messages}}}
    return Snapshot.of_documents([("definitions", document)], ["/messagegroups/g"])


def calls(folder: Path, types: int, members: int) -> int:
    """Return the number of Python function calls to land two events of each type in a process that landed such
    events before.
    """
    snapshot, events = wide(types, members), folder / f"{types}-{members}.jsonl"
    data = {f"m{number}": "text" for number in range(members)}
    kinds = [xid.rpartition("/")[2] for xid in sorted(snapshot.compile(Policy()).definitions)] * 2
    event = {"specversion": "1.0", "source": "/s", "data": data}
    lines = [json.dumps({**event, "id": f"{number}", "type": kind}) + "\n" for number, kind in enumerate(kinds)]
    events.write_text("".join(lines))
    for turn in range(3):
        task = staged(folder / "out" / ".staging" / f"{types}-{members}-{turn}", snapshot, events)
        with cProfile.Profile() as profile:
            manifest_ = read_manifest(manifest(task))
        assert (manifest_.tally.landed.total(), len(manifest_.files)) == (2 * types, types)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.merge
def test_cost_of_a_table_does_not_depend_on_its_columns(tmp_path: Path) -> None:
    """Columns, their types and what decodes them are made once: on a slow machine that is all of a small batch."""
    narrow, broad = calls(tmp_path, 12, 10), calls(tmp_path, 12, 300)
    assert broad < 1.05 * narrow + 100
    # A table takes a few hundred calls, however many others there are.
    assert calls(tmp_path, 24, 10) - narrow < 12 * 500
