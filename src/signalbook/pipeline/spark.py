"""The Spark session a run works in: quiet, local unless told otherwise, in need of no network."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from signalbook.pipeline.failures import PipelineError

_NO_JAVA: Final = (
    "Spark needs Java 17 or later and there is none: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
)
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # names that Spark would make up in the working directory
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "spark-warehouse"),
}
_TAIL: Final = 800


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """The active Spark session if there is one, else a new one on ``master`` that ends with the block.

    Raises ``PipelineError`` if Spark cannot start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    started = _start(master)
    try:
        yield started
    finally:
        started.stop()


def _start(master: str) -> SparkSession:
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise PipelineError(_NO_JAVA)
    # the workers' Python must be the driver's
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = _QUIET | (_LOCAL if master.startswith("local") else {})
    builder = SparkSession.builder.appName("signalbook").master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    with _silence() as log:
        try:
            return builder.getOrCreate()
        except (PySparkException, OSError, ValueError, RuntimeError) as error:
            raise PipelineError(f"Spark does not start on {master}: {_last_words(log) or error}") from error


@contextmanager
def _silence() -> Iterator[Path]:
    """Send what the JVM prints to a file: its greetings on standard error are no business of the user's."""
    handle, name = tempfile.mkstemp(prefix="signalbook-spark-", suffix=".log")
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)
        os.close(handle)
        with suppress(OSError):
            Path(name).unlink()


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-_TAIL:].strip()
