"""Subscriptions, the progress of their deliveries, and the consent of web hooks."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import CONSENTS, COUNTERS, DELIVERIES, SUBSCRIPTIONS, dump_text, load_json
from signalbook.storage.transaction import SqlReader
from signalbook.values import JSON, JSONObject

_JSON: Final = ("types", "filters", "config", "protocolsettings", "credential", "owner")
_ALL: Final = 2**63 - 1
_REVISION: Final = "subscriptions.revision"
_COUNT: Final = "subscriptions.count"

ACTIVE: Final = "active"
"""The last attempt succeeded, or nothing was attempted yet."""
RETRYING: Final = "retrying"
"""The last attempt failed. The next attempt is at ``next``."""
SUSPENDED: Final = "suspended"
"""The sink accepted nothing for too long. No attempts are made until the subscription is updated; no event is lost."""
GONE: Final = "gone"
"""The sink responded that it is gone for good (HTTP 410). No attempts are made until the subscription is updated."""
DELIVERY_STATES: Final = (ACTIVE, RETRYING, SUSPENDED, GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryState:
    """The progress of the deliveries to a subscription, as ``GET`` of it shows.

    Every event up to the outbox position ``position`` was delivered, rejected or not selected. ``delivered`` and
    ``rejected`` count events. ``failures`` counts failed attempts since the last accepted event; the first of them was
    at ``failing``. ``lasterror``, which contains no secrets, is kept until an event is accepted. Times are RFC 3339, or
    empty.
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
        """True if no further attempts are made until the subscription is updated."""
        return self.state in (SUSPENDED, GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """A subscription. Its secrets, if any, are in ``sealed`` only, encrypted. ``credential`` and ``owner`` are JSON
    objects, or None if there is no credential or owner."""

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
    """The consent that the web hook at ``sink`` gave by callback, to at most ``rate`` requests per minute; None is no
    limit."""

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


class SubscriptionReader(SqlReader[SubscriptionStatements]):
    """Reads subscriptions, their deliveries, and the consent of web hooks. They are not part of the registry."""

    def revision(self) -> int:
        """Return the number from ``put_totals``, which changes when a subscription is created, changed or deleted."""
        return self._read_counter(_REVISION)

    def count(self) -> int:
        """Return the number of subscriptions that ``put_totals`` set."""
        return self._read_counter(_COUNT)

    def get(self, id: str) -> StoredSubscription | None:
        """Return the subscription ``id``, or None."""
        records = self._transaction.rows(self._sql.get, {"id": id})
        return _parse_subscription(records[0]) if records else None

    def page(self, after: str = "", limit: int | None = None) -> list[StoredSubscription]:
        """Return up to ``limit`` subscriptions by id, starting after the id ``after``. Without ``limit``,
        return all."""
        bounds = {"after": after, "limit": _ALL if limit is None else limit}
        return [_parse_subscription(record) for record in self._transaction.rows(self._sql.page, bounds)]

    def delivery(self, id: str) -> DeliveryState | None:
        """Return the progress of the deliveries to a subscription, or None if it was never stored."""
        records = self._transaction.rows(self._sql.delivery, {"id": id})
        return _parse_delivery(records[0]) if records else None

    def deliveries(self, after: str, through: str) -> dict[str, DeliveryState]:
        """Return the progress of deliveries by subscription id, for ids after ``after`` and up to ``through``."""
        records = self._transaction.rows(self._sql.deliveries, {"after": after, "through": through})
        return {record[0]: _parse_delivery(record) for record in records}

    def least_position(self) -> int | None:
        """Return the least position of all deliveries, or None without deliveries. Outbox entries after it are still
        needed."""
        position = self._transaction.rows(self._sql.least_position, {})[0][0]
        return None if position is None else int(position)

    def states(self) -> dict[str, tuple[int, int]]:
        """Return (number of deliveries, least position) for each state. States without deliveries are left out.

        The position of an active delivery is written rarely, because it only tells where to read on after a restart.
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
    """Reads and writes subscriptions in a write transaction."""

    def put(self, subscription: StoredSubscription) -> None:
        """Add a subscription, or replace the subscription with the same id."""
        row = {field.name: getattr(subscription, field.name) for field in fields(subscription)}
        row |= {name: None if row[name] is None else dump_text(row[name]) for name in _JSON}
        self._transaction.run(self._sql.put, row)

    def remove(self, id: str) -> None:
        """Remove the subscription ``id`` with its delivery and consent."""
        for statement in (self._sql.remove, self._sql.remove_delivery, self._sql.remove_consent):
            self._transaction.run(statement, {"id": id})

    def put_totals(self, *, revision: int, count: int) -> None:
        """Set the numbers that ``revision`` and ``count`` return. They are stored, because both are read several times
        a second."""
        for name, value in ((_REVISION, revision), (_COUNT, count)):
            self._transaction.run(self._sql.put_counter, {"name": name, "value": value})

    def put_delivery(self, id: str, delivery: DeliveryState) -> None:
        """Store the progress of the deliveries to the subscription ``id``."""
        row = {name: getattr(delivery, name) for name in _DELIVERY}
        # The error text of a sink may contain a NUL, which PostgreSQL's text type cannot hold.
        row["lasterror"] = delivery.lasterror.replace("\0", "\ufffd")
        self._transaction.run(self._sql.put_delivery, {"subscription": id, **row})

    def put_consent(self, id: str, consent: StoredConsent) -> None:
        """Store the consent of the web hook of the subscription ``id``."""
        self._transaction.run(self._sql.put_consent, {"subscription": id, "sink": consent.sink, "rate": consent.rate})


def _parse_subscription(record: tuple[Any, ...]) -> StoredSubscription:
    row: dict[str, Any] = dict(zip(SUBSCRIPTIONS.c.keys(), record, strict=True))
    row |= {name: None if row[name] is None else load_json(row[name]) for name in _JSON}
    row |= {name: tuple(row[name]) for name in ("types", "filters")}
    return StoredSubscription(**row)


def _parse_delivery(record: tuple[Any, ...]) -> DeliveryState:
    return DeliveryState(**dict(zip(_DELIVERY, record[1:], strict=True)))
