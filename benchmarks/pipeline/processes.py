"""CPU and memory of this process and all it started, from Linux's /proc."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Peak:
    """The largest resident memory of any Python worker seen, in MiB."""

    mib: float = 0.0


@dataclass(kw_only=True)
class Rounds:
    """One contender's rounds: seconds of wall clock, and of CPU in the whole family of processes."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self, work: Callable[[], object]) -> None:
        """One more round."""
        started, busy = time.perf_counter(), tree_cpu()
        work()
        self.seconds.append(time.perf_counter() - started)
        self.cpu.append(tree_cpu() - busy)


def tree_cpu() -> float:
    """CPU seconds of this process and all below it, the ended ones included."""
    return sum(_cpu(pid) for pid in _family())


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Watch the resident memory of Spark's Python workers, ten times a second."""
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            peak.mib = max([peak.mib, *(_resident(pid) for pid in _family()[1:] if _is_worker(pid))])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def _family() -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            children[int(fields[1])].append(int(path.name))
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children[pid]
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; none for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu(pid: int) -> float:
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2
