"""The meta of a Resource and its default Version: chosen by the client (sticky or not), else the newest Version."""

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
    """The requested default Version. ``versionid`` None means the newest Version."""

    sticky: bool
    versionid: str | None = None


def is_sticky_by_default(type: ResourceType) -> bool:
    """Return the default value of ``defaultversionsticky``: False unless the model sets it (R232)."""
    return bool(type.metaattributes[_STICKY].default)


def write_meta(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> DefaultVersionChoice:
    """Create or update the attributes of the meta (R223). Returns the choice of the default Version in the request.

    Without a meta in the request the choice stays the same, unless the default Version was removed.
    """
    body, new = intent.meta, resource.defaultversionid is None
    if body is None:
        if new:  # a new Resource gets the defaults of the model
            resource.attributes = _with_default_rule(
                resource, _check_attributes(resource, {}, intent, context), intent, context
            )
            return DefaultVersionChoice(sticky=is_sticky_by_default(intent.type))
        return keep_choice(resource, intent.type)
    check_id(body, intent.type.singular, resource.xid.id, resource.xid / "meta")
    update(resource, body, context)
    choice = _read_choice(resource, body, intent)
    resource.attributes = _check_attributes(resource, {**body, _STICKY: choice.sticky}, intent, context)
    # A null means that the Resource is to have no rule.
    if new and _RULE not in body:
        resource.attributes = _with_default_rule(resource, resource.attributes, intent, context)
    return choice


def _with_default_rule(
    resource: ResourceCopy, meta: JSONObject, intent: ResourceIntent, context: Context
) -> JSONObject:
    """Return ``meta`` of a new Resource with the rule of the setting ``default_compatibility``.

    The rule is added only if it can be enforced: the model validates compatibility, ``meta`` states no rule, and all
    Versions have comparable formats.
    """
    rule = context.settings.default_compatibility
    if not rule or _RULE in meta or not intent.type.validatecompatibility:
        return meta
    formats = [str(version.attributes.get("format", "")) for version in resource.versions.values()]
    comparable = all(capabilities.can_compare(context.capabilities, name, rule) for name in formats)
    return {**meta, _RULE: rule} if comparable else meta


def settle_default(resource: ResourceCopy, type: ResourceType, choice: DefaultVersionChoice, context: Context) -> None:
    """Set the default Version to the chosen one (R225-R231).

    Raises ``unknown_id`` and ``setdefaultversionsticky_false``.
    """
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
    """Return the choice that keeps the default Version.

    If it was deleted, the newest one becomes the default (R174).
    """
    if resource.defaultversionsticky and resource.defaultversionid in resource.versions:
        return DefaultVersionChoice(sticky=True, versionid=resource.defaultversionid)
    return DefaultVersionChoice(sticky=resource.defaultversionsticky and is_sticky_by_default(type))


def apply_flag(
    choice: DefaultVersionChoice, resource: ResourceCopy, intent: ResourceIntent, context: Context
) -> DefaultVersionChoice:
    """Return ``choice``, overridden by the flag ``setdefaultversionid`` (R209).

    Its value ``null`` means the newest Version, and ``request`` the Version that the request creates (R210). Raises
    ``defaultversionid_request`` if there is no such Version, and ``unknown_id`` if the named Version does not exist.
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
        # The reference server names the Resource in this error, unless the request creates it or is sent to its meta.
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
    # R229, GAP 1: the default Version stays. A null is not a choice: the value of the model applies, as if none had
    # been made.
    is_chosen = body[_STICKY] is not None
    if is_chosen and "defaultversionid" not in body and resource.defaultversionid in resource.versions:
        versionid = resource.defaultversionid
    return DefaultVersionChoice(sticky=_read_sticky(body, intent.type), versionid=versionid)


def _read_sticky(body: JSONObject, type: ResourceType, implied: bool = False) -> JSON:
    """Return the requested value without checking it, because the attribute check reports values of other types.

    ``implied`` means that the request names a default Version, so that the value is True if it is missing.
    """
    value = body.get(_STICKY)
    return (implied or is_sticky_by_default(type)) if value is None else value


def _check_attributes(resource: ResourceCopy, body: JSONObject, intent: ResourceIntent, context: Context) -> JSONObject:
    """Return the plain attributes of the meta after the write, checked against the model."""
    values = merge_attributes(resource.attributes, body, intent.mode, _HANDLED | {f"{intent.type.singular}id"})
    result = check_attributes(values, intent.type.metaattributes, resource.xid / "meta")
    result.pop(_STICKY, None)
    if _read_readonly(resource, body, intent.mode, admin=context.admin):
        result["readonly"] = True
    return result


def _read_readonly(resource: ResourceCopy, body: JSONObject, mode: WriteMode, *, admin: bool) -> bool:
    """Return the new value of ``readonly``. Only an admin can set it; for others the stored value stays (R261)."""
    if not admin or (mode is WriteMode.MERGE and "readonly" not in body):
        return resource.readonly
    value = body.get("readonly")
    if value not in (None, True, False):
        raise make_invalid_error(resource.xid / "meta", "readonly", "it needs to be true or false")
    return bool(value)
