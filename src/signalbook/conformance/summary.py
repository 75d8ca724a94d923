"""What a whole run came to: totals, known failures, and whether the server conforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from signalbook.conformance.cases import Level
from signalbook.conformance.running import Outcome, Result
from signalbook.documents import DocumentError, parse_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The results of a run against ``url``. ``known`` has reasons for failures that were expected, by case."""

    url: str
    results: Sequence[Result]
    known: Mapping[str, str] = field(default_factory=dict)

    def count(self, outcome: Outcome, level: Level | None = None) -> int:
        """How many cases ended so, of all levels or of one."""
        return sum(row.outcome is outcome and level in (None, row.case.level) for row in self.results)

    def failures(self) -> Iterator[Result]:
        """Cases that failed and were not expected to."""
        return (row for row in self.results if row.outcome is Outcome.FAILED and row.case.id not in self.known)

    def mended(self) -> Iterator[Result]:
        """Cases that were expected to fail and passed: the word about them is out of date."""
        return (row for row in self.results if row.outcome is Outcome.PASSED and row.case.id in self.known)

    @property
    def conforms(self) -> bool:
        """Whether nothing failed that the specification demands, apart from what is known."""
        return all(row.case.level is not Level.MUST for row in self.failures())


def read_known(data: bytes, *, name: str) -> dict[str, str]:
    """Known failures from a file: a map of case ids to reasons. Raises ``DocumentError``."""
    document, _ = parse_document(data, name=name)
    if not isinstance(document, dict) or not all(isinstance(reason, str) and reason for reason in document.values()):
        raise DocumentError(f"{name}: needs to map ids of cases to the reasons why they fail")
    return dict(document)
