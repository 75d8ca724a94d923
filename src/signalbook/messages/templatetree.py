"""Templates by their literal parts: finding the ones a text can fit, segment by segment (domain.md K-14)."""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from signalbook.messages.uritemplates import Template, parse_template

T = TypeVar("T")


class _Node(Generic[T]):
    """One level of segments: literal ones by their text, others by the pattern of their literal parts."""

    def __init__(self) -> None:
        self.literal: dict[str, _Node[T]] = {}
        self.patterns: dict[tuple[str, ...], tuple[re.Pattern[str], _Node[T]]] = {}
        self.found: list[T] = []


class TemplateTree(Generic[T]):
    """Values filed under templates; as no placeholder spans ``separator``, segments can be looked up one by one."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._root: _Node[T] = _Node()

    def add(self, template: Template, value: T) -> None:
        """File ``value`` under a template that is more than one placeholder."""
        node = self._root
        for segment in template.text.split(self._separator):
            node = self._child(node, segment)
        node.found.append(value)

    def find(self, text: str) -> list[T]:
        """Everything filed under templates whose literal parts ``text`` has."""
        nodes = [self._root]
        for segment in text.split(self._separator):
            nodes = [child for node in nodes for child in _children(node, segment)]
            if not nodes:
                return []
        return [value for node in nodes for value in node.found]

    def _child(self, node: _Node[T], segment: str) -> _Node[T]:
        template = parse_template(segment, separator=self._separator)
        if not template.names:
            return node.literal.setdefault(segment, _Node())
        return node.patterns.setdefault(template.literals, (template.pattern, _Node()))[1]


def _children(node: _Node[T], segment: str) -> list[_Node[T]]:
    exact = node.literal.get(segment)
    found = [] if exact is None else [exact]
    found += [child for pattern, child in node.patterns.values() if pattern.fullmatch(segment)]
    return found
