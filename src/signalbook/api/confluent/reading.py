"""What only reads: subjects, versions, schemas by id and guid, contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version as version_of_package
from itertools import islice
from typing import Final, TypeVar

from signalbook.api.confluent.references import referrers
from signalbook.api.confluent.requests import ConfluentRequest, answer, raw
from signalbook.api.confluent.subjects import SchemaVersion, Subjects
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import (
    ConfluentError,
    schema_id_not_found,
    schema_not_found,
    subject_not_found,
    unprocessable,
)
from signalbook.confluent.naming import ALL_CONTEXTS, Subject
from signalbook.confluent.schemas import content_beginning, properties
from signalbook.engine.read.view import View
from signalbook.storage.base import Row
from signalbook.values import JSON, JSONObject

_MOST_SCHEMAS: Final = 1000
_AT_ONCE: Final = 100
"""Subjects whose versions are asked for together."""
T = TypeVar("T")


def subjects_of(view: View, request: ConfluentRequest) -> Subjects:
    """The subjects that a request may see."""
    return Subjects(view, request.settings.confluent_group)


def subject_of(subjects: Subjects, request: ConfluentRequest) -> Subject:
    """The subject that the path names, or the one that its alias is of."""
    found = subjects.parse(request.names[0], request.context)
    alias = subjects.alias(found)
    return subjects.parse(alias, found.context) if alias else found


def page(found: Iterable[T], request: ConfluentRequest, limit: int = -1) -> list[T]:
    """The part of a list that a request asks for."""
    first, last = request.page(limit)
    return list(islice(found, first, last))


def liveness(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """``{}``: it is there."""
    return answer({})


def types(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """The types of schemas."""
    return answer(["JSON", "PROTOBUF", "AVRO"])


def contexts(view: View, request: ConfluentRequest) -> Response:
    """The contexts, those that begin as a parameter says."""
    prefix = request.query.get("contextPrefix", "")
    found = (each for each in subjects_of(view, request).contexts() if each.startswith(prefix))
    return answer(list(page(found, request)))


def list_subjects(view: View, request: ConfluentRequest) -> Response:
    """The subjects whose names begin as a parameter says, of all contexts unless it names one."""
    subjects = subjects_of(view, request)
    contexts, beginning = _asked_for(subjects, request)
    if beginning or _with_deleted(request):
        return answer([str(each) for each in page(_subjects(subjects, request), request)])
    first, last = request.page()
    found: list[JSON] = []
    for context in contexts:
        some = [str(each) for each in subjects.names(context, offset=first, limit=last - first)]
        found += some
        # What is passed over is counted where nothing is left of it alone.
        passed = first + len(some) if some or not first else subjects.count(context)
        first, last = max(first - passed, 0), last - passed
        if last <= 0:
            break
    return answer(found)


def _asked_for(subjects: Subjects, request: ConfluentRequest) -> tuple[Iterable[str], str]:
    """The contexts that a request asks for, and how the names of their subjects begin."""
    prefix = request.query.get("subjectPrefix", ALL_CONTEXTS if request.context == "." else "")
    start = subjects.parse(prefix.removeprefix(ALL_CONTEXTS), request.context)
    return subjects.contexts() if prefix.startswith(ALL_CONTEXTS) else (start.context,), start.name


def _with_deleted(request: ConfluentRequest) -> bool:
    return request.flag("deleted") or request.flag("deletedOnly")


def _subjects(subjects: Subjects, request: ConfluentRequest) -> Iterator[Subject]:
    contexts, beginning = _asked_for(subjects, request)
    for context in contexts:
        yield from _chosen(subjects, context, beginning, request)


def _chosen(subjects: Subjects, context: str, beginning: str, request: ConfluentRequest) -> Iterator[Subject]:
    if not _with_deleted(request):
        return subjects.names(context, beginning)
    live = dict.fromkeys(subjects.names(context, beginning))
    soft = dict.fromkeys(each for each in subjects.deleted_names(context) if each.name.startswith(beginning))
    if request.flag("deletedOnly"):
        return (each for each in soft if each not in live)
    return iter(live | soft)


def list_versions(view: View, request: ConfluentRequest) -> Response:
    """The numbers of a subject's versions."""
    subjects = subjects_of(view, request)
    subject = subject_of(subjects, request)
    negative = request.flag("deletedAsNegative")
    found = subjects.known(subject, deleted=negative or request.flag("deleted") or request.flag("deletedOnly"))
    if request.flag("deletedOnly"):
        found = [each for each in found if each.xid is None]
    numbers = [-each.version if negative and each.xid is None else each.version for each in found]
    return answer(list(page(numbers, request)))


def show_version(view: View, request: ConfluentRequest) -> Response:
    """A version of a subject."""
    return answer(shown(_version(view, request), subjects_of(view, request), request))


def show_version_text(view: View, request: ConfluentRequest) -> Response:
    """Its schema, and nothing else."""
    return raw(text(_version(view, request), subjects_of(view, request), request))


