"""Checks over all Versions of one Resource: ``matchversions``, ``compatibility`` and the number of roots.

See core/spec.md "compatibility", "compatibilityvalidated" (R256-R258) and core/model.md "matchversions",
"singleversionroot". Each format decides which schema may follow which. The ancestors define the order of the Versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from signalbook.batches import batched
from signalbook.engine import capabilities
from signalbook.engine.checks import compare_documents
from signalbook.engine.write.context import MAX_LOADED, Context, Lookup
from signalbook.engine.write.entities import VALIDATION
from signalbook.engine.write.lineage import find_roots
from signalbook.engine.write.references import find_mentioned, load_documents, make_document
from signalbook.engine.write.validation import check_formats, check_imports, make_outcome, set_outcome
from signalbook.engine.write.workingcopies import ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.formats.compatibility import (
    convert_difference,
    find_comparison,
    is_transitive,
)
from signalbook.model import ResourceType
from signalbook.storage.base import Row
from signalbook.values import Finding

VersionsById = Mapping[str, VersionCopy]

MAX_DIFFERENCES: Final = 100
MAX_PAIRS: Final = 10_000
"""The maximum number of comparisons for one Resource in one request, because other requests wait for it to end."""
_MAX_COMPATIBLE_PAIRS: Final = 10_000
_VERSIONS_AT_ONCE: Final = 20
"""The number of Versions whose documents are loaded together: few enough to fit in memory, however long they are."""
_NOT_COMPARED: Final = "the document replaces another one and was not compared with it"
# Pairs of documents (by digest and format) that were found compatible, so that they are not compared again.
_compatible_pairs: Final[dict[tuple[str | None, ...], None]] = {}


@dataclass(slots=True, kw_only=True)
class Comparisons:
    """The results of comparing a Resource's Versions.

    ``reasons`` has every checked Version by id: None if it could be compared, else why it could not. ``broken`` maps
    each incompatible Version to the ancestors that it is incompatible with. ``findings`` are the differences (at most
    ``MAX_DIFFERENCES``). ``compared`` is the number of comparisons made.
    """

    reasons: dict[str, str | None] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    compared: int = 0

    def make_error(self, resource: ResourceCopy, rule: str, detail: str) -> RegistryError:
        """Return the error ``compatibility_violation`` with all findings.

        ``rule`` is the violated compatibility rule.
        """
        return RegistryError(
            "compatibility_violation",
            subject=str(resource.xid),
            compat=rule,
            detail=detail,
            faults=self.findings,
        )


def find_changed_schemas(resource: ResourceCopy, type: ResourceType, context: Context) -> frozenset[str]:
    """Return the ids of Versions whose schema differs from the one that was found compatible.

    Empty if no compatibility rule applies. If the stored rule changes, these are all Versions. A rule that is only
    assumed (``Context.compatibility``) is applied to the Versions that this request changes.
    """
    rule = _find_rule(resource, type, context)
    if not rule:
        return frozenset()
    return find_other_schemas(resource, rule, assumed=context.compatibility is not None)


def find_other_schemas(resource: ResourceCopy, rule: str, *, assumed: bool) -> frozenset[str]:
    """Return ``find_changed_schemas`` for the compatibility rule ``rule``.

    ``assumed`` means that it is not the stored one.
    """
    anew = not assumed and (resource.before is None or _read_rule(resource.before.attributes) != rule.casefold())
    return frozenset(v.id for v in resource.versions.values() if anew or _is_other_schema(v, assumed=assumed))


def compare_versions(resource: ResourceCopy, rule: str, changed: Collection[str], context: Context) -> Comparisons:
    """Compare all pairs that are not known to be compatible under ``rule``.

    Documents are loaded for a few Versions at a time.
    """
    comparisons = Comparisons()
    for batch in batched(list_pending(resource, rule, changed), _VERSIONS_AT_ONCE):
        context.documents.forget()
        compared = [pair for pair in batch if pair[0].attributes.get("format")]
        load_documents(_list_documents(compared, rule), context)
        for version, ancestors in compared:
            _compare_with_ancestors(version, ancestors, rule, context, comparisons)
    return comparisons


def load_compared_documents(resources: Iterable[tuple[ResourceCopy, ResourceType]], context: Context) -> None:
    """Load the first documents that ``compare_versions`` and ``check_replaced`` will need, with their references.

    Loading them together for all ``resources`` avoids queries for each Resource.
    """
    names: list[str | None] = []
    for resource, resource_type in resources:
        rule = _find_rule(resource, resource_type, context)
        if rule and len(names) < MAX_LOADED:
            pairs = list_pending(resource, rule, find_changed_schemas(resource, resource_type, context))
            names += _list_documents(islice(pairs, _VERSIONS_AT_ONCE), rule)
            names += _list_documents(islice(_list_replaced(resource, rule, context), _VERSIONS_AT_ONCE), rule)
    names = names[:MAX_LOADED]
    context.documents.forget()
    load_documents(names, context)
    xids = find_mentioned(names, context)
    if xids:
        context.loader.load(Lookup(entities=xids, contents=True))


def _list_documents(compared: Iterable[tuple[VersionCopy, list[VersionCopy]]], rule: str) -> Iterator[str | None]:
    """Yield the digests of these Versions' documents and of the nearest ancestors that they are compared with."""
    for version, ancestors in compared:
        nearest = [
            a for a in ancestors[:_VERSIONS_AT_ONCE] if _make_pair_key(version, a, rule) not in _compatible_pairs
        ]
        yield from (version_to_load.document for version_to_load in (version, *nearest)) if nearest else ()


