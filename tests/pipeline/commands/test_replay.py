"""Dead letters that conform by now are moved, once, whenever a replay dies; all others stay as they are."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.commands.test_run import rows
from tests.pipeline.lake import folder

from signalbook.messages import parse_flags
from signalbook.pipeline import Job, PipelineError, Progress, replay, run
from signalbook.pipeline.job.jobs import DeadLetterFilter, ReplayJob
from signalbook.pipeline.journal import Journal, TableFormat
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.values import JSONObject

pytestmark = pytest.mark.usefixtures("spark_session")
GROUP = "/messagegroups/parcels"
Make = Callable[..., ReplayJob]


def relax(path: Path) -> None:
    """From now on ids may be numbers."""
    document = json.loads(path.read_text())
    version = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]
    version["1"]["schema"]["properties"]["id"] = {"type": ["string", "integer"]}
    version["1"]["schema"]["required"] = ["id"]
    path.write_text(json.dumps(document))


def events(parcels: Any) -> list[JSONObject]:
    """Six events: two conform, two will, one never, one is unknown."""
    more: list[JSONObject] = [{}, {"data": {"id": 1}}, {"data": {"id": True}}, {"type": "parcel.lost"}, {}]
    return [parcels.event(n, **extra) for n, extra in enumerate([*more, {"data": {"id": 2}}])]


@pytest.fixture
def made(tmp_path: Path, definitions: Path, parcels: Any) -> Make:
    """Lands the six events in a folder, in a format, and makes jobs to replay its dead letters."""
    (tmp_path / "in.jsonl").write_bytes(parcels.lines(*events(parcels)) + b"{\n")

    def make(table_format: TableFormat, **options: Any) -> ReplayJob:
        output = tmp_path / table_format
        if not output.exists():
            inputs = (str(tmp_path / "in.jsonl"),)
            run(Job(registry=str(definitions), inputs=inputs, output=output, batch_id="b1", table_format=table_format))
        return ReplayJob(registry=str(definitions), output=output, **options)

    return make


def files(output: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in output.rglob("*.*") if path.is_file() and path.name != ".lock"}


def places(output: Path) -> dict[str, list[str]]:
    """The ids of events by table; every event is in one place, once."""
    landed = [row["ce_id"] for row in rows(output, "parcels/parcel.accepted")]
    letters = [row["original"] for row in rows(output, "dead_letters")]
    return {
        "landed": sorted(landed),
        "dead": sorted(json.loads(text)["id"] if b"id" in text else "" for text in letters),
    }


BEFORE = {"landed": ["e-0", "e-4"], "dead": ["", "e-1", "e-2", "e-3", "e-5"]}
AFTER = {"landed": ["e-0", "e-1", "e-4", "e-5"], "dead": ["", "e-2", "e-3"]}


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_letters_that_conform_are_moved(made: Make, table_format: TableFormat, definitions: Path) -> None:
    output = folder(made(table_format))
    before = files(output)
    told = replay(made(table_format)).to_json()
    assert (told["replayed"], told["landed"], told["changed"], files(output) == before) == (5, 0, 0, True)
    relax(definitions)
    dry = replay(made(table_format, dry_run=True)).to_json()
    assert (dry["landed"], dry["dry_run"], files(output) == before) == (2, True, True)
    told = replay(made(table_format)).to_json()
    assert told | {"seconds": 0, "violations": []} == dry | {
        "batch": told["batch"], "dry_run": False, "seconds": 0, "violations": []
    }  # fmt: skip
    assert (told["replayed"], told["dead_lettered"], told["changed"]) == (5, 3, 1)
    assert told["reasons"] == {"decode_error": 1, "no_match": 1, "schema_violation": 1}
    assert places(output) == AFTER
    landed = {row["ce_id"]: row for row in rows(output, "parcels/parcel.accepted")}
    assert (landed["e-1"]["_batch"], landed["e-1"]["_source"]) == (told["batch"], landed["e-0"]["_source"])
    assert all(row["batch"] == "b1" for row in rows(output, "dead_letters"))
    after = files(output)
    assert (replay(made(table_format)).to_json()["landed"], files(output) == after) == (0, True)


KILLED_AT: list[tuple[TableFormat, str, int]] = [
    ("parquet", "processing", 0),
    ("parquet", "prepared", 0),
    ("parquet", "committing", 0),
    ("parquet", "committing", 1),
    ("parquet", "committed", 2),
    ("iceberg", "prepared", 0),
    ("iceberg", "committing", 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("table_format", "stage", "done"), KILLED_AT)
def test_a_killed_replay_is_completed_or_was_never_begun(
    made: Make, table_format: TableFormat, stage: str, done: int, definitions: Path
) -> None:
    """Each message is in one place, once, wherever the driver died."""
    job = made(table_format)
    relax(definitions)
    pid = os.fork()
    if pid == 0:
        _die_at(job, stage, done)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    replay(job)
    assert places(folder(job)) == AFTER
    assert not list(folder(job).glob(".staging/*"))
    assert not Journal.existing(folder(job)).unfinished()


def _die_at(job: ReplayJob, stage: str, done: int) -> None:
    def show(progress: Progress) -> None:
        if (progress.stage, progress.done) == (stage, done):
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        replay(job, show)
    finally:
        os._exit(1)


def test_only_what_is_wanted_is_run_again(made: Make, definitions: Path) -> None:
    job = made("parquet", wanted=DeadLetterFilter(reasons=("no_match",)))
    relax(definitions)
    assert replay(job).to_json()["replayed"] == 1
    by_policy = made("parquet", wanted=DeadLetterFilter(batches=("b1",)), policy=parse_flags(["on_no_match=drop"]))
    told = replay(by_policy).to_json()
    assert (told["landed"], told["dropped"], told["dead_lettered"]) == (2, 1, 2)
    assert places(folder(job))["dead"] == ["", "e-2"]


def test_a_letter_that_cannot_be_read_stays_as_it_is(made: Make, definitions: Path) -> None:
    """Its record may be of a newer version, and is all there is of the message."""
    job = made("parquet")
    (path,) = folder(job).glob("dead_letters/*.parquet")
    before = pq.read_table(path)
    place = before.schema.get_field_index("message")
    records = ['{"sections":{"a":{"$later":1}}}' if text else None for text in before["message"].to_pylist()]
    changed = before.set_column(place, before.schema.field(place), pa.array(records, pa.string()))
    pq.write_table(changed, path)
    relax(definitions)
    assert replay(job).to_json()["landed"] == 0
    assert pq.read_table(path).equals(changed)


def test_letters_of_a_table_that_was_dropped(made: Make, definitions: Path) -> None:
    """Their files are there still; whoever dropped the table wants them no more."""
    job = made("iceberg")
    relax(definitions)
    IcebergTables(folder(job)).catalog.drop_table(("signalbook", "dead_letters"))
    assert replay(job).to_json()["replayed"] == 0
    assert not Journal.existing(folder(job)).unfinished()


def test_a_folder_without_letters(tmp_path: Path, definitions: Path) -> None:
    job = ReplayJob(registry=str(definitions), output=tmp_path / "none")
    with pytest.raises(PipelineError, match="no output folder"):
        replay(job)
    Journal.open(tmp_path / "none")
    assert replay(job).to_json()["replayed"] == 0
