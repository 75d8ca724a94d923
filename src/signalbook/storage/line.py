"""Statements about the Versions of one Resource in the order of their ranks, each by index whatever their number."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import bindparam, desc, exists, func, literal_column, select, tuple_

from signalbook.storage.dialect import Dialect
from signalbook.storage.rows import COLUMNS
from signalbook.storage.schema import ENTITIES

_E: Final = ENTITIES.c
_OTHER: Final = ENTITIES.alias("other")
# Ids are ASCII: as it is in the xid, an id is as long as its folded form.
_ID: Final = func.substr(_E.xid, func.length(_E.xid) - func.length(_E.folded) + literal_column("1"))
_DERIVED: Final = (_OTHER.c.parent == _E.parent, _OTHER.c.ancestorid == _ID)


class Line:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        place = tuple_(_E.rank, _E.folded)
        given = tuple_(bindparam("rank"), bindparam("folded"))
        leaf = ~exists().where(*_DERIVED, _OTHER.c.key != _E.key)
        self.newest = self._ranked(falling=True)
        self.leaves = self._ranked(place > given, leaf, falling=True)
        self.before = self._ranked(place < given, falling=True)
        self.after = self._ranked(place > given, falling=False)
        named = dialect.member(_E.ancestorid, "ancestors")
        derived = select(*COLUMNS).where(_E.parent == bindparam("parent"), named, _E.ancestorid != _ID)
        self.derived = self._text(derived.order_by(_E.folded))
        elsewhere = exists().where(*_DERIVED, ~dialect.member(_OTHER.c.key, "keys"))
        self.ancestors = self._text(select(_E.key).where(dialect.member(_E.key, "keys"), elsewhere))

    def _ranked(self, *conditions: Any, falling: bool) -> str:
        order = [desc(column) if falling else column for column in (_E.rank, _E.folded)]
        query = select(*COLUMNS).where(_E.parent == bindparam("parent"), _E.rank.is_not(None), *conditions)
        # The offset is spelt out, since SQLAlchemy would make it a parameter for SQLite.
        return self._text(query.order_by(*order).limit(bindparam("limit")).offset(literal_column("0")))

    def _text(self, statement: Any) -> str:
        return str(statement.compile(dialect=self._dialect.sql))
