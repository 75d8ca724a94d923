"""XML from strangers: no document types, and so no entities, no endless depth or size; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
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
class Document:
    """An XML document: its root, the line each element starts on, in document order, and the root's prefixes."""

    root: Element
    lines: tuple[int, ...]
    prefixes: Mapping[str, str]


def read(data: bytes) -> Document:
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
    return Document(root=reader.tree.close(), lines=tuple(reader.lines), prefixes=reader.prefixes)


class _Reader:
    """Builds a tree, counting."""

    def __init__(self) -> None:
        self.tree = TreeBuilder()
        self.lines: list[int] = []
        self.prefixes: dict[str, str] = {}
        self.depth = 0
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.StartNamespaceDeclHandler = self.prefix
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.tree.data

    def refuse(self, what: str) -> XMLError:
        return XMLError(f"line {self.parser.CurrentLineNumber}: {what}")

    def doctype(self, *_: object) -> None:
        raise self.refuse("document types are not accepted, since their entities can stand for anything")

    def prefix(self, prefix: str | None, uri: str | None) -> None:
        if self.depth == 0:
            self.prefixes[prefix or ""] = uri or ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.lines.append(self.parser.CurrentLineNumber)
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"nested deeper than {MAX_DEPTH} levels")
        if len(self.lines) > MAX_ELEMENTS:
            raise self.refuse(f"more than {MAX_ELEMENTS} elements")
        self.tree.start(_name(name), {_name(key): value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        self.depth -= 1
        self.tree.end(_name(name))


def _name(name: str) -> str:
    return "{" + name if "}" in name else name


def local(name: str) -> str:
    """The part of a name behind its namespace."""
    return name.rpartition("}")[2]
