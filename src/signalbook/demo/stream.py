"""The stream of the demonstration: ``signalbook pipeline stream``, as anyone starts it, beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Final

from signalbook.demo.check import DemoFailed
from signalbook.demo.program import end, keep
from signalbook.values import JSONObject

COMMAND: Final = "signalbook pipeline stream --job job.toml"
_TAIL: Final = 2000


class Stream:
    """A stream under way, by what it writes into the files ``stream.jsonl`` and ``stream.log`` of a folder."""

    def __init__(self, folder: Path, process: Popen[bytes]) -> None:
        self._process = process
        self._reports = (folder / "stream.jsonl").open("rb")
        self._log = folder / "stream.log"

    def news(self) -> Iterator[JSONObject]:
        """The reports of batches that were committed since this was asked last. Raises ``DemoFailed``."""
        ended = self._process.poll() is not None
        while True:
            place = self._reports.tell()
            line = self._reports.readline()
            if not line.endswith(b"\n"):
                self._reports.seek(place)
                break
            yield json.loads(line)
        if ended:
            said = self._log.read_text(errors="replace")[-_TAIL:].strip()
            raise DemoFailed(f"the stream ended by itself; it said:\n{said}")

    def close(self) -> None:
        """End it, after the batch at work."""
        end(self._process)
        self._reports.close()


@contextmanager
def streaming(job: Path) -> Iterator[Stream]:
    """The stream of a job file, until the end of the block."""
    folder = job.parent
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--job", job.name, "--json"]
    with (folder / "stream.jsonl").open("wb") as out, (folder / "stream.log").open("wb") as log:
        stream = Stream(folder, keep(command, folder, out, log))
    try:
        yield stream
    finally:
        stream.close()


def job(url: str, groups: tuple[str, ...], address: str, output: Path, jars: Path, master: str) -> str:
    """A job file for a topic: ten lines."""
    told: dict[str, object] = {
        "registry": url,
        "groups": list(groups),
        "inputs": [address],
        "output": str(output.absolute()),
        "jars": [str(jars)],
        "master": master,
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in told.items()]
    return "\n".join([*lines, "", "[stream]", 'name = "live"', "interval = 1", ""])