def list_pending(
    resource: ResourceCopy, rule: str, changed: Collection[str]
) -> Iterator[tuple[VersionCopy, list[VersionCopy]]]:
    """Yield Versions with the ancestors that they must be compared with, the nearest first (G-27).

    A root has no ancestors. A pair that was found compatible is left out as long as both documents, the rule and, for a
    transitive rule, all links between the two Versions are unchanged. ``changed`` is the result of
    ``find_changed_schemas``.
    """
    versions = resource.versions
    if is_transitive(rule):
        affected = _find_affected(versions, changed)
        # Only Versions with a change among their ancestors are walked up to the root; most Versions have none.
        pairs = ((v, _find_moved_ancestors(v, versions, changed)) for v in versions.values() if v.id in affected)
    else:
        pairs = ((v, _find_nearest(v, versions, changed)) for v in versions.values())
    yield from ((version, ancestors) for version, ancestors in pairs if ancestors or version.id in changed)


def _find_rule(resource: ResourceCopy, type: ResourceType, context: Context) -> str:
    """Return the compatibility rule for the Versions of ``resource``, or an empty string if none applies."""
    rule = context.compatibility or resource.attributes.get("compatibility")
    return str(rule) if rule and (type.validatecompatibility or context.compatibility) else ""


def _read_rule(attributes: Mapping[str, object]) -> str:
    return str(attributes.get("compatibility") or "").casefold()


def _is_other_schema(version: VersionCopy, *, assumed: bool) -> bool:
    """Return True if the Version's schema is new or not yet known to be compatible.

    With ``assumed`` only new and replaced schemas count, because the stored outcome is about another rule.
    """
    before = version.before
    if before is None or _is_replaced(version, before):
        return True
    return not assumed and before.attributes.get("compatibilityvalidated") is not True


def _is_replaced(version: VersionCopy, before: Row) -> bool:
    """Return True if a write replaces the document or the format of a stored Version."""
    return before.document != version.document or before.attributes.get("format") != version.attributes.get("format")


