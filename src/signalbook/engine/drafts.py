"""Entities as one command leaves them, before they are rows again: the in-memory side of a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from signalbook.storage.base import Row
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(slots=True, kw_only=True)
class Draft:
    """An entity in the making. ``before`` is its stored row, None while it is new.

    ``stamped`` tells that the client gave ``modifiedat``, which a knock-on change must not overwrite.
    """

    xid: Xid
    createdat: datetime
    modifiedat: datetime
    before: Row | None = None
    attributes: JSONObject = field(default_factory=dict)
    touched: bool = False
    stamped: bool = False

    @classmethod
    def of(cls, row: Row) -> Self:
        """The draft of a stored entity, unchanged."""
        return cls(
            xid=row.xid,
            before=row,
            attributes=row.attributes,
            createdat=row.createdat,
            modifiedat=row.modifiedat,
        )

    def touch(self, now: datetime) -> None:
        """Count as updated in this request: the epoch will rise once (R34), ``modifiedat`` is now (R41)."""
        self.touched = True
        if not self.stamped:
            self.modifiedat = now

    @property
    def epoch(self) -> int:
        """The epoch this entity will have: 1 when new, one more when touched (R34)."""
        return 1 if self.before is None else self.before.epoch + self.touched

    def row(self, key: int, parent: int) -> Row:
        """This draft as the row to store."""
        return Row(
            key=key,
            parent=parent,
            xid=self.xid,
            epoch=self.epoch,
            createdat=self.createdat,
            modifiedat=self.modifiedat,
            attributes=self.attributes,
        )


@dataclass(slots=True, kw_only=True)
class OwnerDraft(Draft):
    """The Registry or a Group; ``collections`` are its nested collections that gained or lost an entity (R37)."""

    collections: set[str] = field(default_factory=set)

    def membership_changed(self, plural: str, now: datetime) -> None:
        """An entity of this type was added or removed below."""
        self.collections.add(plural)
        self.touch(now)


@dataclass(slots=True, kw_only=True)
class VersionDraft(Draft):
    """A Version. ``ancestorid`` is None until lineage is settled; ``document`` is a digest or None."""

    ancestorid: str | None = None
    document: str | None = None

    @classmethod
    def of(cls, row: Row) -> Self:
        """The draft of a stored Version, unchanged."""
        return cls(
            xid=row.xid,
            before=row,
            attributes=row.attributes,
            createdat=row.createdat,
            modifiedat=row.modifiedat,
            ancestorid=row.ancestorid,
            document=row.document,
        )

    @property
    def id(self) -> str:
        """The ``versionid``."""
        return self.xid.id

    def row(self, key: int, parent: int) -> Row:
        """This draft as the row to store."""
        return Row(
            key=key,
            parent=parent,
            xid=self.xid,
            epoch=self.epoch,
            createdat=self.createdat,
            modifiedat=self.modifiedat,
            attributes=self.attributes,
            ancestorid=self.ancestorid,
            document=self.document,
        )


@dataclass(slots=True, kw_only=True)
class ResourceDraft(Draft):
    """A Resource with its meta (``attributes``, timestamps and epoch are meta's) and all its Versions by id.

    ``removed`` are stored Versions that will be gone; ``floor`` is the epoch the new one must exceed after an xref is
    taken away (R269).
    """

    defaultversionid: str | None = None
    sticky: bool = False
    versioncounter: int = 0
    xref: Xid | None = None
    versions: dict[str, VersionDraft] = field(default_factory=dict)
    removed: dict[str, VersionDraft] = field(default_factory=dict)
    floor: int = 0

    @classmethod
    def of(cls, row: Row) -> Self:
        """The draft of a stored Resource, unchanged; the caller adds its Versions."""
        return cls(
            xid=row.xid,
            before=row,
            attributes=row.attributes,
            createdat=row.createdat,
            modifiedat=row.modifiedat,
            defaultversionid=row.defaultversionid,
            sticky=row.defaultversionsticky,
            versioncounter=row.versioncounter,
            xref=row.xref,
        )

    @property
    def epoch(self) -> int:
        """Meta's epoch as it will be (R38, R269)."""
        plain = 1 if self.before is None else self.before.epoch + self.touched
        return max(plain, self.floor + 1) if self.floor else plain

    @property
    def readonly(self) -> bool:
        """Whether clients may not change this Resource (R261)."""
        return bool(self.attributes.get("readonly", False))

    def remove(self, versionid: str) -> None:
        """Take a Version out; one that was never stored simply vanishes."""
        version = self.versions.pop(versionid)
        if version.before is not None:
            self.removed[versionid] = version

    def row(self, key: int, parent: int) -> Row:
        """This draft as the row to store."""
        return Row(
            key=key,
            parent=parent,
            xid=self.xid,
            epoch=self.epoch,
            createdat=self.createdat,
            modifiedat=self.modifiedat,
            attributes=self.attributes,
            defaultversionid=self.defaultversionid,
            defaultversionsticky=self.sticky,
            versioncounter=self.versioncounter,
            xref=self.xref,
        )
