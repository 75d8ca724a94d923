"""From raw definitions to compiled ones: normalise, materialise, lint, compile (domain.md K-10 to K-14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from signalbook.messages.definition import CompiledDefinition, DefinitionError, compile_definition
from signalbook.messages.lint import lint, lint_together
from signalbook.messages.materialise import Bases, materialise
from signalbook.messages.policy import Policy
from signalbook.messages.schemas import Lookup, SchemaShelf
from signalbook.messages.structure import malformed
from signalbook.values import Finding, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The usable definitions, the findings that make others unusable, and what is doubtful about the usable ones."""

    definitions: Mapping[str, CompiledDefinition]
    broken: Mapping[str, tuple[Finding, ...]]
    findings: Mapping[str, tuple[Finding, ...]]


def compile_all(definitions: Mapping[str, JSONObject], schemas: Lookup, bases: Bases, policy: Policy) -> Compilation:
    """Compile every definition by itself; one that is broken does not stop the others."""
    shelf = SchemaShelf(schemas)
    compiled: dict[str, CompiledDefinition] = {}
    broken: dict[str, tuple[Finding, ...]] = {}
    findings: dict[str, list[Finding]] = {}
    for xid, raw in definitions.items():
        try:
            compiled[xid], findings[xid] = _compile(xid, raw, shelf, bases, policy)
        except DefinitionError as error:
            broken[xid] = error.findings
    for xid, doubts in lint_together({xid: entry.definition for xid, entry in compiled.items()}).items():
        findings[xid] += doubts
    kept = {xid: tuple(found) for xid, found in findings.items() if found}
    return Compilation(definitions=compiled, broken=broken, findings=kept)


def _compile(
    xid: str, raw: JSONObject, shelf: SchemaShelf, bases: Bases, policy: Policy
) -> tuple[CompiledDefinition, list[Finding]]:
    """A definition ready for use and what is doubtful about it. Raises ``DefinitionError``."""
    if not isinstance(raw, Mapping):
        raise DefinitionError(xid, [Finding(path="", rule="structure", message="must be an object")])
    found = materialise({"xid": xid, **raw}, bases)
    definition = found.definition
    faults = [*(finding for finding in found.findings if finding.severity == "error"), *malformed(definition)]
    if faults:
        raise DefinitionError(xid, faults)
    compiled = compile_definition(xid, definition, shelf, policy.of(xid))
    return compiled, [*found.findings, *lint(definition)]
