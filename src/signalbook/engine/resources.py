"""One Resource: the processing order of core/spec.md "Resource Processing Algorithm" (R216), step by step."""

from __future__ import annotations

from collections.abc import Callable

from signalbook.engine import crossreferences, lineage, meta, validation, versions, vicinity
from signalbook.engine.attributes import check_id
from signalbook.engine.constraints import GroupConstraints
from signalbook.engine.context import Context
from signalbook.engine.drafts import ResourceCopy
from signalbook.engine.intents import ResourceIntent, VersionIntent, entry_id
from signalbook.errors import RegistryError
from signalbook.model import ResourceType
from signalbook.values import JSONObject


def write_resource(
    resource: ResourceCopy,
    intent: ResourceIntent,
    limits: GroupConstraints,
    context: Context,
    target_epoch: Callable[[], int],
) -> bool:
    """Apply ``intent`` to ``resource``, steps 1 to 8; True if ``finish_resource`` is to follow.

    ``target_epoch`` is the epoch of the Resource its present xref points to. Raises ``RegistryError`` at the end of the
    step that found something wrong; single Versions report into ``context.problems`` too, so that all of them are told.
    """
    target = crossreferences.wanted(resource, intent, context)
    if target is not None:
        crossreferences.refer(resource, intent, target, context)
        return False
    if resource.xref is not None:
        crossreferences.dissolve(resource, target_epoch())
    found = context.problems.count
    _write_versions(resource, intent, limits, context)
    if context.problems.count > found:
        return False
    vicinity.gather(resource, intent, context)
    _settle(resource, intent, limits, context)
    return context.problems.count == found


def finish_resource(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Steps 9 and 10, for when all Resources of the request are written: their schemas may refer to each other."""
    validation.check_compatibility(resource, type, context)
    _prune(resource, type, context)
    validation.check_roots(resource, type)
    _mark(resource, type, moved=_touch_moved(resource, context))


def resettle_resource(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Steps 3, 5, 6 and 9 for a Resource that no request names: the model has changed (R242, R254).

    Reports into ``context.problems`` what the documents have against it.
    """
    _settle_lineage(resource, type)
    meta.settle_default(resource, type, meta.kept_choice(resource, type), context)
    validation.recheck(resource, type, context)
    _mark(resource, type, moved=_touch_moved(resource, context))


def _write_versions(resource: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints, context: Context) -> None:
    """Steps 1 and 2: the ``versions`` map, then the Resource-level attributes where they belong."""
    own = _resource_level(resource, intent)
    for version in (*intent.versions, *own):
        with context.problems:
            versions.write_version(resource, version, intent, limits, context)
    resource.find(*intent.remove)
    for versionid in intent.remove:
        resource.remove(versionid)
    if resource.removed or resource.created:
        resource.touch(context.now)  # R38


def _resource_level(resource: ResourceCopy, intent: ResourceIntent) -> tuple[VersionIntent, ...]:
    """The write of the Resource-level attributes to the Version they belong to, if to any (R217-R222)."""
    attributes = intent.attributes
    if attributes is None:
        if resource.defaultversionid is not None or intent.versions:
            return ()
        attributes = {}  # a write to the meta of a Resource yet to be (GAP 23)
    check_id(attributes, intent.type.singular, resource.xid.id, resource.xid)
    if resource.defaultversionid is not None:
        check_id(attributes, "version", resource.defaultversionid, resource.xid)
        owner: str | None = resource.defaultversionid
    else:
        owner = _first_version(resource, attributes, intent)
        if owner is None and intent.versions:
            return ()
    if owner is not None and any(version.id == owner for version in intent.versions):
        return ()
    return (VersionIntent(id=owner, body=attributes, mode=intent.mode, document=intent.document),)


def _first_version(resource: ResourceCopy, attributes: JSONObject, intent: ResourceIntent) -> str | None:
    """The id that a new Resource's own attributes name for their Version (R219, R220)."""
    named = attributes.get("versionid")
    if named is None:
        named = (intent.meta or {}).get("defaultversionid")
    if named is None:
        return None
    if not isinstance(named, str):
        detail = "it needs to be a string"
        raise RegistryError("invalid_attribute", subject=str(resource.xid), name="versionid", error_detail=detail)
    return entry_id(resource.xid / "versions", named)


def _settle(
    resource: ResourceCopy,
    intent: ResourceIntent,
    limits: GroupConstraints,
    context: Context,
) -> None:
    """Steps 3 to 8, once the Versions are what the request says."""
    kind = intent.type
    _settle_lineage(resource, kind)
    choice = meta.flagged(meta.write_meta(resource, intent, context), resource, intent, context)
    meta.settle_default(resource, kind, choice, context)
    validation.check_formats(resource, kind, context)
    limits.check(resource.xid, [version.attributes for version in resource.versions.values()])
    validation.check_matching(resource, kind)


def _settle_lineage(resource: ResourceCopy, type: ResourceType) -> None:
    """Step 3. Raises ``unknown_id`` (R239) and ``ancestor_circular_reference`` (R240)."""
    versions = resource.versions
    if type.versionmode not in lineage.ORDERED:
        lost = lineage.unknown_ancestor(versions, resource.removed, resource.open)
        if lost is not None:
            raise RegistryError("unknown_id", subject=str(lost.xid), singular="version", id=lost.ancestorid)
    lineage.assign(versions, type.versionmode, open=resource.open, inner=resource.inner)
    circle = lineage.cycle(versions)
    if circle:
        raise RegistryError("ancestor_circular_reference", subject=str(resource.xid), list=", ".join(circle))


def _prune(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Step 10: delete the oldest Versions beyond ``maxversions`` (R93), and settle again what hung on them."""
    if not type.maxversions or len(resource.versions) <= type.maxversions:
        return
    keep = None if type.maxversions == 1 else resource.defaultversionid
    for versionid in lineage.surplus(resource.versions, type.versionmode, type.maxversions, keep):
        resource.remove(versionid)
    lineage.assign(resource.versions, type.versionmode)
    if resource.defaultversionid not in resource.versions:
        meta.settle_default(resource, type, meta.Choice(sticky=False), context)
    resource.touch(context.now)


def _touch_moved(resource: ResourceCopy, context: Context) -> bool:
    """A Version whose ancestor changed counts as updated (R241); tells whether there was one.

    Last of all: in ``modifiedat`` mode the stamp must not feed back into the order it comes from.
    """
    moved = [v for v in resource.versions.values() if v.before is not None and v.before.ancestorid != v.ancestorid]
    for version in moved:
        version.touch(context.now)
    return bool(moved)


def _mark(resource: ResourceCopy, type: ResourceType, *, moved: bool) -> None:
    """Say where each Version is, and by which mode: a stamp that came after the order may have put it out of order."""
    for version in resource.versions.values():
        version.rank = lineage.rank(version, type.versionmode)
    resource.settled = None if moved and type.versionmode == "modifiedat" else type.versionmode
