"""Definitions held against streams of messages, on Spark: each message lands in its table or is sidelined with reasons.

    report = run(Job(registry="http://localhost:8080", inputs=("events/",), output=Path("lake")))

Start reading in ``running.py`` (the driver), ``work.py`` (a task) and ``columns.py`` (what is written).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.inference import Draft, DraftJob
from signalbook.pipeline.job import Job, Progress
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.profiles import Profile
from signalbook.pipeline.report import Report

__all__ = [
    "Draft",
    "DraftJob",
    "Job",
    "PipelineError",
    "Profile",
    "Progress",
    "Report",
    "infer",
    "profile",
    "run",
    "status",
]


def run(job: Job, progress: Callable[[Progress], None] = lambda _: None) -> Report:
    """Do ``job`` and tell what became of its input; ``progress`` is called several times a second meanwhile.

    Raises ``PipelineError`` (or another ``SignalbookError``, for definitions that cannot be read) with nothing of the
    batch committed, unless the text says otherwise. A run that was killed is completed, or done from the start, by the
    next one with the same output and batch id.
    """
    with _extra():
        from signalbook.pipeline.running import run as run_now
    return run_now(job, progress)


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
) -> list[Profile]:
    """What is in the landed tables of an output folder, those of ``definitions`` (xids) or all of them.

    Raises ``PipelineError``.
    """
    with _extra():
        from signalbook.pipeline.profiling import profile as profile_now
    return profile_now(output, definitions, master, progress)


def status(output: Path) -> list[Report]:
    """The batches that were committed to an output folder, by their ids. Raises ``PipelineError``."""
    return [batch.report() for batch in Journal.existing(output).committed()]


@contextmanager
def _extra() -> Iterator[None]:
    """Say what to install where one of the pipeline's own packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise PipelineError(f"the pipeline needs {error.name}: pip install 'signalbook[pipeline]'") from None


_EXTRA = frozenset({"pandas", "pyarrow", "pyiceberg", "pyspark", "py4j", "numpy"})
