"""The Versions that the CNCF drafts name: by URI (domain.md A-27 to A-32, A-54, D-5), and by number (A-18, A-45, J-10).

All are found by index. A Version with the attribute ``globaluri`` is stored with a digest of its URI. Any other has
the URI that its ``authority`` and its path in a draft's API make. Every Version has its URLs in every API, whatever
its URI is; these and those made of a path lead to it by their ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote

from signalbook.cncf.ids import (
    MOUNTS,
    XIDS,
    api_path,
    authority_of,
    compose,
    key_digest,
    lookup_keys,
    own_id,
    path_in,
    version_number,
)
from signalbook.errors import RegistryError
from signalbook.uris import normal_uri
from signalbook.values import JSON, JSONObject, digest
from signalbook.xid import Kind, Xid, XidError

_SAME_URI: Final = 100
"""Versions that are looked at if several say that a URI is theirs."""
_NEAR: Final = 64
"""How far below the last number given out the highest one is looked for by id: most schemas lose no Versions."""
_HOLDERS: Final = 1000


class StoredEntity(Protocol):
    """A Resource or Version as the registry stores it; see ``storage.base.Row``."""

    @property
    def key(self) -> int: ...
    @property
    def xid(self) -> Xid: ...
    @property
    def attributes(self) -> JSONObject: ...
    @property
    def versioncounter(self) -> int: ...
    @property
    def xref(self) -> Xid | None: ...
    @property
    def uri(self) -> str | None: ...


class EntityIndex(Protocol):
    """The questions asked here of what is stored, as ``storage.base.Reader`` answers them."""

    def get(self, xid: Xid) -> StoredEntity | None: ...
    def get_many(self, xids: Collection[Xid]) -> Mapping[Xid, StoredEntity]: ...
    def children(
        self, parents: Collection[int], type: str | None = None, *, ids: Collection[str] | None = None
    ) -> Iterator[StoredEntity]: ...
    def named(self, uris: Collection[str], limit: int) -> Sequence[StoredEntity]: ...
    def holders(self, parent: int, document: str, limit: int) -> Sequence[StoredEntity]: ...


class RegistryView(Protocol):
    """The registry at one instant."""

    @property
    def reader(self) -> EntityIndex: ...
    def exists(self, xid: Xid) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UriBases:
    """Where the Versions below one Group type, ``groups``, are to be had: what their URLs may begin with.

    ``root`` is the URL of the registry, "" if it has none.
    """

    groups: str
    root: str
    path: Callable[[Xid], str | None]
    xid: Callable[[str], Xid | None]


def find_by_uri(view: RegistryView, uri: str, bases: UriBases) -> Xid | None:
    """The Version with this ``uri``, None if there is none.

    Where a Version is, that one is meant, whatever another one claims (A-20, A-54). Of several that claim a URI, which
    only old registries have, it is the one stored first, of those that the draft can show if there are any.
    """
    place = bases.at(uri)
    if place is not None and view.exists(place):
        return place
    composed = _composed_of(view.reader, [uri], bases.groups).get(uri)
    if composed is not None:
        return composed
    named = [row.xid for row in view.reader.named(bases.digests(uri), _SAME_URI)]
    return next((xid for xid in named if api_path(xid) is not None), next(iter(named), None))


def _composed_of(reader: EntityIndex, uris: Iterable[str], groups: str) -> dict[str, Xid]:
    """By URI the Versions without an id of their own whose authorities and paths ``uris`` are made of."""
    wanted = {uri: XIDS[groups](path_in(normal_uri(uri))) for uri in uris}
    rows = reader.get_many({xid for xid in wanted.values() if xid is not None and xid.kind is Kind.VERSION})
    found = ((uri, rows[xid]) for uri, xid in wanted.items() if xid is not None and xid in rows)
    return {uri: row.xid for uri, row in found if row.uri is None and _implied(row) == normal_uri(uri)}


def _implied(version: StoredEntity) -> str:
    """The URI made of an authority and a path, "" without an authority."""
    authority, path = authority_of(version.attributes), api_path(version.xid)
    return normal_uri(compose(authority, path, "")) if authority and path is not None else ""


def taken_uri(
    reader: EntityIndex, claims: Mapping[Xid, Mapping[str, JSON]], bases: UriBases
) -> tuple[Xid, str, Xid] | None:
    """A Version in ``claims`` that may not have its URI: which one, what URI, and whose that is; None if all may.

    ``claims`` are attributes of Versions as they are stored now; all are below the Group type of ``bases``. No two
    Versions have the same URI, nor does one have a URI that says where another one is or would be (A-20, A-21): in that
    case encoded slashes count, too. However many there are, it takes two queries.
    """
    for key in digests(bases.groups, uri, bases.urls):
        named = [row.xid for row in view.reader.named(key, _SAME_URI)]
        if named:
            return next((xid for xid in named if bases.path(xid) is not None), named[0])
    # None says that the URI is its own: it may still be where a Version is.
    path = path_in(uri)
    ways = (_composed(view, uri, path, bases), _at(path, uri, bases), _own(path, uri, bases))
    return next((xid for xid in ways if xid is not None and view.exists(xid)), None)


def _composed(view: RegistryView, uri: str, path: str, bases: UriBases) -> Xid | None:
    """The Version without an id of its own whose authority and path ``uri`` is made of."""
    xid = bases.xid(path)
    row = view.reader.get(xid) if xid is not None and xid.kind is Kind.VERSION else None
    if row is None or row.uri is not None:
        return None
    authority, own = authority_of(row.attributes), bases.path(row.xid)
    return row.xid if authority and own is not None and compose(authority, own, "") == uri else None


def _at(path: str, uri: str, bases: UriBases) -> Xid | None:
    """The Version that ``uri`` is the URL of in one of the drafts' APIs."""
    xid = bases.xid(path)
    right = xid is not None and xid.kind is Kind.VERSION
    return xid if right and any(uri == f"{base}{path}" for base in bases.urls) else None


