"""A candidate against what landed and what did not: who would be hurt, who would be helped."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.lake import folder
from tests.pipeline.local import backtest, run

from signalbook.pipeline import Job, PipelineError, compact, profile
from signalbook.pipeline.commands.backtest_result import Backtest
from signalbook.pipeline.job.jobs import BacktestJob
from signalbook.values import JSONObject

ACCEPTED = "/messagegroups/parcels/messages/parcel.accepted"


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory, parcels: Any) -> BacktestJob:
    """Twelve events, two of them dead letters, and one payload without a schema."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "d.json").write_text(json.dumps(parcels.catalogue()))
    some = [parcels.event(n, source=f"/depots/{n % 2}") for n in range(9)]
    some[4]["data"]["seal"] = "red"  # which no schema declares
    dead = [parcels.event(20, data={"id": 1, "weight": 1}), parcels.event(21, data={"id": "P", "weight": -1})]
    (folder / "in.jsonl").write_bytes(parcels.lines(*some, *dead, parcels.event(30, type="parcel.noted")))
    output = folder / "out"
    inputs = (str(folder / "in.jsonl"),)
    run(Job(registry=str(folder / "d.json"), inputs=inputs, output=output, table_format="parquet"))
    return BacktestJob(registry=str(folder / "d.json"), output=output, candidate="")


def test_history_in_delta(landed: BacktestJob, tmp_path: Path) -> None:
    """Files that others stand for are not asked twice."""
    lake = tmp_path / "lake"
    inputs = (str(folder(landed).parent / "in.jsonl"),)
    for batch in ("b1", "b2"):
        run(Job(registry=landed.registry, inputs=inputs, output=lake, table_format="delta", batch_id=batch))
    assert {compaction.files_after for compaction in compact(lake)} == {1}
    result = candidate(landed, tmp_path, {"type": "object"}, output=lake)
    assert (result.messages, result.accepted, result.mended.messages) == (22, 18, 4)


def candidate(job: BacktestJob, tmp_path: Path, schema: JSONObject, **options: Any) -> Backtest:
    """Return the result of a schema for one definition."""
    path = tmp_path / "candidate.json"
    path.write_text(json.dumps(schema))
    values = {"definitions": (ACCEPTED,), "registry": job.registry, "output": folder(job), **options}
    return backtest(BacktestJob(candidate=str(path), **values), lambda _: None)


def test_a_stricter_schema_breaks_and_a_laxer_one_mends(landed: BacktestJob, parcels: Any, tmp_path: Path) -> None:
    """Depot 1 sends sizes 1, 3, 5 and 7; the candidate takes up to 4, and numbers as ids."""
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": ["string", "integer"]}, "size": {"properties": {"l": {"maximum": 4}}}},
    }
    result = candidate(landed, tmp_path, schema)
    assert (result.messages, result.accepted, result.refused, result.doubtful) == (11, 5, 0, 0)
    assert result.broken.producers == {"/depots/1": 2, "/depots/0": 2}
    assert result.broken.rules == {"maximum at /size/l": 4}
    assert result.mended.definitions == {ACCEPTED: 2}
    assert result.mended.rules == {"type at /id": 1, "minimum at /weight": 1}
    assert {example.id for example in result.broken.examples} == {"e-5", "e-6", "e-7", "e-8"}
    markdown = result.to_markdown()
    assert "**4** would be rejected" in markdown
    assert "| `maximum at /size/l` | 4 |" in markdown
    summary = result.to_json()
    assert (summary["broken"]["messages"], summary["mended"]["by_producer"]) == (4, {"/depots/7": 2})
    sampled = candidate(landed, tmp_path, schema, sample=0.5)
    assert 0 < sampled.messages < 11


def test_undeclared_members_are_judged(landed: BacktestJob, tmp_path: Path) -> None:
    result = candidate(landed, tmp_path, {"type": "object", "not": {"required": ["seal"]}})
    assert (result.broken.rules, [example.id for example in result.broken.examples]) == ({"not at /": 1}, ["e-4"])


def test_members_are_read_from_the_columns_that_they_landed_in(parcels: Any, tmp_path: Path) -> None:
    """Next to `note` the definition alone would have the member `Note` in the column `Note_`."""

    def write(path: Path, *names: str, **rules: Any) -> str:
        members: JSONObject = {name: {"type": "string", **rules} for name in names}
        item = {"type": "object", "properties": members}
        document = parcels.catalogue()
        version = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]
        version["schema"] = {"type": "object", "properties": {**members, "o": {"type": "array", "items": item}}}
        path.write_text(json.dumps(document))
        return str(path)

    registry = write(tmp_path / "d.json", "Note")
    data = {"Note": "long", "o": [{"Note": "long"}, {}]}
    (tmp_path / "in.jsonl").write_bytes(parcels.lines(parcels.event(1, data=data)))
    job = Job(registry=registry, inputs=(str(tmp_path / "in.jsonl"),), output=tmp_path / "out", table_format="parquet")
    run(job)
    registry = write(tmp_path / "d.json", "Note", "note")
    stricter = write(tmp_path / "candidate.json", "Note", "note", maxLength=3)
    found = backtest(BacktestJob(registry=registry, output=job.output, candidate=stricter, by="Note"), lambda _: None)
    assert found.broken.rules == {"maxLength at /Note": 1, "maxLength at /o/*/Note": 1}
    assert found.broken.producers == {"long": 1}
    (table,) = profile(job.output, registry=registry)
    assert (table.unseen, table.undeclared) == (("note_",), ())


def test_payloads_without_a_schema_are_checked_by_a_new_one(landed: BacktestJob, tmp_path: Path) -> None:
    document = json.loads(Path(landed.registry).read_text())
    noted = document["messagegroups"]["parcels"]["messages"]["parcel.noted"]
    noted |= {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"required": ["note"]}}
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"messagegroups": {"parcels": {"messages": {"parcel.noted": noted}}}}))
    result = backtest(BacktestJob(registry=landed.registry, output=landed.output, candidate=str(path)), lambda _: None)
    assert result.broken.rules == {"required at /": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"candidate": "/nowhere.json"}, "cannot read the candidate /nowhere.json"),
        ({"candidate": "/schemagroups/x/schemas/y/versions/1"}, "there is no Version"),
        ({"sample": 0.0}, "a sample is a share"),
        ({"definitions": ("/messagegroups/parcels/messages/typo",)}, "there is no definition /messagegroups/parcels"),
        ({"output": Path("/nowhere")}, "no output folder of the pipeline"),
    ],
)
def test_invalid_backtest_is_rejected(landed: BacktestJob, options: dict[str, Any], words: str) -> None:
    values = {"registry": landed.registry, "output": landed.output, "candidate": landed.registry, **options}
    with pytest.raises(PipelineError, match=words):
        backtest(BacktestJob(**values), lambda _: None)


def test_equal_definitions_have_no_differences(landed: BacktestJob) -> None:
    job = BacktestJob(registry=landed.registry, output=landed.output, candidate=landed.registry)
    assert backtest(job, lambda _: None).messages == 0
