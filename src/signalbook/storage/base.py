"""Entities as they are stored, how they are asked for, and the errors of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

Part: TypeAlias = Literal["own", "shown", "default"]
"""A row of a step: the entity's own; of a Resource the one whose meta and Versions it shows, or its default Version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one column of one step's row.

    ``relation`` is one of ``= < <= > >=`` with one value, or ``contains``: the text has one of ``values`` in it,
    whatever their case. A text with characters whose lower case is ASCII and which are not contains everything.
    ``default`` has no value: the folded id is that of the default Version of the Resource on the way.
    """

    step: int
    part: Part
    column: str
    relation: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Steps from the entity with key ``parent`` through the collections ``types``.

    Step number ``resource``, that of Resources if it is on the way, follows cross references, one hop: what lies
    beneath is the target's. ``rows`` are the steps whose rows are wanted, of a Resource its target and default Version
    too; ``attributes`` those of which no more is wanted, of a Resource its default Version's. A way comes back if it
    passes all tests of one of ``alternatives``. ``after`` is an id of the first step to start behind.
    """

    parent: int
    types: tuple[str, ...]
    resource: int | None = None
    rows: frozenset[int] = frozenset()
    attributes: frozenset[int] = frozenset()
    alternatives: tuple[tuple[Condition, ...], ...] = ((),)
    after: str | None = None


class StorageError(SignalbookError):
    """The store cannot do its work (no connection, full disk, damaged file); the message says what to do.

    ``shown`` is as much of it as clients may know: neither which database it is nor what its driver says.
    """

    def __init__(self, shown: str, *, where: str = "", cause: str = "") -> None:
        text = f"{where}: {shown}" if where else shown
        super().__init__(f"{text} ({cause})" if cause else text)
        self.shown = shown


class StorageUnavailable(StorageError):
    """The database is away: it does not run, cannot be reached, or takes no connections. It may be back soon."""


class StorageFull(StorageError):
    """The disk is full. What is stored can be read; writes work again as soon as there is room."""


class StorageBusy(StorageError):
    """Another writer held the store for longer than the request may wait."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """An entity: the Registry, a Group, a Resource (with its meta) or a Version.

    ``attributes`` are the client-settable ones beyond the columns here. Of a Resource, ``epoch``, ``createdat``,
    ``modifiedat`` and ``attributes`` are its meta's (core R38, R56); the default Version is a pointer, its view is
    computed. ``key`` and ``parent`` are storage keys; 0 as ``parent`` is the Registry's. ``rank`` is a text that puts a
    Version in its place among its siblings, compared by code point, before their ids do; ``settled`` names the rules by
    which a Resource's Versions have their ranks and ancestors; ``uri`` is a digest by which a Version is found from
    anywhere; ``schemaid`` is the number that its content has in its Group. All four are the engine's to choose.
    """

    key: int
    parent: int
    xid: Xid
    epoch: int
    createdat: datetime
    modifiedat: datetime
    attributes: JSONObject = msgspec.field(default_factory=dict)
    # Resource only
    defaultversionid: str | None = None
    defaultversionsticky: bool = False
    versioncounter: int = 0
    xref: Xid | None = None
    settled: str | None = None
    # Version only
    ancestorid: str | None = None
    document: str | None = None
    rank: str | None = None
    uri: str | None = None
    schemaid: int | None = None

    @property
    def default_version(self) -> Xid:
        """The default Version of a Resource that has one."""
        return self.xid / "versions" / (self.defaultversionid or "")


class Hit(Protocol):
    """A step on the way to a selected entity. Its rows are present if requested, and decoded on first use."""

    key: int
    folded: str
    """The folded id."""

    @property
    def xref(self) -> Xid | None:
        """The xid that a Resource refers to, whether it exists or not."""

    @property
    def row(self) -> Row | None:
        """The entity's own row; None if rows were not wanted."""

    @property
    def target(self) -> Row | None:
        """The Resource that a Resource refers to."""

    @property
    def default(self) -> Row | None:
        """The default Version of what a Resource shows."""

    def attribute(self, part: Part, name: str) -> JSON:
        """Return one attribute of a row at a hundredth of the row's cost, or None. ``part`` is own or default."""


