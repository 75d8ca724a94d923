"""Run the tasks of a command: as a Spark job, or in processes of this machine.

A task is a number. What it has to do lies in a plan, which it reads itself, and it returns its result as bytes.
Commands over files (``run``, ``infer``, ``replay``, ``backtest``) need nothing from Spark but a ``Runner``.
``SparkRunner`` in ``session.py`` is the one that they use by default.

These need a Spark session: ``stream``, DataFrames, ``run`` of brokers and captures, ``profile`` of large tables.
``backfill`` and ``compact`` run in the process of the command and have no tasks.
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
"""Does the tasks of these numbers and yields the result of each. It can be pickled."""
# A process takes about a second to start. Input of this size takes one process as long as two that have to start.
SMALL_BYTES: Final = 50_000_000


class Runner(Protocol):
    """Runs the tasks of a command."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at once."""
        ...

    def run(self, count: int, work: Work, size: int) -> list[bytes]:
        """Return the results of the tasks 0 to ``count`` - 1, which read ``size`` bytes together, in their order.

        Raises ``PipelineError`` or what Spark raises, once a task has failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs tasks in processes of this machine, and in this process if there is one task or the input is small."""

    parallelism: int = field(default_factory=lambda: os.cpu_count() or 1)
    small_bytes: int = SMALL_BYTES

    def run(self, count: int, work: Work, size: int) -> list[bytes]:
        """Return the results of the tasks 0 to ``count`` - 1. Raises ``PipelineError`` once a task has failed."""
        if count <= 1 or size < self.small_bytes:
            return _run_work(work, range(count))
        context = multiprocessing.get_context("spawn")
        # Nothing is sent. The reading end tells the processes that this one has closed the other end, or is gone.
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
    """Return the results of ``work``. Every error becomes a plain ``PipelineError``, which can be pickled."""
    try:
        return list(work(numbers))
    except PipelineError as error:
        raise PipelineError(str(error)) from error
    except Exception as error:
        raise PipelineError(f"a task failed, nothing was committed: {type(error).__name__}: {error}") from error


def _begin_worker(reader: Connection) -> None:
    """Leave Ctrl-C to the command, and end this process at once when the command stops waiting or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        with suppress(EOFError):
            reader.recv_bytes()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
