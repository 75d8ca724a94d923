"""Stored entities, the interface that reads them, and the errors of the store."""

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
"""Which row of a step is meant: the entity's own row, the row of the Resource whose meta and Versions it shows (the
target of its cross reference, else itself), or the row of the default Version of that Resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one column in the row of step number ``step``; ``part`` says which of the step's rows.

    ``relation`` is one of ``= < <= > >=`` with one value, or ``contains``: the text contains one of ``values``,
    ignoring case. ``contains`` is also true of texts with non-ASCII characters whose lower case is ASCII, because the
    database folds ASCII only. ``default`` has no value: it tests that the entity is the default Version of the Resource
    above it.
    """

    step: int
    part: Part
    column: str
    relation: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A query that descends from the entity with key ``parent`` through the nested collections ``types``, one per step.

    ``resource`` is the number of the step that selects Resources, None if no step does. At this step a cross reference
    is followed once, so the next steps are below its target. ``rows`` are the steps whose rows are returned, for a
    Resource also its target and default Version. ``attributes`` are the steps of which only attributes are returned,
    for a Resource those of its default Version. A path of entities is returned if it passes all tests of at least one
    of ``alternatives``. ``after`` is an id: entities of the first step up to it are skipped.
    """

    parent: int
    types: tuple[str, ...]
    resource: int | None = None
    rows: frozenset[int] = frozenset()
    attributes: frozenset[int] = frozenset()
    alternatives: tuple[tuple[Condition, ...], ...] = ((),)
    after: str | None = None


class StorageError(SignalbookError):
    """The store cannot do its work (no connection, full disk, damaged file). The message says what to do.

    ``shown`` is the part of the message that clients may see. It contains neither the database's address nor the
    driver's message.
    """

    def __init__(self, shown: str, *, where: str = "", cause: str = "") -> None:
        text = f"{where}: {shown}" if where else shown
        super().__init__(f"{text} ({cause})" if cause else text)
        self.shown = shown


class StorageUnavailable(StorageError):
    """The database is unavailable: it is not running, cannot be reached, or accepts no connections. It may be back
    soon."""


class StorageFull(StorageError):
    """The disk is full. Reading still works; writing works again as soon as there is room."""


class StorageBusy(StorageError):
    """Another writer held the store for longer than the request may wait."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """An entity: the Registry, a Group, a Resource (with its meta) or a Version.

    ``attributes`` are the client-settable attributes that have no column here. For a Resource, ``epoch``,
    ``createdat``, ``modifiedat`` and ``attributes`` are those of its meta (core R38, R56), and ``defaultversionid``
    points to its default Version. ``key`` and ``parent`` are storage keys; the Registry's ``parent`` is 0. Versions of
    one Resource are ordered by ``rank``, compared by code point, then by id. ``settled`` names the rules by which a
    Resource's Versions got their ranks and ancestors. ``uri`` is a digest by which a Version is found from anywhere.
    ``schemaid`` is the number of the Version's content in its Group. The engine chooses the last four.
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
        """The xid of the default Version of a Resource, which must have a default Version."""
        return self.xid / "versions" / (self.defaultversionid or "")


class Hit(Protocol):
    """One entity on the path to a selected entity. Its rows are present if requested, and decoded on first use."""

    key: int
    folded: str
    """The id in lower case."""

    @property
    def xref(self) -> Xid | None:
        """The xid that a Resource refers to, whether that entity exists or not; None without a cross reference."""

    @property
    def row(self) -> Row | None:
        """The entity's own row; None if the rows of this step were not requested."""

    @property
    def target(self) -> Row | None:
        """The row of the Resource that this Resource refers to; None if there is no such Resource or it was not
        requested."""

    @property
    def default(self) -> Row | None:
        """The default Version of the Resource that is shown: the cross reference's target, if any, else the Resource
        itself."""

    def attribute(self, part: Part, name: str) -> JSON:
        """Return one attribute, or None if it is absent. Much cheaper than decoding the row. ``part`` is own or
        default."""


