"""What a filter leaves, straight from the text of core/spec.md "Filter Flag" and over nothing but the inlined JSON."""

import operator
import re
from datetime import UTC, datetime
from typing import Any

TYPES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): ("dirs",),
    ("dirs",): ("files", "notes"),
    ("dirs", "files"): ("versions",),
    ("dirs", "notes"): ("versions",),
}
"""The collections of each type of entity."""
TIMESTAMPS = {("createdat",), ("modifiedat",), ("when",), ("meta", "createdat"), ("meta", "modifiedat")}
_OPERATOR = re.compile(r"!=|<>|<=|>=|=|<|>")
_STEP = re.compile(r"\.?([a-z0-9_-]+|\*)|\['([^']*)'\]|\[(\d+|\*)\]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_COMPARE = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

Path = tuple[str, ...]


def filtered(registry: dict[str, Any], values: list[str]) -> dict[str, Any] | None:
    """The Registry with everything inlined and only what one of ``values`` leaves; None if that is nothing."""
    entities = dict(_entities(registry, ()))
    leaves = [leaf for value in values for leaf in _leaves(entities, value.split(","))]
    paths = {path for path in entities for leaf in leaves if path == leaf[: len(path)] or leaf == path[: len(leaf)]}
    return _pruned(registry, (), paths) if leaves else None


def _entities(entity: dict[str, Any], path: Path) -> list[tuple[Path, dict[str, Any]]]:
    entities = [(path, entity)]
    for plural in TYPES.get(path[0::2], ()):
        for name, member in entity.get(plural, {}).items():
            entities += _entities(member, (*path, plural, name))
    return entities


def _leaves(entities: dict[Path, dict[str, Any]], expressions: list[str]) -> list[Path]:
    parsed = [_parse(text) for text in expressions]
    deepest = max((types for types, *_ in parsed), key=len)
    return [
        path
        for path in entities
        if path[0::2] == deepest
        and all(
            path[: 2 * len(types)][0::2] == types and _passes(entities[path[: 2 * len(types)]], *test)
            for types, *test in parsed
        )
    ]


def _parse(text: str) -> tuple[Any, ...]:
    match = _OPERATOR.search(text)
    path, sign, value = (text[: match.start()], match[0], text[match.end() :]) if match else (text, "", "")
    steps = [(key or quoted, None) if key or quoted else (None, index) for key, quoted, index in _STEP.findall(path)]
    quotes = re.findall(r"\['\*'\]", path)
    types: Path = ()
    while steps[0][0] in TYPES.get(types, ()):
        types, steps = (*types, str(steps[0][0])), steps[1:]
    return types, steps, sign, value, bool(quotes)


def _passes(entity: Any, steps: list[Any], sign: str, value: str, quoted: bool) -> bool:
    values = [item for item in _find(entity, steps, quoted) if item is not None]
    timestamp = tuple(name for name, _ in steps) in TIMESTAMPS
    if sign in ("", "!=", "<>") and (not sign or value == "null"):
        return bool(values)
    if sign == "=" and value == "null":
        return not values
    if sign in ("!=", "<>"):
        return not any(_compares(item, "=", value, timestamp) for item in values)
    return any(_compares(item, sign, value, timestamp) for item in values)


def _find(value: Any, steps: list[Any], quoted: bool) -> list[Any]:
    if not steps:
        return [value]
    (name, index), *further_steps = steps
    inner: list[Any] = []
    if name is not None and isinstance(value, dict):
        inner = list(value.values()) if name == "*" and not quoted else [value[name]] if name in value else []
    if index is not None and isinstance(value, list):
        inner = value if index == "*" else value[int(index) : int(index) + 1]
    return [value_found for item in inner for value_found in _find(item, further_steps, quoted)]


def _compares(item: Any, sign: str, value: str, timestamp: bool) -> bool:
    if sign == "=" and value == "*":
        return True
    operand: Any
    right: Any
    if isinstance(item, bool):
        operand, right = item, {"true": True, "false": False}.get(value)
    elif isinstance(item, (int, float)):
        operand, right = item, float(value) if _NUMBER.fullmatch(value) else None
    elif isinstance(item, str):
        operand, right = item.casefold(), value.casefold()
        if timestamp and _instant(value) is not None:
            operand, right = _instant(item), _instant(value)
        elif sign == "=":
            pattern = "".join(
                {"*": ".*", r"\*": r"\*"}.get(part, re.escape(part)) for part in re.split(r"(\\?\*)", right)
            )
            return re.fullmatch(pattern, operand, re.DOTALL) is not None
    else:
        return False
    return right is not None and bool(_COMPARE[sign](operand, right))


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) if "T" in text else None


def _pruned(entity: dict[str, Any], path: Path, paths: set[Path]) -> dict[str, Any]:
    result = dict(entity)
    for plural in TYPES.get(path[0::2], ()):
        if plural in result:
            members = {
                name: _pruned(member, (*path, plural, name), paths)
                for name, member in result[plural].items()
                if (*path, plural, name) in paths
            }
            result |= {plural: members, f"{plural}count": len(members)}
    return result
