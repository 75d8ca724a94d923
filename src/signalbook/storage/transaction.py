"""Reading inside one open transaction, on any dialect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate, chain
from typing import Any, Final

from signalbook.storage.base import Hit, Pipeline, Record, Report, Row, Selection, StorageError
from signalbook.storage.dialect import BATCH, Connection, Dialect
from signalbook.storage.schema import fold, instant, load, load_json
from signalbook.storage.selection import ways
from signalbook.storage.statements import Below, Statements
from signalbook.values import JSON
from signalbook.xid import Xid

_ALL: Final = 2**63 - 1


class SqlReader:
    """``base.Reader`` in one open transaction. After its end, or a database error, calls raise ``StorageError``."""

    def __init__(self, connection: Connection, dialect: Dialect, statements: Statements) -> None:
        self._connection = connection
        self._dialect = dialect
        self._sql = statements
        self._over: str | None = None
        self._streams: list[Any] = []

    def get(self, xid: Xid) -> Row | None:
        """The entity at exactly this xid."""
        return self.get_many((xid,)).get(xid)

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``."""
        if len(xids) == 1:  # the more common by far, and a list costs as much as the row
            records = self._all(self._sql.get, {"xid": str(next(iter(xids)))})
        else:
            records = self._all(self._sql.get_many, {"xids": self._texts(xids)}) if xids else []
        return {row.xid: row for row in map(load, records)}

    def children(
        self,
        parents: Collection[int],
        type: str | None = None,
        *,
        ids: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Rows below ``parents``: the first batch is read at once, the others as they are asked for."""
        query = Below(
            parents=tuple(sorted(set(parents))),
            type=type,
            ids=None if ids is None else tuple({fold(each) for each in ids}),
            after=None if after is None else self._position(parents, type, after),
            limit=limit,
        )
        if not query.parents or query.ids == () or limit == 0:
            return iter(())
        rows = [load(record) for record in self._all(*self._sql.children(query.first(BATCH)))]
        if len(rows) < BATCH or limit == BATCH:
            return iter(rows)
        return chain(rows, map(load, self._stream(*self._sql.children(query.behind(rows[-1], BATCH)))))

    @staticmethod
    def _position(parents: Collection[int], type: str | None, after: str) -> tuple[int, str, str]:
        if type is None or len(parents) != 1:
            raise ValueError("after needs one parent and a type")
        return next(iter(parents)), type, fold(after)

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """The entities with these keys, by parent, type and folded id."""
        if not keys:
            return iter(())
        return map(load, self._stream(self._sql.by_key, {"keys": self._dialect.array(keys)}))

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """The ways of ``selection``, as they are asked for."""
        return ways(self._stream(*self._sql.selections.statement(selection)), selection)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type)."""
        records = self._all(self._sql.counts, {"parents": self._dialect.array(parents)}) if parents else ()
        return {(parent, plural): count for parent, plural, count in records}

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``, by xid."""
        records = self._all(self._sql.referrers, {"xrefs": self._texts(targets)}) if targets else ()
        return [load(record) for record in records]

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Versions from the highest rank down."""
        return self._rows(self._sql.line.newest, {"parent": parent, "limit": limit})

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Versions from the highest rank down that are no other's ancestor."""
        rank, name = above
        place = {"parent": parent, "rank": rank, "folded": fold(name), "limit": limit}
        return self._rows(self._sql.line.leaves, place)

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Versions around a place in the order of ranks."""
        place = {"parent": parent, "rank": rank, "folded": fold(id), "limit": limit}
        return self._rows(self._sql.line.before, place), self._rows(self._sql.line.after, place)

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Versions with one of these ancestors."""
        if not ancestors:
            return []
        return self._rows(self._sql.line.derived, {"parent": parent, "ancestors": self._dialect.array(ancestors)})

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Versions that others have as ancestor."""
        found = self._all(self._sql.line.ancestors, {"keys": self._dialect.array(keys)}) if keys else ()
        return {key for (key,) in found}

    def named(self, uri: str, limit: int) -> list[Row]:
        """Versions with this ``uri``."""
        return self._rows(self._sql.named, {"uri": uri, "limit": limit})

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Versions below ``parent`` with this document."""
        return self._rows(self._sql.holders, {"parent": parent, "document": document, "limit": limit})

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""
        return dict(self._all(self._sql.documents, {"digests": self._dialect.array(digests)}) if digests else ())

    def config(self, name: str) -> JSON | None:
        """The configuration document ``name``."""
        records = self._all(self._sql.config, {"name": name})
        return load_json(records[0][0]) if records and records[0][0] is not None else None

    def config_epoch(self, name: str) -> int:
        """Number of times ``name`` was put."""
        records = self._all(self._sql.config_epoch, {"name": name})
        return int(records[0][0]) if records else 0

    def note(self, name: str) -> JSON | None:
        """The note ``name``."""
        records = self._all(self._sql.note, {"name": name})
        return load_json(records[0][0]) if records else None

    def notes(
        self, folder: str, *, after: str = "", through: str | None = None, limit: int | None = None
    ) -> dict[str, JSON]:
        """The notes whose names begin with ``folder/``."""
        # "0" follows "/", and nothing that names are made of comes before a blank.
        behind = f"{folder}0" if through is None else f"{folder}/{through} "
        bounds = {"after": f"{folder}/{after}", "behind": behind, "limit": _ALL if limit is None else limit}
        records = self._all(self._sql.notes, bounds)
        return {name[len(folder) + 1 :]: load_json(value) for name, value in records}

    def pipeline(self, name: str) -> Pipeline | None:
        """A pipeline that has reported."""
        found = self._all(self._sql.reporting.pipeline, {"name": name})
        return _pipeline(found[0]) if found else None

    def pipelines(self, after: str, limit: int) -> list[Pipeline]:
        """Pipelines by name."""
        return [
            _pipeline(record) for record in self._all(self._sql.reporting.pipelines, {"after": after, "limit": limit})
        ]

    def pipeline_count(self) -> int:
        """How many pipelines have reported."""
        return int(self._all(self._sql.reporting.count, {})[0][0])

    def reports(self, pipeline: str, before: int, limit: int, size: int) -> list[Report]:
        """Reports of a pipeline, the newest first."""
        place = {"pipeline": pipeline, "before": before}
        sizes = self._all(self._sql.reporting.sizes, {**place, "limit": limit})
        together = accumulate(length for _, length in sizes)
        fitting = [number for (number, _), reached in zip(sizes, together, strict=True) if reached <= size]
        if not sizes:
            return []
        first = fitting[-1] if fitting else sizes[0][0]
        records = self._all(self._sql.reporting.reports, {**place, "first": first})
        return [Report(number=number, time=instant(time), value=value) for number, time, value in records]

    def outbox(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """Changes behind position ``after``."""
        return [
            Record(position=position, time=instant(time), correlationid=correlationid, change=load_json(change))
            for position, time, correlationid, change in self._all(self._sql.outbox, {"after": after, "limit": limit})
        ]

    def forgotten(self) -> int:
        """The position up to which the outbox was forgotten."""
        found = self._all(self._sql.forgotten, {})
        return int(found[0][0]) if found else 0

    def position(self) -> int:
        """The position of the last change."""
        return int(self._all(self._sql.position, {})[0][0])

    def end(self, reason: str = "this transaction is over; open another one") -> None:
        """Make every later call raise ``StorageError`` with ``reason``, and give up what is still being streamed."""
        self._over = self._over or reason
        self._end_streams()

    def _end_streams(self) -> None:
        while self._streams:
            self._streams.pop().close()

    def _texts(self, xids: Collection[Xid]) -> object:
        return self._dialect.array([str(xid) for xid in xids])

    def _rows(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return [load(record) for record in self._all(sql, parameters)]

    def _all(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        self._check()
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except self._dialect.errors as error:
            raise self._failed(error) from None

    def _stream(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        records = self._dialect.stream(self._connection, sql, parameters)
        self._streams.append(records)
        while True:
            self._check()
            try:
                yield next(records)
            except StopIteration:
                return
            except self._dialect.errors as error:
                raise self._failed(error) from None

    def _check(self) -> None:
        if self._over:
            raise StorageError(self._over)

    def _failed(self, error: Exception) -> StorageError:
        """What ``error`` means. The database may have given up the transaction: nothing more happens in it."""
        explained = self._dialect.explain(error)
        self._over = self._over or f"an earlier failure ended this transaction: {explained}"
        return explained


def _pipeline(record: tuple[Any, ...]) -> Pipeline:
    name, newest, time, gist = record
    return Pipeline(name=name, newest=newest, time=instant(time), gist=load_json(gist))
