"""What a Group demands of the Resources in it, applied to drafts (core/model.md "constraints")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from signalbook.errors import RegistryError
from signalbook.model import Constraints
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The constraints in force in one Group, with the Group's own attributes that ``equals`` compares with."""

    constraints: Constraints
    group: JSONObject

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return len(self.constraints) > 0

    def fill(self, plural: str, version: JSONObject) -> JSONObject:
        """``version`` with the Group's defaults where it has no value (R105)."""
        return self.constraints.fill(plural, version) if self.constraints else version

    def check(self, resource: Xid, versions: Iterable[JSONObject]) -> None:
        """Hold all Versions' attributes of one Resource to the constraints (R109), else ``constraint_failure``."""
        if not self.constraints:
            return
        for version in versions:
            for violation in self.constraints.violations(resource.resource_type, version, self.group):
                raise RegistryError(
                    "constraint_failure", subject=str(resource), path=violation.path, kind=violation.kind
                )
