"""Sessions of people who logged in to the explorer, stored under a hash of the secret in the browser's cookie."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import SESSIONS, dump_text, instant, load_json, microseconds
from signalbook.storage.transaction import SqlReader, SqlWriting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session of ``subject``, who logged in through an ``issuer`` or with the API token with the id ``token``.

    ``id`` is a hash of the session's secret. ``displayname`` is the name that pages show. ``hint`` is the text that the
    issuer needs to end its own session, encrypted with the secret.
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


class SessionReader(SqlReader[SessionStatements]):
    """Reads sessions. They are not part of the registry."""

    def get(self, id: str) -> StoredSession | None:
        """Return a session, expired or not, or None."""
        records = self._transaction.rows(self._sql.get, {"id": id})
        return _parse_session(records[0]) if records else None

    def of(self, subject: str, issuer: str) -> list[str]:
        """Return the ids of the sessions that ``subject`` began through ``issuer``, the oldest first.

        An empty ``issuer`` means sessions that were begun with an API token.
        """
        records = self._transaction.rows(self._sql.of_subject, {"subject": subject})
        return [str(session_id) for session_id, of in records if of == issuer]


class SessionWriter(SessionReader):
    """Reads and writes sessions. Removing a session changes ``Store.generation``. Adding one does not, because nothing
    was cached for it."""

    def __init__(self, transaction: SqlWriting, sql: SessionStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def add(self, session: StoredSession) -> None:
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
        """Remove the session ``id``. Return True if it existed."""
        gone = self._writing.run(self._sql.remove, {"id": id}) > 0
        self._writing.pending.touched |= gone
        return gone

    def remove_of(self, subject: str) -> int:
        """Remove all sessions of ``subject``, from any issuer. Return their number."""
        gone = self._writing.run(self._sql.remove_of, {"subject": subject})
        self._writing.pending.touched |= gone > 0
        return gone

    def remove_expired(self, now: datetime) -> None:
        """Remove the sessions that expired up to ``now``. They are not valid anywhere any more."""
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
