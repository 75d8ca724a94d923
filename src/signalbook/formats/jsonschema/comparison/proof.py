"""What the rules of keywords ask of the prover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.facts import Facts, Known
from signalbook.formats.jsonschema.comparison.term import Term


class Proof(Protocol):
    """Answers questions about values of which something is known."""

    def spend(self, steps: int) -> bool:
        """Account for work; false once there is none left to be had."""
        ...

    def differences(self, known: Known, term: Term) -> list[Difference]:
        """Why not every such value is one of ``term``; empty if each surely is."""
        ...

    def below(self, known: Known, term: Term) -> list[Difference]:
        """The same of a member, an item or a name of the value at hand."""
        ...

    def proves(self, known: Known, term: Term) -> bool:
        """Whether every such value is surely one of ``term``."""
        ...

    def proves_below(self, known: Known, term: Term) -> bool:
        """The same of a member, an item or a name of the value at hand."""
        ...

    def empty(self, known: Known) -> bool:
        """Whether there is surely no such value."""
        ...

    def same(self, a: Term, b: Term) -> bool:
        """Whether two schemas plainly say the same."""
        ...

    def facts(self, known: Known) -> Facts:
        """The facts that follow."""
        ...


# Why not every value of which the facts hold keeps to a keyword of the reader's schema.
Rule = Callable[[Proof, Facts, Term], list[Difference]]
