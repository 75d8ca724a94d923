"""Summaries, of bounded size, of the values at one place (a path) of many JSON values.

Each task summarizes its part of a stream, and the driver merges the summaries. The order of merging does not matter,
unless a limit of size is reached.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Final

import msgspec

from signalbook.messages.cloudevents import is_timestamp
from signalbook.messages.uritemplates import MAX_TEMPLATE
from signalbook.uris import is_uri
from signalbook.values import JSON

MOST: Final = 128 * 1024 * 1024
_PLACE: Final = 500
MOST_TEXTS: Final = 64
LONGEST_TEXT: Final = 128

_DATE: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_IPV4: Final = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}", re.ASCII)

FORMATS: Final[dict[str, Callable[[str], object]]] = {
    "date-time": is_timestamp,
    "date": _DATE.fullmatch,
    "uuid": _UUID.fullmatch,
    "email": _EMAIL.fullmatch,
    "ipv4": _IPV4.fullmatch,
    "uri": lambda text: "://" in text and is_uri(text),
}
"""The formats of JSON Schema that are recognized in texts, with the function that checks a text."""


class MemoryBudget(msgspec.Struct):
    """The approximate memory in bytes that a summary may still use.

    The summary of each place is limited, but messages of a stream may have any number of places.
    """

    left: int = MOST

    def take(self, name: str) -> bool:
        """Reserve memory for a place or text with this ``name``. Return False if there is not enough left."""
        cost = _PLACE + len(name)
        if cost > self.left:
            return False
        self.left -= cost
        return True


class TextSummary(msgspec.Struct, omit_defaults=True):
    """A summary of the texts at one place: their ``count``, the distinct ``values``, and the ``formats`` of all texts.

    ``values`` counts texts by value. It is None once there were more than ``MOST_TEXTS`` distinct texts, or a text of
    more than ``LONGEST_TEXT`` characters. ``formats`` is None until the first text.
    """

    count: int = 0
    values: dict[str, int] | None = {}
    formats: list[str] | None = None

    def take(self, text: str, room: MemoryBudget) -> None:
        """Add a text."""
        self.count += 1
        if self.formats is None:
            self.formats = [name for name, fits in FORMATS.items() if fits(text)]
        elif self.formats:
            self.formats = [name for name in self.formats if FORMATS[name](text)]
        self._remember(text, 1, room)

    def merge(self, other: TextSummary, room: MemoryBudget) -> None:
        """Add the observations of ``other``."""
        self.count += other.count
        if other.formats is not None:
            mine = other.formats if self.formats is None else self.formats
            self.formats = [name for name in mine if name in other.formats]
        if other.values is None:
            self.values = None
            return
        for text, count in other.values.items():
            self._remember(text, count, room)

    def _remember(self, text: str, count: int, room: MemoryBudget) -> None:
        values = self.values
        if values is None:
            return
        if text in values:
            values[text] += count
        elif len(values) < MOST_TEXTS and len(text) <= LONGEST_TEXT and room.take(text):
            values[text] = count
        else:
            self.values = None


MOST_MEMBERS: Final = 1000
DEEPEST: Final = 32
MOST_CASES: Final = 32
LONGEST_CASE: Final = 64
# Cases are kept only down to this depth, because joining cases copies everything below them, level by level.
DEEPEST_CASE: Final = 6
DISCRIMINATORS: Final = (
    "type", "kind", "action", "event", "eventType", "event_type", "@type", "__typename", "object", "operation", "op",
    "method", "status", "state",
)  # fmt: skip
"""Names of members whose text usually decides which other members an object has, in the order of preference."""


class ValueSummary(msgspec.Struct, omit_defaults=True):
    """A summary of the values at one place: the number of values of each type, and summaries of the places below it.

    ``members`` are summaries of the members of objects, by name. ``others`` summarizes all members together that exceed
    ``MOST_MEMBERS`` names or the ``MemoryBudget``. ``items`` summarizes the elements of arrays. Values deeper than
    ``DEEPEST`` are ignored.

    As long as all objects have the same discriminator ``by``, with at most ``MOST_CASES`` texts, their members are
    summarized in ``cases``, by the text of the discriminator. Otherwise ``cases`` is None, and members are in
    ``members``. ``merge_cases`` returns a summary with all members together.
    """

    nulls: int = 0
    booleans: int = 0
    integers: int = 0
    numbers: int = 0
    arrays: int = 0
    objects: int = 0
    texts: TextSummary = msgspec.field(default_factory=TextSummary)
    items: ValueSummary | None = None
    members: dict[str, ValueSummary] = {}
    others: ValueSummary | None = None
    by: str = ""
    cases: dict[str, ValueSummary] | None = {}

    @property
    def count(self) -> int:
        """The number of values at this place."""
        scalars = self.nulls + self.booleans + self.integers + self.numbers
        return scalars + self.texts.count + self.arrays + self.objects

    def take(self, value: JSON, room: MemoryBudget, depth: int = 0) -> None:
        """Add a value. ``depth`` is the number of objects and arrays that contain it."""
        if value is None:
            self.nulls += 1
        elif isinstance(value, str):
            self.texts.take(value, room)
        elif isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, int):
            self.integers += 1
        elif isinstance(value, dict):
            self._take_object(value, room, depth + 1)
        elif isinstance(value, list):
            self._take_array(value, room, depth + 1)
        else:
            self.numbers += 1

    def _take_object(self, value: dict[str, JSON], room: MemoryBudget, depth: int) -> None:
        self.objects += 1
        if depth > DEEPEST:
            return
        # Members are summarized per case while the discriminator applies, and joined once it does not (``_join``).
        holder = self._find_case(*(_find_discriminator(value) if depth <= DEEPEST_CASE else ("", "")), room)
        if holder is not self:
            holder.objects += 1
        for name, member in value.items():
            place = holder.members.get(name)
            if place is None:
                place = holder._find_place(name, room)
            place.take(member, room, depth)

    def _find_case(self, by: str, text: str, room: MemoryBudget) -> ValueSummary:
        """Return the summary for members of objects whose discriminator ``by`` has this ``text``.

        It is a case, or this summary itself if cases are not, or no longer, distinguished.
        """
        if self.cases is None:
            return self
        summary = self.cases.get(text) if by == self.by else None
        if summary is not None:
            return summary
        fits = by and (by == self.by or not self.cases) and len(self.cases) < MOST_CASES and room.take(text)
        if not fits:
            self._join(room)
            return self
        self.by = by
        summary = self.cases[text] = ValueSummary(cases=None)
        return summary

    def _join(self, room: MemoryBudget) -> None:
        """Join the members of all cases, and stop distinguishing cases."""
        cases, self.cases, self.by = self.cases or {}, None, ""
        for case in cases.values():
            if self.members or self.others:
                self._add_members(case, room)
            else:
                self.members, self.others = case.members, case.others

    def _find_place(self, name: str, room: MemoryBudget) -> ValueSummary:
        if len(self.members) < MOST_MEMBERS and room.take(name):
            place = self.members[name] = ValueSummary()
            return place
        if self.others is None:
            self.others = ValueSummary()
        return self.others

    def _take_array(self, value: list[JSON], room: MemoryBudget, depth: int) -> None:
        self.arrays += 1
        if depth > DEEPEST:
            return
        if value and self.items is None:
            self.items = ValueSummary()
        for item in value:
            self.items.take(item, room, depth)  # type: ignore[union-attr]

    def merge(self, other: ValueSummary, room: MemoryBudget) -> None:
        """Add the observations of ``other``."""
        self.tally(other, room)
        if other.items is not None:
            self.items = merge_into(self.items, other.items, room)
        if other.cases is None:
            self._join(room)
        for text, case in (other.cases or {}).items():
            holder = self._find_case(other.by, text, room)
            if holder is not self:
                holder.objects += case.objects
            holder._add_members(case, room)
        self._add_members(other, room)

    def tally(self, other: ValueSummary, room: MemoryBudget) -> None:
        """Add the counts and texts of ``other`` at this place itself, without the places below it."""
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.integers += other.integers
        self.numbers += other.numbers
        self.arrays += other.arrays
        self.objects += other.objects
        self.texts.merge(other.texts, room)

    def _add_members(self, other: ValueSummary, room: MemoryBudget) -> None:
        if other.others is not None:
            self.others = merge_into(self.others, other.others, room)
        for name, member in other.members.items():
            (self.members.get(name) or self._find_place(name, room)).merge(member, room)

    def list_names(self) -> set[str]:
        """Return the names of the members of all cases."""
        return {name for case in (self, *(self.cases or {}).values()) for name in case.members}

    def merge_cases(self) -> ValueSummary:
        """Return this summary, or if it has cases, a copy with the members of all cases joined."""
        if not self.cases:
            return self
        merged = ValueSummary()
        merged.merge(self, MemoryBudget())
        merged._join(MemoryBudget())
        return merged


def merge_into(first: ValueSummary | None, other: ValueSummary, room: MemoryBudget) -> ValueSummary:
    """Merge ``other`` into ``first``, or into a new summary if ``first`` is None, and return the result."""
    if first is None:
        first = ValueSummary()
    first.merge(other, room)
    return first


def _find_discriminator(value: dict[str, JSON]) -> tuple[str, str]:
    """Return the name of an object's discriminator and its text; two empty strings if there is none."""
    for name in DISCRIMINATORS:
        text = value.get(name)
        if isinstance(text, str):
            return (name, text) if len(text) <= LONGEST_CASE else ("", "")
    return "", ""


