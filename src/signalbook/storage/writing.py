"""Writing inside one open transaction, on any dialect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from signalbook.storage.base import DuplicateId, Row, StorageError
from signalbook.storage.dialect import Connection, Dialect, Parameters
from signalbook.storage.schema import dump, dump_text, microseconds, position
from signalbook.storage.statements import Statements
from signalbook.storage.transaction import SqlReader
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid


@dataclass(slots=True, kw_only=True)
class Pending:
    """Of one part of a transaction, or of all that is behind it.

    ``rows`` are entities as they are now, as far as they were met. The database is still to be told ``documents`` by
    digest, how many ``members`` each collection gained (by parent key and type), ``changes`` for the outbox, and how
    many keys were ``reserved``. ``named`` are documents that a row got, ``suspects`` those that one lost; ``touched``
    tells that anything of the registry was written.
    """

    rows: dict[Xid, Row] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    members: dict[int, dict[str, int]] = field(default_factory=dict)
    changes: list[Parameters] = field(default_factory=list)
    reserved: int = 0
    named: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    touched: bool = False

    def absorb(self, part: Pending) -> None:
        """Go on from where ``part`` ended, which came behind this."""
        self.rows.update(part.rows)
        self.documents.update(part.documents)
        for parent, gained in part.members.items():
            add(self.members.setdefault(parent, {}), gained)
        self.changes += part.changes
        self.reserved += part.reserved
        self.named |= part.named
        self.suspects |= part.suspects
        self.touched |= part.touched


def add(counts: dict[str, int], gained: Mapping[str, int], sign: int = 1) -> None:
    """Add to ``counts``, by type, what was ``gained``; with -1 as ``sign`` take it away."""
    for plural, count in gained.items():
        counts[plural] = counts.get(plural, 0) + sign * count


_SAVEPOINT: Final = "SAVEPOINT part"
_RELEASE: Final = "RELEASE SAVEPOINT part"
_ROLLBACK: Final = "ROLLBACK TO SAVEPOINT part"
_LAST: Final = 2**63 - 1
_SUSPECTS: Final = 10_000
"""Documents looked at one by one after they lost a name; beyond that all documents are."""
_REMEMBERED: Final = 2_000
"""Rows: some for each write of a batch. What meets more of them at once hardly meets them again."""


class SqlWriter(SqlReader):
    """``base.Writer`` in one open write transaction.

    Nobody else writes meanwhile: rows that were met are not read again, and what only the commit needs is told once for
    all parts of the transaction (docs/decisions/021-group-commit.md).
    """

    def __init__(self, connection: Connection, dialect: Dialect, statements: Statements) -> None:
        super().__init__(connection, dialect, statements)
        self._layers = [Pending()]
        self._counted: dict[int, dict[str, int]] = {}
        self._last_key: int | None = None
        self._refers: bool | None = None

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part that may fail alone."""
        self._run(_SAVEPOINT, {})
        self._layers.append(Pending())
        try:
            yield
            self._end_streams()
            self._run(_RELEASE, {})
        except BaseException:
            self._layers.pop()
            self._undo()
            raise
        part = self._layers.pop()
        self._layers[-1].absorb(part)

    def _undo(self) -> None:
        """Back to the savepoint: what failed behind it is no failure of the transaction any more."""
        self._end_streams()
        self._forget()
        self._over, over = None, self._over
        try:
            self._run(_ROLLBACK, {})
            self._run(_RELEASE, {})
        except StorageError:  # the database ended the transaction with the first failure
            self._over = over or self._over

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``; those met before are not read again."""
        self._check()
        found = {xid: row for layer in self._layers for xid in xids if (row := layer.rows.get(xid)) is not None}
        missing = [xid for xid in xids if xid not in found]
        if missing:
            read = super().get_many(missing)
            self._remember(read.values())
            found |= read
        return found

    def _remember(self, rows: Collection[Row]) -> None:
        if sum(len(layer.rows) for layer in self._layers) + len(rows) > _REMEMBERED:
            self._forget()
        if len(rows) <= _REMEMBERED:
            self._layers[-1].rows.update((row.xid, row) for row in rows)

    def _forget(self) -> None:
        self._counted.clear()
        for layer in self._layers:
            layer.rows.clear()

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type): those stored, which are asked for once, and those gained."""
        found: dict[tuple[int, str], int] = {}
        self._count(parents)
        for parent in set(parents):
            total = dict(self._counted[parent])
            for layer in self._layers:
                add(total, layer.members.get(parent, {}))
            found.update(((parent, plural), count) for plural, count in total.items() if count > 0)
        return found

    def _count(self, parents: Collection[int]) -> None:
        self._check()
        if len(self._counted) > _REMEMBERED:
            self._counted.clear()
        unknown = [parent for parent in parents if parent not in self._counted]
        self._counted.update((parent, {}) for parent in unknown)
        stored = super().counts(unknown) if unknown else {}
        for (parent, plural), count in stored.items():
            self._counted[parent][plural] = count

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``; most registries have no reference at all."""
        if self._refers is None:
            self._refers = bool(self._all(self._sql.refers, {})[0][0])
        return super().referrers(targets) if self._refers else []

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""
        found = {name: layer.documents[name] for layer in self._layers for name in digests if name in layer.documents}
        return found | super().documents([name for name in digests if name not in found])

    def reserve(self, count: int) -> Sequence[int]:
        """``count`` fresh storage keys."""
        if self._last_key is None:
            self._last_key = int(self._all(self._sql.last_key, {})[0][0])
        first = self._last_key + sum(layer.reserved for layer in self._layers) + 1
        self._layers[-1].reserved += max(count, 0)
        return range(first, first + count)

    def insert(self, rows: Sequence[Row]) -> None:
        """Add rows. After ``DuplicateId`` some of them may be there: the transaction can only be rolled back."""
        self._layers[-1].touched = True
        if self._many(self._sql.insert, [dump(row) for row in rows]) < len(rows):
            raise self._duplicate(rows)
        part = self._layers[-1]
        for row in rows:
            add(part.members.setdefault(row.parent, {}), {position(row.xid)[0]: 1})
        part.named.update(row.document for row in rows if row.document)
        self._keep(rows)

    def _keep(self, rows: Sequence[Row]) -> None:
        if any(row.xref is not None for row in rows):
            self._refers = True
        self._remember(rows)

    def _duplicate(self, rows: Sequence[Row]) -> DuplicateId:
        stored = super().get_many([row.xid for row in rows])
        arrived = {row.key: row.xid for row in stored.values()}
        error = DuplicateId(next((row.xid for row in rows if arrived.get(row.key) != row.xid), rows[-1].xid))
        self.end(f"an earlier failure ended this transaction: {error}")
        return error

    def update(self, rows: Sequence[Row]) -> None:
        """Replace what may change of the rows with these keys: all but key, parent and xid."""
        documents = {row.document for row in rows if row.document}
        versions = [row.key for row in rows if row.xid.kind is Kind.VERSION]
        part = self._layers[-1]
        part.touched = True
        if versions:
            before = self._all(self._sql.named_by_rows, {"keys": self._dialect.array(versions)})
            part.suspects.update(digest for (digest,) in before if digest not in documents)
        if self._many(self._sql.update, [dump(row) for row in rows]) < len(rows):
            self.end("an entity to be updated is not stored; read it again")
            raise StorageError(self._over)
        part.named |= documents
        self._keep(rows)

    def delete(self, keys: Collection[int]) -> None:
        """Remove these rows and all beneath them."""
        if not keys:
            return
        self._layers[-1].touched = True
        among = {"keys": self._dialect.array(keys)}
        documents = self._all(self._sql.named_by_trees, {**among, "limit": _SUSPECTS + 1})
        self._layers[-1].suspects.update(digest for (digest,) in documents)
        self._drop_members(among)
        self._run(self._sql.delete_trees, among)
        self._forget()

    def _drop_members(self, among: Mapping[str, object]) -> None:
        """Count what is about to go: out of collections that stay, and with collections that go too."""
        part = self._layers[-1]
        for parent, plural, lost in self._all(self._sql.lost_members, among):
            add(part.members.setdefault(parent, {}), {plural: lost}, -1)
        self._run(self._sql.drop_members, among)
        parents = {parent for layer in self._layers for parent in layer.members}
        gone = self._all(self._sql.lost_parents, {**among, "parents": self._dialect.array(parents)}) if parents else ()
        for (parent,) in gone:
            for gained in [dict(layer.members.get(parent, {})) for layer in self._layers]:
                add(part.members.setdefault(parent, {}), gained, -1)

    def put_documents(self, documents: Mapping[str, bytes]) -> None:
        """Keep documents by digest."""
        self._check()
        self._layers[-1].documents.update(documents)

    def put_config(self, name: str, value: JSON | None) -> None:
        """Set or remove a configuration document."""
        self._layers[-1].touched = True
        self._run(self._sql.put_config, {"name": name, "value": None if value is None else dump_text(value)})

    def put_note(self, name: str, value: JSON | None) -> None:
        """Set or remove a note."""
        if value is None:
            self._run(self._sql.drop_note, {"name": name})
        else:
            self._run(self._sql.put_note, {"name": name, "value": dump_text(value)})

    def put_report(
        self, name: str, batch: str, value: str, gist: JSON, *, time: datetime, keep: int
    ) -> tuple[int, bool]:
        """Keep a report; the numbers of those kept have no gaps, so that the oldest are told by theirs."""
        pipeline = self.pipeline(name)
        newest = 0 if pipeline is None else pipeline.newest
        known = self._all(self._sql.reporting.known, {"pipeline": name, "batch": batch})
        number, came = known[0] if known else (newest + 1, microseconds(time))
        own = {"pipeline": name, "number": number, "size": len(value), "value": value}
        if known:
            self._run(self._sql.reporting.replace, own)
        else:
            self._run(self._sql.reporting.add, {**own, "batch": batch, "time": came})
            self._run(self._sql.reporting.forget, {"pipeline": name, "upto": number - keep})
        if number >= newest:
            told = {"name": name, "newest": number, "time": came, "gist": dump_text(gist)}
            self._run(self._sql.reporting.put_pipeline, told)
        return number, not known

    def drop_pipeline(self, name: str) -> bool:
        """Forget a pipeline and its reports."""
        self._run(self._sql.reporting.forget, {"pipeline": name, "upto": _LAST})
        return self._run(self._sql.reporting.drop_pipeline, {"name": name}) > 0

    def append(self, changes: Sequence[JSONObject], *, time: datetime, correlationid: str) -> None:
        """Add changes to the outbox."""
        self._check()
        line = {"time": microseconds(time), "correlationid": correlationid}
        self._layers[-1].changes += [{**line, "change": dump_text(change)} for change in changes]

    def forget(self, position: int) -> None:
        """Remove the changes up to ``position`` from the outbox."""
        if position > self.forgotten():  # others may have come further
            self._run(self._sql.forget, {"position": position})
            self._run(self._sql.put_forgotten, {"position": position})

    def finish(self) -> None:
        """Last work before the commit: tell the database what is pending.

        Documents that lost their last name go only now, since one may lose a name and get another within one
        transaction; one that never got a name is not told at all.
        """
        self._check()
        pending = self._layers[0]
        kept = [{"digest": d, "content": content} for d, content in pending.documents.items() if d in pending.named]
        self._many(self._sql.put_document, kept)
        self._many(self._sql.add_members, _gained(pending))
        self._many(self._sql.append, pending.changes)
        if pending.touched and not pending.changes:
            self._run(self._sql.put_untold, {})
        if pending.reserved:
            self._run(self._sql.reserve, {"count": pending.reserved})
        if len(pending.suspects) > _SUSPECTS:
            self._run(self._sql.sweep_all, {})
        elif pending.suspects:
            self._run(self._sql.sweep, {"digests": self._dialect.array(pending.suspects)})

    def _run(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Run one statement that answers nothing; the number of rows it touched."""
        return self._many(sql, [parameters])

    def _many(self, sql: str, parameters: Sequence[Mapping[str, Any]]) -> int:
        """Run a statement once per set of parameters; the number of rows touched altogether."""
        self._check()
        if not parameters:
            return 0
        try:
            if len(parameters) == 1:
                return self._connection.execute(sql, parameters[0]).rowcount
            cursor = self._connection.cursor()
            cursor.executemany(sql, parameters)
            return cursor.rowcount
        except self._dialect.errors as error:
            raise self._failed(error) from None


def _gained(pending: Pending) -> list[dict[str, Any]]:
    """How many members each collection gained or lost."""
    return [
        {"parent": parent, "type": plural, "count": count}
        for parent, gained in pending.members.items()
        for plural, count in gained.items()
        if count
    ]
