"""The write of one entity's attributes and document: the Registry, a Group or a Version.

For the effect of PATCH with null see ``merge_attributes``. See core/spec.md "Common Attributes", "<RESOURCE>* Attribute
Processing", core/http.md "Creating or Updating Entities", "Serializing Resource Domain-Specific Documents".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from signalbook.engine.write.commands import DocumentBody, GroupIntent, ResourceIntent, VersionIntent, WriteMode
from signalbook.engine.write.context import Context, Documents
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy, WorkingCopy
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, Constraints, GroupType, ResourceType, findings_to_error
from signalbook.values import JSON, JSONObject, dump_json, parse_timestamp
from signalbook.xid import Kind, Xid, version_number

COMMON = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat"})
"""Names that every entity has and that are not stored as plain attributes."""


def check_id(body: JSONObject, singular: str, expected: str, subject: Xid) -> None:
    """Raise ``mismatched_id`` if the body has an id that differs from ``expected``, the id in the path or map key
    (R27).
    """
    name = f"{singular}id"
    id_in_body = body.get(name)
    if id_in_body is None or id_in_body == expected:
        return
    raise RegistryError(
        "mismatched_id", subject=str(subject), singular=singular, invalid_id=id_in_body, expected_id=expected
    )


def check_epoch(epoch: JSON, stored: int, subject: Xid) -> None:
    """Raise ``mismatched_epoch`` if the ``epoch`` sent with an update differs from the stored one (R36).

    None is accepted. Raises ``invalid_attribute`` if ``epoch`` is not an unsigned integer.
    """
    if epoch is None:
        return
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        raise make_invalid_error(subject, "epoch", "it needs to be an unsigned integer")
    if epoch != stored:
        raise RegistryError("mismatched_epoch", subject=str(subject), bad_epoch=epoch, epoch=stored)


def update(copy: WorkingCopy, body: JSONObject, context: Context) -> None:
    """Check the epoch, set both timestamps and count ``copy`` as updated (R34-R42).

    For a Resource these attributes are in its meta, so errors name the meta (R38).
    """
    subject = copy.xid / "meta" if copy.xid.kind is Kind.RESOURCE else copy.xid
    if copy.before is not None:
        check_epoch(body.get("epoch"), copy.before.epoch, subject)
    if "createdat" in body:
        copy.createdat = _parse_timestamp(body, "createdat", subject) or context.now
    modifiedat = _parse_timestamp(body, "modifiedat", subject)
    # Clients send back what they have read, so a ``modifiedat`` equal to the stored one is not a request to keep it
    # (R41).
    if modifiedat is not None and (copy.before is None or modifiedat != copy.before.modifiedat):
        copy.modifiedat = modifiedat
        copy.stamped = True
    copy.touch(context.now)


def merge_attributes(stored: JSONObject, body: JSONObject, mode: WriteMode, without: Collection[str]) -> JSONObject:
    """Return the plain attributes after a write, without the names in ``without`` and without nulls.

    A PUT replaces all ``stored`` attributes by those of ``body`` (R142). A PATCH replaces only the top-level attributes
    in ``body``, and null deletes an attribute (R144).
    """
    plain = {name: value for name, value in body.items() if name not in without}
    values = {**stored, **plain} if mode is WriteMode.MERGE else plain
    return {name: value for name, value in values.items() if value is not None}


def check_attributes(values: JSONObject, rules: AttributeSet, subject: Xid) -> JSONObject:
    """Check ``values`` against the model and return the values to store. Raises one error with all findings."""
    result = rules.check(values)
    if result.findings:
        raise findings_to_error(result.findings, str(subject))
    return result.values


def make_invalid_error(subject: Xid, name: str, detail: str) -> RegistryError:
    """Return the error ``invalid_attribute`` for the attribute ``name``."""
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
    """Replace or merge the Registry's attributes. The id in ``body`` must equal ``registryid`` (R58)."""
    check_id(body, "registry", registryid, copy.xid)
    update(copy, body, context)
    values = merge_attributes(copy.attributes, body, mode, _REGISTRY_ATTRIBUTES)
    copy.attributes = {**check_attributes(values, context.model.attributes, copy.xid), "registryid": registryid}


def write_group(copy: OwnerCopy, intent: GroupIntent, context: Context) -> None:
    """Create, replace or merge a Group's attributes.

    Without a body an existing Group stays the same and a new one gets defaults.
    """
    if intent.body is None and copy.before is not None:
        return
    body = intent.body or {}
    check_id(body, intent.type.singular, copy.xid.id, copy.xid)
    update(copy, body, context)
    values = merge_attributes(copy.attributes, body, intent.mode, COMMON | {f"{intent.type.singular}id"})
    copy.attributes = check_attributes(values, intent.type.attributes, copy.xid)


