"""The work that a request causes: how much of it there may be, and what of it waits until the write turn is over.

Writes take turns, so what takes long in one holds up all others. In its turn a write does no more than ``IN_TURN``
steps on documents. What takes more is left for later: the write is undone, the work is done outside, and the write is
tried again, which then only looks at what came of it, and whether it still counts.

Steps are counted where documents are read (one for each byte) and in the loops that go through them; a step takes a
microsecond or less. So whether there are too many of them depends on the request alone. Time is the last net.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from signalbook.errors import RegistryError, SignalbookError

T = TypeVar("T")

IN_TURN: Final = 10_000
"""Steps on documents that a write may do in its turn: a few milliseconds, not much more than trying it twice costs."""
_AT_ONCE: Final = 64 * 1024 * 1024
"""Bytes of documents that are kept for later before the write is given up for now."""
_LOOK_EVERY: Final = 500
"""Steps between two looks at the clock."""
_BUSY: Final = 0.002
_PAUSE_SECONDS: Final = 0.0002
"""Seconds of work, and of the pause behind it: those who wait for the interpreter need not ask for it meanwhile."""


class TooComplex(SignalbookError):
    """The documents of a request take more steps than one may cause."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"reading and comparing its documents takes more than {most} steps (setting max_work): "
            "make them smaller or simpler, or send fewer of them at a time"
        )


class OutOfTime(SignalbookError):
    """The documents of a request take longer than one may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"reading and comparing its documents took {seconds:g} s (setting work_timeout); try again")


class Postponed(SignalbookError):
    """A write that goes on once ``Work.work_out`` has done what it left for later."""


class Abandoned(Exception):
    """Nobody waits for the result of some work any more."""


class _NotInTurn(Exception):
    """The steps that are allowed in a turn are used up."""


class Work:
    """The work of one request: at most ``steps`` and ``seconds``; 0 is no limit. Used by one thread at a time."""

    def __init__(self, *, steps: int, seconds: float) -> None:
        self._steps = steps or sys.maxsize
        self._seconds = seconds or float("inf")
        self._most = self._steps
        self._spent = 0
        self._left_in_turn = IN_TURN
        self._took = 0.0
        self._resumed: float | None = None
        self._looked = 0
        self._paused = 0.0
        self._abandoned = False
        self._results: dict[Hashable, Any] = {}
        self._later: dict[Hashable, Callable[[], Any]] = {}
        self.size = 0
        """Bytes of the documents that wait."""

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """A block in which ``worked_out`` and ``spend`` are about this work; it is a write turn."""
        self._later.clear()
        self.size = 0
        token = _WORK.set(self)
        try:
            yield
        finally:
            _WORK.reset(token)

    def work_out(self) -> None:
        """Do what was left for later. Raises ``TooComplex``, ``OutOfTime``, and what is no ``RegistryError``."""
        with self.on_the_spot():
            for key, compute in self._later.items():
                try:
                    self._results[key] = compute()
                except RegistryError as error:  # for the turn to raise
                    self._results[key] = error

    @contextmanager
    def on_the_spot(self) -> Iterator[None]:
        """A block outside of any turn, in which ``spend`` counts for this work. Raises ``Abandoned``."""
        if self._abandoned:
            raise Abandoned
        token = _WORK.set(self)
        self._resumed = self._paused = time.perf_counter()
        try:
            yield
        finally:
            self._took += time.perf_counter() - self._resumed
            self._resumed = None
            _WORK.reset(token)

    def spend(self, steps: int) -> None:
        """Count ``steps``. Raises ``TooComplex``, ``OutOfTime`` or ``Abandoned``."""
        self._spent += steps
        if self._spent > self._most:
            raise TooComplex(self._steps) if self._most == self._steps else _NotInTurn
        if self._resumed is not None and self._spent - self._looked >= _LOOK_EVERY:
            self._looked = self._spent
            self._look_at_clock(self._resumed)

    def abandon(self) -> None:
        """Let the thread that does this work raise ``Abandoned`` soon. Any thread may call this."""
        self._abandoned = True

    def worked_out(self, key: Hashable, compute: Callable[[], T], later: Callable[[], T], size: int) -> T | None:
        """See ``worked_out``."""
        if key not in self._results and key not in self._later:
            self._try(key, compute, size)
        if key in self._results:
            result: T | RegistryError = self._results[key]
            if isinstance(result, RegistryError):
                raise result
            return result
        if key not in self._later:
            self._later[key] = later
            self.size += size
        if self.size > _AT_ONCE:
            raise Postponed
        return None

    def _try(self, key: Hashable, compute: Callable[[], Any], size: int) -> None:
        """Do it now, if that is little enough."""
        if size > self._left_in_turn:
            return
        before = self._spent
        self._most = min(self._steps, before + self._left_in_turn)
        try:
            self._results[key] = compute()
        except _NotInTurn:
            self._left_in_turn, self._spent = 0, before
        finally:
            self._most = self._steps
            self._left_in_turn -= self._spent - before

    def known_result(self, key: Hashable) -> Any:
        """See ``known_result``."""
        result = self._results.get(key)
        return None if isinstance(result, RegistryError) else result

    def forget(self, key: Hashable) -> None:
        """Work it out anew: what it depends on has changed."""
        self._results.pop(key, None)

    def raise_postponed(self) -> None:
        """Raise ``Postponed`` if something is left for later."""
        if self._later:
            raise Postponed

    def _look_at_clock(self, resumed: float) -> None:
        if self._abandoned:
            raise Abandoned
        now = time.perf_counter()
        if self._took + now - resumed > self._seconds:
            raise OutOfTime(self._seconds)
        if now - self._paused > _BUSY:
            time.sleep(_PAUSE_SECONDS)
            self._paused = time.perf_counter()


_WORK: Final[ContextVar[Work | None]] = ContextVar("work", default=None)
"""None for who is no client of a server: such work is done on the spot, and is not limited."""


def spend(steps: int = 1) -> None:
    """Count steps of the request under way. Raises ``TooComplex`` or ``OutOfTime``."""
    work = _WORK.get()
    if work is not None:
        work.spend(steps)


def worked_out(
    key: Hashable, compute: Callable[[], T], *, later: Callable[[], T] | None = None, size: int = 0
) -> T | None:
    """Return or raise the result of ``compute``, or None if it is left for later.

    ``later``, or else ``compute``, is called then. ``key`` is everything that the result depends on, and ``size`` the
    bytes of the documents that are read for it.
    """
    work = _WORK.get()
    return compute() if work is None else work.worked_out(key, compute, later or compute, size)


def known_result(key: Hashable) -> Any:
    """Return what ``worked_out`` returned for this key in the request under way, None if it has not."""
    work = _WORK.get()
    return None if work is None else work.known_result(key)


def forget(key: Hashable) -> None:
    """Forget a result, because something it depended on has changed."""
    work = _WORK.get()
    if work is not None:
        work.forget(key)


@contextmanager
def unlimited() -> Iterator[None]:
    """A block in which all is worked out on the spot, and nothing is counted."""
    token = _WORK.set(None)
    try:
        yield
    finally:
        _WORK.reset(token)


@contextmanager
def complete() -> Iterator[None]:
    """A block that raises ``Postponed`` at its end, or in the place of an error, if it left something for later.

    What was left counts as right for now: errors are shown once all of them are known.
    """
    work = _WORK.get()
    try:
        yield
    except RegistryError:
        if work is not None:
            work.raise_postponed()
        raise
    if work is not None:
        work.raise_postponed()
