"""Tasks on Spark, in this process and in processes of this machine: the same results, and no process that is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.job.failing_tasks import die, fail, raise_own
from tests.pipeline.lake import Lake

from signalbook.pipeline import BacktestJob, InferenceJob, Job, PipelineError, ReplayJob, backtest, infer, replay, run
from signalbook.pipeline.job.runner import LocalRunner, Runner
from signalbook.pipeline.sources import inputs
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName

ACCEPTED = TableName("parcels", "parcel.accepted")
# What differs between two runs on Spark, too: times, names made up, and sizes of files with these in them.
NAMES = {"_batch", "batch", "id", "name", "staged"}
TIMES = {"events_per_second", "finished", "lag", "landed_at", "seconds", "sidelined_at"}
VARYING = {*NAMES, *TIMES, "bytes"}


def constant(value: Any) -> Any:
    """Return ``value`` without what varies from run to run."""
    if isinstance(value, dict):
        return {name: constant(part) for name, part in value.items() if name not in VARYING}
    return [constant(part) for part in value] if isinstance(value, list | tuple) else value


def dead_letters(lake: Lake) -> list[Any]:
    return sorted(lake.rows(DEAD_LETTERS), key=lambda row: int(row["position"]))


def run_commands(folder: Path, events: Path, definitions: Path, later: Path, runner: Runner | None) -> Any:
    """Run each command over files, and return its result, the tables and the journal."""
    lake = Lake(folder / "out", "parquet")
    job = Job(
        registry=str(definitions), inputs=(str(events),), output=lake.output, batch_id="b", table_format="parquet"
    )
    results: list[Any] = [run(job, runner=runner).to_json(), lake.rows(ACCEPTED), dead_letters(lake)]
    candidate = BacktestJob(output=lake.output, registry=str(definitions), candidate=str(later))
    results.append(backtest(candidate, runner=runner))
    results.append(replay(ReplayJob(output=lake.output, registry=str(later)), runner=runner).to_json())
    results += [lake.rows(ACCEPTED), dead_letters(lake)]
    results.append(list(lake.journal.iterate_committed()))
    results.append(infer(InferenceJob(inputs=(str(events),), group="shop"), runner=runner))
    lake.check_whole()
    return constant(msgspec.to_builtins(results, str_keys=True))


def test_all_runners_have_the_same_results(
    spark_session: SparkSession, tmp_path: Path, definitions: Path, parcels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, later = tmp_path / "events.jsonl", tmp_path / "later.json"
    wrong: list[Any] = [{}, {}, {"data": {"id": 1, "weight": 1}}, {"type": "parcel.lost"}]
    events.write_bytes(parcels.lines(*(parcels.event(n, **wrong[n % 4]) for n in range(300)), "{"))
    monkeypatch.setattr(inputs, "LEAST_TASK", events.stat().st_size // 2 + 1)
    document = parcels.catalogue()
    schema = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"]
    schema["properties"]["id"] = {"type": ["string", "integer"]}
    later.write_text(json.dumps(document))
    parallelism = spark_session.sparkContext.defaultParallelism
    runners = {"spark": None, "here": LocalRunner(parallelism), "processes": LocalRunner(parallelism, small_bytes=0)}
    results = {}
    for name, runner in runners.items():
        (tmp_path / name).mkdir()
        results[name] = run_commands(tmp_path / name, events, definitions, later, runner)
    landed, _, _, compared, replayed, *_ = results["spark"]
    counts = landed["landed"], landed["dead_lettered"], compared["accepted"], replayed["landed"]
    assert counts == (150, 151, 150, 75)
    assert results["here"] == results["spark"]
    assert results["processes"] == results["spark"]


def test_topics_are_read_by_spark_alone(tmp_path: Path, definitions: Path) -> None:
    inputs = ("kafka://127.0.0.1:1/a",)
    job = Job(registry=str(definitions), inputs=inputs, input_format="kafka", output=tmp_path / "out")
    with pytest.raises(PipelineError, match="kafka is read by Spark alone"):
        run(job, runner=LocalRunner())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (fail, r"^a task failed, nothing was committed: LookupError: nothing for \[0\]$"),
        (raise_own, r"^cannot read \[0\]$"),
        (die, "^a process of this run was killed, nothing was committed: "),
    ],
)
def test_failure_of_a_task_process_is_an_error(work: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # where the process finds the module of ``work``
    with pytest.raises(PipelineError, match=words):
        LocalRunner(2, small_bytes=0).run(2, work, 1)


PROGRAM = """
import os, sys, time
from pathlib import Path
from signalbook.pipeline.job.runner import LocalRunner

def work(numbers):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    time.sleep(3600)

if __name__ == "__main__":
    LocalRunner(2, small_bytes=0).run(2, work, 1)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_command(tmp_path: Path, sent: signal.Signals) -> None:
    """An interrupt reaches all of them, as from a terminal, and only the command reports it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "workers").mkdir()
    program = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "workers")]
    with (tmp_path / "log").open("wb") as log:
        command = subprocess.Popen(program, stderr=log, start_new_session=True)
        while len(workers := [int(path.name) for path in (tmp_path / "workers").iterdir()]) < 2:
            assert command.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        if sent is signal.SIGINT:
            os.killpg(command.pid, sent)
        else:
            command.kill()
        command.wait(300)
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.05)
    assert (tmp_path / "log").read_text().count("KeyboardInterrupt") == (sent is signal.SIGINT)
