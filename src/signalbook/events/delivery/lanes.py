"""Threads that deliver, in lanes, so that those who are slow or dead wait for each other and for nobody else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]

_LOG = logging.getLogger("signalbook.delivery")


class Lane:
    """At most ``threads`` at work, in the order in which work was given. A thread is made when it is needed."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def put(self, work: Work) -> None:
        """Do ``work``, which raises nothing, when it is its turn."""
        with self._lock:
            self._queue.put(work)
            if self._idle:
                self._idle -= 1
                return
            if self._threads == self._most:
                return
            self._threads += 1
        # Daemons: a sink that does not answer must not keep the process from ending.
        threading.Thread(target=self._serve, name=f"deliver-{self._name}", daemon=True).start()

    def close(self) -> None:
        """End the threads once they have done what they do, without waiting for them."""
        for _ in range(self._most):
            self._queue.put(None)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                _LOG.exception("a delivery failed in a way that nobody thought of")
            with self._lock:
                self._idle += 1
