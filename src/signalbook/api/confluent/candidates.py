"""Schemas in requests, prepared for storing, and the versions of their subjects that already have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from signalbook.api.confluent.equivalence import SentSchema, find_equivalent
from signalbook.api.confluent.requests import ConfluentRequest
from signalbook.api.confluent.resolution import ReferredSchemas, find_referred, load_resolver, make_document
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.errors import (
    ConfluentError,
    invalid_schema,
    invalid_subject,
)
from signalbook.confluent.metadata import (
    VERSION_PROPERTY,
    merge_metadata,
    merge_rulesets,
    properties,
    remove_version,
    with_version,
)
from signalbook.confluent.naming import Subject
from signalbook.confluent.protobuf import normalize_document
from signalbook.confluent.schemas import (
    SCHEMA_TYPES,
    TAG_MEMBERS,
    Layout,
    SchemaBody,
    compute_content_key,
    propagate_tags,
    read_stored_references,
    schema_type,
)
from signalbook.confluent.tags import list_tags
from signalbook.engine.checks import check_documents
from signalbook.formats import SchemaError
from signalbook.formats.avro.document import READABLE_FAULTS, list_defined_names
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.protobuf.compiler import UNDEFINED
from signalbook.values import JSON, JSONObject, digest
from signalbook.work import Postponed

_LATEST: Final = -1
"""The version number by which a request names the latest version."""
_NEW: Final = "0"
"""The version number in metadata that requests a new version."""
_SCHEMA: Final = frozenset(
    {"subject", "schema", "schemaType", "references", "metadata", "ruleSet", "version", "id", "guid", "deleted", "ts"}
    | {"schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationCandidate:
    """A schema from a request, prepared for storing, with the version of its subject that already has it, if any."""

    subject: Subject
    body: SchemaBody
    format: str
    attributes: JSONObject
    content: str
    known: SchemaVersion | None
    resolve: ReferredSchemas | None
    """None without references, because formats cache their results for documents that need no other document."""
    imported: bool = False
    stated_version: str | None = None
    """The version number in the metadata of the request; ``"0"`` requests a new version, None states no version."""
    accepted_rules: frozenset[str] = frozenset()
    """The rules whose findings do not make the schema invalid."""

    @property
    def is_registered(self) -> bool:
        """True if the subject already has the schema, so that no version has to be added.

        If the request states a version number, a version is added even so. An imported schema also needs the version
        number and the id that the request states.
        """
        if self.known is None:
            return False
        if not self.imported:
            return self.body.version is None
        return self.body.version in (None, self.known.version) and self.body.id in (None, self.known.id)

    @property
    def text(self) -> SchemaText:
        """The schema as a text for comparisons."""
        return SchemaText(document=self.body.document, format=self.format, resolve=self.resolve)


def build_candidate(
    subjects: Subjects,
    request: ConfluentRequest,
    subject: Subject,
    *,
    deleted: bool = False,
    first_exact: bool = False,
    ruleset: JSONObject | None = None,
) -> RegistrationCandidate:
    """Return the schema in a request for a subject, with the version that already has it, if any.

    A version that has, in addition, the version number in the metadata of the latest version is preferred; with
    ``first_exact``, a version with exactly the metadata of the request. With ``deleted``, soft-deleted versions are
    included. ``ruleset`` replaces the rules of the request, and is not checked. Raises ``ConfluentError``: 42201 and
    42208.
    """
    if subjects.new_schema(subject) is None:
        raise invalid_subject(subject)
    config = subjects.config(subject)
    last = subjects.all(subject)[-1].attributes if deleted else subjects.latest_attributes(subject)
    # Imported schemas are stored as they were in their registry of origin.
    imported = subjects.mode(subject) == "IMPORT"
    normalize = not imported and (request.flag("normalize") or bool(config.get("normalize")))
    layout: Layout = "normal" if normalize else "own" if imported else "one"
    body = (request if imported else _with_latest_schema(subjects, request, subject)).schema(_SCHEMA, layout)
    body = body if ruleset is None else replace(body, ruleset=ruleset)
    same_type = last is not None and schema_type(last) == body.type
    if body.propagate and same_type and not imported and (latest := subjects.latest(subject)) is not None:
        body = propagate_tags(body, list_tags(latest.text, latest.type), layout)
    stated_version = None if imported else properties(body.metadata).get(VERSION_PROPERTY)
    is_for_latest = not imported and _is_for_latest(request.json(_SCHEMA))
    if is_for_latest and last is not None and not _has_same_rules(body, last):
        stated_version = _NEW
    body = body if imported else _with_defaults(body, config, last or {})
    stated = body.format(str(last["format"]) if last is not None and same_type else None)
    attributes: JSONObject = {name: value for name, value in body.attributes().items() if value is not None}
    try:
        resolve = load_resolver(subjects, body.references, subject.context)
        attributes |= _link_references(subjects, body, subject.context)
    except ConfluentError as error:
        raise invalid_schema(f"a reference leads nowhere: {error}") from None
    accepted_rules = _list_accepted_rules(config, imported=imported)
    if normalize and body.type == "PROTOBUF":
        body = _normalize(body, SchemaText(document=body.document, format=stated, resolve=resolve), accepted_rules)
    new = RegistrationCandidate(
        subject=subject,
        body=body,
        format=stated,
        attributes=attributes,
        content=compute_content_key({"format": stated, **attributes}, digest(body.document)) or "",
        known=None,
        resolve=resolve if body.references else None,
        imported=imported,
        stated_version=None if stated_version is None else str(stated_version),
        accepted_rules=accepted_rules,
    )
    known_version = _find_known(subjects, new, last or {}, deleted=deleted, first_exact=first_exact)
    if known_version is None and not imported and new.stated_version is None:
        sent = SentSchema(text=body.text, type=body.type, attributes=attributes, normalize=normalize, resolve=resolve)
        known_version = find_equivalent(subjects, subject, sent, deleted=deleted)
    if is_for_latest:
        latest = subjects.latest(subject)
        if known_version is None or (latest is not None and known_version.version != latest.version):
            return replace(new, stated_version=_NEW)
    return replace(new, known=known_version)


def _normalize(body: SchemaBody, text: SchemaText, accepted_rules: frozenset[str]) -> SchemaBody:
    """Return the normalized Protobuf schema, or ``body`` if it cannot be normalized for an accepted reason.

    In a write, raises ``Postponed`` if this takes too long for the turn.
    """
    outcome = check_documents("normalized", [make_document(text)], _normalize_text)
    if outcome is None:
        raise Postponed
    if outcome.error is None:
        return replace(body, text=outcome.items[0])
    findings = outcome.error.findings if isinstance(outcome.error, SchemaError) else ()
    if not findings or any(finding.rule not in accepted_rules for finding in findings):
        raise invalid_schema(str(outcome.error))
    return body


def _normalize_text(text: SchemaText) -> list[str]:
    return [normalize_document(text.document.decode("utf-8"), text.resolve or (lambda _: None))]


def _list_accepted_rules(config: JSONObject, *, imported: bool) -> frozenset[str]:
    """Return the rules whose findings do not make a schema invalid: those that ``config`` turns off.

    For an imported schema, all rules that a config can turn off are accepted.
    """
    accepted: frozenset[str] = frozenset()
    if imported or config.get("validateNewSchemas") is False:
        accepted |= READABLE_FAULTS
    if imported or config.get("validateFields") is False:
        accepted |= {UNDEFINED}
    return accepted


def _is_for_latest(sent: Mapping[str, Any]) -> bool:
    """Return True if a request is for the latest version: by its number, or by tags without a number."""
    version = sent.get("version")
    return version == _LATEST or (version is None and any(sent.get(name) for name in TAG_MEMBERS))


def _has_same_rules(body: SchemaBody, last: JSONObject) -> bool:
    """Return True if a schema has the same metadata and rules as the version with the attributes ``last``."""
    sent, stored = remove_version(body.metadata), remove_version(last.get("metadata"))
    return sent == stored and body.ruleset == last.get("ruleset")


def _find_known(
    subjects: Subjects, new: RegistrationCandidate, last: JSONObject, *, deleted: bool, first_exact: bool
) -> SchemaVersion | None:
    """Return the version of the subject that has exactly the schema ``new``, or None.

    A version number in the metadata of the stored version is ignored. If ``new`` states a version number, only the
    version with this number is returned. ``last`` are the attributes of the latest version.
    """
    document, subject = new.body.document, new.subject
    if new.stated_version is not None:
        versions = subjects.all(subject) if deleted else subjects.live(subject)
        return next((candidate for candidate in versions if _is_numbered(new, candidate)), None)
    contents = [new.content]
    number = properties(last.get("metadata")).get(VERSION_PROPERTY)
    if number is not None and not new.imported:
        metadata = with_version(new.body.metadata, str(number))
        attributes = {"format": new.format, **new.attributes, "metadata": metadata}
        contents.append(compute_content_key(attributes, digest(document)) or "")
    ordered = contents if first_exact else contents[::-1]
    matches = (subjects.with_content(subject, content, document, deleted=deleted) for content in ordered)
    return next((version for version in matches if version is not None), None)


def _is_numbered(new: RegistrationCandidate, version: SchemaVersion) -> bool:
    attributes = {**version.attributes, "metadata": remove_version(version.attributes.get("metadata"))}
    is_same = compute_content_key(attributes, digest(version.document)) == new.content
    return is_same and str(version.version) == new.stated_version


def _with_latest_schema(subjects: Subjects, request: ConfluentRequest, subject: Subject) -> ConfluentRequest:
    """Return the request with the schema of the latest version added, if it has only metadata or rules."""
    sent = request.json(_SCHEMA)
    # If any member of a schema was sent, the request is read as it is, so that an incomplete schema is refused.
    has_schema = not {"schema", "references"}.isdisjoint(sent)
    is_typed = sent.get("schemaType") in (None, *SCHEMA_TYPES.values())
    if has_schema or not is_typed or (sent.get("metadata") is None and sent.get("ruleSet") is None):
        return request
    latest = subjects.latest(subject)
    return request if latest is None else request.about(subject, {**sent, **schema_members(latest)}, **request.query)


def schema_members(version: SchemaVersion) -> JSONObject:
    """Return the members of a request that registers the schema of ``version`` again."""
    references: list[JSON] = [reference.to_json() for reference in read_stored_references(version.attributes)]
    return {"schema": version.text, "schemaType": version.type, "references": references}


def _link_references(subjects: Subjects, body: SchemaBody, context: str) -> JSONObject:
    """Return references as they are stored: with the xid of each referred Version, by which all other APIs find it."""
    links: list[JSON] = []
    referred = find_referred(subjects, ((reference, context) for reference in body.references))
    targets = dict(zip(body.references, referred, strict=True))
    for body_reference, target in targets.items():
        # An Avro schema refers to types by name, so the names of its references do not matter.
        types = list_defined_names(target.document) if target.type == "AVRO" else ()
        type_names = (name for name in types if name != body_reference.name and name.rpartition(".")[2] in body.text)
        defined = next(type_names, None)
        type_member: JSONObject = {} if defined is None else {"type": defined}
        links.append({**body_reference.to_json(), "version": target.version, "xid": str(target.xid), **type_member})
    return {"references": links} if links else {}


def _with_defaults(body: SchemaBody, config: JSONObject, last: JSONObject) -> SchemaBody:
    """Return ``body`` with the subject's settings: overrides replace its values, and its values replace defaults.

    Without metadata or rules of its own it gets those of the latest version, which has the attributes ``last``.
    """
    metadata = remove_version(last.get("metadata") if body.metadata is None else body.metadata)
    ruleset = body.ruleset if body.ruleset is not None else last.get("ruleset")
    return replace(
        body,
        metadata=merge_metadata(config.get("defaultMetadata"), metadata, config.get("overrideMetadata")),
        ruleset=merge_rulesets(config.get("defaultRuleSet"), ruleset, config.get("overrideRuleSet")),
    )
