"""Runs a program until its own input ends: what was started goes with who started it, even if that is killed.

It is to be started in a session of its own: a program that does not end in time is killed with all that it made, and
with this one, which are its group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Final

_TIMEOUT_SECONDS: Final = 120.0


def _stop_at_end_of_input(program: subprocess.Popen[bytes]) -> None:
    os.read(0, 1)  # not by sys.stdin: its lock would still be held when the program, and then this, ends by itself
    program.terminate()
    try:
        program.wait(_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    kept = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    threading.Thread(target=_stop_at_end_of_input, args=(kept,), daemon=True).start()
    sys.exit(kept.wait())
