"""Locks that keep other programs out of an output: a lock of the file system, or a lease for an output in a store.

A lease is an object that its holder changes repeatedly. A program that sees it unchanged for ``TERM`` seconds takes it
over, so that no clocks are compared. A holder that was a process of this machine, and is dead, is replaced at once. A
holder that was delayed for longer than ``TERM`` may have lost the lease. It must call ``check`` before steps that
cannot be undone.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place

TERM: Final = 30.0
"""The time in seconds after which a lease that is not renewed ends."""


class Lock(ABC):
    """A lock that one program at a time can hold. Methods raise ``OSError``."""

    pause = 0.1
    """The time in seconds to wait between two attempts to take the lock."""

    @abstractmethod
    def take(self) -> bool:
        """Try to take the lock without waiting, and return True on success."""

    @abstractmethod
    def can_become_free(self) -> bool:
        """Return True if the lock may become free soon: its holder shows no sign of life."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock, if this program holds it."""

    @abstractmethod
    def check(self, note: str | None = None) -> None:
        """Raise ``PipelineError`` if this program has lost the lock.

        Store ``note`` for the next holder, unless it is None.
        """

    @abstractmethod
    def is_held(self) -> bool:
        """Return True if this program holds the lock and no other program can have taken it over."""

    @property
    def note(self) -> str:
        """The note of the previous holder."""
        return ""

    @property
    def holder(self) -> str:
        """A description of the current holder; empty if it is unknown."""
        return ""


def lock_of(place: Place) -> Lock:
    """Return the lock that the file or object at ``place`` represents."""
    return Lease(place) if place.folder is None else FolderLock(place.folder)


