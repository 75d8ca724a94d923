"""Paths to attributes in filters and sort keys, and their definitions in the model.

The syntax is dot notation with wildcards (core/spec.md "Dot-Notation in Filters", R189).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from signalbook.model import Attribute, GroupType, Model, ResourceType
from signalbook.values import JSON

MAX_STEPS: Final = 32


class Wild(Enum):
    """A wildcard: ``.*`` is any key of an object or map, and ``[*]`` any item of an array.

    ``['*']`` is the key ``*``.
    """

    KEY = "*"
    ITEM = "[*]"


Step: TypeAlias = str | int | Wild
Steps: TypeAlias = tuple[Step, ...]

_NAME: Final = r"[^.\[\]'\"=!<>*\s]+"
_PLAIN_NAME: Final = re.compile(_NAME)
_STEP: Final = re.compile(
    rf"""(?P<name>{_NAME})|(?P<every>\*)|\[(?P<index>[0-9]{{1,9}})\]|\[(?P<items>\*)\]"""
    r"""|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]"""
)


def read_path(text: str) -> tuple[Steps, str]:
    """Parse the path at the beginning of ``text``.

    Returns it with the rest, which is empty or starts with ``=``, ``!``, ``<`` or ``>``. Raises ``ValueError``, with a
    message for users, if ``text`` does not start with a path.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text) and text[position] not in "=!<>":
        dotted = text[position] == "."
        match = _STEP.match(text, position + dotted)
        if match is None or dotted != (bool(steps) and not match[0].startswith("[")):
            raise ValueError(f"cannot read a path at position {position + 1}")
        steps.append(_parse_step(match))
        position = match.end()
    if not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"a path has 1 to {MAX_STEPS} steps")
    return tuple(steps), text[position:]


def _parse_step(match: re.Match[str]) -> Step:
    kind, text = str(match.lastgroup), match[str(match.lastgroup)]
    if kind == "index":
        return int(text)
    return {"every": Wild.KEY, "items": Wild.ITEM}.get(kind, text)


def find_values(value: JSON, steps: Sequence[Step]) -> list[JSON]:
    """Return all values at ``steps`` inside ``value``, except nulls."""
    values = [value]
    for step in steps:
        values = [inner for value in values for inner in _list_inside(value, step)]
    return [value for value in values if value is not None]


def _list_inside(value: JSON, step: Step) -> Iterable[JSON]:
    if isinstance(value, dict):
        if step is Wild.KEY:
            return value.values()
        return (value[step],) if isinstance(step, str) and step in value else ()
    if isinstance(value, list):
        if step is Wild.ITEM:
            return value
        return (value[step],) if isinstance(step, int) and step < len(value) else ()
    return ()


def write_path(steps: Sequence[Step]) -> str:
    """Return a path as text: the inverse of ``read_path``."""
    return "".join(map(_write_step, steps)).removeprefix(".")


def _write_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, Wild):
        return ".*" if step is Wild.KEY else step.value
    if _PLAIN_NAME.fullmatch(step):
        return f".{step}"
    return f'["{step}"]' if "'" in step else f"['{step}']"


def find_entity_type(model: Model, types: tuple[str, ...]) -> Model | GroupType | ResourceType:
    """Return the type of the entities that the collections ``types`` lead to from the root.

    For Versions this is the type of their Resource.
    """
    if not types:
        return model
    group = model.groups[types[0]]
    return group.resources[types[1]] if len(types) > 1 else group


def list_collections(model: Model, types: tuple[str, ...]) -> tuple[str, ...]:
    """Return the plural names of the collections that entities at ``types`` have."""
    if len(types) > 2:
        return ()
    entity = find_entity_type(model, types)
    if isinstance(entity, ResourceType):
        return ("versions",)
    return tuple(entity.groups if isinstance(entity, Model) else entity.resources)


def find_definitions(model: Model, types: tuple[str, ...], steps: Steps) -> list[Attribute]:
    """Return all definitions that the value at ``steps`` may have. Empty for parts that the model does not define."""
    entity = find_entity_type(model, types)
    attributes: Mapping[str, Attribute] = entity.attributes
    if isinstance(entity, ResourceType) and len(types) == 2:
        if steps[0] == "meta":
            attributes, steps = entity.metaattributes, steps[1:]
        elif steps[0] in entity.resourceattributes and steps[0] not in attributes:
            attributes = entity.resourceattributes
    if not steps:
        return []
    level = _find_by_name(attributes, steps[0])
    for step in steps[1:]:
        level = [inner for attribute in level for inner in _list_within(attribute, step)]
    return level


def is_computed(model: Model, types: tuple[str, ...], steps: Steps) -> bool:
    """Return True if the server computes the attribute at the beginning of ``steps``."""
    return any(
        attribute.managed for attribute in find_definitions(model, types, steps[: 2 if steps[0] == "meta" else 1])
    )


def _list_within(attribute: Attribute, step: Step) -> list[Attribute]:
    if attribute.attributes is not None:
        return _find_by_name(attribute.attributes, step)
    return [] if attribute.item is None else [attribute.item]


def _find_by_name(attributes: Mapping[str, Attribute], step: Step) -> list[Attribute]:
    """Return the attributes with the name ``step``, else the attribute ``*`` for extensions, if there is one."""
    all_attributes = list(_list_attributes(attributes))
    if step is Wild.KEY:
        return all_attributes
    matching = [attribute for attribute in all_attributes if attribute.name == step]
    return matching or [attribute for attribute in all_attributes if attribute.name == "*"]


def _list_attributes(attributes: Mapping[str, Attribute]) -> Iterator[Attribute]:
    for attribute in attributes.values():
        yield attribute
        for branch in attribute.branches.values():
            yield from _list_attributes(branch)
