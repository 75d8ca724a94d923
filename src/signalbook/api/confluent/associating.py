"""Making, changing and taking away associations of subjects with topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final
from uuid import uuid4

from signalbook.access.base import Action
from signalbook.api.confluent.associations import (
    batch_of,
    choice,
    context_of,
    readable,
    stored,
    with_associations,
    with_schema,
)
from signalbook.api.confluent.candidates import candidate
from signalbook.api.confluent.changes import SubjectWriter
from signalbook.api.confluent.reading import subjects_of
from signalbook.api.confluent.references import check_unreferred
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.rights import WRITE, subject_right
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.writing import check_writable, delete_softly, register_in
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

_DRY_RUN: Final = "dryRun"


class Undone(SignalbookError):
    """A trial, of which nothing stays but its ``response``."""

    def __init__(self, response: Response) -> None:
        super().__init__("a trial is undone")
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The step for one association. ``existing`` is the stored one, or None."""

    wanted: Wanted
    existing: Association | None


def create(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Make associations of a resource, with their schemas; those that are there already have to be the same."""
    return _put(session, request, subjects, "CREATE")


def upsert(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Make or change associations of a resource that is there."""
    return _put(session, request, subjects, "UPSERT")


def _put(session: Session, request: ConfluentRequest, subjects: Subjects, operation: str) -> Response:
    resource, wanted = _read_put(request, operation)
    registered = _apply(session, request, resource, _checked(session, request, subjects, resource, wanted))
    shown = _shown(session, request, resource, [each.type for each in wanted], registered)
    return _ended(request, answer(shown))


def _read_put(request: ConfluentRequest, operation: str) -> tuple[Resource, Sequence[Wanted]]:
    body = request.members()
    if request.names:
        if body.get("resourceId", request.names[0]) != request.names[0]:
            raise invalid_association("resourceId", "it is another one than that of the path")
        body = {**body, "resourceId": request.names[0]}
    resource = read_resource(body, trial=request.flag(_DRY_RUN))
    return resource, read_wanted(body, operation)


def _ended(request: ConfluentRequest, response: Response) -> Response:
    if request.flag(_DRY_RUN):
        raise Undone(response)
    return response


def batch_mutate(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:  # noqa: ARG001
    """Do what several requests ask for. Each has a result or an error.

    What is found only when a schema is registered or a subject deleted is an error of the whole batch.
    """
    results: list[JSON] = [_mutate(session, request, body) for body in batch_of(request)]
    return _ended(request, answer({"results": results}))


def _mutate(session: Session, request: ConfluentRequest, body: Mapping[str, JSON]) -> JSONObject:
    """Do what one request of a batch asks for, and return all associations of its resource, or an error.

    Neighbouring operations of one kind are done together. Those before an error stay done.
    """
    registered: set[str] = set()
    try:
        resource = read_resource(body, trial=request.flag(_DRY_RUN))
        several = read_wanted(body)
    except ConfluentError as error:
        return {"error": error.to_json()}
    for _, neighbours in groupby(several, key=lambda each: each.operation):
        # Anew each time, to see what was done before.
        subjects = subjects_of(session.view, request)
        try:
            steps = _checked(session, request, subjects, resource, list(neighbours))
        except ConfluentError as error:
            return {"error": error.to_json()}
        registered |= _apply(session, request, resource, steps)
    return {"result": _shown(session, request, resource, TYPES, registered)}


def delete(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Remove those of a resource that the query chooses, with ``cascadeLifecycle`` also subjects of its own."""
    found = _chosen(subjects, request)
    if not found:
        raise association_not_found(request.names[0])
    cascade = request.flag("cascadeLifecycle")
    for each in found:
        _check_deletable(session, subjects, each, cascade=cascade)
    for each in found:
        _take_away(session, request, each, cascade=cascade)
    return _ended(request, Response(status=204))


def _chosen(subjects: Subjects, request: ConfluentRequest) -> list[Association]:
    """Return the associations of the resource in the path that the query chooses and the caller can read."""
    return list(filter(choice(request), readable(subjects, stored(subjects.view, "id", request.names[0]))))


def _existing(subjects: Subjects, resource: Resource) -> tuple[dict[str, Association], set[str]]:
    """Return the readable associations of a resource by type, and the types that it has hidden ones of.

    A trial may not know the id of its resource yet: it is about the one with its name that was changed last.
    """
    if resource.id:
        everything = list(stored(subjects.view, "id", resource.id, resource.type))
    else:
        named = list(stored(subjects.view, "name", resource.name, resource.namespace))
        last = max(named, key=lambda each: (each.updated, each.created, each.resource.id), default=None)
        everything = [each for each in named if last is not None and each.resource == last.resource]
    visible = {each.type: each for each in readable(subjects, everything)}
    return visible, {each.type for each in everything} - visible.keys()


def _checked(
    session: Session, request: ConfluentRequest, subjects: Subjects, resource: Resource, wanted: Sequence[Wanted]
) -> list[_Step]:
    """Return what is to be done. Raises ``ConfluentError`` for what cannot be, before anything is.

    Raises ``Forbidden`` without the right to write a subject. The right is checked here, because what a batch did
    before can change which subject is meant.
    """
    visible, hidden = _existing(subjects, resource)
    steps = []
    for each in wanted:
        existing = visible.get(each.type)
        if each.operation == "DELETE":
            if existing is None:
                raise association_not_found(resource.id)
            _check_deletable(session, subjects, existing, cascade=each.cascade)
            steps.append(_Step(wanted=each, existing=existing))
            continue
        own = str(subjects.parse(resource.own_subject(each.type), "."))
        named = str(subjects.parse(each.subject, context_of(request))) if each.subject else ""
        current = existing if each.operation == "UPSERT" else None
        subject = named or (own if current is None else current.subject)
        subject_right(subjects, subjects.parse(subject, "."), *WRITE).require(session.access)
        if each.type in hidden:
            # A resource has one association of a type. The error names no subject.
            raise association_of_resource_exists(each.type, resource.id)
        planned = complete(replace(each, subject=subject), own, current)
        check_writable(subjects, subjects.parse(subject, "."))
        if existing is None:
            _check_new(subjects, request, planned)
        else:
            _check_existing(subjects, request, planned, existing)
        steps.append(_Step(wanted=planned, existing=existing))
    kept = [step.wanted for step in steps if step.wanted.operation != "DELETE"]
    changed = {each.type for each in wanted}
    untouched = {kind: association.lifecycle for kind, association in visible.items() if kind not in changed}
    check_uniform(untouched | {each.type: each.lifecycle for each in kept})
    for step in steps:
        if step.wanted.operation != "DELETE":
            _check_subject(session, subjects, step, kept)
    return steps


def _check_new(subjects: Subjects, request: ConfluentRequest, wanted: Wanted) -> None:
    """Raise 42212 for a STRONG association that is not made together with its topic and the first schema.

    What is imported was made where it comes from.
    """
    subject = subjects.parse(wanted.subject, ".")
    if wanted.lifecycle != STRONG or subjects.mode(subject) == "IMPORT":
        return
    if wanted.operation == "UPSERT":
        raise invalid_association("lifecycle", "a STRONG association is created with its topic")
    if wanted.schema is None:
        raise invalid_association("schema", "must be provided when creating a frozen association")
    latest = subjects.latest(subject)
    if latest is not None and (latest.version != 1 or not _is_registered(subjects, request, wanted)):
        raise invalid_association("frozen", "its subject has schemas already, so that it cannot be made")


def _check_existing(subjects: Subjects, request: ConfluentRequest, wanted: Wanted, existing: Association) -> None:
    """Raise ``ConfluentError`` unless an association is or can become what is wanted."""
    if wanted.operation == "UPSERT":
        check_change(existing, wanted)
        return
    has_schema = wanted.schema is None or _is_registered(subjects, request, wanted)
    if not is_same(existing, wanted) or not has_schema:
        raise association_of_resource_exists(existing.type, existing.resource.id)


def _check_subject(session: Session, subjects: Subjects, step: _Step, several: Sequence[Wanted]) -> None:
    """Raise ``ConfluentError`` for a subject that others have, that has no versions, or that others refer to."""
    wanted, subject = step.wanted, subjects.parse(step.wanted.subject, ".")
    if wanted.schema is not None and subjects.mode(subject) == "IMPORT":
        raise invalid_association("schema", f"cannot be provided while subject '{subject}' is in IMPORT mode")
    if wanted.schema is None and subjects.latest(subject) is None:
        raise no_active_version(subject)
    own = None if step.existing is None else step.existing.guid
    others = [each for each in stored(session.view, "subject", wanted.subject) if each.guid != own]
    if wanted.lifecycle == STRONG:
        if others:
            raise association_exists(subject)
        if any(_refers_to(subjects, sibling, subject) for sibling in several):
            raise reference_exists(f"of {subject}")
        check_unreferred(subjects, session.view, subjects.all(subject), deleted=True)
    elif any(each.lifecycle == STRONG for each in others):
        raise strong_association_exists(subject)


def _refers_to(subjects: Subjects, wanted: Wanted, target: Subject) -> bool:
    """Return True if the schema that comes with an association refers to a subject."""
    references = (wanted.schema or {}).get("references")
    stated = references if isinstance(references, list) else []
    context = subjects.parse(wanted.subject, ".").context
    names = [each.get("subject") for each in stated if isinstance(each, dict)]
    return any(isinstance(name, str) and subjects.parse(name, context) == target for name in names)


def _is_registered(subjects: Subjects, request: ConfluentRequest, wanted: Wanted) -> bool:
    found = candidate(subjects, _registering(request, wanted), subjects.parse(wanted.subject, "."))
    return found.known is not None


def _registering(request: ConfluentRequest, wanted: Wanted) -> ConfluentRequest:
    """The request to register the schema that comes with an association."""
    query = {"normalize": "true"} if wanted.normalize else {}
    subject = parse_subject(wanted.subject, default_group=request.settings.confluent_group)
    return request.about(subject, wanted.schema or {}, **query)


def _check_deletable(session: Session, subjects: Subjects, association: Association, *, cascade: bool) -> None:
    subject = subjects.parse(association.subject, ".")
    subject_right(subjects, subject, *WRITE).require(session.access)
    if cascade and association.lifecycle == STRONG:
        subject_right(subjects, subject, Action.DELETE).require(session.access)
    check_writable(subjects, subject)
    if association.frozen and not cascade:
        raise association_frozen(association.type, association.subject)


def _apply(session: Session, request: ConfluentRequest, resource: Resource, steps: Sequence[_Step]) -> set[str]:
    """Do these steps, and return the types of associations whose schemas came with them."""
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
        made = _made(session, resource, step)
        SubjectWriter(session, subjects, request.settings).store_association(made, is_new=step.existing is None)
    return registered


def _shown(
    session: Session, request: ConfluentRequest, resource: Resource, types: Collection[str], registered: set[str]
) -> JSONObject:
    """Return a resource with its associations of these types. A trial shows none: they do not stay."""
    if request.flag(_DRY_RUN):
        return resource.to_json()
    subjects = subjects_of(session.view, request)
    visible, _ = _existing(subjects, resource)
    return with_associations(
        resource.to_json(),
        [with_schema(subjects, each, kind in registered) for kind, each in visible.items() if kind in types],
    )


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
    subject = subjects.parse(association.subject, ".")
    if not cascade or association.lifecycle != STRONG or subjects.mode(subject) == "IMPORT":
        return
    delete_softly(session, subjects, writer, subjects.live(subject))
    writer.delete_permanently(subjects_of(session.view, request).deleted(subject))
