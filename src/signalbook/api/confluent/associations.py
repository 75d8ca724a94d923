"""The stored associations. They are stored by resource and by subject, so that each is found by index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from signalbook.api.confluent.queries import subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.kernel.responses import Response
from signalbook.confluent.associations import (
    STRONG,
    Association,
    AssociationFilter,
    read_filter,
    read_resource,
    scope,
)
from signalbook.confluent.errors import (
    ConfluentError,
    association_exists,
    invalid_association,
    no_active_version,
    not_permitted,
    too_many_requests,
    unprocessable,
)
from signalbook.confluent.naming import Subject, parse_context
from signalbook.confluent.schemas import Reference
from signalbook.engine.read.view import View
from signalbook.values import JSON, JSONObject

ANY: Final = "-"
"""The value that stands for every namespace, or every name in a namespace."""
MOST_REQUESTS: Final = 1000
"""The maximum number of requests in a batch."""
_SETTINGS_PAGE: Final = 1000


def stored(view: View, *words: str) -> Iterator[Association]:
    """Yield the associations whose scope begins with these words."""
    beginning = after = scope(*words)
    while settings := view.confluent.settings("association", after, _SETTINGS_PAGE):
        for name, value in settings.items():
            if not name.startswith(beginning):
                return
            yield Association.from_json(value)
        after = next(reversed(settings))


def check_unassociated(view: View, subject: Subject) -> None:
    """Raise 40904 if a subject that is being deleted has associations."""
    if any(stored(view, "subject", str(subject))):
        raise association_exists(subject)


def check_versions_left(view: View, subject: Subject) -> None:
    """Raise 40907 if a subject whose last version is being deleted has associations."""
    if any(stored(view, "subject", str(subject))):
        raise no_active_version(subject)


def check_references_allowed(view: View, subjects: Subjects, references: Iterable[Reference], context: str) -> None:
    """Raise 42205 if a reference from a context leads to a subject that belongs to a topic."""
    names = {str(subjects.parse(reference.subject, context)) for reference in references}
    # A STRONG association is the only one of its subject, so reading the first is enough.
    nearest = view.confluent.following("association", [scope("subject", name) for name in names]) if names else []
    for association in map(Association.from_json, nearest):
        if association.lifecycle == STRONG and association.subject in names:
            message = f"Subject '{association.subject}' has a strong association and cannot be referenced"
            raise not_permitted(message)


def of_subject(view: View, request: ConfluentRequest) -> Response:
    subject = subjects_of(view, request).parse(request.names[0], choose_context(request))
    return _list_page(view, request, stored(view, "subject", str(subject)))


def of_resource(view: View, request: ConfluentRequest) -> Response:
    """Return the associations of a resource by its id."""
    return _list_page(view, request, stored(view, "id", request.names[0]))


def of_named(view: View, request: ConfluentRequest) -> Response:
    """List the associations of a resource by its name. ``-`` stands for any name or namespace."""
    namespace, name = request.names
    return _list_page(view, request, _of_named(view, namespace, name))


def _of_named(view: View, namespace: str, name: str) -> Iterator[Association]:
    if name != ANY:
        return stored(view, "name", name, *(() if namespace == ANY else (namespace,)))
    return (association for association in stored(view, "name") if namespace in (ANY, association.resource.namespace))


def _list_page(view: View, request: ConfluentRequest, associations: Iterator[Association]) -> Response:
    first, last = request.page()
    chosen = filter(read_choice(request), filter_readable(subjects_of(view, request), associations))
    return answer([association.to_json() for association in islice(chosen, first, last)])


def filter_readable(subjects: Subjects, associations: Iterable[Association]) -> Iterator[Association]:
    """Yield the associations whose subjects the caller can read."""
    return (
        association for association in associations if subjects.is_readable(subjects.parse(association.subject, "."))
    )


def read_choice(request: ConfluentRequest, lifecycle: str | None = None) -> AssociationFilter:
    """Return the filter in the query, with this ``lifecycle`` unless it is None. Raises 42212."""
    types = [value for name, value in request.pairs if name == "associationType"]
    stated = request.query.get("lifecycle", "") if lifecycle is None else lifecycle
    return read_filter(request.query.get("resourceType", ""), types, stated)


def choose_context(request: ConfluentRequest) -> str:
    """Return the context of subjects named without one: the context in the query, else the one in the path."""
    name = request.query.get("context", "")
    return parse_context(name, request.settings.confluent_group) if name.strip(":") else request.context


def read_batch(request: ConfluentRequest) -> list[Mapping[str, JSON]]:
    """Return the requests of a batch. Raises 42213 for too many."""
    stated = request.members().get("requests")
    if not isinstance(stated, list) or not all(isinstance(request_body, dict) for request_body in stated):
        raise unprocessable("requests has to be a list of objects")
    if len(stated) > MOST_REQUESTS:
        raise too_many_requests(MOST_REQUESTS)
    return stated


def batch_get(view: View, request: ConfluentRequest) -> Response:
    """Return the associations of several resources, each with a result or an error of its own."""
    results: list[JSON] = []
    for body in read_batch(request):
        try:
            results.append({"result": _get_associations(view, request, body)})
        except ConfluentError as error:
            results.append({"error": error.to_json()})
    return answer({"results": results})


def _get_associations(view: View, request: ConfluentRequest, body: Mapping[str, JSON]) -> JSONObject:
    subjects = subjects_of(view, request)
    types = body.get("associationTypes") or []
    kind, lifecycle, number = (body.get(name) or "" for name in ("resourceType", "lifecycle", "resourceId"))
    if not isinstance(types, list) or not all(isinstance(text, str) for text in (*types, kind, lifecycle, number)):
        raise invalid_association("associationTypes", "has to be a list of strings")
    association_filter = read_filter(str(kind), types, str(lifecycle))
    if number:
        associations = stored(view, "id", str(number))
    else:
        resource = read_resource(body, trial=True)
        associations = _of_named(view, resource.namespace, resource.name)
    chosen = list(filter(association_filter, filter_readable(subjects, associations)))
    rendered: list[JSON] = [
        with_schema(subjects, association, request.flag("includeSchemas")) for association in chosen
    ]
    return with_associations(chosen[0].resource.to_json() if chosen else {}, rendered)


def with_associations(resource: JSONObject, associations: list[JSON]) -> JSONObject:
    """Return a resource with its associations, as Confluent's clients expect them: left out if there are none."""
    return {**resource, "associations": associations} if associations else resource


def with_schema(subjects: Subjects, association: Association, include: bool) -> JSONObject:
    """Return an association as JSON; if ``include`` is True, with the latest version of its subject."""
    latest = subjects.latest(subjects.parse(association.subject, ".")) if include else None
    return {**association.info(), **({} if latest is None else {"schema": latest.to_json()})}
