"""``signalbook pipeline stream``: what it says to bad input, and how signals end it."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from inspect import signature, unwrap
from pathlib import Path

import pytest

from signalbook.cli import pipeline
from signalbook.cli.pipeline import run
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.report import Tally

from .conftest import Cli


@pytest.mark.parametrize(
    ("job", "options", "message"),
    [
        ("", ("--input", "kafka://h:1/t", "--output", "lake"), "needs registry"),
        ("inputs = 1", (), "job.toml: Expected `array`, got `int` - at `$.inputs`"),
        ("", ("--registry", "x", "--input", "kafka://h:1/t", "--output", "o", "--name", ".."), "letters, digits"),
        ("", ("--registry", "x", "--input", "in.jsonl", "--output", "o"), "files, which are no stream"),
    ],
)
def test_bad_input(cli: Cli, job: str, options: tuple[str, ...], message: str) -> None:
    Path("job.toml").write_text(job)
    assert cli("pipeline", "stream", "--job", "job.toml", *options).reported(1, message)


def test_a_batch_takes_a_job_file_too(cli: Cli) -> None:
    Path("job.toml").write_text('registry = "gone.json"\ninputs = ["gone.jsonl"]\noutput = "lake"')
    assert "the input gone.jsonl is not there" in cli("pipeline", "run", "--job", "job.toml").err
    assert "the input a.jsonl is not there" in cli("pipeline", "run", "--job", "job.toml", "--input", "a.jsonl").err


def test_a_stream_has_the_options_of_a_batch() -> None:
    """A stream has all options of a batch except its name, its exit code and the disposal of input files."""
    options = {
        name: set(signature(unwrap(command)).parameters)
        for name, command in (("run", run), ("stream", pipeline.run_stream))
    }
    assert options["run"] - options["stream"] == {"batch_id", "on_damaged_file", "max_dead_letters"}


@pytest.mark.parametrize("command", ["stream", "run"])
def test_options_count_more_than_those_of_a_job_file(cli: Cli, command: str) -> None:
    Path("job.toml").write_text("registry = 'x'\noptions = { a = '${NOT_THERE}', b = 'c' }")
    command_line = ["pipeline", command, "--job", "job.toml", "--input", "nats://h/s", "--output", "o"]
    assert "wants the environment variable NOT_THERE" in cli(*command_line).err
    assert "an option is NAME=VALUE, not 'a'" in cli(*command_line, "--option", "a").err
    more = ["--option", "a=x=y", "--table-format", "parquet", "--partition", "none", "--group", "/messagegroups/g"]
    assert "the definitions x are not there" in cli(*command_line, *more).err
    assert "'nothing'" in cli(*command_line, *more, "--input-format", "nothing").err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_stream_to_end(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pipeline._stop_on_signals() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(60)
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_that_waits_for_another_program_ends_by_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--registry", "x", "--output", "lake"]
    with (
        Journal.open(Path("lake").absolute()).lock_output(),
        subprocess.Popen([*command, "--input", "kafka://127.0.0.1:1/t"]) as process,
    ):
        while not Path("lake/streams/stream/.lock").exists():
            assert process.poll() is None, "the stream ended"
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(900) == 0


def test_the_status_of_streams(cli: Cli) -> None:
    journal = Journal.open(Path("lake").absolute())
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for number in range(2):
        tally = Tally(read=3, dropped=3)
        batch = JournalEntry(
            id=f"orders-{number:09d}", fingerprint="f", origin="o", table_format="parquet", tally=tally, files=(),
            seconds=1.0, finished=at, stream="orders",
        )  # fmt: skip
        journal.prepare(batch)
        journal.commit(batch)
    assert "2026-01-02 03:04:05 UTC" in cli("pipeline", "status", "--output", "lake").out
    first = json.loads(cli("pipeline", "status", "--output", "lake", "--json").out.splitlines()[0])
    assert (first["stream"], first["batches"], first["read"], first["last"]) == ("orders", 2, 6, "orders-000000001")
