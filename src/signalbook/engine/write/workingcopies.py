"""Working copies: entities as one command leaves them, before they are rows again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime
from http import HTTPStatus
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias

from signalbook.cncf.ids import compute_uri_digest
from signalbook.errors import RegistryError
from signalbook.storage.base import Row
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(slots=True, kw_only=True)
class WorkingCopy:
    """An entity in the making. ``before`` is its stored row, None while it is new.

    ``stamped`` means that the client gave ``modifiedat``, which a knock-on change must not overwrite.
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
        """Return the unchanged copy of a stored entity; the caller adds a Resource's Versions."""
        names, values = _COLUMNS[cls].loaded
        return cls(before=row, **dict(zip(names, values(row), strict=True)))

    def touch(self, now: datetime) -> None:
        """Count as updated in this request: the epoch will rise once (R34), ``modifiedat`` is now (R41)."""
        self.touched = True
        if not self.stamped:
            self.modifiedat = now

    @property
    def key(self) -> int:
        """The storage key, 0 while it is new."""
        return 0 if self.before is None else self.before.key

    @property
    def epoch(self) -> int:
        """The epoch this entity will have: 1 when new, one more when touched (R34)."""
        return 1 if self.before is None else self.before.epoch + self.touched

    @property
    def changed(self) -> bool:
        """True if the row to store differs from the stored one."""
        _, values = _COLUMNS[type(self)].stored
        return self.before is None or values(self) != values(self.before)

    def to_row(self, key: int, parent: int) -> Row:
        """Return this copy as the row to store."""
        names, values = _COLUMNS[type(self)].stored
        return Row(key=key, parent=parent, **dict(zip(names, values(self), strict=True)))


@dataclass(slots=True, kw_only=True)
class OwnerCopy(WorkingCopy):
    """The Registry or a Group; ``collections`` are its nested collections that gained or lost an entity (R37)."""

    collections: set[str] = field(default_factory=set)

    def change_members(self, plural: str, now: datetime) -> None:
        """Record that an entity of this type was added or removed."""
        self.collections.add(plural)
        self.touch(now)


@dataclass(slots=True, kw_only=True)
class VersionCopy(WorkingCopy):
    """A Version. ``ancestorid`` is None until lineage is settled; ``document`` is a digest or None."""

    ancestorid: str | None = None
    document: str | None = None
    rank: str | None = None

    @property
    def id(self) -> str:
        """The ``versionid``."""
        return self.xid.parts[-1]

    @property
    def relinked(self) -> bool:
        """True if the ancestor changed, or the Version is new."""
        return self.before is None or self.before.ancestorid != self.ancestorid

    @property
    def uri(self) -> str | None:
        """The digest by which the Version is found from anywhere."""
        return compute_uri_digest(self.xid.group_type, self.attributes)

    @property
    def claims_uri(self) -> bool:
        """True if there is a new URI in addition to that of its path."""
        now, before = (
            (attributes.get("authority"), attributes.get("globaluri")) for attributes in (self.attributes, self._stored)
        )
        return now != before and now != (None, None)

    @property
    def _stored(self) -> JSONObject:
        return {} if self.before is None else self.before.attributes


@dataclass(slots=True, kw_only=True)
class ResourceCopy(WorkingCopy):
    """A Resource with its meta (``attributes``, timestamps and epoch are meta's) and its Versions by id.

    ``removed`` are Versions that will be gone, also new ones that are pruned at once. The new epoch must exceed
    ``minimum_epoch`` after an xref is taken away (R269). ``settled`` is the ``versionmode`` that orders the Versions.

    ``target_epoch`` is the epoch of the Resource that its stored xref points to, 0 if there is none.

    ``versions`` are all there will be. If only some of ``stored_count`` Versions were loaded, only those in ``open``
    may get another ancestor, and those in ``inner`` are ancestors of others.
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
        """Meta's epoch as it will be (R38, R269)."""
        # A reference shows its target's epoch; its own stays that of the last time when it was shown (R269).
        counted = self.touched and self.xref is None
        plain = 1 if self.before is None else self.before.epoch + counted
        return max(plain, self.minimum_epoch + 1) if self.minimum_epoch else plain

    @property
    def readonly(self) -> bool:
        """True if clients may not change this Resource (R261)."""
        return bool(self.attributes.get("readonly", False))

    @property
    def size(self) -> int:
        """The number of stored Versions."""
        if self.stored_count is not None:
            return self.stored_count
        return sum(version.before is not None for version in self.versions.values())

    @property
    def partial(self) -> bool:
        """True if only some of the stored Versions are here."""
        return self.stored_count is not None

    @property
    def created(self) -> frozenset[str]:
        """Ids of the Versions that are new."""
        return frozenset(version.id for version in self.versions.values() if version.before is None)

    def add(self, versions: Iterable[VersionCopy]) -> None:
        """Add stored Versions, without those that are here already or were removed."""
        for version in versions:
            if version.id not in self.removed:
                self.versions.setdefault(version.id, version)

    def arrange(self) -> None:
        """Put the Versions in the order in which they are when all are loaded: those stored by id, then new ones."""
        ordered = sorted(self.versions.values(), key=lambda v: (v.before is None, v.before and v.id.casefold()))
        self.versions = {version.id: version for version in ordered}

    def remove(self, versionid: str) -> None:
        """Take a Version out."""
        self.removed[versionid] = self.versions.pop(versionid)


