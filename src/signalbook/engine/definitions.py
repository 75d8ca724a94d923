"""What the model says about a path inside an entity, whichever of its ``ifvalues`` are in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from signalbook.engine.dotpath import Step, Steps, Wild
from signalbook.model import Attribute, GroupType, Model, ResourceType


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
    """All definitions the value at ``steps`` may have; none for what the model leaves open or does not know."""
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
    """Whether the attribute that ``steps`` begin with comes from the server, and is not among the stored ones."""
    return any(attribute.managed for attribute in defined(model, types, steps[: 2 if steps[0] == "meta" else 1]))


def _within(attribute: Attribute, step: Step) -> list[Attribute]:
    if attribute.attributes is not None:
        return _named(attribute.attributes, step)
    return [] if attribute.item is None else [attribute.item]


def _named(attributes: Mapping[str, Attribute], step: Step) -> list[Attribute]:
    """By name if there is any, else what the model leaves open there."""
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
