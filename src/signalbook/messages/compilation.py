"""From raw definitions to compiled ones: normalise, materialise, lint, compile (domain.md K-10 to K-14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from signalbook.messages.deferred import Deferred
from signalbook.messages.definition import CompiledDefinition, DefinitionError, compile_definition
from signalbook.messages.lint import lint, lint_together
from signalbook.messages.materialise import Bases, Materialised, materialise
from signalbook.messages.outline import Outline, outline
from signalbook.messages.policy import Policy
from signalbook.messages.schemas import Lookup, SchemaShelf
from signalbook.messages.structure import malformed
from signalbook.values import Finding, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Raw definitions by xid, as a registry document has them, and where to look for schemas and ``basemessage``."""

    definitions: Mapping[str, JSONObject]
    schemas: Lookup
    bases: Bases

    def materialised(self, xid: str) -> Materialised:
        """A definition completed by its bases. Raises ``DefinitionError``."""
        raw = self.definitions[xid]
        if not isinstance(raw, Mapping):
            raise DefinitionError(xid, [Finding(path="", rule="structure", message="must be an object")])
        return materialise({"xid": xid, **raw}, self.bases)


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """The usable definitions, their outlines in the same order, and the findings that make others unusable."""

    book: Book
    definitions: Mapping[str, CompiledDefinition]
    outlines: tuple[Outline, ...]
    broken: Mapping[str, tuple[Finding, ...]]

    def verify(self) -> Mapping[str, tuple[Finding, ...]]:
        """Definitions whose messages cannot be processed, with the reasons: broken ones, and broken or missing schemas.

        Parses every schema, which otherwise waits until a message needs it.
        """
        schemas = {xid: definition.schema_use.findings for xid, definition in self.definitions.items()}
        return {**self.broken, **{xid: findings for xid, findings in schemas.items() if findings}}

    @cached_property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """What is doubtful about the usable ones."""
        made = {xid: self.book.materialised(xid) for xid in self.definitions}
        found = {xid: [*each.findings, *lint(each.definition)] for xid, each in made.items()}
        for xid, doubts in lint_together({xid: each.definition for xid, each in made.items()}).items():
            found[xid] += doubts
        return {xid: tuple(doubts) for xid, doubts in found.items() if doubts}


def compile_all(book: Book, policy: Policy) -> Compilation:
    """Compile every definition by itself; one that is broken does not stop the others."""
    shelf = SchemaShelf(book.schemas)
    compiled: dict[str, CompiledDefinition] = {}
    broken: dict[str, tuple[Finding, ...]] = {}
    for xid in book.definitions:
        try:
            compiled[xid] = _compile(xid, book, shelf, policy)
        except DefinitionError as error:
            broken[xid] = error.findings
    outlines = tuple(map(outline, compiled.values()))
    return Compilation(book=book, definitions=compiled, outlines=outlines, broken=broken)


def compile_later(book: Book, outlines: Iterable[Outline], policy: Policy) -> Compilation:
    """Compile each of the definitions with these outlines when it is first asked for: they are known to be sound."""
    shelf, known = SchemaShelf(book.schemas), tuple(outlines)
    definitions = Deferred({each.xid: each.xid for each in known}, lambda xid: _compile(xid, book, shelf, policy))
    return Compilation(book=book, definitions=definitions, outlines=known, broken={})


def _compile(xid: str, book: Book, shelf: SchemaShelf, policy: Policy) -> CompiledDefinition:
    """A definition ready for use. Raises ``DefinitionError``."""
    found = book.materialised(xid)
    faults = [*(finding for finding in found.findings if finding.severity == "error"), *malformed(found.definition)]
    if faults:
        raise DefinitionError(xid, faults)
    return compile_definition(xid, found.definition, shelf, policy.of(xid))
