"""Definitions held against streams of messages, on Spark: each message lands in its table or is sidelined with reasons.

    report = run(Job(registry="http://localhost:8080", inputs=("events/",), output=Path("lake")))

Start reading in ``running.py`` (the driver), ``work.py`` (a task) and ``columns.py`` (what is written).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from signalbook.pipeline.audience import Audience
from signalbook.pipeline.backtests import Backtest
from signalbook.pipeline.commands.status import Status, StreamState
from signalbook.pipeline.commands.status import status as status_of
from signalbook.pipeline.commit.journal import Journal
from signalbook.pipeline.compactions import Compaction
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.inference import Draft, DraftJob
from signalbook.pipeline.job.file import JobOptions
from signalbook.pipeline.job.file import options as job_options
from signalbook.pipeline.job.jobs import BacktestJob, Job, Progress, ReplayJob, StreamJob, Wanted
from signalbook.pipeline.profiles import Profile
from signalbook.pipeline.replays import Replay
from signalbook.pipeline.reports.report import Report
from signalbook.values import JSONObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Audience",
    "Backtest",
    "BacktestJob",
    "Compaction",
    "Draft",
    "DraftJob",
    "Job",
    "JobOptions",
    "PipelineError",
    "Profile",
    "Progress",
    "Replay",
    "ReplayJob",
    "Report",
    "Status",
    "StreamJob",
    "StreamState",
    "Wanted",
    "backtest",
    "compact",
    "exposition",
    "infer",
    "job_options",
    "profile",
    "read",
    "replay",
    "reporting",
    "run",
    "status",
    "stream",
    "views",
]


def run(job: Job, progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Do ``job`` and tell what became of its input; ``progress`` is called several times a second meanwhile.

    Raises ``PipelineError`` (or another ``SignalbookError``, for definitions that cannot be read) with nothing of the
    batch committed, unless the text says otherwise. A run that was killed is completed, or done from the start, by the
    next one with the same output and batch id.
    """
    with _extra():
        from signalbook.pipeline.commands.run import run as run_now
    return run_now(job, progress)


def stream(
    job: StreamJob,
    stop: threading.Event,
    tell: Callable[[str], None] = lambda _: None,
    done: Callable[[Report], None] = lambda _: None,
) -> None:
    """Land messages as they come until ``stop`` is set, and with ``job.once`` no longer than there are some.

    ``done`` takes the report of each batch, ``tell`` what people should know meanwhile. Raises as ``run`` does, with
    all batches that were reported committed; the next run of the same stream goes on behind them.
    """
    with _extra():
        from signalbook.pipeline.commands.stream import run as stream_now
    stream_now(job, stop, tell, done)


def infer(job: DraftJob, progress: Callable[[str], None] = lambda _: None) -> Draft:
    """Draft definitions and schemas from messages nobody has defined yet; ``progress`` is told what is being done.

    Raises ``PipelineError``. Nothing is written anywhere.
    """
    with _extra():
        from signalbook.pipeline.inference.running import run as infer_now
    return infer_now(job, progress)


def profile(
    output: Path,
    definitions: Sequence[str] = (),
    master: str = "local[*]",
    progress: Callable[[str], None] = lambda _: None,
    registry: str | None = None,
) -> list[Profile]:
    """What is in the landed tables of an output folder, those of ``definitions`` (xids) or all of them.

    With a ``registry`` (a URL, document or folder) it is held to what that declares now. Raises ``PipelineError``.
    """
    with _extra():
        from signalbook.pipeline.profiling import profile as profile_now
    return profile_now(output, definitions, registry, master, progress)


def read(session: SparkSession, output: Path, definition: str) -> DataFrame:
    """All messages of a definition (an xid) that have landed in ``output``, over all of its tables.

    Columns that those disagree on are text; one that a table lacks is null there. Raises ``PipelineError``.
    """
    with _extra():
        from signalbook.pipeline.tables.reading import read as read_now
    return read_now(session, output, definition)


def views(output: Path, definitions: Sequence[str] = (), catalog: str = "lake") -> list[JSONObject]:
    """The SQL of views over all tables of each definition, those of ``definitions`` (xids) or all.

    Each has ``definition``, ``view``, ``tables`` and ``sql``; ``catalog`` is what Spark calls that of Iceberg tables.
    Raises ``PipelineError``.
    """
    with _extra():
        from signalbook.pipeline.tables.reading import views as views_now
    return views_now(output, definitions, catalog)


def compact(
    output: Path,
    definitions: Sequence[str] = (),
    target_bytes: int = 256 * 1024 * 1024,
    progress: Callable[[Progress], None] = lambda _: None,
) -> list[Compaction]:
    """Make few files of at most ``target_bytes`` of the small ones in tables, those of ``definitions`` (xids) or all.

    Tells of each table that had something to do. Raises ``PipelineError``, with every table as it was or compacted.
    """
    with _extra():
        from signalbook.pipeline.compacting import compact as compact_now
    return compact_now(output, definitions, target_bytes, progress)


def replay(job: ReplayJob, progress: Callable[[Progress], None] = lambda _: None) -> Replay:
    """Hold the dead letters of an output folder to the definitions of today, and move those that conform by now.

    Raises as ``run`` does. A replay that was killed is completed by whatever works on the folder next, or was never
    begun.
    """
    with _extra():
        from signalbook.pipeline.replaying import replay as replay_now
    return replay_now(job, progress)


@contextmanager
def reporting(output: Path, audience: Audience, tell: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Something to call after each batch of an output folder, which tells the ``audience`` of it.

    What is called never raises, and ``tell`` takes what went wrong. Raises ``PipelineError`` and other
    ``SignalbookError`` for an audience that cannot be.
    """
    with _extra():
        from signalbook.pipeline.telling import telling
    with telling(output, audience, tell) as told:
        yield told


def exposition(output: Path, name: str = "") -> bytes:
    """Metrics of all batches of an output folder, in Prometheus' text format; ``name`` is the pipeline's.

    Raises ``PipelineError``.
    """
    with _extra():
        from signalbook.pipeline.telling import exposition as expose
    return expose(output, name)


def backtest(job: BacktestJob, progress: Callable[[str], None] = lambda _: None) -> Backtest:
    """Hold landed messages and dead letters to a candidate; ``progress`` is told what is being done.

    Raises ``PipelineError``. Nothing is written anywhere.
    """
    with _extra():
        from signalbook.pipeline.backtesting import backtest as backtest_now
    return backtest_now(job, progress)


def status(output: Path) -> Status:
    """The batches that were committed to an output folder, and the streams. Raises ``PipelineError``."""
    return status_of(Journal.existing(output))


@contextmanager
def _extra() -> Iterator[None]:
    """Say what to install where one of the pipeline's own packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise PipelineError(f"the pipeline needs {error.name}: pip install 'signalbook[pipeline]'") from None


_EXTRA = frozenset({"pandas", "prometheus_client", "pyarrow", "pyiceberg", "pyspark", "py4j", "numpy"})
