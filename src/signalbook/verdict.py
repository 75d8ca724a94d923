"""The result of a check: whether a write would be accepted, and what it would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from signalbook.errors import RegistryError
from signalbook.values import Finding, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of checking a write.

    ``changes`` are the changes that the write would make, as events report them (``xid``, ``entity``, ``action``,
    ``changed``). ``errors`` are the problem documents with which it would be rejected. ``findings`` are about its
    content: broken rules of messages and endpoints, documents that are incompatible with their predecessors, and
    documents that could not be validated or compared.
    """

    changes: tuple[JSONObject, ...] = ()
    errors: tuple[JSONObject, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def accepted(self) -> bool:
        """True if the write would be accepted."""
        return not self.errors

    @property
    def broken(self) -> bool:
        """True if a message or endpoint breaks a rule. It would be stored, but pipelines would not use it."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def doubtful(self) -> bool:
        """True if there are findings with a severity other than ``info``."""
        return any(finding.severity != "info" for finding in self.findings)

    @classmethod
    def refused(cls, *errors: RegistryError) -> Self:
        """Return the verdict on a write that is rejected with these errors."""
        return cls(errors=tuple({"status": error.status, **error.to_json()} for error in errors))

    @classmethod
    def from_json(cls, body: JSONObject) -> Self:
        """Read a verdict from the form of ``to_json``."""
        return cls(
            changes=tuple(body.get("changes", ())),
            errors=tuple(body.get("errors", ())),
            findings=tuple(Finding.from_json(finding) for finding in body.get("findings", ())),
        )

    def to_json(self) -> JSONObject:
        """Return the verdict as the API shows it."""
        return {
            "accepted": self.accepted,
            "changes": list(self.changes),
            "errors": list(self.errors),
            "findings": [finding.to_json() for finding in self.findings],
        }
