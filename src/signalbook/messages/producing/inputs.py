"""What must be given to make a message of a definition, and what may be (domain.md K-51)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from signalbook.messages.declared import declared_attributes, declared_options
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.properties import Property

ENVELOPE: Final = "envelopemetadata."
OPTIONS: Final = "protocoloptions."
# Values that ``build`` finds by itself where a definition leaves them open.
_OWN: Final = frozenset({"id", "type", "time", "datacontenttype"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One input: a placeholder (``source`` is ``template``), or a property whose value the definition leaves open.

    ``name`` is what ``build`` takes it by, in ``context`` or in ``overrides``; ``type`` is one of domain.md F-24, and
    ``paths`` are the properties of the definition that it is for.
    """

    name: str
    type: str
    source: Literal["template", "property"]
    required: bool
    paths: tuple[str, ...]


def required_inputs(definition: CompiledDefinition) -> list[Param]:
    """All inputs of a definition, those that may be left out too: placeholders first, each as it first occurs."""
    placeholders: dict[str, Param] = {}
    properties: list[Param] = []
    for declared in declared_properties(definition):
        template = declared.template()
        if template is not None:
            for name in template.names:
                _add(placeholders, name, declared)
        elif is_open(declared):
            name, required = short_name(declared), declared.required and short_name(declared) not in _OWN
            found = Param(name=name, type=declared.type, source="property", required=required, paths=(declared.path,))
            properties.append(found)
    return [*placeholders.values(), *properties]


def declared_properties(definition: CompiledDefinition) -> list[Property]:
    """What a definition declares, and ``source``, which every event needs, though it may not be declared."""
    attributes = declared_attributes(definition.definition)
    if definition.is_event and all(declared.name != "source" for declared in attributes):
        path = "envelopemetadata.source"
        attributes.append(Property(name="source", path=path, type="urireference", required=True))
    return [*attributes, *declared_options(definition.protocol, definition.definition.get("protocoloptions"))]


def is_open(declared: Property) -> bool:
    """Whether a definition leaves a value open; an xid as ``dataschema`` does not say on which host."""
    return declared.value is None or names_schema(declared)


def names_schema(declared: Property) -> bool:
    """Whether the value is the xid of a schema, and no URI yet."""
    return declared.path == "envelopemetadata.dataschema" and str(declared.value or "").startswith("/")


def short_name(declared: Property) -> str:
    """The name of an attribute, or the path of a protocol's property."""
    return declared.path.removeprefix(ENVELOPE)


def _add(placeholders: dict[str, Param], name: str, declared: Property) -> None:
    known = placeholders.get(name)
    if known is None:
        placeholders[name] = Param(
            name=name, type="string", source="template", required=declared.required, paths=(declared.path,)
        )
    elif declared.path not in known.paths:
        required = known.required or declared.required
        placeholders[name] = replace(known, required=required, paths=(*known.paths, declared.path))
