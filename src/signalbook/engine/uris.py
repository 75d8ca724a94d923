"""The Version that a URI names, wherever it came from (domain.md A-27 to A-32, A-54, D-5). By index, never by looking.

A Version with the attribute ``globaluri`` is stored with a digest of its URI. Any other has the URI that its
``authority`` and its path in a draft's API make, and its URLs in every API; those lead to it by their ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from signalbook.cncf.ids import authority_of, compose, digests, path_in
from signalbook.engine.read.view import View
from signalbook.xid import Kind, Xid, XidError

_SAME: Final = 100
"""Versions that are looked at if several say that a URI is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the Versions below one Group type are to be had: what their URLs may begin with.

    ``bases`` are the URLs of the drafts' APIs, where ``path`` tells the path of an entity, if it has one, and ``xid``
    what has a path; ``root`` is that of the registry.
    """

    groups: str
    bases: tuple[str, ...]
    root: str
    path: Callable[[Xid], str | None]
    xid: Callable[[str], Xid | None]


def find(view: View, uri: str, places: Places) -> Xid | None:
    """The Version with this ``uri``, None if there is none: one that says so before one whose URL it is (A-54).

    Of several that say so it is the one stored first, of those that the draft can show if there are any.
    """
    for digest in digests(places.groups, uri, places.bases):
        named = [row.xid for row in view.reader.named(digest, _SAME)]
        if named:
            return next((xid for xid in named if places.path(xid) is not None), named[0])
    path = path_in(uri)
    ways = (_composed(view, uri, path, places), _at(path, uri, places), _own(path, uri, places))
    return next((xid for xid in ways if xid is not None and view.exists(xid)), None)


def _composed(view: View, uri: str, path: str, places: Places) -> Xid | None:
    """The Version without an id of its own whose authority and path ``uri`` is made of."""
    xid = places.xid(path)
    row = view.reader.get(xid) if xid is not None and xid.kind is Kind.VERSION else None
    if row is None or row.uri is not None:
        return None
    authority, own = authority_of(row.attributes), places.path(row.xid)
    return row.xid if authority and own is not None and compose(authority, own, "") == uri else None


def _at(path: str, uri: str, places: Places) -> Xid | None:
    """The Version that ``uri`` is the URL of in one of the drafts' APIs."""
    xid = places.xid(path)
    right = xid is not None and xid.kind is Kind.VERSION
    return xid if right and any(uri == f"{base}{path}" for base in places.bases) else None


def _own(path: str, uri: str, places: Places) -> Xid | None:
    """The Version that ``uri`` is the URL of in the registry itself."""
    try:
        xid = Xid.parse(path)
    except XidError:
        return None
    right = xid.kind is Kind.VERSION and xid.group_type == places.groups
    return xid if right and uri == f"{places.root}{path}" else None
