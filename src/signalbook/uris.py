"""Check, compare and take apart URIs by their text (RFC 3986). Nothing is fetched."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

_CHARACTERS: Final = (
    r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*+(?:%[0-9A-Fa-f]{2}[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*+)*+"
)
_REFERENCE: Final = re.compile(_CHARACTERS, re.ASCII)
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*+:" + _CHARACTERS, re.ASCII)
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*:)?(?P<host>//[^/?#]*)?(?P<path>[^?#]*)(?P<rest>.*)", re.ASCII | re.DOTALL
)
_OCTET: Final = re.compile(r"%[0-9A-Fa-f]{2}", re.ASCII)
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]", re.ASCII)
_BEFORE_HOST: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*+://)?.*@", re.DOTALL)
_PORTS: Final = {"http:": ":80", "https:": ":443"}


def is_uri_reference(text: str) -> bool:
    """Return True if ``text`` is a URI or a relative reference, and not empty."""
    return text != "" and _REFERENCE.fullmatch(text) is not None and text.count("#") <= 1


def is_uri(text: str) -> bool:
    """Return True if ``text`` is a URI with a scheme."""
    return _ABSOLUTE.fullmatch(text) is not None and text.count("#") <= 1


def normal_uri(text: str) -> str:
    """Return ``text`` in a normal form, so that equivalent references are equal (RFC 3986 6.2.2 and 6.2.3).

    Differences in the case of scheme and host, percent-encoding, dot segments and default ports are removed. A final
    slash and ``%2F`` are kept. Any text is accepted, even if it is not a reference.
    """
    parts = _PARTS.fullmatch(_OCTET.sub(lambda match: _normalize_octet(match[0]), text))
    assert parts is not None, "every text has these parts"
    scheme, path = (parts["scheme"] or "").lower(), parts["path"]
    user, sign, host = (parts["host"] or "").rpartition("@")
    host = host.lower().removesuffix(_PORTS.get(scheme, "\n"))
    return f"{scheme}{user}{sign}{host}{_drop_dots(path) if path.startswith('/') else path}{parts['rest']}"


def _normalize_octet(encoded: str) -> str:
    character = chr(int(encoded[1:], 16))
    return character if _UNRESERVED.fullmatch(character) else encoded.upper()


def _drop_dots(path: str) -> str:
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and len(segments) > 1:  # the first one is empty: the root stays
            segments.pop()
        elif segment not in (".", ".."):
            segments.append(segment)
    return "/".join([*segments, ""] if path.endswith(("/.", "/..")) else segments)


def join_uris(base: str, reference: str) -> str:
    """Return ``reference`` resolved against ``base``, or ``reference`` itself if one of them is malformed."""
    try:
        return urljoin(base, reference)
    except ValueError:  # a malformed IPv6 address
        return reference


def is_address(text: str) -> bool:
    """Return True if ``text`` is a URL for HTTP."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False


def is_secure(url: str) -> bool:
    """Return True if requests to ``url`` cannot be read or changed by others: https, or http on this machine.

    Return False for a URL with a user, a password or a fragment.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host or parts.username is not None or parts.fragment:
            return False
        if parts.scheme == "https":
            return True
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def without_user(url: str) -> str:
    """Return ``url`` without user and password, so that it can be shown and stored.

    If ``url`` is malformed, the result is that of ``hide_user``.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # an invalid port or IPv6 address
        return hide_user(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else url


def hide_user(text: str) -> str:
    """Return ``text``, which may be no URL, without anything before the last ``@`` except a scheme.

    Use it in errors about malformed URLs. Passwords that are not percent-encoded, and URLs without a scheme, have their
    password where a URL has other parts.
    """
    return _BEFORE_HOST.sub(r"\1", text, count=1) if "@" in text else text


def user_of(url: str) -> tuple[str, str] | None:
    """Return the decoded user and password in ``url``, or None if it has neither."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")
