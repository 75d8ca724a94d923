"""The result of a check: whether a write would be accepted, and what it would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from signalbook.errors import RegistryError
from signalbook.values import Finding, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on a write.

    ``changes`` are those it would make, as events report them (``xid``, ``entity``, ``action``, ``changed``).
    ``errors`` are the problem documents that would reject it, with every finding. ``findings`` are about its content:
    broken rules of messages and endpoints, documents that are incompatible with their predecessors, and what could not
    be validated or was not compared.
    """

    changes: tuple[JSONObject, ...] = ()
    errors: tuple[JSONObject, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def accepted(self) -> bool:
        """True without errors."""
        return not self.errors

    @property
    def broken(self) -> bool:
        """True if a message or endpoint breaks a rule: it would be stored, but its users leave it out."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def doubtful(self) -> bool:
        """True if there are findings other than mere information."""
        return any(finding.severity != "info" for finding in self.findings)

    @classmethod
    def refused(cls, *errors: RegistryError) -> Self:
        """The verdict on a write that ends with these errors."""
        return cls(errors=tuple({"status": error.status, **error.to_json()} for error in errors))

    @classmethod
    def from_json(cls, body: JSONObject) -> Self:
        """Read back what ``to_json`` wrote."""
        return cls(
            changes=tuple(body.get("changes", ())),
            errors=tuple(body.get("errors", ())),
            findings=tuple(Finding.from_json(finding) for finding in body.get("findings", ())),
        )

    def to_json(self) -> JSONObject:
        """The form on the wire."""
        return {
            "accepted": self.accepted,
            "changes": list(self.changes),
            "errors": list(self.errors),
            "findings": [finding.to_json() for finding in self.findings],
        }
