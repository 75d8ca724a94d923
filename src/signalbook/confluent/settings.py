"""Read compatibility levels and modes, and find them in their layers: subject, context, all contexts, server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from signalbook.confluent.associations import scope as association_scope
from signalbook.confluent.errors import invalid_compatibility, invalid_mode, invalid_ruleset, unprocessable
from signalbook.confluent.metadata import check_metadata, check_ruleset
from signalbook.confluent.naming import DEFAULT_CONTEXT, GLOBAL_CONTEXT, Subject, is_global
from signalbook.values import JSON, JSONObject

SettingRange: TypeAlias = tuple[Literal["config", "mode", "association"], str, str]
"""A kind of stored settings and a range of their scopes, which includes the first scope but not the last one."""
LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT_LEVEL: Final = "BACKWARD"
_OVERRIDE: Final = "READONLY_OVERRIDE"
MODES: Final = ("READWRITE", "READONLY", _OVERRIDE, "IMPORT", "FORWARD")
DEFAULT_MODE: Final = "READWRITE"
READ_ONLY: Final = frozenset({"READONLY", _OVERRIDE, "FORWARD"})
OVERRIDING: Final = ("", f":{GLOBAL_CONTEXT.lower()}:")
"""The scopes whose mode ``READONLY_OVERRIDE`` stops writes everywhere: the default context, and all contexts."""
_POLICIES: Final = ("STRICT", "LENIENT", "LOGICAL")
_LEVEL: Final = "compatibilityLevel"
_TEXT_SETTINGS: Final = ("alias", "aliasForDeks", "compatibilityGroup")
_FLAGS: Final = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
_OBJECTS: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
CONFIG_FIELDS: Final = frozenset({"compatibility", _LEVEL, "compatibilityPolicy", *_TEXT_SETTINGS, *_FLAGS, *_OBJECTS})
Stored = Callable[[str], JSONObject | None]
"""Returns the settings stored for a scope, or None."""


def scope_of(subject: Subject) -> str:
    """Return the scope of the settings of a subject, or of its context if the subject has no name.

    The scope "" is the default context. Ids of groups are case-insensitive, so contexts that differ only in case share
    their settings.
    """
    if not subject.name:
        return "" if subject.context == DEFAULT_CONTEXT else f":{subject.context.lower()}:"
    return f":{subject.context.lower()}:{subject.name}"


def list_scope_ranges(context: str) -> list[SettingRange]:
    """Return the kinds of settings of a context and its subjects, each with the range of its scopes.

    A range includes its first scope and excludes its last. Of the three scopes of an association, only the one by
    subject is in a range. Settings of the registry are in no range.
    """
    context_scope = f":{context.lower()}:"
    ranges: list[SettingRange] = [
        ("config", context_scope, _find_range_end(context_scope)),
        ("mode", context_scope, _find_range_end(context_scope)),
    ]
    # Associations are stored under ``str(subject)``, which mostly omits the default context.
    subject_scope = association_scope("subject", f":{context}:").removesuffix("/")
    ranges.append(("association", subject_scope, _find_range_end(subject_scope)))
    if context == DEFAULT_CONTEXT:
        everything = association_scope("subject")
        other_contexts = association_scope("subject", ":.").removesuffix("/")
        ranges += [
            ("association", everything, other_contexts),
            ("association", _find_range_end(other_contexts), _find_range_end(everything)),
        ]
    return ranges


def _find_range_end(beginning: str) -> str:
    """Return the first text after all texts with this beginning."""
    return beginning[:-1] + chr(ord(beginning[-1]) + 1)


def scopes(subject: Subject) -> Iterator[str]:
    """Yield the scopes of a subject's settings, the nearest first."""
    yield scope_of(subject)
    if subject.name:
        yield scope_of(Subject(subject.context, ""))
    if not is_global(subject.context):
        yield scope_of(Subject(GLOBAL_CONTEXT, ""))


def effective(stored: Stored, subject: Subject) -> JSONObject:
    """Return the settings in force for a subject, each from the nearest layer that has it.

    The level is always present.
    """
    return {_LEVEL: DEFAULT_LEVEL, **stated(stored, subject)}


def stated(stored: Stored, subject: Subject) -> JSONObject:
    """Return the settings in force for a subject, without the default level. Nearer layers take precedence."""
    settings: JSONObject = {}
    for scope in reversed(list(scopes(subject))):
        settings |= stored(scope) or {}
    return settings


def find_effective_mode(stored: Stored, subject: Subject) -> str:
    """Return the mode of a subject. ``stored`` must know the scopes of ``scopes`` and ``OVERRIDING``."""
    if any((stored(scope) or {}).get("mode") == _OVERRIDE for scope in OVERRIDING):
        return _OVERRIDE
    return next((str(layer["mode"]) for scope in scopes(subject) if (layer := stored(scope))), DEFAULT_MODE)


def read_config(body: Mapping[str, JSON]) -> JSONObject:
    """Return the settings in a request as they are stored.

    A null value removes a setting. Raises ``ConfluentError``.
    """
    config = {name: value for name, value in body.items() if name in CONFIG_FIELDS}
    levels = [config.pop(name, None) for name in ("compatibility", _LEVEL)]
    level = next((stated_level for stated_level in levels if stated_level is not None), None)
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise invalid_compatibility(level)
        config[_LEVEL] = level.upper()
    _check_types(config)
    return config


def _check_types(config: Mapping[str, Any]) -> None:
    policy = config.get("compatibilityPolicy")
    if policy is not None and policy not in _POLICIES:
        raise unprocessable(f"Invalid compatibilityPolicy '{policy}': it is STRICT, LENIENT or LOGICAL")
    for names, kind, expected in (
        (_TEXT_SETTINGS, str, "a string"),
        (_FLAGS, bool, "true or false"),
        (_OBJECTS, dict, "an object"),
    ):
        for name in names:
            if config.get(name) is not None and not isinstance(config[name], kind):
                raise (
                    invalid_ruleset(name) if name.endswith("RuleSet") else unprocessable(f"{name} has to be {expected}")
                )
    for name in ("defaultMetadata", "overrideMetadata"):
        check_metadata(config, name)
    for name in ("defaultRuleSet", "overrideRuleSet"):
        check_ruleset(config, name)


def render_config(stored: Mapping[str, JSON]) -> JSONObject:
    """Return the settings for the response to GET, without null values."""
    return {name: value for name, value in stored.items() if value is not None}


def read_mode(body: Mapping[str, JSON]) -> str:
    """Return the mode that a request sets. Raises ``ConfluentError``."""
    mode = body.get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise invalid_mode(mode)
    return mode.upper()


def rule(level: str) -> str | None:
    """Return the compatibility rule of the engine for a level, or None for the level NONE."""
    return None if level == "NONE" else level.lower()


def find_alias(stored: Stored, subject: Subject) -> str | None:
    """Return the name of the subject for which ``subject`` is an alias, or None."""
    alias = (stored(scope_of(subject)) or {}).get("alias") if subject.name else None
    return alias if isinstance(alias, str) and alias else None
