"""Check that the indices in a binary datum are not negative.

The decoder interprets -1 as the last symbol of an enum or the last alternative of a union.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from signalbook.formats.avro.document import PRIMITIVES
from signalbook.values import JSONObject

# A schema node as in ``json_encoding``: a name, a list of alternatives, or an object.
_Node = Any
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def has_indices(node: _Node, types: Mapping[str, JSONObject]) -> bool:
    """Return True if a datum of ``node`` may contain an enum or a union."""
    nodes, seen = [node], set()
    while nodes:
        part = nodes.pop()
        if isinstance(part, str) and part not in PRIMITIVES:
            if part in seen:
                continue
            seen.add(part)
            part = types[part]
        if isinstance(part, list) or (isinstance(part, dict) and part["type"] == "enum"):
            return True
        if isinstance(part, dict):
            nodes += [part[key] for key in ("items", "values") if key in part]
            nodes += [field["type"] for field in part.get("fields", ())]
    return False


def check_indices(datum: bytes, node: _Node, types: Mapping[str, JSONObject]) -> None:
    """Raise ``ValueError`` if ``datum`` has a negative index. The decoder must have accepted the datum before."""
    _Datum(datum, types).skip(node)


class _Datum:
    """The bytes of a datum and the current position in them."""

    def __init__(self, datum: bytes, types: Mapping[str, JSONObject]) -> None:
        self._datum = datum
        self._types = types
        self._at = 0

    def skip(self, node: _Node) -> None:
        """Move the position past a value of ``node``."""
        if isinstance(node, str) and node not in PRIMITIVES:
            node = self._types[node]
        if isinstance(node, list):
            self.skip(node[self._index("union")])
            return
        kind = node if isinstance(node, str) else node["type"]
        if kind in ("int", "long"):
            self._read_number()
        elif kind in ("string", "bytes"):
            size = self._read_number()  # this call moves the position itself
            self._at += size
        elif kind in _WIDTHS:
            self._at += _WIDTHS[kind]
        else:
            self._skip_complex(kind, node)

    def _skip_complex(self, kind: str, node: JSONObject) -> None:
        match kind:
            case "enum":
                self._index("enum")
            case "fixed":
                self._at += node["size"]
            case "array":
                self._skip_blocks(lambda: self.skip(node["items"]))
            case "map":
                self._skip_blocks(lambda: self._skip_entry(node["values"]))
            case "record" | "error":
                for field in node["fields"]:
                    self.skip(field["type"])
            case _:
                self.skip(node["type"])

    def _skip_entry(self, value: _Node) -> None:
        self.skip("string")
        self.skip(value)

    def _skip_blocks(self, skip_item: Callable[[], object]) -> None:
        while count := self._read_number():
            if count < 0:  # the size of the block in bytes follows
                self._read_number()
            for _ in range(abs(count)):
                skip_item()

    def _index(self, kind: str) -> int:
        index = self._read_number()
        if index < 0:
            raise ValueError(f"the index of {'an enum' if kind == 'enum' else 'a union'} is {index}")
        return index

    def _read_number(self) -> int:
        value = shift = 0
        while True:
            byte = self._datum[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
