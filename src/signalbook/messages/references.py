"""References to schemas and messages: their forms, and deep links into schema documents (domain.md G-15..G-17, I-3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VERSIONS: Final = "/versions/"
_MAX_COLONS: Final = 8


def readings(uri: str) -> Iterator[tuple[str, str]]:
    """Ways to read a reference as (what it names, deep link), the likeliest first.

    An id may contain ``:`` and a fragment may name an entity or a place in a document, so only a lookup can tell:
    take the first reading whose first part names something.
    """
    uri = uri.removeprefix("#") if uri.startswith("#/") else uri
    yield uri, ""
    base, hash_, fragment = uri.partition("#")
    yield from _at_colons(uri)
    if hash_:
        yield base, fragment
        yield from ((entity, f"{link}#{fragment}") for entity, link in _at_colons(base))


def _at_colons(uri: str) -> Iterator[tuple[str, str]]:
    """Splits at a colon, the last one first; never inside scheme and authority."""
    path = uri.find("/", uri.find("://") + 3) if "://" in uri else 0
    position = len(uri)
    for _ in range(_MAX_COLONS):
        position = uri.rfind(":", max(path, 0), position)
        if position < 0:
            return
        yield uri[:position], uri[position + 1 :]


def resource_of(xid: str) -> str:
    """The xid of the Resource an xid of a Resource or Version belongs to."""
    return xid.partition(_VERSIONS)[0]


def version_named(uri: str, resource: str) -> str | None:
    """The xid of the Version of ``resource`` that an event's ``dataschema`` names, or ``resource`` itself.

    ``None`` if the URI names something else. Which host it is on does not matter: nothing is fetched from there (K-39).
    """
    path = uri.partition("#")[0].partition("?")[0]
    start = path.find(resource)
    if start < 0 or not resource:
        return None
    rest = path[start + len(resource) :]
    if rest in ("", "$details"):
        return resource
    if rest.startswith(":") and "/" not in rest:
        return resource
    version = rest.removeprefix(_VERSIONS)
    if version == rest or "/" in version:
        return None
    return resource + _VERSIONS + version.removesuffix("$details")
