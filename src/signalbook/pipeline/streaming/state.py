"""What became of streams, out of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from signalbook.pipeline.journal import Journal
from signalbook.pipeline.naming import escape
from signalbook.pipeline.report import Tally
from signalbook.pipeline.sources import spool
from signalbook.values import JSONObject, format_timestamp

STREAMS: Final = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """All batches of one stream together; ``last`` is the id of the newest, ``finished`` when that was committed.

    ``full`` says that its folder takes no more of what its broker has until some of it is landed.
    """

    name: str
    batches: int
    tally: Tally
    last: str
    finished: datetime | None
    full: bool = False

    def to_json(self) -> JSONObject:
        """As ``pipeline status --json`` prints it."""
        tally = self.tally
        return {
            "stream": self.name,
            "batches": self.batches,
            "read": tally.read,
            "landed": tally.landed.total(),
            "dead_lettered": tally.dead_lettered,
            "dropped": tally.dropped,
            "last": self.last,
            **({"finished": format_timestamp(self.finished)} if self.finished else {}),
            **({"full": True} if self.full else {}),
        }


def streams(journal: Journal) -> list[StreamState]:
    """The streams that landed something in an output folder, by name. Raises ``PipelineError``."""
    found: dict[str, StreamState] = {}
    for batch in journal.committed():
        if batch.stream:
            before = found.get(batch.stream)
            tally = Tally() if before is None else before.tally
            tally.add(batch.tally)
            found[batch.stream] = StreamState(
                name=batch.stream,
                batches=1 if before is None else before.batches + 1,
                tally=tally,
                last=batch.id,
                finished=batch.finished,
                full=is_full(journal, batch.stream) if before is None else before.full,
            )
    return [found[name] for name in sorted(found)]


def home(journal: Journal, name: str) -> Path:
    """Where a stream keeps what it has to know of itself."""
    return journal.output / STREAMS / escape(name)


def is_full(journal: Journal, name: str) -> bool:
    """Whether a stream's folder takes no more for now."""
    return spool.is_full(home(journal, name) / spool.RECEIVED)
