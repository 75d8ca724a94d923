"""The meta of a Resource, and which Version is its default: chosen by the client, sticky or not, else the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signalbook.engine import capabilities
from signalbook.engine.write.commands import ResourceIntent, WriteMode
from signalbook.engine.write.context import Context
from signalbook.engine.write.entities import COMMON, check_id, checked, invalid, merge_attributes, update
from signalbook.engine.write.lineage import newest
from signalbook.engine.write.workingcopies import ResourceCopy
from signalbook.errors import RegistryError
from signalbook.model import ResourceType
from signalbook.values import JSON, JSONObject

_STICKY: Final = "defaultversionsticky"
_RULE: Final = "compatibility"

_HANDLED: Final = COMMON | {"xref", "readonly", "defaultversionid", "defaultversionurl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultVersionChoice:
    """The requested default Version: ``wanted`` is a versionid, or None for the newest one."""

    sticky: bool
    wanted: str | None = None


def default_sticky(type: ResourceType) -> bool:
    """Return the default of ``defaultversionsticky``: false, unless the model pins it (R232)."""
    return bool(type.metaattributes[_STICKY].default)


def write_meta(resource: ResourceCopy, intent: ResourceIntent, context: Context) -> DefaultVersionChoice:
    """Create or update meta's attributes (R223); returns what its body says of the default Version.

    Without a meta in the request nothing changes but a default that is gone.
    """
    body, new = intent.meta, resource.defaultversionid is None
    if body is None:
        if new:  # a new Resource takes the defaults
            resource.attributes = _with_default_rule(resource, _plain(resource, {}, intent, context), intent, context)
            return DefaultVersionChoice(sticky=default_sticky(intent.type))
        return kept_choice(resource, intent.type)
    check_id(body, intent.type.singular, resource.xid.id, resource.xid / "meta")
    update(resource, body, context)
    choice = _choice(resource, body, intent)
    resource.attributes = _plain(resource, {**body, _STICKY: choice.sticky}, intent, context)
    # A null says that there is to be no rule.
    if new and _RULE not in body:
        resource.attributes = _with_default_rule(resource, resource.attributes, intent, context)
    return choice


def _with_default_rule(
    resource: ResourceCopy, meta: JSONObject, intent: ResourceIntent, context: Context
) -> JSONObject:
    """``meta`` of a new Resource with the rule of the setting ``default_compatibility``.

    Only where that can be enforced: the model asks for it, states no rule, and all Versions are of comparable formats.
    """
    rule = context.default_compatibility
    if not rule or _RULE in meta or not intent.type.validatecompatibility:
        return meta
    formats = [str(version.attributes.get("format", "")) for version in resource.versions.values()]
    comparable = all(capabilities.compares(context.capabilities, name, rule) for name in formats)
    return {**meta, _RULE: rule} if comparable else meta


def settle_default(resource: ResourceCopy, type: ResourceType, choice: DefaultVersionChoice, context: Context) -> None:
    """Make the default what was chosen (R225-R231). Raises ``unknown_id``, ``setdefaultversionsticky_false``."""
    if choice.sticky and type.maxversions == 1:
        raise RegistryError("setdefaultversionsticky_false", subject=str(resource.xid))
    wanted = choice.wanted if choice.sticky else None
    if wanted is None:
        wanted = newest(resource.versions, type.versionmode, resource.inner).id
    elif wanted not in resource.versions:
        raise RegistryError("unknown_id", subject=str(resource.xid / "meta"), singular="version", id=wanted)
    if (resource.defaultversionid, resource.defaultversionsticky) != (wanted, choice.sticky):
        resource.defaultversionid, resource.defaultversionsticky = wanted, choice.sticky
        resource.touch(context.now)


def kept_choice(resource: ResourceCopy, type: ResourceType) -> DefaultVersionChoice:
    """The choice that leaves the default as it is; one that was deleted gives way to the newest (R174)."""
    if resource.defaultversionsticky and resource.defaultversionid in resource.versions:
        return DefaultVersionChoice(sticky=True, wanted=resource.defaultversionid)
    return DefaultVersionChoice(sticky=resource.defaultversionsticky and default_sticky(type))


def flagged(
    choice: DefaultVersionChoice, resource: ResourceCopy, intent: ResourceIntent, context: Context
) -> DefaultVersionChoice:
    """``choice`` as the ``setdefaultversionid`` flag overrides it (R209); ``request`` is the new Version (R210).

    Raises ``defaultversionid_request``, and ``unknown_id`` for what is no Version.
    """
    flag = context.flags.setdefaultversionid
    if flag is None:
        return choice
    if flag == "request":
        flag = next(iter(resource.created), None)  # there is one at most: see commands.check_command
        if flag is None:
            raise RegistryError("defaultversionid_request", subject=str(resource.xid))
    chosen = DefaultVersionChoice(sticky=False) if flag == "null" else DefaultVersionChoice(sticky=True, wanted=flag)
    checked({_STICKY: chosen.sticky}, intent.type.metaattributes, resource.xid / "meta")
    to_meta = resource.before is None or (intent.attributes is None and intent.meta is not None)
    if chosen.wanted is not None and chosen.wanted not in resource.versions and not to_meta:
        # The reference server names the Resource, unless the request is one to its meta or creates it.
        raise RegistryError("unknown_id", subject=str(resource.xid), singular="version", id=chosen.wanted)
    return chosen


def _choice(resource: ResourceCopy, body: JSONObject, intent: ResourceIntent) -> DefaultVersionChoice:
    wanted = body.get("defaultversionid")
    if wanted is not None and not isinstance(wanted, str):
        raise invalid(resource.xid / "meta", "defaultversionid", "it needs to be a versionid")
    if intent.mode is WriteMode.REPLACE or resource.defaultversionid is None:
        implied = intent.mode is WriteMode.MERGE and _STICKY not in body and wanted is not None
        return DefaultVersionChoice(sticky=_sticky(body, intent.type, implied), wanted=wanted)
    if _STICKY not in body:
        if "defaultversionid" in body:  # R227
            return DefaultVersionChoice(sticky=wanted is not None, wanted=wanted)
        return kept_choice(resource, intent.type)
    # R229, GAP 1: the default stays. A null is no choice: it asks for what the model says, as if nobody had chosen.
    chosen = body[_STICKY] is not None
    if chosen and "defaultversionid" not in body and resource.defaultversionid in resource.versions:
        wanted = resource.defaultversionid
    return DefaultVersionChoice(sticky=_sticky(body, intent.type), wanted=wanted)


def _sticky(body: JSONObject, type: ResourceType, implied: bool = False) -> JSON:
    """The value asked for, unchecked: the attribute check reports what is no boolean."""
    given = body.get(_STICKY)
    return (implied or default_sticky(type)) if given is None else given


def _plain(resource: ResourceCopy, body: JSONObject, intent: ResourceIntent, context: Context) -> JSONObject:
    """Meta's plain attributes, checked."""
    values = merge_attributes(resource.attributes, body, intent.mode, _HANDLED | {f"{intent.type.singular}id"})
    result = checked(values, intent.type.metaattributes, resource.xid / "meta")
    result.pop(_STICKY, None)
    if _readonly(resource, body, intent.mode, admin=context.admin):
        result["readonly"] = True
    return result


def _readonly(resource: ResourceCopy, body: JSONObject, mode: WriteMode, *, admin: bool) -> bool:
    """``readonly`` is an attribute like others to an admin; from anyone else it is ignored, and stays (R261)."""
    if not admin or (mode is WriteMode.MERGE and "readonly" not in body):
        return resource.readonly
    given = body.get("readonly")
    if given not in (None, True, False):
        raise invalid(resource.xid / "meta", "readonly", "it needs to be true or false")
    return bool(given)
