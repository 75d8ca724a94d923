"""``pipeline status``: report the committed batches of an output folder and the state of its streams."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from signalbook.pipeline.journal import Journal, store_errors
from signalbook.pipeline.places import Place, Where
from signalbook.pipeline.report import Report, Tally
from signalbook.pipeline.sources import spool
from signalbook.pipeline.table_names import escape
from signalbook.values import JSONObject, digest, format_timestamp

STREAMS: Final = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The totals of all batches of one stream. ``last`` is the id of the newest batch, ``finished`` its commit time.

    ``full`` means that the stream's spool is full: it receives no messages until some have landed.
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
    """The state of an output folder: the reports of its batches in the order of their ids, and its streams by name."""

    reports: list[Report]
    streams: list[StreamState]


def status(output: Where) -> Status:
    """Return the committed batches of ``output``, and its streams.

    Raises ``PipelineError`` if ``output`` is not an output folder of the pipeline, or cannot be read.
    """
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
    """Return the place in the output for the state of the stream ``name`` that cannot be rebuilt if it is lost."""
    return journal.output / STREAMS / escape(name)


def find_home(journal: Journal, name: str) -> Path:
    """Return the folder for the files of the stream ``name`` that Spark needs in a file system, such as the checkpoint.

    The folder is in the output, or on this machine if the output is in a store. If it is lost, it is rebuilt from the
    journal.
    """
    folder = find_place(journal, name).folder
    if folder is None:
        folder = _find_state_folder() / digest(str(journal.output).encode())[:16] / STREAMS / escape(name)
    return folder


def _find_state_folder() -> Path:
    """Return the folder for the state of Signalbook on this machine."""
    configured = os.environ.get("SIGNALBOOK_STATE")
    if configured:
        return Path(configured).absolute()
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser().absolute() / "signalbook"


def is_full(journal: Journal, name: str) -> bool:
    """Return True if the spool of the stream ``name`` is full. Raises ``OSError`` if it cannot be read."""
    return spool.is_full(find_place(journal, name) / spool.RECEIVED)
