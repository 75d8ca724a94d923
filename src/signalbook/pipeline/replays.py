"""What a replay tells."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.pipeline.reports.report import Report
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay did, or with ``dry_run`` would do.

    ``replayed`` letters were run again; of those that are letters still, ``changed`` have another reason now.
    """

    report: Report
    replayed: int
    changed: int
    dry_run: bool

    def to_json(self) -> JSONObject:
        """The object that ``pipeline replay --json`` prints."""
        tally = self.report.tally
        return {
            "batch": self.report.batch,
            "fingerprint": self.report.fingerprint,
            "dry_run": self.dry_run,
            "replayed": self.replayed,
            "landed": self.report.landed,
            "dead_lettered": tally.dead_lettered,
            "changed": self.changed,
            "dropped": tally.dropped,
            "by_message": dict(sorted(tally.landed.items())),
            "reasons": dict(sorted(tally.reasons.items())),
            "violations": [violation.to_json() for violation in tally.violations.top()],
            "seconds": round(self.report.seconds, 3),
        }
