"""The audit: a history that only grows, by the number of its entries and by time, and is pruned by age."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import bindparam, delete, desc, literal_column, or_, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import AUDIT, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlTransaction, SqlWriting
from signalbook.values import JSONObject

_LAST_NUMBER: Final = 2**63 - 1
_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_LAST_TIME: Final = datetime.max.replace(tzinfo=UTC)
_SKEW: Final = timedelta(hours=1)
"""How far the clocks of servers may be apart: entries have numbers in commit order, and nearly the order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the audit: ``who`` did one ``action`` on ``xids``, or was refused.

    ``details`` hold everything else. ``number``, 0 until it is stored, grows in commit order.
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
    """A selection of audit entries. Empty members and None select all.

    Numbers are between ``after`` and ``before``, both excluded; times from ``since`` on and earlier than ``until``.
    ``xid`` is a prefix of one of the xids, in upper or lower case.
    """

    before: int | None = None
    after: int = 0
    who: str = ""
    action: str = ""
    outcome: str = ""
    xid: str = ""
    since: datetime | None = None
    until: datetime | None = None


class AuditStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        c = AUDIT.c
        given = {c.who: "who", c.action: "action", c.outcome: "outcome"}
        exact = [
            or_(bindparam(name) == literal_column("''"), column == bindparam(name)) for column, name in given.items()
        ]
        wanted = (
            c.number > bindparam("after"),
            c.number < bindparam("before"),
            c.time >= bindparam("since"),
            c.time < bindparam("until"),
            *exact,
            or_(bindparam("xid") == literal_column("''"), dialect.contains(c.xids, "xid")),
        )
        self.contained = dialect.contained
        columns = (c.number, c.time, c.who, c.action, c.outcome, c.xids, c.correlationid, c.details)
        self.entries = dialect.page(select(*columns).where(*wanted).order_by(desc(c.number)))
        at_once = select(*columns).where(dialect.member(c.time, "times"), c.outcome == bindparam("outcome"))
        self.at_times = dialect.page(at_once.order_by(desc(c.number)))
        # What lies beyond these two need not be looked at: it is older, or newer, whatever the clocks say.
        older = select(c.number).where(c.time < bindparam("time"))
        self.older = dialect.page(older.order_by(desc(c.time), desc(c.number)))
        newer = select(c.number).where(c.time >= bindparam("time"))
        self.newer = dialect.page(newer.order_by(c.time, c.number))
        self.append = dialect.text(dialect.insert_many(AUDIT, [column.name for column in columns[1:]]))
        oldest = select(c.number).where(c.time < bindparam("time")).order_by(c.time)
        oldest = oldest.limit(bindparam("limit")).offset(literal_column("0"))
        self.prune = dialect.text(delete(AUDIT).where(c.number.in_(oldest)))


class AuditReader:
    """The audit: who did what, and what was refused to whom; no part of the registry."""

    def __init__(self, transaction: SqlTransaction, sql: AuditStatements) -> None:
        self._transaction = transaction
        self._sql = sql

    def entries(self, query: AuditQuery, limit: int) -> list[AuditEntry]:
        """Up to ``limit`` entries, the newest first."""
        after, before = query.after, query.before or _LAST_NUMBER
        if query.since is not None:
            after = max(after, self._find_number(self._sql.older, query.since, -_SKEW) or 0)
        if query.until is not None:
            before = min(before, self._find_number(self._sql.newer, query.until, _SKEW) or _LAST_NUMBER)
        parameters = {
            "after": after,
            "before": before,
            "since": microseconds(query.since or _FIRST_TIME),
            "until": microseconds(query.until or _LAST_TIME),
            "who": query.who,
            "action": query.action,
            "outcome": query.outcome,
            "xid": self._sql.contained(f"\n{query.xid}") if query.xid else "",
        }
        return [
            _parse_entry(record) for record in self._transaction.rows(self._sql.entries, {**parameters, "limit": limit})
        ]

    def at_times(self, times: Collection[datetime], outcome: str, limit: int) -> list[AuditEntry]:
        """Up to ``limit`` entries made at exactly these times, the newest first: with what was committed then."""
        instants = self._transaction.array([microseconds(time) for time in times])
        records = self._transaction.rows(self._sql.at_times, {"times": instants, "outcome": outcome, "limit": limit})
        return [_parse_entry(record) for record in records] if times else []

    def _find_number(self, sql: str, time: datetime, skew: timedelta) -> int | None:
        """The number of the entry that ``sql`` finds at ``time``, ``skew`` away from it; None if there is none."""
        at = microseconds(time) + skew // timedelta(microseconds=1)
        records = self._transaction.rows(sql, {"time": at, "limit": 1})
        return int(records[0][0]) if records else None


class AuditWriter(AuditReader):
    """The audit in a write transaction. Nothing in it is ever changed."""

    def __init__(self, transaction: SqlWriting, sql: AuditStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries; they get their numbers at the commit, which writes them in one statement."""
        self._writing.check()
        self._writing.pending.audit += [_encode_entry(entry) for entry in entries]

    def prune(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` of the oldest entries, those made before then; returns how many."""
        return self._writing.run(self._sql.prune, {"time": microseconds(before), "limit": limit})

    def finish(self) -> None:
        """Write what is pending: last work before the commit."""
        self._writing.run_bulk(self._sql.append, self._writing.pending.audit)


def _encode_entry(entry: AuditEntry) -> dict[str, Any]:
    # PostgreSQL keeps no NUL, and who made a request may say anything of himself.
    return {
        "time": microseconds(entry.time),
        "who": entry.who.replace("\0", "\ufffd"),
        "action": entry.action,
        "outcome": entry.outcome,
        "xids": "".join(f"\n{xid}" for xid in entry.xids) + "\n" if entry.xids else "",
        "correlationid": entry.correlationid,
        "details": dump_text(entry.details),
    }


def _parse_entry(record: tuple[Any, ...]) -> AuditEntry:
    number, time, who, action, outcome, xids, correlationid, details = record
    return AuditEntry(
        number=number,
        time=instant(time),
        who=who,
        action=action,
        outcome=outcome,
        xids=tuple(xids.split("\n")[1:-1]),
        correlationid=correlationid,
        details=load_json(details),
    )
