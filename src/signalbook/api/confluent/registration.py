"""Register, look up, compare and delete schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from signalbook.api.confluent.associations import (
    check_references_allowed,
    check_unassociated,
    check_versions_left,
)
from signalbook.api.confluent.candidates import RegistrationCandidate, build_candidate, schema_members
from signalbook.api.confluent.changes import SubjectWriter
from signalbook.api.confluent.compatibility import explain, find_differences, list_predecessors
from signalbook.api.confluent.queries import (
    find_version_anywhere,
    list_qualified_references,
    render_version,
    require_subject,
    subject_of,
    subjects_of,
)
from signalbook.api.confluent.references import check_unreferred, note
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.resolution import make_document
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion, parse_version
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import (
    ConfluentError,
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
    schema_not_found,
    subject_deleted,
    subject_not_deleted,
    subject_not_found,
    unprocessable,
    version_deleted,
    version_not_deleted,
    version_not_found,
)
from signalbook.confluent.metadata import (
    check_metadata,
    check_ruleset,
    merge_rulesets,
    remove_rules,
    remove_version,
    with_version,
)
from signalbook.confluent.naming import DEFAULT_CONTEXT, SUBJECT, Subject, is_global, parse_context
from signalbook.confluent.schemas import (
    TAG_MEMBERS,
    states_format,
)
from signalbook.confluent.settings import READ_ONLY
from signalbook.confluent.tags import read_tags
from signalbook.documents import guess_content_type
from signalbook.engine.checks import check_alone, check_whole
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.formats import SchemaError
from signalbook.formats.base import find
from signalbook.formats.references import has_open_references, is_importing
from signalbook.storage.confluent import IdTaken
from signalbook.values import JSON, JSONObject

_TAGS: Final = ("tagsToAdd", "tagsToRemove")
_TAGGING: Final = frozenset({"newVersion", "metadata", "ruleSet", "rulesToMerge", "rulesToRemove", *_TAGS})
QUICK: Final = 1 << 13
"""The size of the largest body that is handled without a thread, and whose schema is checked in the write
transaction."""
_MAX_SHOWN_REASONS: Final = 10


def check_schema(new: RegistrationCandidate, request: ConfluentRequest) -> None:
    """Raise 42201 unless the schema is valid.

    In a write, nothing is raised if the check takes too long for its turn: the write is tried again.
    """
    if new.format in request.sound:
        return
    reader = find(new.format)
    if reader is None:  # pragma: no cover  # the three are part of the program
        raise invalid_schema(f"no reader for {new.format}")
    try:
        document = make_document(new.text)
        findings = [] if new.body.references else check_alone(reader, document)
        # If a document refers to others, it can only be checked together with them.
        has_references = bool(new.body.references) or has_open_references(findings or ())
        is_whole = has_references and is_importing(reader)
        if is_whole:
            result = check_whole(reader, document)
            if result is not None and result.error is not None:
                raise result.error
            findings = None if result is None else result.items
        if findings is None:
            return
        faults = [
            finding for finding in findings if finding.severity == "error" and finding.rule not in new.accepted_rules
        ]
        if faults:
            raise SchemaError(faults)
    except SchemaError as error:
        raise invalid_schema(str(error)) from None
    if not new.body.references:  # the schemas that it refers to may change before the write
        request.sound.add(new.format)


def find_known_version(request: ConfluentRequest, subjects: Subjects) -> Response | None:
    """Return the response to a registration that changes nothing, or None if the registration has to be written."""
    subject = subject_of(subjects, request)
    if subjects.schema(subject) is None and len(request.body) <= QUICK:
        return None
    new = build_candidate(subjects, request, subject)
    if new.known is None or not new.is_registered:
        _check_mode(new, subjects.mode(subject))
        if len(request.body) > QUICK:
            check_schema(new, request)  # outside of the writers' turn
        return None
    return answer(_render_registered(new.known, subjects, request))


def _render_registered(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return a version as the response to its registration.

    The schema is left out, unless a ``format`` is requested: clients would store it in place of the schema they sent.
    """
    left_out = ("subject", "deleted", "ts", *(() if "format" in request.query else ("schema",)))
    return {name: value for name, value in render_version(version, subjects, request).items() if name not in left_out}


