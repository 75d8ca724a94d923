"""The proof that all values of one type are values of another, for types that may contain themselves.

A question asks this about one pair of types. Its answer depends on clauses: differences that are visible immediately,
and questions about parts of the types. Every question is examined once. Then the questions that fail, and the questions
that depend on them, are refuted until nothing changes. All remaining questions are true, by induction over the size of
values, which are finite. The algorithm needs no recursion and no backtracking, so the work is linear in the number of
clauses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from signalbook.formats.base import MAX_FINDINGS, shorten
from signalbook.formats.compatibility import Difference, TooManySteps
from signalbook.values import JSON
from signalbook.work import spend

Q = TypeVar("Q", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Clause(Generic[Q]):
    """A condition that holds if at least one of ``questions`` holds; without questions it never holds.

    ``otherwise`` is the difference to report if the clause fails. If it is None, the reasons why the questions were
    refuted are reported.
    """

    questions: tuple[Q, ...] = ()
    otherwise: Difference | None = None


def make_difference(path: str, rule: str, old: JSON, new: JSON, message: str) -> Difference:
    """Return a difference with a message for people."""
    return Difference(path=path, rule=rule, old=old, new=new, message=shorten(message))


def make_undecided(path: str, why: str, old: JSON = None, new: JSON = None) -> Difference:
    """Return the ``undecided`` difference at ``path``, with ``why`` as the reason."""
    return make_difference(
        path, "undecided", old, new, f"it could not be shown that all that may be written is accepted: {why}"
    )


def make_too_complex(steps: int) -> Difference:
    """Return the ``undecided`` difference for a comparison that was stopped after ``steps`` steps."""
    message = f"not decided: the schemas are too complex to compare in {steps} steps"
    return make_difference("", "undecided", None, None, message)


def find_refutations(
    start: Iterable[Q], examine: Callable[[Q], list[Clause[Q]]], *, max_clauses: int
) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` reasons why questions of ``start`` do not hold; empty if all hold.

    ``examine`` returns the clauses that must all hold for a question. The result is ``undecided`` if there are more
    than ``max_clauses`` clauses or ``examine`` raises ``TooManySteps``.
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
    """Return for ``start``, and for each question that it depends on, whether it holds. Raises ``TooManySteps``."""
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
    """Return the questions that have a failing clause. Each clause counts its questions that are not refuted yet."""
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
