"""Widen JSON Schemas that exist, so that they accept values they were not written for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from signalbook.formats.base import Path, format_pointer
from signalbook.pipeline.inference.maps import merge_members
from signalbook.pipeline.inference.schemas import Rules, build_schema
from signalbook.pipeline.inference.summaries import FORMATS, LONGEST_TEXT, MOST_TEXTS, ValueSummary
from signalbook.values import JSON, JSONObject

# New members are described by their types alone.
_RULES: Final = Rules()
# The formats that ``FORMATS`` recognizes in all their texts. Other texts than it recognizes may be emails or URIs.
_CHECKED_FORMATS: Final = FORMATS.keys() - {"email", "uri"}
# Keywords of places whose members are also described elsewhere, or by patterns.
_UNLISTED: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "patternProperties"})


class Change(NamedTuple):
    """A change of a schema. ``path`` is that of the values, with ``*`` for the items of a list or the keys of a map."""

    path: str
    change: str


def widen(schema: JSONObject, seen: ValueSummary) -> tuple[JSONObject, list[Change]]:
    """Return ``schema`` changed to accept and describe the values in ``seen``, and the changes; none if it does.

    Members and types are added, words are added to enums, and what values lack is no longer required. Other rules, such
    as ranges and patterns, and places behind ``$ref`` stay as they are. So do enums with more words than a summary
    keeps. No members are added that other subschemas of the same place describe, such as those of ``allOf``.
    """
    changes: list[Change] = []
    return _widen_place(schema, seen, (), changes), changes


def _widen_place(schema: JSONObject, seen: ValueSummary, path: Path, changes: list[Change]) -> JSONObject:
    if "$ref" in schema:
        return schema
    noted: list[str] = []
    widened = {**schema}
    _widen_types(widened, seen, noted)
    if seen.texts.count and schema.get("format") in _CHECKED_FORMATS.difference(seen.texts.formats or ()):
        noted.append(f"the format {widened.pop('format')} is gone")
    _widen_enum(widened, seen, noted)
    changes += [Change(format_pointer(path), text) for text in noted]
    # Next to ``prefixItems``, ``items`` describes only some of the items.
    if seen.items is not None and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
        widened["items"] = _widen_place(schema["items"], seen.items, (*path, "*"), changes)
    if seen.objects:
        _widen_objects(widened, seen.merge_cases(), path, changes)
    return widened


def _widen_types(schema: JSONObject, seen: ValueSummary, noted: list[str]) -> None:
    if "type" not in schema:
        return
    types: list[JSON] = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    counts = {
        "object": seen.objects,
        "array": seen.arrays,
        "string": seen.texts.count,
        "number": seen.numbers,
        "integer": 0 if seen.numbers or "number" in types else seen.integers,
        "boolean": seen.booleans,
        "null": seen.nulls,
    }
    new_types = [name for name, count in counts.items() if count and name not in types]
    if not new_types:
        return
    all_types = [name for name in types if name != "integer" or "number" not in new_types] + new_types
    schema["type"] = all_types[0] if len(all_types) == 1 else all_types
    noted.append(f"the type may also be {' or '.join(new_types)}")


def _widen_enum(schema: JSONObject, seen: ValueSummary, noted: list[str]) -> None:
    words = schema.get("enum")
    if not isinstance(words, list):
        return
    texts = seen.texts.values
    # A summary does not keep all words of a long enum, so that new words cannot be distinguished.
    is_long = len(words) > MOST_TEXTS or any(len(str(word)) > LONGEST_TEXT for word in words)
    if texts is None and not is_long:
        del schema["enum"]
        noted.append("the enum is gone: there are too many words")
        return
    new_words: list[JSON] = [text for text in sorted(texts or ()) if text not in words]
    if seen.nulls and None not in words:
        new_words.append(None)
    if new_words:
        schema["enum"] = [*words, *new_words]
        noted.append(f"the enum has also {', '.join('null' if word is None else str(word) for word in new_words)}")


def _widen_objects(schema: JSONObject, seen: ValueSummary, path: Path, changes: list[Change]) -> None:
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and not schema.keys() & {"properties", "patternProperties"}:
        schema["additionalProperties"] = _widen_place(others, merge_members(seen), (*path, "*"), changes)
        return
    if not isinstance(schema.get("properties"), dict):
        return
    properties = {**schema["properties"]}
    branches = list(_iterate_branches(schema))
    is_open = not isinstance(others, dict) and not any(_UNLISTED & part.keys() for part in (schema, *branches))
    described = {*properties, *(name for branch in branches for name in branch.get("properties") or ())}
    for name, member in seen.members.items():
        if isinstance(properties.get(name), dict):
            properties[name] = _widen_place(properties[name], member, (*path, name), changes)
        elif is_open and name not in described:
            properties[name] = {key: value for key, value in build_schema(member, _RULES).items() if key != "$schema"}
            changes.append(Change(format_pointer((*path, name)), "is new"))
    schema["properties"] = properties
    lacking = [name for name in schema.get("required", ()) if _is_lacking(name, seen)]
    if lacking:
        schema["required"] = [name for name in schema["required"] if name not in lacking]
        changes += [Change(format_pointer((*path, name)), "is not required any more") for name in lacking]


def _iterate_branches(schema: JSONObject) -> Iterator[JSONObject]:
    """Yield the subschemas that also apply to the values of ``schema``, directly or not."""
    branches = [branch for keyword in ("allOf", "anyOf", "oneOf") for branch in schema.get(keyword) or ()]
    branches += [schema.get(keyword) for keyword in ("if", "then", "else")]
    branches += (schema.get("dependentSchemas") or {}).values()
    for branch in branches:
        if isinstance(branch, dict):
            yield branch
            yield from _iterate_branches(branch)


def _is_lacking(name: str, seen: ValueSummary) -> bool:
    """Return True if an object lacks the member ``name``. Members that are not counted by name may be in all."""
    return seen.others is None and (name not in seen.members or seen.members[name].count < seen.objects)