_Names: TypeAlias = tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]


class _Columns(NamedTuple):
    """The columns of a row that a copy is made of, and those that a row is made of again: computed ones, too."""

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
    """Working copies by xid. ``deleted`` are stored entities that will be gone, with everything under them.

    ``numbers`` are those that Resources have had before they were deleted, where new ones go on counting.
    """

    registry: OwnerCopy
    groups: dict[Xid, OwnerCopy] = field(default_factory=dict)
    resources: dict[Xid, ResourceCopy] = field(default_factory=dict)
    deleted: list[WorkingCopy] = field(default_factory=list)
    numbers: dict[Xid, int] = field(default_factory=dict)

    def find_owner(self, xid: Xid) -> WorkingCopy | None:
        """Return the Registry, Group or Resource at ``xid``, if it is here."""
        return (self.resources.get(xid) or self.groups.get(xid)) if xid.parts else self.registry

    def ensure_group(self, xid: Xid, now: datetime) -> OwnerCopy:
        """Return the Group at ``xid``; make it if it is missing (R52)."""
        copy = self.groups.get(xid)
        if copy is None:
            copy = self.groups[xid] = OwnerCopy(xid=xid, createdat=now, modifiedat=now)
            self.registry.change_members(xid.group_type, now)
        return copy

    def ensure_resource(self, xid: Xid, now: datetime) -> ResourceCopy:
        """Return the Resource at ``xid``; make it without Versions if it is missing."""
        copy = self.resources.get(xid)
        if copy is None:
            counted = self.numbers.get(xid, 0)
            copy = self.resources[xid] = ResourceCopy(xid=xid, createdat=now, modifiedat=now, versioncounter=counted)
            self.ensure_group(xid.owner, now).change_members(xid.resource_type, now)
        return copy


def check_siblings(tree: WorkingTree) -> None:
    """Check that no two new siblings differ only in case (R26), else ``bad_request``. The store checks stored ones."""
    for resource in tree.resources.values():
        seen: dict[str, Xid] = {}
        for version in resource.versions.values():
            _check_id_case(seen, version.xid)
    folded: dict[Xid, dict[str, Xid]] = defaultdict(dict)
    for xid in (*tree.groups, *tree.resources):
        _check_id_case(folded[xid.parent], xid)


class IdClash(RegistryError):
    """An id that exists in other case (R26): to clients of xRegistry a ``bad_request``."""

    def __init__(self, xid: Xid) -> None:
        detail = f'"{xid.parent}" already has an entity with the id "{xid.id}" (upper and lower case are one)'
        super().__init__("bad_request", subject=str(xid), error_detail=detail)


class UriTaken(RegistryError):
    """A URI that is another Version's, by its claim or by its place (A-21): a conflict (409) in every API.

    ``holder`` is None if the caller may not know of it.
    """

    def __init__(self, xid: Xid, uri: str, holder: Xid | None) -> None:
        whose = "another Version" if holder is None else f'"{holder}"'
        detail = f'the URI "{uri}" is that of {whose} and of no other: leave it out, or give one of its own'
        super().__init__("invalid_attribute", subject=str(xid), name="globaluri", error_detail=detail)

    @property
    def status(self) -> int:
        """The status of a conflict: the attribute may be valid by itself."""
        return HTTPStatus.CONFLICT


def make_xref_error(xid: Xid) -> RegistryError:
    """Return the error for a write to the Versions of a reference (R266)."""
    detail = f'"{xid}" is a cross reference; its Versions are written at its target'
    return RegistryError("bad_request", subject=str(xid), error_detail=detail)


def _check_id_case(seen: dict[str, Xid], xid: Xid) -> None:
    if seen.setdefault(xid.id.casefold(), xid) != xid:
        raise IdClash(xid)
