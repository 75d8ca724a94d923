"""Limit the work that a request causes, and postpone long work until the write's turn is over.

Writes take turns, so a slow write delays all others. In its turn a write does at most ``IN_TURN`` steps of work on
documents. Longer work is postponed: the write is rolled back, the work is done outside the turn, and the write is tried
again. The second try uses the results of that work, if they are still valid.

Steps are counted where documents are read (one for each byte) and in the loops that go through them. A step takes a
microsecond or less. So the number of steps depends only on the request. The limit on time is the last resort.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from signalbook.errors import RegistryError, SignalbookError

T = TypeVar("T")

IN_TURN: Final = 10_000
"""The number of steps that a write may do in its turn. They take a few milliseconds, about as long as a second try."""
_MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""If the documents that postponed work holds have more bytes than this, the write is interrupted at once."""
_STEPS_BETWEEN_LOOKS: Final = 500
"""The number of steps between two checks of the time."""
_BUSY_SECONDS: Final = 0.002
_PAUSE_SECONDS: Final = 0.0002
"""The pause after ``_BUSY_SECONDS`` of work, in which threads that wait for the interpreter can run."""


class TooComplex(SignalbookError):
    """The error for a request whose documents take more steps than a request may cause."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"reading and comparing its documents takes more than {most} steps (setting max_work): "
            "make them smaller or simpler, or send fewer of them at a time"
        )


class OutOfTime(SignalbookError):
    """The error for a request whose documents take more time than a request may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"reading and comparing its documents took {seconds:g} s (setting work_timeout); try again")


class Postponed(SignalbookError):
    """Signals that a write has postponed work. Try the write again after ``Work.work_out``."""


class Abandoned(Exception):
    """Signals that nobody waits for the result of the work any more."""


class _NotInTurn(Exception):
    """Signals that the steps allowed in a write's turn are used up."""


class Work:
    """The work of one request, limited to ``steps`` and ``seconds``. 0 means no limit.

    Only one thread may use it at a time.
    """

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
        self.results: dict[Hashable, Any] = {}
        self.postponed: dict[Hashable, Callable[[], Any]] = {}
        self._held: dict[bytes, bytes] = {}
        self._opened: dict[Hashable, Any] = {}
        self.size = 0
        """The number of bytes of the documents that postponed work holds."""

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Return a context for the write's turn, in which ``compute_or_postpone`` and ``spend`` count for this work.

        Raises ``Postponed`` at its end if the block postponed work. ``Postponed`` also replaces an error of the block,
        because errors are reported only when all are known. It does not replace ``TooComplex``: more work cannot help.
        """
        self.postponed.clear()
        self._held.clear()
        self.size = 0
        token = _WORK.set(self)
        try:
            yield
        except SignalbookError as error:
            if isinstance(error, TooComplex) or not self.postponed:
                raise
        finally:
            _WORK.reset(token)
        if self.postponed:
            raise Postponed

    def work_out(self) -> None:
        """Do the postponed work, and store its results.

        A ``RegistryError`` is stored, and raised when the write asks for the result. Other errors are raised at once,
        such as ``TooComplex`` and ``OutOfTime``.
        """
        with self.on_the_spot(), ExitStack() as self._closed_after_work:
            self._opened.clear()
            for key, compute in self.postponed.items():
                try:
                    self.results[key] = compute()
                except RegistryError as error:  # raised in the turn of the write
                    self.results[key] = error

    def open_once(self, open: Callable[[], AbstractContextManager[T]]) -> T:
        """Return what ``open`` opens. It is opened once for all postponed work, and closed at the end of that work."""
        if open not in self._opened:
            self._opened[open] = self._closed_after_work.enter_context(open())
        resource: T = self._opened[open]
        return resource

    @contextmanager
    def on_the_spot(self) -> Iterator[None]:
        """Return a context outside any write's turn, in which ``spend`` counts for this work. Raises ``Abandoned``."""
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
        if self._resumed is not None and self._spent - self._looked >= _STEPS_BETWEEN_LOOKS:
            self._looked = self._spent
            self._look_at_clock(self._resumed)

    def abandon(self) -> None:
        """Make the thread that does this work raise ``Abandoned`` soon. Any thread may call this."""
        self._abandoned = True

    def compute_or_postpone(
        self, key: Hashable, compute: Callable[..., T], later: Callable[..., T], contents: Sequence[bytes], size: int
    ) -> T | None:
        """Return or raise the result of ``compute``, or None if it is postponed. See the function of this name."""
        if key not in self.results and key not in self.postponed:
            self._try(key, partial(compute, *contents), size)
        if key in self.results:
            result: T | RegistryError = self.results[key]
            if isinstance(result, RegistryError):
                raise result
            return result
        # A batch goes on with its next item after ``Postponed``. Then nothing more is held.
        if key not in self.postponed and self.size <= _MAX_HELD_BYTES:
            self.postponed[key] = partial(later, *map(self._hold, contents))
            self.size += max(0, size - sum(map(len, contents)))
        if self.size > _MAX_HELD_BYTES:
            raise Postponed
        return None

    def _hold(self, content: bytes) -> bytes:
        """Return the equal document that postponed work already holds, so that it is in memory only once."""
        if content not in self._held:
            self.size += len(content)
        return self._held.setdefault(content, content)

    def _try(self, key: Hashable, compute: Callable[[], Any], size: int) -> None:
        """Call ``compute`` now and store its result, unless that takes more steps than are left in the turn."""
        if self._resumed is not None:  # outside of the turn
            self.results[key] = compute()
            return
        if size > self._left_in_turn:
            return
        before = self._spent
        self._most = min(self._steps, before + self._left_in_turn)
        try:
            self.results[key] = compute()
        except _NotInTurn:
            self._left_in_turn, self._spent = 0, before
        finally:
            self._most = self._steps
            self._left_in_turn -= self._spent - before

    def _look_at_clock(self, resumed: float) -> None:
        if self._abandoned:
            raise Abandoned
        now = time.perf_counter()
        if self._took + now - resumed > self._seconds:
            raise OutOfTime(self._seconds)
        if now - self._paused > _BUSY_SECONDS:
            time.sleep(_PAUSE_SECONDS)
            self._paused = time.perf_counter()


