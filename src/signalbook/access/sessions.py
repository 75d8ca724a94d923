"""Sessions of people in their browsers: begun by a login, stored by a hash, and ended on all servers at once.

The browser has 256 random bits in a cookie. The database has their SHA-256 and the identity. So nothing in the database
opens a session, a cookie reveals nothing about the person, and an ended session is valid nowhere
(docs/decisions/152-login.md).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from signalbook.access import tokens
from signalbook.access.base import Identity, Unauthenticated
from signalbook.access.sealing import seal, unseal
from signalbook.storage.sessions import SessionWriter, StoredSession
from signalbook.storage.tokens import StoredToken

PATH: Final = "/access/sessions"
"""The path of sessions, over HTTP and in the audit log."""
MOST_SESSIONS: Final = 20
"""The number of sessions of one person. One more login ends the oldest session."""
_SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_ENDED: Final = "your session has ended: log in again"


class SessionEnded(Unauthenticated):
    """A session has ended or never existed. Its cookie is useless."""

    def __init__(self) -> None:
        super().__init__(_ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIn:
    """A person who proved to be ``identity``, by an API token or at an issuer.

    ``displayname`` is the name that pages show. ``hint`` is the ID token that the issuer needs to end its own session.
    ``until`` is the time at which the proof expires, None if it does not. ``groupless`` is True if the issuer sent
    nothing about groups, so that the person's groups are unknown.
    """

    identity: Identity
    displayname: str = ""
    hint: str = ""
    until: datetime | None = None
    groupless: bool = False


def is_secret(text: str) -> bool:
    """Return True if ``text`` has the form of a session secret."""
    return _SECRET.fullmatch(text) is not None


def compute_session_id(secret: str) -> str:
    """Return the id under which the session with this secret is stored."""
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def begin(writer: SessionWriter, who: LoggedIn, now: datetime, hours: float) -> tuple[StoredSession, str]:
    """Store a new session of ``hours`` for ``who``. Return it with its secret, which is stored nowhere.

    Expired sessions are removed, and the oldest of the person if there are more than ``MOST_SESSIONS``.
    """
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    ends = now + timedelta(hours=hours)
    identity = who.identity
    stored = StoredSession(
        id=compute_session_id(secret),
        subject=identity.subject,
        groups=() if identity.token else tuple(sorted(identity.groups)),
        issuer=identity.issuer,
        token=identity.token,
        displayname=who.displayname,
        created=now,
        expires=ends if who.until is None else min(ends, who.until),
        hint=seal(_derive_key(secret), who.hint.encode("ascii")) if who.hint else "",
    )
    writer.remove_expired(now)
    for old in writer.of(stored.subject, stored.issuer)[: 1 - MOST_SESSIONS]:
        writer.remove(old)
    writer.add(stored)
    return stored, secret


def identity(stored: StoredSession | None, token: StoredToken | None, now: datetime) -> Identity:
    """Return the current identity of a session. Raises ``SessionEnded``.

    ``token`` is the API token with which the session began, or None. The session has the token's current rights, and
    ends with the token. Without a token, the identity is the one that the issuer stated at the login.
    """
    if stored is None or stored.expires <= now:
        raise SessionEnded
    if not stored.token:
        holder = Identity(subject=stored.subject, groups=frozenset(stored.groups), issuer=stored.issuer)
    elif token is None or (token.expires is not None and token.expires <= now):
        raise SessionEnded
    else:
        holder = tokens.identity(token)
    return replace(holder, session=stored.id, displayname=stored.displayname)


def hint(stored: StoredSession, secret: str) -> str:
    """Return the ID token that the issuer needs to end its own session, or an empty text."""
    opened = unseal(_derive_key(secret), stored.hint)
    return "" if opened is None else opened.decode("ascii")


def _derive_key(secret: str) -> bytes:
    """Derive the key for values that only the holder of the secret may read, not a reader of the database."""
    return hmac.digest(secret.encode("ascii"), b"hint", "sha256")
