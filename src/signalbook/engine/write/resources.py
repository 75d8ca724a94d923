"""The write of one Resource: the steps of core/spec.md "Resource Processing Algorithm" (R216), and cross references."""

from __future__ import annotations

from typing import Final

from signalbook.engine.write.commands import ResourceIntent, VersionIntent, WriteMode, check_entry_id
from signalbook.engine.write.compatibility import (
    check_compatibility,
    check_matching,
    check_replaced,
    check_roots,
    find_changed_schemas,
    recheck,
)
from signalbook.engine.write.context import Context
from signalbook.engine.write.defaultversion import (
    DefaultVersionChoice,
    apply_flag,
    keep_choice,
    settle_default,
    write_meta,
)
from signalbook.engine.write.entities import GroupConstraints, check_epoch, check_id, write_version
from signalbook.engine.write.lineage import ORDERED, assign, find_cycle, find_surplus, find_unknown_ancestor, rank
from signalbook.engine.write.validation import check_formats, check_imports
from signalbook.engine.write.workingcopies import ResourceCopy, make_xref_error
from signalbook.errors import RegistryError
from signalbook.model import ResourceType
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid, XidError

_DERIVED: Final = frozenset({"self", "shortself", "xid", "metaurl", "versionsurl", "versionscount"})


def find_xref(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> Xid | None:
    """Return the xref that the Resource has after the request, or None. Raises ``malformed_xref``."""
    meta = intent.meta
    if meta is None or ("xref" not in meta and intent.mode is WriteMode.MERGE):
        return resource.xref
    value = meta.get("xref")
    return None if value is None else _parse_target(value, resource, intent, context)


def refer(resource: ResourceCopy, intent: ResourceIntent, target: Xid, context: Context) -> None:
    """Make ``resource`` a cross reference to ``target``, or keep it one.

    Raises ``extra_xref_attribute`` (R263), ``bad_request`` (R266), and ``bad_flag`` if the request chooses a default
    Version.
    """
    if context.flags.setdefaultversionid is not None:
        raise RegistryError("bad_flag", subject=str(resource.xid), flag="setdefaultversionid")
    _check_bare(resource, intent)
    if resource.before is not None and resource.xref is None and intent.meta is not None:
        check_epoch(intent.meta.get("epoch"), resource.before.epoch, resource.xid / "meta")
    for versionid in tuple(resource.versions):
        resource.remove(versionid)  # R264
    resource.xref = target
    resource.attributes = {}
    resource.defaultversionid = None
    resource.defaultversionsticky = False
    resource.touch(context.now)


def dissolve(resource: ResourceCopy) -> None:
    """Turn a cross reference into a normal Resource. Only its creation time is kept, and its epoch increases (R269)."""
    own_epoch = resource.before.epoch if resource.before else 0
    resource.xref = None
    # Clients saw the target's epoch at this xid. A lower epoch would look like an outdated response to them.
    resource.minimum_epoch = max(own_epoch, resource.target_epoch)
    resource.touched = True


def _parse_target(value: JSON, resource: ResourceCopy, intent: ResourceIntent, context: Context) -> Xid:
    try:
        target = Xid.parse(value)
    except (XidError, AttributeError) as error:
        detail = str(error) if isinstance(error, XidError) else "it needs to be a string"
        raise _make_malformed_error(value, resource, detail) from None
    if target.kind is not Kind.RESOURCE:
        raise _make_malformed_error(value, resource, "it needs to be the xid of a Resource")
    group = context.model.groups.get(target.group_type)
    if group is None or target.resource_type not in group.resources:
        raise _make_malformed_error(value, resource, "there is no such Group type or Resource type")
    if group.resources[target.resource_type].origin != intent.type.origin:
        raise _make_malformed_error(value, resource, "it needs to be of the same Resource type")
    return target


def _make_malformed_error(value: JSON, resource: ResourceCopy, detail: str) -> RegistryError:
    return RegistryError("malformed_xref", subject=str(resource.xid), xref=value, error_detail=detail)


def _check_bare(resource: ResourceCopy, intent: ResourceIntent) -> None:
    if intent.attributes is None and (intent.versions or intent.remove):  # R266
        raise make_xref_error(resource.xid)
    singular = intent.type.singular
    allowed = _DERIVED | {f"{singular}id"}
    was_normal = resource.before is not None and resource.xref is None
    extra = [name for name, value in (intent.attributes or {}).items() if name not in allowed and value is not None]
    in_meta = allowed | {"xref"} | ({"epoch"} if was_normal else set())
    extra += [name for name, value in (intent.meta or {}).items() if name not in in_meta and value is not None]
    extra += ["versions"] if intent.versions or intent.has_versions else []
    if intent.document is not None and intent.document.content:
        extra.append(singular)
    if extra:
        raise RegistryError("extra_xref_attribute", subject=str(resource.xid), name=extra[0], singular=singular)
    check_id(intent.attributes or {}, singular, resource.xid.id, resource.xid)
    check_id(intent.meta or {}, singular, resource.xid.id, resource.xid / "meta")


def write_resource(resource: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints, context: Context) -> bool:
    """Do steps 1 and 2 for ``intent``: write its Versions. Returns True if ``settle_resource`` must follow.

    Raises ``RegistryError``. Errors in single Versions are added to ``context.problems``, so that all are reported.
    """
    target = find_xref(resource, intent, context)
    if target is not None:
        refer(resource, intent, target, context)
        return False
    if resource.xref is not None:
        dissolve(resource)
    count_before = context.problems.count
    _write_versions(resource, intent, limits, context)
    return context.problems.count == count_before


def settle_resource(resource: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints, context: Context) -> bool:
    """Do steps 3 to 8 after the Versions are written. Returns True if ``finish_resource`` must follow."""
    count_before = context.problems.count
    resource_type = intent.type
    _settle_lineage(resource, resource_type)
    choice = apply_flag(write_meta(resource, intent, context), resource, intent, context)
    settle_default(resource, resource_type, choice, context)
    check_formats([v for v in resource.versions.values() if v.touched], resource_type, context)
    limits.check(resource.xid, [version.attributes for version in resource.versions.values()])
    check_matching(resource, resource_type)
    return context.problems.count == count_before


def finish_resource(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Do steps 9 and 10 after all Resources of the request are written, because their schemas may refer
    to each other.
    """
    # Computed first, because Versions that are loaded for comparison must not count as changed.
    changed = find_changed_schemas(resource, type, context)
    if resource.partial:
        context.loader.add_compared(resource, changed)
    count_before = context.problems.count
    check_imports(resource, type, context)
    if context.problems.count > count_before:
        return
    check_compatibility(resource, type, context, changed)
    check_replaced(resource, type, context)
    _prune(resource, type, context)
    # This check comes last, because pruning may have made other Versions roots.
    check_roots(resource, type)
    _mark_settled(resource, type, moved=_touch_moved(resource, context))


def resettle_resource(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Assign ancestors and the default Version of a stored Resource again after a change of the model (R242, R254).

    Versions beyond ``maxversions`` are deleted, and all documents are checked.
    Errors in documents are added to ``context.problems``.
    """
    _settle_lineage(resource, type)
    settle_default(resource, type, keep_choice(resource, type), context)
    _prune(resource, type, context)
    check_roots(resource, type)
    recheck(resource, type, context)
    _mark_settled(resource, type, moved=_touch_moved(resource, context))


def _write_versions(resource: ResourceCopy, intent: ResourceIntent, limits: GroupConstraints, context: Context) -> None:
    """Do steps 1 and 2: write the ``versions`` map, then the Version that the Resource-level attributes belong to."""
    own_version = _read_own_version(resource, intent)
    for version in (*intent.versions, *own_version):
        with context.problems:
            write_version(resource, version, intent, limits, context)
    for versionid in intent.remove:
        resource.remove(versionid)
    # The meta counts as updated if Versions are added or removed, but not if a Version changes.
    if resource.removed or resource.created:
        resource.touch(context.now)  # R38


def _read_own_version(resource: ResourceCopy, intent: ResourceIntent) -> tuple[VersionIntent, ...]:
    """Return the write of the Resource-level attributes to the Version that they belong to (R217-R222).

    Empty if there is no such Version, or if the ``versions`` map contains it.
    """
    attributes = intent.attributes
    if attributes is None:
        if resource.defaultversionid is not None or intent.versions:
            return ()
        attributes = {}  # a write to the meta creates the Resource (GAP 23)
    check_id(attributes, intent.type.singular, resource.xid.id, resource.xid)
    if resource.defaultversionid is not None:
        check_id(attributes, "version", resource.defaultversionid, resource.xid)
        owner: str | None = resource.defaultversionid
    else:
        owner = _choose_first_version(resource, attributes, intent)
        if owner is None and intent.versions:
            return ()
    if owner is not None and any(version.id == owner for version in intent.versions):
        return ()
    return (VersionIntent(id=owner, body=attributes, mode=intent.mode, document=intent.document, of_resource=True),)


def _choose_first_version(resource: ResourceCopy, attributes: JSONObject, intent: ResourceIntent) -> str | None:
    """Return the id of a new Resource's first Version that its attributes or meta state, or None (R219, R220)."""
    versionid = attributes.get("versionid")
    if versionid is None:
        versionid = (intent.meta or {}).get("defaultversionid")
    if versionid is None:
        return None
    if not isinstance(versionid, str):
        detail = "it needs to be a string"
        raise RegistryError("invalid_attribute", subject=str(resource.xid), name="versionid", error_detail=detail)
    return check_entry_id(resource.xid / "versions", versionid)


def _settle_lineage(resource: ResourceCopy, type: ResourceType) -> None:
    """Do step 3: assign ancestors. Raises ``unknown_id`` (R239) and ``ancestor_circular_reference`` (R240)."""
    processing = resource.versions
    if type.versionmode not in ORDERED:
        orphan = find_unknown_ancestor(processing, resource.removed, resource.open)
        if orphan is not None:
            detail = f'it is the "ancestorid" of "{orphan.xid}"'
            raise RegistryError(
                "unknown_id", subject=str(resource.xid), detail=detail, singular="version", id=orphan.ancestorid
            )
    assign(processing, type.versionmode, open=resource.open, inner=resource.inner)
    circle = find_cycle(processing)
    if circle:
        raise RegistryError("ancestor_circular_reference", subject=str(resource.xid), list=", ".join(circle))


def _prune(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Do step 10: delete the oldest Versions beyond ``maxversions`` (R93), then update ancestors and the default
    Version.
    """
    if not type.maxversions or len(resource.versions) <= type.maxversions:
        return
    keep = None if type.maxversions == 1 else resource.defaultversionid
    for versionid in find_surplus(resource.versions, type.versionmode, type.maxversions, keep):
        resource.remove(versionid)
    assign(resource.versions, type.versionmode)
    if resource.defaultversionid not in resource.versions:
        settle_default(resource, type, DefaultVersionChoice(sticky=False), context)
    resource.touch(context.now)


def _touch_moved(resource: ResourceCopy, context: Context) -> bool:
    """Count Versions whose ancestor changed as updated (R241). Returns True if there is at least one.

    This comes last, because in ``modifiedat`` mode the new timestamp must not change the order again.
    """
    moved = [v for v in resource.versions.values() if v.before is not None and v.before.ancestorid != v.ancestorid]
    for version in moved:
        version.touch(context.now)
    return bool(moved)


def _mark_settled(resource: ResourceCopy, type: ResourceType, *, moved: bool) -> None:
    """Store the rank of each Version and the mode that orders them.

    If Versions moved in ``modifiedat`` mode, no mode is stored, because their new timestamps may contradict the order.
    """
    for version in resource.versions.values():
        version.rank = rank(version, type.versionmode)
    resource.settled = None if moved and type.versionmode == "modifiedat" else type.versionmode
