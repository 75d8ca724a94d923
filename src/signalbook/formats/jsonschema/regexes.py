"""The cost of a schema's patterns, measured by compiling each of them within bounds of size.

The validator's engine compiles all of a schema's patterns at once, while no other thread runs; a pattern of a few
characters (``\\p{L}{40}``) may take it 20 milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

import jsonschema_rs

from signalbook.values import JSON, Finding
from signalbook.work import spend

MAX_WEIGHT: Final = 20_000
"""The limit for the weight of all patterns, which takes about half a second to compile."""
_STEPS: Final = 25
"""The steps of work for each unit of weight."""
_CHARS_PER_WEIGHT: Final = 10
"""The number of characters in a pattern that weigh one unit."""
_CLASS: Final = 36
"""One unit of weight for this many characters times classes, because each class is replaced in the whole pattern."""
_PROPERTY: Final = 30
"""The weight of a Unicode property, which has many ranges."""
_CLASSES: Final = re.compile(r"\\[wWdDsS]")
_PROPERTIES: Final = re.compile(r"\\[pP]")
_MAX_CACHED_CHARS: Final = 1000
"""The length of the longest pattern whose weight is cached."""
# The limits for the size of a compiled pattern in bytes, and the weight of a pattern within each limit.
_SIZES: Final = {10_000: 1, 100_000: 10, 1_000_000: 100, 10_000_000: 1000}
_MAX_TEXT_WEIGHT: Final = 1_000_000
"""The limit for the characters of a text times the weight of a pattern: at worst a second of matching."""
_LISTED: Final = frozenset({"const", "enum"})
# With look-around, references and the like, groups and alternatives are compiled one by one, each up to the limit.
_IN_PIECES: Final = re.compile(r"\(\?[^:]|\\[1-9GKZk]|[*+?}]\+")


def _build_options(size: int) -> jsonschema_rs.FancyRegexOptions:
    # The number of backtracking steps is limited, so no pattern can block a worker. Plain patterns never backtrack.
    return jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000, size_limit=size)


OPTIONS: Final = _build_options(max(_SIZES))
_BY_SIZE: Final = [(_build_options(size), weight) for size, weight in _SIZES.items()]


def check_patterns(patterns: Collection[str]) -> list[Finding]:
    """Return a finding if ``patterns`` take too long to compile, otherwise no finding."""
    weight = 0
    for pattern in sorted(patterns):
        remaining = MAX_WEIGHT - weight
        pattern_weight = _weigh_text(pattern)
        pattern_weight += _weigh_compiled(pattern) if pattern_weight <= remaining else 0
        if pattern_weight > remaining:
            text = "the patterns take too long to compile: fewer, shorter ones with smaller repetitions are needed"
            return [Finding(path="", rule="weight", message=text)]
        spend(pattern_weight * _STEPS)
        weight += pattern_weight
    return []


def are_slow(documents: Collection[JSON]) -> bool:
    """Return True if matching a name or listed value in ``documents`` with one of their patterns may take a second."""
    most = max(map(_weigh_compiled, find_patterns(documents)), default=0)
    return most > 0 and any(
        len(text) * most > _MAX_TEXT_WEIGHT for document in documents for text in _walk_texts(document)
    )


def is_valid(validator: jsonschema_rs.Validator, value: JSON) -> bool:
    """Return True if ``value`` is valid, and count the validation as work."""
    spend(_STEPS)
    return validator.is_valid(value)


def find_patterns(documents: Iterable[JSON]) -> set[str]:
    """Return all patterns in schema documents, including patterns in examples and other data."""
    texts: set[str] = set()
    for node in chain.from_iterable(map(_walk_containers, documents)):
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                texts.add(node["pattern"])
            if isinstance(node.get("patternProperties"), dict):
                texts.update(node["patternProperties"])
    return texts


def _walk_containers(document: JSON) -> Iterator[dict[str, JSON] | list[JSON]]:
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (dict, list)):
            yield node
            items = node.values() if isinstance(node, dict) else node
            if {dict, list}.isdisjoint(map(type, items)):  # for example a list of very many values
                continue
            waiting += [item for item in items if isinstance(item, (dict, list))]


def _walk_texts(document: JSON) -> Iterator[str]:
    """Yield the names of members and all texts in listed values, which may be matched with patterns."""
    waiting = [(document, False)]
    while waiting:
        node, listed = waiting.pop()
        if isinstance(node, dict):
            yield from node
            waiting += [(item, listed or name in _LISTED) for name, item in node.items()]
        elif isinstance(node, list):
            waiting += [(item, listed) for item in node]
        elif listed and isinstance(node, str):
            yield node


def _weigh_text(pattern: str) -> int:
    """Return the weight of a pattern's text, before the pattern is compiled."""
    classes, properties = len(_CLASSES.findall(pattern)), len(_PROPERTIES.findall(pattern))
    return len(pattern) // _CHARS_PER_WEIGHT + len(pattern) * classes // _CLASS + properties * _PROPERTY


def _weigh_compiled(pattern: str) -> int:
    """Return the weight of a compiled pattern; more than ``MAX_WEIGHT`` if measuring would take too long."""
    return _known(pattern) if len(pattern) <= _MAX_CACHED_CHARS else _measure_weight(pattern)


def _measure_weight(pattern: str) -> int:
    pieces = 1 + (pattern.count("(") + pattern.count("|") if _IN_PIECES.search(pattern) else 0)
    for options, weight in _BY_SIZE:
        if pieces * weight > MAX_WEIGHT or _does_compile(pattern, options):
            return pieces * weight
    # The pattern is too large or invalid. Either way, finding out cost this much; invalid patterns are reported
    # elsewhere.
    return pieces * max(_SIZES.values())


_known: Final = lru_cache(maxsize=1024)(_measure_weight)


def _does_compile(pattern: str, options: jsonschema_rs.FancyRegexOptions) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True
