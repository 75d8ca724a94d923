"""Reports of pipelines: a history per pipeline. Every statement uses an index, so its cost does not grow with the
history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import bindparam, delete, desc, func, select, update

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import PIPELINES, REPORTS, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlReader
from signalbook.values import JSON

_LAST_NUMBER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingPipeline:
    """A pipeline that reports its batches. ``newest`` is the number of its newest report, ``time`` the time at which
    this report arrived, and ``gist`` a summary of it."""

    name: str
    newest: int
    time: datetime
    gist: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """A report of one batch, as JSON text. ``number`` grows with each batch of a pipeline; ``time`` is the time of
    arrival."""

    number: int
    time: datetime
    value: str


class ReportStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        p, r = PIPELINES.c, REPORTS.c
        named, own = p.name == bindparam("name"), r.pipeline == bindparam("pipeline")
        pipelines = select(p.name, p.newest, p.time, p.gist)
        self.pipeline = dialect.text(pipelines.where(named))
        self.pipelines = dialect.page(pipelines.where(p.name > bindparam("after")).order_by(p.name))
        self.count = dialect.text(select(func.count()).select_from(PIPELINES))
        self.put_pipeline = dialect.upsert(PIPELINES, "name")
        self.drop_pipeline = dialect.text(delete(PIPELINES).where(named))
        older = (own, r.number < bindparam("before"))
        self.sizes = dialect.page(select(r.number, r.size).where(*older).order_by(desc(r.number)))
        page = select(r.number, r.time, r.value).where(*older, r.number >= bindparam("first"))
        self.reports = dialect.text(page.order_by(desc(r.number)))
        newest = (
            PIPELINES.join(REPORTS, (p.name == r.pipeline) & (p.newest == r.number)),
            dialect.member(p.name, "names"),
        )
        self.newest_sizes = dialect.text(select(p.name, r.size).select_from(newest[0]).where(newest[1]))
        values = select(p.name, r.number, r.time, r.value).select_from(newest[0]).where(newest[1])
        self.newest = dialect.text(values)
        self.of_batch = dialect.text(select(r.number, r.time).where(own, r.batch == bindparam("batch")))
        self.add = dialect.text(dialect.insert(REPORTS).values({c.name: bindparam(c.name) for c in r}))
        again: dict[str, Any] = {name: bindparam(name) for name in ("size", "value")}
        self.replace = dialect.text(update(REPORTS).where(own, r.number == bindparam("number")).values(again))
        self.prune = dialect.text(delete(REPORTS).where(own, r.number <= bindparam("upto")))


class ReportReader(SqlReader[ReportStatements]):
    """Reads reports of pipelines. They are not part of the registry."""

    def pipeline(self, name: str) -> ReportingPipeline | None:
        """Return the pipeline ``name``, or None if it has never reported."""
        records = self._transaction.rows(self._sql.pipeline, {"name": name})
        return _parse_pipeline(records[0]) if records else None

    def pipelines(self, after: str, limit: int) -> list[ReportingPipeline]:
        """Return up to ``limit`` pipelines by name, starting after the name ``after``."""
        return [
            _parse_pipeline(record)
            for record in self._transaction.rows(self._sql.pipelines, {"after": after, "limit": limit})
        ]

    def pipeline_count(self) -> int:
        """Return the number of pipelines."""
        return int(self._transaction.rows(self._sql.count, {})[0][0])

    def reports(self, pipeline: str, before: int, limit: int, size: int) -> list[StoredReport]:
        """Return up to ``limit`` reports of a pipeline with numbers below ``before``, the newest first.

        Fewer are returned if they would have more than ``size`` characters together, but always the first one.
        """
        place = {"pipeline": pipeline, "before": before}
        sizes = self._transaction.rows(self._sql.sizes, {**place, "limit": limit})
        together = accumulate(length for _, length in sizes)
        fitting = [number for (number, _), reached in zip(sizes, together, strict=True) if reached <= size]
        if not sizes:
            return []
        first = fitting[-1] if fitting else sizes[0][0]
        records = self._transaction.rows(self._sql.reports, {**place, "first": first})
        return [StoredReport(number=number, time=instant(time), value=value) for number, time, value in records]

    def newest(self, names: Sequence[str], size: int) -> Iterator[tuple[str, StoredReport]]:
        """Yield the newest report of each pipeline, in the order of ``names``. Pipelines without reports are left out.

        Each query reads at most ``size`` characters, but at least one report.
        """
        sizes = dict(self._transaction.rows(self._sql.newest_sizes, {"names": self._transaction.array(names)}))
        waiting = [name for name in dict.fromkeys(names) if name in sizes]
        while waiting:
            together = accumulate(sizes[name] for name in waiting)
            fitting = waiting[: max(1, sum(reached <= size for reached in together))]
            waiting = waiting[len(fitting) :]
            records = self._transaction.rows(self._sql.newest, {"names": self._transaction.array(fitting)})
            reports = {
                name: StoredReport(number=number, time=instant(at), value=value) for name, number, at, value in records
            }
            yield from ((name, reports[name]) for name in fitting if name in reports)


class ReportWriter(ReportReader):
    """Reads and writes reports of pipelines in a write transaction."""

    def put_report(
        self, name: str, batch: str, value: str, gist: JSON, *, time: datetime, keep: int
    ) -> tuple[int, bool]:
        """Store the report ``value`` (JSON text) of a pipeline's ``batch``, with its summary ``gist``.

        Only the newest ``keep`` reports of the pipeline are kept. Returns the report's number, and True if it is new. A
        report of the same batch is replaced, and keeps its number and time.
        """
        # The numbers of the stored reports have no gaps, so the oldest reports are found by number.
        pipeline = self.pipeline(name)
        newest = 0 if pipeline is None else pipeline.newest
        stored = self._transaction.rows(self._sql.of_batch, {"pipeline": name, "batch": batch})
        number, received = stored[0] if stored else (newest + 1, microseconds(time))
        parameters = {"pipeline": name, "number": number, "size": len(value), "value": value}
        if stored:
            self._transaction.run(self._sql.replace, parameters)
        else:
            self._transaction.run(self._sql.add, {**parameters, "batch": batch, "time": received})
            self._transaction.run(self._sql.prune, {"pipeline": name, "upto": number - keep})
        if number >= newest:
            row = {"name": name, "newest": number, "time": received, "gist": dump_text(gist)}
            self._transaction.run(self._sql.put_pipeline, row)
        return number, not stored

    def drop_pipeline(self, name: str) -> bool:
        """Remove a pipeline and its reports. Return True if it existed."""
        self._transaction.run(self._sql.prune, {"pipeline": name, "upto": _LAST_NUMBER})
        return self._transaction.run(self._sql.drop_pipeline, {"name": name}) > 0


def _parse_pipeline(record: tuple[Any, ...]) -> ReportingPipeline:
    name, newest, time, gist = record
    return ReportingPipeline(name=name, newest=newest, time=instant(time), gist=load_json(gist))
