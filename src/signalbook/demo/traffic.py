"""Files of deliveries with a known number of seeded faults, and the ledger of what must become of each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

from signalbook.values import JSONObject


class SeededFault(StrEnum):
    """A kind of seeded fault; the value is how it is shown to people."""

    WRONG_TYPE = "wrong type"
    MISSING_FIELD = "missing field"
    UNKNOWN_EVENT = "unknown event"
    BROKEN_JSON = "broken JSON"
    BAD_SOURCE = "bad source"


# The dead-letter reason (messages.Reason) that every fault of a kind must end with in an event.
REASONS: Final = {
    SeededFault.WRONG_TYPE: "schema_violation",
    SeededFault.MISSING_FIELD: "schema_violation",
    SeededFault.UNKNOWN_EVENT: "unknown_kind",
    SeededFault.BROKEN_JSON: "decode_error",
    SeededFault.BAD_SOURCE: "metadata_violation",
}


def spoil(payload: JSONObject, fault: SeededFault | None) -> Iterator[JSONObject]:
    """Yield copies of ``payload``, each with one top-level member of a wrong type, or without it, by ``fault``.

    Yield the payload itself for other faults. The action stays: it says which definition is meant.
    """
    for name, member in payload.items():
        if fault is SeededFault.WRONG_TYPE and name != "action" and isinstance(member, (dict, list, str)):
            yield {**payload, name: -0.5}
        if fault is SeededFault.MISSING_FIELD and name != "action":
            yield {key: value for key, value in payload.items() if key != name}
    if fault not in (SeededFault.WRONG_TYPE, SeededFault.MISSING_FIELD):
        yield payload


def cut(text: bytes, fault: SeededFault | None) -> bytes:
    """Return JSON text, cut off in the middle if that is the ``fault``."""
    return text[: len(text) // 2] if fault is SeededFault.BROKEN_JSON else text


Place = tuple[str, int]
"""Where a message was read: a file and a byte offset, or a partition of a topic and an offset."""

# Stands in a template for the id that makes each delivery its own.
TOKEN: Final = "@@DELIVERY@@"  # noqa: S105  no secret
_PARTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTemplate:
    """A line of traffic without its id, and its expected outcome.

    ``definition`` is the xid of the intended message, whose table it must land in. With a ``reason`` it must become a
    dead letter; ``fault`` is the kind of the seeded fault (None for a payload that conforms, or never did).
    """

    line: bytes
    definition: str
    reason: str = ""
    fault: SeededFault | None = None

    def write(self, number: int) -> bytes:
        """Return the line with an id that is distinct for each ``number`` below 2**48: a GUID as GitHub sends it."""
        # Multiplying by Knuth's constant makes the ids of neighbours look different.
        guid = b"%08x-%04x-4000-8000-%012x" % (number * 2654435761 % 2**32, number % 2**16, number)
        return self.line.replace(TOKEN.encode(), guid)


@dataclass(slots=True, kw_only=True)
class TrafficLedger:
    """The written traffic; ``due`` is the xid of the message whose table each line must land in, or a reason."""

    due: dict[Place, str] = field(default_factory=dict)
    seeded: Counter[SeededFault] = field(default_factory=Counter)
    nonconforming: int = 0
    bytes: int = 0

    def enter(self, place: Place, template: TrafficTemplate) -> None:
        """Note one message."""
        self.due[place] = template.reason or template.definition
        if template.fault is not None:
            self.seeded[template.fault] += 1
        elif template.reason:
            self.nonconforming += 1


def make_plan(
    sound: Sequence[TrafficTemplate], faulty: Sequence[TrafficTemplate], count: int, faults_of_each_kind: int, seed: int
) -> list[TrafficTemplate]:
    """Return ``count`` templates in a random order, the same for the same ``seed``.

    Of each kind of fault in ``faulty`` exactly ``faults_of_each_kind`` are strewn in. ``sound`` templates that carry a
    reason are real payloads that do not conform; they take their share like the others.
    """
    random = Random(seed)  # noqa: S311 - reproducible test traffic, nothing secret
    plan: list[TrafficTemplate] = []
    for kind in SeededFault:
        templates = [template for template in faulty if template.fault is kind]
        plan += random.choices(templates, k=faults_of_each_kind if templates else 0)
    plan += random.choices(sound, k=count - len(plan))
    random.shuffle(plan)
    return plan


def write(folder: Path, plan: Sequence[TrafficTemplate]) -> TrafficLedger:
    """Write a line for each template of ``plan`` to JSON-lines files in ``folder``, which must not exist."""
    folder.mkdir(parents=True)
    ledger = TrafficLedger()
    size = -(-len(plan) // _PARTS)
    for first in range(0, len(plan), size):
        path = folder / f"deliveries-{first // size}.jsonl"
        with path.open("wb") as file:
            for number, template in enumerate(plan[first : first + size], start=first):
                ledger.enter((str(path), file.tell()), template)
                ledger.bytes += file.write(template.write(number) + b"\n")
    return ledger