def _list_replaced(
    resource: ResourceCopy, rule: str, context: Context
) -> Iterator[tuple[VersionCopy, list[VersionCopy]]]:
    """Yield stored Versions whose document is replaced, each with a copy of its earlier state.

    Versions whose earlier document cannot be compared are left out. Yields nothing if the setting is off.
    """
    if context.settings.incompatible_changes == "off":
        return
    for version in resource.versions.values():
        if version.before is not None and _is_replaced(version, version.before):
            earlier = VersionCopy.from_row(version.before)
            if _find_obstacle(earlier, rule, context) is None:
                yield version, [earlier]


def _find_parent(version: VersionCopy, versions: VersionsById) -> VersionCopy | None:
    return None if version.ancestorid in (None, version.id) else versions.get(version.ancestorid or "")


def _find_nearest(version: VersionCopy, versions: VersionsById, changed: Collection[str]) -> list[VersionCopy]:
    parent = _find_parent(version, versions)
    if parent is None or not (version.id in changed or parent.id in changed or version.relinked):
        return []
    return [parent]


def _find_moved_ancestors(version: VersionCopy, versions: VersionsById, changed: Collection[str]) -> list[VersionCopy]:
    """Return the ancestors that a Version must be compared with again.

    These are the changed ancestors, and those that became ancestors through a changed Version or link.
    """
    ancestors, moved, here = [], version.id in changed, version
    while (parent := _find_parent(here, versions)) is not None:
        moved = moved or here.relinked
        if moved or parent.id in changed:
            ancestors.append(parent)
        here = parent
    return ancestors


def _find_affected(versions: VersionsById, changed: Collection[str]) -> set[str]:
    """Return the ids of Versions that changed or have a changed ancestor or link. Each link is visited once."""
    affected: dict[str, bool] = {}
    for start in versions.values():
        trail, here = [start], start
        while here.id not in affected and (parent := _find_parent(here, versions)) is not None:
            trail.append(here := parent)
        above = affected.get(here.id, False)
        for version in reversed(trail):
            above = affected.setdefault(version.id, above or version.id in changed or version.relinked)
    return {name for name, moved in affected.items() if moved}


def _compare_with_ancestors(
    version: VersionCopy, ancestors: list[VersionCopy], rule: str, context: Context, comparisons: Comparisons
) -> None:
    reason = _find_obstacle(version, rule, context)
    for batch in batched(ancestors if reason is None else (), _VERSIONS_AT_ONCE):
        load_documents(_list_documents([(version, batch)], rule), context)
        for ancestor in batch:
            obstacle = _find_obstacle(ancestor, rule, context)
            if obstacle is None:
                against = f'Version "{ancestor.id}"'
                obstacle = _compare_pair(version, ancestor, rule, context, comparisons, against)
            reason = reason or obstacle
    comparisons.reasons[version.id] = reason


def _find_obstacle(version: VersionCopy, rule: str, context: Context) -> str | None:
    """Return the reason why a Version cannot be compared with any other (R254), or None if it can."""
    name, unchecked = version.attributes.get("format"), version.attributes.get("formatvalidatedreason")
    if not name:
        return f'Version "{version.id}" has no format'
    if unchecked is not None:
        return f'Version "{version.id}" was not validated: {unchecked}'
    if context.compatibility is None and not capabilities.can_compare(context.capabilities, str(name), rule):
        return f'{rule} is not supported for the format "{name}"'
    return None


