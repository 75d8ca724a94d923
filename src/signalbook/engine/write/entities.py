"""The write of one entity's attributes and document: the Registry, a Group, a Version.

What does PATCH with null do? See ``merge_attributes``. (core/spec.md "Common Attributes", "<RESOURCE>* Attribute
Processing", core/http.md "Creating or Updating Entities", "Serializing Resource Domain-Specific Documents".)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from signalbook.cncf.ids import version_number
from signalbook.engine.write.commands import DocumentBody, GroupIntent, ResourceIntent, VersionIntent, WriteMode
from signalbook.engine.write.context import Context, Documents
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy, WorkingCopy
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, Constraints, GroupType, ResourceType, findings_to_error
from signalbook.values import JSON, JSONObject, dump_json, parse_timestamp
from signalbook.xid import Kind, Xid

COMMON = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat"})
"""Names on every entity that are no plain attributes."""


def check_id(body: JSONObject, singular: str, expected: str, subject: Xid) -> None:
    """Check that an id in the body equals that of the path or map key (R27), else ``mismatched_id``."""
    name = f"{singular}id"
    id_in_body = body.get(name)
    if id_in_body is None or id_in_body == expected:
        return
    raise RegistryError(
        "mismatched_id", subject=str(subject), singular=singular, invalid_id=id_in_body, expected_id=expected
    )


def check_epoch(epoch: JSON, stored: int, subject: Xid) -> None:
    """Check that an ``epoch`` sent along with an update equals the stored one (R36), else ``mismatched_epoch``."""
    if epoch is None:
        return
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        raise make_invalid_error(subject, "epoch", "it needs to be an unsigned integer")
    if epoch != stored:
        raise RegistryError("mismatched_epoch", subject=str(subject), bad_epoch=epoch, epoch=stored)


def update(copy: WorkingCopy, body: JSONObject, context: Context) -> None:
    """Check the epoch, set both timestamps and count ``copy`` as updated (R34-R42).

    A Resource has these in its meta, which errors name (R38).
    """
    subject = copy.xid / "meta" if copy.xid.kind is Kind.RESOURCE else copy.xid
    if copy.before is not None:
        check_epoch(body.get("epoch"), copy.before.epoch, subject)
    if "createdat" in body:
        copy.createdat = _parse_timestamp(body, "createdat", subject) or context.now
    modifiedat = _parse_timestamp(body, "modifiedat", subject)
    # Clients send back what they have read: the stored time is no wish to keep it (R41).
    if modifiedat is not None and (copy.before is None or modifiedat != copy.before.modifiedat):
        copy.modifiedat = modifiedat
        copy.stamped = True
    copy.touch(context.now)


def merge_attributes(stored: JSONObject, body: JSONObject, mode: WriteMode, without: Collection[str]) -> JSONObject:
    """Return the plain attributes that a write asks for, without the names in ``without``.

    PUT takes the body's alone (R142). PATCH lays the body's top-level attributes over the stored ones, and null deletes
    (R144).
    """
    plain = {name: value for name, value in body.items() if name not in without}
    values = {**stored, **plain} if mode is WriteMode.MERGE else plain
    return {name: value for name, value in values.items() if value is not None}


def check_attributes(values: JSONObject, rules: AttributeSet, subject: Xid) -> JSONObject:
    """Check ``values`` and return them as they are to be stored. Raises one error for all findings."""
    result = rules.check(values)
    if result.findings:
        raise findings_to_error(result.findings, str(subject))
    return result.values


def make_invalid_error(subject: Xid, name: str, detail: str) -> RegistryError:
    """Return ``invalid_attribute`` for one attribute."""
    return RegistryError("invalid_attribute", subject=str(subject), name=name, error_detail=detail)


def _parse_timestamp(body: JSONObject, name: str, subject: Xid) -> datetime | None:
    value = body.get(name)
    if value is None:
        return None
    try:
        return parse_timestamp(value)
    except (ValueError, TypeError) as error:
        raise make_invalid_error(subject, name, f"{error}") from None


_REGISTRY_ATTRIBUTES: Final = COMMON | {"registryid", "specversion", "capabilities", "model", "modelsource"}


def write_registry(copy: OwnerCopy, body: JSONObject, mode: WriteMode, registryid: str, context: Context) -> None:
    """Replace or merge the Registry's attributes. ``registryid`` is what the body's must equal (R58)."""
    check_id(body, "registry", registryid, copy.xid)
    update(copy, body, context)
    values = merge_attributes(copy.attributes, body, mode, _REGISTRY_ATTRIBUTES)
    copy.attributes = {**check_attributes(values, context.model.attributes, copy.xid), "registryid": registryid}


def write_group(copy: OwnerCopy, intent: GroupIntent, context: Context) -> None:
    """Create, replace or merge a Group's attributes; without a body an existing one stays, a new one gets defaults."""
    if intent.body is None and copy.before is not None:
        return
    body = intent.body or {}
    check_id(body, intent.type.singular, copy.xid.id, copy.xid)
    update(copy, body, context)
    values = merge_attributes(copy.attributes, body, intent.mode, COMMON | {f"{intent.type.singular}id"})
    copy.attributes = check_attributes(values, intent.type.attributes, copy.xid)


