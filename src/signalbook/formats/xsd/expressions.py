"""XPath expressions that may be run: the paths of identity constraints, and of XML Schema 1.1 what is no program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from signalbook.formats.xsd.weight import XS

MAX_LENGTH: Final = 1000
_TEXT: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_TERM: Final = re.compile(r"\s+|\d+(?:\.\d+)?|\$value|[\w.-]+(?::[\w-]+)?\s*\(?|[@*/()\[\]=<>!+,|-]", re.ASCII)
_FUNCTIONS: Final = frozenset(
    {
        "and", "or", "not", "count", "exists", "empty", "true", "false", "string", "string-length", "number", "boolean",
        "position", "contains", "starts-with", "ends-with", "normalize-space", "upper-case", "lower-case", "sum", "min",
        "max", "abs", "floor", "ceiling", "round", "last",
    }
)  # fmt: skip
_NAME: Final = r"[^\W\d][\w.-]*"
_STEP: Final = re.compile(rf"(?:child::)?(?:{_NAME}(?::(?:{_NAME}|\*))?|\*)|\.")
_ATTRIBUTE: Final = re.compile(rf"(?:attribute::|@)(?:{_NAME}(?::(?:{_NAME}|\*))?|\*)")
_CASTS: Final = re.compile(r"xs:\w+")
# Loops and ranges; what walks further than to children.
_REFUSED: Final = frozenset({"for", "some", "every", "to", "return", "satisfies", "if", ".."})


def is_path(xpath: str, *, field: bool) -> bool:
    """Whether this is a path of an identity constraint (part 1, "Constraints on XPath expressions").

    The library asks so too, by a pattern that tries each of several colons as the one of a prefix, step by step: its
    time grows sixfold with every step.
    """
    if len(xpath) > MAX_LENGTH:
        return False
    for path in xpath.split("|"):
        *steps, last = (step.strip() for step in path.strip().removeprefix(".//").split("/"))
        if not all(map(_STEP.fullmatch, steps)):
            return False
        if not (_STEP.fullmatch(last) or (field and _ATTRIBUTE.fullmatch(last))):
            return False
    return True


def unbounded(root: Element) -> Iterator[str]:
    """Expressions whose cost nobody knows: with loops, ranges, nested predicates, or anything but children."""
    for name in ("assert", "assertion", "alternative"):
        for part in root.iter(XS + name):
            test = part.get("test", "")
            if not is_bounded(test):
                yield test


def has_any(root: Element) -> bool:
    """Whether there is any expression to run."""
    return any(part.get("test") for name in ("assert", "assertion", "alternative") for part in root.iter(XS + name))


def is_bounded(test: str) -> bool:
    """Whether an expression compares children, attributes and values, and does nothing else."""
    if len(test) > MAX_LENGTH:
        return False
    rest, depth, before = _TEXT.sub(" 0 ", test), 0, ""
    while rest:
        match = _TERM.match(rest)
        if match is None:
            return False
        term, rest = match[0].strip(), rest[match.end() :]
        depth += {"[": 1, "]": -1}.get(term, 0)
        if not _allowed(term, before) or depth > 1:
            return False
        before = term or before
    return True


def _allowed(term: str, before: str) -> bool:
    if term in _REFUSED:
        return False
    if term == "/":
        return before[-1:].isalnum() or before in ("*", "]")  # neither // nor from the root
    if term == "(" or not term.endswith("("):
        return True
    name = term.rstrip("( \t\r\n")
    return name in _FUNCTIONS or bool(_CASTS.fullmatch(name))
