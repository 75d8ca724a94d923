"""Commands that are killed at a stage of theirs, by a signal that leaves them no time for anything."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from signalbook.pipeline import Progress

_ROOT = Path(__file__).parents[3]
_DIES = """
import pickle, sys
from tests.pipeline.commands.killing import die_at
die_at(*pickle.load(sys.stdin.buffer))
"""


MERGE_STAGE = ("committing", 1)
"""The stage at which ``make merge`` kills: where there are two tables, one of them has its rows."""


def list_kills(
    fast: Sequence[tuple[str, ...]], slow_stores: Iterable[tuple[str, ...]], stages: Sequence[tuple[str, int | None]]
) -> list[Any]:
    """Return a test case for each store and stage.

    ``make test`` kills at all stages with the ``fast`` stores, which are folders and formats that can be forked.
    ``make merge`` kills once with each of the ``slow_stores``, and ``make soak`` at their other stages.
    """
    slow = []
    for store, stage in product(slow_stores, stages):
        marks = pytest.mark.merge if stage == MERGE_STAGE else pytest.mark.soak
        slow.append(pytest.param(*store, *stage, marks=marks))
    return [*(pytest.param(*store, *stage) for store in fast for stage in stages), *slow]


def killed_at(stage: str, progress_done: int | None, command: Callable[..., Any], job: Any, *, forked: bool) -> None:
    """Kill a process that does ``job`` by ``command`` when it has come that far; without ``done`` to that stage at all.

    One that is forked has the Spark of this process, and is there at once; clients of stores and the library of Delta
    work in none. Another has a Java and workers of its own, which outlive it by a moment.
    """
    if forked:
        pid = os.fork()
        if pid == 0:
            die_at(stage, progress_done, command, job)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        return
    pickled = pickle.dumps((stage, progress_done, command, job))
    ended = subprocess.run([sys.executable, "-c", _DIES], input=pickled, cwd=_ROOT, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def die_at(stage: str, progress_done: int | None, command: Callable[..., Any], job: Any) -> None:
    """Run the command and die at the given stage."""

    def show(progress: Progress) -> None:
        if progress.stage == stage and progress_done in (None, progress.done):
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        command(job, show)
    finally:
        sys.stderr.flush()
        os._exit(1)
