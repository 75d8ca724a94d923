"""Decide whether objects are maps: whether their names are data, such as ids, rather than names for a schema to list.

Objects are certainly maps if there are many different names, of which each object has few. In a small sample, a map may
have only two keys. Evidence for a map is then that the names look like ids, that no name occurs twice, or that each
value states its own type. Such decisions are reported with their evidence (``find_doubts``), for people who know the
stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from signalbook.formats.base import Path
from signalbook.pipeline.inference.summaries import MemoryBudget, ValueSummary

# Objects are maps if they have at least ``_MANY`` names in all, and each object has less than ``_SHARE`` of them on
# average.
_MANY: Final = 20
_SHARE: Final = 0.3
# If at least this many objects have only names that no other object has, that is hardly by chance.
_STRANGERS: Final = 5
# Names that members do not have: UUIDs, long hexadecimal numbers, dates, addresses, and random ids of databases.
_ID: Final = re.compile(
    r"\d{3,}|(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=.*\d)[0-9a-f]{12,})"
    r"|\d{4}-\d\d(-\d\d.*)?|[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+|\w+://.*|(?:\d{1,3}\.){3}\d{1,3}"
    r"|(?=.*\d)(?=.*[A-Z])(?=.*[a-z])[0-9A-Za-z]{20,}",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
# The names of members that wrap a value and state its type: in exports of Firestore, and of DynamoDB.
_TAGS: Final = (
    frozenset(
        f"{name}Value"
        for name in (
            *("null", "boolean", "integer", "double", "timestamp", "string", "bytes", "reference", "geoPoint"),
            *("array", "map"),
        )
    ),
    frozenset(("S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL")),
)


def is_map(seen: ValueSummary, *, root: bool = False) -> bool:
    """Return True if the objects in ``seen`` are maps, whose names are data rather than names of members.

    ``root`` is True for whole payloads. There, many names of which each object has few may come from many kinds of
    messages, so that stronger evidence is necessary: names that look like ids, or more names than a summary keeps.
    """
    return _is_surely_map(seen, root=root) or bool(_find_evidence(seen))


def _is_surely_map(seen: ValueSummary, *, root: bool) -> bool:
    if seen.others is not None:
        return True
    return not root and _has_many_names(seen)


def _has_many_names(seen: ValueSummary) -> bool:
    names = len(seen.members)
    return names >= _MANY and _count_occurrences(seen) < _SHARE * names * seen.objects


def _find_evidence(seen: ValueSummary) -> str:
    """Return a description of the evidence for a map of few names; empty if there is none."""
    names = seen.members
    if not names:
        return ""
    if all(map(_ID.fullmatch, names)) or (len(names) > 1 and all(map(_NUMBER.fullmatch, names))):
        return "they look like ids"
    if any(all(_is_tagged(member, tags) for member in names.values()) for tags in _TAGS):
        return "each has a value that says of what type it is"
    if len(names) >= seen.objects >= _STRANGERS and _count_occurrences(seen) == len(names) and _has_same_types(seen):
        return f"none came twice in {seen.objects} objects"
    return ""


def _count_occurrences(seen: ValueSummary) -> int:
    return sum(member.count for member in seen.members.values())


def _is_tagged(value: ValueSummary, tags: frozenset[str]) -> bool:
    """Return True if all values at a place are objects with exactly one member, whose name is one of ``tags``."""
    whole = value.merge_cases()
    return 0 < whole.objects == value.count == _count_occurrences(whole) and whole.members.keys() <= tags


def _has_same_types(seen: ValueSummary) -> bool:
    """Return True if all members of the objects have values of one type, apart from null."""
    kinds = {kind for member in seen.members.values() for kind in _list_kinds(member)}
    return len(kinds) == 1


def _list_kinds(seen: ValueSummary) -> set[str]:
    counts = {
        "number": seen.integers + seen.numbers,
        "text": seen.texts.count,
        **{name: getattr(seen, name) for name in ("booleans", "arrays", "objects")},
    }
    return {name for name, count in counts.items() if count}


def merge_members(whole: ValueSummary) -> ValueSummary:
    """Return a summary of the values of all members of a map together."""
    merged, room = ValueSummary(), MemoryBudget()
    for member in (*whole.members.values(), *([whole.others] if whole.others else [])):
        merged.merge(member, room)
    return merged


def find_doubts(seen: ValueSummary, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path of each place, at or below ``seen``, that may or may not be a map, and the doubt as text.

    ``path`` is the path of ``seen``. In paths, ``*`` stands for the items of a list or the keys of a map.
    """
    if seen.items is not None:
        yield from find_doubts(seen.items, (*path, "*"))
    whole, root = seen.merge_cases(), not path
    names_text = f"{len(whole.members)} names in {whole.objects} objects"
    if is_map(whole, root=root):
        if not _is_surely_map(whole, root=root):
            yield path, f"taken for a map by {names_text}: {_find_evidence(whole)}"
        elif root:
            yield path, f"taken for a map: there are more than {names_text}"
        yield from find_doubts(merge_members(whole), (*path, "*"))
        return
    if root and _has_many_names(whole):
        yield path, f"may be a map, or several kinds of messages: of {names_text} each object has few"
    elif _may_be_map(whole):
        yield path, f"may be a map: of {names_text} none is in all, and their values are alike"
    for name, member in whole.members.items():
        yield from find_doubts(member, (*path, name))


def _may_be_map(whole: ValueSummary) -> bool:
    members = whole.members.values()
    if any(whole.members.keys() <= tags for tags in _TAGS):
        return False
    return len(members) > 1 and max(member.count for member in members) < whole.objects and _has_same_types(whole)
