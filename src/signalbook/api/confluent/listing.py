"""Lists of subjects and of schemas, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from signalbook.api.confluent.associations import read_choice, stored
from signalbook.api.confluent.queries import page, render_version, subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.api.kernel.responses import Response
from signalbook.batches import batched
from signalbook.confluent.associations import LIFECYCLES, Association
from signalbook.confluent.errors import invalid_association
from signalbook.confluent.metadata import list_rule_types
from signalbook.confluent.naming import ALL_CONTEXTS, DEFAULT_CONTEXT, Subject
from signalbook.engine.read.view import View
from signalbook.storage.base import Row
from signalbook.values import JSON, JSONObject

_MOST_SCHEMAS: Final = 1000
_AT_ONCE: Final = 100
"""The number of subjects whose versions are read together."""
_NO_LIFECYCLE: Final = "NONE"
"""The parameter value that selects subjects without associations."""
Associated: TypeAlias = Callable[[str], list[Association] | None]
"""A function that returns the selected associations of a subject, or None if the subject is not to be listed."""
Aliases: TypeAlias = dict[Subject, list[Subject]]
T = TypeVar("T", SchemaVersion, Row)


def list_subjects(view: View, request: ConfluentRequest) -> Response:
    """Return the subjects whose names begin with the requested prefix, in the context of the prefix or of the path.

    All contexts are listed if the prefix begins with ``ALL_CONTEXTS``, or if the request has neither prefix nor
    context.
    """
    subjects = subjects_of(view, request)
    default = ALL_CONTEXTS if request.path.context is None else ""
    contexts, beginning = _read_prefix(subjects, request, default)
    if beginning or _with_deleted(request):
        matching = _list_matching(subjects, contexts, beginning, request)
        return answer([str(subject) for subject in page(matching, request)])
    first, last = request.page()
    names: list[JSON] = []
    for context in contexts:
        some = [str(subject) for subject in subjects.names(context, offset=first, limit=last - first)]
        names += some
        # If the page begins after all subjects of this context, count them to know how many were skipped.
        passed = first + len(some) if some or not first else subjects.count(context)
        first, last = max(first - passed, 0), last - passed
        if last <= 0:
            break
    return answer(names)


def _read_prefix(subjects: Subjects, request: ConfluentRequest, default: str = "") -> tuple[tuple[str, ...], str]:
    """Return the contexts that a request selects, and the prefix of their subjects' names.

    ``default`` is the prefix if the request states none.
    """
    prefix = request.query.get("subjectPrefix", default)
    start = subjects.parse(prefix.removeprefix(ALL_CONTEXTS), request.context)
    if not prefix.startswith(ALL_CONTEXTS):
        return (start.context,), start.name
    default_context, *other_contexts = subjects.contexts()
    return (*other_contexts, default_context), start.name  # names with a context come first, as in Confluent's lists


def _with_deleted(request: ConfluentRequest) -> bool:
    return request.flag("deleted") or request.flag("deletedOnly")


def _list_matching(
    subjects: Subjects, contexts: Iterable[str], beginning: str, request: ConfluentRequest
) -> Iterator[Subject]:
    for context in contexts:
        yield from _choose_names(subjects, context, beginning, request)


def _choose_names(subjects: Subjects, context: str, beginning: str, request: ConfluentRequest) -> Iterator[Subject]:
    if not _with_deleted(request):
        return subjects.names(context, beginning)
    live = dict.fromkeys(subjects.names(context, beginning))
    soft = dict.fromkeys(subject for subject in subjects.deleted_names(context) if subject.name.startswith(beginning))
    if request.flag("deletedOnly"):
        return (subject for subject in soft if subject not in live)
    return iter(live | soft)


def list_schemas(view: View, request: ConfluentRequest) -> Response:
    """Return versions of subjects whose names, or with ``aliases`` whose aliases, begin with the requested prefix.

    Unlike ``list_subjects`` it lists only the default context if the request names none, as Confluent does.
    """
    subjects = subjects_of(view, request)
    aliases = _read_aliases(view, subjects) if request.flag("aliases") else {}
    associated = _list_associated(view, request)
    contexts, beginning = _read_prefix(subjects, request)
    names: Iterator[Subject] = chain(
        _list_matching(subjects, contexts, beginning, request), _list_aliases(aliases, set(contexts), beginning)
    )
    if associated is not None:
        names = (subject for subject in names if associated(str(subject)) is not None)
    if request.flag("deleted"):
        every = (subjects.all(subject) for subject in names)
        versions = page(_select_versions(every, request), request, _MOST_SCHEMAS)
    else:
        # Read documents only for the versions that are shown.
        versions = subjects.load_versions(
            page(_select_versions(_load_live(subjects, names), request), request, _MOST_SCHEMAS)
        )
    return answer([_render_listed(version, subjects, request, associated, aliases) for version in versions])


def _read_aliases(view: View, subjects: Subjects) -> Aliases:
    """Return the readable aliases of each readable subject."""
    aliases: Aliases = {}
    # The contexts in scopes are in lower case.
    contexts = {context.lower(): context for context in subjects.contexts()}

    def parse(text: str, context: str) -> Subject:
        subject = subjects.parse(text, context)
        return replace(subject, context=contexts.get(subject.context.lower(), subject.context))

    after = ""
    while settings := view.confluent.settings("config", after, _MOST_SCHEMAS):
        for scope, config in settings.items():
            name = config.get("alias")
            if not isinstance(name, str) or not name:
                continue
            alias = parse(scope, DEFAULT_CONTEXT)
            target = parse(name, alias.context)
            if alias.name and subjects.is_readable(alias) and subjects.is_readable(target):
                aliases.setdefault(target, []).append(alias)
        after = next(reversed(settings))
    return aliases


def _list_aliases(aliases: Aliases, contexts: set[str], beginning: str) -> Iterator[Subject]:
    """Yield the subjects that match only by one of their aliases."""

    def is_match(subject: Subject) -> bool:
        return subject.context in contexts and subject.name.startswith(beginning)

    return (target for target, names in aliases.items() if not is_match(target) and any(map(is_match, names)))


def _render_listed(
    version: SchemaVersion,
    subjects: Subjects,
    request: ConfluentRequest,
    associated: Associated | None,
    aliases: Aliases,
) -> JSONObject:
    rendered = render_version(version, subjects, request)
    if version.subject in aliases:
        rendered["aliases"] = [str(alias) for alias in aliases[version.subject]]
    beside = associated(str(version.subject)) if associated is not None else None
    return {**rendered, "associations": [association.to_json() for association in beside]} if beside else rendered


def _list_associated(view: View, request: ConfluentRequest) -> Associated | None:
    """Return the function that selects subjects by their associations, or None if the request does not select by them.

    For a request for subjects without associations, the selected associations are empty. Raises 42212.
    """
    lifecycles = {value for name, value in request.pairs if name == "lifecycle" and value}
    association_filter = read_choice(request, lifecycle="")
    if lifecycles - {*LIFECYCLES, _NO_LIFECYCLE}:
        raise invalid_association("lifecycle", f"must be {', '.join(LIFECYCLES)} or {_NO_LIFECYCLE}")
    if not (lifecycles or association_filter.types or association_filter.resource):
        return None
    by_subject: dict[str, list[Association]] = {}
    for association in filter(association_filter, stored(view, "subject")):
        by_subject.setdefault(association.subject, []).append(association)

    def of(subject: str) -> list[Association] | None:
        there = by_subject.get(subject, [])
        chosen = [association for association in there if not lifecycles or association.lifecycle in lifecycles]
        without = not there and _NO_LIFECYCLE in lifecycles
        return chosen if chosen or without else None

    return of


def _load_live(subjects: Subjects, names: Iterator[Subject]) -> Iterator[list[Row]]:
    for some in batched(names, _AT_ONCE):
        yield from subjects.load_live_rows(some)


def _select_versions(versions: Iterable[list[T]], request: ConfluentRequest) -> Iterator[T]:
    """Yield the requested versions of each subject."""
    kind = request.query.get("ruleType", "")
    for subject_versions in versions:
        for version in subject_versions[-1:] if request.flag("latestOnly") else subject_versions:
            if not kind or kind in list_rule_types(version.attributes.get("ruleset")):
                yield version
