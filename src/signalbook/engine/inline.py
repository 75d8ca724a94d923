"""What a response is to hold beside the entity asked for: the ``inline`` flag (core/spec.md "Inline Flag")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.xid import Kind, Xid

CONFIGURATION: Final = ("capabilities", "model", "modelsource")
"""Parts of the Registry that ``*`` leaves out: they must be named (R199)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """What to inline at one level, by name, and beneath each of these; ``everything`` is ``*``."""

    names: Mapping[str, Inline] = field(default_factory=dict)
    everything: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.names or (self.everything and name not in CONFIGURATION)

    def below(self, name: str) -> Inline:
        """What to inline inside ``name``."""
        return ALL if self.everything else self.names.get(name, NOTHING)

    def __or__(self, other: Inline) -> Inline:
        names = {
            name: self.names.get(name, NOTHING) | other.names.get(name, NOTHING)
            for name in dict.fromkeys((*self.names, *other.names))
        }
        return Inline(names=names, everything=self.everything or other.everything)


NOTHING: Final = Inline()
ALL: Final = Inline(everything=True)
EXPORT: Final = Inline(names={"capabilities": NOTHING, "modelsource": NOTHING}, everything=True)
"""What ``/export`` inlines unless told otherwise (R274)."""


def parse_inline(values: Iterable[str], target: Xid, model: Model, *, subject: str) -> Inline:
    """The flag's ``values``, one per occurrence, each a comma list of paths relative to ``target`` (R198-R201).

    ``target`` is what the response shows: an entity, or a collection whose entities the paths start in. Its types exist
    in ``model``. Raises ``bad_inline`` for bad syntax and ``inline_noninlineable`` for a name that cannot be inlined
    there (R202), about ``subject``.
    """
    result = NOTHING
    for value in values:
        for path in value.split(",") if value else ("*",):
            result |= _tree(_steps(path, value, subject), target, model, subject)
    return result


def _steps(path: str, value: str, subject: str) -> list[str]:
    steps = path.strip().split(".")
    wrong = ""
    if not all(steps):
        wrong = "a path has names between its dots and commas"
    elif any("*" in step for step in steps[:-1]) or ("*" in steps[-1] and steps[-1] != "*"):
        wrong = "* stands alone, as the last part of a path"
    if wrong:
        raise RegistryError("bad_inline", subject=subject, value=value, error_detail=wrong)
    return steps


def _tree(steps: list[str], target: Xid, model: Model, subject: str) -> Inline:
    """One path as a chain of levels, each checked against what there is."""
    types = list(target.parts[0:4:2])
    kind = _ENTITY.get(target.kind, target.kind)
    for step in steps:
        if step == "*":
            continue
        if step not in _inlineable(kind, types, model):
            raise RegistryError("inline_noninlineable", subject=subject, name=".".join(steps))
        kind = _inside(kind, step)
        if kind in (Kind.GROUP, Kind.RESOURCE):
            types.append(step)
    result = NOTHING
    for step in reversed(steps):
        result = ALL if step == "*" else Inline(names={step: result})
    return result


_ENTITY: Final = {Kind.GROUPS: Kind.GROUP, Kind.RESOURCES: Kind.RESOURCE, Kind.VERSIONS: Kind.VERSION}
_BELOW: Final = {Kind.REGISTRY: Kind.GROUP, Kind.GROUP: Kind.RESOURCE, Kind.RESOURCE: Kind.VERSION}


def _inside(kind: Kind, name: str) -> Kind:
    """What a name leads to; a leaf has nothing to inline, like meta."""
    if name in CONFIGURATION or kind is Kind.VERSION or (kind is Kind.RESOURCE and name != "versions"):
        return Kind.META
    return _BELOW[kind]


def _inlineable(kind: Kind, types: list[str], model: Model) -> Collection[str]:
    """Names that can be inlined at this level (R197)."""
    if kind is Kind.REGISTRY:
        return {*CONFIGURATION, *model.groups}
    if kind is Kind.GROUP:
        return set(model.groups[types[0]].resources)
    if kind is Kind.META:
        return ()
    document = _document(model.groups[types[0]].resources[types[1]])
    return document if kind is Kind.VERSION else {"meta", "versions", *document}


def _document(type: ResourceType) -> set[str]:
    return {type.singular} if type.hasdocument else set()
