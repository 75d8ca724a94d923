"""Write Avro schemas in the form that all clients share, and embed the types of other subjects."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from signalbook.formats.base import Resolve

_NAMED_TYPES: Final = ("record", "error", "enum", "fixed")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_RESERVED: Final = ("type", "name", "namespace", "doc", "fields", "symbols", "size", "items", "values", "aliases")
_OF_FIELDS: Final = ("name", "type", "doc", "default", "order", "aliases")
_MAX_TYPES: Final = 100_000
"""The maximum number of types in one schema."""


def rewrite_schema(schema: Any, namespace: str = "") -> Any:
    """Return ``schema`` as Avro's Java library writes it: members in a fixed order, and names as short as possible.

    Confluent's server stores that text, so that a schema is the same whichever library formatted it (Avro 1.12,
    ``Schema.toString``). Parts that are not a schema are kept, and validation reports them later.
    """
    if isinstance(schema, str):
        return _trim_name(schema, namespace)
    if isinstance(schema, list):
        return [rewrite_schema(branch, namespace) for branch in schema]
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        return schema
    more = {name: value for name, value in schema.items() if name not in _RESERVED}
    if kind in _NAMED_TYPES:
        return _rewrite_named(schema, kind, namespace, more) if isinstance(schema.get("name"), str) else schema
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {"type": kind, part: rewrite_schema(schema[part], namespace), **more} if part in schema else schema
    if kind in _PRIMITIVES:
        return {"type": kind, **more} if more else kind
    return schema if more else rewrite_schema(kind, namespace)


def _rewrite_named(schema: dict[str, Any], kind: str, namespace: str, more: dict[str, Any]) -> dict[str, Any]:
    space, _, name = schema["name"].rpartition(".")
    space = space or str(schema.get("namespace", namespace) or "")
    rewritten: dict[str, Any] = {"type": kind, "name": name}
    if space != namespace:
        rewritten["namespace"] = space
    if isinstance(schema.get("doc"), str):
        rewritten["doc"] = schema["doc"]
    if kind == "enum":
        rewritten |= {part: schema[part] for part in ("symbols", "default") if part in schema}
        more.pop("default", None)
    elif kind == "fixed":
        rewritten |= {"size": schema["size"]} if "size" in schema else {}
    elif isinstance(schema.get("fields"), list):
        rewritten["fields"] = [_rewrite_field(field, space) for field in schema["fields"]]
    return {**rewritten, **more, **_rewrite_aliases(schema, space)}


def _rewrite_field(field: Any, space: str) -> Any:
    if not isinstance(field, dict) or "name" not in field or "type" not in field:
        return field
    rewritten = {"name": field["name"], "type": rewrite_schema(field["type"], space)}
    rewritten |= {part: field[part] for part in ("doc", "default") if part in field}
    if str(field.get("order", "ascending")).lower() != "ascending":
        rewritten["order"] = str(field["order"]).lower()
    rewritten |= {"aliases": field["aliases"]} if field.get("aliases", []) != [] else {}
    return {**rewritten, **{name: value for name, value in field.items() if name not in _OF_FIELDS}}


def _rewrite_aliases(schema: dict[str, Any], space: str) -> dict[str, Any]:
    """Return the aliases without the namespace if it is the namespace of the type."""
    aliases = schema.get("aliases", [])
    if not isinstance(aliases, list):
        return {"aliases": aliases}
    return {"aliases": [_trim_name(alias, space) for alias in aliases]} if aliases else {}


def _trim_name(name: Any, space: str) -> Any:
    """Return a full name without its namespace if that is ``space``."""
    if not isinstance(name, str):
        return name
    prefix, _, last = name.rpartition(".")
    return last if prefix and prefix == space and last not in _PRIMITIVES else name


def inline_named_types(schema: Any, resolve: Resolve) -> Any:
    """Return ``schema`` as one document. ``resolve`` returns the types that the schema names but does not define."""
    return _Inlining(resolve).inline(schema, "")


class _Inlining:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: set[str] = set()

    def inline(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._inline_named(schema, namespace)
        if isinstance(schema, list):
            return [self.inline(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        if kind in _NAMED_TYPES:
            name = str(schema.get("name", ""))
            space = name.rpartition(".")[0] or str(schema.get("namespace", namespace))
            self._known.add(_join_name(name, space))
            fields = [{**field, "type": self.inline(field["type"], space)} for field in schema.get("fields") or ()]
            return {**schema, "fields": fields} if "fields" in schema else schema
        parts = {part: self.inline(schema[part], namespace) for part in ("items", "values") if part in schema}
        return {**schema, **parts} if parts else {**schema, "type": self.inline(kind, namespace)}

    def _inline_named(self, name: str, namespace: str) -> Any:
        full = _join_name(name, namespace)
        if full in self._known or len(self._known) > _MAX_TYPES:
            return name
        document = self._resolve(full) or self._resolve(name)
        return name if document is None else self.inline(msgspec.json.decode(document), "")


def _join_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