def _compare_pair(
    version: VersionCopy, ancestor: VersionCopy, rule: str, context: Context, comparisons: Comparisons, against: str
) -> str | None:
    """Compare ``version`` with ``ancestor`` and add differences to ``comparisons``.

    Returns the reason if the two cannot be compared, else None. ``against`` is the name of ``ancestor`` in findings.
    """
    pair = _make_pair_key(version, ancestor, rule)
    if pair in _compatible_pairs:
        return None
    if comparisons.compared >= MAX_PAIRS:
        return f"more than {MAX_PAIRS} comparisons in one request"
    comparisons.compared += 1
    new, old = (
        make_document(copy.document, str(copy.attributes["format"]), version.xid, context)
        for copy in (version, ancestor)
    )
    outcome = compare_documents(rule, new, old)
    if outcome is None:
        return None
    if outcome.error is not None:
        names = f'Versions "{version.id}" and "{ancestor.id}"'
        if version.id == ancestor.id:
            names = f'two documents of Version "{version.id}"'
        return f"{names} cannot be compared: {outcome.error}"
    differences = outcome.items
    if differences:
        comparisons.broken.setdefault(version.id, []).append(ancestor.id)
        comparisons.findings += [
            convert_difference(direction, difference, document=str(version.xid), against=against)
            for direction, difference in differences[: MAX_DIFFERENCES - len(comparisons.findings)]
        ]
    elif not any(outcome.referred):  # referenced documents may change, and the key has only two digests
        _remember_pair(pair)
    return None


def _make_pair_key(version: VersionCopy, ancestor: VersionCopy, rule: str) -> tuple[str | None, ...]:
    """Return the key of a pair: digests, formats and the rule, so that the same two documents are compared once."""
    texts = [(copy.document, str(copy.attributes.get("format"))) for copy in (version, ancestor)]
    return (*texts[0], *texts[1], rule.casefold().removesuffix("_transitive"))


def _remember_pair(pair: tuple[str | None, ...]) -> None:
    # Remove the oldest pairs. Another thread may have removed the key already, hence the default of ``pop``.
    while len(_compatible_pairs) >= _MAX_COMPATIBLE_PAIRS:
        _compatible_pairs.pop(next(iter(_compatible_pairs)), None)
    _compatible_pairs[pair] = None


_COMPATIBILITY: Final = VALIDATION[2:]


