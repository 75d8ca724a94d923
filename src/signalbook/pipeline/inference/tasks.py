"""The two passes of a draft, as Spark's workers run them: look at one half of the messages, then try it on the other.

Which half a message is in depends on where it lies and on nothing else, so that both passes cut alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import pyarrow as pa

from signalbook.messages import Contract, Message, Policy, Rejected
from signalbook.pipeline.inference.observing import Observations
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import registry
from signalbook.pipeline.sources.base import Split, Unreadable

PLAN: Final = "plan.msgpack"
RESULT: Final = "result binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every task needs to know. ``limit`` is the most messages a task looks at, 0 for all."""

    source: str
    tasks: tuple[tuple[Split, ...], ...]
    header: str = ""
    limit: int = 0


class Halves(msgspec.Struct):
    """What was seen in each half, and how many messages could not be read."""

    first: Observations = msgspec.field(default_factory=Observations)
    second: Observations = msgspec.field(default_factory=Observations)
    unreadable: int = 0

    def merge(self, other: Halves) -> None:
        """Add what ``other`` saw."""
        self.first.merge(other.first)
        self.second.merge(other.second)
        self.unreadable += other.unreadable


class Trial(msgspec.Struct):
    """What became of held-back messages: how many, and how many of them were accepted; reasons of the others."""

    tried: int = 0
    accepted: int = 0
    reasons: dict[str, int] = {}

    def merge(self, other: Trial) -> None:
        """Add the counts of ``other``."""
        self.tried += other.tried
        self.accepted += other.accepted
        self.reasons = dict(Counter(self.reasons) + Counter(other.reasons))


Work = Callable[[Plan, int], msgspec.Struct]


def run(folder: str, work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow``: task numbers in, what ``work`` found out, in MessagePack, for each."""
    plan = msgspec.msgpack.decode((Path(folder) / PLAN).read_bytes(), type=Plan)
    for batch in batches:
        found = [msgspec.msgpack.encode(work(plan, number)) for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"result": pa.array(found, pa.binary())})


def look(plan: Plan, number: int) -> Halves:
    """Both halves of a task's messages."""
    found = Halves()
    for message, second in messages(plan, number):
        if message is None:
            found.unreadable += 1
        else:
            (found.second if second else found.first).take(message, plan.header)
    return found


def attempt(snapshot: str, plan: Plan, number: int) -> Trial:
    """The second half of a task's messages, held to the definitions in the file ``snapshot``."""
    contract = _contract(snapshot)
    found, reasons = Trial(), Counter[str]()
    for message, second in messages(plan, number):
        if message is not None and second:
            refused = [outcome for outcome in contract.process(message) if isinstance(outcome, Rejected)]
            found.tried += 1
            found.accepted += not refused
            reasons.update(str(outcome.reason) for outcome in refused[:1])
    found.reasons = dict(reasons)
    return found


def messages(plan: Plan, number: int) -> Iterator[tuple[Message | None, bool]]:
    """A task's messages, None for what is none, and whether they are of the second half."""
    source = registry.files(plan.source)
    seen = 0
    for split in plan.tasks[number]:
        for frame in source.frames(split):
            for index in range(len(frame)):
                if 0 < plan.limit <= seen:
                    return
                seen += 1
                second = bool(crc32(b"%d" % frame.positions[index]) & 1)
                try:
                    yield source.message(frame, index), second
                except Unreadable:
                    yield None, second


@cache
def _contract(snapshot: str) -> Contract:
    return Snapshot.from_json(Path(snapshot).read_bytes()).compile(Policy())
