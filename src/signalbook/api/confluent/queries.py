"""The operations that only read: subjects, versions, schemas by id and guid, contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from importlib.metadata import version as version_of_package
from itertools import islice
from typing import Final, TypeVar

from signalbook.api.confluent.references import find_referrer_ids
from signalbook.api.confluent.requests import ConfluentRequest, answer, raw
from signalbook.api.confluent.resolution import inline_types, serialize
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import (
    ConfluentError,
    invalid_subject,
    schema_id_not_found,
    schema_not_found,
    subject_not_found,
    unprocessable,
)
from signalbook.confluent.metadata import properties
from signalbook.confluent.naming import Subject, list_schema_xids
from signalbook.confluent.schemas import content_beginning, read_stored_references
from signalbook.confluent.tags import list_tags
from signalbook.engine.read.view import View
from signalbook.formats.protobuf.statements import remove_custom_options
from signalbook.values import JSON, JSONObject

_QUALIFIED: Final = "qualified"
_ANY_TAG: Final = "*"
T = TypeVar("T")


def subjects_of(view: View, request: ConfluentRequest) -> Subjects:
    """Return the subjects that the caller of a request can see."""
    return Subjects(view, request.settings.confluent_group)


def requested_subject(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the subject that the path names."""
    return subjects.parse(request.names[0], request.context)


