"""Connections to PostgreSQL that detect when the server will never respond.

TCP detects a lost machine or network within seconds (``KEEPALIVE``). It does not detect a proxy, a firewall or a frozen
server that accepts data and never responds. A timeout for every statement does not help: a statement that waits for its
turn to write, or copies a million rows, may rightly take long. So a second connection queries the state of the first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

RV = TypeVar("RV")

KEEPALIVE: Final = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Parameters for libpq, in seconds and milliseconds. The server sets the same values at its end."""
_SILENT_SECONDS: Final = 5.0
"""The seconds without a byte of the response, after which a second connection queries the state."""
_ON_ITS_WAY_SECONDS: Final = 1.0
"""The seconds that a response may be under way after the server has sent it."""
_BACKEND: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
# The start time is compared, too, since the process id may have been reused.
_STATE: Final = "SELECT coalesce(state, '') FROM pg_stat_activity WHERE (pid, backend_start) = (%s, %s)"
_END: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE (pid, backend_start) = (%s, %s)"
_UNREACHABLE: Final = "unreachable"
_GONE: Final = "gone"
_UNKNOWN: Final = ""
_OVER: Final = (_GONE, "idle", "idle in transaction", "idle in transaction (aborted)")
"""States of a server process that has sent its response, or never got the statement."""
_TOO_MANY: Final = ("too many", "remaining connection slots")


class Connection(psycopg.Connection[Any]):
    """A connection that raises ``OperationalError``, like a broken connection, once it is known that no response will
    come."""

    _backend: tuple[Any, ...] | None = None
    _again: Callable[[], psycopg.Connection[Any]]
    _forsaken: deque[tuple[Any, ...]]

    def watch(self, again: Callable[[], psycopg.Connection[Any]], forsaken: deque[tuple[Any, ...]]) -> None:
        """Start to watch this connection. ``again`` connects to the same server.

        ``forsaken`` lists the server processes of abandoned connections, shared by all connections. Such a process may
        hold the lock for writing, for which all others wait, so this call terminates the processes listed so far.
        """
        self._again, self._forsaken = again, forsaken
        self._backend = self.execute(_BACKEND).fetchall()[0]
        while forsaken:
            try:
                backend = forsaken.popleft()
            except IndexError:  # another connection was quicker
                return
            try:
                self.execute(_END, backend)
            except psycopg.Error:
                forsaken.append(backend)
                raise

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Wait as psycopg does, but not for a silent server."""
        return super().wait(self._watch_silence(gen), *args, **kwargs)

    def _watch_silence(self, gen: PQGen[RV]) -> PQGen[RV]:
        heard, allowed = time.monotonic(), _SILENT_SECONDS
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if ready:
                    heard, allowed = time.monotonic(), _SILENT_SECONDS
                elif time.monotonic() - heard > allowed:
                    # A process that is idle now may just have sent its response. Only a second idle state means that no
                    # response comes.
                    allowed = self._check_backend(last=allowed == _ON_ITS_WAY_SECONDS)
                    heard = time.monotonic()
                awaited = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result

    def _check_backend(self, *, last: bool) -> float:
        """Return the seconds to wait on. Raises ``OperationalError`` if no response can come."""
        state = self._query_backend_state()
        if state == _UNREACHABLE or (state in _OVER and last):
            if self._backend is not None:
                self._forsaken.append(self._backend)
            self.pgconn.finish()
            raise psycopg.OperationalError("the server does not answer any more")
        return _ON_ITS_WAY_SECONDS if state in _OVER else _SILENT_SECONDS

    def _query_backend_state(self) -> str:
        if self._backend is None:
            return _UNREACHABLE
        try:
            with closing(self._again()) as other:
                records = other.execute(_STATE, self._backend).fetchall()
        except psycopg.Error as error:
            return _UNKNOWN if any(phrase in str(error) for phrase in _TOO_MANY) else _UNREACHABLE
        return str(records[0][0]) if records else _GONE
