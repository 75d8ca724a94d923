"""Find Versions for the CNCF APIs: by URI (A-27 to A-32, A-54, D-5), and by number (A-18, A-45, J-10).

All lookups use an index. A Version with the attribute ``globaluri`` is stored with a digest of its URI. Any other has
the URI that its ``authority`` and its path in a draft's API make. Every Version has its URLs in every API, whatever
its URI is; these and those made of a path lead to it by their ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from signalbook.cncf.ids import (
    MOUNTS,
    XIDS,
    api_path,
    authority_of,
    compose,
    extract_path,
    key_digest,
    lookup_keys,
    own_id,
)
from signalbook.errors import RegistryError
from signalbook.uris import is_uri, normal_uri
from signalbook.values import JSON, JSONObject, digest
from signalbook.xid import Kind, Xid, XidError, version_number

_SAME_URI: Final = 100
"""The maximum number of Versions to compare if several claim the same URI."""
_NEAR: Final = 64
"""The number of ids, counted down from the last assigned number, that are looked up before all Versions are listed."""
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
    """The queries to the store that the CNCF APIs need. ``storage.base.Reader`` implements them."""

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
    """The beginnings of the URLs of Versions below one Group type, ``groups``.

    ``root`` is the URL of the registry, "" if it has none.
    """

    groups: str
    root: str

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the CNCF APIs that show these Versions."""
        return tuple(f"{self.root}{mount}" for mount in MOUNTS[self.groups])

    def digests(self, uri: str) -> list[str]:
        """Return the digests under which a Version with this absolute or relative ``uri`` may be stored."""
        return [key_digest(self.groups, key) for key in lookup_keys(uri, self.urls)]

    def find_version(self, uri: str) -> Xid | None:
        """Return the Version whose URL in an API or in the registry is ``uri``, whether it exists or not, or None.

        A relative ``uri`` is a path in a draft's API, in the registry, or from the root of the host. A slash at its end
        makes no difference.
        """
        text = normal_uri(uri if is_uri(uri) else f"/{uri.removeprefix('/')}")
        for key in (*lookup_keys(uri, self.urls), *self._strip_mounts(text)):
            xid = XIDS[self.groups](f"/{key.strip('/')}")
            if xid is not None and xid.kind is Kind.VERSION:
                return xid
        return self._parse_registry_url(text)

    def _strip_mounts(self, path: str) -> Iterator[str]:
        """Yield the parts of a path, from the root of the registry or host, that follow the mount of an API."""
        for start in {*MOUNTS[self.groups], *(urlsplit(url).path for url in self.urls)}:
            if path.startswith(f"{start}/"):
                yield path.removeprefix(start)

    def _parse_registry_url(self, uri: str) -> Xid | None:
        root = normal_uri(self.root)
        for start in {root, urlsplit(root).path, ""} if uri.startswith("/") else {root} - {""}:
            try:
                xid = Xid.parse(unquote(uri.removeprefix(start).removesuffix("/")))
            except XidError:
                continue
            if uri.startswith(f"{start}/") and xid.kind is Kind.VERSION and xid.group_type == self.groups:
                return xid
        return None


def find_by_uri(view: RegistryView, uri: str, bases: UriBases) -> Xid | None:
    """Return the Version with this ``uri``, or None if there is none.

    A Version whose URL is ``uri`` takes precedence over one that claims it as its ``globaluri`` (A-20, A-54). In old
    registries several Versions may claim one URI: then the first stored one is returned, preferably one that the draft
    can show.
    """
    place = bases.find_version(uri)
    if place is not None and view.exists(place):
        return place
    composed = _find_composed(view.reader, [uri], bases.groups).get(uri)
    if composed is not None:
        return composed
    rows = view.reader.named(bases.digests(uri), _SAME_URI)
    xids = [row.xid for row in sorted(rows, key=attrgetter("key"))]
    return next((xid for xid in xids if api_path(xid) is not None), next(iter(xids), None))


def _find_composed(reader: EntityIndex, uris: Iterable[str], groups: str) -> dict[str, Xid]:
    """Return, by URI, the Versions without a ``globaluri`` whose authority and path make one of ``uris``."""
    xids = {uri: XIDS[groups](extract_path(normal_uri(uri))) for uri in uris}
    rows = reader.get_many({xid for xid in xids.values() if xid is not None and xid.kind is Kind.VERSION})
    candidates = ((uri, rows[xid]) for uri, xid in xids.items() if xid is not None and xid in rows)
    return {uri: row.xid for uri, row in candidates if row.uri is None and _compose_uri(row) == normal_uri(uri)}


