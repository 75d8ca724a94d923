"""Tasks that fail. They are not in the module of their tests, because the processes that run them import only this."""

import os
import signal
from collections.abc import Iterable, Iterator

from signalbook.pipeline import PipelineError


def fail(numbers: Iterable[int]) -> Iterator[bytes]:
    raise LookupError(f"nothing for {list(numbers)}")


def raise_own(numbers: Iterable[int]) -> Iterator[bytes]:
    raise PipelineError(f"cannot read {list(numbers)}")


def die(numbers: Iterable[int]) -> Iterator[bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield b""
