"""The meta of a Resource, and which Version is its default: chosen by the client, sticky or not, else the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbook.engine import capabilities
from signalbook.engine.write.commands import ResourceIntent, WriteMode
from signalbook.engine.write.context import Context
from signalbook.engine.write.entities import (
    COMMON,
    check_attributes,
    check_id,
    make_invalid_error,
    merge_attributes,
    update,
)
from signalbook.engine.write.lineage import find_newest
from signalbook.engine.write.workingcopies import ResourceCopy
from signalbook.errors import RegistryError
from signalbook.model import ResourceType
from signalbook.values import JSON, JSONObject

_STICKY: Final = "defaultversionsticky"
_RULE: Final = "compatibility"

_HANDLED: Final = COMMON | {"xref", "readonly", "defaultversionid", "defaultversionurl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultVersionChoice:
    """The requested default Version: ``versionid`` is None for the newest one."""

    sticky: bool
    versionid: str | None = None


def is_sticky_by_default(type: ResourceType) -> bool:
    """Return the default of ``defaultversionsticky``: false, unless the model pins it (R232)."""
    return bool(type.metaattributes[_STICKY].default)


def write_meta(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> DefaultVersionChoice:
    """Create or update meta's attributes (R223); returns what its body says of the default Version.

    Without a meta in the request nothing changes but a default that is gone.
    """
    body, new = intent.meta, resource.defaultversionid is None
    if body is None:
        if new:  # a new Resource takes the defaults
            resource.attributes = _with_default_rule(
                resource, _check_attributes(resource, {}, intent, context), intent, context
            )
            return DefaultVersionChoice(sticky=is_sticky_by_default(intent.type))
        return keep_choice(resource, intent.type)
    check_id(body, intent.type.singular, resource.xid.id, resource.xid / "meta")
    update(resource, body, context)
    choice = _read_choice(resource, body, intent)
    resource.attributes = _check_attributes(resource, {**body, _STICKY: choice.sticky}, intent, context)
    # A null says that there is to be no rule.
    if new and _RULE not in body:
        resource.attributes = _with_default_rule(resource, resource.attributes, intent, context)
    return choice


def _with_default_rule(
    resource: ResourceCopy, meta: JSONObject, intent: ResourceIntent, context: Context
) -> JSONObject:
    """Return ``meta`` of a new Resource with the rule of the setting ``default_compatibility``.

    Only where that can be enforced: the model asks for it, states no rule, and all Versions are of comparable formats.
    """
    rule = context.default_compatibility
    if not rule or _RULE in meta or not intent.type.validatecompatibility:
        return meta
    formats = [str(version.attributes.get("format", "")) for version in resource.versions.values()]
    comparable = all(capabilities.can_compare(context.capabilities, name, rule) for name in formats)
    return {**meta, _RULE: rule} if comparable else meta


def settle_default(resource: ResourceCopy, type: ResourceType, choice: DefaultVersionChoice, context: Context) -> None:
    """Make the default what was chosen (R225-R231). Raises ``unknown_id``, ``setdefaultversionsticky_false``."""
    if choice.sticky and type.maxversions == 1:
        raise RegistryError("setdefaultversionsticky_false", subject=str(resource.xid))
    versionid = choice.versionid if choice.sticky else None
    if versionid is None:
        versionid = find_newest(resource.versions, type.versionmode, resource.inner).id
    elif versionid not in resource.versions:
        raise RegistryError("unknown_id", subject=str(resource.xid / "meta"), singular="version", id=versionid)
    if (resource.defaultversionid, resource.defaultversionsticky) != (versionid, choice.sticky):
        resource.defaultversionid, resource.defaultversionsticky = versionid, choice.sticky
        resource.touch(context.now)


def keep_choice(resource: ResourceCopy, type: ResourceType) -> DefaultVersionChoice:
    """Return the choice that leaves the default as it is; one that was deleted gives way to the newest (R174)."""
    if resource.defaultversionsticky and resource.defaultversionid in resource.versions:
        return DefaultVersionChoice(sticky=True, versionid=resource.defaultversionid)
    return DefaultVersionChoice(sticky=resource.defaultversionsticky and is_sticky_by_default(type))


def apply_flag(
    choice: DefaultVersionChoice, resource: ResourceCopy, intent: ResourceIntent, context: Context
) -> DefaultVersionChoice:
    """Return ``choice`` as the ``setdefaultversionid`` flag overrides it (R209); ``request`` is the new Version (R210).

    Raises ``defaultversionid_request``, and ``unknown_id`` for what is no Version.
    """
    flag = context.flags.setdefaultversionid
    if flag is None:
        return choice
    if flag == "request":
        flag = next(iter(resource.created), None)  # there is one at most: see commands.check_command
        if flag is None:
            raise RegistryError("defaultversionid_request", subject=str(resource.xid))
    chosen = DefaultVersionChoice(sticky=False) if flag == "null" else DefaultVersionChoice(sticky=True, versionid=flag)
    check_attributes({_STICKY: chosen.sticky}, intent.type.metaattributes, resource.xid / "meta")
    to_meta = resource.before is None or (intent.attributes is None and intent.meta is not None)
    if chosen.versionid is not None and chosen.versionid not in resource.versions and not to_meta:
        # The reference server names the Resource, unless the request is one to its meta or creates it.
        raise RegistryError("unknown_id", subject=str(resource.xid), singular="version", id=chosen.versionid)
    return chosen


def _read_choice(resource: ResourceCopy, body: JSONObject, intent: ResourceIntent) -> DefaultVersionChoice:
    versionid = body.get("defaultversionid")
    if versionid is not None and not isinstance(versionid, str):
        raise make_invalid_error(resource.xid / "meta", "defaultversionid", "it needs to be a versionid")
    if intent.mode is WriteMode.REPLACE or resource.defaultversionid is None:
        implied = intent.mode is WriteMode.MERGE and _STICKY not in body and versionid is not None
        return DefaultVersionChoice(sticky=_read_sticky(body, intent.type, implied), versionid=versionid)
    if _STICKY not in body:
        if "defaultversionid" in body:  # R227
            return DefaultVersionChoice(sticky=versionid is not None, versionid=versionid)
        return keep_choice(resource, intent.type)
    # R229, GAP 1: the default stays. A null is no choice: it asks for what the model says, as if nobody had chosen.
    is_chosen = body[_STICKY] is not None
    if is_chosen and "defaultversionid" not in body and resource.defaultversionid in resource.versions:
        versionid = resource.defaultversionid
    return DefaultVersionChoice(sticky=_read_sticky(body, intent.type), versionid=versionid)


def _read_sticky(body: JSONObject, type: ResourceType, implied: bool = False) -> JSON:
    """Return the value asked for, unchecked: the attribute check reports what is no boolean."""
    value = body.get(_STICKY)
    return (implied or is_sticky_by_default(type)) if value is None else value


def _check_attributes(resource: ResourceCopy, body: JSONObject, intent: ResourceIntent, context: Context) -> JSONObject:
    """Meta's plain attributes, checked."""
    values = merge_attributes(resource.attributes, body, intent.mode, _HANDLED | {f"{intent.type.singular}id"})
    result = check_attributes(values, intent.type.metaattributes, resource.xid / "meta")
    result.pop(_STICKY, None)
    if _read_readonly(resource, body, intent.mode, admin=context.admin):
        result["readonly"] = True
    return result


def _read_readonly(resource: ResourceCopy, body: JSONObject, mode: WriteMode, *, admin: bool) -> bool:
    """Return the new value of ``readonly``. An admin may set it; from anyone else it is ignored, and stays (R261)."""
    if not admin or (mode is WriteMode.MERGE and "readonly" not in body):
        return resource.readonly
    value = body.get("readonly")
    if value not in (None, True, False):
        raise make_invalid_error(resource.xid / "meta", "readonly", "it needs to be true or false")
    return bool(value)
