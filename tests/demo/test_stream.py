"""The stream of the demonstration: its job file, and what it tells."""

import subprocess
import sys
from pathlib import Path

import pytest

from signalbook.demo.live import RunningStream, job, streaming
from signalbook.demo.program import end
from signalbook.demo.results import DemoFailed
from signalbook.pipeline import job_options


def test_job_file_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(job("http://h:1", ("/g",), "kafka://h:2/t", tmp_path / 'ö"x', tmp_path / "jars", "local[2]"))
    assert len(path.read_text().splitlines()) == 10
    options = job_options(path, {}).streaming(once=False)
    assert (options.name, options.interval) == ("live", 1)
    assert (options.job.registry, options.job.groups, options.job.inputs) == ("http://h:1", ("/g",), ("kafka://h:2/t",))
    assert (options.job.output, options.job.jars) == (str(tmp_path / 'ö"x'), (tmp_path / "jars",))


def test_reports_are_reported_once_and_whole(tmp_path: Path) -> None:
    reports = tmp_path / "stream.jsonl"
    reports.write_text('{"read":1}\n{"re')
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        stream = RunningStream(tmp_path, process)
        assert list(stream.news()) == [{"read": 1}]
        assert list(stream.news()) == []
        reports.write_text('{"read":1}\n{"read":2}\n')
        assert list(stream.news()) == [{"read": 2}]
        end(process)


def test_unexpected_end_of_a_stream_is_explained(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("inputs = 7\n")
    with streaming(tmp_path / "job.toml") as stream:
        assert stream._process.wait(600) != 0
        with pytest.raises(DemoFailed, match=r"by itself; it said:\n.*inputs"):
            list(stream.news())
