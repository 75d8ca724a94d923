"""One Version: create or update it, with everything but its place among the others (see ``lineage``)."""

from __future__ import annotations

from typing import Final

from signalbook.cncf.ids import version_number
from signalbook.engine import documents
from signalbook.engine.attributes import COMMON, check_id, checked, combine, invalid, update
from signalbook.engine.constraints import Limits
from signalbook.engine.context import Context
from signalbook.engine.drafts import ResourceDraft, VersionDraft
from signalbook.engine.intents import ResourceIntent, VersionIntent
from signalbook.errors import RegistryError
from signalbook.model import ResourceType
from signalbook.values import JSONObject

VALIDATION: Final = (
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
)
"""Read-only attributes that hold the outcome of format and compatibility checks."""
_OF_RESOURCE: Final = frozenset({"metaurl", "versionsurl", "versionscount"})
_HANDLED: Final = COMMON | _OF_RESOURCE | {"versionid", "ancestorid", "isdefault"}


def generate_id(resource: ResourceDraft) -> str:
    """The next free number, counted on from the highest there ever was (R234)."""
    while True:
        resource.versioncounter += 1
        number = str(resource.versioncounter)
        resource.find(number)
        if number not in resource.versions:
            return number
        resource.complete()  # a client numbers them: the next ones may be taken as well


def write(
    resource: ResourceDraft, intent: VersionIntent, about: ResourceIntent, limits: Limits, context: Context
) -> VersionDraft:
    """Create or update one Version of ``resource``. Raises ``RegistryError`` for what is wrong with it."""
    versionid = intent.id or generate_id(resource)
    resource.find(versionid)
    version = resource.versions.get(versionid)
    if version is None:
        _check_may_name(resource, intent, about.type)
        xid = resource.xid / "versions" / versionid
        version = VersionDraft(xid=xid, createdat=context.now, modifiedat=context.now)
        # A client's number counts, too: the drafts' versions never get one again, be it deleted (A-19).
        resource.versioncounter = max(resource.versioncounter, version_number(versionid) or 0)
    check_id(intent.body, about.type.singular, resource.xid.id, version.xid)
    check_id(intent.body, "version", versionid, version.xid)
    update(version, intent.body, context)
    _take_ancestor(version, intent.body)
    _take_attributes(version, intent, about.type, limits, context)
    resource.versions[versionid] = version
    return version


def _check_may_name(resource: ResourceDraft, intent: VersionIntent, type: ResourceType) -> None:
    if intent.id is not None and not type.setversionid:
        raise RegistryError("versionid_not_allowed", subject=str(resource.xid), plural=type.plural)


def _take_ancestor(version: VersionDraft, body: JSONObject) -> None:
    """A given ``ancestorid`` counts, absent or null leaves it (R239); ``request`` stands for the Version itself."""
    given = body.get("ancestorid")
    if given is None:
        return
    if not isinstance(given, str) or not given:
        raise invalid(version.xid, "ancestorid", "it needs to be a versionid")
    version.ancestorid = version.id if given == "request" else given


def _take_attributes(
    version: VersionDraft, intent: VersionIntent, type: ResourceType, limits: Limits, context: Context
) -> None:
    given = intent.body
    for name in ("meta", "versions"):  # a Version has none, not even as an extension (R17, GAP 32)
        if name in given:
            raise RegistryError("unknown_attribute", subject=str(version.xid), name=name)
    if intent.document is not None:
        if not type.hasdocument:
            raise RegistryError("hasdocument_violation", subject=str(version.xid), plural=type.plural)
        given = {**given, **documents.from_content(version, intent.document, type, context.documents)}
    elif type.hasdocument:
        given = {**given, **documents.from_body(version, given, intent.mode, type, context.documents)}
    handled = _HANDLED | {f"{type.singular}id"}
    if type.hasdocument:
        handled |= {type.singular, f"{type.singular}base64"}
    # A document-form write merges attributes; a PUT of metadata lists them all.
    stored = {name: value for name, value in version.attributes.items() if name not in VALIDATION}
    values = combine(stored, given, intent.mode, handled)
    version.attributes = checked(limits.fill(type.plural, values), type.attributes, version.xid)