_WORK: Final[ContextVar[Work | None]] = ContextVar("work", default=None)
"""The work of the current request. None outside a server: then work is done at once and not limited."""


def spend(steps: int = 1) -> None:
    """Count steps of the current request, if there is one. Raises ``TooComplex``, ``OutOfTime`` or ``Abandoned``."""
    work = _WORK.get()
    if work is not None:
        work.spend(steps)


def compute_or_postpone(
    key: Hashable,
    compute: Callable[..., T],
    *,
    contents: Sequence[bytes] = (),
    later: Callable[..., T] | None = None,
    size: int | None = None,
) -> T | None:
    """Return or raise the result of ``compute``, or None if the work is postponed.

    ``compute`` is called with ``contents``, the documents to read. Postponed work calls ``later`` instead, if that is
    not None. ``key`` contains everything that the result depends on. ``size`` is the number of bytes that have to be
    read; None means those of ``contents``.
    """
    work = _WORK.get()
    if work is None:
        return compute(*contents)
    size = sum(map(len, contents)) if size is None else size
    return work.compute_or_postpone(key, compute, later or compute, contents, size)


def known_result(key: Hashable) -> Any:
    """Return the result for ``key`` that ``compute_or_postpone`` has stored in the current request, or None."""
    work = _WORK.get()
    result = None if work is None else work.results.get(key)
    return None if isinstance(result, RegistryError) else result


def open_once(open: Callable[[], AbstractContextManager[T]]) -> T:
    """Return what ``open`` opens, for postponed work. See ``Work.open_once``."""
    work = _WORK.get()
    assert work is not None, "only a request with a limit of work postpones work"
    return work.open_once(open)


@contextmanager
def unlimited() -> Iterator[None]:
    """Return a context in which work is done at once and not limited."""
    token = _WORK.set(None)
    try:
        yield
    finally:
        _WORK.reset(token)


def stop_if_postponed() -> None:
    """Raise ``Postponed`` if the current request has postponed work, so that nothing is stored in vain."""
    work = _WORK.get()
    if work is not None and work.postponed:
        raise Postponed
