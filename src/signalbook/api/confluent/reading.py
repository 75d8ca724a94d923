"""What only reads: subjects, versions, schemas by id and guid, contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from importlib.metadata import version as version_of_package
from itertools import islice
from typing import Final, TypeVar

from signalbook.api.confluent.references import referrers
from signalbook.api.confluent.requests import ConfluentRequest, answer, raw
from signalbook.api.confluent.resolution import inline_referenced_types, serialize
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
    """The subjects that a request may see."""
    return Subjects(view, request.settings.confluent_group)


def requested_subject(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the subject that the path names."""
    return subjects.parse(request.names[0], request.context)


def subject_of(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the subject that the path names, or the one that it is an alias of."""
    requested = requested_subject(subjects, request)
    alias = subjects.alias(requested)
    return subjects.parse(alias, requested.context) if alias else requested


def existing_subject(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return the same for reads. Raises 40401, with the name in the path, for an alias that leads nowhere.

    An alias of a subject that the caller cannot read leads nowhere, too, and the answer does not name that subject.
    """
    requested, subject = requested_subject(subjects, request), subject_of(subjects, request)
    if subject != requested and subjects.schema(subject) is None and not subjects.deleted(subject):
        raise subject_not_found(requested)
    return subject


def place_of(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """Return what settings are of: a subject, or without a name a context or the registry. Raises 42208."""
    found = requested_subject(subjects, request) if request.names else Subject(request.context, "")
    if subjects.group(found.context) is None or (found.name and not list_schema_xids(found, subjects.default_group)):
        raise invalid_subject(found)
    return found


def page(found: Iterable[T], request: ConfluentRequest, limit: int = -1) -> list[T]:
    """The part of a list that a request asks for."""
    first, last = request.page(limit)
    return list(islice(found, first, last))


def liveness(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return ``{}``: the API is there."""
    return answer({})


def types(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """The types of schemas."""
    return answer(["JSON", "PROTOBUF", "AVRO"])


def contexts(view: View, request: ConfluentRequest) -> Response:
    """The contexts, those that begin as a parameter says."""
    prefix = request.query.get("contextPrefix", "")
    found = (each for each in subjects_of(view, request).contexts() if each.startswith(prefix))
    return answer(list(page(found, request)))


def list_versions(view: View, request: ConfluentRequest) -> Response:
    """The numbers of a subject's versions."""
    subjects = subjects_of(view, request)
    subject = existing_subject(subjects, request)
    negative = request.flag("deletedAsNegative")
    found = subjects.known(subject, deleted=negative or request.flag("deleted") or request.flag("deletedOnly"))
    if request.flag("deletedOnly"):
        found = [each for each in found if each.xid is None]
    numbers = [-each.version if negative and each.xid is None else each.version for each in found]
    return answer(list(page(numbers, request)))


def show_version(view: View, request: ConfluentRequest) -> Response:
    """A version of a subject."""
    return answer(shown(version_anywhere(view, request), subjects_of(view, request), request))


def show_version_text(view: View, request: ConfluentRequest) -> Response:
    """Return only the schema of a version."""
    return raw(text(version_anywhere(view, request), subjects_of(view, request), request))


def version_anywhere(view: View, request: ConfluentRequest) -> SchemaVersion:
    """Return the version that the path names, or that of a subject with this name in another context."""
    try:
        return _version(view, request)
    except ConfluentError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        subjects, deleted = subjects_of(view, request), request.flag("deleted")
        for subject in subjects.namesakes(subject_of(subjects, request), deleted=deleted):
            with suppress(ConfluentError):
                return subjects.version(subject, request.names[1], deleted=deleted)
        raise


def _version(view: View, request: ConfluentRequest) -> SchemaVersion:
    subjects = subjects_of(view, request)
    return subjects.version(existing_subject(subjects, request), request.names[1], deleted=request.flag("deleted"))


def shown(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """A version, with its schema, references and tags in the form that the request asks for."""
    return {**version.to_json(), **_formatted(version, subjects, request)}


def _formatted(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return the members of a version that depend on ``format``, ``referenceFormat`` and ``findTags``.

    Raises 422 for an unknown ``referenceFormat``.
    """
    found: JSONObject = {"schema": text(version, subjects, request)}
    if request.query.get("referenceFormat"):
        if request.query["referenceFormat"] != _QUALIFIED:
            asked = request.query["referenceFormat"][:40]
            raise unprocessable(f"no such format of references: '{asked}'; there is {_QUALIFIED}")
        references = qualified_references(version, subjects)
        found |= {"references": references} if references else {}
    wanted = {value for name, value in request.pairs if name == "findTags"}
    if wanted:
        tags = list_tags(version.text, version.type)
        found["schemaTags"] = [each.to_json() for each in tags if _ANY_TAG in wanted or wanted.intersection(each.tags)]
    return found


def qualified_references(version: SchemaVersion, subjects: Subjects) -> list[JSON]:
    """Return the references of a version with the contexts of their subjects: its own, unless they name another one."""
    references = read_stored_references(version.attributes)
    names = [str(subjects.parse(reference.subject, version.subject.context)) for reference in references]
    return [{**reference.to_json(), "subject": name} for reference, name in zip(references, names, strict=True)]


def text(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> str:
    """Return the schema of a version in the ``format`` of the query, or as it is if the format is unknown."""
    wanted = request.query.get("format", "")
    match version.type, wanted:
        case "AVRO", "resolved":
            return inline_referenced_types(subjects, version)
        case "PROTOBUF", "serialized":
            return serialize(subjects, version)
        case "PROTOBUF", "ignore_extensions":
            return remove_custom_options(version.text, extensions=True)
    return version.text


def referenced_by(view: View, request: ConfluentRequest) -> Response:
    """Answer the ids of the schemas that refer to a version, with ``deleted`` also those softly deleted."""
    deleted = request.flag("deleted")
    found = referrers(subjects_of(view, request), view, _version(view, request), deleted=deleted)
    return answer(list(page(found, request)))


def show_schema(view: View, request: ConfluentRequest) -> Response:
    """A schema by its id."""
    found = _by_id(view, request)
    body = _content(found, subjects_of(view, request), request)
    if "subject" in request.query or request.context != ".":
        body |= {"subject": str(found.subject), "version": found.version}
    if request.flag("fetchMaxId"):
        body["maxId"] = view.confluent.highest(_group(view, request))
    return answer(body)


def _content(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """Return the schema that a version has, as it is shown without the subject."""
    return {**version.content(), **_formatted(version, subjects, request), "deleted": version.xid is None}


def show_schema_text(view: View, request: ConfluentRequest) -> Response:
    """Return only the schema with an id."""
    return raw(text(_by_id(view, request), subjects_of(view, request), request))


def _by_id(view: View, request: ConfluentRequest) -> SchemaVersion:
    found = _with_id(view, request)
    if not found:
        raise schema_id_not_found(request.names[0])
    return found[0]


def _with_id(view: View, request: ConfluentRequest) -> list[SchemaVersion]:
    """The versions with the id in the path: in the context, and of the subject, that the query names.

    A subject without a context that does not have the id is looked for in the other contexts as well.
    """
    subjects = subjects_of(view, request)
    number = request.names[0]
    if not number.isascii() or not number.isdigit() or len(number) > len(str(2**31)):
        raise ConfluentError(404, "HTTP 404 Not Found")
    wanted = subjects.parse(request.query.get("subject", ""), request.context)
    found = subjects.with_id(wanted.context, int(number))
    own = [each for each in found if each.subject == wanted]
    if own or not wanted.name:
        return own or found
    for subject in subjects.namesakes(wanted, deleted=not found):
        others = [each for each in subjects.with_id(subject.context, int(number)) if each.subject == subject]
        if others:
            return others
    return found


def _group(view: View, request: ConfluentRequest) -> str:
    group = subjects_of(view, request).group(request.context)
    return "" if group is None else group.id.lower()


def subjects_with_id(view: View, request: ConfluentRequest) -> Response:
    """The subjects that have a schema."""
    found = _named(view, request)
    return answer(list(page(dict.fromkeys(str(each.subject) for each in found), request)))


def versions_with_id(view: View, request: ConfluentRequest) -> Response:
    """The versions that have a schema."""
    found: list[JSON] = [{"subject": str(each.subject), "version": each.version} for each in _named(view, request)]
    return answer(list(page(found, request)))


def _named(view: View, request: ConfluentRequest) -> list[SchemaVersion]:
    found = _with_id(view, request)
    if not found:
        raise schema_id_not_found(request.names[0])
    return [each for each in found if each.xid is not None or request.flag("deleted")]


def show_guid(view: View, request: ConfluentRequest) -> Response:
    """A schema by its guid."""
    subjects = subjects_of(view, request)
    for context, number in _places(view, request):
        found = subjects.with_id(context, number, 1)
        if found:
            return answer(_content(found[0], subjects, request))
    raise schema_not_found()


def ids_of_guid(view: View, request: ConfluentRequest) -> Response:
    """The ids that it has in contexts."""
    found: list[JSON] = [{"context": context, "id": number} for context, number in _places(view, request)]
    if not found:
        raise schema_not_found()
    return answer(found)


def _places(view: View, request: ConfluentRequest) -> Iterator[tuple[str, int]]:
    beginning = content_beginning(request.names[0])
    subjects = subjects_of(view, request)
    known = {context: subjects.group(context) for context in subjects.contexts()}
    by_group = {group.id.lower(): context for context, group in known.items() if group is not None}
    for name, number in view.confluent.places(beginning) if beginning else ():
        if name in by_group and subjects.may_show(by_group[name], number):
            yield by_group[name], number


def latest_with_metadata(view: View, request: ConfluentRequest) -> Response:
    """The latest version of a subject with these properties."""
    subjects = subjects_of(view, request)
    subject = existing_subject(subjects, request)
    names = [value for name, value in request.pairs if name in ("key", "key[]")]
    values = [value for name, value in request.pairs if name in ("value", "value[]")]
    wanted = dict(zip(names, values, strict=False))
    for version in reversed(subjects.known(subject, deleted=request.flag("deleted"))):
        stated = properties(version.attributes.get("metadata"))
        if all(stated.get(name) == value for name, value in wanted.items()):
            return answer(shown(version, subjects, request))
    raise subject_not_found(subject)


def cluster(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return the identity of the registry."""
    return answer({"id": "", "scope": {"path": [], "clusters": {"schema-registry-cluster": "signalbook"}}})


def release(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return the name and version of the program."""
    return answer({"version": f"signalbook-{version_of_package('signalbook')}", "commitId": ""})


def deployment(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Return an empty description of the deployment."""
    return answer({"attributes": []})
