"""One task of a replay by itself: which files of dead letters go, and what remains of them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.pipeline.processing.test_deadletters import NOW, Given, event, sidelined

from signalbook.messages import Message, Policy
from signalbook.pipeline.commands.replay import WANTED, rewrite
from signalbook.pipeline.job import tasks
from signalbook.pipeline.job.jobs import DeadLetterFilter
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.sources.base import Split

ALL = DeadLetterFilter()


class Replay:
    """Files of letters, and a task that runs them again by definitions that take numbers as ids."""

    def __init__(self, folder: Path, parcels: Any) -> None:
        document = parcels.catalogue()
        self.today = Snapshot.of_documents([("today", document)])
        schema = json.loads(json.dumps(document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]))
        schema["schema"]["properties"]["id"] = {"type": ["string", "integer"]}
        document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"] = schema
        self.tomorrow = Snapshot.of_documents([("tomorrow", document)])
        self.staging = folder / ".staging" / "attempt"
        (self.staging / tasks.PROGRESS).mkdir(parents=True)
        self._folder = folder
        self._splits: list[Split] = []

    def file(self, name: str, *messages: Message) -> str:
        (self._folder / name).mkdir()
        sidelined(self.today, Given(*messages), self._folder / name)
        path = self._folder / name / "p-00000.parquet"
        self._splits.append(Split(path=str(path), start=0, end=path.stat().st_size))
        return str(path)

    def run(self, letter_filter: DeadLetterFilter = ALL) -> tasks.Manifest:
        plan = tasks.TaskPlan(
            source="dead-letters",
            tasks=(tuple(self._splits),),
            batch="r1",
            fingerprint=self.tomorrow.fingerprint,
            landed_at=NOW,
            staged=".staging/attempt",
            policy=Policy(),
        )
        (self.staging / tasks.PLAN).write_bytes(msgspec.json.encode(plan))
        (self.staging / tasks.SNAPSHOT).write_bytes(self.tomorrow.to_json())
        (self.staging / WANTED).write_bytes(msgspec.json.encode(letter_filter))
        (text,) = rewrite(str(self.staging), [0])
        return tasks.read_manifest(text)

    def rows(self, manifest: tasks.Manifest) -> dict[str, list[dict[str, Any]]]:
        read = {str(file.table): pq.read_table(self.staging / file.name) for file in manifest.files}
        return {name: table.to_pylist() for name, table in read.items()}


@pytest.fixture
def replay(tmp_path: Path, parcels: Any) -> Replay:
    return Replay(tmp_path, parcels)


def test_files_whose_letters_stay_are_left_alone(replay: Replay, parcels: Any) -> None:
    replay.file("same", event(parcels, type="parcel.unheard"))
    gone = replay.file("gone", event(parcels, data={"id": 1, "weight": 1}))
    part = replay.file("part", event(parcels, data={"id": 2, "weight": 1}), event(parcels, data={"id": 3}))
    manifest = replay.run()
    assert (manifest.replaced, manifest.replayed, manifest.changed) == ((gone, part), 4, 1)
    rows = replay.rows(manifest)
    assert [row["id"] for row in rows["parcels.parcel.accepted"]] == ["1", "2"]
    (letter,) = rows["signalbook.dead_letters"]
    assert [violation["path"] for violation in letter["violations"]] == [""]
    assert (letter["batch"], letter["fingerprint"]) == ("b1", replay.tomorrow.fingerprint)


def test_unselected_letters_are_unchanged(replay: Replay, parcels: Any) -> None:
    bad = event(parcels, data={"id": 1, "weight": 1})
    path = replay.file("some", bad, event(parcels, type="parcel.unheard"))
    before = pq.read_table(path).to_pylist()
    assert replay.run(DeadLetterFilter(reasons=("ambiguous",))).replaced == ()
    manifest = replay.run(DeadLetterFilter(reasons=("schema_violation",)))
    assert (manifest.replaced, manifest.replayed, manifest.tally.read) == ((path,), 1, 1)
    assert replay.rows(manifest)["signalbook.dead_letters"] == before[1:]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"dataschema": {"type": "nonsense"}, "dataschemauri": None},
        {"envelopemetadata": {"type": {"value": "parcel.accepted"}, "n": 5}},
    ],
    ids=["schema", "attribute"],
)
def test_messages_of_a_mended_definition_land(replay: Replay, parcels: Any, spoilt: Any) -> None:
    """No message of an omitted definition is lost, whatever part of it is broken (K-45)."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.accepted"] |= spoilt
    replay.today = Snapshot.of_documents([("broken", document)]).check(Policy())
    path = replay.file("bad", event(parcels))
    (letter,) = pq.read_table(path).to_pylist()
    assert letter["reason"] == "contract_unavailable"
    assert letter["candidates"] == ["/messagegroups/parcels/messages/parcel.accepted"]
    assert "parcel.accepted cannot be used: " in letter["violations"][0]["message"]
    manifest = replay.run()
    assert (manifest.replayed, manifest.tally.landed.total(), manifest.tally.dead_lettered) == (1, 1, 0)
