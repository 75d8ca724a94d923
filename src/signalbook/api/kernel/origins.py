"""Decide which host names, and which web pages' origins, requests may come from.

A browser sends requests to a registry on its user's machine, or in the user's network, for any page that asks for it.
Every page may read (R315). Only the registry's own pages and those of configured origins may write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.types import Scope

from signalbook.api.kernel.errors import build_plain_response
from signalbook.api.kernel.requests import host
from signalbook.api.kernel.responses import Response
from signalbook.settings import SettingError, Settings

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_PAGES: Final = frozenset({b"same-origin", b"none"})
_PORTS: Final = {"http": 80, "https": 443}


class PageRefused(NamedTuple):
    """The refusal of a request because of its host or origin. ``reason`` names it in metrics and the audit log."""

    reason: str
    response: Response


class Origins:
    """Decides about hosts and origins by the settings ``host``, ``base_url``, ``allow_hosts`` and ``allow_origins``.

    Raises ``SettingError`` for an invalid origin.
    """

    def __init__(self, settings: Settings) -> None:
        base_url = urlsplit(settings.base_url)
        self._hosts = frozenset((*map(str.lower, settings.allow_hosts), base_url.hostname or "localhost"))
        self._loopback = is_loopback(settings.host)
        self._trusted = frozenset(map(_parse_origin, settings.allow_origins))
        self._own = base_url.netloc.lower().encode()
        # Browsers send few host names. A client that sends many only displaces cached ones.
        self._takes_host: Callable[[bytes], bool] = lru_cache(maxsize=128)(self._find_host)

    def refusal(self, scope: Scope) -> PageRefused | None:
        """Return the refusal of a request that must not be handled, or None."""
        if self._loopback and not self._takes_host(host(scope)):
            return _MISDIRECTED
        if scope["method"] not in READS and self._is_foreign(scope):
            return _FOREIGN
        return None

    def find_allowed_origin(self, scope: Scope) -> bytes:
        """Return the ``Access-Control-Allow-Origin`` of a response: the origin of pages that may read it, empty for
        none.

        For a preflight, return the origin that may send the announced request (fetch.spec.whatwg.org, CORS protocol).
        """
        method = scope["method"]
        if method == "OPTIONS":
            method = _read_header(scope, b"access-control-request-method").decode("latin-1") or method
        if method in READS:
            return b"*"
        origin = _read_header(scope, b"origin")
        return origin if origin in self._trusted else b""

    def _is_foreign(self, scope: Scope) -> bool:
        """Return True if a browser sends this request for a page of another site.

        Pages cannot set ``Origin`` or ``Sec-Fetch-Site``. Older browsers send only ``Origin``, and only some of them to
        plain HTTP. Other programs send neither, and cannot be abused by a page.
        """
        origin, site = _read_header(scope, b"origin"), _read_header(scope, b"sec-fetch-site")
        if origin in self._trusted:
            return False
        if site:
            return site not in _OWN_PAGES
        # A proxy that ends TLS changes the scheme, so only the host counts.
        origin_host = origin.partition(b"://")[2]
        return bool(origin) and (not origin_host or origin_host not in (host(scope).lower(), self._own))

    def _find_host(self, authority: bytes) -> bool:
        # An empty host is sent by HTTP/1.0 clients only, never by a browser.
        name = _parse_host(authority.decode("latin-1"))
        return not authority or name in self._hosts or is_loopback(name)


def is_loopback(name: str) -> bool:
    """Return True if a host name or address can only be this machine's (RFC6761 6.3)."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _parse_host(authority: str) -> str:
    """Return the host of ``HOST:PORT``, in lower case, without the brackets of an address."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower().removesuffix(".")


def _parse_origin(text: str) -> bytes:
    """Return an origin as browsers write it (RFC6454 6.2)."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not (parts.scheme and parts.hostname) or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise SettingError(f"allow_origins has origins such as https://ui.example, not {text!r}")
    hostname = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    suffix = "" if port in (None, _PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{hostname}{suffix}".encode()


def _read_header(scope: Scope, name: bytes) -> bytes:
    for header_name, value in scope["headers"]:
        if header_name == name:
            return bytes(value)
    return b""


_MISDIRECTED: Final = PageRefused(
    "host",
    build_plain_response(
        HTTPStatus.MISDIRECTED_REQUEST,
        "/",
        "this server listens on this machine only and does not go by the name in Host; "
        "set base_url to the URL that clients use, or name the host in allow_hosts",
    ),
)
_FOREIGN: Final = PageRefused(
    "origin",
    build_plain_response(
        HTTPStatus.FORBIDDEN,
        "/",
        "a web page of another origin must not write here; name its origin in the setting allow_origins to let it",
    ),
)
