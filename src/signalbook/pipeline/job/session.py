"""The Spark session of a run: local by default, with little log output, and usable without a network."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Final, TextIO

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.runner import Work
from signalbook.pipeline.spark import detach_java, find_context, find_java

_NO_JAVA: Final = (
    "Spark needs Java 17 or later and there is none: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
)
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # limit the size of Arrow batches, and do not depend on the time zone of the machine
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
    "spark.sql.session.timeZone": "UTC",
    # on a busy machine a driver may need more than Spark's 15 s until it fetches the result of a job
    "spark.python.authenticate.socketTimeout": "600s",
    # keep Spark from creating this folder in the working directory
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "spark-warehouse"),
}
# Make Java compile quickly instead of optimising, which halves the start time of Spark. Java options of the user come
# after these and override them.
_BRIEF: Final = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
# The names of settings whose values Spark hides in logs and events: Spark's default pattern, and secrets of stores.
_HIDDEN: Final = "(?i:secret|password|token|credential|jaas|(?:access|account|sas|service.?account)[._]?key)"
_REDACTION: Final = "spark.redaction.regex"
_REDACTED: Final = re.compile(rf"^\s*{re.escape(_REDACTION)}[\s=:]+(\S.*?)\s*$", re.MULTILINE)
_LIBRARIES: Final = ("spark.jars", "spark.jars.packages")
_TAIL: Final = 800
# The loggers that py4j uses.
_LOGGERS: Final = ("", "py4j.java_gateway", "py4j.clientserver")
# Seconds that Java has to end before it is killed.
_ENDING: Final = 10.0
# The reason of a failure in Spark's output: the text of an exception or its cause, or the reason of a lost master.
_WHY: Final = re.compile(
    r"^(?:Exception in thread \"main\" |Caused by: |: )?(?:[\w$]+\.)+[\w$]+(?:Exception|Error): (.+)$|Reason: (.+)$",
    re.MULTILINE,
)
# Parts of Spark's output if libraries could not be downloaded.
_UNFETCHED: Final = ("unresolved dependency", "download failed")
_OFFLINE: Final = (
    "the connector for this input format cannot be fetched; give its JAR files by --jars, as docs/pipeline.md says"
)


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """A ``Runner`` that runs tasks as a Spark job."""

    session: SparkSession

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at once."""
        return self.session.sparkContext.defaultParallelism

    def run(self, count: int, work: Work, size: int) -> list[bytes]:  # noqa: ARG002
        """Return the results of the tasks 0 to ``count`` - 1. Raises Spark's errors.

        The job uses an RDD, because planning and compiling a query takes Java several times as long.
        """
        return self.session.sparkContext.parallelize(range(count), max(count, 1)).mapPartitions(work).collect()


@contextmanager
def open_session(
    master: str, *, jars: Sequence[Path] = (), packages: Sequence[str] = (), brief: bool = False
) -> Iterator[SparkSession]:
    """Yield this process's Spark session, or a new one on ``master`` that ends with the block.

    ``jars`` are JAR files, or folders of JAR files, for a new session. Without any, Spark downloads ``packages``, Maven
    artifacts of the version of Spark. Set ``brief`` for a session that mainly starts Python tasks: it starts faster,
    but its Java code runs slower. Raises ``PipelineError`` if Spark cannot start, and if Spark Connect is configured.
    """
    _refuse_connect()
    if find_context() is not None:
        yield SparkSession.builder.getOrCreate()
        return
    with _filter_traces():
        started = _start(master, {**_build_library_options(jars, packages), **(_BRIEF if brief else {})})
        try:
            yield started
        finally:
            _stop_spark(started.stop)


