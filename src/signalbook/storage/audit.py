"""The stored audit log: entries are appended, found by number and time, and pruned by age."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import bindparam, delete, desc, literal_column, or_, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import AUDIT, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlReader, SqlWriting
from signalbook.values import JSONObject

_LAST_NUMBER: Final = 2**63 - 1
_FIRST_TIME: Final = datetime.min.replace(tzinfo=UTC)
_LAST_TIME: Final = datetime.max.replace(tzinfo=UTC)
_SKEW: Final = timedelta(hours=1)
"""The largest expected difference between the clocks of servers. Entries are numbered in commit order, which is nearly
their order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the audit log: ``who`` did ``action`` on ``xids``, or was refused, as ``outcome`` says.

    ``details`` hold everything else. ``number`` grows in commit order; it is 0 until the entry is stored.
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
    """A selection of audit entries. Empty members and None select all entries.

    Numbers are between ``after`` and ``before``, both excluded. Times are from ``since`` on and before ``until``.
    ``xid`` is a prefix of one of the entry's xids, ignoring case.
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
        # Entries outside the numbers that these two find are surely too old or too new, even if the clocks of servers
        # differ.
        older = select(c.number).where(c.time < bindparam("time"))
        self.older = dialect.page(older.order_by(desc(c.time), desc(c.number)))
        newer = select(c.number).where(c.time >= bindparam("time"))
        self.newer = dialect.page(newer.order_by(c.time, c.number))
        self.append = dialect.text(dialect.insert_many(AUDIT, [column.name for column in columns[1:]]))
        oldest = select(c.number).where(c.time < bindparam("time")).order_by(c.time)
        oldest = oldest.limit(bindparam("limit")).offset(literal_column("0"))
        self.prune = dialect.text(delete(AUDIT).where(c.number.in_(oldest)))


class AuditReader(SqlReader[AuditStatements]):
    """Reads the audit log: who did what, and which requests were refused. It is not part of the registry."""

    def entries(self, query: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return up to ``limit`` entries that match ``query``, the newest first."""
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
        """Return up to ``limit`` entries with this ``outcome`` made at exactly these times, the newest first.

        The time of an entry is that of the change it was committed with.
        """
        instants = self._transaction.array([microseconds(time) for time in times])
        records = self._transaction.rows(self._sql.at_times, {"times": instants, "outcome": outcome, "limit": limit})
        return [_parse_entry(record) for record in records] if times else []

    def _find_number(self, sql: str, time: datetime, skew: timedelta) -> int | None:
        """Return the number of the entry that ``sql`` finds for ``time`` plus ``skew``, or None if there is no such
        entry."""
        at = microseconds(time) + skew // timedelta(microseconds=1)
        records = self._transaction.rows(sql, {"time": at, "limit": 1})
        return int(records[0][0]) if records else None


class AuditWriter(AuditReader):
    """Reads and writes the audit log in a write transaction. Entries are never changed."""

    def __init__(self, transaction: SqlWriting, sql: AuditStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries. They get their numbers at the commit, which writes them in one statement."""
        self._writing.check()
        self._writing.pending.audit += [_encode_entry(entry) for entry in entries]

    def prune(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` of the oldest entries made before ``before``. Return their number."""
        return self._writing.run(self._sql.prune, {"time": microseconds(before), "limit": limit})

    def finish(self) -> None:
        """Write the pending entries before the commit."""
        self._writing.run_bulk(self._sql.append, self._writing.pending.audit)


def _encode_entry(entry: AuditEntry) -> dict[str, Any]:
    # Callers choose these texts, and PostgreSQL's text type cannot hold a NUL.
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
