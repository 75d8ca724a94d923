"""The interfaces of the store; no other package sees anything else of the database.

A transaction has seven parts: entities, the outbox, operator settings, pipeline reports, subscriptions with their
deliveries, API tokens, and the audit. Whoever needs one of them takes that one alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
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


class StorageBusy(StorageError):
    """Another writer held the store for longer than the request may wait."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One entity: the Registry, a Group, a Resource (with its meta) or a Version.

    ``attributes`` are the client-settable ones beyond the columns here. Of a Resource, ``epoch``, ``createdat``,
    ``modifiedat`` and ``attributes`` are its meta's (core R38, R56); the default Version is a pointer, its view is
    computed. ``key`` and ``parent`` are storage keys; 0 as ``parent`` is the Registry's. ``rank`` is a text that puts a
    Version in its place among its siblings, compared by code point, before their ids do; ``settled`` names the rules by
    which a Resource's Versions have their ranks and ancestors; ``uri`` is a digest by which a Version is found from
    anywhere. All three are the engine's to choose.
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


class Hit(Protocol):
    """One step of a selection's way. Its rows are there if they were wanted, and decoded when they are asked for."""

    key: int
    folded: str
    """The folded id."""

    @property
    def xref(self) -> Xid | None:
        """What a Resource refers to, be it there or not."""

    @property
    def row(self) -> Row | None:
        """The entity's own row; None if rows were not wanted."""

    @property
    def target(self) -> Row | None:
        """What a Resource refers to."""

    @property
    def default(self) -> Row | None:
        """The default Version of what a Resource shows."""

    def attribute(self, part: Part, name: str) -> JSON:
        """One attribute of a row, at a hundredth of its cost; None without it. ``part`` is own or default."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the outbox: what one committed change was. ``position`` grows in commit order, without reuse."""

    position: int
    time: datetime
    correlationid: str
    change: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingPipeline:
    """A pipeline that reports its batches: the number of its ``newest`` report, when that came, and its gist."""

    name: str
    newest: int
    time: datetime
    gist: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """A report of one batch, as JSON text. ``number`` grows with each batch of a pipeline, ``time`` is when it came."""

    number: int
    time: datetime
    value: str


ACTIVE: Final = "active"
"""All is well, or nothing was tried yet."""
RETRYING: Final = "retrying"
"""The last attempt failed; there will be another one at ``next``."""
SUSPENDED: Final = "suspended"
"""The sink took nothing for too long: nothing is tried until the subscription is updated. Nothing is lost either."""
GONE: Final = "gone"
"""The sink said that it is gone for good (HTTP 410): nothing is tried until the subscription is updated."""