@contextmanager
def open_java_lock(session: SparkSession, file: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that tries to lock ``file`` for the session's Java process, until the block or Java ends.

    After the driver is killed, Java continues to write for seconds. A lock of the driver's process would be released
    before that.
    """
    opened = find_java(session).java.io.RandomAccessFile(str(file), "rw")
    try:
        yield lambda: opened.getChannel().tryLock() is not None
    finally:
        with suppress(Py4JError, OSError):  # Java has ended, which released its locks
            opened.close()


def _refuse_connect() -> None:
    """Raise ``PipelineError`` if Spark Connect is configured, because it has no ``SparkContext`` for tasks."""
    variable = next((name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ), "")
    if os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        variable = "SPARK_API_MODE"
    if variable:
        raise PipelineError(
            f"commands of the pipeline have a Spark of their own, and no server of Spark Connect ({variable} is set): "
            "unset it, or use pipeline.validate, typed, register, land and read, which work by Connect"
        )


def _build_library_options(jars: Sequence[Path], packages: Sequence[str]) -> dict[str, str]:
    """Return Spark's options for the libraries ``jars``, or else ``packages``. Raises ``PipelineError``."""
    if jars:
        files = [file for jar in jars for file in (sorted(jar.glob("*.jar")) if jar.is_dir() else [jar])]
        missing = next((str(file) for file in files if not file.is_file()), "" if files else f"JAR files in {jars[0]}")
        if missing:
            raise PipelineError(f"{missing}: there is no such file")
        return {_LIBRARIES[0]: ",".join(str(file.absolute()) for file in files)}
    if packages:
        return {_LIBRARIES[1]: ",".join(f"{name}_{_find_scala_version()}:{pyspark.__version__}" for name in packages)}
    return {}


def _find_scala_version() -> str:
    """Return the Scala version of Spark, such as ``2.13``, which is part of the names of artifacts."""
    library = next((_find_spark_home() / "jars").glob("scala-library-*.jar"), Path("scala-library-2.13"))
    return ".".join(library.name.removeprefix("scala-library-").split(".")[:2])


def _find_spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _build_redaction() -> str:
    """Return the pattern for the names of secret settings: ours, combined with the one of Spark's configuration."""
    file = Path(os.environ.get("SPARK_CONF_DIR") or _find_spark_home() / "conf") / "spark-defaults.conf"
    with suppress(OSError, UnicodeDecodeError):
        match = _REDACTED.search(file.read_text(encoding="utf-8"))
        if match is not None:
            return f"(?:{match[1]})|{_HIDDEN}"
    return _HIDDEN


def _start(master: str, more: Mapping[str, str]) -> SparkSession:
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise PipelineError(_NO_JAVA)
    # the workers' Python must be the driver's
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if any(name in more for name in _LIBRARIES):
        _end_java()
    options = {**_QUIET, _REDACTION: _build_redaction(), **(_LOCAL if master.startswith("local") else {}), **more}
    builder = SparkSession.builder.appName("signalbook").master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    with _send_output_to_file() as log, _keep_interrupt():
        try:
            return builder.getOrCreate()
        except (PySparkException, Py4JError, OSError, ValueError, RuntimeError) as error:
            _discard_session()
            raise PipelineError(f"Spark does not start on {master}: {_find_reason(log, error)}") from error
        except BaseException as error:
            _discard_session()
            _end_launched(error)
            raise


def _discard_session() -> None:
    """End the context and the Java process of a session that failed to start, so that the next session is new."""
    context = find_context()
    if context is not None:
        with suppress(Py4JError, OSError):
            _stop_spark(context.stop)
    _end_java()


def _stop_spark(stop: Callable[[], None]) -> None:
    """Call ``stop`` in a new thread, which has its own connection to Java. End Java if that fails.

    The connection of this thread may still wait for the response to an interrupted call, so that another call would
    fail. PySpark only warns if it cannot stop Java, which can happen after an interrupt on a busy machine.
    """
    with warnings.catch_warnings(record=True) as failures, ThreadPoolExecutor(max_workers=1) as threads:
        warnings.simplefilter("always", RuntimeWarning)
        threads.submit(stop).result()
    if failures:
        _end_java()


def _end_launched(error: BaseException) -> None:
    """End the Java process that was starting when ``error``, such as an interrupt, was raised.

    Otherwise the process would run forever. It must first write its port to a folder that no longer exists, and only
    then notices that its parent is gone. The process is found in the local variables of the interrupted function.
    """
    for frame, _ in walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            if isinstance(value, subprocess.Popen) and getattr(value, "pid", None) is not None:
                _end_process(value)


def _end_java() -> None:
    """End the Java process of an earlier session, because only a new process loads libraries."""
    gateway = detach_java()
    if gateway is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        _end_process(process)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def _filter_traces() -> Iterator[None]:
    """Suppress py4j's log records about interrupts in the context: the program handles interrupts itself."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info and "py4j" in record.pathname else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is None


@contextmanager
def _keep_interrupt() -> Iterator[None]:
    """Restore the SIGINT handler that Spark replaces in the context: Spark's handler would kill the running batch."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _send_output_to_file() -> Iterator[Path]:
    """Redirect standard output and standard error to a temporary file, and yield its path.

    The JVM prints greetings and warnings that users do not need, also to standard output, which programs read.
    """
    handle, name = tempfile.mkstemp(prefix="signalbook-spark-", suffix=".log")
    try:
        with _send_descriptor(sys.stdout, 1, handle), _send_descriptor(sys.stderr, 2, handle):
            yield Path(name)
    finally:
        os.close(handle)
        with suppress(OSError):
            Path(name).unlink()


@contextmanager
def _send_descriptor(stream: TextIO, descriptor: int, handle: int) -> Iterator[None]:
    """Redirect the file ``descriptor`` of ``stream`` to the descriptor ``handle`` in the context."""
    stream.flush()
    terminal = os.dup(descriptor)
    # Redirect the descriptor, not ``sys.stdout``, because the JVM inherits only the descriptor.
    os.dup2(handle, descriptor)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(terminal, descriptor)
        os.close(terminal)


def _find_reason(log: Path, error: Exception) -> str:
    """Return the reason why Spark did not start, from the output ``log`` or from ``error``, in one line if possible."""
    words = log.read_text(errors="replace")
    if any(sign in words for sign in _UNFETCHED):
        return _OFFLINE
    reasons = _WHY.findall(words) or _WHY.findall(str(error))
    return "".join(reasons[-1]).strip() if reasons else words[-_TAIL:].strip() or str(error)
