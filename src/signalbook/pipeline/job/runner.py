"""Run the tasks of a command: as a Spark job, or in processes of this machine.

A task is a number. It reads its part of the plan of the command itself, and returns its result as bytes. Commands that
read files (``run``, ``infer``, ``replay``, ``backtest``) need only a ``Runner``. By default they use ``SparkRunner`` in
``session.py``.

A Spark session is needed for ``stream``, DataFrames, ``run`` of brokers and of captures with options, and ``profile``
of large tables. ``backfill`` and ``compact`` run in the process of the command and have no tasks.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, Protocol, TypeAlias

from signalbook.pipeline.errors import PipelineError

Work: TypeAlias = Callable[[Iterable[int]], Iterator[bytes]]
"""A function that runs the tasks with the given numbers and yields their results. It must be picklable."""
# Starting a process takes about a second. For input of this many bytes, one running process is as fast as two that
# have to be started.
SMALL_BYTES: Final = 50_000_000


class Runner(Protocol):
    """The interface for running the tasks of a command."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at once."""
        ...

    def run(self, count: int, work: Work, size: int) -> list[bytes]:
        """Return the results of the tasks 0 to ``count`` - 1 in order. Together the tasks read ``size`` bytes.

        Raises ``PipelineError`` or Spark's error if a task fails.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """A ``Runner`` that uses processes of this machine, or only this process for a single task or a small input."""

    parallelism: int = field(default_factory=lambda: os.cpu_count() or 1)
    small_bytes: int = SMALL_BYTES

    def run(self, count: int, work: Work, size: int) -> list[bytes]:
        """Return the results of the tasks 0 to ``count`` - 1 in order. Raises ``PipelineError`` if a task fails."""
        if count <= 1 or size < self.small_bytes:
            return _run_work(work, range(count))
        context = multiprocessing.get_context("spawn")
        # Nothing is sent through this pipe. Worker processes see its end when this process closes it or dies.
        reader, writer = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(min(self.parallelism, count), context, _begin_worker, (reader,))
        with reader, pool, writer:
            try:
                results = pool.map(partial(_run_work, work), [[number] for number in range(count)])
                return [result for (result,) in results]
            except BrokenProcessPool as error:
                raise PipelineError(
                    "a process of this run was killed, nothing was committed: give it more memory or smaller files"
                ) from error


def _run_work(work: Work, numbers: Iterable[int]) -> list[bytes]:
    """Return the results of ``work``. Every error becomes a plain ``PipelineError``, because that can be pickled."""
    try:
        return list(work(numbers))
    except PipelineError as error:
        raise PipelineError(str(error)) from error
    except Exception as error:
        raise PipelineError(f"a task failed, nothing was committed: {type(error).__name__}: {error}") from error


def _begin_worker(reader: Connection) -> None:
    """Set up a worker process: ignore Ctrl-C, and exit at once when the command ends or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        with suppress(EOFError):
            reader.recv_bytes()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
