"""The page on DataFrames: its Python is run, one block after the other, and its output compared."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.lake import XID, Lake

from signalbook.pipeline import status
from signalbook.pipeline.spark import SLOW

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "dataframes.md"
LAND = ROOT / "examples" / "dataframes" / "land.py"
SERVER = list(Path(pyspark.__file__).parent.glob("jars/spark-connect_*.jar"))
ORDERS = ROOT / "examples" / "orders"


def run_page(session: SparkSession, folder: Path) -> None:
    """Run the page in ``folder``: the working directory of the session is another's."""
    text = PAGE.read_text(encoding="utf-8").replace('"examples/', f'"{ROOT}/examples/')
    for name in ("lake", "checkpoint"):
        text = text.replace(f'"{name}"', f'"{folder / name}"')
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) > 6
    names: dict[str, Any] = {"spark": session}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue().strip() == expected.strip(), code
        # A table without a row shows nothing of what it is an example of.
        assert "+\n+" not in expected, code


@pytest.mark.merge
def test_the_page_runs(spark_session: SparkSession, tmp_path: Path) -> None:
    run_page(spark_session, tmp_path)


CONNECT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.pipeline.frames.test_page import run_page

session = SparkSession.builder.getOrCreate()
assert "connect" in type(session).__module__
run_page(session, Path(sys.argv[1]))
"""


def by_connect(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program on a server of its own: no context, no JVM to reach into; what it gives runs on the server."""
    # Which has Spark take any port for the server that it starts.
    environ = {**os.environ, "SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    environ["PYTHONPATH"] = str(ROOT)
    for _ in range(5):  # it may be run again, which is what it takes where Spark gives Python too little time to start
        program = [sys.executable, *command]
        ran = subprocess.run(program, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False)
        if SLOW not in ran.stderr:
            break
    assert ran.returncode == 0, ran.stderr
    return ran


connecting = pytest.mark.skipif(not SERVER, reason="Spark 3.5 comes without its server for Connect")


@pytest.mark.merge
@connecting
def test_the_page_runs_by_spark_connect(tmp_path: Path) -> None:
    """The page contains ``validate``, ``typed``, the functions of SQL, streams and ``land``."""
    by_connect(tmp_path, "-c", CONNECT, str(tmp_path))


@pytest.mark.soak
@connecting
def test_the_program_runs_by_spark_connect(tmp_path: Path) -> None:
    """The function for each batch runs on the server."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "events.jsonl").write_bytes((ORDERS / "events.jsonl").read_bytes())
    ran = by_connect(tmp_path, str(LAND), str(ORDERS / "orders.xreg.yaml"), "in", "lake", "checkpoint")
    assert "A-1002| 12.5|" in ran.stdout
    (report,) = status(tmp_path / "lake").reports
    assert (report.batch, report.tally.landed.total()) == ("orders-000000000", 3)


READ = """
import json, sys
from pyspark.sql import SparkSession
from signalbook.pipeline import place_of, read, storage_of

output, storage, definition = sys.argv[1:]
session = SparkSession.builder.getOrCreate()
frame = read(session, place_of(output, storage_of(json.loads(storage))), definition, columns=["id", "landed_on"])
for row in frame.where("landed_on > DATE'2026-01-02'").collect():
    print(row.id, row.landed_on)
"""


@pytest.mark.merge
@connecting
def test_tables_in_a_store_are_read_by_spark_connect(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nobody can ask the server for jars there, so that workers read them."""
    lake = Lake.of("parquet-s3proxy", tmp_path, request)
    for day in (2, 3):
        lake.at(datetime(2026, 1, day, tzinfo=UTC)).put([{"id": day}], {"id": pa.int32()})
    storage = json.dumps(dict(lake.place.storage.options))
    assert by_connect(tmp_path, "-c", READ, str(lake.place), storage, XID).stdout == "3 2026-01-03\n"
