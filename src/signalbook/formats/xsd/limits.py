"""Parse untrusted XML with limits on depth and size. Document types (and so entities) are refused;
nothing is fetched.
"""

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
    """Raised for text that is not XML or that exceeds a limit; the message has the reason and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlDocument:
    """An XML document: its root, the line each element starts on, in document order, and the root's prefixes."""

    root: Element
    lines: tuple[int, ...]
    prefixes: Mapping[str, str]


def read(data: bytes) -> XmlDocument:
    """Parse an XML document in any encoding that its declaration names. Raises ``XMLError``."""
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
    """Builds the tree of a document and checks the limits while parsing."""

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
            # Only the prefixes of the root: deep links use these, and inner elements may redefine them.
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
    """Return ``name`` without its namespace."""
    return name.rpartition("}")[2]


XS: Final = "{http://www.w3.org/2001/XMLSchema}"
# The limit for the sum of the squared lengths of all content models, which takes about a second.
MAX_WORK: Final = 1_000_000
# The limit for the longest content model times the number of elements in a payload, which takes a few seconds.
MAX_SEARCH: Final = 1_000_000
# The cost of comparing a value of an enumeration, relative to a particle.
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
        """The maximum number of elements in a payload, so that validating it takes a few seconds at most."""
        return int(MAX_SEARCH / max(self.longest, 1))


def weigh(roots: Iterable[Element]) -> Weight:
    """Return the weight of the documents with the root elements ``roots`` together."""
    scale = _Scale(roots)
    try:
        models = [scale.model(model) for models in scale.named.values() for model in models]
        models += [scale.own(inner) for inner in scale.inline]
    except RecursionError:
        return Weight(work=math.inf, longest=math.inf)
    return Weight(work=sum(size**2 for size in models), longest=max(models, default=0))


class _Scale:
    """Computes the lengths of content models from their own parts and the models they refer to, ignoring namespaces."""

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
        """Return the length of a named model; a model inside itself counts as 0, because the
        library does not build it.
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
                total += 1  # the content of an element is a separate model
                continue
            total += sum(map(self.model, self.used(part)))
            # Limit each step, because models that use each other could make arbitrarily large numbers.
            total = min(total, MAX_WORK)
            waiting += part
        return total

    def used(self, part: Element) -> Iterable[Element]:
        for attribute, family in _USES.get(local_name(part.tag), ()):
            for name in part.get(attribute, "").split():
                yield from self.named.get((family, name.rpartition(":")[2]), ())


# The attributes, by element, that name other models, each with the family of the named models.
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
    """Yield the top-level declarations, and the declarations inside redefine and override elements."""
    for part in root:
        yield from part if local_name(part.tag) in ("redefine", "override") else (part,)
