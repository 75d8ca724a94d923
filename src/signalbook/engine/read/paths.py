"""Paths to attributes as filters and sort keys use them, and what the model says about them.

Dot notation with wildcards (core/spec.md "Dot-Notation in Filters", R189).
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
    """A wildcard: ``.*`` is any key of an object or map, ``[*]`` any item of an array, ``['*']`` the key ``*``."""

    KEY = "*"
    ITEM = "[*]"


Step: TypeAlias = str | int | Wild
Steps: TypeAlias = tuple[Step, ...]

_NAME: Final = r"[^.\[\]'\"=!<>*\s]+"
_PLAIN: Final = re.compile(_NAME)
_STEP: Final = re.compile(
    rf"""(?P<name>{_NAME})|(?P<every>\*)|\[(?P<index>[0-9]{{1,9}})\]|\[(?P<items>\*)\]"""
    r"""|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]"""
)


def read_path(text: str) -> tuple[Steps, str]:
    """The path ``text`` begins with, and what follows it: nothing, or something that starts with ``= ! < >``.

    Raises ``ValueError``, with a sentence for people, for text that does not begin with a path.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text) and text[position] not in "=!<>":
        dotted = text[position] == "."
        match = _STEP.match(text, position + dotted)
        if match is None or dotted != (bool(steps) and not match[0].startswith("[")):
            raise ValueError(f"cannot read a path at position {position + 1}")
        steps.append(_step(match))
        position = match.end()
    if not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"a path has 1 to {MAX_STEPS} steps")
    return tuple(steps), text[position:]


def _step(match: re.Match[str]) -> Step:
    kind, text = str(match.lastgroup), match[str(match.lastgroup)]
    if kind == "index":
        return int(text)
    return {"every": Wild.KEY, "items": Wild.ITEM}.get(kind, text)


def find_values(value: JSON, steps: Sequence[Step]) -> list[JSON]:
    """Every value at ``steps`` inside ``value``; nulls are no values."""
    found = [value]
    for step in steps:
        found = [inner for each in found for inner in _inside(each, step)]
    return [each for each in found if each is not None]


def _inside(value: JSON, step: Step) -> Iterable[JSON]:
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
    """The inverse of ``read_path``."""
    return "".join(map(_written, steps)).removeprefix(".")


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, Wild):
        return ".*" if step is Wild.KEY else step.value
    if _PLAIN.fullmatch(step):
        return f".{step}"
    return f'["{step}"]' if "'" in step else f"['{step}']"


def entity_type(model: Model, types: tuple[str, ...]) -> Model | GroupType | ResourceType:
    """The type of the entities that the collections ``types`` lead to from the root; of Versions their Resource's."""
    if not types:
        return model
    group = model.groups[types[0]]
    return group.resources[types[1]] if len(types) > 1 else group


def collections_of(model: Model, types: tuple[str, ...]) -> tuple[str, ...]:
    """The plural names of the collections that these entities have."""
    if len(types) > 2:
        return ()
    found = entity_type(model, types)
    if isinstance(found, ResourceType):
        return ("versions",)
    return tuple(found.groups if isinstance(found, Model) else found.resources)


def defined(model: Model, types: tuple[str, ...], steps: Steps) -> list[Attribute]:
    """Return all definitions that the value at ``steps`` may have; none for open or unknown parts of the model."""
    found = entity_type(model, types)
    attributes: Mapping[str, Attribute] = found.attributes
    if isinstance(found, ResourceType) and len(types) == 2:
        if steps[0] == "meta":
            attributes, steps = found.metaattributes, steps[1:]
        elif steps[0] in found.resourceattributes and steps[0] not in attributes:
            attributes = found.resourceattributes
    if not steps:
        return []
    level = _named(attributes, steps[0])
    for step in steps[1:]:
        level = [inner for attribute in level for inner in _within(attribute, step)]
    return level


def is_made(model: Model, types: tuple[str, ...], steps: Steps) -> bool:
    """Return True if the server computes the attribute at the beginning of ``steps``."""
    return any(attribute.managed for attribute in defined(model, types, steps[: 2 if steps[0] == "meta" else 1]))


def _within(attribute: Attribute, step: Step) -> list[Attribute]:
    if attribute.attributes is not None:
        return _named(attribute.attributes, step)
    return [] if attribute.item is None else [attribute.item]


def _named(attributes: Mapping[str, Attribute], step: Step) -> list[Attribute]:
    """Return the attribute by name, else the one that the model leaves open."""
    everything = list(_everything(attributes))
    if step is Wild.KEY:
        return everything
    named = [attribute for attribute in everything if attribute.name == step]
    return named or [attribute for attribute in everything if attribute.name == "*"]


def _everything(attributes: Mapping[str, Attribute]) -> Iterator[Attribute]:
    for attribute in attributes.values():
        yield attribute
        for branch in attribute.branches.values():
            yield from _everything(branch)
