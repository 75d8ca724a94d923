"""Subscriptions, how far the deliveries to each are, and what web hooks agreed to."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import CONSENTS, COUNTERS, DELIVERIES, SUBSCRIPTIONS, dump_text, load_json
from signalbook.storage.transaction import SqlTransaction
from signalbook.values import JSON, JSONObject

_JSON: Final = ("types", "filters", "config", "protocolsettings", "credential", "owner")
_ALL: Final = 2**63 - 1
_REVISION: Final = "subscriptions.revision"
_COUNT: Final = "subscriptions.count"

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
    """The progress of the deliveries to a subscription, as ``GET`` of it shows.

    Every event up to the outbox position ``position`` is done: delivered, rejected or not selected. ``delivered`` and
    ``rejected`` count events, ``failures`` attempts since the last accepted event, the first of them at ``failing``.
    ``lasterror``, which holds no secrets, stays until an event is accepted. Times are RFC3339, or empty.
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
        """True if nothing more will be tried."""
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
    """The agreement of the web hook at ``sink`` by callback, at most ``rate`` requests a minute; None means any."""

    sink: str
    rate: int | None


_DELIVERY: Final = tuple(field.name for field in fields(DeliveryState))


class SubscriptionStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        s, d, a, c = SUBSCRIPTIONS.c, DELIVERIES.c, CONSENTS.c, COUNTERS.c
        named = s.id == bindparam("id")
        self.get = dialect.text(select(*SUBSCRIPTIONS.c).where(named))
        self.page = dialect.page(select(*SUBSCRIPTIONS.c).where(s.id > bindparam("after")).order_by(s.id))
        self.put = dialect.upsert(SUBSCRIPTIONS, "id")
        self.remove = dialect.text(delete(SUBSCRIPTIONS).where(named))
        states = select(d.subscription, *(d[name] for name in _DELIVERY))
        self.delivery = dialect.text(states.where(d.subscription == bindparam("id")))
        between = (d.subscription > bindparam("after"), d.subscription <= bindparam("through"))
        self.deliveries = dialect.text(states.where(*between).order_by(d.subscription))
        self.least_position = dialect.text(select(func.min(d.position)))
        self.states = dialect.text(select(d.state, func.count(), func.min(d.position)).group_by(d.state))
        self.put_delivery = dialect.upsert(DELIVERIES, "subscription")
        self.remove_delivery = dialect.text(delete(DELIVERIES).where(d.subscription == bindparam("id")))
        self.consent = dialect.text(select(a.sink, a.rate).where(a.subscription == bindparam("id")))
        self.put_consent = dialect.upsert(CONSENTS, "subscription")
        self.remove_consent = dialect.text(delete(CONSENTS).where(a.subscription == bindparam("id")))
        self.counter = dialect.text(select(c.value).where(c.name == bindparam("name")))
        self.put_counter = dialect.upsert(COUNTERS, "name")


class SubscriptionReader:
    """Subscriptions, their deliveries, and what web hooks agreed to; no part of the registry."""

    def __init__(self, transaction: SqlTransaction, sql: SubscriptionStatements) -> None:
        self._transaction = transaction
        self._sql = sql

    def revision(self) -> int:
        """Return the number from ``put_totals``, which changes when a subscription is created, changed or deleted."""
        return self._read_counter(_REVISION)

    def count(self) -> int:
        """Return the number of subscriptions that ``put_totals`` set."""
        return self._read_counter(_COUNT)

    def get(self, id: str) -> StoredSubscription | None:
        """Return a subscription, or None."""
        records = self._transaction.rows(self._sql.get, {"id": id})
        return _parse_subscription(records[0]) if records else None

    def page(self, after: str = "", limit: int | None = None) -> list[StoredSubscription]:
        """Up to ``limit`` of them by id, behind the id ``after``."""
        bounds = {"after": after, "limit": _ALL if limit is None else limit}
        return [_parse_subscription(record) for record in self._transaction.rows(self._sql.page, bounds)]

    def delivery(self, id: str) -> DeliveryState | None:
        """Return the progress of the deliveries to a subscription, or None if it was never stored."""
        records = self._transaction.rows(self._sql.delivery, {"id": id})
        return _parse_delivery(records[0]) if records else None

    def deliveries(self, after: str, through: str) -> dict[str, DeliveryState]:
        """The same by id, behind ``after`` and up to ``through``."""
        records = self._transaction.rows(self._sql.deliveries, {"after": after, "through": through})
        return {record[0]: _parse_delivery(record) for record in records}

    def least_position(self) -> int | None:
        """The least position of all deliveries: what is behind it is still needed."""
        position = self._transaction.rows(self._sql.least_position, {})[0][0]
        return None if position is None else int(position)

    def states(self) -> dict[str, tuple[int, int]]:
        """Return the number of deliveries in each state, and their least position. Empty states are left out.

        The position of an active delivery is seldom written: it tells where a restart begins to read.
        """
        return {state: (int(count), int(least)) for state, count, least in self._transaction.rows(self._sql.states, {})}

    def consent(self, id: str) -> StoredConsent | None:
        """Return the consent of a subscription's web hook, or None."""
        records = self._transaction.rows(self._sql.consent, {"id": id})
        return StoredConsent(sink=records[0][0], rate=records[0][1]) if records else None

    def _read_counter(self, name: str) -> int:
        records = self._transaction.rows(self._sql.counter, {"name": name})
        return int(records[0][0]) if records else 0


class SubscriptionWriter(SubscriptionReader):
    """Subscriptions in a write transaction."""

    def put(self, subscription: StoredSubscription) -> None:
        """Add one, or replace the one with its id."""
        row = {field.name: getattr(subscription, field.name) for field in fields(subscription)}
        row |= {name: None if row[name] is None else dump_text(row[name]) for name in _JSON}
        self._transaction.run(self._sql.put, row)

    def remove(self, id: str) -> None:
        """Remove one, and with it its delivery and consent."""
        for statement in (self._sql.remove, self._sql.remove_delivery, self._sql.remove_consent):
            self._transaction.run(statement, {"id": id})

    def put_totals(self, *, revision: int, count: int) -> None:
        """Set what ``revision`` and ``count`` return: both are asked several times a second."""
        for name, value in ((_REVISION, revision), (_COUNT, count)):
            self._transaction.run(self._sql.put_counter, {"name": name, "value": value})

    def put_delivery(self, id: str, delivery: DeliveryState) -> None:
        """Store how far the deliveries to one are."""
        row = {name: getattr(delivery, name) for name in _DELIVERY}
        # What a sink said may have a NUL in it, which PostgreSQL's text cannot hold.
        row["lasterror"] = delivery.lasterror.replace("\0", "\ufffd")
        self._transaction.run(self._sql.put_delivery, {"subscription": id, **row})

    def put_consent(self, id: str, consent: StoredConsent) -> None:
        """Store what the web hook of one agreed to."""
        self._transaction.run(self._sql.put_consent, {"subscription": id, "sink": consent.sink, "rate": consent.rate})


def _parse_subscription(record: tuple[Any, ...]) -> StoredSubscription:
    row: dict[str, Any] = dict(zip(SUBSCRIPTIONS.c.keys(), record, strict=True))
    row |= {name: None if row[name] is None else load_json(row[name]) for name in _JSON}
    row |= {name: tuple(row[name]) for name in ("types", "filters")}
    return StoredSubscription(**row)


def _parse_delivery(record: tuple[Any, ...]) -> DeliveryState:
    return DeliveryState(**dict(zip(_DELIVERY, record[1:], strict=True)))
