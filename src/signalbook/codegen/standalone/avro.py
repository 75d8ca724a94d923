"""Avro schemas as libraries read them: self-contained, with full names, and without attributes that change no bytes."""

from __future__ import annotations

from typing import Any, Final, Literal

from signalbook.codegen.base import Inexpressible
from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.values import JSONObject

_KEPT: Final = ("name", "fields", "symbols", "items", "values", "size", "default")
_LOGICAL: Final = frozenset(
    {
        *(("int", "date"), ("int", "time-millis"), ("long", "time-micros")),
        *(("long", "timestamp-millis"), ("long", "timestamp-micros"), ("bytes", "decimal"), ("fixed", "decimal")),
    }
)
BASE64: Final = "base64"
"""The logical type of bytes that are base64 in values. Other readers of Avro ignore it."""


class AvroSchemas:
    """The schemas that were requested of one document. ``document`` has them by name."""

    format: Final[Literal["avro"]] = "avro"

    def __init__(self) -> None:
        self.document: JSONObject = {}

    def of(self, schema: Any) -> str:
        """Return the name of a schema, which is added to ``document`` if it is new. Raises ``Inexpressible``."""
        assert isinstance(schema, AvroSchema)
        normal = _normalise(schema.names.complete(schema.type))
        for name, other in self.document.items():
            if other == normal:
                return name
        name = str(len(self.document))
        self.document[name] = normal
        return name


def _normalise(node: Type) -> Type:
    if isinstance(node, list):
        branches = list(map(_normalise, node))
        _check_union(branches)
        return branches
    if isinstance(node, str):
        return {"type": node, "logicalType": BASE64} if node == "bytes" else node
    kind = "record" if node["type"] == "error" else node["type"]
    normal: JSONObject = {"type": kind, **{name: node[name] for name in _KEPT if name in node}}
    normal |= {name: _normalise(node[name]) for name in ("items", "values") if name in node}
    if "fields" in node:
        normal["fields"] = [
            {name: _normalise(part[name]) if name == "type" else part[name]
             for name in ("name", "type", "default") if name in part}
            for part in node["fields"]
        ]  # fmt: skip
    logical = node.get("logicalType")
    if (kind, logical) in _LOGICAL:
        normal |= {name: node[name] for name in ("logicalType", "precision", "scale") if name in node}
    elif kind in ("bytes", "fixed"):
        normal["logicalType"] = BASE64
    return kind if kind in PRIMITIVES and len(normal) == 1 else normal


def _check_union(branches: list[Type]) -> None:
    """Raise ``Inexpressible`` if a value of a map or a record can look like a tagged value of Avro's JSON encoding.

    Libraries read ``{"string": "x"}`` as the string of a union. Values of a nullable map have the type of the map.
    """
    names = [_name_branch(branch) for branch in branches]
    for branch in branches:
        if _name_branch(branch) == "map" and len([name for name in names if name != "null"]) > 1:
            raise Inexpressible("its schema has a union of a map and other types, which libraries read differently")
        fields = branch["fields"] if isinstance(branch, dict) and branch["type"] == "record" else ()
        needed = [field["name"] for field in fields if "default" not in field]
        if any(field["name"] in names and set(needed) <= {field["name"]} for field in fields):
            raise Inexpressible("its schema has a union with a record that has a field named like another type of it")


def _name_branch(branch: Type) -> str:
    return branch if isinstance(branch, str) else str(branch.get("name") or branch["type"])
