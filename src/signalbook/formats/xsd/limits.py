"""Untrusted XML within limits: no document types, and so no entities, no endless depth or size; nothing is fetched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 100_000
XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"


class XMLError(ValueError):
    """Text that is no XML, or XML that is not accepted; the message says what and on which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlDocument:
    """An XML document: its root, the line each element starts on, in document order, and the root's prefixes."""

    root: Element
    lines: tuple[int, ...]
    prefixes: Mapping[str, str]


def read(data: bytes) -> XmlDocument:
    """Read an XML document of any encoding that its declaration names. Raises ``XMLError``."""
    if len(data) > MAX_BYTES:
        raise XMLError(f"more than {MAX_BYTES} bytes")
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except XMLError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise XMLError(f"not XML: {error}") from None
    return XmlDocument(root=reader.tree.close(), lines=tuple(reader.lines), prefixes=reader.prefixes)


class _Reader:
    """Builds a tree, counting."""

    def __init__(self) -> None:
        self.tree = TreeBuilder()
        self.lines: list[int] = []
        self.prefixes: dict[str, str] = {}
        self.depth = 0
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.parser.StartNamespaceDeclHandler = self.check_prefix
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.tree.data

    def refuse(self, reason: str) -> XMLError:
        return XMLError(f"line {self.parser.CurrentLineNumber}: {reason}")

    def refuse_doctype(self, *_: object) -> None:
        raise self.refuse("document types are not accepted, since their entities can stand for anything")

    def check_prefix(self, prefix: str | None, uri: str | None) -> None:
        if self.depth == 0:
            # Those of the root alone: deep links are written with them, and inner ones may redefine any.
            self.prefixes[prefix or ""] = uri or ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.lines.append(self.parser.CurrentLineNumber)
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"nested deeper than {MAX_DEPTH} levels")
        if len(self.lines) > MAX_ELEMENTS:
            raise self.refuse(f"more than {MAX_ELEMENTS} elements")
        self.tree.start(_mark_namespace(name), {_mark_namespace(key): value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        self.depth -= 1
        self.tree.end(_mark_namespace(name))


def _mark_namespace(name: str) -> str:
    return "{" + name if "}" in name else name


def local_name(name: str) -> str:
    """Return the part of a name behind its namespace."""
    return name.rpartition("}")[2]


XS: Final = "{http://www.w3.org/2001/XMLSchema}"
# The sum, over all content models, of the square of their length: about a second.
MAX_WORK: Final = 1_000_000
# The longest content model times the elements of a payload: a few seconds.
MAX_SEARCH: Final = 1_000_000
# A value of an enumeration is compared that much faster than a particle.
_VALUE: Final = 1 / 250
_PARTICLES: Final = (f"{XS}element", f"{XS}any")
_INLINE: Final = (f"{XS}complexType", f"{XS}simpleType")
_OWN_WEIGHTS: Final = {f"{XS}simpleType": 1, f"{XS}enumeration": _VALUE}
_NAMED_COMPONENTS: Final = ("group", "complexType", "simpleType", "attributeGroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """The cost of building a schema (``work``), and the length of its longest content model or enumeration."""

    work: float
    longest: float

    @property
    def is_heavy(self) -> bool:
        """True if the schema takes too long to build."""
        return self.work > MAX_WORK

    @property
    def most_elements(self) -> int:
        """The maximum number of elements in a payload, so that checking it ends soon."""
        return int(MAX_SEARCH / max(self.longest, 1))


def weigh(roots: Iterable[Element]) -> Weight:
    """Return the weight of the documents together."""
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
        for part in (part for root in roots for part in _list_declared(root)):
            kind = local_name(part.tag)
            if kind in _NAMED_COMPONENTS:
                self.named.setdefault((_choose_family(kind), part.get("name", "")), []).append(part)
            self.inline += [inner for inner in part.iter() if inner.tag in _INLINE and inner is not part]
        self.known: dict[int, float] = {}

    def model(self, element: Element) -> float:
        """Return the weight of a named model; one that contains itself is not built, and weighs nothing where it
        recurs.
        """
        if id(element) not in self.known:
            self.known[id(element)] = 0
            self.known[id(element)] = self.own(element)
        return self.known[id(element)]

    def own(self, element: Element) -> float:
        total: float = 0
        waiting = [element]
        while waiting:
            part = waiting.pop()
            total += _OWN_WEIGHTS.get(part.tag, 0)
            if part.tag in _PARTICLES:
                total += 1  # what is inside an element is a model of its own
                continue
            total += sum(map(self.model, self.used(part)))
            # Capped at each step, or models that use each other would make numbers beyond all bounds.
            total = min(total, MAX_WORK)
            waiting += part
        return total

    def used(self, part: Element) -> Iterable[Element]:
        for attribute, family in _USES.get(local_name(part.tag), ()):
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


def _choose_family(kind: str) -> str:
    return "type" if kind.endswith("Type") else kind


def _list_declared(root: Element) -> Iterable[Element]:
    """Yield top-level declarations, and those that redefine or override them."""
    for part in root:
        yield from part if local_name(part.tag) in ("redefine", "override") else (part,)
