"""What counts as a URI (RFC 3986), by its characters and its scheme; nothing is fetched or normalised here."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

_CHARACTERS: Final = (
    r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*+(?:%[0-9A-Fa-f]{2}[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*+)*+"
)
_REFERENCE: Final = re.compile(_CHARACTERS, re.ASCII)
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*+:" + _CHARACTERS, re.ASCII)


def is_uri_reference(text: str) -> bool:
    """Whether ``text`` is a URI or a relative reference, and not empty."""
    return text != "" and _REFERENCE.fullmatch(text) is not None and text.count("#") <= 1


def is_uri(text: str) -> bool:
    """Whether ``text`` is a URI with a scheme."""
    return _ABSOLUTE.fullmatch(text) is not None and text.count("#") <= 1


def is_address(text: str) -> bool:
    """Whether ``text`` is the URL of something to be reached by HTTP."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, half of an IPv6 address
        return False


def without_user(url: str) -> str:
    """``url`` without the user and the password it may have: what may be shown, and names a server to others."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else url


def user_of(url: str) -> tuple[str, str] | None:
    """The user and the password that ``url`` has, None without them."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")
