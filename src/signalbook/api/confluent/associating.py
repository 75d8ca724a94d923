"""Making, changing and taking away associations of subjects with topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from signalbook.access.base import Action
from signalbook.api.confluent.associations import (
    batch_of,
    choice,
    context_of,
    readable,
    stored,
    with_schema,
)
from signalbook.api.confluent.candidates import candidate
from signalbook.api.confluent.changes import SubjectWriter
from signalbook.api.confluent.reading import subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.rights import WRITE, Right, subject_right
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.writing import delete_softly, register_in
from signalbook.api.kernel.responses import Response
from signalbook.confluent.associations import (
    STRONG,
    WEAK,
    Association,
    Resource,
    Wanted,
    check_change,
    completed,
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
    strong_association_exists,
)
from signalbook.confluent.naming import parse_subject
from signalbook.engine.engine import Session
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject

_DRY_RUN: Final = "dryRun"


class Undone(SignalbookError):
    """A trial, of which nothing stays but its ``response``."""

    def __init__(self, response: Response) -> None:
        super().__init__("a trial is undone")
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What is to be done for one association: there is the ``existing`` one, or None."""

    wanted: Wanted
    existing: Association | None


def rights_to_put(subjects: Subjects, request: ConfluentRequest) -> Iterator[Right]:
    """Yield the rights that ``create`` and ``upsert`` take: to write the subjects."""
    for wanted in _read_put(request, "UPSERT")[1]:
        yield from _rights(subjects, request, wanted, None)


def rights_to_mutate(subjects: Subjects, request: ConfluentRequest) -> Iterator[Right]:
    """Yield the rights that a batch takes; requests that cannot be read are answered with an error each."""
    for body in batch_of(request):
        try:
            resource = read_resource(body, trial=request.flag(_DRY_RUN))
            several = read_wanted(body, resource)
        except ConfluentError:
            continue
        visible, _ = _existing(subjects, resource)
        for wanted in several:
            yield from _rights(subjects, request, wanted, visible.get(wanted.type))


def rights_to_delete(subjects: Subjects, request: ConfluentRequest) -> Iterator[Right]:
    """Yield the rights that ``delete`` takes: to write the subjects of those that it removes."""
    for each in _chosen(subjects, request):
        yield from _rights_to_remove(subjects, each, cascade=request.flag("cascadeLifecycle"))


def _rights(
    subjects: Subjects, request: ConfluentRequest, wanted: Wanted, existing: Association | None
) -> Iterator[Right]:
    if wanted.operation != "DELETE":
        yield subject_right(subjects, subjects.parse(wanted.subject, context_of(request)), *WRITE)
    elif existing is not None:
        yield from _rights_to_remove(subjects, existing, cascade=wanted.cascade)


def _rights_to_remove(subjects: Subjects, association: Association, *, cascade: bool) -> Iterator[Right]:
    subject = subjects.parse(association.subject, ".")
    yield subject_right(subjects, subject, *WRITE)
    if cascade and association.lifecycle == STRONG:
        yield subject_right(subjects, subject, Action.DELETE)


