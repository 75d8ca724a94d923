"""Working copies: entities as one command changes them, before they are stored as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime
from http import HTTPStatus
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias

from signalbook import dialects
from signalbook.errors import RegistryError
from signalbook.storage.base import Row
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(slots=True, kw_only=True)
class WorkingCopy:
    """An entity that a command may change. ``before`` is its stored row, or None if the entity is new.

    ``stamped`` means that the client set ``modifiedat``, so that later changes of the command must not overwrite it.
    """

    xid: Xid
    createdat: datetime
    modifiedat: datetime
    before: Row | None = None
    attributes: JSONObject = field(default_factory=dict)
    touched: bool = False
    stamped: bool = False

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Return an unchanged copy of a stored entity. The caller must add a Resource's Versions."""
        names, values = _COLUMNS[cls].loaded
        return cls(before=row, **dict(zip(names, values(row), strict=True)))

    def touch(self, now: datetime) -> None:
        """Count the entity as updated by this request: its epoch increases once (R34), and ``modifiedat`` becomes
        ``now`` unless the client has set it (R41).
        """
        self.touched = True
        if not self.stamped:
            self.modifiedat = now

    @property
    def key(self) -> int:
        """The storage key, or 0 if the entity is new."""
        return 0 if self.before is None else self.before.key

    @property
    def epoch(self) -> int:
        """The epoch after this write: 1 for a new entity, else increased by one if the entity was touched (R34)."""
        return 1 if self.before is None else self.before.epoch + self.touched

    @property
    def changed(self) -> bool:
        """True if the row to store differs from the stored row."""
        _, values = _COLUMNS[type(self)].stored
        return self.before is None or values(self) != values(self.before)

    def to_row(self, key: int, parent: int) -> Row:
        """Return the row to store, with the storage keys of the entity and its parent."""
        names, values = _COLUMNS[type(self)].stored
        return Row(key=key, parent=parent, **dict(zip(names, values(self), strict=True)))


@dataclass(slots=True, kw_only=True)
class OwnerCopy(WorkingCopy):
    """The Registry or a Group. ``collections`` are its collections that gained or lost an entity (R37)."""

    collections: set[str] = field(default_factory=set)

    def change_members(self, plural: str, now: datetime) -> None:
        """Record that an entity was added to, or removed from, the collection ``plural``."""
        self.collections.add(plural)
        self.touch(now)


@dataclass(slots=True, kw_only=True)
class VersionCopy(WorkingCopy):
    """A Version. ``ancestorid`` is None until the ancestors are assigned. ``document`` is a digest, or None."""

    ancestorid: str | None = None
    document: str | None = None
    rank: str | None = None

    @property
    def id(self) -> str:
        """The ``versionid``, which is the last part of the xid."""
        return self.xid.parts[-1]

    @property
    def relinked(self) -> bool:
        """True if the Version is new or has another ancestor than before."""
        return self.before is None or self.before.ancestorid != self.ancestorid

    @property
    def uri(self) -> str | None:
        """The digest of the Version's ``globaluri``, by which the Version can be looked up, or None if it has none."""
        return dialects.compute_uri_digest(self.xid.group_type, self.attributes)

    @property
    def claims_uri(self) -> bool:
        """True if the write changes ``authority`` or ``globaluri``, which give the Version a URI in addition to its
        path's.
        """
        now, before = (
            (attributes.get("authority"), attributes.get("globaluri")) for attributes in (self.attributes, self._stored)
        )
        return now != before and now != (None, None)

    @property
    def _stored(self) -> JSONObject:
        return {} if self.before is None else self.before.attributes


@dataclass(slots=True, kw_only=True)
class ResourceCopy(WorkingCopy):
    """A Resource with its meta and its Versions. Its attributes, timestamps and epoch are those of the meta.

    ``versions`` are the Versions after the write by id, and ``removed`` those that the write removes, including new
    ones pruned at once. ``settled`` is the ``versionmode`` by which the Versions are ordered. If an xref is removed,
    the new epoch must exceed ``minimum_epoch`` (R269); ``target_epoch`` is the epoch of the Resource that the stored
    xref points to, or 0.

    If only some of the stored Versions are loaded, ``stored_count`` is the number of all stored ones. Then only
    Versions in ``open`` may get another ancestor, and those in ``inner`` are ancestors of Versions that are not loaded.
    """

    defaultversionid: str | None = None
    defaultversionsticky: bool = False
    versioncounter: int = 0
    xref: Xid | None = None
    versions: dict[str, VersionCopy] = field(default_factory=dict)
    removed: dict[str, VersionCopy] = field(default_factory=dict)
    minimum_epoch: int = 0
    settled: str | None = None
    stored_count: int | None = None
    target_epoch: int = 0
    open: set[str] | None = None
    inner: Collection[str] = ()

    @property
    def epoch(self) -> int:
        """The epoch of the meta after this write (R38, R269)."""
        # A cross reference shows its target's epoch. Its own epoch stays the one that was last shown (R269).
        counted = self.touched and self.xref is None
        plain = 1 if self.before is None else self.before.epoch + counted
        return max(plain, self.minimum_epoch + 1) if self.minimum_epoch else plain

    @property
    def readonly(self) -> bool:
        """True if clients must not change this Resource (R261)."""
        return bool(self.attributes.get("readonly", False))

    @property
    def size(self) -> int:
        """The number of stored Versions, loaded or not."""
        if self.stored_count is not None:
            return self.stored_count
        return sum(version.before is not None for version in self.versions.values())

    @property
    def partial(self) -> bool:
        """True if only some of the stored Versions are loaded."""
        return self.stored_count is not None

    @property
    def created(self) -> frozenset[str]:
        """The ids of new Versions."""
        return frozenset(version.id for version in self.versions.values() if version.before is None)

    def add(self, versions: Iterable[VersionCopy]) -> None:
        """Add stored Versions, except those that are already loaded or were removed."""
        for version in versions:
            if version.id not in self.removed:
                self.versions.setdefault(version.id, version)

    def arrange(self) -> None:
        """Sort the loaded Versions as if all were loaded: stored ones by id, then new ones."""
        ordered = sorted(self.versions.values(), key=lambda v: (v.before is None, v.before and v.id.casefold()))
        self.versions = {version.id: version for version in ordered}

    def remove(self, versionid: str) -> None:
        """Move a Version from ``versions`` to ``removed``."""
        self.removed[versionid] = self.versions.pop(versionid)


