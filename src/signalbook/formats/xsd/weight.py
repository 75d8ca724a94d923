"""How heavy a schema is, before anyone builds it, and how heavy its payloads may be.

Groups that use each other several times multiply, and whether a content model is unambiguous takes time that grows with
the square of its length: forty lines could keep a server busy for ever. Each child of a payload's element is looked for
in the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from signalbook.formats.xsd.xml import local

XS: Final = "{http://www.w3.org/2001/XMLSchema}"
# The sum, over all content models, of the square of their length: about a second.
MAX_WORK: Final = 1_000_000
# The longest content model times the elements of a payload: a few seconds.
MAX_SEARCH: Final = 1_000_000
# A value of an enumeration is compared that much faster than a particle.
_VALUE: Final = 1 / 250
_PARTICLES: Final = (f"{XS}element", f"{XS}any")
_INLINE: Final = (f"{XS}complexType", f"{XS}simpleType")
_OWN: Final = {f"{XS}simpleType": 1, f"{XS}enumeration": _VALUE}
_NAMED: Final = ("group", "complexType", "simpleType", "attributeGroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What it takes to build a schema (``work``), and the length of its longest content model or enumeration."""

    work: float
    longest: float

    @property
    def is_heavy(self) -> bool:
        """Whether the schema takes too long to build."""
        return self.work > MAX_WORK

    @property
    def most_elements(self) -> int:
        """How many elements a payload may have, so that checking it ends soon."""
        return int(MAX_SEARCH / max(self.longest, 1))


def weigh(roots: Iterable[Element]) -> Weight:
    """The weight of the documents together."""
    scale = _Scale(roots)
    try:
        models = [scale.model(model) for models in scale.named.values() for model in models]
        models += [scale.own(inner) for inner in scale.inline]
    except RecursionError:
        return Weight(work=math.inf, longest=math.inf)
    return Weight(work=sum(size**2 for size in models), longest=max(models, default=0))


class _Scale:
    """Weighs models by what is written in them and by the names they use, whatever the namespace of those."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self.named: dict[tuple[str, str], list[Element]] = {}
        self.inline: list[Element] = []
        for part in (part for root in roots for part in _declared(root)):
            kind = local(part.tag)
            if kind in _NAMED:
                self.named.setdefault((_family(kind), part.get("name", "")), []).append(part)
            self.inline += [inner for inner in part.iter() if inner.tag in _INLINE and inner is not part]
        self.known: dict[int, float] = {}

    def model(self, element: Element) -> float:
        """The weight of a named model; one that contains itself is not built, and weighs nothing where it recurs."""
        if id(element) not in self.known:
            self.known[id(element)] = 0
            self.known[id(element)] = self.own(element)
        return self.known[id(element)]

    def own(self, element: Element) -> float:
        total: float = 0
        waiting = [element]
        while waiting:
            part = waiting.pop()
            total += _OWN.get(part.tag, 0)
            if part.tag in _PARTICLES:
                total += 1  # what is inside an element is a model of its own
                continue
            total += sum(map(self.model, self.used(part)))
            total = min(total, MAX_WORK)
            waiting += part
        return total

    def used(self, part: Element) -> Iterable[Element]:
        for attribute, family in _USES.get(local(part.tag), ()):
            for name in part.get(attribute, "").split():
                yield from self.named.get((family, name.rpartition(":")[2]), ())


# Which attributes of which elements name other models.
_USES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "group": (("ref", "group"),),
    "attributeGroup": (("ref", "attributeGroup"),),
    "extension": (("base", "type"),),
    "restriction": (("base", "type"),),
    "union": (("memberTypes", "type"),),
    "list": (("itemType", "type"),),
}


def _family(kind: str) -> str:
    return "type" if kind.endswith("Type") else kind


def _declared(root: Element) -> Iterable[Element]:
    """Top-level declarations, and those that redefine or override them."""
    for part in root:
        yield from part if local(part.tag) in ("redefine", "override") else (part,)
