"""``pipeline status``: the batches of an output folder, and what became of its streams, out of the journal."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from signalbook.pipeline.journal import Journal, store_errors
from signalbook.pipeline.places import Place, Where
from signalbook.pipeline.reports.report import Report, Tally
from signalbook.pipeline.sources import spool
from signalbook.pipeline.tables.table_names import escape
from signalbook.values import JSONObject, digest, format_timestamp

STREAMS: Final = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The batches of one stream together. ``last`` is the id of the newest, ``finished`` when that was committed.

    ``full`` means that its spool is full until some messages have landed.
    """

    name: str
    batches: int
    tally: Tally
    last: str
    finished: datetime | None
    full: bool = False

    def to_json(self) -> JSONObject:
        """Return the JSON of ``pipeline status --json``."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The commits of an output folder: the report of each batch, by its id, and the streams, by name."""

    reports: list[Report]
    streams: list[StreamState]


def status(output: Where) -> Status:
    """Return the committed batches of an output folder, and its streams. Raises ``PipelineError``."""
    journal = Journal.open_existing(output)
    reports, streams = list[Report](), dict[str, StreamState]()
    for batch in journal.iterate_committed():
        report = batch.report()
        reports.append(report)
        if batch.stream:
            state = streams.get(batch.stream) or _build_initial_state(journal, batch.stream)
            state.tally.add(report.tally)
            streams[batch.stream] = replace(state, batches=state.batches + 1, last=batch.id, finished=batch.finished)
    return Status(reports=reports, streams=[streams[name] for name in sorted(streams)])


def _build_initial_state(journal: Journal, name: str) -> StreamState:
    with store_errors(journal.output):
        full = is_full(journal, name)
    return StreamState(name=name, batches=0, tally=Tally(), last="", finished=None, full=full)


def find_place(journal: Journal, name: str) -> Place:
    """Return the place in the output for a stream's irreplaceable state."""
    return journal.output / STREAMS / escape(name)


def find_home(journal: Journal, name: str) -> Path:
    """Return the folder for a stream's files that Spark needs in a file system.

    It is in the output, or on this machine if the output is in a store. If it is lost, it is rebuilt from the journal.
    """
    folder = find_place(journal, name).folder
    if folder is None:
        folder = _find_state_folder() / digest(str(journal.output).encode())[:16] / STREAMS / escape(name)
    return folder


def _find_state_folder() -> Path:
    """Return the folder of this machine for the state of programs."""
    configured = os.environ.get("SIGNALBOOK_STATE")
    if configured:
        return Path(configured).absolute()
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser().absolute() / "signalbook"


def is_full(journal: Journal, name: str) -> bool:
    """Return True if a stream's spool is full. Raises ``OSError``."""
    return spool.is_full(find_place(journal, name) / spool.RECEIVED)
