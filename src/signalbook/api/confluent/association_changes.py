"""Create, change and delete associations of subjects with topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final
from uuid import uuid4

from signalbook.access.base import Action
from signalbook.api.confluent.associations import (
    choose_context,
    filter_readable,
    read_batch,
    read_choice,
    stored,
    with_associations,
    with_schema,
)
from signalbook.api.confluent.candidates import build_candidate
from signalbook.api.confluent.changes import SubjectWriter
from signalbook.api.confluent.queries import subjects_of
from signalbook.api.confluent.references import check_unreferred
from signalbook.api.confluent.registration import check_writable, delete_softly, register_in
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.rights import WRITE, subject_right
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.kernel.responses import Response
from signalbook.confluent.associations import (
    STRONG,
    TYPES,
    WEAK,
    Association,
    Resource,
    Wanted,
    check_change,
    check_uniform,
    complete,
    is_same,
    read_resource,
    read_wanted,
)
from signalbook.confluent.errors import (
    ConfluentError,
    association_exists,
    association_frozen,
    association_not_found,
    association_of_resource_exists,
    invalid_association,
    no_active_version,
    reference_exists,
    strong_association_exists,
)
from signalbook.confluent.naming import Subject, parse_subject
from signalbook.engine.engine import Session
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject
from signalbook.work import Postponed

_DRY_RUN: Final = "dryRun"


class Undone(SignalbookError):
    """Raised to undo a trial (dry run). ``response`` is the response to the trial."""

    def __init__(self, response: Response) -> None:
        super().__init__("a trial is undone")
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The change of one association. ``existing`` is the stored association, or None."""

    wanted: Wanted
    existing: Association | None


