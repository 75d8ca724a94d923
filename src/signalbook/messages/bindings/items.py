"""Headers, query parameters and the like in a definition: a list of named properties, however it was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from signalbook.messages.properties import PropertyError
from signalbook.messages.structure import malformed_property, normal_property
from signalbook.values import JSON, JSONObject

T = TypeVar("T")


def named_items(value: JSON) -> list[JSONObject]:
    """A list of objects with a ``name``, from such a list or from a map of names to values or objects (K-11).

    Raises ``PropertyError`` for anything else.
    """
    if isinstance(value, dict):
        return [_named(name, item) for name, item in value.items()]
    if isinstance(value, list):
        return [_listed(item) for item in value]
    raise PropertyError("must be a list of objects with a name, or a map of names")


def _named(name: str, item: JSON) -> JSONObject:
    return _listed(
        {**item, "name": item.get("name") or name} if isinstance(item, dict) else {"name": name, "value": item}
    )


def _listed(item: JSON) -> JSONObject:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        raise PropertyError("each item must be an object with a name")
    found: JSONObject = normal_property(item)
    faults = list(malformed_property(item["name"], found))
    if faults:
        raise PropertyError(f"{faults[0].path} {faults[0].message}")
    return found


def grouped(pairs: Any, prefix: str, *, fold: bool) -> dict[str, tuple[str, ...]]:
    """Name-value pairs as tuples of values by property name; with ``fold`` names compare without case (K-20)."""
    values: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        key = prefix + (name.lower() if fold else name)
        values[key] = (*values[key], value) if key in values else (value,)
    return values


def regrouped(
    pairs: Iterable[tuple[str, T]], values: Mapping[str, Any], prefix: str, *, fold: bool
) -> tuple[tuple[str, T], ...]:
    """The pairs with ``values``, by property name, in place of those with the same name: the reverse of ``grouped``."""
    named = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    taken = {name.lower() if fold else name for name in named}
    kept = [(name, value) for name, value in pairs if (name.lower() if fold else name) not in taken]
    added = [(name, one) for name, value in named.items() for one in (value if isinstance(value, tuple) else (value,))]
    return (*kept, *added)
