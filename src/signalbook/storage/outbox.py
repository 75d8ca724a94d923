"""The outbox: committed changes in commit order, and their pruning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, bindparam, delete, func, literal_column, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import COUNTERS, OUTBOX, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlReader, SqlWriting
from signalbook.values import JSONObject

_PRUNED: Final = "forgotten"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the outbox: one committed change. ``position`` grows in commit order and is never reused."""

    position: int
    time: datetime
    correlationid: str
    change: JSONObject


class OutboxStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        o, c = OUTBOX.c, COUNTERS.c
        zero: ColumnElement[Any] = literal_column("0")
        untold: ColumnElement[Any] = literal_column("'untold'")
        behind = select(o.position, o.time, o.correlationid, o.change).where(o.position > bindparam("after"))
        self.records = dialect.page(behind.order_by(o.position))
        last = func.coalesce(func.max(o.position), zero)
        self.position = dialect.text(select(last))
        # Some commits of the registry add no change. They are counted separately, so that the sum changes with every
        # commit.
        count = select(func.coalesce(func.max(c.value), zero)).where(c.name == untold).scalar_subquery()
        self.generation = dialect.text(select(last + count))
        one = dialect.insert(COUNTERS).values(name=untold, value=literal_column("1"))
        added = {"value": c.value + literal_column("1")}
        self.put_untold = dialect.text(one.on_conflict_do_update(index_elements=[c.name], set_=added))
        self.append = dialect.text(dialect.insert_many(OUTBOX, ("time", "correlationid", "change")))
        self.pruned = dialect.text(select(c.value).where(c.name == literal_column(f"'{_PRUNED}'")))
        self.prune = dialect.text(delete(OUTBOX).where(o.position <= bindparam("position")))
        self.put_counter = dialect.upsert(COUNTERS, "name")


class OutboxReader(SqlReader[OutboxStatements]):
    """Reads committed changes in commit order, for the change feed and for deliveries."""

    def records(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return up to ``limit`` committed changes after the position ``after``."""
        rows = self._transaction.rows(self._sql.records, {"after": after, "limit": limit})
        return [
            Record(position=position, time=instant(time), correlationid=correlationid, change=load_json(change))
            for position, time, correlationid, change in rows
        ]

    def position(self) -> int:
        """Return the position of the last change, or 0 if there is none."""
        return int(self._transaction.rows(self._sql.position, {})[0][0])

    def position_at(self, time: datetime) -> int:
        """Return the position of the first change made at ``time`` or later, or the next position if there is no such
        change.

        Times have no index. They grow with the positions, apart from differences between the clocks of servers, so that
        a binary search reads some 20 of a million records.
        """
        low, high = self.pruned() + 1, self.position() + 1
        while low < high:
            middle = (low + high) // 2
            records = self.records(middle - 1, 1)
            if records and records[0].time < time:
                low = records[0].position + 1
            else:
                high = middle
        return low

    def pruned(self) -> int:
        """Return the position up to which changes were pruned, or 0 if none were pruned."""
        rows = self._transaction.rows(self._sql.pruned, {})
        return int(rows[0][0]) if rows else 0


class OutboxWriter(OutboxReader):
    """Reads and writes the outbox in a write transaction."""

    def __init__(self, transaction: SqlWriting, sql: OutboxStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def append(self, changes: Sequence[JSONObject], *, time: datetime, correlationid: str) -> None:
        """Add changes, in this order. They get their positions at the commit, so positions are in commit order."""
        self._writing.check()
        record = {"time": microseconds(time), "correlationid": correlationid}
        self._writing.pending.changes += [{**record, "change": dump_text(change)} for change in changes]

    def prune(self, position: int) -> None:
        """Remove the changes up to ``position``, which must be before the last change.

        The caller keeps the last change, because its position is part of ``Store.generation``.
        """
        if position > self.pruned():  # another process may have pruned more
            self._writing.run(self._sql.prune, {"position": position})
            self._writing.run(self._sql.put_counter, {"name": _PRUNED, "value": position})

    def finish(self) -> None:
        """Write the pending changes before the commit."""
        pending = self._writing.pending
        self._writing.run_bulk(self._sql.append, pending.changes)
        # ``generation`` depends on the last position, so a write without changes has to be counted, too.
        if pending.touched and not pending.changes:
            self._writing.run(self._sql.put_untold, {})
