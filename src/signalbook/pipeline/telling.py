"""Who else is told of batches: Prometheus, by a file or over HTTP, and a registry that keeps their history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from signalbook.pipeline.audience import Audience
from signalbook.pipeline.commit.journal import Journal
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.posting import Posts
from signalbook.pipeline.reports.metrics import Metrics
from signalbook.xid import XidError, check_id

_NO_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]", re.ASCII)
_NO_START: Final = re.compile(r"^[^A-Za-z0-9_]+", re.ASCII)
_LONGEST: Final = 128


Tell = Callable[[str], None]


@contextmanager
def telling(output: Path, audience: Audience, tell: Tell) -> Iterator[Callable[[], None]]:
    """Something to call after each batch, which tells everybody. It never raises: ``tell`` takes what went wrong.

    Raises ``PipelineError`` and ``SignalbookError`` for an audience that cannot be.
    """
    if not (audience.to or audience.metrics_file or audience.metrics_port):
        yield lambda: None
        return
    name = _name(output, audience)
    journal = Journal.open(output.absolute())
    with ExitStack() as opened:
        told: list[Callable[[], None]] = []
        if audience.metrics_file or audience.metrics_port:
            told.append(_exposed(journal, name, audience, tell, opened))
        if audience.to:
            posts = Posts(journal, audience.to, name, tell)
            opened.callback(posts.close)
            told.append(posts.send)

        def everybody() -> None:
            for each in told:
                each()

        yield everybody


def exposition(output: Path, name: str = "") -> bytes:
    """The text exposition of all batches of an output folder. Raises ``PipelineError``."""
    found = Metrics(_name(output, Audience(name=name)))
    _refresh(found, Journal.existing(output), set())
    return found.text()


def _exposed(journal: Journal, name: str, audience: Audience, tell: Tell, opened: ExitStack) -> Callable[[], None]:
    found, known = Metrics(name), set[str]()
    _refresh(found, journal, known)
    if audience.metrics_port:
        opened.callback(found.serve(audience.metrics_host, audience.metrics_port).close)

    def refresh() -> None:
        try:
            _refresh(found, journal, known)
            if audience.metrics_file:
                found.write(Path(audience.metrics_file))
        except PipelineError as error:
            tell(f"metrics: {error}")

    return refresh


def _refresh(found: Metrics, journal: Journal, known: set[str]) -> None:
    """Count the batches that were committed since."""
    for name in journal.news(known):
        batch = journal.entry(name)
        known.add(name)
        if not batch.compaction:
            found.add(batch.report())


def _name(output: Path, audience: Audience) -> str:
    """The pipeline's name: an id, since that is what a registry calls it by. Raises ``PipelineError``."""
    try:
        return check_id(audience.name or _default(output.absolute().name))
    except XidError as error:
        raise PipelineError(f"the name of the pipeline, {audience.name!r}: {error}; give another") from None


def _default(folder: str) -> str:
    """The id that is nearest to the name of a folder."""
    return _NO_START.sub("", _NO_ID.sub("-", folder))[:_LONGEST] or "pipeline"
