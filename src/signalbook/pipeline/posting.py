"""Reports on their way to a registry: each batch of the journal once, in order, whenever the registry can be reached.

What was sent is written down beside the journal. A program that dies in between sends a report again, which the
registry knows by its batch; nothing is lost, since what the journal has and that file has not is still to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from signalbook.client import Client, Refused
from signalbook.errors import SignalbookError
from signalbook.pipeline.commit.journal import Journal
from signalbook.pipeline.errors import PipelineError
from signalbook.values import digest

FOLDER: Final = "reports"
# Reports sent at a time; a registry that hears of a pipeline for the first time gets no more of its past.
_MOST: Final = 1000
_TIMEOUT: Final = 5.0
_PAUSE: Final = 30.0
# It is no report, or too large for what stands before the registry: sending it again will not help.
_FINAL: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class Posts:
    """The reports of an output folder for the pipeline ``name`` of the registry at ``url``.

    ``tell`` is told what is wrong, once until it is right again; a registry that does not answer is left alone for
    ``pause`` seconds, and one that hears of the pipeline late gets the newest ``most``. Raises ``SignalbookError`` for
    what is no URL.
    """

    def __init__(
        self,
        journal: Journal,
        url: str,
        name: str,
        tell: Callable[[str], None],
        *,
        pause: float = _PAUSE,
        most: int = _MOST,
    ) -> None:
        self._client = Client(url, timeout=_TIMEOUT, attempts=1)
        self._journal = journal
        self._url = url
        self._name = name
        self._tell = tell
        self._said = ""
        self._next = 0.0
        self._pause = pause
        self._most = most
        self._sent = journal.output / FOLDER / f"{digest(f'{url} {name}'.encode())}.sent"
        self._known = _lines(self._sent)

    def send(self) -> None:
        """Send what is to be sent. Never raises: what cannot be sent now stays for the next time."""
        if time.monotonic() < self._next:
            return
        try:
            self._send_all()
            self._said = ""
        except (SignalbookError, OSError) as error:
            # a stream must not wait for an absent registry with every batch
            self._next = time.monotonic() + self._pause
            self._say(f"reports wait to be sent to {self._url}: {error}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send_all(self) -> None:
        news = self._journal.news(self._known)
        self._note(*news[: -self._most])
        for name in news[-self._most :]:
            batch = self._journal.entry(name)
            if not batch.compaction:
                self._send(batch.id, batch.report().to_json())
            self._note(name)

    def _send(self, batch: str, report: dict[str, object]) -> None:
        try:
            self._client.pipelines.add(self._name, report)
        except Refused as error:
            if error.status not in _FINAL:
                raise
            self._tell(f"the report of batch {batch} was refused by {self._url} and is not sent again: {error}")

    def _note(self, *names: str) -> None:
        if names:
            self._sent.parent.mkdir(exist_ok=True)
            with self._sent.open("a") as file:
                file.write("".join(f"{name}\n" for name in names))
            self._known.update(names)

    def _say(self, words: str) -> None:
        if words != self._said:
            self._tell(words)
        self._said = words


def _lines(path: Path) -> set[str]:
    try:
        return set(path.read_text().splitlines())
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise PipelineError(f"cannot read {path}: {error.strerror}") from error