def _version(view: View, request: ConfluentRequest) -> SchemaVersion:
    subjects = subjects_of(view, request)
    return subjects.version(subject_of(subjects, request), request.names[1], deleted=request.flag("deleted"))


def shown(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> JSONObject:
    """A version, with its schema in the form that the request asks for."""
    return {**version.to_json(), "schema": text(version, subjects, request)}


def text(version: SchemaVersion, subjects: Subjects, request: ConfluentRequest) -> str:
    """The schema of a version, by ``format`` of the query. Raises 422 for one that is not known."""
    wanted = request.query.get("format", "")
    if wanted in ("", "ignore_extensions"):
        return version.text
    if wanted == "resolved" and version.type == "AVRO":
        return subjects.resolved(version)
    if wanted in ("resolved", "serialized"):
        return subjects.serialized(version) if version.type == "PROTOBUF" and wanted == "serialized" else version.text
    raise unprocessable(
        f"no such format of schemas: '{wanted[:40]}'; there are resolved, serialized, ignore_extensions"
    )


def referenced_by(view: View, request: ConfluentRequest) -> Response:
    """The ids of the schemas that refer to a version."""
    return answer(list(page(referrers(view, _version(view, request)), request)))


def show_schema(view: View, request: ConfluentRequest) -> Response:
    """A schema by its id; it stays what it is."""
    found = _by_id(view, request)
    body: JSONObject = {**found.content(), "schema": text(found, subjects_of(view, request), request)}
    if "subject" in request.query or request.context != ".":
        body |= {"subject": str(found.subject), "version": found.version}
    if request.flag("fetchMaxId"):
        body["maxId"] = view.schemaids.highest(_group(view, request))
    return answer(body, immutable=True)


def show_schema_text(view: View, request: ConfluentRequest) -> Response:
    """Its schema, and nothing else."""
    return raw(text(_by_id(view, request), subjects_of(view, request), request))


def _by_id(view: View, request: ConfluentRequest) -> SchemaVersion:
    found = _with_id(view, request)
    if not found:
        raise schema_id_not_found(request.names[0])
    return found[0]


def _with_id(view: View, request: ConfluentRequest) -> list[SchemaVersion]:
    """The versions with the id in the path: in the context, and of the subject, that the query names."""
    subjects = subjects_of(view, request)
    number = request.names[0]
    if not number.isascii() or not number.isdigit() or len(number) > len(str(2**31)):
        raise ConfluentError(404, "HTTP 404 Not Found")
    wanted = subjects.parse(request.query.get("subject", ""), request.context)
    found = subjects.with_id(wanted.context, int(number))
    return [each for each in found if each.subject == wanted] or found if wanted.name else found


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
            return answer({**found[0].content(), "schema": text(found[0], subjects, request)}, immutable=True)
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
    for name, number in view.schemaids.places(beginning) if beginning else ():
        if name in by_group:
            yield by_group[name], number


def list_schemas(view: View, request: ConfluentRequest) -> Response:
    """Versions of subjects whose names begin as a parameter says."""
    subjects = subjects_of(view, request)
    if request.flag("deleted"):
        every = (subjects.all(each) for each in _subjects(subjects, request))
        found = page(_wanted(every, request), request, _MOST_SCHEMAS)
    else:
        # Documents of those alone that are shown.
        found = subjects.shown(page(_wanted(_live(subjects, request), request), request, _MOST_SCHEMAS))
    return answer([shown(each, subjects, request) for each in found])


def _live(subjects: Subjects, request: ConfluentRequest) -> Iterator[list[Row]]:
    names = _subjects(subjects, request)
    while some := list(islice(names, _AT_ONCE)):
        yield from subjects.live_of(some)


def _wanted(versions: Iterable[list[T]], request: ConfluentRequest) -> Iterator[T]:
    """Those of each subject that a request asks for, out of all."""
    for each in versions:
        yield from each[-1:] if request.flag("latestOnly") else each


def latest_with_metadata(view: View, request: ConfluentRequest) -> Response:
    """The latest version of a subject with these properties."""
    subjects = subjects_of(view, request)
    subject = subject_of(subjects, request)
    names = [value for name, value in request.pairs if name in ("key", "key[]")]
    values = [value for name, value in request.pairs if name in ("value", "value[]")]
    wanted = dict(zip(names, values, strict=False))
    for version in reversed(subjects.known(subject, deleted=request.flag("deleted"))):
        stated = properties(version.attributes.get("metadata"))
        if all(stated.get(name) == value for name, value in wanted.items()):
            return answer(shown(version, subjects, request))
    raise subject_not_found(subject)


def cluster(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Which registry this is."""
    return answer({"id": "", "scope": {"path": [], "clusters": {"schema-registry-cluster": "signalbook"}}})


def release(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Which program this is."""
    return answer({"version": f"signalbook-{version_of_package('signalbook')}", "commitId": ""})


def deployment(view: View, request: ConfluentRequest) -> Response:  # noqa: ARG001
    """Nothing is said of it."""
    return answer({"attributes": []})