DELIVERY_STATES: Final = (ACTIVE, RETRYING, SUSPENDED, GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryState:
    """How far the deliveries to a subscription are, as ``GET`` of it shows.

    Every event up to the outbox position ``position`` is done with: delivered, rejected or not wanted. ``delivered``
    and ``rejected`` count events, ``failures`` attempts since the last event that was taken, the first of them at
    ``failing``. ``lasterror``, which holds no secrets, stays until an event is taken. Times are RFC3339, or empty.
    """

    position: int
    state: str = ACTIVE
    delivered: int = 0
    rejected: int = 0
    failures: int = 0
    failing: str = ""
    lasterror: str = ""
    lastattempt: str = ""
    lastdelivery: str = ""
    next: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will be tried."""
        return self.state in (SUSPENDED, GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """A subscription without secrets; ``sealed`` are these, encrypted, if it has any. ``credential`` is JSON, too, and
    so is ``owner``."""

    id: str
    revision: int
    protocol: str
    sink: str
    source: str = ""
    root: str = ""
    types: tuple[str, ...] = ()
    filters: tuple[JSON, ...] = ()
    config: JSONObject = field(default_factory=dict)
    protocolsettings: JSONObject = field(default_factory=dict)
    credential: JSONObject | None = None
    sealed: str | None = None
    owner: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConsent:
    """That the web hook at ``sink`` agreed to deliveries by calling back, at most ``rate`` a minute; None is any."""

    sink: str
    rate: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """That ``who`` did, or was refused, one ``action`` on ``xids``; ``details`` are what else is known of it.

    ``number``, 0 until it is stored, grows in commit order.
    """

    time: datetime
    who: str
    action: str
    outcome: str
    xids: tuple[str, ...] = ()
    correlationid: str = ""
    details: JSONObject = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which entries of the audit are wanted; what is empty or None holds for all of them.

    Numbers are between ``after`` and ``before``, both left out; times from ``since`` on and earlier than ``until``.
    ``xid`` is what one of the xids begins with, in upper or lower case.
    """

    before: int | None = None
    after: int = 0
    who: str = ""
    action: str = ""
    outcome: str = ""
    xid: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """An API token: who it acts as, in which ``groups``, and to which actions it is narrowed; None is to none.

    ``hash`` is what its secret is known by. ``used`` is when it was, to a minute or so.
    """

    id: str
    hash: str
    subject: str
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    note: str = ""
    created: datetime
    expires: datetime | None = None
    used: datetime | None = None


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
        """As ``newest``, of those that are no other's ancestor, behind the place ``above`` (rank, id).

        Costs as many steps as there are Versions from the newest one to the last found, or to that place.
        """

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Up to ``limit`` Versions before and behind this place in the order of ranks, then ids; the nearest first."""

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Versions below ``parent`` whose ancestor is another one, one of ``ancestors``; by id."""

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Those Versions among ``keys`` that a sibling, which is not, has as its ancestor."""

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Up to ``limit`` Versions with one of these ``uris``: by these, then those stored first."""

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Up to ``limit`` Versions below ``parent`` whose document has this digest, those stored first."""

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """What ``keep_numbers`` kept of these Resources, whatever the case of their ids."""


class Writer(Reader, Protocol):
    """Entities and their documents, with the transaction's own writes."""

    def reserve(self, count: int) -> Sequence[int]:
        """``count`` fresh storage keys, so that a tree can be inserted level by level."""

    def insert(self, rows: Sequence[Row]) -> None:
        """Add rows (parents first). A sibling with the same id in any case raises ``DuplicateId``.

        After that, as after every error of the database, the transaction can only be rolled back: further calls and
        the commit raise ``StorageError``.
        """

    def update(self, rows: Sequence[Row]) -> None:
        """Replace the rows with these keys; ``key``, ``parent`` and ``xid`` of a row never change.

        Raises ``StorageError`` if one of them is not stored.
        """

    def delete(self, keys: Collection[int]) -> None:
        """Remove these rows and all beneath them; documents that no row names at the commit go with it."""

    def put_documents(self, documents: Mapping[str, bytes]) -> None:
        """Keep documents by digest (``values.digest``); one that is there already stays.

        In any order with the rows that name them: what no row names at the commit is not kept.
        """

    def keep_numbers(self, numbers: Mapping[Xid, int]) -> None:
        """Keep the last numbers of Resources that are deleted, unless higher ones are kept of them already."""


class OutboxReader(Protocol):
    """Committed changes in commit order: the change feed, and what deliveries read."""

    def records(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """Committed changes behind position ``after``."""

    def position(self) -> int:
        """The position of the last change, 0 if there is none: any change of what is stored raises it."""

    def pruned(self) -> int:
        """The position up to which changes were pruned, 0 if none were."""


class OutboxWriter(OutboxReader, Protocol):
    """The outbox in a write transaction."""

    def append(self, changes: Sequence[JSONObject], *, time: datetime, correlationid: str) -> None:
        """Add changes, in this order; they get their positions at the commit, and are not seen before."""

    def prune(self, position: int) -> None:
        """Remove the changes up to ``position``; not the last one, which tells the registry's state."""


class SettingsReader(Protocol):
    """Operator settings: configuration documents, and a key-value store beside the registry, unseen by its clients."""

    def config(self, name: str) -> JSON | None:
        """The configuration document ``name`` (``capabilities``, ``modelsource``), or None if never set."""

    def config_epoch(self, name: str) -> int:
        """Grows with every ``put_config``; 0 if never set. Cheap: what compiled models are cached by."""

    def get(self, name: str) -> JSON:
        """The value stored under ``name``, None if there is none."""


class SettingsWriter(SettingsReader, Protocol):
    """Operator settings in a write transaction."""

    def put_config(self, name: str, value: JSON | None) -> None:
        """Set (or with None remove) a configuration document; raises its epoch."""

    def put(self, name: str, value: JSON | None) -> None:
        """Store (or with None remove) a value. It is no part of the registry, and no change of it."""


class ReportReader(Protocol):
    """Reports of pipelines; no part of the registry either."""

    def pipeline(self, name: str) -> ReportingPipeline | None:
        """A pipeline that has reported, or None."""

    def pipelines(self, after: str, limit: int) -> list[ReportingPipeline]:
        """Up to ``limit`` of them by name, behind the name ``after``."""

    def pipeline_count(self) -> int:
        """How many there are."""

    def reports(self, pipeline: str, before: int, limit: int, size: int) -> list[StoredReport]:
        """Up to ``limit`` reports with numbers below ``before``, the newest first.

        They end before they have more than ``size`` characters together, but never before the first.
        """


class ReportWriter(ReportReader, Protocol):
    """Reports of pipelines in a write transaction."""

    def put_report(
        self, name: str, batch: str, value: str, gist: JSON, *, time: datetime, keep: int
    ) -> tuple[int, bool]:
        """Store the report of a pipeline's batch, JSON text, with its gist, and keep the newest ``keep`` of all.

        Returns its number, and whether it is new: one of the same batch is replaced, in its old place and of its old
        time.
        """

    def drop_pipeline(self, name: str) -> bool:
        """Remove a pipeline and its reports; whether there was one."""


class SubscriptionReader(Protocol):
    """Subscriptions, their deliveries, and what web hooks agreed to; no part of the registry."""

    def revision(self) -> int:
        """What ``put_totals`` set: another number once any of them was created, changed or deleted."""

    def count(self) -> int:
        """How many there are, as ``put_totals`` set it."""

    def get(self, id: str) -> StoredSubscription | None:
        """One of them, or None."""

    def page(self, after: str = "", limit: int | None = None) -> list[StoredSubscription]:
        """Up to ``limit`` of them by id, behind the id ``after``."""

    def delivery(self, id: str) -> DeliveryState | None:
        """How far the deliveries to one are, None if that was never stored."""

    def deliveries(self, after: str, through: str) -> dict[str, DeliveryState]:
        """The same by id, behind ``after`` and up to ``through``."""

    def least_position(self) -> int | None:
        """The least position of all deliveries: what is behind it is still needed."""

    def states(self) -> dict[str, tuple[int, int]]:
        """How many deliveries are in each state, and the least position of those; a state that none is in is left out.

        That of an active one is written seldom: it says where a restart begins to read.
        """

    def consent(self, id: str) -> StoredConsent | None:
        """What the web hook of one agreed to, or None."""


class SubscriptionWriter(SubscriptionReader, Protocol):
    """Subscriptions in a write transaction."""

    def put(self, subscription: StoredSubscription) -> None:
        """Add one, or replace the one with its id."""

    def remove(self, id: str) -> None:
        """Remove one, and with it its delivery and consent."""

    def put_totals(self, *, revision: int, count: int) -> None:
        """Set what ``revision`` and ``count`` return: both are asked several times a second."""

    def put_delivery(self, id: str, delivery: DeliveryState) -> None:
        """Store how far the deliveries to one are."""

    def put_consent(self, id: str, consent: StoredConsent) -> None:
        """Store what the web hook of one agreed to."""


class AuditReader(Protocol):
    """The audit: who did what, and what was refused to whom; no part of the registry."""

    def entries(self, query: AuditQuery, limit: int) -> list[AuditEntry]:
        """Up to ``limit`` entries, the newest first."""


class AuditWriter(AuditReader, Protocol):
    """The audit in a write transaction. Nothing in it is ever changed."""

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries; they get their numbers at the commit, and are not seen before."""

    def prune(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` of the oldest entries, those made before then; returns how many."""


class TokenReader(Protocol):
    """API tokens; no part of the registry."""

    def get(self, id: str) -> StoredToken | None:
        """One of them, or None."""

    def page(self, after: str, limit: int) -> list[StoredToken]:
        """Up to ``limit`` of them by id, behind the id ``after``."""

    def count(self) -> int:
        """How many there are."""


class TokenWriter(TokenReader, Protocol):
    """API tokens in a write transaction. To add and to remove one changes ``Store.generation``."""

    def add(self, token: StoredToken) -> None:
        """Add one."""

    def remove(self, id: str) -> bool:
        """Remove one; whether there was one."""

    def put_used(self, id: str, time: datetime) -> None:
        """Store when one was used, if it is still there."""


class ReadTransaction(Protocol):
    """A consistent view of the store at one instant, that of its first call. For one thread at a time.

    Every call of its parts may raise ``StorageError``.
    """

    @property
    def entities(self) -> Reader: ...

    @property
    def outbox(self) -> OutboxReader: ...

    @property
    def settings(self) -> SettingsReader: ...

    @property
    def reports(self) -> ReportReader: ...

    @property
    def subscriptions(self) -> SubscriptionReader: ...

    @property
    def audit(self) -> AuditReader: ...

    @property
    def tokens(self) -> TokenReader: ...


class WriteTransaction(ReadTransaction, Protocol):
    """A read-write transaction: sees its own writes; all or nothing."""

    @property
    def entities(self) -> Writer: ...

    @property
    def outbox(self) -> OutboxWriter: ...

    @property
    def settings(self) -> SettingsWriter: ...

    @property
    def reports(self) -> ReportWriter: ...

    @property
    def subscriptions(self) -> SubscriptionWriter: ...

    @property
    def audit(self) -> AuditWriter: ...

    @property
    def tokens(self) -> TokenWriter: ...

    def savepoint(self) -> AbstractContextManager[None]:
        """A part that may fail alone: on any exception what the block did is undone, and the transaction goes on.

        Parts follow one another, none is in another. Raises ``StorageError`` where the database gave up the whole
        transaction; what the block still streams ends with it.
        """


class DuplicateId(StorageError):
    """Two siblings whose ids differ in case only, or not at all."""

    def __init__(self, xid: Xid) -> None:
        super().__init__(f"{xid.parent} already has an entity with the id {xid.id!r} (upper and lower case are one)")
        self.xid = xid


class Store(Protocol):
    """A database with the schema of this version in it."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """A read transaction; any number at once, beside the writer."""

    def write(self) -> AbstractContextManager[WriteTransaction]:
        """The write transaction: commits at the end of the block, rolls back on any exception.

        Raises ``StorageBusy`` when other writers hold the store for longer than the store's timeout.
        """

    def generation(self) -> Hashable:
        """Another value once anything of the registry was committed, by whichever process: as long as it is the same,
        so is what was read of the registry after it was returned. Tokens that are
        made or revoked count, too; settings stored by key, reports, subscriptions and the audit leave it as it is."""

    def close(self) -> None:
        """Give back every connection."""


class KeyValueStore:
    """The key-value store for who needs nothing else of it: each call is a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, name: str) -> JSON:
        """The value stored under ``name``, None if there is none."""
        with self._store.read() as transaction:
            return transaction.settings.get(name)

    def put(self, values: Mapping[str, JSON]) -> None:
        """Store values by name, all or none of them; None removes one."""
        with self._store.write() as transaction:
            for name, value in values.items():
                transaction.settings.put(name, value)
