"""Batches in HDFS: each row lands once, wherever the driver is killed."""

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pipeline.lake import ORDER, Lake
from tests.pipeline.s3 import place
from tests.pipeline.test_commit_stores import numbers, work

from signalbook.pipeline.journal import TableFormat

ROOT = Path(__file__).parents[2]
_WORKS = """
import os, pickle, signal, sys
from pathlib import Path
from signalbook.pipeline.places import hdfs
from tests.pipeline.lake import Lake
from tests.pipeline.test_commit_stores import work

left, after, told = int(sys.argv[3]), sys.argv[4] == "True", hdfs.run_with_timeout

def run_with_timeout(request):
    global left
    left -= 1
    if left == 0 and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return told(request)
    finally:
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

hdfs.run_with_timeout = run_with_timeout
work(Lake(Path("unused"), sys.argv[2], stored=pickle.loads(bytes.fromhex(sys.argv[1]))))
"""


def killed(lake: Lake, at: int, *, after: bool) -> bool:
    """Return True if a process that does the work was killed with its ``at``-th request; False if it finished
    before.
    """
    words = [pickle.dumps(lake.place).hex(), lake.table_format, str(at), str(after)]
    result = subprocess.run([sys.executable, "-c", _WORKS, *words], cwd=ROOT, check=False)
    assert result.returncode in (0, -signal.SIGKILL)
    return result.returncode != 0


@pytest.mark.merge
@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_killed_driver_leaves_a_consistent_output(
    table_format: TableFormat, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The driver is killed with some of its requests to HDFS; with ``--every-request N``, before and after each
    N-th.

    The requests of delta-rs are not seen here.
    """
    every = request.config.getoption("--every-request")
    step = every or 83
    lake = Lake(tmp_path / "unused", table_format, stored=place("hdfs", tmp_path, request))
    at, after = step, False
    while True:
        with lake.journal.lock_output():
            lake.count = 0
            lake.put([{"a": 0}], {"a": pa.int32()})
        if not killed(lake, at, after=after):
            break
        work(lake)
        assert numbers(lake) == [0, 1, 2], f"killed with request {at}, which was{'' if after else ' not'} made"
        assert len(lake.journal.find_files()[ORDER]) == 1
        assert lake.journal.list_unfinished() == []
        lake.place.clear()
        at, after = (at, True) if every and not after else (at + step, not every and not after)
    assert at > 83
