"""Raw definitions and what they refer to, and what becomes of each by itself: compiled, in outline, or left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from signalbook.messages.definitions.broken import LeftOut, compile_broken
from signalbook.messages.definitions.definition import CompiledDefinition, DefinitionError, compile_definition
from signalbook.messages.definitions.lint import malformed
from signalbook.messages.definitions.normalise import UNRESOLVED, Bases, Materialised, materialise
from signalbook.messages.definitions.schemas import ContractSchemas, ImportLookup, Lookup
from signalbook.messages.policy import Policy
from signalbook.values import Finding, JSONObject


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A definition in outline.

    ``type`` is the type that its events must have, ``None`` where they may have several. ``constants`` are all values
    that an event's attributes must have, with their names.
    """

    xid: str
    is_event: bool
    protocol: str
    type: str | None
    constants: tuple[tuple[str, str], ...]


def outline(definition: CompiledDefinition) -> Outline:
    """The outline of a definition: what a contract files it by."""
    constants = {key.name: key.value for key in definition.event_keys if isinstance(key.value, str)}
    return Outline(
        definition.xid, definition.is_event, definition.protocol, constants.get("type"), tuple(constants.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSource:
    """Raw definitions by xid, as a registry document has them, and where to look for schemas, for what these import,
    and for ``basemessage``."""

    definitions: Mapping[str, JSONObject | None]
    schemas: Lookup
    bases: Bases
    imports: ImportLookup | None = None

    def contract_schemas(self) -> ContractSchemas:
        """The schemas of a contract of these definitions, none of them parsed yet."""
        return ContractSchemas(self.schemas, self.imports)

    def materialised(self, xid: str) -> Materialised:
        """A definition completed by its bases. Raises ``DefinitionError``."""
        raw = self.definitions[xid]
        if not isinstance(raw, Mapping):
            raise DefinitionError(xid, [Finding(path="", rule="structure", message="must be an object")])
        return materialise({"xid": xid, **raw}, self.bases)

    def compiled(self, xid: str, schemas: ContractSchemas, policy: Policy) -> CompiledDefinition:
        """A definition ready for use. Raises ``DefinitionError``."""
        found = self.materialised(xid)
        faults = [*(finding for finding in found.findings if finding.severity == "error"), *malformed(found.definition)]
        if faults:
            raise DefinitionError(xid, faults)
        # A warning that it says less than was meant, with each message too (F-17).
        doubts = tuple(finding for finding in found.findings if finding.rule == UNRESOLVED)
        return compile_definition(xid, found.definition, schemas, policy.of(xid), doubts)

    def left_over(
        self, xid: str, schemas: ContractSchemas, policy: Policy, reasons: tuple[str, ...]
    ) -> tuple[LeftOut, CompiledDefinition | None]:
        """What is left of a definition that cannot be used for these reasons."""
        return compile_broken(xid, self.definitions[xid], self.bases, schemas, policy.of(xid), reasons)
