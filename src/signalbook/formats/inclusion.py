"""Whether all values of one type are values of another, for types that contain themselves.

A question asks this of one pair of types. Its answer depends on clauses: faults that can be seen on the spot, and
questions about the parts. Every question is examined once; then those that fail, and those that depend on them, are
refuted until nothing changes. What is left is true, by induction over the size of values, which are finite. There is no
recursion and no guess that has to be taken back, so the work is linear in the number of clauses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from signalbook.formats.base import MAX_FINDINGS, shorten
from signalbook.formats.compatibility import Difference
from signalbook.values import JSON
from signalbook.work import spend

Q = TypeVar("Q", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Clause(Generic[Q]):
    """Holds if one of ``questions`` does: without any it is a fault.

    ``otherwise`` is reported where it does not hold; without it, why the questions were refuted is.
    """

    questions: tuple[Q, ...] = ()
    otherwise: Difference | None = None


class TooMuch(Exception):
    """Comparing takes more steps than are granted."""


def fault(path: str, rule: str, old: JSON, new: JSON, message: str) -> Difference:
    """A difference with a message that people read."""
    return Difference(path=path, rule=rule, old=old, new=new, message=shorten(message))


def undecided(path: str, why: str, old: JSON = None, new: JSON = None) -> Difference:
    """Return the difference that something cannot be decided, with the reason."""
    return fault(path, "undecided", old, new, f"it could not be shown that all that may be written is accepted: {why}")


def too_complex(steps: int) -> Difference:
    """The answer where the work was stopped."""
    message = f"not decided: the schemas are too complex to compare in {steps} steps"
    return fault("", "undecided", None, None, message)


def refutations(start: Iterable[Q], examine: Callable[[Q], list[Clause[Q]]], *, most: int) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` reasons that refute a question of ``start``; none if all hold.

    Beyond ``most`` clauses, and where ``examine`` raises ``TooMuch``, the answer is ``undecided``.
    """
    asked = list(start)
    try:
        clauses = _examined(asked, examine, most)
    except TooMuch:
        return [too_complex(most)]
    refuted = _refuted(clauses)
    if refuted.isdisjoint(asked):
        return []
    return _reasons(asked, clauses, refuted) or [undecided("", "the reason got lost")]


def answers(start: Q, examine: Callable[[Q], list[Clause[Q]]], *, most: int) -> dict[Q, bool]:
    """Return whether ``start`` holds, and so for each question that it depends on. Raises ``TooMuch``."""
    clauses = _examined([start], examine, most)
    refuted = _refuted(clauses)
    return {question: question not in refuted for question in clauses}


def _examined(start: list[Q], examine: Callable[[Q], list[Clause[Q]]], most: int) -> dict[Q, list[Clause[Q]]]:
    clauses: dict[Q, list[Clause[Q]]] = {}
    waiting = deque(start)
    while waiting:
        question = waiting.popleft()
        if question in clauses:
            continue
        clauses[question] = examine(question)
        steps = 1 + sum(1 + len(clause.questions) for clause in clauses[question])
        spend(steps)
        most -= steps
        if most < 0:
            raise TooMuch
        waiting.extend(part for clause in clauses[question] for part in clause.questions)
    return clauses


def _refuted(clauses: dict[Q, list[Clause[Q]]]) -> set[Q]:
    """The questions with a clause that does not hold; each clause counts what is left of its questions."""
    left: list[int] = []
    owners: list[Q] = []
    used: dict[Q, list[int]] = {}
    waiting: list[Q] = []
    for question, parts in clauses.items():
        for clause in parts:
            several = dict.fromkeys(clause.questions)
            for part in several:
                used.setdefault(part, []).append(len(left))
            left.append(len(several))
            owners.append(question)
            if not several:
                waiting.append(question)
    refuted: set[Q] = set()
    while waiting:
        question = waiting.pop()
        if question in refuted:
            continue
        refuted.add(question)
        for number in used.get(question, ()):
            left[number] -= 1
            if left[number] == 0:
                waiting.append(owners[number])
    return refuted


def _reasons(start: list[Q], clauses: dict[Q, list[Clause[Q]]], refuted: set[Q]) -> list[Difference]:
    found: dict[tuple[str, str, str], Difference] = {}
    waiting, met = deque(start), set(start)
    while waiting and len(found) < MAX_FINDINGS:
        question = waiting.popleft()
        if question not in refuted:
            continue
        for clause in clauses[question]:
            if not refuted.issuperset(clause.questions):
                continue
            if clause.otherwise is not None:
                reason = clause.otherwise
                found.setdefault((reason.path, reason.rule, reason.message), reason)
            else:
                waiting.extend(part for part in clause.questions if part not in met)
                met.update(clause.questions)
    return list(found.values())[:MAX_FINDINGS]
