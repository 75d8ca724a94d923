"""Tags in Avro schemas: words on records and fields, in their attribute ``confluent:tags``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signalbook.confluent.errors import invalid_schema, unprocessable
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, JSONError, JSONObject, dump_json

TAGS: Final = "confluent:tags"
_RECORD, _FIELD = "sr_record", "sr_field"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Tags of a record, by its name with or without its namespace, or with ``field`` of that field of it."""

    record: str
    field: str | None
    tags: tuple[str, ...]

    def __str__(self) -> str:
        return self.record if self.field is None else f"{self.record}.{self.field}"


def read_tags(body: Mapping[str, Any], name: str) -> list[Tagged]:
    """The tags in a member of a request. Raises 422."""
    stated = body.get(name)
    if not isinstance(stated, list | None):
        raise unprocessable(f"{name} has to be a list")
    return [_tagged(each, name) for each in stated or ()]


def _tagged(value: JSON, name: str) -> Tagged:
    stated = value if isinstance(value, dict) else {}
    entity, tags = stated.get("schemaEntity"), stated.get("tags") or []
    path, kind = (entity.get("entityPath"), entity.get("entityType")) if isinstance(entity, dict) else (None, None)
    if not isinstance(path, str) or kind not in (_RECORD, _FIELD) or not _are_words(tags):
        raise unprocessable(f"{name} are entities, each with its entityPath, {_RECORD} or {_FIELD}, and tags")
    named = path.removeprefix(".")
    record, _, field = named.rpartition(".") if kind == _FIELD else (named, "", None)
    return Tagged(record=record, field=field, tags=tuple(tags))


def _are_words(tags: JSON) -> bool:
    return isinstance(tags, list) and all(isinstance(each, str) and each for each in tags)


def with_tags(text: str, add: Sequence[Tagged], remove: Sequence[Tagged]) -> str:
    """An Avro schema with tags added, and others removed. Raises 42201 where it has no such record or field."""
    try:
        schema = parse_untrusted_json(text.encode("utf-8"))
    except (JSONError, UnicodeEncodeError) as error:
        raise invalid_schema(str(error)) from None
    records = list(_records(schema, ""))
    for each in remove:
        _put(each, records, lambda there, tags: [tag for tag in there if tag not in tags])
    for each in add:
        _put(each, records, lambda there, tags: [*dict.fromkeys((*there, *tags))])
    return dump_json(schema).decode("utf-8")


def _put(wanted: Tagged, records: Sequence[tuple[str, JSONObject]], change: Any) -> None:
    place = _place(wanted, records)
    there = place.get(TAGS)
    tags = change([each for each in there if isinstance(each, str)] if isinstance(there, list) else [], wanted.tags)
    if tags:
        place[TAGS] = tags
    else:
        place.pop(TAGS, None)


def _place(wanted: Tagged, records: Sequence[tuple[str, JSONObject]]) -> JSONObject:
    for name, record in records:
        if wanted.record not in (name, name.rpartition(".")[2]):
            continue
        if wanted.field is None:
            return record
        fields = record.get("fields")
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, dict) and field.get("name") == wanted.field:
                return field
    raise invalid_schema(f"No matching path '{wanted}' found in the schema")


def _records(schema: JSON, space: str) -> Iterator[tuple[str, JSONObject]]:
    """The records in a schema, outer ones first, by their full names; its depth was checked on its way in."""
    if isinstance(schema, list):
        for each in schema:
            yield from _records(each, space)
    if not isinstance(schema, dict):
        return
    name = schema.get("name")
    if schema.get("type") in ("record", "error") and isinstance(name, str):
        stated = schema.get("namespace", space)
        full = name if "." in name or not stated else f"{stated}.{name}"
        yield full, schema
        fields = schema.get("fields")
        for field in fields if isinstance(fields, list) else ():
            yield from _records(field.get("type") if isinstance(field, dict) else None, full.rpartition(".")[0])
        return
    for inner in ("type", "items", "values"):
        yield from _records(schema.get(inner), space)
