"""Subscriptions, how far the deliveries to each are, and what web hooks agreed to."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select

from signalbook.storage.base import DeliveryState, StoredConsent, StoredSubscription
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import CONSENTS, COUNTERS, DELIVERIES, SUBSCRIPTIONS, dump_text, load_json
from signalbook.storage.transaction import SqlTransaction

_JSON: Final = ("types", "filters", "config", "protocolsettings", "credential", "owner")
_ALL: Final = 2**63 - 1
_REVISION: Final = "subscriptions.revision"
_COUNT: Final = "subscriptions.count"
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


class SqlSubscriptionReader:
    """``base.SubscriptionReader``."""

    def __init__(self, transaction: SqlTransaction, sql: SubscriptionStatements) -> None:
        self._transaction = transaction
        self._sql = sql

    def revision(self) -> int:
        """The number of the last change."""
        return self._counter(_REVISION)

    def count(self) -> int:
        """How many there are."""
        return self._counter(_COUNT)

    def get(self, id: str) -> StoredSubscription | None:
        """One of them."""
        found = self._transaction.rows(self._sql.get, {"id": id})
        return _subscription(found[0]) if found else None

    def page(self, after: str = "", limit: int | None = None) -> list[StoredSubscription]:
        """Subscriptions by id."""
        bounds = {"after": after, "limit": _ALL if limit is None else limit}
        return [_subscription(record) for record in self._transaction.rows(self._sql.page, bounds)]

    def delivery(self, id: str) -> DeliveryState | None:
        """How far the deliveries to one are."""
        found = self._transaction.rows(self._sql.delivery, {"id": id})
        return _delivery(found[0]) if found else None

    def deliveries(self, after: str, through: str) -> dict[str, DeliveryState]:
        """The same of several, by id."""
        found = self._transaction.rows(self._sql.deliveries, {"after": after, "through": through})
        return {record[0]: _delivery(record) for record in found}

    def least_position(self) -> int | None:
        """The least position of all deliveries."""
        found = self._transaction.rows(self._sql.least_position, {})[0][0]
        return None if found is None else int(found)

    def states(self) -> dict[str, tuple[int, int]]:
        """How many there are by state, and their least positions."""
        return {state: (int(count), int(least)) for state, count, least in self._transaction.rows(self._sql.states, {})}

    def consent(self, id: str) -> StoredConsent | None:
        """What the web hook of one agreed to."""
        found = self._transaction.rows(self._sql.consent, {"id": id})
        return StoredConsent(sink=found[0][0], rate=found[0][1]) if found else None

    def _counter(self, name: str) -> int:
        found = self._transaction.rows(self._sql.counter, {"name": name})
        return int(found[0][0]) if found else 0


class SqlSubscriptionWriter(SqlSubscriptionReader):
    """``base.SubscriptionWriter``."""

    def put(self, subscription: StoredSubscription) -> None:
        """Add or replace one."""
        row = {field.name: getattr(subscription, field.name) for field in fields(subscription)}
        row |= {name: None if row[name] is None else dump_text(row[name]) for name in _JSON}
        self._transaction.run(self._sql.put, row)

    def remove(self, id: str) -> None:
        """Remove one, with its delivery and consent."""
        for statement in (self._sql.remove, self._sql.remove_delivery, self._sql.remove_consent):
            self._transaction.run(statement, {"id": id})

    def put_totals(self, *, revision: int, count: int) -> None:
        """Set what ``revision`` and ``count`` return."""
        for name, value in ((_REVISION, revision), (_COUNT, count)):
            self._transaction.run(self._sql.put_counter, {"name": name, "value": value})

    def put_delivery(self, id: str, delivery: DeliveryState) -> None:
        """Store how far deliveries are."""
        row = {name: getattr(delivery, name) for name in _DELIVERY}
        # What a sink said may have a NUL in it, which PostgreSQL's text cannot hold.
        row["lasterror"] = delivery.lasterror.replace("\0", "\ufffd")
        self._transaction.run(self._sql.put_delivery, {"subscription": id, **row})

    def put_consent(self, id: str, consent: StoredConsent) -> None:
        """Store what a web hook agreed to."""
        self._transaction.run(self._sql.put_consent, {"subscription": id, "sink": consent.sink, "rate": consent.rate})


def _subscription(record: tuple[Any, ...]) -> StoredSubscription:
    row: dict[str, Any] = dict(zip(SUBSCRIPTIONS.c.keys(), record, strict=True))
    row |= {name: None if row[name] is None else load_json(row[name]) for name in _JSON}
    row |= {name: tuple(row[name]) for name in ("types", "filters")}
    return StoredSubscription(**row)


def _delivery(record: tuple[Any, ...]) -> DeliveryState:
    return DeliveryState(**dict(zip(_DELIVERY, record[1:], strict=True)))