MOST_SHAPES: Final = 8
MOST_SEGMENTS: Final = 32
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_JOINT: Final = re.compile(r"[^A-Za-z0-9%]", re.ASCII)


class Segment(msgspec.Struct):
    """A summary of the texts at one path segment: their common ``prefix`` and ``suffix``, and the ``least`` length.

    ``only`` is the text if all texts are equal, else None.
    """

    only: str | None
    prefix: str
    suffix: str
    least: int

    def merge(self, other: Segment) -> None:
        """Add the observations of ``other``."""
        if self.only != other.only:
            self.only = None
        self.prefix = _find_common(self.prefix, other.prefix)
        self.suffix = _find_common(self.suffix[::-1], other.suffix[::-1])[::-1]
        self.least = min(self.least, other.least)


class AddressSummary(msgspec.Struct):
    """A summary of texts, such as paths, by the number of their segments between slashes.

    ``shapes`` is None once there were too many different numbers of segments, or a text was too long.
    """

    count: int = 0
    shapes: dict[int, list[Segment]] | None = {}

    def take(self, text: str) -> None:
        """Add a text."""
        self.count += 1
        if self.shapes is None:
            return
        if len(text) > MAX_TEMPLATE:
            self.shapes = None
            return
        parts = text.split("/")
        segments = self.shapes.get(len(parts))
        if segments is not None and all(segment.only == part for segment, part in zip(segments, parts, strict=True)):
            return
        self._add(len(parts), [Segment(only=part, prefix=part, suffix=part, least=len(part)) for part in parts])

    def merge(self, other: AddressSummary) -> None:
        """Add the observations of ``other``."""
        self.count += other.count
        if self.shapes is None or other.shapes is None:
            self.shapes = None
            return
        for size, segments in other.shapes.items():
            if self.shapes is not None:
                self._add(size, segments)

    def _add(self, size: int, segments: list[Segment]) -> None:
        assert self.shapes is not None
        present = self.shapes.get(size)
        if present is not None:
            for segment, other in zip(present, segments, strict=True):
                segment.merge(other)
            return
        self.shapes[size] = segments
        if len(self.shapes) > MOST_SHAPES or size > MOST_SEGMENTS:
            self.shapes = None

    def build_template(self, used_names: set[str]) -> str | None:
        """Return the URI template of level 1 that fits all texts, or the only text; None if there is no such template.

        Placeholders get names that are not in ``used_names``, and their names are added there.
        """
        if self.shapes is None or len(self.shapes) != 1:
            return None
        (segments,) = self.shapes.values()
        parts: list[str] = []
        for segment in segments:
            part = _build_part(segment, parts, used_names)
            if part is None:
                return None
            parts.append(part)
        text = "/".join(parts)
        # A template that is only one placeholder carries no information.
        return text if len(text) <= MAX_TEMPLATE and (len(parts) > 1 or not text.startswith("{")) else None


