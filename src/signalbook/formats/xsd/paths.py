"""Check which XPath expressions may be run (identity constraints, simple assertions), and resolve deep links (G.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from xmlschema.validators import XsdComplexType, XsdComponent, XsdElement, XsdSimpleType

from signalbook.formats.base import SchemaError, shorten
from signalbook.formats.xsd.limits import XS
from signalbook.values import Finding

MAX_LENGTH: Final = 1000
_STRING_LITERAL: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_TERM: Final = re.compile(r"\s+|\d+(?:\.\d+)?|\$value|[\w.-]+(?::[\w-]+)?\s*\(?|[@*/()\[\]=<>!+,|-]", re.ASCII)
_FUNCTIONS: Final = frozenset(
    {
        "and", "or", "not", "count", "exists", "empty", "true", "false", "string", "string-length", "number", "boolean",
        "position", "contains", "starts-with", "ends-with", "normalize-space", "upper-case", "lower-case", "sum", "min",
        "max", "abs", "floor", "ceiling", "round", "last",
    }
)  # fmt: skip
_XML_NAME: Final = r"[^\W\d][\w.-]*"
_PATH_STEP: Final = re.compile(rf"(?:child::)?(?:{_XML_NAME}(?::(?:{_XML_NAME}|\*))?|\*)|\.")
_ATTRIBUTE: Final = re.compile(rf"(?:attribute::|@)(?:{_XML_NAME}(?::(?:{_XML_NAME}|\*))?|\*)")
_CASTS: Final = re.compile(r"xs:\w+")
# Loops and ranges, and steps to other nodes than children.
_REFUSED: Final = frozenset({"for", "some", "every", "to", "return", "satisfies", "if", ".."})


def is_path(xpath: str, *, field: bool) -> bool:
    """Return True if ``xpath`` is a path of an identity constraint (part 1, "Constraints on XPath expressions").

    ``field`` is True for paths of fields, which may end in an attribute. The library's own check uses a pattern that
    backtracks over colons: its time grows sixfold with every step.
    """
    if len(xpath) > MAX_LENGTH:
        return False
    for path in xpath.split("|"):
        *steps, last = (step.strip() for step in path.strip().removeprefix(".//").split("/"))
        if not all(map(_PATH_STEP.fullmatch, steps)):
            return False
        if not (_PATH_STEP.fullmatch(last) or (field and _ATTRIBUTE.fullmatch(last))):
            return False
    return True


def list_unbounded(root: Element) -> Iterator[str]:
    """Yield the expressions whose cost is unknown: with loops, ranges, nested predicates, or steps
    other than to children.
    """
    for name in ("assert", "assertion", "alternative"):
        for part in root.iter(XS + name):
            test = part.get("test", "")
            if not is_bounded(test):
                yield test


def has_any(root: Element) -> bool:
    """Return True if the document with the root ``root`` has any expression to run."""
    return any(part.get("test") for name in ("assert", "assertion", "alternative") for part in root.iter(XS + name))


def is_bounded(test: str) -> bool:
    """Return True if the expression ``test`` only compares children, attributes and values."""
    if len(test) > MAX_LENGTH:
        return False
    # Replace strings first, because their contents are not part of the expression.
    remaining, depth, before = _STRING_LITERAL.sub(" 0 ", test), 0, ""
    while remaining:
        match = _TERM.match(remaining)
        if match is None:
            return False
        term, remaining = match[0].strip(), remaining[match.end() :]
        depth += {"[": 1, "]": -1}.get(term, 0)
        if not _is_allowed(term, before) or depth > 1:
            return False
        before = term or before
    return True


def _is_allowed(term: str, before: str) -> bool:
    if term in _REFUSED:
        return False
    if term == "/":
        return before[-1:].isalnum() or before in ("*", "]")  # refuse // and paths from the root
    if term == "(" or not term.endswith("("):
        return True
    name = term.rstrip("( \t\r\n")
    return name in _FUNCTIONS or bool(_CASTS.fullmatch(name))


_PREFIXED: Final = re.compile(r"\"[^\"]*\"|'[^']*'|(?P<prefix>[^\W\d][\w.-]*):(?!:)(?=[^\W\d*]|\*)")


def expand_path(part: Any, path: str | None) -> str:
    """Return the XPath ``path`` of ``part`` with namespaces instead of prefixes."""
    default = getattr(part, "xpath_default_namespace", "")

    def named(match: re.Match[str]) -> str:
        prefix = match["prefix"]
        return match[0] if prefix is None else f"{{{part.namespaces.get(prefix, prefix)}}}"

    text = _PREFIXED.sub(named, " ".join((path or "").split()))
    return f"{text} in {default}" if default else text


MAX_LINK: Final = 500
_LINK_NAME: Final = re.compile(r"[^\W\d][\w.-]*(?::[\w.-]+)?")
_LINKED: Final = (XsdElement, XsdComplexType, XsdSimpleType)


def find_linked(schema: Any, link: str, prefixes: Mapping[str, str]) -> Any:
    """Return the element or type declaration that ``link`` names. Raises ``SchemaError``."""
    path = unquote(link).lstrip("#").strip().removeprefix(":")
    if path.startswith("xpath(") and path.endswith(")"):
        path = path[6:-1].strip()
    declarations = _find_named(schema, path) if _LINK_NAME.fullmatch(path) else _find_selected(schema, path, prefixes)
    if len(declarations) != 1:
        there = ", ".join(part.local_name for part in list_roots(schema)) or "none"
        count_text = "nothing" if not declarations else "several declarations"
        message = f"{link!r} selects {count_text}; one element or type is needed. Top-level elements: {there}"
        raise SchemaError([Finding(path=link, rule="link", message=shorten(message))])
    return declarations[0]


def list_roots(schema: Any) -> list[Any]:
    """Return the elements that may be the root of a payload: the top-level elements of the document itself."""
    return [part for part in schema.elements.values() if part.schema is schema and not part.abstract]


def _find_named(schema: Any, name: str) -> list[Any]:
    short = name.rpartition(":")[2]
    for declarations in (schema.elements, schema.types):
        parts = [part for part in declarations.values() if part.local_name == short and part.schema is schema]
        if parts:
            return parts
    return []


def _find_selected(schema: Any, path: str, prefixes: Mapping[str, str]) -> list[Any]:
    """Return the declarations that ``path`` selects. Only the fast subset of XPath in ElementTree is supported."""
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
    selected_ids = {id(node) for node in nodes}
    return list(_list_declared(schema, selected_ids))


def _find(root: Element, path: str, prefixes: Mapping[str, str]) -> list[Element]:
    if len(path) > MAX_LINK or path.count("//") > 1 or path.count("*") > 2:
        raise ValueError("too much to search for")
    return root.findall(path, {prefix: uri for prefix, uri in prefixes.items() if prefix})


def _list_declared(schema: Any, selected_ids: set[int]) -> Iterator[XsdComponent]:
    met: set[int] = set()
    for part in schema.iter_components(_LINKED):
        if id(part.elem) in selected_ids and id(part) not in met:
            met.add(id(part))
            yield part
