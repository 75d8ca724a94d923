"""Texts made of segments, as paths and URIs are: which segments are always the same, and which are values."""

from __future__ import annotations

import re
from itertools import count
from typing import Final

import msgspec

from signalbook.messages.uritemplates import MAX_TEMPLATE

MOST_SHAPES: Final = 8
MOST_SEGMENTS: Final = 32
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_JOINT: Final = re.compile(r"[^A-Za-z0-9%]", re.ASCII)


class Segment(msgspec.Struct):
    """The texts of one segment: what all of them begin and end with, whether there is but one, the shortest length."""

    only: str | None
    prefix: str
    suffix: str
    least: int

    def merge(self, other: Segment) -> None:
        """Add what ``other`` saw."""
        if self.only != other.only:
            self.only = None
        self.prefix = _common(self.prefix, other.prefix)
        self.suffix = _common(self.suffix[::-1], other.suffix[::-1])[::-1]
        self.least = min(self.least, other.least)


class Addresses(msgspec.Struct):
    """All texts seen in one place, by their number of segments; None once there were too many numbers of them."""

    count: int = 0
    shapes: dict[int, list[Segment]] | None = {}

    def take(self, text: str) -> None:
        """Look at one more."""
        self.count += 1
        if self.shapes is None:
            return
        if len(text) > MAX_TEMPLATE:
            self.shapes = None
            return
        parts = text.split("/")
        known = self.shapes.get(len(parts))
        if known is not None and all(segment.only == part for segment, part in zip(known, parts, strict=True)):
            return
        self._add(len(parts), [Segment(only=part, prefix=part, suffix=part, least=len(part)) for part in parts])

    def merge(self, other: Addresses) -> None:
        """Add what ``other`` saw."""
        self.count += other.count
        if self.shapes is None or other.shapes is None:
            self.shapes = None
            return
        for size, segments in other.shapes.items():
            if self.shapes is not None:
                self._add(size, segments)

    def _add(self, size: int, segments: list[Segment]) -> None:
        assert self.shapes is not None
        known = self.shapes.get(size)
        if known is not None:
            for segment, other in zip(known, segments, strict=True):
                segment.merge(other)
            return
        self.shapes[size] = segments
        if len(self.shapes) > MOST_SHAPES or size > MOST_SEGMENTS:
            self.shapes = None

    def template(self, taken: set[str]) -> str | None:
        """The URI template of level 1 that all of them fit, a plain text if they are all one; None if there is none.

        Names of placeholders are none of ``taken``, and are added to it.
        """
        if self.shapes is None or len(self.shapes) != 1:
            return None
        (segments,) = self.shapes.values()
        parts: list[str] = []
        for segment in segments:
            part = _part(segment, parts, taken)
            if part is None:
                return None
            parts.append(part)
        text = "/".join(parts)
        # One placeholder and nothing else says nothing.
        return text if len(text) <= MAX_TEMPLATE and (len(parts) > 1 or not text.startswith("{")) else None


def _common(one: str, other: str) -> str:
    """What both begin with."""
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _part(segment: Segment, before: list[str], taken: set[str]) -> str | None:
    if segment.only is not None:
        return None if "{" in segment.only or "}" in segment.only else segment.only
    prefix, suffix = _joints(segment)
    if segment.least <= len(prefix + suffix) or "{" in prefix + suffix or "}" in prefix + suffix:
        return None
    return f"{prefix}{{{_name([*before, prefix], taken)}}}{suffix}"


def _joints(segment: Segment) -> tuple[str, str]:
    """What all begin and end with, up to a joint: ``order-17`` and ``order-18`` do not share the 1."""
    ends = [match.end() for match in _JOINT.finditer(segment.prefix)]
    begin = _JOINT.search(segment.suffix)
    return segment.prefix[: ends[-1]] if ends else "", segment.suffix[begin.start() :] if begin else ""


def _one_of(word: str) -> str:
    """The singular of an English word, as far as endings tell."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word if word.endswith("ss") or len(word) < 3 else word.removesuffix("s")


def _name(before: list[str], taken: set[str]) -> str:
    """After the literal before it: of ``/orders/7`` the 7 is an ``order``."""
    literal = next((part for part in reversed(before) if _WORD.search(part.partition("{")[0])), "")
    words = _WORD.findall(literal.partition("{")[0])
    stem = _one_of(words[-1].lower()) if words else "value"
    name = stem if stem not in taken else next(f"{stem}{n}" for n in count(2) if f"{stem}{n}" not in taken)
    taken.add(name)
    return name