def _own(path: str, uri: str, bases: UriBases) -> Xid | None:
    """The Version that ``uri`` is the URL of in the registry itself."""
    try:
        xid = Xid.parse(path)
    except XidError:
        return None
    right = xid.kind is Kind.VERSION and xid.group_type == bases.groups
    return xid if right and uri == f"{bases.root}{path}" else None


def version_numbers(view: RegistryView, resource: Xid) -> list[int]:
    """The numbers of a Resource's Versions, rising. Raises ``not_found``."""
    return sorted(_numbers(view.reader.children([_shown_resource(view, resource).key], "versions")))


def latest_number(view: RegistryView, resource: Xid) -> int | None:
    """The highest number of a Resource's Versions, None if none has a number. Raises ``not_found``."""
    shown = _shown_resource(view, resource)
    last = shown.versioncounter  # no number is higher
    # The last number given out is nearly always there: a few ids are asked for, not all Versions.
    near = [str(number) for number in range(last, max(last - _NEAR, 0), -1)]
    found = _numbers(view.reader.children([shown.key], "versions", ids=near))
    if not found and last > _NEAR:
        found = _numbers(view.reader.children([shown.key], "versions"))
    return max(found, default=None)


def version_with_document(
    view: RegistryView, resource: Xid, content: bytes, contenttype: str | None
) -> StoredEntity | None:
    """The first counted Version of a Resource with exactly this document and content type, None without one."""
    row = view.reader.get(resource)
    rows = view.reader.holders(row.key, digest(content), _HOLDERS) if row is not None else ()
    same = (each for each in rows if each.attributes.get("contenttype") == contenttype)
    return next((each for each in same if version_number(each.xid.id) is not None), None)


def _numbers(rows: Iterable[StoredEntity]) -> list[int]:
    return [number for row in rows if (number := version_number(row.xid.id)) is not None]


def _shown_resource(view: RegistryView, resource: Xid) -> StoredEntity:
    """The row whose Versions a Resource shows: its own, or that of the target of its cross reference (R265, R268)."""
    row = view.reader.get(resource)
    shown = row if row is None or row.xref is None else view.reader.get(row.xref)
    # References are followed once: a target that refers on shows nothing (R268).
    if shown is None or (shown.xref is not None):
        raise RegistryError("not_found", subject=str(resource))
    return shown
