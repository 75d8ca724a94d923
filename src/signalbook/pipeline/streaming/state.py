"""What became of streams, out of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from signalbook.pipeline.journal import Journal
from signalbook.pipeline.report import Tally
from signalbook.values import JSONObject, format_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """All batches of one stream together; ``last`` is the id of the newest, ``finished`` when that was committed."""

    name: str
    batches: int
    tally: Tally
    last: str
    finished: datetime | None

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
            )
    return [found[name] for name in sorted(found)]
