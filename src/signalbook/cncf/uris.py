"""URIs of versions: an authority and a version's id, composed (domain.md A-27 to A-32, B-8).

This is no resolution of a relative reference (RFC3986 5): the path of the authority stays, whatever the id is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from signalbook.uris import is_uri
from signalbook.values import JSON, JSONObject, digest

_SEGMENTS: Final = 6  # /schemagroups/g/schemas/s/versions/1


def compose(authority: str, id: str, base: str) -> str:
    """The URI of a version with this ``id`` under this ``authority``; ``base`` is the URL of the API (A-28).

    ``id`` is a URI reference, or the version's path in the API if it has none of its own (A-20). An ``authority`` of
    "" is the API itself (A-13).
    """
    text = id.replace(" ", "%20")
    if is_uri(text):
        return text
    return _joined(authority, text) if authority else f"{base.rstrip('/')}/{text.removeprefix('/')}"


def lookup_key(authority: str, id: str) -> str:
    """What a version with an ``id`` of its own is found by: its URI, or what of it comes behind the API's URL and "/".

    The API's URL is a matter of who asks, and by which mount.
    """
    return compose(authority, id, "").removeprefix("/")


def lookup_keys(uri: str, bases: Iterable[str]) -> list[str]:
    """What of ``lookup_key`` leads to the version with this ``uri`` in an API that has the URLs ``bases``."""
    starts = [f"{base.rstrip('/')}/" for base in bases]
    return [uri, *(uri[len(start) :] for start in starts if uri.startswith(start))]


def uri_digest(groups: str, attributes: JSONObject) -> str | None:
    """What a version with an id of its own, the attribute ``globaluri``, is stored under to be found by its URI.

    ``groups`` is the plural name of the Group type it is below: a URI of each names another thing.
    """
    named = attributes.get("globaluri")
    if not named or not isinstance(named, str):
        return None
    return _digest(groups, lookup_key(authority_of(attributes), named))


def digests(groups: str, uri: str, bases: Iterable[str]) -> list[str]:
    """Where to look for the version with this ``uri`` (``uri_digest``) in an API that has the URLs ``bases``."""
    return [_digest(groups, key) for key in lookup_keys(uri, bases)]


def authority_of(attributes: Mapping[str, JSON]) -> str:
    """The ``authority``, "" if there is none (A-13)."""
    authority = attributes.get("authority")
    return authority if isinstance(authority, str) else ""


def path_in(uri: str) -> str:
    """The path in the API that ``uri`` ends in, if it is the URI of a version with no id of its own (A-20).

    Whether it is, ``compose`` tells; what comes before it would be the authority.
    """
    return "/" + "/".join(uri.split("/")[-_SEGMENTS:])


def _joined(authority: str, id: str) -> str:
    rest = authority.partition(":")[2]
    if rest and not rest.startswith("/") and is_uri(authority):
        return f"{authority}:{id}"
    return f"{authority.removesuffix('/')}/{id.removeprefix('/')}"


def _digest(groups: str, key: str) -> str:
    return digest(f"{groups} {key}".encode("utf-8", "surrogatepass"))
