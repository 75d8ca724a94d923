"""A request in the making, and what all kinds of them are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.fuzzing.hostile import dumped, segment, spoilt

METHODS: Final = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS")
DRAFT: Final = "/compat/schemaregistry/v0.2"
CATALOGS: Final = ("/compat/messagecatalog/v0.1", "/compat/messagecatalog/v0")
SINK: Final = "http://127.0.0.1:9/"
"""Where nobody listens."""
_READ_SHARE: Final = 0.45


@dataclass(kw_only=True)
class Draft:
    """A request in preparation. ``opening`` is the page with the form that the request sends, or empty."""

    method: str
    path: str
    opening: str = ""
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | None = None


def query_value(random: Random, value: str) -> str:
    if random.random() < 0.05:
        return segment(random)
    return quote(value, safe=random.choice(("", "*/.=<>,:", "*")))


def pick(random: Random, *names: str) -> str:
    chance = random.random()
    if chance < 0.85:
        return random.choice(names)
    return random.choice(names).upper() if chance < 0.9 else segment(random)


def group_id(random: Random) -> str:
    return pick(random, "g1", "g2", "g3")


def resource_id(random: Random) -> str:
    return pick(random, "s1", "s2", "s3", "s4")


def version_id(random: Random) -> str:
    return pick(random, "1", "2", "3", "v1.0")


def method(random: Random, *writes: str) -> str:
    if random.random() < 0.05:
        return random.choice((*METHODS, "TRACE", "BREW", "get"))
    if random.random() < _READ_SHARE:
        return random.choice(("GET", "GET", "GET", "HEAD", "OPTIONS"))
    return random.choice(writes or METHODS)


def json_body(random: Random, value: Any) -> bytes:
    data = dumped(random, value, faults=random.choice((0, 0, 0, 1, 1, 2, 4)))
    return spoilt(random, data) if random.random() < 0.05 else data


def choose_members(random: Random, members: dict[str, Any], counts: Sequence[int]) -> dict[str, Any]:
    """Return as many of the members as one of ``counts`` says."""
    return {name: members[name] for name in random.sample(list(members), random.choice(counts))}


def many(random: Random, make: Callable[[], Any], *names: str) -> dict[str, Any]:
    return {name: make() for name in random.sample(names, random.randrange(1, 3))}