def create(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Make associations of a resource, with their schemas; those that are there already have to be the same."""
    return _put(session, request, subjects, "CREATE")


def upsert(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Make or change associations of a resource that is there."""
    return _put(session, request, subjects, "UPSERT")


def _put(session: Session, request: ConfluentRequest, subjects: Subjects, operation: str) -> Response:
    resource, wanted = _read_put(request, operation)
    steps = _checked(session, request, subjects, resource, wanted)
    return _ended(request, answer(_applied(session, request, resource, steps)))


def _read_put(request: ConfluentRequest, operation: str) -> tuple[Resource, Sequence[Wanted]]:
    body = request.members()
    if request.names:
        if body.get("resourceId", request.names[0]) != request.names[0]:
            raise invalid_association("resourceId", "it is another one than that of the path")
        body = {**body, "resourceId": request.names[0]}
    resource = read_resource(body, trial=request.flag(_DRY_RUN))
    return resource, read_wanted(body, resource, operation)


def _ended(request: ConfluentRequest, response: Response) -> Response:
    if request.flag(_DRY_RUN):
        raise Undone(response)
    return response


def batch_mutate(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:  # noqa: ARG001
    """Do several of these: each has a result, or an error and is left out.

    What is found only when a schema is registered or a subject deleted is an error of the whole batch.
    """
    results: list[JSON] = []
    for body in batch_of(request):
        try:
            resource = read_resource(body, trial=request.flag(_DRY_RUN))
            # Anew for each request, which sees what those before it did.
            now = subjects_of(session.view, request)
            steps = _checked(session, request, now, resource, read_wanted(body, resource))
        except ConfluentError as error:
            results.append({"error": error.to_json()})
        else:
            results.append({"result": _applied(session, request, resource, steps)})
    return _ended(request, answer({"results": results}))


def delete(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Remove those of a resource that the query chooses, with ``cascadeLifecycle`` also subjects of its own."""
    found = _chosen(subjects, request)
    if not found:
        raise association_not_found(request.names[0])
    cascade = request.flag("cascadeLifecycle")
    for each in found:
        _check_deletable(each, cascade=cascade)
    for each in found:
        _take_away(session, request, each, cascade=cascade)
    return _ended(request, Response(status=204))


def _chosen(subjects: Subjects, request: ConfluentRequest) -> list[Association]:
    """Return the associations of the resource in the path that the query chooses and the caller can read."""
    return list(filter(choice(request), readable(subjects, stored(subjects.view, "id", request.names[0]))))


def _existing(subjects: Subjects, resource: Resource) -> tuple[dict[str, Association], set[str]]:
    """Return the readable associations of a resource by type, and the types that it has hidden ones of."""
    everything = list(stored(subjects.view, "id", resource.id, resource.type)) if resource.id else []
    visible = {each.type: each for each in readable(subjects, everything)}
    return visible, {each.type for each in everything} - visible.keys()


def _checked(
    session: Session, request: ConfluentRequest, subjects: Subjects, resource: Resource, wanted: Sequence[Wanted]
) -> list[_Step]:
    """Return what is to be done. Raises ``ConfluentError`` for what cannot be, before anything is."""
    visible, hidden = _existing(subjects, resource)
    steps = []
    for each in wanted:
        existing = visible.get(each.type)
        if each.operation == "DELETE":
            if existing is None:
                raise association_not_found(resource.id)
            _check_deletable(existing, cascade=each.cascade)
            steps.append(_Step(wanted=each, existing=existing))
            continue
        if each.type in hidden:
            # A resource has one association of a type. The error names no subject.
            raise association_of_resource_exists(each.type, resource.id)
        named = str(subjects.parse(each.subject, context_of(request)))
        complete = _allowed(session, request, subjects, resource, replace(each, subject=named), existing)
        steps.append(_Step(wanted=complete, existing=existing))
    return steps


def _allowed(
    session: Session,
    request: ConfluentRequest,
    subjects: Subjects,
    resource: Resource,
    wanted: Wanted,
    existing: Association | None,
) -> Wanted:
    """Return what is wanted, complete. Raises ``ConfluentError`` unless it can be."""
    subject = subjects.parse(wanted.subject, ".")
    has_versions = subjects.latest(subject) is not None
    # What is imported was made where it comes from.
    imported = subjects.mode(subject) == "IMPORT"
    if wanted.schema is None and not has_versions:
        raise no_active_version(subject)
    if existing is not None:
        _check_existing(subjects, request, wanted, existing)
    else:
        wanted = _new(wanted)
        if wanted.frozen and wanted.schema is None and not imported:
            raise invalid_association("schema", "must be provided when creating a frozen association")
        if wanted.frozen and has_versions and not imported:
            raise invalid_association("subject", "it has schemas, so that no frozen association can be made")
    others = (each for each in stored(session.view, "subject", wanted.subject) if not _is_at(each, resource, wanted))
    other = next(others, None)
    if other is not None and wanted.lifecycle == STRONG:
        raise association_exists(subject)
    if other is not None and other.lifecycle == STRONG:
        raise strong_association_exists(subject)
    return wanted


def _new(wanted: Wanted) -> Wanted:
    """One that is to be made: a strong one only together with its topic."""
    if wanted.operation == "UPSERT" and wanted.schema is not None:
        raise invalid_association("schema", "an association with a schema is created with its topic")
    wanted = completed(wanted)
    if wanted.operation == "UPSERT" and wanted.lifecycle == STRONG:
        raise invalid_association("lifecycle", "a STRONG association is created with its topic")
    return wanted


def _check_existing(subjects: Subjects, request: ConfluentRequest, wanted: Wanted, existing: Association) -> None:
    if wanted.operation == "CREATE" and not is_same(existing, wanted):
        raise association_of_resource_exists(existing.type, existing.resource.id)
    check_change(existing, wanted)
    if wanted.schema is not None and not _is_registered(subjects, request, wanted):
        if wanted.operation == "CREATE":
            raise association_of_resource_exists(existing.type, existing.resource.id)
        if existing.frozen:
            raise association_frozen(existing.type, existing.subject)


def _is_registered(subjects: Subjects, request: ConfluentRequest, wanted: Wanted) -> bool:
    found = candidate(subjects, _registering(request, wanted), subjects.parse(wanted.subject, "."))
    return found.known is not None


def _is_at(association: Association, resource: Resource, wanted: Wanted) -> bool:
    there = (association.resource.id, association.resource.type, association.type)
    return there == (resource.id, resource.type, wanted.type)


def _registering(request: ConfluentRequest, wanted: Wanted) -> ConfluentRequest:
    """The request to register the schema that comes with an association."""
    query = {"normalize": "true"} if wanted.normalize else {}
    subject = parse_subject(wanted.subject, default_group=request.settings.confluent_group)
    return request.about(subject, wanted.schema or {}, **query)


def _check_deletable(association: Association, *, cascade: bool) -> None:
    if association.frozen and not cascade:
        raise association_frozen(association.type, association.subject)


def _applied(session: Session, request: ConfluentRequest, resource: Resource, steps: Sequence[_Step]) -> JSONObject:
    """Do it; what there is then."""
    shown: list[JSON] = []
    for step in steps:
        if step.wanted.operation == "DELETE":
            if step.existing is not None:
                _take_away(session, request, step.existing, cascade=step.wanted.cascade)
            continue
        if step.wanted.schema is not None:
            _register(session, request, step.wanted)
        made = _made(session, resource, step)
        subjects = subjects_of(session.view, request)
        SubjectWriter(session, subjects, request.settings).store_association(made, is_new=step.existing is None)
        shown.append(with_schema(subjects, made, step.wanted.schema is not None))
    return {**resource.to_json(), "associations": shown}


def _register(session: Session, request: ConfluentRequest, wanted: Wanted) -> None:
    subjects = subjects_of(session.view, request)
    register_in(session, _registering(request, wanted), subjects, subjects.parse(wanted.subject, "."))


def _made(session: Session, resource: Resource, step: _Step) -> Association:
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
    if not cascade or association.lifecycle != STRONG:
        return
    subject = subjects.parse(association.subject, ".")
    delete_softly(session, subjects, writer, subjects.live(subject))
    writer.delete_permanently(subjects_of(session.view, request).deleted(subject))
