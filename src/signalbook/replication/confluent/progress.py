"""How far a round of copying is, and what came of what, from several threads."""

from __future__ import annotations

import threading

from signalbook.replication.report import CopyOutcome, CopyReport, SubjectKind, SubjectVersion


class CopyProgress:
    """``done`` of ``total``, if that is known, of ``what`` is being done; what came of it goes into a report."""

    def __init__(self, report: CopyReport) -> None:
        self.what = ""
        self.done = 0
        self.total: int | None = None
        self._report = report
        self._counting = threading.Lock()

    def start(self) -> None:
        """A round begins."""
        self._report.begin()

    def begin(self, activity: str, total: int | None = None) -> None:
        """Go over to the next part of the work."""
        self.what, self.done, self.total = activity, 0, total

    def advance(self) -> None:
        """Count one more step."""
        with self._counting:
            self.done += 1

    def count(self, outcome: CopyOutcome, kind: SubjectKind) -> None:
        """Something came to this end."""
        with self._counting:
            self._report.count(outcome, kind)

    def refuse(self, subject: str, version: int | None, reason: str) -> None:
        """Something was not copied."""
        with self._counting:
            self._report.refuse(SubjectVersion(subject, version), reason)

    def skip(self, subject: str, version: int | None, reason: str) -> None:
        """Something is not to be copied."""
        with self._counting:
            self._report.skip(SubjectVersion(subject, version), reason)