LAST: Final = "\x7f"
"""Sorts after all ids. Appended to an id, it sorts after all ids that begin with that id."""
BEHIND: Final = "!"
"""Appended to an id, it sorts after that id and before all longer ids that begin with it."""


class Reader(Protocol):
    """Reads entities and their documents. Collection arguments may have any size: each call runs a fixed number of
    statements."""

    def get(self, xid: Xid) -> Row | None:
        """Return the entity at exactly this xid (case-sensitive), or None."""

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Return the entities that exist among ``xids``, by xid."""

    def children(
        self,
        parents: Collection[int],
        type: str | None = None,
        *,
        ids: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Return the rows below ``parents``, ordered by parent, type and folded id; only rows of the plural ``type`` if
        given.

        ``ids`` keeps only these ids, ignoring case. ``limit`` bounds the number of rows. ``after`` skips ids up to this
        one, ignoring case, whether it exists or not (keyset paging; for one parent and one type only, else
        ``ValueError``). Memory is bounded by a batch of 1000 rows: this call reads the first batch, the iteration reads
        the others. If a writer changes rows while it iterates over them, later batches may or may not contain the
        changes. The iterator ends with its transaction.
        """

    def is_vacant(self, parent: int, type: str, id: str) -> bool:
        """Return True if nothing below ``parent`` of this plural ``type`` has this id, ignoring case."""

    def preceding(self, parent: int, type: str, limit: int, *, upto: str | None = None) -> list[Row]:
        """Return up to ``limit`` rows of one type below ``parent`` by descending ids, starting at the last id or at
        ``upto``.

        ``upto`` is included, compared ignoring case, and need not exist.
        """

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """Return the entities that exist among ``keys``, by parent, type and folded id. At most 1000 rows are in
        memory."""

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """Return the paths that match ``selection``, each a tuple with one hit per step, in the order of their folded
        ids.

        Memory is bounded by a batch of 1000 paths. The iterator ends with its transaction.
        """

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Return the stored number of children by (parent key, type). Pairs without children are absent."""

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Return the Resources whose xref is one of ``targets``."""

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Return up to ``limit`` Versions below ``parent``, by descending rank, then descending id."""

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Return Versions like ``newest``, but only those that are no other Version's ancestor and come after
        ``above``.

        ``above`` is (rank, id). The cost is the number of Versions from the newest one down to the last result, or down
        to ``above``.
        """

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Return up to ``limit`` Versions before and up to ``limit`` after this place in the order of rank, then id.

        Both lists have the nearest Version first.
        """

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Return the Versions below ``parent`` whose ancestor is one of ``ancestors`` and not the Version itself, by
        id."""

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Return the Versions among ``keys`` that are an ancestor of a sibling outside ``keys``."""

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Return up to ``limit`` Versions with one of these ``uris``, ordered by uri, then by age, the oldest first."""

    def schemas(
        self, group: int, *, first: str = "", last: str = LAST, offset: int = 0, limit: int
    ) -> list[tuple[str, str]]:
        """Return up to ``limit`` schemas below ``group`` whose default Version has a number, by folded id.

        Each is (id, attributes of the default Version as JSON). ``first`` is the lowest id included, ``last`` the
        lowest id excluded. ``offset`` rows are skipped, at the cost of walking through them in the index.
        """

    def count_schemas(self, group: int) -> int:
        """Return the number of schemas below ``group`` whose default Version has a number. The query counts them."""

    def numbered(self, group: Xid, schemaid: int, limit: int, after: str = "") -> list[Row]:
        """Return up to ``limit`` Versions below ``group`` with the number ``schemaid``, by xid, after the xid
        ``after``."""

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Return up to ``limit`` Versions below ``parent`` whose document has this digest, the oldest first."""

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Return the exact bytes of the stored documents among ``digests``, by digest."""

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """Return the numbers that ``keep_numbers`` stored for these Resources, ignoring the case of their ids."""


class DuplicateId(StorageError):
    """Two siblings have ids that are equal or differ in case only."""

    def __init__(self, xid: Xid) -> None:
        super().__init__(f"{xid.parent} already has an entity with the id {xid.id!r} (upper and lower case are one)")
        self.xid = xid
