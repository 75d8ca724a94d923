"""Statements about the reports of pipelines, each by index however many there are."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import bindparam, delete, desc, func, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import PIPELINES, REPORTS

_P: Final = PIPELINES.c
_R: Final = REPORTS.c


class Reporting:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        insert = sqlite.insert if dialect.sql.name == "sqlite" else postgresql.insert
        named, own = _P.name == bindparam("name"), _R.pipeline == bindparam("pipeline")
        pipelines = select(_P.name, _P.newest, _P.time, _P.gist)
        self.pipeline = self._text(pipelines.where(named))
        self.pipelines = self._page(pipelines.where(_P.name > bindparam("after")).order_by(_P.name))
        self.count = self._text(select(func.count()).select_from(PIPELINES))
        put = insert(PIPELINES).values({c.name: bindparam(c.name) for c in _P})
        changed = {name: put.excluded[name] for name in ("newest", "time", "gist")}
        self.put_pipeline = self._text(put.on_conflict_do_update(index_elements=[_P.name], set_=changed))
        self.drop_pipeline = self._text(delete(PIPELINES).where(named))
        older = (own, _R.number < bindparam("before"))
        self.sizes = self._page(select(_R.number, _R.size).where(*older).order_by(desc(_R.number)))
        page = select(_R.number, _R.time, _R.value).where(*older, _R.number >= bindparam("first"))
        self.reports = self._text(page.order_by(desc(_R.number)))
        self.known = self._text(select(_R.number, _R.time).where(own, _R.batch == bindparam("batch")))
        self.add = self._text(insert(REPORTS).values({c.name: bindparam(c.name) for c in _R}))
        again: dict[str, Any] = {name: bindparam(name) for name in ("size", "value")}
        self.replace = self._text(update(REPORTS).where(own, _R.number == bindparam("number")).values(again))
        self.forget = self._text(delete(REPORTS).where(own, _R.number <= bindparam("upto")))

    def _page(self, query: Any) -> str:
        # The offset is spelt out, since SQLAlchemy would make it a parameter for SQLite.
        return self._text(query.limit(bindparam("limit")).offset(literal_column("0")))

    def _text(self, statement: Any) -> str:
        return str(statement.compile(dialect=self._dialect.sql))
