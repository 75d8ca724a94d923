"""Receives from a broker into a spool for as long as a stream runs: written first, then confirmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.spool import Spool, Spooled

_LOOK: Final = 0.5
_PAUSE: Final = 0.5
_PARTING: Final = 10.0
# What a broker has for us comes at once; so many looks without anything are the end of what there is now.
_QUIET: Final = 4
# So many messages wait in memory for room in the spool: more than a broker gives that are to be confirmed.
_HELD: Final = 1_000
# Which part of its time a look has to take: one may end early without anything, as for what is no message.
_WHOLE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message that came; ``token`` is what it is confirmed by."""

    message: Spooled
    token: Any


class Link(Protocol):
    """A connection on which messages come. For one thread."""

    def receive(self, seconds: float) -> Sequence[Arrival]:
        """What comes, none if nothing does for so long."""

    def confirm(self, arrivals: Sequence[Arrival]) -> None:
        """Tell the broker that it may forget these."""

    def close(self) -> None:
        """Hang up, whatever state it is in; raises nothing."""


class Receiver:
    """A thread that keeps a connection made by ``connect``, again and again where it is lost by a ``passing`` error.

    Everybody else may ask for ``end``, which raises ``PipelineError`` once nothing more will come: for any other
    error, or when the broker was away for ``patience`` seconds.
    """

    def __init__(
        self, spool: Spool, connect: Callable[[], Link], passing: tuple[type[Exception], ...], patience: float
    ) -> None:
        self._spool = spool
        self._connect = connect
        self._passing = passing
        self._patience = patience
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._quiet = 0
        self._connected = False
        self._thread = threading.Thread(target=self._work, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """The number behind the last message that is written."""
        if isinstance(self._failure, PipelineError):
            raise self._failure
        if self._failure is not None:
            raise PipelineError(f"receiving ended: {type(self._failure).__name__}: {self._failure}")
        return self._spool.end

    def settled(self) -> int:
        """``end`` once nothing has come for a moment, or messages have come for longer than that is waited for."""
        deadline = time.monotonic() + self._patience
        while True:
            found = self.end
            if self._quiet >= _QUIET or (self._connected and time.monotonic() > deadline):
                return found
            self._over.wait(_LOOK / 5)

    def stop(self) -> None:
        """End, with what is at hand written and confirmed; a connection that is being made is not waited for."""
        self._over.set()
        self._thread.join(_PARTING)

    def _work(self) -> None:
        away = time.monotonic()
        while not self._over.is_set():
            try:
                link = self._connect()
                try:
                    self._follow(link)
                finally:
                    if self._connected:
                        away, self._connected = time.monotonic(), False
                    link.close()
            except self._passing as error:
                if time.monotonic() - away > self._patience:
                    self._failure = PipelineError(f"the broker is away: {error or type(error).__name__}")
                    return
                self._quiet = 0
                self._over.wait(_PAUSE)
            except BaseException as error:
                self._failure = error
                return

    def _follow(self, link: Link) -> None:
        """What the spool has no room for is kept unconfirmed: the broker then holds back what comes behind it."""
        held = list[Arrival]()
        while not self._over.is_set() and len(held) <= _HELD:  # of what is not to be confirmed all would come
            began = time.monotonic()
            arrivals = link.receive(_LOOK)
            held += arrivals
            written = held[: self._spool.append([arrival.message for arrival in held])]
            if written:
                link.confirm(written)
                del held[: len(written)]
            self._connected = True  # not before: a broker may take connections and end each of them at once
            still = not arrivals and time.monotonic() - began > _WHOLE * _LOOK
            self._quiet = self._quiet + 1 if still else 0
        self._over.wait(_PAUSE)  # what comes and need not be confirmed may come as fast again
