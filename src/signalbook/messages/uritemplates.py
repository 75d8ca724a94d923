"""Match and expand URI templates of level 1 (RFC 6570; K-15 to K-18, F-26 to F-28)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, TypeVar
from urllib.parse import quote, unquote

MAX_TEMPLATE: Final = 4096
_CACHED: Final = 1024
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_]+)\}", re.ASCII)


class TemplateError(ValueError):
    """The error for a text that is not a template of level 1, or a template that cannot be expanded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A text with placeholders.

    A placeholder matches one or more characters other than ``separator``, up to the first occurrence of the literal
    text that follows the placeholder. A template that consists of a single placeholder matches any text (K-16). With
    ``encoded``, values are percent-encoded in the text, as in URIs.
    """

    text: str
    names: tuple[str, ...]
    literals: tuple[str, ...]
    encoded: bool
    separator: str
    pattern: re.Pattern[str]

    @property
    def whole(self) -> bool:
        """True if the template is a single placeholder."""
        return self.literals == ("", "")

    def match(self, value: str) -> dict[str, str] | None:
        """Return the values of the placeholders in ``value``, or ``None`` if it does not match.

        A placeholder that occurs twice must have the same value (F-27).
        """
        matched = self.pattern.fullmatch(value)
        if matched is None:
            return None
        # Nearly all templates have one placeholder, which cannot contradict itself.
        if len(self.names) == 1:
            text = matched[1]
            return {self.names[0]: _decode(text) if self.encoded and "%" in text else text}
        captured: dict[str, str] = {}
        for name, text in zip(self.names, matched.groups(), strict=True):
            if self.encoded and "%" in text:
                text = _decode(text)
            if captured.setdefault(name, text) != text:
                return None
        return captured

    def expand(self, context: Mapping[str, str]) -> str:
        """Return the text with the values in ``context``. Raises ``TemplateError`` if a value is missing (K-18)."""
        parts = [self.literals[0]]
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            value = context.get(name)
            if not value:
                raise TemplateError(f"{self.text!r} needs a value for {{{name}}}")
            parts += [self._quote(value) if self.encoded else value, literal]
        return "".join(parts)

    def _quote(self, value: str) -> str:
        """Return ``value`` percent-encoded, including the separator if that would end the placeholder."""
        try:
            text = quote(value, safe="")
        except UnicodeEncodeError:
            raise TemplateError(f"{value!r} has half a character in it, and no form in {self.text!r}") from None
        return text if self.whole else text.replace(self.separator, f"%{ord(self.separator):02X}")


def is_template(text: str) -> bool:
    """Return True if ``text`` has at least one well-formed placeholder (F-28)."""
    return "{" in text and _PLACEHOLDER.search(text) is not None


@lru_cache(maxsize=_CACHED)
def parse_template(text: str, *, encoded: bool = True, separator: str = "/") -> Template:
    """Parse a template. A text without braces is a template without placeholders (K-15).

    Raises ``TemplateError`` for operators, modifiers, lists and stray braces (F-26).
    """
    if len(text) > MAX_TEMPLATE:
        raise TemplateError(f"a template of {len(text)} characters is longer than the {MAX_TEMPLATE} allowed")
    pieces = _PLACEHOLDER.split(text)
    literals, names = tuple(pieces[::2]), tuple(pieces[1::2])
    for literal in literals:
        if "{" in literal or "}" in literal:
            raise TemplateError(
                f"{text!r} is no level 1 template: a placeholder is a name of letters, digits and _ in braces"
            )
    return Template(
        text=text, names=names, literals=literals, encoded=encoded, separator=separator,
        pattern=_compile_pattern(literals, separator),
    )  # fmt: skip


def unify(context: dict[str, str], captured: Mapping[str, str]) -> str | None:
    """Add ``captured`` to ``context``. Return the name of a placeholder with two values, or None (F-27)."""
    for name, text in captured.items():
        if context.setdefault(name, text) != text:
            return name
    return None


def _decode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def _compile_pattern(literals: tuple[str, ...], separator: str) -> re.Pattern[str]:
    """Return a pattern for ``fullmatch``. Its groups are atomic, so that a hostile value takes only linear time."""
    if literals == ("", ""):
        return re.compile("(.+)", re.DOTALL)
    character = f"[^{re.escape(separator)}]"
    parts = [re.escape(literals[0])]
    # A lazy quantifier in an atomic group ends a placeholder at the first occurrence of the next literal, without
    # backtracking. The last placeholder is limited by the end of the text, so a greedy quantifier is correct and fast.
    parts += [f"(?>({character}+?){re.escape(literal)})" for literal in literals[1:-1]]
    if len(literals) > 1:
        parts.append(f"({character}+){re.escape(literals[-1])}")
    return re.compile("".join(parts), re.DOTALL)


T = TypeVar("T")


class _Node(Generic[T]):
    """A node of the tree. Children are found by the text of a literal segment, or by the pattern of a template."""

    def __init__(self) -> None:
        self.literal: dict[str, _Node[T]] = {}
        self.patterns: dict[tuple[str, ...], tuple[re.Pattern[str], _Node[T]]] = {}
        self.values: list[T] = []


class TemplateTree(Generic[T]):
    """A search tree of values by template.

    No placeholder matches ``separator``, so the segments of a text can be looked up one by one.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._root: _Node[T] = _Node()

    def add(self, template: Template, value: T) -> None:
        """Add ``value`` under ``template``, which must not be a single placeholder."""
        node = self._root
        for segment in template.text.split(self._separator):
            # Templates that differ only in the names of placeholders share a node.
            node = self._find_child(node, segment)
        node.values.append(value)

    def find(self, text: str) -> list[T]:
        """Return the values of all templates whose literal parts match ``text``."""
        nodes = [self._root]
        for segment in text.split(self._separator):
            # A segment may fit a literal and several patterns, so all nodes that fit so far are carried along.
            nodes = [child for node in nodes for child in _find_children(node, segment)]
            if not nodes:
                return []
        return [value for node in nodes for value in node.values]

    def _find_child(self, node: _Node[T], segment: str) -> _Node[T]:
        template = parse_template(segment, separator=self._separator)
        if not template.names:
            return node.literal.setdefault(segment, _Node())
        return node.patterns.setdefault(template.literals, (template.pattern, _Node()))[1]


def _find_children(node: _Node[T], segment: str) -> list[_Node[T]]:
    exact = node.literal.get(segment)
    children = [] if exact is None else [exact]
    children += [child for pattern, child in node.patterns.values() if pattern.fullmatch(segment)]
    return children
