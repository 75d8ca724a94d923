"""Files of deliveries with a known number of seeded faults, and the ledger of what must become of each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final, Self

from signalbook.values import JSONObject


class SeededFault(StrEnum):
    """A kind of seeded fault; the value is how it is shown to people."""

    WRONG_TYPE = "wrong type"
    MISSING_FIELD = "missing field"
    UNKNOWN_EVENT = "unknown event"
    BROKEN_JSON = "broken JSON"
    BAD_SOURCE = "bad source"


# The dead-letter reason (messages.Reason) every fault of a kind must end with.
REASONS: Final[dict[SeededFault | None, str]] = {
    SeededFault.WRONG_TYPE: "schema_violation",
    SeededFault.MISSING_FIELD: "schema_violation",
    SeededFault.UNKNOWN_EVENT: "no_match",
    SeededFault.BROKEN_JSON: "decode_error",
    SeededFault.BAD_SOURCE: "metadata_violation",
}


def wrong_types(value: JSONObject) -> Iterator[JSONObject]:
    """Copies of ``value``, each with one top-level member turned into a number that nobody declares there."""
    for name, member in value.items():
        # The action says which definition is meant.
        if name != "action" and isinstance(member, (dict, list, str)):
            yield {**value, name: -0.5}


def missing_fields(value: JSONObject) -> Iterator[JSONObject]:
    """Copies of ``value``, each without one top-level member."""
    for name in value:
        if name != "action":
            yield {key: member for key, member in value.items() if key != name}


def broken(text: bytes) -> bytes:
    """JSON text cut off in the middle: no longer JSON."""
    return text[: max(1, len(text) // 2)]


Place = tuple[str, int]
"""Where a message was read: a file and a byte offset, or a partition of a topic and an offset."""

# Stands in a template for the id that makes each delivery its own.
TOKEN: Final = b"@@DELIVERY@@"
_PARTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTemplate:
    """A line of traffic without its id, and its expected outcome.

    ``definition`` is the xid of the intended message. With a ``reason`` it must become a dead letter for that;
    ``fault`` is the kind of the seeded fault (None for a real payload that never conformed to its published schema).
    """

    line: bytes
    definition: str
    reason: str = ""
    fault: SeededFault | None = None

    @classmethod
    def of(cls, line: bytes, definition: str, fault: SeededFault | None, reason: str = "") -> Self:
        """A template with the reason that every ``fault`` of its kind must end with, or with another ``reason``."""
        return cls(line=line, definition=definition, reason=reason or REASONS.get(fault, ""), fault=fault)


@dataclass(slots=True, kw_only=True)
class TrafficLedger:
    """The written traffic and its expected outcome: counts per definition, and the lines that become dead letters.

    ``sidelined`` has the reason by file name and byte offset.
    """

    written: int = 0
    bytes: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    seeded: Counter[SeededFault] = field(default_factory=Counter)
    nonconforming: int = 0
    sidelined: dict[Place, str] = field(default_factory=dict)

    def enter(self, file: str, position: int, template: TrafficTemplate, size: int) -> None:
        """Note one written line; ``position`` is the byte offset it begins at."""
        self.written += 1
        self.bytes += size
        if not template.reason:
            self.landed[template.definition] += 1
            return
        self.sidelined[file, position] = template.reason
        if template.fault is None:
            self.nonconforming += 1
        else:
            self.seeded[template.fault] += 1


def write(
    folder: Path,
    sound: Sequence[TrafficTemplate],
    faulty: Sequence[TrafficTemplate],
    *,
    count: int,
    faults_of_each_kind: int,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> TrafficLedger:
    """Write ``count`` deliveries to JSON-lines files in ``folder`` (made here, must not exist).

    ``sound`` templates that carry a reason are real payloads that do not conform; they take their share like the
    others. Of each kind of fault in ``faulty`` exactly ``faults_of_each_kind`` lines are strewn in. The same ``seed``
    gives the same files. ``progress`` gets the number of lines written since the last call.
    """
    random = Random(seed)  # noqa: S311 - reproducible test traffic, nothing secret
    plan = _plan(sound, faulty, count, faults_of_each_kind, random)
    folder.mkdir(parents=True)
    ledger = TrafficLedger()
    size = -(-len(plan) // _PARTS)
    for part in range(_PARTS):
        chunk = plan[part * size : (part + 1) * size]
        _write_part(folder / f"deliveries-{part}.jsonl", chunk, part * size, ledger)
        progress(len(chunk))
    return ledger


def _plan(
    sound: Sequence[TrafficTemplate],
    faulty: Sequence[TrafficTemplate],
    count: int,
    faults_of_each_kind: int,
    random: Random,
) -> list[TrafficTemplate]:
    plan: list[TrafficTemplate] = []
    for kind in SeededFault:
        templates = [template for template in faulty if template.fault is kind]
        if templates:
            plan += random.choices(templates, k=faults_of_each_kind)
    plan += random.choices(sound, k=count - len(plan))
    random.shuffle(plan)
    return plan


def _write_part(path: Path, chunk: Sequence[TrafficTemplate], first: int, ledger: TrafficLedger) -> None:
    with path.open("wb") as file:
        position = 0
        for number, template in enumerate(chunk, start=first):
            line = template.line.replace(TOKEN, delivery_id(number)) + b"\n"
            file.write(line)
            ledger.enter(path.name, position, template, len(line))
            position += len(line)


def delivery_id(number: int) -> bytes:
    """A GUID of the form GitHub sends, distinct for each ``number`` below 2**48."""
    # Multiplying by Knuth's constant makes the ids of neighbours look different.
    return b"%08x-%04x-4000-8000-%012x" % (number * 2654435761 % 2**32, number % 2**16, number)
