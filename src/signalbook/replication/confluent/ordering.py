"""Order versions for registration: each version comes after those that it refers to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from signalbook.client.schemaversions import SchemaVersion
from signalbook.confluent.naming import parse_subject

Key = tuple[str, int]
"""A subject and the number of a version."""
LATEST: Final = -1
"""The number that stands for the latest version."""


def find_references(version: SchemaVersion) -> tuple[Key, ...]:
    """Return the versions that a schema refers to. Subjects without a context are in the context of the schema."""
    context = parse_subject(version.subject).context
    return tuple(
        (str(parse_subject(reference.subject, context)), reference.version) for reference in version.references
    )


def split_into_waves(references: Mapping[Key, Sequence[Key]]) -> Iterator[list[Key]]:
    """Yield lists of versions. The versions of a list refer only to versions of earlier lists.

    Versions that are part of a cycle, or refer to one, are left out. The versions of a subject come in order, unless
    references require another order.
    """
    remaining = dict(references)
    for strict in (True, False):
        needs = _find_needs(remaining, one_by_one=strict)
        needed_by: defaultdict[Key, list[Key]] = defaultdict(list)
        for key, needed in needs.items():
            for other_key in needed:
                needed_by[other_key].append(key)
        count = {key: len(needed) for key, needed in needs.items()}
        ready = sorted(key for key, number in count.items() if not number)
        while ready:
            yield ready
            following = []
            for key in ready:
                del remaining[key]
                for other_key in needed_by[key]:
                    count[other_key] -= 1
                    if not count[other_key]:
                        following.append(other_key)
            ready = sorted(following)


def find_cycle(key: Key, references: Mapping[Key, Sequence[Key]], remaining: Collection[Key]) -> list[Key]:
    """Follow references from ``key`` through ``remaining`` versions, and return the path to the first that repeats."""
    path = [key]
    while True:
        following = next(reference for reference in references[path[-1]] if reference in remaining)
        if following in path:
            return [*path, following]
        path.append(following)


def _find_needs(remaining: Mapping[Key, Sequence[Key]], *, one_by_one: bool) -> dict[Key, set[Key]]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for subject, number in remaining:
        numbers[subject].append(number)
    needs = {
        key: {reference for reference in references if reference in remaining} for key, references in remaining.items()
    }
    for subject, versions in numbers.items() if one_by_one else ():
        versions.sort()
        for before, after in pairwise(versions):
            needs[subject, after].add((subject, before))
    return needs
