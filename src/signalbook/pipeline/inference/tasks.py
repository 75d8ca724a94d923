"""The two passes of a draft, as Spark's workers run them: look at one half of the messages, then try it on the other.

Which half a message is in depends on where it lies and on nothing else, so that both passes cut alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import pyarrow as pa

from signalbook.messages import Contract, Message, Outcome, Policy, Rejected
from signalbook.pipeline.inference.observing import Observations, kinds
from signalbook.pipeline.snapshot import Snapshot
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import Split, UnreadableMessage
from signalbook.pipeline.violations import kind

PLAN: Final = "plan.msgpack"
RESULT: Final = "result binary"
MOST_NAMES: Final = 200
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every task needs to know.

    ``limit`` is the most messages a task looks at, 0 for all; ``kinds`` are the keys of kinds that a draft defines.
    """

    source: str
    tasks: tuple[tuple[Split, ...], ...]
    header: str = ""
    limit: int = 0
    kinds: tuple[str, ...] = ()


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
    """What became of held-back messages: how many were tried and how many accepted, reasons of the others.

    ``unseen`` are those of kinds that the draft cannot define, since none was in the first half, by name: they are not
    tried. Beyond ``MOST_NAMES`` of either they are counted under ``OTHERS``.
    """

    tried: int = 0
    accepted: int = 0
    reasons: dict[str, int] = {}
    unseen: dict[str, int] = {}

    def merge(self, other: Trial) -> None:
        """Add the counts of ``other``."""
        self.tried += other.tried
        self.accepted += other.accepted
        for mine, theirs in ((self.reasons, other.reasons), (self.unseen, other.unseen)):
            for name, number in theirs.items():
                _count(mine, name, number)

    def judge(self, outcomes: Iterable[Outcome]) -> None:
        """Count a message by what became of it."""
        refused = next((each for each in outcomes if isinstance(each, Rejected)), None)
        self.tried += 1
        if refused is None:
            self.accepted += 1
        else:
            _count(self.reasons, _reason(refused))

    def pass_over(self, name: str) -> None:
        """Count a message of a kind never seen."""
        _count(self.unseen, name)


def _count(counts: dict[str, int], name: str, number: int = 1) -> None:
    known = name if name in counts or len(counts) < MOST_NAMES else OTHERS
    counts[known] = counts.get(known, 0) + number


def _reason(refused: Rejected) -> str:
    """Why a message was refused: the reason, and for a schema the rule, the place and the definition."""
    if not refused.violations:
        return str(refused.reason)
    path, rule = kind(refused.violations[0].path, refused.violations[0].rule)
    return f"{refused.reason}: {rule} at {path or '/'}"


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
    known = frozenset(plan.kinds)
    found = Trial()
    for message, second in messages(plan, number):
        held = kinds(message, plan.header) if message is not None and second else {}
        unseen = [name for key, name in held.items() if key not in known]
        if unseen:
            found.pass_over(unseen[0])
        elif held and message is not None:
            found.judge(contract.process(message))
    return found


def messages(plan: Plan, number: int) -> Iterator[tuple[Message | None, bool]]:
    """A task's messages, None for what is none, and whether they are of the second half."""
    source = base.file_source(plan.source)
    seen = 0
    for split in plan.tasks[number]:
        for frame in source.read(split):
            for index in range(len(frame)):
                if 0 < plan.limit <= seen:
                    return
                seen += 1
                second = bool(crc32(b"%d" % frame.positions[index]) & 1)
                try:
                    yield source.message(frame, index), second
                except UnreadableMessage:
                    yield None, second


@cache
def _contract(snapshot: str) -> Contract:
    return Snapshot.from_json(Path(snapshot).read_bytes()).compile(Policy())
