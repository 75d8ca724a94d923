"""Config and modes of the registry, of contexts and of subjects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from signalbook.access.base import Action
from signalbook.api.confluent.changes import SubjectWriter
from signalbook.api.confluent.queries import place_of, subjects_of
from signalbook.api.confluent.requests import ConfluentRequest, answer
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.kernel.responses import Response
from signalbook.confluent.errors import (
    ConfluentError,
    config_not_found,
    forward_mode_not_global,
    mode_not_found,
    not_permitted,
    subject_not_found,
)
from signalbook.confluent.naming import DEFAULT_CONTEXT, Subject, is_global
from signalbook.confluent.settings import (
    CONFIG_FIELDS,
    DEFAULT_LEVEL,
    DEFAULT_MODE,
    READ_ONLY,
    effective,
    find_effective_mode,
    read_config,
    read_mode,
    render_config,
    scope_of,
)
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.storage.confluent import SettingKind
from signalbook.values import JSONObject

_LEVEL: Final = "compatibilityLevel"
_SETTINGS_PAGE: Final = 1000


def show_config(view: View, request: ConfluentRequest) -> Response:
    """Return the stored config of the scope in the path; with ``defaultToGlobal``, the config in force."""
    place = _find_readable_place(view, request, config_not_found)
    stored = view.confluent.setting("config", scope_of(place))
    if request.flag("defaultToGlobal"):
        return answer(render_config(effective(lambda scope: view.confluent.setting("config", scope), place)))
    if stored is None and not _has_default(place):
        raise config_not_found(place)
    config = stored or {}
    return answer(render_config({**config, _LEVEL: config.get(_LEVEL, DEFAULT_LEVEL)}))


def put_config(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Set fields of a config, and return all stored fields. Fields that the request leaves out are kept."""
    place = place_of(subjects, request)
    _check_writable(subjects, place)
    stated = read_config(request.json(CONFIG_FIELDS))
    if stated.get("alias"):
        subjects.parse(stated["alias"], place.context)
    settings = {**(session.view.confluent.setting("config", scope_of(place)) or {}), **stated}
    config = {name: value for name, value in settings.items() if value is not None}
    SubjectWriter(session, subjects, request.settings).set("config", place, config)
    level: JSONObject = {"compatibility": config.pop(_LEVEL)} if _LEVEL in config else {}
    return answer({**level, **config})


def delete_config(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Remove the stored config, and return it."""
    place = place_of(subjects, request)
    _check_writable(subjects, place)
    before = SubjectWriter(session, subjects, request.settings).set("config", place, None)
    if before is None and not _has_default(place):
        raise subject_not_found(place)
    return answer(render_config({_LEVEL: DEFAULT_LEVEL, **(before or {})}))


def _check_writable(subjects: Subjects, place: Subject) -> None:
    if subjects.mode(place) in READ_ONLY:
        raise not_permitted(f"Subject {place} is in read-only mode" if place.name else "It is in read-only mode")


def show_mode(view: View, request: ConfluentRequest) -> Response:
    """Return the stored mode of the scope in the path; with ``defaultToGlobal``, the mode in force."""
    place = _find_readable_place(view, request, mode_not_found)
    stored = view.confluent.setting("mode", scope_of(place))
    if request.flag("defaultToGlobal"):
        return answer({"mode": find_effective_mode(lambda scope: view.confluent.setting("mode", scope), place)})
    if stored is None and not _has_default(place):
        raise mode_not_found(place)
    return answer(stored or {"mode": DEFAULT_MODE})


def _has_default(place: Subject) -> bool:
    """Return True for scopes that have settings even if none are stored: the default context and the registry."""
    return not place.name and (place.context == DEFAULT_CONTEXT or is_global(place.context))


def put_mode(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Set the mode, or remove it if the request has none. A scope with schemas gets the mode IMPORT only with
    ``force``."""
    place = place_of(subjects, request)
    body = request.json(frozenset({"mode"}))
    writer = SubjectWriter(session, subjects, request.settings)
    if body.get("mode") is None:
        writer.set("mode", place, None)
        return answer({})
    mode = read_mode(body)
    if mode == "FORWARD" and not is_global(place.context):
        raise forward_mode_not_global()
    if mode == "IMPORT" and not request.flag("force") and _has_schemas(subjects, place):
        raise not_permitted(f"Cannot import since found existing subjects{f' {place}' if place.name else ''}")
    writer.set("mode", place, {"mode": mode})
    return answer({"mode": mode})


def delete_mode(session: Session, request: ConfluentRequest, subjects: Subjects) -> Response:
    """Remove the mode, with ``recursive`` also the modes of all subjects in the scope. Return the removed mode."""
    place = place_of(subjects, request)
    writer = SubjectWriter(session, subjects, request.settings)
    before = writer.set("mode", place, None)
    recursive = request.flag("recursive") and not place.name
    if before is None and not recursive and not _has_default(place):
        raise subject_not_found(place)
    if recursive:
        beginning = "" if is_global(place.context) else f":{place.context.lower()}:"
        for scope in [name for name in _list_scopes(session, "mode") if name.startswith(beginning)]:
            # The right to set a mode for the whole scope was checked before.
            writer.set("mode", subjects.parse(scope, DEFAULT_CONTEXT), None)
    return answer(before or ({"mode": DEFAULT_MODE} if _has_default(place) else {}))


def _list_scopes(session: Session, kind: SettingKind) -> Iterator[str]:
    yield from [""] if session.view.confluent.setting(kind, "") else []  # ``settings`` lists only scopes after this one
    after = ""
    while settings := session.view.confluent.settings(kind, after, _SETTINGS_PAGE):
        yield from settings
        after = next(reversed(settings))


def _has_schemas(subjects: Subjects, place: Subject) -> bool:
    if place.name:
        return bool(subjects.live(place))
    contexts = subjects.contexts() if is_global(place.context) else (place.context,)
    return any(next(subjects.names(context), None) is not None for context in contexts)


def _find_readable_place(
    view: View, request: ConfluentRequest, not_found: Callable[[Subject], ConfluentError]
) -> Subject:
    """Return the scope in the path. Raises ``not_found`` unless the caller can read it."""
    subjects = subjects_of(view, request)
    place = place_of(subjects, request)
    if not _is_readable(view, subjects, place):
        raise not_found(place)
    return place


def _is_readable(view: View, subjects: Subjects, place: Subject) -> bool:
    """Return True if the caller can read the settings of ``place``.

    A caller that can read at least one entity can read the settings of the default context and of the registry.
    """
    if place.name:
        return subjects.is_readable(place)
    group = subjects.group(place.context)
    if _has_default(place) or group is None:
        return view.access.allows_somewhere(Action.READ)
    return view.access.is_readable(group)
