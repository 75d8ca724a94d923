"""Load raw definitions with their schemas and bases, and compile or outline each of them, or leave it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from signalbook.formats import Schema
from signalbook.formats.base import shorten
from signalbook.formats.shape import MAX_LEAVES, list_narrowed_members
from signalbook.messages.definitions.broken import LeftOut, compile_broken
from signalbook.messages.definitions.definition import CompiledDefinition, DefinitionError, compile_definition
from signalbook.messages.definitions.lint import find_malformed
from signalbook.messages.definitions.normalise import CYCLE, UNRESOLVED, Bases, Materialised, materialise
from signalbook.messages.definitions.schemas import ContractSchemas, ImportLookup, Lookup
from signalbook.messages.message import Reason
from signalbook.messages.policy import Policy
from signalbook.messages.uritemplates import is_template
from signalbook.values import Finding, JSONObject

# The largest number of members that a warning names.
_MAX_SHOWN_MEMBERS: Final = 5
_MAX_SHOWN_XIDS: Final = 10
_BASE_RULES: Final = (UNRESOLVED, CYCLE)


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """The data of a definition by which a contract indexes it.

    ``type`` is the type that its events must have, or ``None`` if they may have several types. ``constants`` are pairs
    of an attribute's name and the value that it must have.
    """

    xid: str
    is_event: bool
    protocol: str
    type: str | None
    constants: tuple[tuple[str, str], ...]


def build_outline(xid: str, definition: JSONObject) -> Outline:
    """Return the outline of a materialised definition with only its constant attributes, without compiling it."""
    metadata = definition.get("envelopemetadata")
    values = {
        name: entry.get("value")
        for name, entry in (metadata.items() if isinstance(metadata, dict) else ())
        if isinstance(entry, dict)
    }
    constants = {name: value for name, value in values.items() if isinstance(value, str) and not is_template(value)}
    return Outline(xid, True, str(definition.get("protocol") or ""), constants.get("type"), tuple(constants.items()))


def find_equal_outlines(outlines: Iterable[Outline]) -> Iterator[tuple[str, Finding]]:
    """Yield the xid of each definition whose type and constants another definition has, too, with a warning (K-13).

    Definitions for different protocols may have the same type, because a message arrives by one protocol.
    """
    groups: dict[tuple[str, frozenset[tuple[str, str]]], list[Outline]] = {}
    for entry in outlines:
        if entry.type is not None:
            groups.setdefault((entry.protocol, frozenset(entry.constants)), []).append(entry)
    for entries in groups.values():
        first_entries = entries[: _MAX_SHOWN_XIDS + 1]
        hidden = len(entries) - 1 - _MAX_SHOWN_XIDS
        more = f" and {hidden} more" if hidden > 0 else ""
        for entry in entries if len(entries) > 1 else ():
            other_xids = [other.xid for other in first_entries if other is not entry][:_MAX_SHOWN_XIDS]
            text = f"the type {entry.type!r} is also that of {', '.join(other_xids)}{more}"
            yield (
                entry.xid,
                Finding(path="envelopemetadata.type", rule="duplicate_type", message=text, severity="warning"),
            )


def outline(definition: CompiledDefinition) -> Outline:
    """Return the outline of a compiled definition, by which a contract indexes it."""
    constants = {key.name: key.value for key in definition.event_keys if isinstance(key.value, str)}
    return Outline(
        definition.xid, definition.is_event, definition.protocol, constants.get("type"), tuple(constants.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionVerdict:
    """The result of checking a definition with its schema.

    ``outline`` is None if nothing distinguishes its messages, ``left_out`` is None if it can be used. ``doubts`` name a
    missing base (F-17), a cycle of bases (F-16), members without their own columns, and a missing deep link (G-17).
    ``document`` is the xid of the schema document that was read for it, if any.
    """

    outline: Outline | None
    left_out: LeftOut | None = None
    doubts: tuple[Finding, ...] = ()
    document: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSource:
    """Raw definitions by xid, in the form of a registry document.

    ``schemas``, ``imports`` and ``bases`` find schemas, the files that schemas import, and base messages.
    """

    definitions: Mapping[str, JSONObject | None]
    schemas: Lookup
    bases: Bases
    imports: ImportLookup | None = None

    def contract_schemas(self) -> ContractSchemas:
        """Return the schemas for a contract of these definitions. They are parsed on first use."""
        return ContractSchemas(self.schemas, self.imports)

    def materialised(self, xid: str) -> Materialised:
        """Return a definition completed by its bases. Raises ``DefinitionError``."""
        raw = self.definitions[xid]
        if not isinstance(raw, Mapping):
            raise DefinitionError(xid, [Finding(path="", rule="structure", message="must be an object")])
        return materialise({"xid": xid, **raw}, self.bases)

    def compiled(self, xid: str, schemas: ContractSchemas, policy: Policy) -> CompiledDefinition:
        """Return a compiled definition. Raises ``DefinitionError``."""
        completed = self.materialised(xid)
        faults = [
            *(finding for finding in completed.findings if finding.severity == "error"),
            *find_malformed(completed.definition),
        ]
        if faults:
            raise DefinitionError(xid, faults)
        # If a base is missing or bases form a cycle, every message of the definition gets a warning too (F-17).
        doubts = tuple(finding for finding in completed.findings if finding.rule in _BASE_RULES)
        return compile_definition(xid, completed.definition, schemas, policy.of(xid), doubts)

    def left_over(
        self, xid: str, schemas: ContractSchemas, policy: Policy, reasons: tuple[str, ...]
    ) -> tuple[LeftOut, CompiledDefinition | None]:
        """Compile the readable part of a definition that is left out for ``reasons``, to recognise its messages.

        The compiled part is None if it does not distinguish messages.
        """
        return compile_broken(xid, self.definitions[xid], self.bases, schemas, policy.of(xid), reasons)

    def verdict(self, xid: str, schemas: ContractSchemas, policy: Policy) -> DefinitionVerdict:
        """Compile a definition and its schema, and return the verdict.

        A definition with a missing schema can be used: its messages become dead letters until the schema exists (K-45).
        """
        try:
            compiled = self.compiled(xid, schemas, policy)
        except DefinitionError as error:
            return self._build_unusable(xid, schemas, policy, error.findings)
        use = compiled.schema_use
        doubts = tuple(finding for finding in compiled.warnings if finding.rule in _BASE_RULES)
        if use.findings and use.reason is not Reason.SCHEMA_NOT_FOUND:
            broken = self._build_unusable(xid, schemas, policy, use.findings)
            return replace(broken, doubts=doubts, document=use.document)
        if use.schema is not None:
            doubts = (*doubts, *_find_narrowed(use.schema), *_find_missing_links(use.schema, compiled))
        return DefinitionVerdict(outline=outline(compiled), doubts=doubts, document=use.document)

    def _build_unusable(
        self, xid: str, schemas: ContractSchemas, policy: Policy, findings: tuple[Finding, ...]
    ) -> DefinitionVerdict:
        left_out, readable_part = self.left_over(xid, schemas, policy, tuple(map(str, findings)))
        return DefinitionVerdict(outline=None if readable_part is None else outline(readable_part), left_out=left_out)


def _find_missing_links(schema: Schema, definition: CompiledDefinition) -> Iterator[Finding]:
    """Yield the warnings of a schema that has to guess which of its types a payload has (G-17).

    An inline schema has no deep link. If payloads have a wire prefix, the prefix names the type.
    """
    if definition.schema_use.resource and definition.policy.wire_prefix == "none":
        yield from (finding for finding in schema.warnings if finding.rule == "link")


def _find_narrowed(schema: Schema) -> Iterator[Finding]:
    """Yield a warning if a schema has so many members that some have no columns of their own."""
    members = list(list_narrowed_members(schema.shape()))
    if members:
        names = ", ".join(members[:_MAX_SHOWN_MEMBERS])
        more = f" and {len(members) - _MAX_SHOWN_MEMBERS} more" if len(members) > _MAX_SHOWN_MEMBERS else ""
        text = f"the schema makes more than {MAX_LEAVES} columns: these members are JSON text: {names}{more}"
        yield Finding(path="", rule="narrowed", message=shorten(text), severity="warning")


def leave_out(verdicts: Mapping[str, DefinitionVerdict]) -> tuple[tuple[Outline, ...], dict[str, LeftOut]]:
    """Return the outlines of all definitions, and the definitions that are left out, for ``Contract.outlined``.

    The outlines of left-out definitions come last.
    """
    sound = [
        verdict.outline for verdict in verdicts.values() if verdict.left_out is None and verdict.outline is not None
    ]
    broken = {xid: verdicts[xid] for xid in sorted(verdicts) if verdicts[xid].left_out is not None}
    broken_outlines = [verdict.outline for verdict in broken.values() if verdict.outline is not None]
    return (*sound, *broken_outlines), {
        xid: verdict.left_out for xid, verdict in broken.items() if verdict.left_out is not None
    }
