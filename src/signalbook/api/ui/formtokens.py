"""Tokens of forms that write, by signed double submit: only forms of this server's own pages are accepted.

A browser has a random value in a cookie. A form has the HMAC of this value, the caller, the session and the form's
path. A page of another site can neither read nor set the cookie, nor compute the HMAC. All servers of a database share
the key, which is stored in the database.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

from signalbook.api.kernel.cookies import Cookie
from signalbook.api.kernel.errors import Denied
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Header
from signalbook.api.kernel.routing import Kernel
from signalbook.engine.engine import Session

FORM: Final = Cookie(name="signalbook-form")
_STORE_KEY: Final = "ui/forms"
_KEY_BYTES: Final = 32
FORGED: Final = (
    "Nothing was done: the form is from another browser, another session, another user or another site, or its cookie "
    "is gone."
)
_COOKIE_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormToken:
    """The token of a form: ``text`` for its field, and ``headers`` that set a missing cookie."""

    text: str
    headers: tuple[Header, ...]


class FormTokens:
    """Makes tokens for forms, and checks the tokens of submitted forms."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._known: bytes | None = None

    async def token(self, request: HTTPRequest, path: str) -> FormToken:
        """Return a token for the form at ``path``, for this browser and caller."""
        value = _read_cookie(request)
        headers: tuple[Header, ...] = ()
        if not value:
            value = secrets.token_urlsafe(_KEY_BYTES)
            headers = (FORM.set(value, request.root),)
        return FormToken(text=await self._sign(value, request, path), headers=headers)

    async def is_valid(self, text: str, request: HTTPRequest, path: str) -> bool:
        """Return True if ``text`` is the token of the form at ``path`` for this browser and caller."""
        value = _read_cookie(request)
        expected = await self._sign(value, request, path)
        return hmac.compare_digest(expected.encode(), text.encode()) and bool(value)

    async def require(self, text: str, request: HTTPRequest, path: str) -> None:
        """Raise ``Denied`` unless ``text`` is the token of the form at ``path`` for this browser and caller."""
        if not await self.is_valid(text, request, path):
            raise Denied(f"{FORGED} Open it anew.")

    async def key(self, purpose: bytes) -> bytes:
        """Return a key of 256 bits for ``purpose``. It is the same on all servers of the database."""
        if self._known is None:
            self._known = bytes.fromhex(await self._kernel.write(_load_key))
        return hmac.digest(self._known, purpose, "sha256")

    async def _sign(self, value: str, request: HTTPRequest, path: str) -> str:
        who = request.access.identity
        # All parts are quoted, so that different parts never make the same text.
        bound = repr((value, who.name, who.session, path))
        return hmac.digest(await self.key(b"forms"), bound.encode("utf-8", "backslashreplace"), "sha256").hex()


def _load_key(session: Session) -> str:
    """Return the key in the store. It is created at the first call."""
    key: str | None = session.transaction.settings.get(_STORE_KEY)
    if key is None:
        key = secrets.token_hex(_KEY_BYTES)
        session.transaction.settings.put(_STORE_KEY, key)
    return key


def _read_cookie(request: HTTPRequest) -> str:
    """Return the value in the browser's form cookie, or "" if there is no valid one."""
    value = FORM.of(request.scope, request.root)
    return value if _COOKIE_VALUE.fullmatch(value) else ""
