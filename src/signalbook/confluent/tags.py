"""Read and change tags in schemas: words on records and fields, to which rules of clients refer.

Avro and JSON Schema have tags in the attribute ``confluent:tags``, Protobuf in options. A record or field is named by
its path. Avro has ``shop.Order`` and ``shop.Order.id``, Protobuf ``Order.Line.sku``, both with or without namespace or
package. JSON Schema has ``object.lines.array.object.sku``, step by step from the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signalbook.confluent import prototags
from signalbook.confluent.errors import invalid_schema, unprocessable
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, JSONError, JSONObject, dump_json

TAGS: Final = "confluent:tags"
RECORD, FIELD = "sr_record", "sr_field"
_COMBINED: Final = {"allOf": "allof", "anyOf": "anyof", "oneOf": "oneof"}
_CONDITIONS: Final = ("if", "then", "else")
_DEFINITIONS: Final = ("definitions", "$defs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """The tags of the record or field at a path."""

    path: str
    kind: str
    tags: tuple[str, ...]

    def to_json(self) -> JSONObject:
        """Return the JSON that clients expect."""
        return {"schemaEntity": {"entityPath": self.path, "entityType": self.kind}, "tags": list(self.tags)}


@dataclass(frozen=True, slots=True)
class _Place:
    """A record or field of a JSON document, with the paths that may name it."""

    kind: str
    paths: tuple[str, ...]
    node: JSONObject
    listed: bool = True


def read_tags(body: Mapping[str, Any], name: str) -> tuple[Tagged, ...]:
    """Return the tags in the member ``name`` of a request. Raises 422."""
    stated = body.get(name)
    if not isinstance(stated, list | None):
        raise unprocessable(f"{name} has to be a list")
    return tuple(_read_tagged(entity, name) for entity in stated or ())


def _read_tagged(value: JSON, name: str) -> Tagged:
    stated = value if isinstance(value, dict) else {}
    entity, tags = stated.get("schemaEntity"), stated.get("tags") or []
    path, kind = (entity.get("entityPath"), entity.get("entityType")) if isinstance(entity, dict) else (None, None)
    if not isinstance(path, str) or not isinstance(kind, str) or kind not in (RECORD, FIELD) or not _are_words(tags):
        raise unprocessable(f"{name} are entities, each with its entityPath, {RECORD} or {FIELD}, and tags")
    return Tagged(path=path.removeprefix("."), kind=kind, tags=tuple(tags))


def _are_words(tags: JSON) -> bool:
    return isinstance(tags, list) and all(isinstance(tag, str) and tag for tag in tags)


def list_tags(text: str, type: str) -> list[Tagged]:
    """Return the tags of a schema, those of outer records first. ``type`` is a ``schemaType``."""
    if type == "PROTOBUF":
        tagged = [
            (entity.path, RECORD if entity.is_record else FIELD, entity.tags)
            for entity in prototags.list_entities(text)
        ]
    else:
        places = [entity for entity in _find_places(_parse_schema(text), type) if entity.listed]
        tagged = [(entity.paths[0], entity.kind, tuple(_read_stated_tags(entity.node))) for entity in places]
    return [Tagged(path=path, kind=kind, tags=tags) for path, kind, tags in tagged if tags]


def with_tags(text: str, type: str, add: Sequence[Tagged], remove: Sequence[Tagged]) -> str:
    """Return a schema without the tags in ``remove``, and then with those in ``add``. ``type`` is a ``schemaType``.

    Raises 42201 if the schema has no such record or field.
    """
    changes: list[tuple[Tagged, Callable[[Sequence[str], Sequence[str]], list[str]]]] = [
        *((tagged, _remove_tags) for tagged in remove),
        *((tagged, _merge_tags) for tagged in add),
    ]
    if type == "PROTOBUF":
        return _with_options(text, changes)
    schema = _parse_schema(text)
    by_path: dict[tuple[str, str], JSONObject] = {}
    for place in _find_places(schema, type):
        for path in place.paths:
            by_path.setdefault((place.kind, path), place.node)
    for tagged, change in changes:
        node = by_path.get((tagged.kind, tagged.path))
        if node is None:
            raise _build_path_error(tagged)
        _put(node, change(_read_stated_tags(node), tagged.tags))
    return dump_json(schema).decode("utf-8")


def _with_options(text: str, changes: Sequence[tuple[Tagged, Any]]) -> str:
    entities = prototags.list_entities(text)
    by_path: dict[tuple[str, str], prototags.TaggedEntity] = {}
    for entity in entities:
        for path in entity.paths:
            by_path.setdefault((RECORD if entity.is_record else FIELD, path), entity)
    tags = {entity: entity.tags for entity in entities}
    for tagged, change in changes:
        target = by_path.get((tagged.kind, tagged.path))
        if target is None:
            raise _build_path_error(tagged)
        tags[target] = tuple(change(tags[target], tagged.tags))
    return prototags.with_tags(text, {entity: now for entity, now in tags.items() if now != entity.tags})


def _build_path_error(tagged: Tagged) -> Exception:
    return invalid_schema(f"No matching path '{tagged.path}' found in the schema")


def _remove_tags(there: Sequence[str], tags: Sequence[str]) -> list[str]:
    return [tag for tag in there if tag not in tags]


def _merge_tags(there: Sequence[str], tags: Sequence[str]) -> list[str]:
    return [*dict.fromkeys((*there, *tags))]


def _parse_schema(text: str) -> JSON:
    try:
        return parse_untrusted_json(text.encode("utf-8"), exact=True)
    except (JSONError, UnicodeEncodeError) as error:
        raise invalid_schema(str(error)) from None


def _read_stated_tags(node: Mapping[str, JSON]) -> list[str]:
    tags = node.get(TAGS)
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _put(node: JSONObject, tags: list[str]) -> None:
    if tags:
        node[TAGS] = list(tags)
    else:
        node.pop(TAGS, None)


def _find_places(schema: JSON, type: str) -> Iterator[_Place]:
    """Yield the records and fields in a schema, outer ones first. The depth of the schema was checked before."""
    return _find_in_avro(schema, "") if type == "AVRO" else _find_in_json(schema, "", in_field=False)


def _find_in_avro(schema: JSON, space: str) -> Iterator[_Place]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _find_in_avro(branch, space)
    if not isinstance(schema, dict):
        return
    name = schema.get("name")
    if schema.get("type") not in ("record", "error") or not isinstance(name, str):
        for inner in ("type", "items", "values"):
            yield from _find_in_avro(schema.get(inner), space)
        return
    stated = schema.get("namespace", space)
    full = name if "." in name or not stated else f"{stated}.{name}"
    names = (full, full.rpartition(".")[2])
    yield _Place(RECORD, names, schema)
    fields = schema.get("fields")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield _Place(FIELD, tuple(f"{path}.{field.get('name')}" for path in names), field)
            yield from _find_in_avro(field.get("type"), full.rpartition(".")[0])


def _find_in_json(schema: JSON, scope: str, *, in_field: bool) -> Iterator[_Place]:
    """Yield the records and fields in a JSON Schema. ``scope`` is the path to the schema.

    With ``in_field``, the schema is that of a field, so the tags of its record are listed as those of the field.
    """
    if not isinstance(schema, dict):
        return
    if _is_object(schema):
        yield _Place(RECORD, (f"{scope}object",), schema, listed=not in_field)
        members = schema.get("properties")
        for name, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, dict):
                yield _Place(FIELD, (f"{scope}object.{name}",), member)
                yield from _find_in_json(member, f"{scope}object.{name}.", in_field=True)
        for part in _DEFINITIONS:
            defined = schema.get(part)
            for name, subschema in defined.items() if isinstance(defined, dict) else ():
                yield from _find_in_json(subschema, f"{scope}object.{part}.{name}.", in_field=False)
    for part, word in _COMBINED.items():
        several = schema.get(part)
        for number, subschema in enumerate(several if isinstance(several, list) else ()):
            yield from _find_in_json(subschema, f"{scope}{word}.{number}.", in_field=False)
    for part in _CONDITIONS:
        yield from _find_in_json(schema.get(part), f"{scope}conditional.{part}.", in_field=False)
    yield from _find_in_json(schema.get("not"), f"{scope}not.", in_field=False)
    yield from _find_in_json(schema.get("items"), f"{scope}array.", in_field=False)


def _is_object(schema: Mapping[str, JSON]) -> bool:
    kind = schema.get("type")
    is_declared = "object" in kind if isinstance(kind, list) else kind == "object"
    return is_declared or not schema.keys().isdisjoint(("properties", *_DEFINITIONS))
