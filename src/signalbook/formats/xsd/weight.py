"""How heavy a schema is, before anyone builds it.

Groups that use each other several times multiply, and whether a content model is unambiguous takes time that grows with
the square of its length. Forty lines could keep a server busy for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from signalbook.formats.xsd.xml import local

XS: Final = "{http://www.w3.org/2001/XMLSchema}"
# The sum, over all content models, of the square of their length: about a second.
MAX_WORK: Final = 1_000_000
_PARTICLES: Final = (f"{XS}element", f"{XS}any")
_NAMED: Final = ("group", "complexType", "simpleType", "attributeGroup")


def is_heavy(roots: Iterable[Element]) -> bool:
    """Whether the documents together take too long to build."""
    scale = _Scale(roots)
    try:
        work = sum(scale.model(model) ** 2 for models in scale.named.values() for model in models)
        return work + sum(scale.own(inner) ** 2 for inner in scale.inline) > MAX_WORK
    except RecursionError:
        return True


class _Scale:
    """Weighs models by what is written in them and by the names they use, whatever the namespace of those."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self.named: dict[tuple[str, str], list[Element]] = {}
        self.inline: list[Element] = []
        for part in (part for root in roots for part in _declared(root)):
            kind = local(part.tag)
            if kind in _NAMED:
                self.named.setdefault((_family(kind), part.get("name", "")), []).append(part)
            self.inline += [inner for inner in part.iter(f"{XS}complexType") if inner is not part]
        self.known: dict[int, int] = {}

    def model(self, element: Element) -> int:
        """The weight of a named model; one that contains itself is not built, and weighs nothing where it recurs."""
        if id(element) not in self.known:
            self.known[id(element)] = 0
            self.known[id(element)] = self.own(element)
        return self.known[id(element)]

    def own(self, element: Element) -> int:
        total = 0
        waiting = [element]
        while waiting:
            part = waiting.pop()
            total += part.tag == f"{XS}simpleType"
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
