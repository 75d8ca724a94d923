"""The types of JSON Structure Core: the primitive types with checks of their JSON values, and declared types."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final
from urllib.parse import unquote

from signalbook.formats.shape import Kind
from signalbook.values import JSON, JSONObject, parse_timestamp

# A function that returns what is wrong with a value, given its schema; "" if the value is right.
Check = Callable[[JSON, JSONObject], str]

_INT: Final = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DECIMAL: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ZONED: Final = re.compile(r".*(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(
    r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)", re.ASCII
)  # fmt: skip
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_URI: Final = re.compile(r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9a-f]{2})*", re.ASCII | re.IGNORECASE)
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")
MAX_DIGITS: Final = 1000


def _check_integer(low: int, high: int) -> Check:
    def check(value: JSON, _: JSONObject) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            return "expected an integer, written without quotes or fraction"
        return "" if low <= value <= high else f"{value} is not between {low} and {high}"

    return check


def _check_long(low: int, high: int) -> Check:
    """Return the check for integers that are written as strings, because JSON numbers cannot hold them safely."""

    def check(value: JSON, _: JSONObject) -> str:
        if not isinstance(value, str) or not _INT.fullmatch(value):
            return "expected an integer, written as a string"
        fits = len(value) < MAX_DIGITS and low <= int(value) <= high
        return "" if fits else f"{value} is not between {low} and {high}"

    return check


def _check_number(limit: float = 0.0) -> Check:
    def check(value: JSON, _: JSONObject) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return "expected a number, written without quotes"
        return "" if not limit or -limit <= value <= limit else f"{value} is beyond {limit}"

    return check


def _check_decimal(value: JSON, schema: JSONObject) -> str:
    if not isinstance(value, str) or len(value) > MAX_DIGITS or not _DECIMAL.fullmatch(value):
        return "expected a decimal number, written as a string"
    digits, exponent = Decimal(value).as_tuple()[1:]
    scale = -int(exponent)
    if "scale" in schema and scale > schema["scale"]:
        return f"{value} has more than {schema['scale']} digits after the point"
    precision = max(len(digits), scale)
    if "precision" in schema and precision > schema["precision"]:
        return f"{value} has more than {schema['precision']} digits"
    return ""


def _check_string(value: JSON, schema: JSONObject) -> str:
    if not isinstance(value, str):
        return "expected a string"
    most = schema.get("maxLength")
    return (
        "" if most is None or len(value) <= most else f"expected at most {most} characters, but there are {len(value)}"
    )


def _check_text(description: str, accepts: Callable[[str], bool]) -> Check:
    def check(value: JSON, _: JSONObject) -> str:
        return "" if isinstance(value, str) and accepts(value) else f"expected {description}"

    return check


def _is_date(value: str) -> bool:
    try:
        return bool(_DATE.fullmatch(value) and date.fromisoformat(value))
    except ValueError:
        return False


def _is_datetime(value: str) -> bool:
    try:
        return bool(_ZONED.fullmatch(value) and parse_timestamp(value))
    except ValueError:
        return False


def _is_time(value: str) -> bool:
    return bool(_TIME.fullmatch(value)) and _is_datetime(f"1972-12-31T{value}")


def _decode_base64url(text: str) -> bytes:
    if "+" in text or "/" in text:
        raise ValueError("characters of base64")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


_ENCODINGS: Final[dict[str, Callable[[str], bytes]]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "base64url": _decode_base64url,
    "base32": base64.b32decode,
    "base32hex": base64.b32hexdecode,
    "base16": lambda text: base64.b16decode(text, casefold=True),
}
ENCODINGS: Final = tuple(_ENCODINGS)


def _check_binary(value: JSON, schema: JSONObject) -> str:
    name = schema.get("contentEncoding", "base64")
    try:
        if isinstance(value, str):
            _ENCODINGS[name](value)
            return ""
    except (binascii.Error, ValueError):
        pass
    return f"expected bytes in {name}"


def _check_only(description: str, *values: JSON) -> Check:
    return lambda value, _: "" if any(value is allowed for allowed in values) else f"expected {description}"


# The smallest and the largest value of the integers that are JSON numbers, then of those that are strings.
INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "integer": (-(2**31), 2**31 - 1),
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32)},
}
LONGS: Final[dict[str, tuple[int, int]]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (64, 128)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (64, 128)},
}
# The largest absolute value of the number types; 0 means no limit.
FLOATS: Final[dict[str, float]] = {
    "number": 0.0, "float8": 3.4e3, "float": 3.4028234663852886e38, "double": 1.7976931348623157e308,
}  # fmt: skip

PRIMITIVES: Final[dict[str, Check]] = {
    "string": _check_string,
    "boolean": _check_only("true or false", True, False),
    "null": _check_only("null", None),
    **{name: _check_integer(*bounds) for name, bounds in INTEGERS.items()},
    **{name: _check_long(*bounds) for name, bounds in LONGS.items()},
    **{name: _check_number(limit) for name, limit in FLOATS.items()},
    "decimal": _check_decimal,
    "date": _check_text("a date such as 2030-12-31", _is_date),
    "datetime": _check_text("a date and time with an offset such as 2030-12-31T23:59:59Z", _is_datetime),
    "time": _check_text("a time with an offset such as 23:59:59Z", _is_time),
    "duration": _check_text("a duration such as P1DT12H", lambda value: bool(_DURATION.fullmatch(value))),
    "uuid": _check_text("a UUID", lambda value: bool(_UUID.fullmatch(value))),
    "uri": _check_text("a URI or a reference to one", lambda value: bool(_URI.fullmatch(value))),
    "jsonpointer": _check_text("a JSON Pointer", lambda value: bool(_POINTER.fullmatch(value))),
    "binary": _check_binary,
}
# The kind of column by type. Types that are neither here nor in ``TIMES`` have columns of text, except some decimals.
KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("integer", "int8", "uint8", "int16", "uint16", "int32"), "int32"),
    "uint32": "int64",
    **dict.fromkeys(("number", "float8", "float", "double"), "float64"),
    "boolean": "bool",
    "uuid": "uuid",
}


# The kind of column for types that are JSON strings but have their own kind.
TIMES: Final[dict[str, Kind]] = {"datetime": "timestamp", "date": "date"}
COMPOUND: Final = frozenset({"object", "array", "set", "map", "tuple", "choice", "any"})
TYPES: Final = frozenset(PRIMITIVES) | COMPOUND
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Keywords that import types from other documents.
IMPORTS: Final = ("$import", "$importdefs")
MAX_BASES: Final = 64
MAX_REFERENCES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structure:
    """A parsed document. ``members`` caches the properties of types, including the properties of their bases."""

    root: JSONObject
    fingerprint: str
    members: dict[int, dict[str, JSON]] = field(default_factory=dict)

    def lookup(self, pointer: str) -> JSON:
        """Return the value at ``pointer``, a JSON Pointer with or without a leading ``#``; None if
        there is no such value.
        """
        node: JSON = self.root
        for token in unquote(pointer.removeprefix("#")).split("/")[1:]:
            node = node.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def find_top(self) -> JSONObject | None:
        """Return the type of whole payloads: the root, or the type that ``$root`` names; None if there is neither."""
        if "type" in self.root:
            return self.root
        schema = self.lookup(self.root["$root"]) if isinstance(self.root.get("$root"), str) else None
        return schema if isinstance(schema, dict) else None

    def list_bases(self, schema: JSONObject) -> Iterator[JSONObject]:
        """Yield the types that ``schema`` extends, nearest first, each once; at most ``MAX_BASES``."""
        seen: list[JSONObject] = [schema]
        waiting = list_extended(schema)
        while waiting and len(seen) <= MAX_BASES:
            base = self.lookup(waiting.pop(0))
            if isinstance(base, dict) and not any(base is schema_seen for schema_seen in seen):
                seen.append(base)
                yield base
                waiting += list_extended(base)

    def list_properties(self, schema: JSONObject) -> dict[str, JSON]:
        """Return the properties of a type; properties of its bases come first."""
        # Cached by identity, because dictionaries have no hash. The document keeps them alive.
        key = id(schema)
        if key not in self.members:
            members: dict[str, JSON] = {}
            for declaration in (*self.list_bases(schema), schema):
                declared = declaration.get("properties")
                for name, member in declared.items() if isinstance(declared, dict) else ():
                    members.setdefault(name, member)
            self.members[key] = members
        return self.members[key]


def list_extended(schema: JSONObject) -> list[str]:
    """Return the pointers in ``$extends``."""
    pointers = schema.get("$extends", [])
    return [pointer for pointer in (pointers if isinstance(pointers, list) else [pointers]) if isinstance(pointer, str)]


def list_required(structure: Structure, schema: JSONObject) -> list[list[str]]:
    """Return the alternative sets of required properties; each set includes the required properties of the bases."""
    inherited: list[str] = []
    for base in structure.list_bases(schema):
        sets = _list_sets(base)
        inherited += sets[0] if len(sets) == 1 else []
    return [[*inherited, *names] for names in _list_sets(schema)]


def _list_sets(schema: JSONObject) -> list[list[str]]:
    required = schema.get("required", [])
    if isinstance(required, list) and required and all(isinstance(names, list) for names in required):
        return required
    return [required if isinstance(required, list) else []]


def resolve_type(structure: Structure, schema: JSON) -> JSONObject:
    """Return ``schema``, or the type that it refers to; empty if the reference leads to no type."""
    for _ in range(MAX_REFERENCES):
        kind = schema.get("type") if isinstance(schema, dict) else None
        if not isinstance(kind, dict):
            break
        schema = structure.lookup(kind["$ref"]) if "$ref" in kind else kind
    return schema if isinstance(schema, dict) else {}