LAST: Final = "\x7f"
"""Behind all ids; put behind one, behind all that begin with it."""
BEHIND: Final = "!"
"""Put behind an id, behind it and before all that begin with it."""


class Reader(Protocol):
    """Entities and their documents. Collections given may be of any size: each call is a fixed number of statements."""

    def get(self, xid: Xid) -> Row | None:
        """The entity at exactly this xid (case-sensitive), or None."""

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``."""

    def children(
        self,
        parents: Collection[int],
        type: str | None = None,
        *,
        ids: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Rows below ``parents``, ordered by parent, type, folded id; of one plural ``type`` if given.

        ``ids`` keeps only these ids, compared case-insensitively; ``limit`` bounds the rows; ``after`` starts behind
        this id, there or not, in any case (keyset paging; for one parent and one type only, else ``ValueError``).
        Memory is bounded by a batch of 1000 rows: the first one is read by this call, the others while iterating, so a
        writer that changes what it iterates over may meet either state beyond the first batch. Ends with its
        transaction.
        """

    def is_vacant(self, parent: int, type: str, id: str) -> bool:
        """Return True if nothing below ``parent`` of this plural ``type`` has this id, in any case."""

    def preceding(self, parent: int, type: str, limit: int, *, upto: str | None = None) -> list[Row]:
        """Up to ``limit`` rows of one type below ``parent``, by falling ids, from the last or from ``upto`` on.

        ``upto`` is an id, there or not, in any case.
        """

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """The entities that exist among these keys, by parent, type and folded id; a batch of 1000 in memory."""

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """The ways of ``selection``, each a hit per step, in the order of their folded ids.

        Memory is bounded by a batch of 1000 ways. Ends with its transaction.
        """

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type); pairs without children are absent. Kept, not counted."""

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``."""

    def newest(self, parent: int, limit: int) -> list[Row]:
        """The Versions below ``parent`` with the highest ranks, then ids, falling."""

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Return Versions like ``newest``, but only those that are no other's ancestor, after the place ``above``.

        ``above`` is (rank, id). The cost is the number of Versions from the newest one to the last result, or to that
        place.
        """

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Up to ``limit`` Versions before and behind this place in the order of ranks, then ids; the nearest first."""

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Versions below ``parent`` whose ancestor is another one, one of ``ancestors``; by id."""

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Return the Versions among ``keys`` that are an ancestor of a sibling outside ``keys``."""

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Up to ``limit`` Versions with one of these ``uris``: by these, then those stored first."""

    def schemas(
        self, group: int, *, first: str = "", last: str = LAST, offset: int = 0, limit: int
    ) -> list[tuple[str, str]]:
        """Ids of the schemas below ``group`` whose default Version has a number, by folded ids, from ``first`` to
        before ``last``; each with the attributes of that Version, as JSON. What is passed over is walked by index."""

    def count_schemas(self, group: int) -> int:
        """The number of these, which are counted."""

    def numbered(self, group: Xid, schemaid: int, limit: int, after: str = "") -> list[Row]:
        """Up to ``limit`` Versions below ``group`` with this number, by xid, behind the xid ``after``."""

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Up to ``limit`` Versions below ``parent`` whose document has this digest, those stored first."""

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """Return the numbers that ``keep_numbers`` stored for these Resources, whatever the case of their ids."""


class DuplicateId(StorageError):
    """Two siblings whose ids differ in case only, or not at all."""

    def __init__(self, xid: Xid) -> None:
        super().__init__(f"{xid.parent} already has an entity with the id {xid.id!r} (upper and lower case are one)")
        self.xid = xid