def recheck(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Check all Versions of a stored Resource, including their documents, against the current model.

    Used after a change of ``validateformat``, ``validatecompatibility`` or ``strictvalidation``: missing outcomes are
    set, and outcomes that are no longer requested are removed (R253, R256). Documents already found valid are not read
    again. Errors are those of ``check_formats`` and ``check_compatibility``; compatibility is not checked if a format
    has an error.
    """
    count_before = context.problems.count
    check_formats(list(resource.versions.values()), type, context)
    check_imports(resource, type, context)
    if context.problems.count == count_before:
        with context.problems:
            check_compatibility(resource, type, context, find_changed_schemas(resource, type, context))


def check_matching(resource: ResourceCopy, type: ResourceType) -> None:
    """Raise ``mismatched_version_attribute`` if Versions differ in a ``matchversions`` attribute (R81)."""
    if type.matchversions:
        for name in type.mismatched(version.attributes for version in resource.versions.values()):
            raise RegistryError("mismatched_version_attribute", subject=str(resource.xid), name=name)


def check_compatibility(resource: ResourceCopy, type: ResourceType, context: Context, changed: Collection[str]) -> None:
    """Compare Versions with their ancestors as ``meta.compatibility`` requires (R256-R258).

    Sets ``compatibilityvalidated`` and its reason. Raises ``compatibility_violation`` with every difference. Under
    ``strictvalidation`` raises ``compatibility_unknown`` if a Version cannot be compared.
    """
    rule = _find_rule(resource, type, context)
    if not rule:
        for version in resource.versions.values():
            set_outcome(version, _COMPATIBILITY, {})
        return
    comparisons = compare_versions(resource, rule, changed, context)
    if comparisons.broken:
        pairs = "; ".join(f"{new} (after {', '.join(old)})" for new, old in comparisons.broken.items())
        raise comparisons.make_error(resource, rule, f"Versions that do not fit: {pairs}")
    for version in resource.versions.values():
        if not version.attributes.get("format"):
            set_outcome(version, _COMPATIBILITY, {})
        elif version.id in comparisons.reasons:
            reason = comparisons.reasons[version.id]
            if reason is not None and type.strictvalidation:
                raise _make_unknown_error(resource, version, rule, reason)
            set_outcome(version, _COMPATIBILITY, make_outcome("compatibilityvalidated", reason))
        elif version.before is not None:  # the stored outcome is still valid
            stored = version.before.attributes
            set_outcome(version, _COMPATIBILITY, {name: stored[name] for name in _COMPATIBILITY if name in stored})


def check_replaced(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Compare each document that replaces a stored Version's document with the replaced one, as if it were a new
    Version.

    The specification compares Versions only, but readers of a Version receive its new document. Adds warnings to
    ``context.findings``. If ``incompatible_changes`` is ``reject``, raises ``compatibility_violation`` instead, and
    ``compatibility_unknown`` for a document that cannot be compared.
    """
    rule = _find_rule(resource, type, context)
    if not rule:
        _report_nothing_compared(resource, type, context)
        return
    rejects = context.settings.incompatible_changes == "reject"
    comparisons = Comparisons()
    for batch in batched(_list_replaced(resource, rule, context), _VERSIONS_AT_ONCE):
        context.documents.forget()
        load_documents(_list_documents(batch, rule), context)
        for version, (earlier,) in batch:
            reason = _find_obstacle(version, rule, context)
            if reason is None:
                against = "the document it replaces"
                reason = _compare_pair(version, earlier, rule, context, comparisons, against)
            if reason is not None and rejects:
                raise _make_unknown_error(resource, earlier, rule, reason)
            if reason is not None:
                message = f"{_NOT_COMPARED}: {reason}"
                context.findings.append(
                    Finding(path=str(version.xid), rule="not_compared", message=message, severity="warning")
                )
    if comparisons.broken and rejects:
        detail = f"Versions whose new document does not fit behind the one it replaces: {', '.join(comparisons.broken)}"
        raise comparisons.make_error(resource, rule, detail)
    context.findings.extend(
        replace(finding, severity="warning", message=f"against the rule {rule}, {finding.message}")
        for finding in comparisons.findings
    )


def _report_nothing_compared(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Add a finding to ``context`` if a new document was not compared because its Resource has no rule."""
    if not type.hasdocument or len(context.findings) >= MAX_DIFFERENCES:
        return
    for version in resource.versions.values():
        before = version.before
        is_comparable = (
            version.ancestorid not in (None, version.id) if before is None else _is_replaced(version, before)
        )
        if is_comparable and find_comparison(str(version.attributes.get("format", ""))) is not None:
            reason = "it has no rule" if type.validatecompatibility else "its model asks for no comparison"
            message = f'the document of Version "{version.id}" was compared with nothing: {reason}'
            path = f"{resource.xid}/meta#compatibility"
            context.findings.append(Finding(path=path, rule="not_compared", message=message, severity="info"))
            return


def list_doubts(row: Row) -> Iterator[Finding]:
    """Yield a finding for each check of a stored Version that was requested but could not be made (R253, R256)."""
    for name in (VALIDATION[0], _COMPATIBILITY[0]):
        if row.attributes.get(name) is False:
            reason = str(row.attributes.get(f"{name}reason"))
            yield Finding(path=f"{row.xid}#{name}", rule="not_validated", message=reason, severity="warning")


def check_roots(resource: ResourceCopy, type: ResourceType) -> None:
    """Raise ``multiple_roots`` if the type allows only one root and there are several (R98, R243)."""
    if type.singleversionroot and len(find_roots(resource.versions.values())) > 1:
        raise RegistryError("multiple_roots", subject=str(resource.xid), plural=type.plural)


def _make_unknown_error(resource: ResourceCopy, version: VersionCopy, rule: str, reason: str) -> RegistryError:
    name = version.attributes["format"]
    return RegistryError("compatibility_unknown", subject=str(resource.xid), detail=reason, compat=rule, format=name)