_Names: TypeAlias = tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]


class _Columns(NamedTuple):
    """The columns of a row that become fields of a copy, and those that a copy stores, including computed ones."""

    loaded: _Names
    stored: _Names


def _list_columns(copy: type[WorkingCopy]) -> _Columns:
    columns = [column for column in Row.__struct_fields__ if column not in ("key", "parent")]
    field_names = {column_field.name for column_field in fields(copy)}
    loaded, stored = [n for n in columns if n in field_names], [n for n in columns if hasattr(copy, n)]
    return _Columns((tuple(loaded), attrgetter(*loaded)), (tuple(stored), attrgetter(*stored)))


_COLUMNS: Final[dict[type[WorkingCopy], _Columns]] = {
    copy: _list_columns(copy) for copy in (OwnerCopy, VersionCopy, ResourceCopy)
}


@dataclass(slots=True, kw_only=True)
class WorkingTree:
    """Working copies by xid. ``deleted`` are stored entities to delete, and everything under them.

    ``numbers`` are the last version numbers of Resources that were deleted earlier, so that new ones continue from
    there.
    """

    registry: OwnerCopy
    groups: dict[Xid, OwnerCopy] = field(default_factory=dict)
    resources: dict[Xid, ResourceCopy] = field(default_factory=dict)
    deleted: list[WorkingCopy] = field(default_factory=list)
    numbers: dict[Xid, int] = field(default_factory=dict)

    def find_owner(self, xid: Xid) -> WorkingCopy | None:
        """Return the Registry, Group or Resource at ``xid``, or None if it is not in the tree."""
        return (self.resources.get(xid) or self.groups.get(xid)) if xid.parts else self.registry

    def ensure_group(self, xid: Xid, now: datetime) -> OwnerCopy:
        """Return the Group at ``xid``. Create it if it is missing (R52)."""
        copy = self.groups.get(xid)
        if copy is None:
            copy = self.groups[xid] = OwnerCopy(xid=xid, createdat=now, modifiedat=now)
            self.registry.change_members(xid.group_type, now)
        return copy

    def ensure_resource(self, xid: Xid, now: datetime) -> ResourceCopy:
        """Return the Resource at ``xid``. Create it without Versions if it is missing."""
        copy = self.resources.get(xid)
        if copy is None:
            counted = self.numbers.get(xid, 0)
            copy = self.resources[xid] = ResourceCopy(xid=xid, createdat=now, modifiedat=now, versioncounter=counted)
            self.ensure_group(xid.owner, now).change_members(xid.resource_type, now)
        return copy


def check_siblings(tree: WorkingTree) -> None:
    """Raise ``bad_request`` if two siblings in ``tree`` have ids that differ only in case (R26).

    The store compares new ids with ids that are not in ``tree``.
    """
    for resource in tree.resources.values():
        seen: dict[str, Xid] = {}
        for version in resource.versions.values():
            _check_id_case(seen, version.xid)
    folded: dict[Xid, dict[str, Xid]] = defaultdict(dict)
    for xid in (*tree.groups, *tree.resources):
        _check_id_case(folded[xid.parent], xid)


class IdClash(RegistryError):
    """The error for an id that already exists in other case (R26). xRegistry clients receive ``bad_request``."""

    def __init__(self, xid: Xid) -> None:
        detail = f'"{xid.parent}" already has an entity with the id "{xid.id}" (upper and lower case are one)'
        super().__init__("bad_request", subject=str(xid), error_detail=detail)


class UriTaken(RegistryError):
    """The error for a URI that belongs to another Version, because that Version claims it or is stored at it (A-21).

    It is a conflict (409) in every API. ``holder`` is None if the caller cannot read the other Version.
    """

    def __init__(self, xid: Xid, uri: str, holder: Xid | None) -> None:
        whose = "another Version" if holder is None else f'"{holder}"'
        detail = f'the URI "{uri}" is that of {whose} and of no other: leave it out, or give one of its own'
        super().__init__("invalid_attribute", subject=str(xid), name="globaluri", error_detail=detail)

    @property
    def status(self) -> int:
        """The HTTP status 409, because the attribute is valid but conflicts with another Version."""
        return HTTPStatus.CONFLICT


def make_xref_error(xid: Xid) -> RegistryError:
    """Return the error for a write to the Versions of a cross reference (R266)."""
    detail = f'"{xid}" is a cross reference; its Versions are written at its target'
    return RegistryError("bad_request", subject=str(xid), error_detail=detail)


def _check_id_case(seen: dict[str, Xid], xid: Xid) -> None:
    if seen.setdefault(xid.id.casefold(), xid) != xid:
        raise IdClash(xid)
