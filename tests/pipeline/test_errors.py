"""What people read when a run fails."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from signalbook.pipeline.errors import build_disk_error
from signalbook.pipeline.job.tasks import explain_failure


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Py4J: x\n  signalbook.pipeline.errors.PipelineError: cannot read a.gz: CRC\n\tat java",
            "cannot read a.gz: CRC",
        ),
        ("OSError: [Errno 28] No space left on device\n\tat java.x", "no space left on device while writing to lake"),
        ("An error\nTraceback\n  File x\nKeyError: 'a'\n\n\tat java", "nothing was committed: KeyError: 'a'"),
        (
            "Expected JSON, got bogus\n=== Streaming Query ===\nIdentifier: s\n\nThread State: RUNNABLE",
            "Expected JSON, got bogus",
        ),
        (
            "An error\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading "
            "file file:///in/a.parquet.  SQLSTATE: KD001\n\tat java.x\nCaused by: x.TProtocolException: no type 15\n"
            "\t... 57 more",
            "nothing was committed: cannot read file:///in/a.parquet: x.TProtocolException: no type 15",
        ),
        ("", "Spark did not say why"),
    ],
)
def test_a_failed_job_in_one_line(text: str, words: str) -> None:
    assert words in explain_failure(text, Path("lake"))
    assert "\n" not in explain_failure(text, Path("lake"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "no space left on device while writing to lake; nothing of this batch was committed"),
        (errno.EACCES, "cannot write to lake: Permission denied"),
    ],
)
def test_disk_failures_are_described(code: int, words: str) -> None:
    assert words in str(build_disk_error(OSError(code, "Permission denied"), "lake"))


def test_missing_java_is_reported_in_one_line(tmp_path: Path) -> None:
    script = (
        "from signalbook.pipeline import PipelineError\n"
        "from signalbook.pipeline.job.session import open_session\n"
        "try:\n    open_session('local[1]').__enter__()\n"
        "except PipelineError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, check=True
    )
    assert b"Spark needs Java 17 or later" in result.stdout
    assert result.stdout.count(b"\n") == 1
