"""Read metadata and rule sets of schemas from requests, and merge them from several layers.

Merging follows Confluent's server (``AbstractSchemaRegistry.mergeMetadata`` and ``mergeRuleSets``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from signalbook.confluent.errors import invalid_ruleset, unprocessable
from signalbook.values import JSON, JSONObject

RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
_RULE_KINDS: Final = ("TRANSFORM", "CONDITION")
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DATA_MODES: Final = ("WRITE", "READ", "WRITEREAD")
_RULE_NAME: Final = re.compile(r"[^\W\d][\w-]{0,255}")
VERSION_PROPERTY: Final = "confluent:version"
"""The property with which a client requests a new version. In the stored schema it has the version number."""
_RULESET_MEMBERS: Final = frozenset({*RULE_LISTS, "enableAt"})


def check_metadata(body: Mapping[str, Any], name: str) -> JSONObject | None:
    """Return the metadata in a request. Raises 422 unless it and its ``properties`` are objects or absent."""
    value = body.get(name)
    if not isinstance(value, dict | None) or not isinstance((value or {}).get("properties"), dict | None):
        raise unprocessable(f"{name} has to be an object, and its properties, too")
    return value


def properties(metadata: JSON) -> JSONObject:
    """Return the properties in the metadata of a Version, which any API may have written."""
    value = metadata.get("properties") if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}


def remove_version(metadata: JSON) -> JSONObject | None:
    """Return metadata without the property for the version number. Return None if nothing is left."""
    if not isinstance(metadata, dict):
        return None
    if VERSION_PROPERTY not in properties(metadata):
        return metadata or None
    remaining_properties = {name: value for name, value in properties(metadata).items() if name != VERSION_PROPERTY}
    members = {name: value for name, value in metadata.items() if name != "properties"}
    return {**members, "properties": remaining_properties} if remaining_properties else members or None


def with_version(metadata: JSONObject | None, version: int | str) -> JSONObject:
    """Return metadata with the version number as a property."""
    stated = {**properties(metadata), VERSION_PROPERTY: str(version)}
    return {**(metadata or {}), "properties": stated}


def check_ruleset(body: Mapping[str, Any], name: str = "ruleSet") -> JSONObject | None:
    """Return the rule set in a request unchanged, because clients run the rules.

    Raises 42210 if it has the wrong form.
    """
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, dict) or not value.keys() <= _RULESET_MEMBERS:
        raise invalid_ruleset(f"it is an object with {', '.join(sorted(_RULESET_MEMBERS))}")
    lists = [value[kind] for kind in RULE_LISTS if value.get(kind) is not None]
    if not all(isinstance(rules, list) for rules in lists):
        raise invalid_ruleset("rules are in lists")
    names: set[str] = set()
    for kind in RULE_LISTS:
        for rule in value.get(kind) or ():
            _check_rule(rule, _MIGRATION_MODES if kind == "migrationRules" else _DATA_MODES)
            if rule["name"] in names:
                raise invalid_ruleset(f"several rules are named '{rule['name']}'")
            names.add(rule["name"])
    return value


def _check_rule(rule: Any, modes: Sequence[str]) -> None:
    name = rule.get("name") if isinstance(rule, dict) else None
    if not isinstance(name, str) or not _RULE_NAME.fullmatch(name):
        raise invalid_ruleset("each rule is an object with a name of at most 256 letters, digits, '_' and '-'")
    if not isinstance(rule.get("type"), str):
        raise invalid_ruleset(f"the rule '{name}' has no type")
    for member, values in (("kind", _RULE_KINDS), ("mode", modes)):
        if rule.get(member) is not None and rule[member] not in values:
            raise invalid_ruleset(f"the {member} of rule '{name}' is one of {', '.join(values)}")


def list_rule_types(ruleset: JSON) -> set[str]:
    """Return the types of the rules in the rule set of a Version. Skips parts that have another form."""
    lists = ruleset.values() if isinstance(ruleset, dict) else ()
    rules = [rule for rule_list in lists if isinstance(rule_list, list) for rule in rule_list if isinstance(rule, dict)]
    return {kind for rule in rules if isinstance(kind := rule.get("type"), str)}


def merge_metadata(*layers: JSON) -> JSONObject | None:
    """Merge metadata, later layers over earlier ones: properties by name, the tags of a path and ``sensitive`` as sets.

    Return None if nothing is left.
    """
    merged: JSONObject = {}
    for layer in layers:
        for name, value in layer.items() if isinstance(layer, dict) else ():
            merged[name] = _merge_member(name, merged.get(name), value)
    return merged or None


def _merge_member(name: str, before: JSON, value: JSON) -> JSON:
    match name, before, value:
        case _, _, None:
            return before
        case "tags", dict(), dict():
            return before | {path: _merge_lists(before.get(path), tags) for path, tags in value.items()}
        case "sensitive", list(), list():
            return _merge_lists(before, value)
        case _, dict(), dict():
            return before | value
    return value


def _merge_lists(before: JSON, more: JSON) -> JSON:
    if not isinstance(before, list) or not isinstance(more, list):
        return more
    return before + [value for value in more if value not in before]


def merge_rulesets(*layers: JSON) -> JSONObject | None:
    """Merge rule sets: a rule of a later layer replaces the rule of the same name in the same list, others are added.

    Return None if nothing is left.
    """
    merged: JSONObject = {}
    for layer in layers:
        for name, value in layer.items() if isinstance(layer, dict) else ():
            before = merged.get(name)
            if isinstance(before, list) and isinstance(value, list):
                merged[name] = _merge_rules(before, value)
            elif value is not None or name not in merged:
                merged[name] = value
    return merged or None


def remove_rules(ruleset: JSONObject | None, names: Collection[JSON]) -> JSONObject | None:
    """Return a rule set without the rules of these names. Return None if nothing is left."""
    remaining: JSONObject = {}
    for member, value in (ruleset or {}).items():
        remaining_rules = (
            [rule for rule in value if _read_rule_name(rule) not in names] if isinstance(value, list) else value
        )
        if remaining_rules not in (None, []):
            remaining[member] = remaining_rules
    return remaining or None


def _merge_rules(before: list[JSON], more: list[JSON]) -> list[JSON]:
    names = {_read_rule_name(rule) for rule in more}
    return [rule for rule in before if _read_rule_name(rule) not in names] + more


def _read_rule_name(rule: JSON) -> JSON:
    return rule.get("name") if isinstance(rule, dict) else None