def check_constraints(copy: OwnerCopy, intent: GroupIntent) -> GroupConstraints:
    """Check and return the constraints in force in this Group (R108).

    Raises ``invalid_attribute`` for constraints that widen.
    """
    constraints, findings = intent.type.narrowed(copy.attributes.get("constraints"))
    if findings:
        raise findings_to_error(findings, str(copy.xid))
    return GroupConstraints(constraints=constraints, group=copy.attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConstraints:
    """The constraints in force in one Group, with the Group's own attributes that ``equals`` compares with."""

    constraints: Constraints
    group: JSONObject

    def __bool__(self) -> bool:
        """Return True if there is anything to check."""
        return len(self.constraints) > 0

    def fill(self, plural: str, version: JSONObject) -> JSONObject:
        """Return ``version`` with the Group's defaults where it has no value (R105)."""
        return self.constraints.fill(plural, version) if self.constraints else version

    def check(self, resource: Xid, versions: Iterable[JSONObject]) -> None:
        """Hold all Versions' attributes of one Resource to the constraints (R109), else ``constraint_failure``."""
        if not self.constraints:
            return
        for version in versions:
            for violation in self.constraints.violations(resource.resource_type, version, self.group):
                raise RegistryError(
                    "constraint_failure", subject=str(resource), path=violation.path, kind=violation.kind
                )


def find_group_constraints(copy: OwnerCopy, type: GroupType) -> GroupConstraints:
    """Return the demands of the Group ``copy``, whose own constraints are valid, on its Resources."""
    constraints, _ = type.narrowed(copy.attributes.get("constraints"))
    return GroupConstraints(constraints=constraints, group=copy.attributes)


JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain"
_EXAMPLE_FORMAT: Final = "JsonSchema/draft-07"


def list_document_names(type: ResourceType) -> tuple[str, str, str]:
    """``<RESOURCE>``, ``<RESOURCE>base64`` and ``<RESOURCE>url`` of this type."""
    return type.singular, f"{type.singular}base64", f"{type.singular}url"


def take_document_from_body(
    copy: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType, documents: Documents
) -> JSONObject:
    """Take the document out of a metadata body; returns the attributes that go with it, over those of the body.

    Raises ``one_resource`` (R245) and ``invalid_attribute``.
    """
    inline, encoded, url = list_document_names(type)
    present = [name for name in (inline, encoded, url) if body.get(name) is not None]
    if len(present) > 1:
        allowed = ", ".join((inline, encoded, url))
        raise RegistryError("one_resource", subject=str(copy.xid), list=allowed)
    if not present:
        return _drop_document(copy, body, mode, type)
    if present == [url]:
        copy.document = None
        return {}
    default = JSON_TYPE if mode is WriteMode.MERGE or present == [inline] else None
    if isinstance(body.get(inline), str):
        # In JSON all other text has to be a string: Protobuf and XSD in the specification's samples.
        default = TEXT_TYPE
    content_type = _choose_content_type(copy, body, mode, default)
    if present == [inline]:
        content = _encode(body[inline], type.type_of(content_type or JSON_TYPE))
    else:
        content = _decode(body[encoded], encoded, copy.xid)
    copy.document = documents.keep(content)
    return {url: None, **({"contenttype": content_type} if content_type else {})}


def take_document_from_content(
    copy: VersionCopy, document: DocumentBody, type: ResourceType, documents: Documents
) -> JSONObject:
    """Take the document of a write in document form (R160-R164); returns the attributes that go with it.

    Raises ``one_resource`` when there is both content and a ``<RESOURCE>url``.
    """
    _, _, url = list_document_names(type)
    location = document.attributes.get(url)
    if location is not None and document.content:
        raise RegistryError("one_resource", subject=str(copy.xid), list=f"{url}, the body")
    copy.document = documents.keep(document.content)
    return {"contenttype": document.contenttype, url: location}


def _drop_document(copy: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType) -> JSONObject:
    """Decide a body without document: null empties it (R246), absence keeps it unless PUT drops a stored url (R247)."""
    url = list_document_names(type)[2]
    if any(name in body for name in list_document_names(type)) or (
        mode is WriteMode.REPLACE and url in copy.attributes
    ):
        copy.document = None
        return {url: None}
    return {}


def _choose_content_type(copy: VersionCopy, body: JSONObject, mode: WriteMode, default: str | None) -> str | None:
    """Return the content type to go by (R248): the body's, on PATCH then the stored one, then ``default``."""
    content_type = body.get("contenttype")
    if content_type is None and mode is WriteMode.MERGE and "contenttype" not in body:
        content_type = copy.attributes.get("contenttype")
    if content_type is not None:
        return content_type if isinstance(content_type, str) else None  # the attribute check reports a wrong type
    return default


def _encode(value: JSON, encoding: str) -> bytes:
    """Return the bytes of an inline document: text as it is unless its type is JSON, anything else as JSON."""
    if isinstance(value, str) and encoding != "json":
        return value.encode("utf-8")
    return dump_json(value)


def _decode(value: JSON, name: str, subject: Xid) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise make_invalid_error(subject, name, "it needs to be a string of base64") from None


_RULE: Final = "compatibility"
VALIDATION: Final = (
    "formatvalidated",
    "formatvalidatedreason",
    "compatibilityvalidated",
    "compatibilityvalidatedreason",
)
"""Read-only attributes that hold the outcome of format and compatibility checks."""
_RESOURCE_ATTRIBUTES: Final = ("metaurl", "versionsurl", "versionscount")
_VERSION_HANDLED: Final = COMMON | {*_RESOURCE_ATTRIBUTES} | {"versionid", "ancestorid", "isdefault"}


def generate_id(resource: ResourceCopy) -> str:
    """Return the next free number, counted on from the highest there ever was (R234)."""
    while True:
        resource.versioncounter += 1
        number = str(resource.versioncounter)
        if number not in resource.versions:
            return number


def write_version(
    resource: ResourceCopy,
    intent: VersionIntent,
    resource_intent: ResourceIntent,
    limits: GroupConstraints,
    context: Context,
) -> VersionCopy:
    """Create or update one Version of ``resource``. Raises ``RegistryError`` for what is wrong with it."""
    versionid = intent.id or generate_id(resource)
    version = resource.versions.get(versionid)
    if version is None:
        _check_may_name(resource, intent, resource_intent.type)
        xid = resource.xid / "versions" / versionid
        version = VersionCopy(xid=xid, createdat=context.now, modifiedat=context.now)
        # A client's number counts, too: versions of the CNCF drafts never get a deleted one again.
        resource.versioncounter = max(resource.versioncounter, version_number(versionid) or 0)
    check_id(intent.body, resource_intent.type.singular, resource.xid.id, version.xid)
    check_id(intent.body, "version", versionid, version.xid)
    update(version, intent.body, context)
    _take_ancestor(version, intent.body)
    try:
        _take_attributes(version, intent, resource_intent.type, limits, context)
    except RegistryError as error:
        if resource_intent.type.validateformat and "format" in error.arguments.get("list", "").split(", "):
            error.detail = _explain_missing_format(resource, intent, context)
        raise
    resource.versions[versionid] = version
    return version


def _explain_missing_format(resource: ResourceCopy, intent: VersionIntent, context: Context) -> str:
    """Return the known formats, and how the request can name one: that of other Versions, if any."""
    formats = context.capabilities["formats"]
    other_formats = (version.attributes.get("format") for version in resource.versions.values())
    example = next(filter(None, other_formats), "") or (
        _EXAMPLE_FORMAT if _EXAMPLE_FORMAT in formats else next(iter(formats), "NAME/VERSION")
    )
    spelling = f'"format": "{example}"' if intent.document is None else f"the header xRegistry-format: {example}"
    listed = ", ".join(formats) or "none"
    return f"name the format of the document, as in {spelling}; those that are validated are {listed}"


def _check_may_name(resource: ResourceCopy, intent: VersionIntent, type: ResourceType) -> None:
    if intent.id is not None and not type.setversionid:
        raise RegistryError("versionid_not_allowed", subject=str(resource.xid), plural=type.plural)


def _take_ancestor(version: VersionCopy, body: JSONObject) -> None:
    """Set the ``ancestorid`` of the body.

    Absent or null leaves it (R239), ``request`` stands for the Version itself.
    """
    ancestorid = body.get("ancestorid")
    if ancestorid is None:
        return
    if not isinstance(ancestorid, str) or not ancestorid:
        raise make_invalid_error(version.xid, "ancestorid", "it needs to be a versionid")
    version.ancestorid = version.id if ancestorid == "request" else ancestorid


def _take_attributes(
    version: VersionCopy, intent: VersionIntent, type: ResourceType, limits: GroupConstraints, context: Context
) -> None:
    body = intent.body
    # A Version has none of these, not even as an extension (R17, GAP 32); a Resource shows some beside its Version's.
    for name in ("meta", "versions", *(() if intent.of_resource else _RESOURCE_ATTRIBUTES)):
        if body.get(name) is not None:
            raise make_invalid_error(version.xid, name, "it is an attribute of Resources, not of Versions")
    if body.get(_RULE) is not None and _RULE in type.metaattributes and _RULE not in type.attributes:
        # Taken for an extension it would be shown, and hold nobody to it.
        raise make_invalid_error(version.xid, _RULE, f"it belongs to the meta of the Resource: meta.{_RULE}")
    if intent.document is not None:
        if not type.hasdocument:
            raise RegistryError("hasdocument_violation", subject=str(version.xid), plural=type.plural)
        body = {**body, **take_document_from_content(version, intent.document, type, context.documents)}
    elif type.hasdocument:
        body = {**body, **take_document_from_body(version, body, intent.mode, type, context.documents)}
    handled = _VERSION_HANDLED | {f"{type.singular}id"}
    if type.hasdocument:
        handled |= {type.singular, f"{type.singular}base64"}
    # A document-form write merges attributes; a PUT of metadata lists them all.
    # Outcomes of checks are set after this: merged, those of another document would stay.
    stored = {name: value for name, value in version.attributes.items() if name not in VALIDATION}
    values = merge_attributes(stored, body, intent.mode, handled)
    version.attributes = check_attributes(limits.fill(type.plural, values), type.attributes, version.xid)
