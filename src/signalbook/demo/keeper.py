"""Runs a program until its own input ends: what was started goes with who started it, even if that is killed."""

from __future__ import annotations

import subprocess
import sys
import threading


def _stop_at_end_of_input(program: subprocess.Popen[bytes]) -> None:
    sys.stdin.buffer.read()
    program.terminate()
    try:
        program.wait(20)
    except subprocess.TimeoutExpired:
        program.kill()


if __name__ == "__main__":
    kept = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    threading.Thread(target=_stop_at_end_of_input, args=(kept,), daemon=True).start()
    sys.exit(kept.wait())