def _find_common(first: str, second: str) -> str:
    """Return the common prefix of two texts."""
    length = next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:length]


def _build_part(segment: Segment, before: list[str], used_names: set[str]) -> str | None:
    if segment.only is not None:
        return None if "{" in segment.only or "}" in segment.only else segment.only
    prefix, suffix = _find_joints(segment)
    if segment.least <= len(prefix + suffix) or "{" in prefix + suffix or "}" in prefix + suffix:
        return None
    return f"{prefix}{{{_build_name([*before, prefix], used_names)}}}{suffix}"


def _find_joints(segment: Segment) -> tuple[str, str]:
    """Return the common prefix and suffix of a segment, cut at a separator character.

    Of ``order-17`` and ``order-18`` the prefix is ``order-``, without the 1.
    """
    ends = [match.end() for match in _JOINT.finditer(segment.prefix)]
    begin = _JOINT.search(segment.suffix)
    return segment.prefix[: ends[-1]] if ends else "", segment.suffix[begin.start() :] if begin else ""


def _find_singular(word: str) -> str:
    """Return the singular of an English word, as far as its ending shows it."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word if word.endswith("ss") or len(word) < 3 else word.removesuffix("s")


def _build_name(before: list[str], used_names: set[str]) -> str:
    """Return the name of a placeholder, made from the literal before it: in ``/orders/7`` the 7 becomes ``order``.

    ``before`` are the preceding parts of the template. The name is not in ``used_names``, and is added there.
    """
    literal = next((part for part in reversed(before) if _WORD.search(part.partition("{")[0])), "")
    words = _WORD.findall(literal.partition("{")[0])
    stem = _find_singular(words[-1].lower()) if words else "value"
    names = itertools.chain([stem], (f"{stem}{n}" for n in itertools.count(2)))
    name = next(candidate for candidate in names if candidate not in used_names)
    used_names.add(name)
    return name