def create(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Create associations of a resource, with their schemas. Existing associations have to be equal to the requested
    ones."""
    return _put(session, request, subjects, "CREATE")


def upsert(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Create or change associations of a resource."""
    return _put(session, request, subjects, "UPSERT")


def _put(session: Session, request: ConfluentRequest, subjects: Subjects, operation: str) -> Response:
    resource, changes = _read_put(request, operation)
    registered = _apply(session, request, resource, _check_changes(session, request, subjects, resource, changes))
    rendered = _render_associations(session, request, resource, [change.type for change in changes], registered)
    return _end_request(request, answer(rendered))


def _read_put(request: ConfluentRequest, operation: str) -> tuple[Resource, Sequence[Wanted]]:
    body = request.members()
    if request.names:
        if body.get("resourceId", request.names[0]) != request.names[0]:
            raise invalid_association("resourceId", "it is another one than that of the path")
        body = {**body, "resourceId": request.names[0]}
    resource = read_resource(body, trial=request.flag(_DRY_RUN))
    return resource, read_wanted(body, operation)


def _end_request(request: ConfluentRequest, response: Response) -> Response:
    if request.flag(_DRY_RUN):
        raise Undone(response)
    return response


def batch_mutate(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:  # noqa: ARG001
    """Execute several requests. Each has a result or an error.

    An error that is found only when a schema is registered or a subject deleted fails the whole batch.
    """
    results: list[JSON] = []
    for body in read_batch(request):
        with suppress(Postponed):  # go on, so that the next schemas are checked before the next try, too
            results.append(_mutate(session, request, body))
    return _end_request(request, answer({"results": results}))


def _mutate(session: Session, request: ConfluentRequest, body: Mapping[str, JSON]) -> JSONObject:
    """Execute one request of a batch. Return all associations of its resource, or an error.

    Consecutive operations of one kind are executed together. Operations before an error stay done.
    """
    registered: set[str] = set()
    try:
        resource = read_resource(body, trial=request.flag(_DRY_RUN))
        several = read_wanted(body)
    except ConfluentError as error:
        return {"error": error.to_json()}
    for _, neighbours in groupby(several, key=lambda change: change.operation):
        # Created anew each time, so that it sees the changes made before.
        subjects = subjects_of(session.view, request)
        try:
            steps = _check_changes(session, request, subjects, resource, list(neighbours))
        except ConfluentError as error:
            return {"error": error.to_json()}
        registered |= _apply(session, request, resource, steps)
    return {"result": _render_associations(session, request, resource, TYPES, registered)}


def delete(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Remove the associations of a resource that the query selects.

    With ``cascadeLifecycle``, delete the subjects of its STRONG associations permanently, too.
    """
    associations = _choose_associations(subjects, request)
    if not associations:
        raise association_not_found(request.names[0])
    cascade = request.flag("cascadeLifecycle")
    for association in associations:
        _check_deletable(session, subjects, association, cascade=cascade)
    for association in associations:
        _take_away(session, request, association, cascade=cascade)
    return _end_request(request, Response(status=204))


def _choose_associations(subjects: Subjects, request: ConfluentRequest) -> list[Association]:
    """Return the associations of the path's resource that the query selects and the caller can read."""
    return list(filter(read_choice(request), filter_readable(subjects, stored(subjects.view, "id", request.names[0]))))


def _find_existing(subjects: Subjects, resource: Resource) -> tuple[dict[str, Association], set[str]]:
    """Return the readable associations of a resource by type, and the types of its hidden associations.

    A trial may not know the id of its resource yet. Then the resource is the last changed one with its name.
    """
    if resource.id:
        everything = list(stored(subjects.view, "id", resource.id, resource.type))
    else:
        same_name = list(stored(subjects.view, "name", resource.name, resource.namespace))
        last = max(
            same_name,
            key=lambda association: (association.updated, association.created, association.resource.id),
            default=None,
        )
        everything = [
            association for association in same_name if last is not None and association.resource == last.resource
        ]
    visible = {association.type: association for association in filter_readable(subjects, everything)}
    return visible, {association.type for association in everything} - visible.keys()


def _check_changes(
    session: Session, request: ConfluentRequest, subjects: Subjects, resource: Resource, changes: Sequence[Wanted]
) -> list[_Step]:
    """Return the steps for ``changes``. Raises ``ConfluentError`` for an impossible change, before anything is changed.

    Raises ``Forbidden`` without the right to write a subject. The right is checked here, because earlier operations of
    a batch can change which subject is meant.
    """
    visible, hidden = _find_existing(subjects, resource)
    steps = []
    for change in changes:
        existing = visible.get(change.type)
        if change.operation == "DELETE":
            if existing is None:
                raise association_not_found(resource.id)
            _check_deletable(session, subjects, existing, cascade=change.cascade)
            steps.append(_Step(wanted=change, existing=existing))
            continue
        own_subject = str(subjects.parse(resource.own_subject(change.type), "."))
        stated_subject = str(subjects.parse(change.subject, choose_context(request))) if change.subject else ""
        current = existing if change.operation == "UPSERT" else None
        subject = stated_subject or (own_subject if current is None else current.subject)
        subject_right(subjects, subjects.parse(subject, "."), *WRITE).require(session.access)
        if change.type in hidden:
            # A resource has one association of a type. The error names no subject.
            raise association_of_resource_exists(change.type, resource.id)
        planned = complete(replace(change, subject=subject), own_subject, current)
        check_writable(subjects, subjects.parse(subject, "."))
        if existing is None:
            _check_new(subjects, request, planned)
        else:
            _check_existing(subjects, request, planned, existing)
        steps.append(_Step(wanted=planned, existing=existing))
    remaining = [step.wanted for step in steps if step.wanted.operation != "DELETE"]
    changed = {change.type for change in changes}
    untouched = {kind: association.lifecycle for kind, association in visible.items() if kind not in changed}
    check_uniform(untouched | {change.type: change.lifecycle for change in remaining})
    for step in steps:
        if step.wanted.operation != "DELETE":
            _check_subject(session, subjects, step, remaining)
    return steps


def _check_new(subjects: Subjects, request: ConfluentRequest, change: Wanted) -> None:
    """Raise 42212 for a STRONG association that is not created together with its topic and the first schema.

    Imported associations are not checked, because the registry they come from has checked them.
    """
    subject = subjects.parse(change.subject, ".")
    if change.lifecycle != STRONG or subjects.mode(subject) == "IMPORT":
        return
    if change.operation == "UPSERT":
        raise invalid_association("lifecycle", "a STRONG association is created with its topic")
    if change.schema is None:
        raise invalid_association("schema", "must be provided when creating a frozen association")
    latest = subjects.latest(subject)
    if latest is not None and (latest.version != 1 or not _is_registered(subjects, request, change)):
        raise invalid_association("frozen", "its subject has schemas already, so that it cannot be made")


def _check_existing(subjects: Subjects, request: ConfluentRequest, change: Wanted, existing: Association) -> None:
    """Raise ``ConfluentError`` unless the existing association equals the requested one, or can be changed to it."""
    if change.operation == "UPSERT":
        check_change(existing, change)
        return
    has_schema = change.schema is None or _is_registered(subjects, request, change)
    if not is_same(existing, change) or not has_schema:
        raise association_of_resource_exists(existing.type, existing.resource.id)


def _check_subject(session: Session, subjects: Subjects, step: _Step, several: Sequence[Wanted]) -> None:
    """Raise ``ConfluentError`` if the subject of an association has no versions, or is not free for the association.

    A STRONG association has to be the only one of its subject, and no schema may refer to the subject. Another
    association only requires that the subject has no STRONG association.
    """
    change, subject = step.wanted, subjects.parse(step.wanted.subject, ".")
    if change.schema is not None and subjects.mode(subject) == "IMPORT":
        raise invalid_association("schema", f"cannot be provided while subject '{subject}' is in IMPORT mode")
    if change.schema is None and subjects.latest(subject) is None:
        raise no_active_version(subject)
    own_guid = None if step.existing is None else step.existing.guid
    other_associations = [
        association for association in stored(session.view, "subject", change.subject) if association.guid != own_guid
    ]
    if change.lifecycle == STRONG:
        if other_associations:
            raise association_exists(subject)
        if any(_refers_to(subjects, sibling, subject) for sibling in several):
            raise reference_exists(f"of {subject}")
        check_unreferred(subjects, session.view, subjects.all(subject), deleted=True)
    elif any(association.lifecycle == STRONG for association in other_associations):
        raise strong_association_exists(subject)


def _refers_to(subjects: Subjects, change: Wanted, target: Subject) -> bool:
    """Return True if the schema in the requested association refers to the subject ``target``."""
    references = (change.schema or {}).get("references")
    stated = references if isinstance(references, list) else []
    context = subjects.parse(change.subject, ".").context
    names = [reference.get("subject") for reference in stated if isinstance(reference, dict)]
    return any(isinstance(name, str) and subjects.parse(name, context) == target for name in names)


def _is_registered(subjects: Subjects, request: ConfluentRequest, change: Wanted) -> bool:
    registration = build_candidate(subjects, _build_registration(request, change), subjects.parse(change.subject, "."))
    return registration.known is not None


def _build_registration(request: ConfluentRequest, change: Wanted) -> ConfluentRequest:
    """Return the request to register the schema in the requested association."""
    query = {"normalize": "true"} if change.normalize else {}
    subject = parse_subject(change.subject, default_group=request.settings.confluent_group)
    return request.about(subject, change.schema or {}, **query)


def _check_deletable(session: Session, subjects: Subjects, association: Association, *, cascade: bool) -> None:
    subject = subjects.parse(association.subject, ".")
    subject_right(subjects, subject, *WRITE).require(session.access)
    if cascade and association.lifecycle == STRONG:
        subject_right(subjects, subject, Action.DELETE).require(session.access)
    check_writable(subjects, subject)
    if association.frozen and not cascade:
        raise association_frozen(association.type, association.subject)


def _apply(session: Session, request: ConfluentRequest, resource: Resource, steps: Sequence[_Step]) -> set[str]:
    """Execute ``steps``. Return the types of the associations whose schemas were registered."""
    registered = set()
    for step in steps:
        if step.wanted.operation == "DELETE":
            if step.existing is not None:
                _take_away(session, request, step.existing, cascade=step.wanted.cascade)
            continue
        if step.wanted.schema is not None:
            _register(session, request, step.wanted)
            registered.add(step.wanted.type)
        subjects = subjects_of(session.view, request)
        association = _build_association(session, resource, step)
        SubjectWriter(session, subjects, request.settings).store_association(association, is_new=step.existing is None)
    return registered


def _render_associations(
    session: Session, request: ConfluentRequest, resource: Resource, types: Collection[str], registered: set[str]
) -> JSONObject:
    """Return a resource with its associations of these types. A trial shows no associations, because they
    are undone."""
    if request.flag(_DRY_RUN):
        return resource.to_json()
    subjects = subjects_of(session.view, request)
    visible, _ = _find_existing(subjects, resource)
    return with_associations(
        resource.to_json(),
        [
            with_schema(subjects, association, kind in registered)
            for kind, association in visible.items()
            if kind in types
        ],
    )


def _register(session: Session, request: ConfluentRequest, change: Wanted) -> None:
    subjects = subjects_of(session.view, request)
    register_in(session, _build_registration(request, change), subjects, subjects.parse(change.subject, "."))


def _build_association(session: Session, resource: Resource, step: _Step) -> Association:
    now = int(session.now.timestamp() * 1000)
    if step.existing is not None:
        return replace(step.existing, updated=now)
    return Association(
        resource=resource,
        type=step.wanted.type,
        subject=step.wanted.subject,
        lifecycle=step.wanted.lifecycle or WEAK,
        guid=str(uuid4()),
        created=now,
        updated=now,
    )


def _take_away(session: Session, request: ConfluentRequest, association: Association, *, cascade: bool) -> None:
    subjects = subjects_of(session.view, request)
    writer = SubjectWriter(session, subjects, request.settings)
    writer.remove(association)
    subject = subjects.parse(association.subject, ".")
    if not cascade or association.lifecycle != STRONG or subjects.mode(subject) == "IMPORT":
        return
    delete_softly(session, subjects, writer, subjects.live(subject))
    writer.delete_permanently(subjects_of(session.view, request).deleted(subject))