def check_constraints(copy: OwnerCopy, intent: GroupIntent) -> GroupConstraints:
    """Return the constraints in force in the Group ``copy`` (R108).

    Raises ``invalid_attribute`` if the Group's own constraints allow more than those of its type.
    """
    constraints, findings = intent.type.narrowed(copy.attributes.get("constraints"))
    if findings:
        raise findings_to_error(findings, str(copy.xid))
    return GroupConstraints(constraints=constraints, group=copy.attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConstraints:
    """The constraints in force in one Group, with the Group's attributes that ``equals`` compares with."""

    constraints: Constraints
    group: JSONObject

    def __bool__(self) -> bool:
        """Return True if there is at least one constraint."""
        return len(self.constraints) > 0

    def fill(self, plural: str, version: JSONObject) -> JSONObject:
        """Return ``version`` with the Group's defaults for attributes that have no value (R105)."""
        return self.constraints.fill(plural, version) if self.constraints else version

    def check(self, resource: Xid, versions: Iterable[JSONObject]) -> None:
        """Raise ``constraint_failure`` if the attributes of a Version of ``resource`` violate a constraint (R109)."""
        if not self.constraints:
            return
        for version in versions:
            for violation in self.constraints.violations(resource.resource_type, version, self.group):
                raise RegistryError(
                    "constraint_failure", subject=str(resource), path=violation.path, kind=violation.kind
                )


def find_group_constraints(copy: OwnerCopy, type: GroupType) -> GroupConstraints:
    """Return the constraints of the Group ``copy`` for its Resources. The Group's own constraints must be valid."""
    constraints, _ = type.narrowed(copy.attributes.get("constraints"))
    return GroupConstraints(constraints=constraints, group=copy.attributes)


JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain"
_EXAMPLE_FORMAT: Final = "JsonSchema/draft-07"


def list_document_names(type: ResourceType) -> tuple[str, str, str]:
    """Return the names ``<RESOURCE>``, ``<RESOURCE>base64`` and ``<RESOURCE>url`` for this type."""
    return type.singular, f"{type.singular}base64", f"{type.singular}url"


def take_document_from_body(
    copy: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType, documents: Documents
) -> JSONObject:
    """Store the document in a metadata body in ``copy``. Returns attributes that replace those of the body.

    Raises ``one_resource`` if there is more than one document (R245), and ``invalid_attribute``.
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
        # Text that is not JSON can only be a JSON string here, as Protobuf and XSD in the specification's samples.
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
    """Store the content of ``document`` in ``copy`` (R160-R164). Returns the content type and ``<RESOURCE>url``.

    Raises ``one_resource`` if there is both content and a ``<RESOURCE>url``.
    """
    _, _, url = list_document_names(type)
    location = document.attributes.get(url)
    if location is not None and document.content:
        raise RegistryError("one_resource", subject=str(copy.xid), list=f"{url}, the body")
    copy.document = documents.keep(document.content)
    return {"contenttype": document.contenttype, url: location}


def _drop_document(copy: VersionCopy, body: JSONObject, mode: WriteMode, type: ResourceType) -> JSONObject:
    """Apply a body without a document: null removes the document (R246), and absence keeps it.

    A PUT that omits a stored ``<RESOURCE>url`` removes it (R247). Returns attributes that replace those of the body.
    """
    url = list_document_names(type)[2]
    if any(name in body for name in list_document_names(type)) or (
        mode is WriteMode.REPLACE and url in copy.attributes
    ):
        copy.document = None
        return {url: None}
    return {}


def _choose_content_type(copy: VersionCopy, body: JSONObject, mode: WriteMode, default: str | None) -> str | None:
    """Return the content type to use (R248): the body's, for a PATCH else the stored one, else ``default``."""
    content_type = body.get("contenttype")
    if content_type is None and mode is WriteMode.MERGE and "contenttype" not in body:
        content_type = copy.attributes.get("contenttype")
    if content_type is not None:
        return content_type if isinstance(content_type, str) else None  # the attribute check reports a wrong type
    return default


def _encode(value: JSON, encoding: str) -> bytes:
    """Return the bytes of an inline document.

    A string whose type is not JSON is stored as text, other values as JSON.
    """
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
"""Read-only attributes with the outcomes of format and compatibility checks."""
_RESOURCE_ATTRIBUTES: Final = ("metaurl", "versionsurl", "versionscount")
_VERSION_HANDLED: Final = COMMON | {*_RESOURCE_ATTRIBUTES} | {"versionid", "ancestorid", "isdefault"}


def generate_id(resource: ResourceCopy) -> str:
    """Return the next unused number as a ``versionid``, counting from the highest number ever used (R234)."""
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
    """Create or update one Version of ``resource`` and return it. Raises ``RegistryError`` if it is invalid.

    ``resource_intent`` is the request for the Resource, and ``limits`` are the constraints of its Group.
    """
    versionid = intent.id or generate_id(resource)
    version = resource.versions.get(versionid)
    if version is None:
        _check_may_name(resource, intent, resource_intent.type)
        xid = resource.xid / "versions" / versionid
        version = VersionCopy(xid=xid, createdat=context.now, modifiedat=context.now)
        # Numbers chosen by clients are counted too, because the CNCF drafts never reuse the number of a deleted version
        #
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
    """Return a text that lists the supported formats and shows how the request can state one.

    The example is the format of another Version, if there is one.
    """
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
    """Set ``ancestorid`` from the body. If it is absent or null, the ancestor stays the same (R239).

    The value ``request`` means that the Version is its own ancestor.
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
    # Versions do not have these attributes, not even as extensions (R17, GAP 32). A Resource shows some in addition to
    # its Version's.
    for name in ("meta", "versions", *(() if intent.of_resource else _RESOURCE_ATTRIBUTES)):
        if body.get(name) is not None:
            raise make_invalid_error(version.xid, name, "it is an attribute of Resources, not of Versions")
    if body.get(_RULE) is not None and _RULE in type.metaattributes and _RULE not in type.attributes:
        # As an extension the rule would be shown, but it would not be applied.
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
    # A write in document form merges attributes; a PUT of metadata lists them all. Outcomes of checks are set later, so
    # the stored outcomes, which may be about another document, must not be merged.
    stored = {name: value for name, value in version.attributes.items() if name not in VALIDATION}
    values = merge_attributes(stored, body, intent.mode, handled)
    version.attributes = check_attributes(limits.fill(type.plural, values), type.attributes, version.xid)
