"""Config and modes of the registry, of contexts and of subjects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.access.base import Action
from signalbook.api.confluent.reading import subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import (
    config_not_found,
    invalid_mode,
    invalid_subject,
    mode_not_found,
    not_permitted,
    subject_not_found,
)
from signalbook.confluent.naming import DEFAULT_CONTEXT, Subject, is_subject, parse_subject
from signalbook.confluent.settings import (
    CONFIG_FIELDS,
    DEFAULT_LEVEL,
    DEFAULT_MODE,
    config_of,
    effective,
    effective_mode,
    mode_of,
    scope_of,
    shown_config,
)
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.storage.schemaids import SettingKind
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

_LEVEL: Final = "compatibilityLevel"
_PAGE: Final = 1000


def place_of(view: View, request: ConfluentRequest) -> Subject:
    """What a request sets or asks for: a subject, or without a name a context or the registry. Raises 42208."""
    subjects = subjects_of(view, request)
    found = subjects.parse(request.names[0], request.context) if request.names else Subject(request.context, "")
    if subjects.group(found.context) is None or (found.name and not is_subject(found.name)):
        raise invalid_subject(found)
    return found


def show_config(view: View, request: ConfluentRequest) -> Response:
    """What is set there; of the registry, or if it is asked for, what holds there."""
    place = place_of(view, request)
    if not _is_readable(view, request, place):
        raise config_not_found(place)
    stored = view.schemaids.setting("config", scope_of(place))
    if request.flag("defaultToGlobal") or place == Subject(DEFAULT_CONTEXT, ""):
        return answer(shown_config(effective(lambda scope: view.schemaids.setting("config", scope), place)))
    if stored is None:
        raise config_not_found(place)
    return answer(shown_config({**stored, _LEVEL: stored.get(_LEVEL, DEFAULT_LEVEL)}))


def put_config(session: Session, request: ConfluentRequest) -> Response:
    """Set fields; those that a request leaves out stay."""
    place = place_of(session.view, request)
    check_rights(session.view, request, place)
    body = request.json(CONFIG_FIELDS)
    given = config_of(body)
    if given.get("alias"):
        subjects_of(session.view, request).parse(given["alias"], place.context)
    ids, scope = session.transaction.schemaids, scope_of(place)
    kept = {**(ids.setting("config", scope) or {}), **given}
    ids.put_setting("config", scope, {name: value for name, value in kept.items() if value is not None})
    shown = {name: value for name, value in given.items() if name != _LEVEL and value is not None}
    level: JSONObject = {"compatibility": given[_LEVEL]} if _LEVEL in given else {}
    return answer({**level, **shown})


def delete_config(session: Session, request: ConfluentRequest) -> Response:
    """Take away what is set there; answers what was."""
    place = place_of(session.view, request)
    check_rights(session.view, request, place)
    before = _taken(session, "config", place)
    if before is None and place.name:
        raise subject_not_found(place)
    return answer(shown_config({_LEVEL: DEFAULT_LEVEL, **(before or {})}))


def show_mode(view: View, request: ConfluentRequest) -> Response:
    """The mode that is set there; of the registry, or if it is asked for, the one that holds."""
    place = place_of(view, request)
    if not _is_readable(view, request, place):
        raise mode_not_found(place)
    stored = view.schemaids.setting("mode", scope_of(place))
    if request.flag("defaultToGlobal") or place == Subject(DEFAULT_CONTEXT, ""):
        return answer({"mode": effective_mode(lambda scope: view.schemaids.setting("mode", scope), place)})
    if stored is None:
        raise mode_not_found(place)
    return answer(stored)


def put_mode(session: Session, request: ConfluentRequest) -> Response:
    """Set the mode. Into IMPORT goes only what has no schemas, unless it is forced."""
    place = place_of(session.view, request)
    check_rights(session.view, request, place)
    mode = mode_of(request.json(frozenset({"mode"})))
    if mode == "FORWARD" and place != Subject(DEFAULT_CONTEXT, ""):
        raise invalid_mode(mode)
    if mode == "IMPORT" and not request.flag("force") and _has_schemas(session.view, request, place):
        raise not_permitted(f"Cannot import since found existing subjects{f' {place}' if place.name else ''}")
    session.transaction.schemaids.put_setting("mode", scope_of(place), {"mode": mode})
    return answer({"mode": mode})


def delete_mode(session: Session, request: ConfluentRequest) -> Response:
    """Take the mode away, if it is asked for also those of all subjects there; answers what it was."""
    place = place_of(session.view, request)
    check_rights(session.view, request, place)
    before = _taken(session, "mode", place)
    if request.flag("recursive") and not place.name:
        ids, beginning = session.transaction.schemaids, scope_of(place)
        for scope in [each for each in _scopes(session, "mode") if each.startswith(beginning)]:
            check_rights(session.view, request, parse_subject(scope))
            ids.put_setting("mode", scope, None)
    if before is None and place.name:
        raise mode_not_found(place)
    return answer(before or {"mode": DEFAULT_MODE})


def _scopes(session: Session, kind: SettingKind) -> Iterator[str]:
    after = ""
    while found := session.transaction.schemaids.settings(kind, after, _PAGE):
        yield from found
        after = next(reversed(found))


def _taken(session: Session, kind: SettingKind, place: Subject) -> JSONObject | None:
    ids, scope = session.transaction.schemaids, scope_of(place)
    before = ids.setting(kind, scope)
    if before is not None:
        ids.put_setting(kind, scope, None)
    return before


def _has_schemas(view: View, request: ConfluentRequest, place: Subject) -> bool:
    subjects = subjects_of(view, request)
    if place.name:
        return bool(subjects.live(place))
    return next(subjects.names(place.context), None) is not None


def _is_readable(view: View, request: ConfluentRequest, place: Subject) -> bool:
    """Whether whoever asks may read what the settings are of; those of the registry, if he may read anything."""
    subjects = subjects_of(view, request)
    if place.name:
        schema = subjects.new_schema(place)
        return schema is not None and view.access.readable(schema)
    group = subjects.group(place.context)
    if place.context == DEFAULT_CONTEXT or group is None:
        return view.access.somewhere(Action.READ)
    return view.access.readable(group)


def check_rights(view: View, request: ConfluentRequest, place: Subject) -> None:
    """Raise ``Forbidden`` unless what is set for could be written: a schema, a group, or the registry."""
    subjects = subjects_of(view, request)
    group = subjects.group(place.context)
    target: Xid = ROOT
    if place.name:
        target = subjects.new_schema(place) or ROOT
    elif place.context != DEFAULT_CONTEXT and group is not None:
        target = group
    request.access.require(Action.UPDATE, target)
