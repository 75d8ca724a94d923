"""Making, changing and taking away associations of subjects with topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from signalbook.api.confluent.associations import (
    batch_of,
    choice,
    context_of,
    forget,
    keep,
    readable,
    stored,
    with_schema,
)
from signalbook.api.confluent.reading import subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.writing import candidate, check_registering, delete_softly, drop, register
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


def create(session: Session, request: ConfluentRequest) -> Response:
    """Make associations of a resource, with their schemas; those that are there already have to be the same."""
    return _put(session, request, "CREATE")


def upsert(session: Session, request: ConfluentRequest) -> Response:
    """Make or change associations of a resource that is there."""
    return _put(session, request, "UPSERT")


def _put(session: Session, request: ConfluentRequest, operation: str) -> Response:
    body = request.members()
    if request.names:
        if body.get("resourceId", request.names[0]) != request.names[0]:
            raise invalid_association("resourceId", "it is another one than that of the path")
        body = {**body, "resourceId": request.names[0]}
    resource = read_resource(body, trial=request.flag(_DRY_RUN))
    steps = _checked(session, request, resource, read_wanted(body, resource, operation))
    return _ended(request, answer(_applied(session, request, resource, steps)))


def _ended(request: ConfluentRequest, response: Response) -> Response:
    if request.flag(_DRY_RUN):
        raise Undone(response)
    return response


def batch_mutate(session: Session, request: ConfluentRequest) -> Response:
    """Do several of these: each has a result, or an error and is left out.

    What is found only when a schema is registered or a subject deleted is an error of the whole batch.
    """
    results: list[JSON] = []
    for body in batch_of(request):
        try:
            resource = read_resource(body, trial=request.flag(_DRY_RUN))
            steps = _checked(session, request, resource, read_wanted(body, resource))
        except ConfluentError as error:
            results.append({"error": error.to_json()})
        else:
            results.append({"result": _applied(session, request, resource, steps)})
    return _ended(request, answer({"results": results}))


def delete(session: Session, request: ConfluentRequest) -> Response:
    """Take away those of a resource that the query chooses, with ``cascadeLifecycle`` also subjects of its own."""
    there = readable(subjects_of(session.view, request), session.view, stored(session.view, "id", request.names[0]))
    found = list(filter(choice(request), there))
    if not found:
        raise association_not_found(request.names[0])
    cascade = request.flag("cascadeLifecycle")
    for each in found:
        _check_deletable(session, request, each, cascade=cascade)
    for each in found:
        _take_away(session, request, each, cascade=cascade)
    return _ended(request, Response(status=204))


def _checked(session: Session, request: ConfluentRequest, resource: Resource, wanted: Sequence[Wanted]) -> list[_Step]:
    """What is to be done. Raises ``ConfluentError`` for what cannot be, before anything is."""
    subjects = subjects_of(session.view, request)
    there = {each.type: each for each in stored(session.view, "id", resource.id, resource.type)} if resource.id else {}
    steps = []
    for each in wanted:
        existing = there.get(each.type)
        if each.operation == "DELETE":
            if existing is None:
                raise association_not_found(resource.id)
            _check_deletable(session, request, existing, cascade=each.cascade)
            steps.append(_Step(wanted=each, existing=existing))
            continue
        named = str(subjects.parse(each.subject, context_of(request)))
        steps.append(
            _Step(
                wanted=_allowed(session, request, resource, replace(each, subject=named), existing), existing=existing
            )
        )
    return steps


def _allowed(
    session: Session, request: ConfluentRequest, resource: Resource, wanted: Wanted, existing: Association | None
) -> Wanted:
    """What is wanted, complete. Raises ``ConfluentError`` unless it can be."""
    subjects = subjects_of(session.view, request)
    subject = subjects.parse(wanted.subject, ".")
    check_registering(session.view, subjects, subject)
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


def _check_deletable(session: Session, request: ConfluentRequest, association: Association, *, cascade: bool) -> None:
    subjects = subjects_of(session.view, request)
    check_registering(session.view, subjects, subjects.parse(association.subject, "."))
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
            register(session, _registering(request, step.wanted))
        made = _made(session, resource, step)
        keep(session, made)
        shown.append(with_schema(subjects_of(session.view, request), made, step.wanted.schema is not None))
    return {**resource.to_json(), "associations": shown}


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
    forget(session, association)
    if not cascade or association.lifecycle != STRONG:
        return
    subjects = subjects_of(session.view, request)
    subject = subjects.parse(association.subject, ".")
    delete_softly(session, subjects.live(subject))
    drop(session, subjects, subjects_of(session.view, request).deleted(subject))
