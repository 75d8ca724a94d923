"""Simple XML values: their kinds, from text to values and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from xmlschema import names
from xmlschema.validators import XsdList, XsdUnion

from signalbook.formats.shape import Kind, ListOf, Scalar
from signalbook.values import JSON

XsdType = Any
_MAX_DIGITS: Final = 38
# Built-in types with a column of their own. All others are text: dates may lack a zone or have years of five digits.
_KINDS: Final[dict[str, Kind]] = {
    names.XSD_BOOLEAN: "bool",
    names.XSD_FLOAT: "float32",
    names.XSD_DOUBLE: "float64",
    names.XSD_INT: "int32",
    names.XSD_UNSIGNED_SHORT: "int32",
    names.XSD_UNSIGNED_LONG: "uint64",
    names.XSD_INTEGER: "int64",
    names.XSD_BASE64_BINARY: "bytes",
    names.XSD_HEX_BINARY: "bytes",
    names.XSD_DECIMAL: "decimal",
}
_READ: Final[dict[str, Callable[[str], JSON]]] = {
    "bool": lambda text: text in ("true", "1"),
    "int32": int,
    "int64": int,
    "uint64": int,
    "float32": lambda text: float(text.replace("INF", "inf")),
    "float64": lambda text: float(text.replace("INF", "inf")),
    "decimal": Decimal,
    "base64": lambda text: base64.b64decode("".join(text.split())),
    "hex": bytes.fromhex,
    "string": str,
}
_WRITE: Final[dict[str, Callable[[Any], str]]] = {
    "bool": lambda value: "true" if value else "false",
    "float32": lambda value: repr(float(value)).replace("inf", "INF").replace("nan", "NaN"),
    "float64": lambda value: repr(float(value)).replace("inf", "INF").replace("nan", "NaN"),
    "decimal": lambda value: f"{value:f}",
    "base64": lambda value: base64.b64encode(value).decode(),
    "hex": lambda value: value.hex().upper(),
}
_TAKEN: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,), "int32": (int,), "int64": (int,), "uint64": (int,), "float32": (int, float),
    "float64": (int, float), "decimal": (Decimal, int), "base64": (bytes,), "hex": (bytes,), "string": (str,),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """The values of a simple type; a list of them where ``is_list``."""

    kind: Kind
    coding: str
    is_list: bool
    type: XsdType
    precision: int = 0
    scale: int = 0

    def shape(self, *, nullable: bool = False) -> Scalar | ListOf:
        """The column."""
        if self.is_list:
            return ListOf(item=self._scalar(nullable=False), nullable=nullable)
        return self._scalar(nullable=nullable)

    def _scalar(self, *, nullable: bool) -> Scalar:
        return Scalar(kind=self.kind, nullable=nullable, precision=self.precision, scale=self.scale)

    def read(self, text: str) -> JSON:
        """The value of text that the schema accepted."""
        normal = self.type.normalize(text)
        convert = _READ[self.coding]
        return [convert(part) for part in normal.split()] if self.is_list else convert(normal)

    def write(self, value: JSON) -> str:
        """Text for a value. Raises ``TypeError`` for one of another kind."""
        if not self.is_list:
            return self._write(value)
        if not isinstance(value, list):
            raise TypeError("a list")
        return " ".join(map(self._write, value))

    def _write(self, value: JSON) -> str:
        taken = _TAKEN[self.coding]
        if not isinstance(value, taken) or (isinstance(value, bool) and bool not in taken):
            raise TypeError(f"a value of the kind {self.kind}")
        return _WRITE.get(self.coding, str)(value)


def simple(xsd: XsdType) -> Simple:
    """How values of a simple type are read; a union's are text, being of one type or another."""
    items = _items(xsd)
    if items is not None:
        inner = simple(items) if _items(items) is None else _text(items)
        return Simple(
            kind=inner.kind, coding=inner.coding, is_list=True, type=xsd, precision=inner.precision, scale=inner.scale
        )
    known = _known(xsd)
    kind: Kind = _KINDS.get(known, "string")
    if kind == "decimal":
        return _decimal(xsd)
    coding = {names.XSD_BASE64_BINARY: "base64", names.XSD_HEX_BINARY: "hex"}.get(known, kind)
    return Simple(kind=kind, coding=coding, is_list=False, type=xsd)


def _text(xsd: XsdType) -> Simple:
    return Simple(kind="string", coding="string", is_list=False, type=xsd)


def _decimal(xsd: XsdType) -> Simple:
    """Exact where digits are bounded, else text."""
    total, fraction = _digits(xsd, names.XSD_TOTAL_DIGITS), _digits(xsd, names.XSD_FRACTION_DIGITS)
    if total is None or fraction is None or total > _MAX_DIGITS:
        return _text(xsd)
    return Simple(kind="decimal", coding="decimal", is_list=False, type=xsd, precision=total, scale=fraction)


def _digits(xsd: XsdType, facet: str) -> int | None:
    found = xsd.get_facet(facet)
    return None if found is None else int(found.value)


def _items(xsd: XsdType) -> XsdType | None:
    """The item type of a list, or of a restriction of one."""
    while xsd is not None and not isinstance(xsd, XsdUnion):
        if isinstance(xsd, XsdList):
            return xsd.item_type
        xsd = xsd.base_type
    return None


def _known(xsd: XsdType) -> str:
    """The nearest built-in type above that has a column of its own."""
    while xsd is not None and not isinstance(xsd, XsdUnion):
        if xsd.name in _KINDS:
            return str(xsd.name)
        if xsd.name in _INT64:
            return names.XSD_INTEGER
        if xsd.name in _INT32:
            return names.XSD_INT
        xsd = xsd.base_type
    return names.XSD_STRING


_INT32: Final = frozenset({names.XSD_SHORT, names.XSD_BYTE, names.XSD_UNSIGNED_BYTE})
_INT64: Final = frozenset({names.XSD_LONG, names.XSD_UNSIGNED_INT})
BAD_TEXT: Final = (ValueError, ArithmeticError, binascii.Error)