def lock_file(lock: BinaryIO | int) -> bool:
    """Try to lock an open file, and return True on success.

    The lock ends when the file is closed or the process ends.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class FolderLock(Lock):
    """A lock of the file system. It ends with the process that holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def take(self) -> bool:
        """Open and lock the file. Return False if another process holds the lock, or has just removed the file."""
        file = self._path.open("ab")
        # The previous holder may have removed the file together with an output that got no batch. Other processes then
        # lock a new file.
        if not (lock_file(file) and self._is_there(file)):
            file.close()
            return False
        self._file = file
        return True

    def _is_there(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def can_become_free(self) -> bool:
        """Return False, because the lock of a dead process ends at once."""
        return False

    def release(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def check(self, note: str | None = None) -> None:
        """Do nothing: a file lock is never lost."""

    def is_held(self) -> bool:
        """Return True if the lock was taken."""
        return self._file is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The content of a lease. An empty ``token`` means no holder; ``count`` makes each write different."""

    token: str = ""
    owner: str = ""
    machine: str = ""
    process: int = 0
    count: int = 0
    note: str = ""


class Lease(Lock):
    """The lease at ``place``. ``clock`` returns seconds of a clock that never goes backwards.

    Methods raise ``PipelineError``, too, if the content of the object cannot be read as a lease.
    """

    pause = 1.0

    def __init__(self, place: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        self._mine: _Held | None = None
        self._lost = False
        self._renewed = 0.0
        self._found = ""
        # The last seen content with another holder, the time since when it is unchanged, and the number of changes
        # seen.
        self._seen: _Held | None = None
        self._since = 0.0
        self._moves = 0
        self._over = threading.Event()
        self._turn = threading.Lock()

    def take(self) -> bool:
        """Create the object, or take over the lease if it is free. Return True on success."""
        started = self._clock()
        claim = _Held(token=secrets.token_hex(8), owner=_describe_owner(), machine=_find_machine(), process=os.getpid())
        try:
            content, tag = self._place.read_tagged()
        except FileNotFoundError:
            if not self._place.create(msgspec.json.encode(claim)):
                return False
        else:
            holder = self._decode_holder(content)
            if not self._is_free(holder):
                return False
            # The note is kept, because the batch that it names may be neither listed nor completed yet.
            claim = replace(claim, count=holder.count + 1, note=holder.note)
            if not self._place.swap(msgspec.json.encode(claim), tag):
                return False
        self._mine, self._renewed, self._found = claim, started, claim.note
        self._seen, self._moves, self._lost = None, 0, False
        self._over = threading.Event()
        _LIVE.add(claim.token)
        threading.Thread(target=self._keep_renewing, args=(self._over,), name="lease", daemon=True).start()
        return True

    def can_become_free(self) -> bool:
        """Return True if the lease has not changed since it was first seen, so that its holder may be dead.

        Return False for a holder in this process, which is alive.
        """
        return self._moves == 0 and not (self._seen is not None and self._seen.token in _LIVE)

    def release(self) -> None:
        """Stop renewing the lease, and mark it as free if this program holds it."""
        self._over.set()
        with self._turn:
            mine, self._mine = self._mine, None
            if mine is None:
                return
            _LIVE.discard(mine.token)
            with suppress(OSError):  # a lease that cannot be released ends after ``TERM``
                content, tag = self._place.read_tagged()
                if self._decode_holder(content).token == mine.token:
                    self._place.swap(msgspec.json.encode(_Held(count=mine.count + 1, note=mine.note)), tag)

    def check(self, note: str | None = None) -> None:
        """Renew the lease, with ``note`` unless it is None. Do nothing if the lease was never taken.

        Raises ``PipelineError`` if the lease is lost or could not be renewed.
        """
        with self._turn:
            if self._mine is None and not self._lost:
                return  # it was not taken
            started = self._clock()
            self._renew(note)
            if self._lost or self._renewed < started:
                raise PipelineError(
                    f"another run took {self._place.parent} over while this one was held up; nothing of this batch was "
                    "committed: run it again"
                )

    def is_held(self) -> bool:
        """Return True if this program holds the lease, and renewed it at most half of ``TERM`` ago.

        If the last renewal is longer ago, try to renew the lease first.
        """
        if self._mine is not None and self._clock() - self._renewed > TERM / 2:
            with self._turn:
                self._renew(None)
        return self._mine is not None and self._clock() - self._renewed <= TERM / 2

    @property
    def note(self) -> str:
        """The note that the lease had when it was taken."""
        return self._found

    @property
    def holder(self) -> str:
        """The user, machine and process of the last seen holder; empty if none was seen."""
        return self._seen.owner if self._seen is not None else ""

    def _is_free(self, holder: _Held) -> bool:
        if not holder.token:
            return True
        if holder.machine and holder.machine == _find_machine() and not _is_alive(holder.process):
            return True
        if self._seen is None or (holder.token, holder.count) != (self._seen.token, self._seen.count):
            self._moves += self._seen is not None
            self._seen, self._since = holder, self._clock()
            return False
        return self._clock() - self._since >= TERM

    def _keep_renewing(self, over: threading.Event) -> None:
        """Renew the lease until it is released or lost."""
        while not over.wait(_RENEWAL):
            with self._turn, suppress(OSError):  # the next renewal may succeed
                if over.is_set() or self._mine is None:
                    return
                self._renew(None)

    def _renew(self, note: str | None) -> None:
        """Write the lease again if this program still holds it. If not, mark it as lost."""
        mine = self._mine
        if mine is None:
            return
        started = self._clock()
        content, tag = self._place.read_tagged()
        fresh = replace(mine, count=mine.count + 1, note=mine.note if note is None else note)
        if self._decode_holder(content).token != mine.token:
            _LIVE.discard(mine.token)
            self._mine, self._lost = None, True
        elif self._place.swap(msgspec.json.encode(fresh), tag):
            self._mine, self._renewed = fresh, started

    def _decode_holder(self, content: bytes) -> _Held:
        try:
            return msgspec.json.decode(content, type=_Held)
        except msgspec.DecodeError as error:
            raise PipelineError(
                f"cannot read {self._place}, which says who is at work there: {error}. Remove it while nobody is"
            ) from error


# The tokens of the leases that this process holds: they are known to be alive.
_LIVE: Final = set[str]()
_RENEWAL: Final = TERM / 6


def _describe_owner() -> str:
    return f"{getpass.getuser()} on {socket.gethostname()}, process {os.getpid()}"


@cache
def _find_machine() -> str:
    """Return an identifier of the running kernel and container, within which process ids are unique.

    Empty if it is unknown.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - it points to no path
    except OSError:
        return ""


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
