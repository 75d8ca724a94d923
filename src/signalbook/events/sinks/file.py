"""Write events to files of JSON lines in the operator's folder. An event counts as delivered when the disk has it."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from signalbook import values
from signalbook.events.sinks.base import DeliveryError, SinkPolicy, make_setting_error
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

FILE: Final = "FILE"
# Neither dots nor hidden files: such a path cannot lead out of the folder.
_SINK: Final = re.compile(r"file:(?:///)?((?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/){0,8}[A-Za-z0-9_][A-Za-z0-9._-]{0,99})")
_LEAST: Final = 1024
_TAIL: Final = 64 * 1024


class FileSinkFactory:
    """Opens files as sinks, for the protocol ``FILE``.

    The sink ``file:NAME`` is a path in the operator's folder. When a file would exceed the setting ``maxbytes``, a new
    file is begun.
    """

    protocols = (FILE,)

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Raise ``SubscriptionError`` if no folder is set, or if sink, settings or credential are invalid."""
        if not policy.folder:
            raise SubscriptionError("/protocol: this server writes no files: signalbook serve --sink-folder FOLDER")
        if not _SINK.fullmatch(subscription.sink):
            raise SubscriptionError(
                "/sink: it takes file:NAME, a path below the folder for sinks, such as file:a.jsonl"
            )
        if subscription.credential is not None:
            raise SubscriptionError("/sinkcredential: files take none")
        _read_max_bytes(subscription.protocolsettings)

    def open(self, subscription: Subscription, policy: SinkPolicy) -> _FileSink:
        """Return a sink for the file, which is opened and locked by the first ``send``. Raises ``DeliveryError``."""
        try:
            self.check(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        match = _SINK.fullmatch(subscription.sink)
        assert match is not None
        return _FileSink(Path(policy.folder) / match[1], _read_max_bytes(subscription.protocolsettings))


class _FileSink:
    """A file as a sink, for one thread at a time. A lock keeps other sinks from writing to the same file."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file: int | None = None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Append all events or none, and wait until the disk has them. Raises ``DeliveryError``."""
        lines = b"".join(dump_json(event) + b"\n" for event in events)
        try:
            file = self._open_file()
            size = os.fstat(file).st_size
            if self._max_bytes and size and size + len(lines) > self._max_bytes:
                file, size = self._begin_next_file(), 0
            self._append(file, size, lines)
        except OSError as error:
            self.close()
            raise DeliveryError(f"{self._path.name} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file, which also releases its lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _append(self, file: int, size: int, lines: bytes) -> None:
        try:
            remaining = memoryview(lines)
            while remaining:
                remaining = remaining[os.write(file, remaining) :]
            os.fsync(file)
        except OSError:
            # All or none: a full disk may have taken some of the lines, whose events are delivered again.
            with suppress(OSError):
                os.ftruncate(file, size)
            raise

    def _open_file(self) -> int:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Do not follow a symbolic link, which somebody may have created to have another file written.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o640)
            try:
                # Two servers, or two subscriptions of one file, would write into each other's lines.
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise DeliveryError(f"another sink writes to {self._path.name}") from None
            _repair_end(self._file)
            _sync_folder(self._path.parent)
        return self._file

    def _begin_next_file(self) -> int:
        """Rename the current file, with the time as a part of its name, and begin a new file."""
        stamp = values.now().strftime("%Y%m%dT%H%M%S%f")
        self._path.rename(self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
        self.close()
        return self._open_file()


FACTORY: Final = FileSinkFactory()


def _repair_end(file: int) -> None:
    """Remove an incomplete last line that a crash left. It was not acknowledged, so its event is delivered again."""
    size = os.fstat(file).st_size
    while size:
        begin = max(0, size - _TAIL)
        end = os.pread(file, size - begin, begin).rfind(b"\n") + 1
        if end:
            os.ftruncate(file, begin + end)
            return
        size = begin
    os.ftruncate(file, 0)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_max_bytes(settings: JSONObject) -> int:
    unknown = sorted(set(settings) - {"maxbytes"})
    if unknown:
        raise make_setting_error(unknown[0], "FILE has no such setting; there is maxbytes")
    value: Any = settings.get("maxbytes", 0)
    if not isinstance(value, int) or isinstance(value, bool) or (value and value < _LEAST):
        raise make_setting_error("maxbytes", f"it is a number of bytes, from {_LEAST}")
    return value
