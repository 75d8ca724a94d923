"""Whole runs: what lands, what is sidelined, what a second run and a killed one leave."""

import gzip
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.brokers.program import Broker
from tests.pipeline.lake import Lake, folder, rest_choice
from tests.pipeline.local import run
from tests.pipeline.s3 import place

from signalbook import pipeline
from signalbook.errors import SignalbookError
from signalbook.messages import Policy, parse_flags
from signalbook.pipeline import Job, PipelineError, Progress
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.journal import Journal, TableFormat
from signalbook.pipeline.places import StorePlace
from signalbook.pipeline.table_names import CATALOG_DATABASE, CATALOG_FILE, DEAD_LETTERS, TableName
from signalbook.pipeline.tables.ddl import list_table_columns
from signalbook.pipeline.tables.delta import LOG
from signalbook.pipeline.tables.iceberg import IcebergTables

ACCEPTED = "/messagegroups/parcels/messages/parcel.accepted"


@pytest.fixture
def job(tmp_path: Path, definitions: Path, parcels: Any) -> Callable[..., Job]:
    """Makes jobs over one file of 30 events, of which each tenth is wrong."""
    path = tmp_path / "events.jsonl"
    wrong: list[dict[str, Any]] = [{}, {"data": {"id": 1}}, {"type": "parcel.lost"}]
    path.write_bytes(
        parcels.lines(*(parcels.event(n, **(wrong[n % 30 // 10] if n % 10 == 9 else {})) for n in range(30)))
    )

    def made(**options: Any) -> Job:
        values: dict[str, Any] = {"registry": str(definitions), "inputs": (str(path),), "output": tmp_path / "out"}
        values.update({"batch_id": "b1", "table_format": "parquet"}, **options)
        return Job(**values)

    return made


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    if (output / CATALOG_DATABASE).exists() or (output / CATALOG_FILE).exists():
        tables = IcebergTables(output)
        name = tables.build_identifier(DEAD_LETTERS if table == "dead_letters" else TableName(*table.split("/")))
        catalog = tables.catalog
        stored = catalog.load_table(name).scan().to_arrow().to_pylist() if catalog.table_exists(name) else []
        catalog.close()
        return stored
    folder = output / ("dead_letters" if table == "dead_letters" else f"tables/{table}")
    if (folder / LOG).exists():
        return DeltaTable(str(folder)).to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]
    return [row for path in sorted(folder.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


def test_doubts_about_definitions_are_reported(job: Callable[..., Job], definitions: Path, parcels: Any) -> None:
    """A missing base is reported before a message is read and in the report (F-17)."""
    document = parcels.catalogue()
    gone = "/messagegroups/parcels/messages/base/versions/9"
    document["messagegroups"]["parcels"]["messages"]["parcel.accepted"]["basemessage"] = gone
    definitions.write_text(json.dumps(document))
    warnings: list[str] = []
    report = run(job(), notify=warnings.append)
    assert warnings == report.to_json()["doubts"] == [f"{ACCEPTED}: there is no base message {gone}"]
    assert report.tally.landed[ACCEPTED] == 28


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_a_batch_lands(job: Callable[..., Job], table_format: TableFormat) -> None:
    report = run(job(table_format=table_format))
    result = report.to_json()
    counts = {"batch": "b1", "read": 30, "landed": 28, "dead_lettered": 2, "dropped": 0}
    assert result | counts | {"reasons": {"schema_violation": 1, "unknown_kind": 1}} == result
    accepted = result["by_message"][ACCEPTED]
    assert accepted | {"landed": 28, "rejected": 1, "newest": "2026-01-02T03:04:05Z"} == accepted
    assert result["bytes"]["read"] == Path(job().inputs[0]).stat().st_size
    assert result["lag"]["seconds"] > 0
    examples = {(found["definition"], found["path"], found["rule"]): found["example"] for found in result["violations"]}
    assert examples[ACCEPTED, "/id", "type"]["position"] > 0
    landed = rows(folder(job()), "parcels/parcel.accepted")
    assert Counter(row["id"] for row in landed) == Counter(f"P{n}" for n in range(30) if n not in (19, 29))
    first = next(row for row in landed if row["id"] == "P3")
    assert (first["size"], first["_context"], first["_definition"]) == ({"l": 3, "w": None}, [("depot", "7")], ACCEPTED)
    assert (first["ce_id"], first["_batch"], first["_fingerprint"]) == ("e-3", "b1", report.fingerprint)
    content = Path(job().inputs[0]).read_bytes()
    letters = {row["reason"]: row for row in rows(folder(job()), "dead_letters")}
    assert letters.keys() == {"schema_violation", "unknown_kind"}
    assert all(content[row["position"] :].startswith(row["original"] + b"\n") for row in letters.values())
    violation = letters["schema_violation"]
    assert violation["candidates"] == [ACCEPTED]
    assert {(found["path"], found["rule"]) for found in violation["violations"]} == {("/id", "type"), ("", "required")}


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_a_second_run_of_a_batch_changes_nothing(job: Callable[..., Job], table_format: TableFormat) -> None:
    first = run(job(table_format=table_format))
    before = {path: path.stat().st_mtime_ns for path in folder(job()).rglob("*.*") if path.is_file()}
    again = run(job(table_format=table_format))
    assert again.to_json() | {"note": ""} == first.to_json() | {"note": ""}
    assert "committed before" in again.note
    assert {path: path.stat().st_mtime_ns for path in folder(job()).rglob("*.*") if path.is_file()} == before


def test_a_batch_id_stands_for_one_input(job: Callable[..., Job], tmp_path: Path) -> None:
    run(job())
    (tmp_path / "more.jsonl").write_text("{}\n")
    with pytest.raises(PipelineError, match="committed for other input"):
        run(job(inputs=(str(tmp_path),)))


def test_an_output_keeps_to_one_table_format(job: Callable[..., Job]) -> None:
    run(job(table_format="parquet"))
    for batch in ("b1", "b2"):
        with pytest.raises(PipelineError, match="are parquet: choose that format, or another output for iceberg"):
            run(job(table_format="iceberg", batch_id=batch))


@pytest.mark.parametrize(("versions", "declared"), [(("1", "1"), {"Note_", "note"}), (("1", "2"), {"Note", "note_"})])
def test_members_keep_their_columns(
    job: Callable[..., Job], tmp_path: Path, definitions: Path, parcels: Any, versions: list[str], declared: set[str]
) -> None:
    """By the table in any case, and by the earlier versions of the schema where there is no table."""
    document = parcels.catalogue()
    path = tmp_path / "notes.jsonl"
    for version, names in zip(versions, (["Note"], ["Note", "note"]), strict=True):
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        entity = {"format": "JsonSchema/draft-07", "schema": schema}
        document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"][version] = entity
        definitions.write_text(json.dumps(document))
        path.write_bytes(parcels.lines(parcels.event(data={name: f"{name} {len(names)}" for name in names})))
        run(job(inputs=(str(path),), batch_id=f"b{len(names)}"))
    landed = [(row["Note"], row.get("note_")) for row in rows(folder(job()), "parcels/parcel.accepted")]
    assert sorted(landed) == [("Note 1", None), ("Note 2", "note 2")]
    contract = Snapshot.load(str(definitions)).compile(Policy())
    definition = contract.definitions["/messagegroups/parcels/messages/parcel.accepted"]
    assert declared <= {column.name for column in list_table_columns(definition)}
    run(job(inputs=(str(path),), output=tmp_path / "new"))
    assert declared <= rows(tmp_path / "new", "parcels/parcel.accepted")[0].keys()


ROOT = Path(__file__).parents[3]
_DIES = """
import pickle, sys
from tests.pipeline.commands.test_run import die_at
die_at(*pickle.load(sys.stdin.buffer))
"""


def killed_at(stage: str, progress_done: int | None, command: Callable[..., Any], job: Any, *, forked: bool) -> None:
    """Start a process that executes ``job`` with ``command``, and kill it at this progress.

    It is killed at ``progress_done`` of ``stage``, or when ``stage`` begins if ``progress_done`` is None. A forked
    process starts at once and has the Spark of this process, but clients of stores and the library of Delta do not
    work in it. Another process starts its own Java and workers, which end a moment after it.
    """
    if forked:
        pid = os.fork()
        if pid == 0:
            die_at(stage, progress_done, command, job)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        return
    pickled = pickle.dumps((stage, progress_done, command, job))
    ended = subprocess.run([sys.executable, "-c", _DIES], input=pickled, cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def die_at(stage: str, progress_done: int | None, command: Callable[..., Any], job: Any) -> None:
    def show(progress: Progress) -> None:
        if progress.stage == stage and progress_done in (None, progress.done):
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        command(job, show)
    finally:
        sys.stderr.flush()
        os._exit(1)


def merge_or_soak(*case: Any) -> Any:
    """Return a case that ``make merge`` runs if one of two tables has its rows then, and else ``make soak``."""
    merged = case[-2:] == ("committing", 1)
    return pytest.param(*case, marks=pytest.mark.merge if merged else pytest.mark.soak)


KILLED_LAKES = [pytest.param("delta", marks=pytest.mark.merge), pytest.param("delta-s3proxy", marks=pytest.mark.soak)]
"""The kinds of tables for which a backfill and a compaction are killed. For others see test_crashes.py."""
KILLED_AT = [("processing", 0), ("prepared", 0), ("committing", 0), ("committing", 1), ("committed", 2)]
SLOW = [("local", "parquet"), ("local", "delta"), ("s3mock", "parquet"), ("s3proxy", "iceberg"), ("s3proxy", "delta")]
KILLS = [("local", "iceberg", *stage) for stage in KILLED_AT]


@pytest.mark.parametrize(
    ("server", "table_format", "stage", "progress_done"),
    [*KILLS, *(merge_or_soak(*store, *stage) for store in SLOW for stage in KILLED_AT)],
)
def test_a_killed_run_is_completed_by_the_next(
    job: Callable[..., Job],
    server: str,
    table_format: TableFormat,
    stage: str,
    progress_done: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Every message is in one place, once, wherever the driver died."""
    output = place(server, tmp_path / "out", request)
    job_ = job(table_format=table_format, output=output, storage=output.storage)
    killed_at(stage, progress_done, run, job_, forked=server == "local" and table_format != "delta")
    assert len(Journal.open_existing(output).list_unfinished()) == (stage in ("prepared", "committing"))
    report = run(job_)
    assert (report.tally.read, report.landed) == (30, 28)
    completed = "an earlier run of this batch had processed it all and died while committing: that was completed"
    assert {"processing": "", "committed": "committed before"}.get(stage, completed) in report.note
    lake = Lake(tmp_path / "out", table_format, stored=output)
    assert sorted(row["ce_id"] for row in lake.rows(TableName("parcels", "parcel.accepted"))) == sorted(
        f"e-{n}" for n in range(30) if n not in (19, 29)
    )
    assert len(lake.rows(DEAD_LETTERS)) == 2
    assert lake.journal.list_unfinished() == []
    assert not list((tmp_path / "out").glob(".staging/*"))
    staged = [entry.path for entry in output.list_files(deep=True) if entry.path.startswith(".staging/")]
    assert all(path.endswith("/claim") for path in staged)  # which says in a store that an attempt was swept


@pytest.mark.parametrize(
    ("stage", "note", "noted"),
    [
        ("definitions", "nothing of this batch was committed: the same command may be run again", False),
        ("processing", "nothing of this batch was committed: the same command may be run again", False),
        ("prepared", "batch b1 was being committed: the same command with this batch id completes it, ", True),
        ("committing", "batch b1 was being committed: the same command with this batch id completes it, ", True),
        ("committed", "batch b1 was committed, and there is nothing left to do", True),
    ],
)
def test_interrupt_reports_what_was_committed(job: Callable[..., Job], stage: str, note: str, noted: bool) -> None:
    """The note is true: the next run with the batch id lands everything, once."""

    def interrupt(progress: Progress) -> None:
        if progress.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run(job(), interrupt)
    (words,) = caught.value.__notes__
    assert words.startswith(note)
    again = run(job())
    assert (again.tally.landed.total(), bool(again.note)) == (28, noted)
    assert len(rows(folder(job()), "parcels/parcel.accepted")) == 28


@pytest.mark.parametrize(
    ("stage", "progress_done"),
    [merge_or_soak("processing", 0), merge_or_soak("prepared", 0), merge_or_soak("committing", 1)],
)
def test_a_catalog_killed_at_a_stage(
    job: Callable[..., Job], own_catalog: Broker, request: pytest.FixtureRequest, stage: str, progress_done: int
) -> None:
    """Point 6: the run ends and says so, and the next one with the catalog back lands each message once."""

    def show(progress: Progress) -> None:
        if (progress.stage, progress.done) == (stage, progress_done) and own_catalog.runs:
            own_catalog.kill()

    job_ = job(table_format="iceberg", catalog=rest_choice(request))
    with pytest.raises(PipelineError, match="there is no answer of an Iceberg catalog"):
        run(job_, show)
    journal = Journal(job_.place)
    assert journal.is_begun() == (stage != "processing")  # nothing is left of what failed before anything landed
    assert len(journal.list_unfinished()) == (stage != "processing")
    with pytest.raises(PipelineError, match="there is no answer of an Iceberg catalog"):
        run(job_)
    own_catalog.start()
    assert run(job(table_format="iceberg")).landed == 28
    assert len({row["ce_id"] for row in rows(folder(job_), "parcels/parcel.accepted")}) == 28
    assert len(rows(folder(job_), "parcels/parcel.accepted")) == 28
    assert len(rows(folder(job_), "dead_letters")) == 2


_LANDS = """
import pickle, sys
from signalbook.pipeline import run
from signalbook.pipeline.sources import inputs
inputs.LARGEST_TASK = 12_000
run(pickle.load(sys.stdin.buffer))
"""


# Workers that outlive their driver, and tasks that begin again.
OUTLIVED = [("local", "driver"), ("s3proxy", "workers")]


def processes(driver: int) -> dict[int, str]:
    """The names of the processes of a driver that began a session, by their ids."""
    names: dict[int, str] = {}
    for process_folder in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, FileNotFoundError):
            if os.getsid(int(process_folder.name)) == driver:
                names[int(process_folder.name)] = (process_folder / "comm").read_text().strip()
    return names


@pytest.mark.parametrize(
    ("server", "killed"),
    [
        pytest.param(server, killed, marks=pytest.mark.merge if (server, killed) in OUTLIVED else pytest.mark.soak)
        for server in ("local", "s3proxy")
        for killed in ("driver", "workers", "all")
    ],
)
def test_batch_is_completed_after_processes_are_killed(
    job: Callable[..., Job], server: str, killed: str, tmp_path: Path, parcels: Any, request: pytest.FixtureRequest
) -> None:
    """A driver alone, whose Java and workers go on for a moment; workers, whose tasks begin again; all at once."""
    path, output = tmp_path / "many.jsonl", place(server, tmp_path / "out", request)
    path.write_bytes(parcels.lines(*(parcels.event(n, **({} if n % 100 else {"data": {}})) for n in range(3000))))
    job_ = job(inputs=(str(path),), output=output, storage=output.storage, master="local[1,4]")
    (tmp_path / "wanted").write_bytes(pickle.dumps(job_))
    with (tmp_path / "wanted").open("rb") as stdin, (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen([sys.executable, "-c", _LANDS], stdin=stdin, stderr=log, start_new_session=True)
    try:
        while not any(
            process_id.path.endswith(".parquet") for process_id in (output / ".staging").list_files(deep=True)
        ):
            assert driver.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.01)
        there = processes(driver.pid)
        workers = [process_id for process_id, name in there.items() if process_id != driver.pid and name != "java"]
        assert workers
        for process_id in {"driver": [driver.pid], "workers": workers, "all": [*there]}[killed]:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        ended = driver.wait(300)
        assert ended == (0 if killed == "workers" else -signal.SIGKILL), (tmp_path / "log").read_text()
        journal = Journal.open_existing(output)
        assert (journal.list_unfinished(), journal.find("b1") is None) == ([], killed != "workers")
        assert pipeline.run(job_).landed == 2970
    finally:
        for process_id in processes(driver.pid):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        driver.wait()
    lake = Lake(tmp_path / "out", "parquet", stored=output)
    landed = Counter(row["ce_id"] for row in lake.rows(TableName("parcels", "parcel.accepted")))
    assert landed == {f"e-{n}": 1 for n in range(3000) if n % 100}
    assert len(lake.rows(DEAD_LETTERS)) == 30


def test_an_empty_input_is_an_empty_batch(job: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    report = run(job(inputs=(str(tmp_path / "empty.jsonl"),)))
    assert (report.tally.read, report.landed, report.to_json()["by_message"]) == (0, 0, {})


@pytest.mark.usefixtures("spark_session")
def test_inputs_in_a_store(
    job: Callable[..., Job], tmp_path: Path, parcels: Any, request: pytest.FixtureRequest
) -> None:
    """The tasks have only the URL and the settings of the job."""
    home = place("s3proxy", tmp_path, request)
    (home / "day=1/a.jsonl.gz").write(gzip.compress(parcels.lines(*map(parcels.event, range(20)))))
    (home / "day=2/b.jsonl").write(parcels.lines(*map(parcels.event, range(20, 30))))
    (home / "day=2/_SUCCESS").write(b"")
    assert isinstance(home, StorePlace)
    warnings: list[str] = []
    report = pipeline.run(
        job(inputs=(f"{home}/**/*.gz", f"{home}/day=2"), storage=home.storage), notify=warnings.append
    )
    assert (report.landed, report.tally.read) == (30, 30)
    assert ["1 file is skipped (1 hidden)" in words for words in warnings] == [True]
    sources = {row["_source"] for row in rows(folder(job()), "parcels/parcel.accepted")}
    assert sources == {f"{home}/day=1/a.jsonl.gz", f"{home}/day=2/b.jsonl"}


def test_definitions_in_a_folder_and_of_some_groups(job: Callable[..., Job], tmp_path: Path, parcels: Any) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    document = parcels.catalogue()
    (folder / "a.json").write_text(json.dumps({"schemagroups": document["schemagroups"]}))
    (folder / "b.json").write_text(json.dumps({"messagegroups": document["messagegroups"]}))
    other = {"messagegroups": {"other": {"messages": {"x": parcels.message("parcel.accepted")}}}}
    (folder / "c.json").write_text(json.dumps(other))
    assert run(job(registry=str(folder))).tally.reasons["ambiguous"] > 0
    assert run(job(registry=str(folder), groups=("/messagegroups/parcels",), batch_id="b2")).landed == 28


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": ("/nowhere/events.jsonl",)}, "the input /nowhere/events.jsonl is not there"),
        ({"registry": "/nowhere.json"}, "the definitions /nowhere.json are not there"),
        ({"registry": "http://127.0.0.1:1"}, "cannot reach the server at http://127.0.0.1:1"),
        (
            {"input_format": "morse"},
            "no input format 'morse'; there are: amqp, cloudevents-avro, cloudevents-batch, cloudevents-captures, "
            "cloudevents-jsonl, cloudevents-protobuf, cloudevents-protobuf-batch, http-jsonl, json, kafka, "
            "kafka-captures, mqtt3, mqtt5, nats",
        ),
        ({"options": {"value": "body"}}, "cloudevents-jsonl has no options, but value is given"),
        ({"output": Path("/proc/nowhere")}, "cannot write to /proc/nowhere"),
        ({"groups": ("/messagegroups/nobody",)}, "no message group or endpoint /messagegroups/nobody"),
    ],
)
def test_run_that_cannot_start_is_explained(job: Callable[..., Job], options: dict[str, Any], words: str) -> None:
    with pytest.raises(SignalbookError, match=re.escape(words)):
        run(job(**options))


@pytest.mark.parametrize("server", ["local", "s3proxy"])
def test_definitions_that_cannot_be_read_leave_no_output(
    job: Callable[..., Job], server: str, tmp_path: Path, definitions: Path, request: pytest.FixtureRequest
) -> None:
    """The same holds for an output where something has landed."""
    output = place(server, tmp_path / "out", request)
    job_ = job(output=output, storage=output.storage)
    wrong = [replace(job_, registry="/nowhere.json"), replace(job_, groups=("/messagegroups/nobody",))]
    for wrong_job in wrong:
        with pytest.raises(SignalbookError):
            run(wrong_job)
    assert [entry.path for entry in output.list_files(deep=True)] == []
    assert not (tmp_path / "out").exists()
    assert run(job_).landed == 28
    definitions.unlink()
    assert run(job_).landed == 28  # which takes none
    with pytest.raises(SignalbookError, match="are not there"):
        run(replace(job_, batch_id="b2"))
    assert len(list(Journal.open_existing(output).iterate_committed())) == 1


def test_unusable_definition_is_omitted_or_stops_the_run(
    job: Callable[..., Job], definitions: Path, parcels: Any, tmp_path: Path
) -> None:
    """The definition is omitted and reported, and its messages wait; or the policy stops the run."""
    document, xid = parcels.catalogue(), "/messagegroups/parcels/messages/parcel.noted"
    broken = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "lost"}}
    document["messagegroups"]["parcels"]["messages"]["parcel.noted"] |= broken
    definitions.write_text(json.dumps(document))
    with pytest.raises(PipelineError, match=r"(?s)cannot be used.*parcel\.noted: .*lost"):
        run(job(policy=parse_flags(["on_broken_definition=stop"])))
    (tmp_path / "two.jsonl").write_bytes(parcels.lines(parcels.event(), parcels.event(type="parcel.noted")))
    warnings: list[str] = []
    report = run(job(inputs=(str(tmp_path / "two.jsonl"),)), notify=warnings.append)
    assert (report.landed, report.tally.reasons) == (1, {"contract_unavailable": 1})
    (words,) = warnings
    assert words.startswith(f"the definition {xid} cannot be used: ")
    assert list(report.left_out) == [xid]
    assert "lost" in report.to_json()["left_out"][xid][0]
    entry = Journal.open_existing(job().output).find(report.batch)
    assert entry is not None
    assert entry.report().left_out == report.left_out


@pytest.mark.usefixtures("spark_session")
def test_a_damaged_file(job: Callable[..., Job], tmp_path: Path) -> None:
    """The policy stops the run, which leaves nothing, or the messages before the damage land."""
    packed = gzip.compress((tmp_path / "events.jsonl").read_bytes())
    (tmp_path / "broken.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    inputs = (str(tmp_path / "*.jsonl*"),)
    with pytest.raises(PipelineError, match=r"cannot read .*broken\.jsonl\.gz"):
        pipeline.run(job(inputs=inputs, on_damaged_file="stop"))
    assert not folder(job()).exists()
    report = pipeline.run(job(inputs=inputs))
    (damage,) = (violation for violation in report.tally.violations.list_top() if violation.rule == "damaged_file")
    assert (damage.messages, damage.example.source) == (1, str(tmp_path / "broken.jsonl.gz"))
    assert "damaged gzip" in damage.example.message
    assert report.landed > 27
    assert report.tally.read == report.landed + report.tally.dead_lettered > 31


@pytest.mark.usefixtures("spark_session")
def test_run_without_a_readable_file_fails(job: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(PipelineError, match=r"cannot read .*broken\.jsonl\.gz: damaged gzip: Not a gzipped file"):
        pipeline.run(job(inputs=(str(tmp_path / "broken.jsonl.gz"),)))
    assert not folder(job()).exists()
