"""Stored API tokens: their subjects and scopes, hashes of their secrets, and the times of their last use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, update

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import TOKENS, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlReader, SqlWriting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """An API token: its ``subject``, its ``groups``, and its ``scopes``, the actions it is limited to; None is no
    limit.

    ``hash`` is the hash of its secret. ``used`` is the time of its last use, to a minute or so; None if it was never
    used. Without ``expires`` it never expires.
    """

    id: str
    hash: str
    subject: str
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    note: str = ""
    created: datetime
    expires: datetime | None = None
    used: datetime | None = None


class TokenStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        t = TOKENS.c
        named = t.id == bindparam("id")
        self.get = dialect.text(select(*t).where(named))
        self.page = dialect.page(select(*t).where(t.id > bindparam("after")).order_by(t.id))
        self.count = dialect.text(select(func.count()).select_from(TOKENS))
        self.add = dialect.text(dialect.insert(TOKENS).values({c.name: bindparam(c.name) for c in t}))
        self.remove = dialect.text(delete(TOKENS).where(named))
        self.put_used = dialect.text(update(TOKENS).where(named).values(used=bindparam("time")))


class TokenReader(SqlReader[TokenStatements]):
    """Reads API tokens. They are not part of the registry."""

    def get(self, id: str) -> StoredToken | None:
        """Return the token ``id``, or None."""
        records = self._transaction.rows(self._sql.get, {"id": id})
        return _parse_token(records[0]) if records else None

    def page(self, after: str, limit: int) -> list[StoredToken]:
        """Return up to ``limit`` tokens by id, starting after the id ``after``."""
        return [
            _parse_token(record) for record in self._transaction.rows(self._sql.page, {"after": after, "limit": limit})
        ]

    def count(self) -> int:
        """Return the number of tokens."""
        return int(self._transaction.rows(self._sql.count, {})[0][0])


class TokenWriter(TokenReader):
    """Reads and writes API tokens. Adding and removing a token changes ``Store.generation``."""

    def __init__(self, transaction: SqlWriting, sql: TokenStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def add(self, token: StoredToken) -> None:
        self._writing.pending.touched = True
        self._writing.run(
            self._sql.add,
            {
                "id": token.id,
                "hash": token.hash,
                "subject": token.subject,
                "groups": dump_text(list(token.groups)),
                "scopes": None if token.scopes is None else dump_text(list(token.scopes)),
                "note": token.note,
                "created": microseconds(token.created),
                "expires": None if token.expires is None else microseconds(token.expires),
                "used": None if token.used is None else microseconds(token.used),
            },
        )

    def remove(self, id: str) -> bool:
        """Remove the token ``id``. Return True if it existed."""
        gone = self._writing.run(self._sql.remove, {"id": id}) > 0
        self._writing.pending.touched |= gone
        return gone

    def put_used(self, id: str, time: datetime) -> None:
        """Store the time of the last use of the token ``id``, if the token still exists."""
        self._writing.run(self._sql.put_used, {"id": id, "time": microseconds(time)})


def _parse_token(record: tuple[Any, ...]) -> StoredToken:
    token_id, secret, subject, groups, scopes, note, created, expires, used = record
    return StoredToken(
        id=token_id,
        hash=secret,
        subject=subject,
        groups=tuple(load_json(groups)),
        scopes=None if scopes is None else tuple(load_json(scopes)),
        note=note,
        created=instant(created),
        expires=None if expires is None else instant(expires),
        used=None if used is None else instant(used),
    )
