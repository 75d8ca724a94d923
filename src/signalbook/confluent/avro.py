"""Avro schemas as all clients have them, and with the types of other subjects put where they are named."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from signalbook.formats.base import Resolve

_NAMED: Final = ("record", "error", "enum", "fixed")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_RESERVED: Final = ("type", "name", "namespace", "doc", "fields", "symbols", "size", "items", "values", "aliases")
_OF_FIELDS: Final = ("name", "type", "doc", "default", "order", "aliases")
_MOST: Final = 100_000
"""Types in one schema."""


def parsed(schema: Any, namespace: str = "") -> Any:
    """``schema`` as Avro's library for Java writes what it read: members in one order, names as short as can be.

    Confluent's server stores that text, so that a schema is the same whichever library laid it out (Avro 1.12,
    ``Schema.toString``). What is no schema stays as it is, for who judges it.
    """
    if isinstance(schema, str):
        return _short(schema, namespace)
    if isinstance(schema, list):
        return [parsed(each, namespace) for each in schema]
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        return schema
    more = {name: value for name, value in schema.items() if name not in _RESERVED}
    if kind in _NAMED:
        return _parsed_named(schema, kind, namespace, more) if isinstance(schema.get("name"), str) else schema
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {"type": kind, part: parsed(schema[part], namespace), **more} if part in schema else schema
    if kind in _PRIMITIVES:
        return {"type": kind, **more} if more else kind
    return schema if more else parsed(kind, namespace)


def _parsed_named(schema: dict[str, Any], kind: str, namespace: str, more: dict[str, Any]) -> dict[str, Any]:
    space, _, name = schema["name"].rpartition(".")
    space = space or str(schema.get("namespace", namespace) or "")
    found: dict[str, Any] = {"type": kind, "name": name}
    if space != namespace:
        found["namespace"] = space
    if isinstance(schema.get("doc"), str):
        found["doc"] = schema["doc"]
    if kind == "enum":
        found |= {part: schema[part] for part in ("symbols", "default") if part in schema}
        more.pop("default", None)
    elif kind == "fixed":
        found |= {"size": schema["size"]} if "size" in schema else {}
    elif isinstance(schema.get("fields"), list):
        found["fields"] = [_parsed_field(each, space) for each in schema["fields"]]
    return {**found, **more, **_aliases(schema, space)}


def _parsed_field(field: Any, space: str) -> Any:
    if not isinstance(field, dict) or "name" not in field or "type" not in field:
        return field
    found = {"name": field["name"], "type": parsed(field["type"], space)}
    found |= {part: field[part] for part in ("doc", "default") if part in field}
    if str(field.get("order", "ascending")).lower() != "ascending":
        found["order"] = str(field["order"]).lower()
    found |= {"aliases": field["aliases"]} if field.get("aliases", []) != [] else {}
    return {**found, **{name: value for name, value in field.items() if name not in _OF_FIELDS}}


def _aliases(schema: dict[str, Any], space: str) -> dict[str, Any]:
    """Return the aliases without the namespace that they are in anyway."""
    given = schema.get("aliases", [])
    if not isinstance(given, list):
        return {"aliases": given}
    return {"aliases": [_short(each, space) for each in given]} if given else {}


def _short(name: Any, space: str) -> Any:
    """A full name without the namespace that it is in anyway."""
    if not isinstance(name, str):
        return name
    own, _, last = name.rpartition(".")
    return last if own and own == space and last not in _PRIMITIVES else name


def inlined(schema: Any, resolve: Resolve) -> Any:
    """``schema`` as one document: ``resolve`` is asked for the types that it names and does not define."""
    return _Inlining(resolve).type(schema, "")


class _Inlining:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: set[str] = set()

    def type(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.type(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        if kind in _NAMED:
            name = str(schema.get("name", ""))
            space = name.rpartition(".")[0] or str(schema.get("namespace", namespace))
            self._known.add(_full(name, space))
            fields = [{**field, "type": self.type(field["type"], space)} for field in schema.get("fields") or ()]
            return {**schema, "fields": fields} if "fields" in schema else schema
        parts = {part: self.type(schema[part], namespace) for part in ("items", "values") if part in schema}
        return {**schema, **parts} if parts else {**schema, "type": self.type(kind, namespace)}

    def _named(self, name: str, namespace: str) -> Any:
        full = _full(name, namespace)
        if full in self._known or len(self._known) > _MOST:
            return name
        document = self._resolve(full) or self._resolve(name)
        return name if document is None else self.type(msgspec.json.decode(document), "")


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
