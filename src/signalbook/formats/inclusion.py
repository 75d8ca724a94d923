"""The proof that all values of one type are values of another, for types that contain themselves.

A question asks this of one pair of types. Its answer depends on clauses: differences that are visible at once, and
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
    """Holds if one of ``questions`` does: without any it never does.

    ``otherwise`` is reported where it does not hold; without it, why the questions were refuted is.
    """

    questions: tuple[Q, ...] = ()
    otherwise: Difference | None = None


class TooManySteps(Exception):
    """Comparing takes more steps than are granted."""


def make_difference(path: str, rule: str, old: JSON, new: JSON, message: str) -> Difference:
    """Return a difference with a message for people."""
    return Difference(path=path, rule=rule, old=old, new=new, message=shorten(message))


def make_undecided(path: str, why: str, old: JSON = None, new: JSON = None) -> Difference:
    """Return the difference that something cannot be decided, with the reason."""
    return make_difference(
        path, "undecided", old, new, f"it could not be shown that all that may be written is accepted: {why}"
    )


def make_too_complex(steps: int) -> Difference:
    """Return the difference for a comparison that was stopped."""
    message = f"not decided: the schemas are too complex to compare in {steps} steps"
    return make_difference("", "undecided", None, None, message)


def find_refutations(
    start: Iterable[Q], examine: Callable[[Q], list[Clause[Q]]], *, max_clauses: int
) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` reasons that refute a question of ``start``; none if all hold.

    Beyond ``max_clauses`` clauses, and where ``examine`` raises ``TooManySteps``, the answer is ``undecided``.
    """
    questions = list(start)
    try:
        clauses = _examine_all(questions, examine, max_clauses)
    except TooManySteps:
        return [make_too_complex(max_clauses)]
    refuted = _find_refuted(clauses)
    if refuted.isdisjoint(questions):
        return []
    return _list_reasons(questions, clauses, refuted) or [make_undecided("", "the reason got lost")]


def find_answers(start: Q, examine: Callable[[Q], list[Clause[Q]]], *, max_clauses: int) -> dict[Q, bool]:
    """Return whether ``start`` holds, and so for each question that it depends on. Raises ``TooManySteps``."""
    clauses = _examine_all([start], examine, max_clauses)
    refuted = _find_refuted(clauses)
    return {question: question not in refuted for question in clauses}


def _examine_all(start: list[Q], examine: Callable[[Q], list[Clause[Q]]], steps_left: int) -> dict[Q, list[Clause[Q]]]:
    clauses: dict[Q, list[Clause[Q]]] = {}
    waiting = deque(start)
    while waiting:
        question = waiting.popleft()
        if question in clauses:
            continue
        clauses[question] = examine(question)
        steps = 1 + sum(1 + len(clause.questions) for clause in clauses[question])
        spend(steps)
        steps_left -= steps
        if steps_left < 0:
            raise TooManySteps
        waiting.extend(part for clause in clauses[question] for part in clause.questions)
    return clauses


def _find_refuted(clauses: dict[Q, list[Clause[Q]]]) -> set[Q]:
    """Return the questions with a clause that does not hold; each clause counts what is left of its questions."""
    open_counts: list[int] = []
    owners: list[Q] = []
    used: dict[Q, list[int]] = {}
    waiting: list[Q] = []
    for question, parts in clauses.items():
        for clause in parts:
            distinct = dict.fromkeys(clause.questions)
            for part in distinct:
                used.setdefault(part, []).append(len(open_counts))
            open_counts.append(len(distinct))
            owners.append(question)
            if not distinct:
                waiting.append(question)
    refuted: set[Q] = set()
    while waiting:
        question = waiting.pop()
        if question in refuted:
            continue
        refuted.add(question)
        for number in used.get(question, ()):
            open_counts[number] -= 1
            if open_counts[number] == 0:
                waiting.append(owners[number])
    return refuted


def _list_reasons(start: list[Q], clauses: dict[Q, list[Clause[Q]]], refuted: set[Q]) -> list[Difference]:
    reasons: dict[tuple[str, str, str], Difference] = {}
    waiting, met = deque(start), set(start)
    while waiting and len(reasons) < MAX_FINDINGS:
        question = waiting.popleft()
        if question not in refuted:
            continue
        for clause in clauses[question]:
            if not refuted.issuperset(clause.questions):
                continue
            if clause.otherwise is not None:
                reason = clause.otherwise
                reasons.setdefault((reason.path, reason.rule, reason.message), reason)
            else:
                waiting.extend(part for part in clause.questions if part not in met)
                met.update(clause.questions)
    return list(reasons.values())[:MAX_FINDINGS]