def register(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Add a version to a subject, or return the existing version with the same schema."""
    return register_in(session, request, subjects, subject_of(subjects, request))


def register_in(
    session: Session,
    request: ConfluentRequest,
    subjects: Subjects,
    subject: Subject,
    ruleset: JSONObject | None = None,
) -> Response:
    """Register a schema as ``register``, in ``subject`` even if it is an alias. ``ruleset`` is as for
    ``build_candidate``."""
    new = build_candidate(subjects, request, subject, ruleset=ruleset)
    if new.known is not None and new.is_registered:
        return answer(_render_registered(new.known, subjects, request))
    mode = subjects.mode(subject)
    _check_mode(new, mode)
    check_references_allowed(session.view, subjects, new.body.references, subject.context)
    check_schema(new, request)
    if mode != "IMPORT" and not request.flag("force"):
        _check_compatible(subjects, new)
    number = _choose_version(subjects, new)
    if not new.imported and (new.body.version is not None or new.stated_version is not None):
        new = replace(new, attributes={**new.attributes, "metadata": with_version(new.body.metadata, number)})
    stored = _store(session, request, subjects, new, number)
    return answer(_render_registered(stored, subjects, request))


def tag(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Add a version that is a copy of another version, with some tags added and some removed.

    If the request names no context, the copied version may be in another context. The new version belongs to the named
    subject.
    """
    version = find_version_anywhere(session.view, request)
    subject = subject_of(subjects, request)
    members = request.json(_TAGGING)
    for name in _TAGS:
        read_tags(members, name)  # for errors that name the member
    body: JSONObject = {name: members.get(member) for name, member in zip(TAG_MEMBERS, _TAGS, strict=True)}
    stored = version.attributes
    metadata, ruleset = check_metadata(members, "metadata"), check_ruleset(members)
    metadata = remove_version(stored.get("metadata")) if metadata is None else metadata
    # A copy without a version number is a new version, too.
    body["metadata"] = with_version(metadata, members.get("newVersion") or 0)
    ruleset = _merge_rules(stored.get("ruleset"), members) if ruleset is None else ruleset
    body |= {**schema_members(version), "version": members.get("newVersion")}
    if version.subject.context != subject.context:
        body["references"] = list_qualified_references(version, subjects)
    return register_in(session, request.about(subject, body), subjects, subject, ruleset)


def _merge_rules(ruleset: JSON, members: Mapping[str, Any]) -> JSONObject:
    """Return a rule set with the request's ``rulesToMerge`` added, and without the rules in ``rulesToRemove``."""
    names = members.get("rulesToRemove") or []
    if not isinstance(names, list):
        raise unprocessable("rulesToRemove has to be a list of names")
    return remove_rules(merge_rulesets(ruleset, check_ruleset(members, "rulesToMerge")), names) or {}


def _check_mode(new: RegistrationCandidate, mode: str) -> None:
    if mode in READ_ONLY:
        raise not_permitted(f"Subject {new.subject} is in read-only mode")
    if mode != "IMPORT" and new.body.id is not None:
        raise not_permitted(f"Subject {new.subject} is not in import mode")
    # Otherwise producers would get ids that the import has yet to bring.
    if mode == "IMPORT" and new.body.id is None:
        raise not_permitted(f"Subject {new.subject} is not in read-write mode")


def _check_compatible(subjects: Subjects, new: RegistrationCandidate) -> None:
    config = subjects.config(new.subject)
    before = list_predecessors(subjects, new.subject, config)
    reasons = find_differences(new.text, new.body.metadata, config, before, subjects)
    if reasons:
        raise incompatible(new.subject, f"details: [{'; '.join(explain(reasons[:_MAX_SHOWN_REASONS], config))}]")


def _choose_version(subjects: Subjects, new: RegistrationCandidate) -> int:
    """Return the number of a new version. Raises 42201 if the request states another number than the next one.

    An imported version gets the number that the request states. Raises 42205 if the subject has this version already.
    """
    following, stated = subjects.last_number(new.subject) + 1, new.body.version
    if new.imported and stated is not None:
        if subjects.is_taken(new.subject, stated):
            raise not_permitted(f"Subject {new.subject} has another schema as version {stated}")
        return stated
    if stated not in (None, following):
        raise invalid_schema(f"version {stated} was expected to be the next one, which is {following}")
    return following


def _store(
    session: Session, request: ConfluentRequest, subjects: Subjects, new: RegistrationCandidate, number: int
) -> SchemaVersion:
    schema = subjects.new_schema(new.subject)
    if schema is None:
        raise invalid_subject(new.subject)
    writer = SubjectWriter(session, subjects, request.settings)
    if new.body.id is not None:
        try:
            writer.claim_id(schema, new.content, new.body.id)
        except IdTaken as error:
            raise not_permitted(str(error)) from None
    subject_member: JSONObject = {} if schema.id == new.subject.name else {SUBJECT: new.subject.name}
    attributes: JSONObject = {"format": new.format, **new.attributes, **subject_member}
    xid = schema / "versions" / str(number)
    content_type = guess_content_type(new.format)
    document = DocumentBody(content=new.body.document, contenttype=content_type, attributes=attributes)
    try:
        _merge_formats(session, subjects, new)
        command = Command(method=Method.PUT, target=xid, document=document, accepted_rules=new.accepted_rules)
        session.execute(command)
    except RegistryError as error:
        raise _as_confluent(error, new.subject) from None
    if new.body.version is not None:  # otherwise the number is new
        writer.forget_soft_deleted(schema, number)
    stored = subjects.at(xid)
    note(session, stored)
    return stored


def _merge_formats(session: Session, subjects: Subjects, new: RegistrationCandidate) -> None:
    """Change all Versions of a subject to the format of the new Version, if this format names a family but no version.

    This is done only if it changes the meaning of no document.
    """
    versions = (
        [] if "/" in new.format else [version for version in subjects.live(new.subject) if version.format != new.format]
    )
    default = new.body.default_format
    if versions and all(version.format == default or states_format(version.text, version.type) for version in versions):
        body: JSONObject = {str(version.version): {"format": new.format} for version in versions}
        session.execute(Command(method=Method.PATCH, target=versions[0].schema / "versions", body=body))


def _as_confluent(error: RegistryError, subject: Subject) -> Exception:
    """Return this API's error for an error of the registry; other errors are returned unchanged."""
    if error.code == "compatibility_violation":
        return incompatible(subject, f"details: [{'; '.join(map(str, error.faults[:_MAX_SHOWN_REASONS]))}]")
    if error.code in ("format_violation", "mismatched_version_attribute", "constraint_failure"):
        return invalid_schema(str(error))
    return error


def look_up(view: View, request: ConfluentRequest) -> Response:
    """Return the version with the request's schema, in the subject or in a subject of that name in another context."""
    subjects = subjects_of(view, request)
    subject = require_subject(subjects, request)
    deleted = request.flag("deleted")
    has_versions = subjects.latest(subject) is not None or (deleted and bool(subjects.deleted(subject)))
    new = build_candidate(subjects, request, subject, deleted=deleted, first_exact=True) if has_versions else None
    version = None if new is None else new.known
    for namesake in subjects.namesakes(subject, deleted=deleted) if version is None else ():
        with suppress(ConfluentError):  # this context may lack a schema that the document refers to
            version = version or build_candidate(subjects, request, namesake, deleted=deleted, first_exact=True).known
    if version is None:
        if new is None:
            raise subject_not_found(subject)
        check_schema(new, request)
        raise schema_not_found()
    return answer(render_version(version, subjects, request))


def compare(view: View, request: ConfluentRequest) -> Response:
    """Return whether a schema is compatible with one version of a subject, or with those that its level requires."""
    subjects = subjects_of(view, request)
    subject = subject_of(subjects, request)
    config = subjects.config(subject)
    if len(request.names) > 1:
        versions = _select_compared(subjects, subject, request.names[1])
    else:
        versions = list_predecessors(subjects, subject, config)
    verbose = request.flag("verbose")
    try:
        new = build_candidate(subjects, request, subject)
        check_schema(new, request)
    except ConfluentError as error:
        if error.code == 42201 and verbose:
            return answer({"is_compatible": False, "messages": [str(error)]})
        raise
    reasons = find_differences(new.text, new.body.metadata, config, versions, subjects)
    return answer({"is_compatible": not reasons, **({"messages": explain(reasons, config)} if verbose else {})})


def _select_compared(subjects: Subjects, subject: Subject, text: str) -> Sequence[SchemaVersion]:
    """Return the versions to compare with: one, or none if the latest is requested and no version exists."""
    number = parse_version(text)
    if number is not None:
        version = subjects.find(subject, number)
        if version is None:
            raise version_not_found(number)
        return (version,)
    latest = subjects.latest(subject)
    return () if latest is None else (latest,)


def delete_subject(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Delete a subject softly; with ``permanent``, delete a soft-deleted subject permanently."""
    subject = require_subject(subjects, request)
    check_writable(subjects, subject)
    live, soft = subjects.live(subject), subjects.deleted(subject)
    if not live and not soft:
        raise subject_not_found(subject)
    writer = SubjectWriter(session, subjects, request.settings)
    if request.flag("permanent"):
        if live:
            raise subject_not_deleted(subject)
        writer.delete_permanently(soft)
        return answer([version.version for version in soft])
    if not live:
        raise subject_deleted(subject)
    check_unassociated(session.view, subject)
    delete_softly(session, subjects, writer, live)
    return answer([version.version for version in live])


def delete_version(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Delete a version softly; with ``permanent``, delete a soft-deleted version permanently."""
    subject = require_subject(subjects, request)
    check_writable(subjects, subject)
    permanent = request.flag("permanent")
    number = parse_version(request.names[1])
    versions = subjects.require_versions(subject, deleted=True)
    live = [version for version in versions if version.xid is not None]
    if not live and not permanent:
        raise subject_not_found(subject)
    chosen = (
        (live or versions)[-1:] if number is None else [version for version in versions if version.version == number]
    )
    if not chosen:
        raise version_not_found(number)
    writer = SubjectWriter(session, subjects, request.settings)
    if permanent:
        if chosen[0].xid is not None:
            raise version_not_deleted(subject, chosen[0].version)
        writer.delete_permanently(chosen)
    elif chosen[0].xid is None:
        raise version_deleted(subject, chosen[0].version)
    else:
        if len(live) == 1:
            check_versions_left(session.view, subject)
        delete_softly(session, subjects, writer, chosen)
    return answer(chosen[0].version)


def check_writable(subjects: Subjects, subject: Subject) -> None:
    """Raise 42205 if the mode of a subject allows no writes."""
    if subjects.mode(subject) in READ_ONLY:
        raise not_permitted(f"Subject {subject} is in read-only mode")


def delete_softly(
    session: Session, subjects: Subjects, writer: SubjectWriter, versions: Sequence[SchemaVersion]
) -> None:
    """Soft-delete versions. Raises 42206 if another version that is not deleted refers to one of them."""
    check_unreferred(subjects, session.view, versions, deleted=False)
    live = [version for version in versions if version.xid is not None]
    writer.keep_deleted(live)
    for version in live:
        if version.xid is not None:
            session.execute(Command(method=Method.DELETE, target=version.xid))


def delete_context(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Delete the config, the mode and the Group of a context without subjects. Those of the default context are
    kept."""
    context = parse_context(request.names[0], request.settings.confluent_group)
    group = subjects.group(context)
    if group is None or is_global(context):
        raise invalid_subject(f":{context}:")
    subjects.check_empty(context)
    writer, place = SubjectWriter(session, subjects, request.settings), Subject(context, "")
    if context != DEFAULT_CONTEXT:
        # A context can have settings although its Group does not exist.
        writer.set("config", place, None)
        writer.set("mode", place, None)
        if session.view.exists(group):
            session.execute(Command(method=Method.DELETE, target=group))
    return Response(status=204)
