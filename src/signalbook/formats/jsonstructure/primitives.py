"""The comparison of primitive types of JSON Structure, by the JSON texts of their values."""

from __future__ import annotations

from typing import Final, Literal

from signalbook.formats.jsonstructure.types import FLOATS, INTEGERS, LONGS, MAX_DIGITS, PRIMITIVES
from signalbook.values import JSON, JSONObject

Family = Literal["null", "boolean", "number", "string", "array", "object"]
# The rule, the keyword, and a message.
Problem = tuple[str, str, str]

# The maximum length of the texts of these types, in characters. For strings and numbers see ``_find_longest``.
_LENGTHS: Final = {"date": 10, "datetime": 38, "time": 27, "uuid": 36}
# Types whose texts contain only characters that are valid in a URI.
_URIS: Final = frozenset({"date", "datetime", "time", "duration", "uuid", "decimal", "binary", *LONGS})


def find_json_type(kind: str) -> Family | None:
    """Return the JSON type of the values of ``kind``; None for ``any``."""
    if kind in PRIMITIVES:
        if kind in ("null", "boolean"):
            return "null" if kind == "null" else "boolean"
        return "number" if kind in INTEGERS or kind in FLOATS else "string"
    if kind == "any":
        return None
    return "array" if kind in ("array", "set", "tuple") else "object"


def list_values(schema: JSONObject) -> list[JSON] | None:
    """Return all values of a primitive type if they are few (listed values, booleans, null, ``""``), else None."""
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    if schema["type"] == "string" and schema.get("maxLength") == 0:
        return [""]
    few: dict[str, list[JSON]] = {"boolean": [True, False], "null": [None]}
    return few.get(schema["type"])


def is_empty(schema: JSONObject) -> bool:
    """Return True if no value conforms to a primitive type, such as a decimal number without digits."""
    return list_values(schema) == [] or (schema["type"] == "decimal" and schema.get("precision") == 0)


def find_problem(writer: JSONObject, reader: JSONObject) -> Problem | None:
    """Return why values of ``writer`` may not be values of ``reader``, a primitive type of the same JSON type; else
    None.

    ``writer`` must not have listed values.
    """
    if "enum" in reader or "const" in reader:
        keyword = "const" if "const" in reader else "enum"
        return "enum_added", keyword, "only listed values are accepted here, but others may be written"
    old, new = writer["type"], reader["type"]
    if find_json_type(old) == "number":
        return _compare_numbers(old, new)
    if new == "string":
        return _compare_lengths(writer, reader)
    if new in LONGS or new == "decimal":
        return _compare_decimals(writer, reader)
    if new == "uri" and old in _URIS:
        return None
    if old != new:
        return "type_changed", "type", f"a {old} need not be a {new}"
    if old == "binary" and (before := _read_encoding(writer)) != (after := _read_encoding(reader)):
        return "encoding_changed", "contentEncoding", f"bytes are written in {before}, but read in {after}"
    return None


def _read_encoding(schema: JSONObject) -> str:
    return str(schema.get("contentEncoding", "base64"))


def _compare_numbers(old: str, new: str) -> Problem | None:
    if new in INTEGERS and old not in INTEGERS:
        return "type_narrowed", "type", f"a {old} may have a fraction, and is written unlike a {new}"
    low, high = _find_range(old)
    least, most = _find_range(new)
    if low < least or high > most:
        return "type_narrowed", "type", f"a {old} may lie outside of {least} to {most}"
    return None


def _find_range(kind: str) -> tuple[float, float]:
    limit = FLOATS.get(kind, 0.0) or float("inf")
    return INTEGERS.get(kind, (-limit, limit))


def _compare_lengths(writer: JSONObject, reader: JSONObject) -> Problem | None:
    most = reader.get("maxLength")
    if most is None:
        return None
    longest = _find_longest(writer)
    if longest is None:
        return "max_length_added", "maxLength", f"texts of more than {most} characters may be written"
    if longest > most:
        return "max_length_decreased", "maxLength", f"texts of {longest} characters may be written"
    return None


def _find_longest(schema: JSONObject) -> int | None:
    kind = schema["type"]
    if kind in LONGS:
        return max(2, *(len(str(bound)) for bound in LONGS[kind]))  # -0 is also an integer
    if kind == "decimal":
        return min(schema["precision"] + 3, MAX_DIGITS) if "precision" in schema else MAX_DIGITS
    longest: int | None = schema.get("maxLength") if kind == "string" else _LENGTHS.get(kind)
    return longest


def _compare_decimals(writer: JSONObject, reader: JSONObject) -> Problem | None:
    """Return the problem of reading ``writer`` as ``reader``, both decimals or long integers
    (strings of digits), or None.
    """
    old, new = writer["type"], reader["type"]
    if old not in LONGS and old != "decimal":
        return "type_changed", "type", f"a {old} need not be a {new}"
    precision, scale = _read_digits(writer)
    if new == "decimal":
        for keyword, digits in (("precision", precision), ("scale", scale)):
            if keyword in reader and (digits is None or digits > reader[keyword]):
                return (
                    f"{keyword}_decreased",
                    keyword,
                    f"decimals may be written with more than {reader[keyword]} digits",
                )
        return None
    least, most = LONGS[new]
    if old == "decimal" and scale != 0:
        return "type_narrowed", "type", f"a decimal may have a fraction, which no {new} has"
    bound = 10 ** (MAX_DIGITS if precision is None else min(precision, MAX_DIGITS)) - 1
    low, high = LONGS.get(old, (-bound, bound))
    if low < least or high > most:
        return "type_narrowed", "type", f"a {old} may lie outside of {least} to {most}"
    return None


def _read_digits(schema: JSONObject) -> tuple[int | None, int | None]:
    """Return the maximum number of digits, in total and after the decimal point; None means no maximum."""
    if schema["type"] in LONGS:
        return max(len(str(abs(bound))) for bound in LONGS[schema["type"]]), 0
    precision, scale = schema.get("precision"), schema.get("scale")
    limits = [digits for digits in (precision, scale) if digits is not None]
    return precision, min(limits) if limits else None
