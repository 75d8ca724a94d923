"""The order in which versions are registered: what is referred to before what refers to it."""

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
"""The number of whatever version is the latest."""


def referred(version: SchemaVersion) -> tuple[Key, ...]:
    """The versions that a schema refers to: names without a context are of its own."""
    context = parse_subject(version.subject).context
    return tuple((str(parse_subject(each.subject, context)), each.version) for each in version.references)


def in_waves(references: Mapping[Key, Sequence[Key]]) -> Iterator[list[Key]]:
    """Versions in lists, each of which needs those before it only; what is left over is in a cycle or refers to one.

    The versions of a subject follow each other, unless references want it otherwise.
    """
    left = dict(references)
    for strict in (True, False):
        needs = _needs(left, one_by_one=strict)
        needed_by: defaultdict[Key, list[Key]] = defaultdict(list)
        for key, wanted in needs.items():
            for each in wanted:
                needed_by[each].append(key)
        count = {key: len(wanted) for key, wanted in needs.items()}
        ready = sorted(key for key, number in count.items() if not number)
        while ready:
            yield ready
            following = []
            for key in ready:
                del left[key]
                for each in needed_by[key]:
                    count[each] -= 1
                    if not count[each]:
                        following.append(each)
            ready = sorted(following)


def cycle_of(key: Key, references: Mapping[Key, Sequence[Key]], left: Collection[Key]) -> list[Key]:
    """Follow references from a remaining version to the first one that repeats, and return the circle."""
    path = [key]
    while True:
        following = next(each for each in references[path[-1]] if each in left)
        if following in path:
            return [*path, following]
        path.append(following)


def _needs(left: Mapping[Key, Sequence[Key]], *, one_by_one: bool) -> dict[Key, set[Key]]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for subject, number in left:
        numbers[subject].append(number)
    needs = {key: {each for each in wanted if each in left} for key, wanted in left.items()}
    for subject, versions in numbers.items() if one_by_one else ():
        versions.sort()
        for before, after in pairwise(versions):
            needs[subject, after].add((subject, before))
    return needs
