"""Dead letters that conform now are moved once, even if a replay is killed. All others stay unchanged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.pipeline.commands.test_run import killed_at, rows
from tests.pipeline.lake import folder
from tests.pipeline.local import replay, run

from signalbook.messages import parse_flags
from signalbook.pipeline import Job, PipelineError
from signalbook.pipeline.job.jobs import DeadLetterFilter, ReplayJob
from signalbook.pipeline.journal import Journal, TableFormat
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.values import JSONObject

GROUP = "/messagegroups/parcels"
Make = Callable[..., ReplayJob]


def relax(path: Path) -> None:
    """Change the definitions so that ids may be numbers."""
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
def make_job(tmp_path: Path, definitions: Path, parcels: Any) -> Make:
    """A function that lands the six events in a table format, and returns a job that replays its dead letters."""
    (tmp_path / "in.jsonl").write_bytes(parcels.lines(*events(parcels)) + b"{\n")

    def make(table_format: TableFormat, **options: Any) -> ReplayJob:
        output = tmp_path / table_format
        if not output.exists():
            landing: dict[str, Any] = {"output": output, "table_format": table_format}
            run(Job(registry=str(definitions), inputs=(str(tmp_path / "in.jsonl"),), batch_id="b1", **landing))
        return ReplayJob(registry=str(definitions), output=output, **options)

    return make


def files(output: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in output.rglob("*.*") if path.is_file() and path.name != ".lock"}


AFTER = {"landed": ["e-0", "e-1", "e-4", "e-5"], "dead": ["", "e-2", "e-3"]}
"""The places of the events after a replay."""


def places(output: Path) -> dict[str, list[str]]:
    """The ids of events by table; every event is in one place, once."""
    letters = [row["original"] for row in rows(output, "dead_letters")]
    return {
        "landed": sorted(row["ce_id"] for row in rows(output, "parcels/parcel.accepted")),
        "dead": sorted(json.loads(text)["id"] if b"id" in text else "" for text in letters),
    }


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_conforming_letters_are_replayed(make_job: Make, table_format: TableFormat, definitions: Path) -> None:
    output = folder(make_job(table_format))
    before = files(output)
    result = replay(make_job(table_format)).to_json()
    assert (result["replayed"], result["landed"], result["changed"], files(output) == before) == (5, 0, 0, True)
    relax(definitions)
    dry = replay(make_job(table_format, dry_run=True)).to_json()
    assert (dry["landed"], dry["dry_run"], files(output) == before) == (2, True, True)
    result = replay(make_job(table_format)).to_json()
    assert result | {"seconds": 0, "violations": []} == dry | {
        "batch": result["batch"], "dry_run": False, "seconds": 0, "violations": []
    }  # fmt: skip
    assert (result["replayed"], result["dead_lettered"], result["changed"]) == (5, 3, 1)
    assert result["reasons"] == {"decode_error": 1, "schema_violation": 1, "unknown_kind": 1}
    assert places(output) == AFTER
    landed = {row["ce_id"]: row for row in rows(output, "parcels/parcel.accepted")}
    assert (landed["e-1"]["_batch"], landed["e-1"]["_source"]) == (result["batch"], landed["e-0"]["_source"])
    assert all(row["batch"] == "b1" for row in rows(output, "dead_letters"))
    after = files(output)
    assert (replay(make_job(table_format)).to_json()["landed"], files(output) == after) == (0, True)


def test_a_killed_replay_is_completed_by_the_next(make_job: Make, definitions: Path) -> None:
    """The driver is killed when one of two tables has lost or received its rows."""
    job = make_job("parquet")
    relax(definitions)
    killed_at("committing", 1, replay, job, forked=True)
    assert len(Journal.open_existing(job.place).list_unfinished()) == 1
    replay(job)
    assert places(folder(job)) == AFTER
    assert not Journal.open_existing(job.place).list_unfinished()
    assert not list(folder(job).glob(".staging/*"))


def test_only_selected_letters_are_replayed(make_job: Make, definitions: Path) -> None:
    job = make_job("parquet", wanted=DeadLetterFilter(reasons=("unknown_kind",)))
    relax(definitions)
    assert replay(job).to_json()["replayed"] == 1
    by_policy = make_job("parquet", wanted=DeadLetterFilter(batches=("b1",)), policy=parse_flags(["on_no_match=drop"]))
    result = replay(by_policy).to_json()
    assert (result["landed"], result["dropped"], result["dead_lettered"]) == (2, 1, 2)
    assert places(folder(job))["dead"] == ["", "e-2"]


def test_letters_of_earlier_versions_are_replayed_by_their_reason(make_job: Make, definitions: Path) -> None:
    """Earlier versions stored the reason ``no_match`` for events of an undefined type."""
    job = make_job("parquet", wanted=DeadLetterFilter(reasons=("no_match",)))
    (path,) = folder(job).glob("dead_letters/*.parquet")
    letters = pq.read_table(path)
    reasons = pc.replace_substring(letters["reason"], "unknown_kind", "no_match")
    pq.write_table(letters.set_column(letters.schema.get_field_index("reason"), "reason", reasons), path)
    relax(definitions)
    result = replay(job).to_json()
    assert (result["replayed"], result["landed"], result["changed"]) == (1, 0, 1)
    assert sorted(row["reason"] for row in rows(folder(job), "dead_letters")).count("unknown_kind") == 1
    document = json.loads(definitions.read_text())
    messages = document["messagegroups"]["parcels"]["messages"]
    messages["parcel.lost"] = json.loads(json.dumps(messages["parcel.accepted"]).replace("accepted", "lost"))
    definitions.write_text(json.dumps(document))
    wanted = DeadLetterFilter(reasons=("unknown_kind",))
    assert replay(make_job("parquet", wanted=wanted)).to_json()["landed"] == 1


def test_unreadable_letter_is_unchanged(make_job: Make, definitions: Path) -> None:
    """The record may come from a newer version, and is all that exists of the message."""
    job = make_job("parquet")
    (path,) = folder(job).glob("dead_letters/*.parquet")
    before = pq.read_table(path)
    place = before.schema.get_field_index("message")
    records = ['{"sections":{"a":{"$later":1}}}' if text else None for text in before["message"].to_pylist()]
    changed = before.set_column(place, before.schema.field(place), pa.array(records, pa.string()))
    pq.write_table(changed, path)
    relax(definitions)
    assert replay(job).to_json()["landed"] == 0
    assert pq.read_table(path).equals(changed)


def test_letters_of_a_dropped_table_are_not_replayed(make_job: Make, definitions: Path) -> None:
    """Their files are there still; whoever dropped the table wants them no more."""
    job = make_job("iceberg")
    relax(definitions)
    IcebergTables(folder(job)).catalog.drop_table(("signalbook", "dead_letters"))
    assert replay(job).to_json()["replayed"] == 0
    assert not Journal.open_existing(folder(job)).list_unfinished()


def test_a_folder_without_letters(tmp_path: Path, definitions: Path) -> None:
    job = ReplayJob(registry=str(definitions), output=tmp_path / "none")
    with pytest.raises(PipelineError, match="no output folder"):
        replay(job)
    Journal.open(tmp_path / "none")
    assert replay(job).to_json()["replayed"] == 0
