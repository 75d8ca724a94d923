"""Avro schemas with the types that they refer to in other subjects put where they are first named."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from signalbook.formats.base import Resolve

_NAMED: Final = ("record", "error", "enum", "fixed")
_MOST: Final = 100_000
"""Types in one schema."""


def defined_type(document: bytes) -> str | None:
    """The full name of the type that a document defines, None for one without a name."""
    try:
        found = msgspec.json.decode(document)
    except msgspec.DecodeError:
        return None
    name = found.get("name") if isinstance(found, dict) and found.get("type") in _NAMED else None
    return _full(name, str(found.get("namespace") or "")) if isinstance(name, str) else None


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
            return [self.type(each, namespace) for each in schema]
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        if kind in _NAMED:
            name = str(schema.get("name", ""))
            space = name.rpartition(".")[0] or str(schema.get("namespace", namespace))
            self._known.add(_full(name, space))
            fields = [{**each, "type": self.type(each["type"], space)} for each in schema.get("fields") or ()]
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
