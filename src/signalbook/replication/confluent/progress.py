"""Count the progress and the results of a round of copying. Several threads may use it."""

from __future__ import annotations

import threading

from signalbook.replication.report import CopyOutcome, CopyReport, SubjectKind, SubjectVersion


class CopyProgress:
    """The current activity ``what``, with ``done`` of ``total`` steps (None if unknown). Results go into a report."""

    def __init__(self, report: CopyReport) -> None:
        self.what = ""
        self.done = 0
        self.total: int | None = None
        self._report = report
        self._counting = threading.Lock()

    def start(self) -> None:
        """Start a new round."""
        self._report.begin()

    def begin(self, activity: str, total: int | None = None) -> None:
        """Start the next ``activity`` of the round."""
        self.what, self.done, self.total = activity, 0, total

    def advance(self) -> None:
        """Count one more step."""
        with self._counting:
            self.done += 1

    def count(self, outcome: CopyOutcome, kind: SubjectKind) -> None:
        """Count an ``outcome`` for an entity of ``kind``."""
        with self._counting:
            self._report.count(outcome, kind)

    def refuse(self, subject: str, version: int | None, reason: str) -> None:
        """Report that something could not be copied. A ``version`` of None means the settings of the subject."""
        with self._counting:
            self._report.refuse(SubjectVersion(subject, version), reason)

    def skip(self, subject: str, version: int | None, reason: str) -> None:
        """Report that something is deliberately not copied. A ``version`` of None means the settings of the subject."""
        with self._counting:
            self._report.skip(SubjectVersion(subject, version), reason)