def _compose_uri(version: StoredEntity) -> str:
    """Return the URI made of the Version's authority and path, or ``""`` if it has no authority."""
    authority, path = authority_of(version.attributes), api_path(version.xid)
    return normal_uri(compose(authority, path, "")) if authority and path is not None else ""


def find_taken_uri(
    reader: EntityIndex, claims: Mapping[Xid, Mapping[str, JSON]], bases: UriBases
) -> tuple[Xid, str, Xid] | None:
    """Return a Version in ``claims`` that must not have its URI, that URI, and its owner, or None if all are allowed.

    ``claims`` are attributes of Versions as they are stored now; all are below the Group type of ``bases``. No two
    Versions have the same URI, nor does one have a URI that says where another one is or would be (A-20, A-21): in that
    case encoded slashes count, too. However many there are, it takes two queries.
    """
    uris = {xid: uri for xid, attributes in claims.items() if (uri := _compose_claim(xid, attributes))}
    for xid, uri in uris.items():
        place = bases.find_version(uri) or bases.find_version(unquote(uri))
        if place is not None and place != xid:
            return xid, uri, place
    composed = _find_composed(reader, uris.values(), bases.groups)
    claimants = {key: xid for xid, uri in uris.items() for key in bases.digests(uri)}
    # Each claimant has at most one row, so one more row must belong to another Version.
    rows = reader.named(list(claimants), len(uris) + 1) if claimants else ()
    holders = [(claimants[row.uri or ""], row.xid) for row in rows]
    holders += [(xid, composed[uri]) for xid, uri in uris.items() if uri in composed]
    return next(((xid, uris[xid], holder) for xid, holder in holders if xid != holder), None)


def _compose_claim(xid: Xid, attributes: Mapping[str, JSON]) -> str:
    """Return the URI that a Version claims by its attributes, or "" if it claims none.

    Without an authority, the URI is relative.
    """
    authority, stated_id = authority_of(attributes), own_id(attributes)
    path = api_path(xid) if authority else None
    return compose(authority, stated_id or path or "", "") if stated_id or path else ""


def list_version_numbers(view: RegistryView, resource: Xid) -> list[int]:
    """Return the numbers of a Resource's Versions in ascending order. Raises ``not_found``."""
    return sorted(_read_numbers(view.reader.children([_find_shown_resource(view, resource).key], "versions")))


def find_latest_number(view: RegistryView, resource: Xid) -> int | None:
    """Return the highest number of a Resource's Versions, or None if none has a number. Raises ``not_found``."""
    row = _find_shown_resource(view, resource)
    last = row.versioncounter  # no number is higher
    # The last assigned number nearly always exists, so look up a few ids instead of listing all Versions.
    if view.reader.get(row.xid / "versions" / str(last)) is not None:
        return last
    near = [str(number) for number in range(last, max(last - _NEAR, 0), -1)]
    numbers = _read_numbers(view.reader.children([row.key], "versions", ids=near))
    if not numbers and last > _NEAR:
        numbers = _read_numbers(view.reader.children([row.key], "versions"))
    return max(numbers, default=None)


def find_version_with_document(
    view: RegistryView, resource: Xid, content: bytes, attributes: Mapping[str, JSON]
) -> StoredEntity | None:
    """Return the first numbered Version of a Resource with exactly this document and these ``attributes``, or None."""
    row = view.reader.get(resource)
    rows = view.reader.holders(row.key, digest(content), _HOLDERS) if row is not None else ()
    same = (
        version for version in rows if all(version.attributes.get(name) == value for name, value in attributes.items())
    )
    return next((version for version in same if version_number(version.xid.id) is not None), None)


def _read_numbers(rows: Iterable[StoredEntity]) -> list[int]:
    return [number for row in rows if (number := version_number(row.xid.id)) is not None]


def _find_shown_resource(view: RegistryView, resource: Xid) -> StoredEntity:
    """Return the row of the Resource whose Versions are shown: itself, or the target of its ``xref`` (R265, R268).

    Raises ``not_found``.
    """
    row = view.reader.get(resource)
    shown_row = row if row is None or row.xref is None else view.reader.get(row.xref)
    # Follow only one reference: a target that is a cross reference itself shows nothing (R268).
    if shown_row is None or (shown_row.xref is not None):
        raise RegistryError("not_found", subject=str(resource))
    return shown_row
