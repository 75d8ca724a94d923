"""Checks over all Versions of one Resource: ``format``, ``matchversions``, ``compatibility``, roots.

core/spec.md "format", "formatvalidated", "compatibility"; core/model.md "validateformat", "matchversions",
"singleversionroot".
"""

from __future__ import annotations

from signalbook.engine.context import Context
from signalbook.engine.documents import schema_text
from signalbook.engine.drafts import ResourceDraft, VersionDraft
from signalbook.engine.lineage import roots
from signalbook.engine.versions import VALIDATION
from signalbook.errors import RegistryError
from signalbook.formats import registry as formats
from signalbook.model import ResourceType
from signalbook.values import JSON, JSONObject


def check_formats(resource: ResourceDraft, type: ResourceType, context: Context) -> None:
    """Validate the documents this request wrote against their ``format`` (R252-R255).

    Sets ``formatvalidated`` and its reason. Reports ``format_violation`` and, under ``strictvalidation``,
    ``format_unknown`` or ``format_external``.
    """
    if not type.validateformat:
        return
    for version in resource.versions.values():
        if version.touched and version.attributes.get("format"):
            with context.problems:
                version.attributes = {**version.attributes, **_outcome(version, type, context)}


def check_matching(resource: ResourceDraft, type: ResourceType) -> None:
    """All Versions agree on every ``matchversions`` attribute (R81), else ``mismatched_version_attribute``."""
    if type.matchversions:
        for name in type.mismatched(version.attributes for version in resource.versions.values()):
            raise RegistryError("mismatched_version_attribute", subject=str(resource.xid), name=name)


def check_compatibility(resource: ResourceDraft, type: ResourceType) -> None:
    """Say of each Version that its compatibility was not checked, and why (R254, R256).

    No rule is offered for any format yet: under ``strictvalidation`` asking for one is ``compatibility_unknown``.
    """
    rule = resource.attributes.get("compatibility")
    for version in resource.versions.values():
        name = version.attributes.get("format")
        asked = bool(type.validatecompatibility and rule and name)
        if asked and type.strictvalidation:
            raise RegistryError("compatibility_unknown", subject=str(resource.xid), compat=rule, format=name)
        _set_compatibility(version, f"{rule} is not checked for {name}" if asked else None)


def check_roots(resource: ResourceDraft, type: ResourceType) -> None:
    """No second root where the type allows one only (R98, R243), else ``multiple_roots``."""
    if type.singleversionroot and len(roots(resource.versions.values())) > 1:
        raise RegistryError("multiple_roots", subject=str(resource.xid), plural=type.plural)


def _outcome(version: VersionDraft, type: ResourceType, context: Context) -> JSONObject:
    known = _unchanged(version, type)
    if known is not None:
        return known
    name = version.attributes["format"]
    if version.attributes.get(f"{type.singular}url") is not None:
        if type.strictvalidation:
            raise RegistryError("format_external", subject=str(version.xid))
        return _unvalidated("the document is stored outside of the registry")
    reader = formats.find(name) if _offered(name, context) else None
    if reader is None:
        if type.strictvalidation:
            raise RegistryError("format_unknown", subject=str(version.xid), format=name)
        return _unvalidated(f'the format "{name}" is not supported')
    content = schema_text(context.documents.read(version.document))
    faults = [finding for finding in reader.check(content, name) if finding.severity == "error"]
    if faults:
        raise RegistryError("format_violation", subject=str(version.xid), format=name, faults=faults)
    return {"formatvalidated": True}


def _unchanged(version: VersionDraft, type: ResourceType) -> JSONObject | None:
    """The stored outcome, when nothing it depends on is different now."""
    before = version.before
    if before is None or "formatvalidated" not in before.attributes or before.document != version.document:
        return None
    if any(before.attributes.get(n) != version.attributes.get(n) for n in ("format", f"{type.singular}url")):
        return None
    if not before.attributes["formatvalidated"]:
        return None  # the format may be offered by now
    return {name: before.attributes[name] for name in VALIDATION[:2] if name in before.attributes}


def _offered(name: str, context: Context) -> bool:
    """Whether the capability ``formats`` lists ``name`` or a wildcard that covers it (R120)."""
    wanted = name.casefold()
    family = wanted.partition("/")[0]
    listed = {value.casefold() for value in context.capabilities["formats"]}
    return bool(listed & {wanted, "*", f"{family}/*", family}) or _canonical(name) in listed


def _canonical(name: str) -> JSON:
    reader = formats.find(name)
    canonical = reader.canonical(name) if reader else None
    return canonical.casefold() if canonical else None


def _unvalidated(reason: str) -> JSONObject:
    return {"formatvalidated": False, "formatvalidatedreason": reason}


def _set_compatibility(version: VersionDraft, reason: str | None) -> None:
    told = version.attributes.get("compatibilityvalidatedreason")
    if told == reason:
        return
    kept = {name: value for name, value in version.attributes.items() if name not in VALIDATION[2:]}
    if reason is not None:
        kept |= {"compatibilityvalidated": False, "compatibilityvalidatedreason": reason}
    version.attributes = kept