def subject_of(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the subject that the path names, or the one that it is an alias of."""
    requested = requested_subject(subjects, request)
    alias = subjects.alias(requested)
    return subjects.parse(alias, requested.context) if alias else requested


def require_subject(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the subject as ``subject_of``. Raises 40401, with the name in the path, for an alias that leads nowhere.

    An alias of a subject that the caller cannot read is treated alike, and the error does not name that subject.
    """
    requested, subject = requested_subject(subjects, request), subject_of(subjects, request)
    if subject != requested and subjects.schema(subject) is None and not subjects.deleted(subject):
        raise subject_not_found(requested)
    return subject


def place_of(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the scope of a settings request: a subject, or without a name a context or the registry. Raises 42208."""
    place = requested_subject(subjects, request) if request.names else Subject(request.context, "")
    if subjects.group(place.context) is None or (place.name and not list_schema_xids(place, subjects.default_group)):
        raise invalid_subject(place)
    return place


def page(entries: Iterable[T], request: ConfluentRequest, limit: int = -1) -> list[T]:
    """Return the requested page of a list. ``limit`` is the default number of entries; -1 means all."""
    first, last = request.page(limit)
    return list(islice(entries, first, last))


def show_liveness(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return ``{}``, which shows that the API is available."""
    return answer({})


def list_types(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return the supported types of schemas."""
    return answer(["JSON", "PROTOBUF", "AVRO"])


def list_contexts(view: View, request: ConfluentRequest) -> Response:
    """Return the contexts whose names begin with the parameter ``contextPrefix``."""
    prefix = request.query.get("contextPrefix", "")
    names = (name for name in subjects_of(view, request).contexts() if name.startswith(prefix))
    return answer(list(page(names, request)))


def list_versions(view: View, request: ConfluentRequest) -> Response:
    """Return the numbers of a subject's versions."""
    subjects = subjects_of(view, request)
    subject = require_subject(subjects, request)
    negative = request.flag("deletedAsNegative")
    versions = subjects.require_versions(
        subject, deleted=negative or request.flag("deleted") or request.flag("deletedOnly")
    )
    if request.flag("deletedOnly"):
        versions = [version for version in versions if version.xid is None]
    numbers = [-version.version if negative and version.xid is None else version.version for version in versions]
    return answer(list(page(numbers, request)))


def show_version(view: View, request: ConfluentRequest) -> Response:
    """Return a version of a subject."""
    return answer(render_version(find_version_anywhere(view, request), subjects_of(view, request), request))


def show_version_text(view: View, request: ConfluentRequest) -> Response:
    """Return only the schema of a version."""
    return raw(text(find_version_anywhere(view, request), subjects_of(view, request), request))


def find_version_anywhere(view: View, request: ConfluentRequest) -> SchemaVersion:
    """Return the version in the path, or else the version of a subject with this name in another context."""
    try:
        return _find_version(view, request)
    except ConfluentError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        subjects, deleted = subjects_of(view, request), request.flag("deleted")
        for subject in subjects.namesakes(subject_of(subjects, request), deleted=deleted):
            with suppress(ConfluentError):
                return subjects.version(subject, request.names[1], deleted=deleted)
        raise


def _find_version(view: View, request: ConfluentRequest) -> SchemaVersion:
    subjects = subjects_of(view, request)
    return subjects.version(require_subject(subjects, request), request.names[1], deleted=request.flag("deleted"))


def render_version(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return a version, with its schema, references and tags in the form that the query requests."""
    return {**version.to_json(), **_format_members(version, subjects, request)}


def _format_members(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return the members of a version that depend on ``format``, ``referenceFormat`` and ``findTags``.

    Raises 422 for an unknown ``referenceFormat``.
    """
    members: JSONObject = {"schema": text(version, subjects, request)}
    if request.query.get("referenceFormat"):
        if request.query["referenceFormat"] != _QUALIFIED:
            format_name = request.query["referenceFormat"][:40]
            raise unprocessable(f"no such format of references: '{format_name}'; there is {_QUALIFIED}")
        references = list_qualified_references(version, subjects)
        members |= {"references": references} if references else {}
    requested_tags = {value for name, value in request.pairs if name == "findTags"}
    if requested_tags:
        tags = list_tags(version.text, version.type)
        members["schemaTags"] = [
            entity.to_json()
            for entity in tags
            if _ANY_TAG in requested_tags or requested_tags.intersection(entity.tags)
        ]
    return members


def list_qualified_references(version: SchemaVersion, subjects: Subjects) -> list[JSON]:
    """Return the references of a version, each subject with its context: the version's own, unless it names another."""
    references = read_stored_references(version.attributes)
    names = [str(subjects.parse(reference.subject, version.subject.context)) for reference in references]
    return [{**reference.to_json(), "subject": name} for reference, name in zip(references, names, strict=True)]


def text(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> str:
    """Return the schema of a version in the ``format`` of the query, or as it is if the format is unknown."""
    text_format = request.query.get("format", "")
    match version.type, text_format:
        case "AVRO", "resolved":
            return inline_types(subjects, version)
        case "PROTOBUF", "serialized":
            return serialize(subjects, version)
        case "PROTOBUF", "ignore_extensions":
            return remove_custom_options(version.text, extensions=True)
    return version.text


def list_referrers(view: View, request: ConfluentRequest) -> Response:
    """Return the ids of the schemas that refer to a version; with ``deleted``, including soft-deleted schemas."""
    deleted = request.flag("deleted")
    ids = find_referrer_ids(subjects_of(view, request), view, _find_version(view, request), deleted=deleted)
    return answer(list(page(ids, request)))


def show_schema(view: View, request: ConfluentRequest) -> Response:
    """Return a schema by its id."""
    version = _find_by_id(view, request)
    body = _render_content(version, subjects_of(view, request), request)
    if "subject" in request.query or request.context != ".":
        body |= {"subject": str(version.subject), "version": version.version}
    if request.flag("fetchMaxId"):
        body["maxId"] = view.confluent.highest(_find_group(view, request))
    return answer(body)


def _render_content(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return the schema of a version as it is shown without its subject."""
    return {**version.content(), **_format_members(version, subjects, request), "deleted": version.xid is None}


def show_schema_text(view: View, request: ConfluentRequest) -> Response:
    """Return only the schema with an id."""
    return raw(text(_find_by_id(view, request), subjects_of(view, request), request))


def _find_by_id(view: View, request: ConfluentRequest) -> SchemaVersion:
    versions = _with_id(view, request)
    if not versions:
        raise schema_id_not_found(request.names[0])
    return versions[0]


def _with_id(view: View, request: ConfluentRequest) -> list[SchemaVersion]:
    """Return the versions with the id in the path, in the context and of the subject that the query names.

    If the subject is named without a context and does not have the id, the subjects of that name in other contexts are
    searched. If none of these has the id, either, return the versions that other subjects of the context have.
    """
    subjects = subjects_of(view, request)
    number = request.names[0]
    if not number.isascii() or not number.isdigit() or len(number) > len(str(2**31)):
        raise ConfluentError(404, "HTTP 404 Not Found")
    requested = subjects.parse(request.query.get("subject", ""), request.context)
    versions = subjects.with_id(requested.context, int(number))
    own_versions = [version for version in versions if version.subject == requested]
    if own_versions or not requested.name:
        return own_versions or versions
    for subject in subjects.namesakes(requested, deleted=not versions):
        namesake_versions = [
            version for version in subjects.with_id(subject.context, int(number)) if version.subject == subject
        ]
        if namesake_versions:
            return namesake_versions
    return versions


def _find_group(view: View, request: ConfluentRequest) -> str:
    group = subjects_of(view, request).group(request.context)
    return "" if group is None else group.id.lower()


def list_subjects_with_id(view: View, request: ConfluentRequest) -> Response:
    """Return the subjects that have the schema with the id in the path."""
    versions = _require_versions(view, request)
    return answer(list(page(dict.fromkeys(str(version.subject) for version in versions), request)))


def list_versions_with_id(view: View, request: ConfluentRequest) -> Response:
    """Return the versions that have the schema with the id in the path."""
    entries: list[JSON] = [
        {"subject": str(version.subject), "version": version.version} for version in _require_versions(view, request)
    ]
    return answer(list(page(entries, request)))


def _require_versions(view: View, request: ConfluentRequest) -> list[SchemaVersion]:
    versions = _with_id(view, request)
    if not versions:
        raise schema_id_not_found(request.names[0])
    return [version for version in versions if version.xid is not None or request.flag("deleted")]


def show_guid(view: View, request: ConfluentRequest) -> Response:
    """Return a schema by its guid."""
    subjects = subjects_of(view, request)
    for context, number in _find_places(view, request):
        versions = subjects.with_id(context, number, 1)
        if versions:
            return answer(_render_content(versions[0], subjects, request))
    raise schema_not_found()


def list_ids_of_guid(view: View, request: ConfluentRequest) -> Response:
    """Return the ids that the schema with a guid has in each context."""
    ids: list[JSON] = [{"context": context, "id": number} for context, number in _find_places(view, request)]
    if not ids:
        raise schema_not_found()
    return answer(ids)


def _find_places(view: View, request: ConfluentRequest) -> Iterator[tuple[str, int]]:
    beginning = content_beginning(request.names[0])
    subjects = subjects_of(view, request)
    groups = {context: subjects.group(context) for context in subjects.contexts()}
    by_group = {group.id.lower(): context for context, group in groups.items() if group is not None}
    for name, number in view.confluent.places(beginning) if beginning else ():
        if name in by_group and subjects.may_show(by_group[name], number):
            yield by_group[name], number


def find_latest_with_metadata(view: View, request: ConfluentRequest) -> Response:
    """Return the latest version of a subject with these properties."""
    subjects = subjects_of(view, request)
    subject = require_subject(subjects, request)
    names = [value for name, value in request.pairs if name in ("key", "key[]")]
    values = [value for name, value in request.pairs if name in ("value", "value[]")]
    requested = dict(zip(names, values, strict=False))
    for version in reversed(subjects.require_versions(subject, deleted=request.flag("deleted"))):
        stated = properties(version.attributes.get("metadata"))
        if all(stated.get(name) == value for name, value in requested.items()):
            return answer(render_version(version, subjects, request))
    raise subject_not_found(subject)


def show_cluster(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return the identity of the registry."""
    return answer({"id": "", "scope": {"path": [], "clusters": {"schema-registry-cluster": "signalbook"}}})


def release(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return the name and version of the program."""
    return answer({"version": f"signalbook-{version_of_package('signalbook')}", "commitId": ""})


def show_deployment(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return an empty description of the deployment."""
    return answer({"attributes": []})
