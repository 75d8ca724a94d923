"""Resources that stand for another one through ``meta.xref`` (core/spec.md "Cross Referencing Resources")."""

from __future__ import annotations

from typing import Final

from signalbook.engine.attributes import check_epoch, check_id
from signalbook.engine.context import Context
from signalbook.engine.drafts import ResourceCopy
from signalbook.engine.intents import ResourceIntent, WriteMode
from signalbook.errors import RegistryError
from signalbook.values import JSON
from signalbook.xid import Kind, Xid, XidError

_DERIVED: Final = frozenset({"self", "shortself", "xid", "metaurl", "versionsurl", "versionscount"})


def wanted(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> Xid | None:
    """The xref this Resource is to have after the request: set, kept or gone."""
    meta = intent.meta
    if meta is None or ("xref" not in meta and intent.mode is WriteMode.MERGE):
        return resource.xref
    value = meta.get("xref")
    return None if value is None else _target(value, resource, intent, context)


def refer(resource: ResourceCopy, intent: ResourceIntent, target: Xid, context: Context) -> None:
    """Make (or leave) ``resource`` a reference to ``target``.

    Raises ``extra_xref_attribute`` (R263), ``bad_request`` (R266), ``bad_flag`` for the choice of a default Version.
    """
    if context.flags.setdefaultversionid is not None:
        raise RegistryError("bad_flag", subject=str(resource.xid), flag="setdefaultversionid")
    _check_bare(resource, intent)
    if resource.before is not None and resource.xref is None and intent.meta is not None:
        check_epoch(intent.meta.get("epoch"), resource.before.epoch, resource.xid / "meta")
    resource.complete()
    for versionid in tuple(resource.versions):
        resource.remove(versionid)  # R264
    resource.xref = target
    resource.attributes = {}
    resource.defaultversionid = None
    resource.sticky = False
    resource.touch(context.now)


def dissolve(resource: ResourceCopy, target_epoch: int) -> None:
    """Take the reference away: nothing of the past returns but the creation time and a growing epoch (R269)."""
    own = resource.before.epoch if resource.before else 0
    resource.xref = None
    resource.floor = max(own, target_epoch)
    resource.touched = True


def elsewhere(xid: Xid) -> RegistryError:
    """The error for a write to the Versions of a reference (R266)."""
    detail = f'"{xid}" is a cross reference; its Versions are written at its target'
    return RegistryError("bad_request", subject=str(xid), error_detail=detail)


def _target(value: JSON, resource: ResourceCopy, intent: ResourceIntent, context: Context) -> Xid:
    try:
        target = Xid.parse(value)
    except (XidError, AttributeError) as error:
        detail = str(error) if isinstance(error, XidError) else "it needs to be a string"
        raise _malformed(value, resource, detail) from None
    if target.kind is not Kind.RESOURCE:
        raise _malformed(value, resource, "it needs to be the xid of a Resource")
    group = context.model.groups.get(target.group_type)
    if group is None or target.resource_type not in group.resources:
        raise _malformed(value, resource, "there is no such Group type or Resource type")
    if group.resources[target.resource_type].origin != intent.type.origin:
        raise _malformed(value, resource, "it needs to be of the same Resource type")
    if target == resource.xid:
        raise _malformed(value, resource, "a Resource cannot stand for itself")
    return target


def _malformed(value: JSON, resource: ResourceCopy, detail: str) -> RegistryError:
    return RegistryError("malformed_xref", subject=str(resource.xid), xref=value, error_detail=detail)


def _check_bare(resource: ResourceCopy, intent: ResourceIntent) -> None:
    if intent.attributes is None and (intent.versions or intent.remove):  # R266
        raise elsewhere(resource.xid)
    singular = intent.type.singular
    allowed = _DERIVED | {f"{singular}id"}
    was_normal = resource.before is not None and resource.xref is None
    extra = [name for name, value in (intent.attributes or {}).items() if name not in allowed and value is not None]
    in_meta = allowed | {"xref"} | ({"epoch"} if was_normal else set())
    extra += [name for name, value in (intent.meta or {}).items() if name not in in_meta and value is not None]
    extra += ["versions"] if intent.versions else []
    if intent.document is not None and intent.document.content:
        extra.append(singular)
    if extra:
        raise RegistryError("extra_xref_attribute", subject=str(resource.xid), name=extra[0], singular=singular)
    check_id(intent.attributes or {}, singular, resource.xid.id, resource.xid)
    check_id(intent.meta or {}, singular, resource.xid.id, resource.xid / "meta")
