"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from signalbook.errors import SignalbookError


class NotWritten(SignalbookError):
    """A file could not be written; what was there before still is."""


def write_whole(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: into a file beside it first, which then takes its place. Raises ``NotWritten``."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise NotWritten(f"{path}: cannot be written: {error.strerror}") from None
