"""Sessions: who logged in to the explorer, until when, under a hash of the secret that is in the browser's cookie."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import SESSIONS, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlTransaction, SqlWriting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session: whose it is, by an ``issuer`` or by the API token with the id ``token``.

    ``id`` is a hash. ``displayname`` is what pages call the ``subject``. ``hint`` is what the issuer wants to see to
    end its own session, sealed by the secret.
    """

    id: str
    subject: str
    groups: tuple[str, ...] = ()
    issuer: str = ""
    token: str = ""
    displayname: str = ""
    created: datetime
    expires: datetime
    hint: str = ""


class SessionStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        s = SESSIONS.c
        named = s.id == bindparam("id")
        self.get = dialect.text(select(*s).where(named))
        self.of_subject = dialect.text(
            select(s.id, s.issuer).where(s.subject == bindparam("subject")).order_by(s.created, s.id)
        )
        self.add = dialect.text(dialect.insert(SESSIONS).values({c.name: bindparam(c.name) for c in s}))
        self.remove = dialect.text(delete(SESSIONS).where(named))
        self.remove_of = dialect.text(delete(SESSIONS).where(s.subject == bindparam("subject")))
        self.remove_expired = dialect.text(delete(SESSIONS).where(s.expires <= bindparam("now")))


class SessionReader:
    """Sessions; no part of the registry."""

    def __init__(self, transaction: SqlTransaction, sql: SessionStatements) -> None:
        self._transaction = transaction
        self._sql = sql

    def get(self, id: str) -> StoredSession | None:
        """Return a session, expired or not, or None."""
        records = self._transaction.rows(self._sql.get, {"id": id})
        return _parse_session(records[0]) if records else None

    def of(self, subject: str, issuer: str) -> list[str]:
        """The ids of somebody's, in the order in which they began."""
        records = self._transaction.rows(self._sql.of_subject, {"subject": subject})
        return [str(session_id) for session_id, of in records if of == issuer]


class SessionWriter(SessionReader):
    """Sessions in a write transaction. To remove one changes ``Store.generation``; to add one, which nobody could have
    asked for before, does not."""

    def __init__(self, transaction: SqlWriting, sql: SessionStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def add(self, session: StoredSession) -> None:
        """Add one."""
        self._writing.run(
            self._sql.add,
            {
                "id": session.id,
                "subject": session.subject,
                "groups": dump_text(list(session.groups)),
                "issuer": session.issuer,
                "token": session.token,
                "displayname": session.displayname,
                "created": microseconds(session.created),
                "expires": microseconds(session.expires),
                "hint": session.hint,
            },
        )

    def remove(self, id: str) -> bool:
        """Remove one; whether there was one."""
        gone = self._writing.run(self._sql.remove, {"id": id}) > 0
        self._writing.pending.touched |= gone
        return gone

    def remove_of(self, subject: str) -> int:
        """Remove all of a subject, whoever named it; how many there were."""
        gone = self._writing.run(self._sql.remove_of, {"subject": subject})
        self._writing.pending.touched |= gone > 0
        return gone

    def remove_expired(self, now: datetime) -> None:
        """Remove those that have expired, which hold nowhere any more."""
        self._writing.run(self._sql.remove_expired, {"now": microseconds(now)})


def _parse_session(record: tuple[Any, ...]) -> StoredSession:
    session_id, subject, groups, issuer, token, displayname, created, expires, hint = record
    return StoredSession(
        id=session_id,
        subject=subject,
        groups=tuple(load_json(groups)),
        issuer=issuer,
        token=token,
        displayname=displayname,
        created=instant(created),
        expires=instant(expires),
        hint=hint,
    )
