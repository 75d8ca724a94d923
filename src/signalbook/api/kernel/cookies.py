"""Cookies: naming, setting and reading them, and the requests for which a session's cookie is valid (RFC 6265bis).

Over https every cookie has the prefix ``__Host-``: no other host can set it, not even one of the same domain. Without
TLS, which is for this machine only, the port is part of the name, since browsers share cookies between all ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import cookie_parser
from starlette.types import Scope

from signalbook.api.kernel.origins import READS
from signalbook.api.kernel.responses import Header
from signalbook.uris import is_secure

PAGES: Final = "/ui"
"""The path of the explorer. Only here may a session write, since all its forms have tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """A cookie of this server. Scripts cannot read it, and it is not sent with forms or requests of other pages.

    It is ``Lax``, so that it is sent when the user follows a link of another page, such as the issuer's: the user is
    then logged in, and the forms in other tabs stay valid.
    """

    name: str

    def of(self, scope: Scope, root: str) -> str:
        """Return the value in a request to the registry at ``root``, or ""."""
        name = _build_cookie_name(self.name, root)
        for header_name, value in scope["headers"]:
            if header_name == b"cookie" and (text := cookie_parser(value.decode("latin-1")).get(name)):
                return text
        return ""

    def set(self, value: str, root: str, *, seconds: int | None = None) -> Header:
        """Return the header that sets the cookie. Without ``seconds`` the cookie lasts until the browser is closed."""
        lasts = "" if seconds is None else f"; Max-Age={seconds}"
        secure = "; Secure" if _is_https(root) else ""
        text = f"{_build_cookie_name(self.name, root)}={value}; HttpOnly; SameSite=Lax; Path=/{lasts}{secure}"
        return "Set-Cookie", text

    def removed(self, root: str) -> Header:
        """Return the header that removes the cookie."""
        return self.set("", root, seconds=0)


SESSION: Final = Cookie(name="signalbook-session")


def read_session_secret(scope: Scope, root: str) -> str:
    """Return the secret of the session that is valid for a request, or "".

    Browsers send cookies whether the user wants it or not. So a session is valid only for reads, whose responses pages
    of other sites cannot see, and for the explorer's own forms. A write to an API needs credentials that a program
    sends on purpose.
    """
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    counts = scope["method"] in READS or path.startswith(f"{PAGES}/")
    return SESSION.of(scope, root) if counts and is_private(root) else ""


@lru_cache(maxsize=128)
def is_private(root: str) -> bool:
    """Return True if a cookie may be sent to the registry at ``root``, because nobody on the network can read it."""
    return is_secure(root)


@lru_cache(maxsize=128)
def _is_https(root: str) -> bool:
    return urlsplit(root).scheme == "https"


@lru_cache(maxsize=512)
def _build_cookie_name(name: str, root: str) -> str:
    return f"__Host-{name}" if _is_https(root) else f"{name}-{urlsplit(root).port or 80}"
