"""Checks over all Versions of one Resource: ``format``, ``matchversions``, ``compatibility``, roots.

core/spec.md "format", "formatvalidated", "compatibility"; core/model.md "validateformat", "matchversions",
"singleversionroot".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from signalbook.engine import compatibility
from signalbook.engine.context import Context
from signalbook.engine.documents import schema_text
from signalbook.engine.drafts import ResourceCopy, VersionCopy
from signalbook.engine.lineage import roots
from signalbook.engine.versions import VALIDATION
from signalbook.errors import RegistryError
from signalbook.formats import registry as formats
from signalbook.model import ResourceType
from signalbook.storage.base import Row
from signalbook.values import JSON, Finding, JSONObject

_FORMAT: Final = VALIDATION[:2]
_COMPATIBILITY: Final = VALIDATION[2:]


def check_formats(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Validate the documents this request wrote against their ``format`` (R252-R255).

    Sets ``formatvalidated`` and its reason. Reports ``format_violation`` and, under ``strictvalidation``,
    ``format_unknown`` or ``format_external``.
    """
    for version in resource.versions.values():
        if version.touched:
            with context.problems:
                _set(version, _FORMAT, _outcome(version, type, context))


def recheck(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Hold all Versions of a stored Resource to what the model asks now, documents included.

    For when ``validateformat``, ``validatecompatibility`` or ``strictvalidation`` have changed: outcomes are set that
    were not, and go where they are no longer asked for (R253, R256). What was found valid is not read again. Reports
    as ``check_formats`` and ``check_compatibility`` do; the latter says nothing while formats are in question.
    """
    found = context.problems.count
    for version in resource.versions.values():
        with context.problems:
            _set(version, _FORMAT, _outcome(version, type, context))
    if context.problems.count == found:
        with context.problems:
            check_compatibility(resource, type, context)


def check_matching(resource: ResourceCopy, type: ResourceType) -> None:
    """All Versions agree on every ``matchversions`` attribute (R81), else ``mismatched_version_attribute``."""
    if type.matchversions:
        for name in type.mismatched(version.attributes for version in resource.versions.values()):
            raise RegistryError("mismatched_version_attribute", subject=str(resource.xid), name=name)


def check_compatibility(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Compare Versions with their ancestors as ``meta.compatibility`` asks (R256-R258).

    Sets ``compatibilityvalidated`` and its reason. Raises ``compatibility_violation`` with every difference and, under
    ``strictvalidation``, ``compatibility_unknown`` for what cannot be compared.
    """
    rule = context.compatibility or resource.attributes.get("compatibility")
    if not rule or not (type.validatecompatibility or context.compatibility):
        for version in resource.versions.values():
            _set(version, _COMPATIBILITY, {})
        return
    verdict = compatibility.compare_versions(resource, str(rule), context)
    if verdict.broken:
        raise verdict.error(resource, str(rule))
    for version in resource.versions.values():
        if not version.attributes.get("format"):
            _set(version, _COMPATIBILITY, {})
        elif version.id in verdict.reasons:
            reason = verdict.reasons[version.id]
            if reason is not None and type.strictvalidation:
                raise _unknown(resource, version, str(rule), reason)
            _set(version, _COMPATIBILITY, _said("compatibilityvalidated", reason))
        elif version.before is not None:  # nothing it was found by has changed
            known = version.before.attributes
            _set(version, _COMPATIBILITY, {name: known[name] for name in _COMPATIBILITY if name in known})


def doubts(row: Row) -> Iterator[Finding]:
    """What was asked for and not found out about a stored Version (R253, R256)."""
    for name in (_FORMAT[0], _COMPATIBILITY[0]):
        if row.attributes.get(name) is False:
            reason = str(row.attributes.get(f"{name}reason"))
            yield Finding(path=f"{row.xid}#{name}", rule="not_validated", message=reason, severity="warning")


def check_roots(resource: ResourceCopy, type: ResourceType) -> None:
    """No second root where the type allows one only (R98, R243), else ``multiple_roots``."""
    if type.singleversionroot and len(roots(resource.versions.values())) > 1:
        raise RegistryError("multiple_roots", subject=str(resource.xid), plural=type.plural)


def _outcome(version: VersionCopy, type: ResourceType, context: Context) -> JSONObject:
    name = version.attributes.get("format")
    if not type.validateformat or not name:
        return {}
    known = _unchanged(version, type)
    if known is not None:
        return known
    if version.attributes.get(f"{type.singular}url") is not None:
        if type.strictvalidation:
            raise RegistryError("format_external", subject=str(version.xid))
        return _said("formatvalidated", "the document is stored outside of the registry")
    reader = formats.find(name) if _offered(name, context) else None
    if reader is None:
        if type.strictvalidation:
            raise RegistryError("format_unknown", subject=str(version.xid), format=name)
        return _said("formatvalidated", f'the format "{name}" is not supported')
    content = schema_text(context.documents.read(version.document), name)
    faults = [finding for finding in reader.check(content, name) if finding.severity == "error"]
    if faults:
        raise RegistryError("format_violation", subject=str(version.xid), format=name, faults=faults)
    return _said("formatvalidated", None)


def _unchanged(version: VersionCopy, type: ResourceType) -> JSONObject | None:
    """The stored outcome, when nothing it depends on is different now."""
    before = version.before
    if before is None or "formatvalidated" not in before.attributes or before.document != version.document:
        return None
    if any(before.attributes.get(n) != version.attributes.get(n) for n in ("format", f"{type.singular}url")):
        return None
    if not before.attributes["formatvalidated"]:
        return None  # the format may be offered by now
    return {name: before.attributes[name] for name in _FORMAT if name in before.attributes}


def _offered(name: str, context: Context) -> bool:
    """Whether the capability ``formats`` lists ``name`` or a wildcard that covers it (R120).

    A name without a version stands for whichever its documents are of: one that is listed will do.
    """
    wanted = name.casefold()
    family = wanted.partition("/")[0]
    listed = _folded(tuple(context.capabilities["formats"]))
    if listed & {wanted, "*", f"{family}/*", family} or _canonical(name) in listed:
        return True
    return wanted == family and any(value.partition("/")[0] == formats.family(family) for value in listed)


@lru_cache(maxsize=8)
def _folded(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _canonical(name: str) -> JSON:
    reader = formats.find(name)
    canonical = reader.canonical(name) if reader else None
    return canonical.casefold() if canonical else None


def _unknown(resource: ResourceCopy, version: VersionCopy, rule: str, reason: str) -> RegistryError:
    name = version.attributes["format"]
    return RegistryError("compatibility_unknown", subject=str(resource.xid), detail=reason, compat=rule, format=name)


def _said(name: str, reason: str | None) -> JSONObject:
    """The outcome of a check: it held, or could not be made for this reason."""
    return {name: True} if reason is None else {name: False, f"{name}reason": reason}


def _set(version: VersionCopy, names: tuple[str, ...], outcome: JSONObject) -> None:
    """Put an outcome in the place of the last one; that is no update of the Version (G-22)."""
    if outcome != {name: version.attributes[name] for name in names if name in version.attributes}:
        kept = {name: value for name, value in version.attributes.items() if name not in names}
        version.attributes = kept | outcome
