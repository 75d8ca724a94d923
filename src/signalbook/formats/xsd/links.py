"""Which declaration a deep link means: an XPath of the abbreviated kind, or simply a name (domain.md G.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from xmlschema.validators import XsdComplexType, XsdComponent, XsdElement, XsdSimpleType

from signalbook.formats.base import SchemaError, shorten
from signalbook.formats.xsd.weight import XS
from signalbook.values import Finding

MAX_LENGTH: Final = 500
_NAME: Final = re.compile(r"[^\W\d][\w.-]*(?::[\w.-]+)?")
_LINKED: Final = (XsdElement, XsdComplexType, XsdSimpleType)


def linked(schema: Any, link: str, prefixes: Mapping[str, str]) -> Any:
    """The element or type declaration that ``link`` means. Raises ``SchemaError``."""
    path = unquote(link).lstrip("#").strip().removeprefix(":")
    if path.startswith("xpath(") and path.endswith(")"):
        path = path[6:-1].strip()
    found = _named(schema, path) if _NAME.fullmatch(path) else _selected(schema, path, prefixes)
    if len(found) != 1:
        there = ", ".join(part.local_name for part in roots(schema)) or "none"
        what = "nothing" if not found else "several declarations"
        message = f"{link!r} selects {what}; one element or type is needed. Top-level elements: {there}"
        raise SchemaError([Finding(path=link, rule="link", message=shorten(message))])
    return found[0]


def roots(schema: Any) -> list[Any]:
    """The elements a payload may have at its root: the top-level ones of the document itself."""
    return [part for part in schema.elements.values() if part.schema is schema and not part.abstract]


def _named(schema: Any, name: str) -> list[Any]:
    short = name.rpartition(":")[2]
    for known in (schema.elements, schema.types):
        found = [part for part in known.values() if part.local_name == short and part.schema is schema]
        if found:
            return found
    return []


def _selected(schema: Any, path: str, prefixes: Mapping[str, str]) -> list[Any]:
    """What an XPath selects; of the language, what ElementTree knows, which takes no time worth speaking of."""
    root = schema.source.root
    for start in ("/*", *(f"/{prefix}:schema" for prefix, uri in prefixes.items() if f"{{{uri}}}" == XS), "/schema"):
        if path.startswith(f"{start}/"):
            path = path.removeprefix(f"{start}/")
            break
    path = f".{path}" if path.startswith("/") else path
    try:
        nodes = _find(root, path, prefixes)
    except (SyntaxError, KeyError, ValueError, TypeError, IndexError) as error:
        raise SchemaError(
            [Finding(path=path, rule="link", message=shorten(f"no XPath that is known here: {error}"))]
        ) from None
    wanted = {id(node) for node in nodes}
    return list(_declared(schema, wanted))


def _find(root: Element, path: str, prefixes: Mapping[str, str]) -> list[Element]:
    if len(path) > MAX_LENGTH or path.count("//") > 1 or path.count("*") > 2:
        raise ValueError("too much to search for")
    return root.findall(path, {prefix: uri for prefix, uri in prefixes.items() if prefix})


def _declared(schema: Any, wanted: set[int]) -> Iterator[XsdComponent]:
    met: set[int] = set()
    for part in schema.iter_components(_LINKED):
        if id(part.elem) in wanted and id(part) not in met:
            met.add(id(part))
            yield part
