"""What the keywords of a schema object say, in those of the newest draft."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from signalbook.values import JSON, JSONObject

# Makes the term of a sub-schema, given the tokens that lead to it.
Sub = Callable[..., Any]

ONE: Final = (
    "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not", "if",
    "then", "else",
)  # fmt: skip
MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs", "dependencies")
_PLAIN: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "const")
_COUNTS: Final = (
    "minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
# The year each keyword came with, where that is not the first one.
_SINCE: Final = {
    "const": 2017, "contains": 2017, "propertyNames": 2017, "if": 2018, "then": 2018, "else": 2018,
    "dependentRequired": 2019, "dependentSchemas": 2019, "minContains": 2019, "maxContains": 2019,
    "unevaluatedProperties": 2019, "unevaluatedItems": 2019, "prefixItems": 2020,
}  # fmt: skip


def says(schema: JSONObject, year: int, sub: Sub) -> dict[str, Any]:
    """What a schema object says; references are left to the caller.

    ``sub(schema, *tokens)`` gives the term of a sub-schema.
    """
    known = {keyword: value for keyword, value in schema.items() if _SINCE.get(keyword, 0) <= year}
    found: dict[str, Any] = {keyword: known[keyword] for keyword in _PLAIN if keyword in known}
    found |= {keyword: int(known[keyword]) for keyword in _COUNTS if keyword in known}
    found |= {keyword: sub(known[keyword], keyword) for keyword in ONE if keyword in known}
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in known:
            found[keyword] = tuple(sub(item, keyword, index) for index, item in enumerate(known[keyword]))
    for keyword in ("properties", "patternProperties", "dependentSchemas"):
        if keyword in known:
            found[keyword] = {name: sub(item, keyword, name) for name, item in known[keyword].items()}
    _sets(known, found)
    _exclusive(known, found)
    _dependencies(known, found)
    found |= _items(known, year, sub) | _content(known, year)
    _schema_dependencies(known, sub, found)
    return {keyword: value for keyword, value in found.items() if not _idle(keyword, value, found)}


def children(schema: JSONObject) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """Every sub-schema of a schema object with the tokens that lead to it, whatever the draft."""
    for keyword in (*ONE, "items", "additionalItems"):
        if isinstance(schema.get(keyword), dict):
            yield (keyword,), schema[keyword]
    for keyword in (*MANY, "items"):
        if isinstance(schema.get(keyword), list):
            yield from (((keyword, str(index)), item) for index, item in enumerate(schema[keyword]))
    for keyword in NAMED:
        if isinstance(schema.get(keyword), dict):
            yield from (((keyword, name), item) for name, item in schema[keyword].items())


def _sets(known: JSONObject, found: dict[str, Any]) -> None:
    if "type" in known:
        found["type"] = frozenset([known["type"]] if isinstance(known["type"], str) else known["type"])
    if isinstance(known.get("required"), list):
        found["required"] = frozenset(known["required"])
    if isinstance(known.get("enum"), list):
        found["enum"] = tuple(known["enum"])
    if known.get("uniqueItems") is True:
        found["uniqueItems"] = True


def _content(known: JSONObject, year: int) -> dict[str, Any]:
    """Asserted by the validator in the two drafts that allow it."""
    named = (known.get("contentEncoding"), known.get("contentMediaType"))
    return {"content": named} if year in (2017, 2018) and any(named) else {}


def _exclusive(known: JSONObject, found: dict[str, Any]) -> None:
    """Draft-04 says with a boolean that the bound beside it is itself excluded."""
    for closed, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(known.get(opened), bool):
            del found[opened]
            if known[opened] and closed in found:
                found[opened] = found.pop(closed)


def _dependencies(known: JSONObject, found: dict[str, Any]) -> None:
    """The older keyword is still honoured in the newer drafts."""
    older = known.get("dependencies", {})
    named = {
        **{name: need for name, need in older.items() if isinstance(need, list)},
        **known.get("dependentRequired", {}),
    }
    for name in older.keys() & known.get("dependentRequired", {}).keys():
        if isinstance(older[name], list):
            named[name] = [*older[name], *named[name]]
    if named:
        found["dependentRequired"] = {name: frozenset(need) for name, need in named.items()}


def _schema_dependencies(known: JSONObject, sub: Sub, found: dict[str, Any]) -> None:
    older = {
        name: sub(item, "dependencies", name)
        for name, item in known.get("dependencies", {}).items()
        if not isinstance(item, list)
    }
    if older:
        found["dependencies"] = older


def _items(known: JSONObject, year: int, sub: Sub) -> dict[str, Any]:
    items = known.get("items")
    if isinstance(items, list) and year < 2020:
        found = {"prefixItems": tuple(sub(item, "items", index) for index, item in enumerate(items))}
        rest = {"items": sub(known["additionalItems"], "additionalItems")} if "additionalItems" in known else {}
        return {**found, **rest}
    prefix = tuple(sub(item, "prefixItems", index) for index, item in enumerate(known.get("prefixItems", ())))
    return {**({"prefixItems": prefix} if prefix else {}), **({} if items is None else {"items": sub(items, "items")})}


def _idle(keyword: str, value: Any, found: dict[str, Any]) -> bool:
    """Whether a keyword says nothing as it stands."""
    if keyword in ("minLength", "minItems", "minProperties", "required", "allOf", "prefixItems"):
        return not value
    if keyword in ("then", "else"):
        return "if" not in found
    return keyword in ("minContains", "maxContains") and "contains" not in found
