"""Widen JSON Schemas that exist, so that they accept values they were not written for."""

from __future__ import annotations

from typing import Final, NamedTuple

from signalbook.formats.base import Path, format_pointer
from signalbook.pipeline.inference.maps import merge_members
from signalbook.pipeline.inference.schemas import Rules, build_schema
from signalbook.pipeline.inference.summaries import FORMATS, TextSummary, ValueSummary
from signalbook.values import JSON, JSONObject

# New members are described by their types alone.
_RULES: Final = Rules()


class Change(NamedTuple):
    """A change of a schema. ``path`` is that of the values, with ``*`` for the items of a list or the keys of a map."""

    path: str
    change: str


def widen(schema: JSONObject, seen: ValueSummary) -> tuple[JSONObject, list[Change]]:
    """Return ``schema`` changed to accept and describe the values in ``seen``, and the changes; none if it does.

    Members and types are added, words are added to enums, and what values lack is no longer required. Other rules, such
    as ranges and patterns, and places behind ``$ref`` stay as they are.
    """
    changes: list[Change] = []
    return _widen_place(schema, seen, (), changes), changes


def _widen_place(schema: JSONObject, seen: ValueSummary, path: Path, changes: list[Change]) -> JSONObject:
    if "$ref" in schema:
        return schema
    noted: list[str] = []
    widened = {**schema}
    _widen_types(widened, seen, noted)
    if seen.texts.count:
        _widen_texts(widened, seen.texts, noted)
    changes += [Change(format_pointer(path), text) for text in noted]
    if seen.items is not None and isinstance(schema.get("items"), dict):
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
    if isinstance(schema.get("enum"), list) and "null" in new_types:
        schema["enum"] = [*schema["enum"], None]


def _widen_texts(schema: JSONObject, texts: TextSummary, noted: list[str]) -> None:
    if schema.get("format") in FORMATS and schema["format"] not in (texts.formats or ()):
        noted.append(f"the format {schema.pop('format')} is gone")
    words = schema.get("enum")
    if not isinstance(words, list):
        return
    new_words = None if texts.values is None else [text for text in sorted(texts.values) if text not in words]
    if new_words is None:
        del schema["enum"]
        noted.append("the enum is gone: there are too many words")
    elif new_words:
        schema["enum"] = [*words, *new_words]
        noted.append(f"the enum has also {', '.join(new_words)}")


def _widen_objects(schema: JSONObject, seen: ValueSummary, path: Path, changes: list[Change]) -> None:
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and "properties" not in schema:
        schema["additionalProperties"] = _widen_place(others, merge_members(seen), (*path, "*"), changes)
        return
    if not isinstance(schema.get("properties"), dict):
        return
    properties = {**schema["properties"]}
    is_open = not isinstance(others, dict) and "patternProperties" not in schema
    for name, member in seen.members.items():
        if isinstance(properties.get(name), dict):
            properties[name] = _widen_place(properties[name], member, (*path, name), changes)
        elif name not in properties and is_open:
            properties[name] = {key: value for key, value in build_schema(member, _RULES).items() if key != "$schema"}
            changes.append(Change(format_pointer((*path, name)), "is new"))
    schema["properties"] = properties
    lacking = [name for name in schema.get("required", ()) if _is_lacking(name, seen)]
    if lacking:
        schema["required"] = [name for name in schema["required"] if name not in lacking]
        changes += [Change(format_pointer((*path, name)), "is not required any more") for name in lacking]


def _is_lacking(name: str, seen: ValueSummary) -> bool:
    """Return True if an object lacks the member ``name``. Members that are not counted by name may be in all."""
    return seen.others is None and (name not in seen.members or seen.members[name].count < seen.objects)
