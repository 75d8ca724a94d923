"""API tokens: created by administrators, shown once, stored as a hash.

A token is ``sbk_<id>_<secret>``. The secret has 256 random bits and ends with a checksum of the whole token, so that
mistyped tokens need no database query, and scanners for leaked secrets report no false matches. Only its SHA-256 is
stored. Random secrets cannot be guessed from a dictionary, so slow hashes (bcrypt, argon2) would only give attackers a
means to keep the server busy (docs/decisions/090-access.md).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from signalbook import values
from signalbook.access.base import ACTIONS, Identity
from signalbook.errors import SignalbookError
from signalbook.storage.tokens import StoredToken, TokenWriter
from signalbook.values import JSON, Finding, JSONObject, format_timestamp, parse_timestamp

DEFAULT_DAYS: Final = 90
"""The lifetime in days of a token that is requested without an expiry."""
MAX_TOKENS: Final = 10_000
MAX_TEXT: Final = 256
MAX_GROUPS: Final = 200
PREFIX: Final = "sbk"
PATH: Final = "/access/tokens"
"""The path of tokens, over HTTP and in the audit log."""
_ID: Final = string.ascii_lowercase + string.digits
_SECRET: Final = string.ascii_letters + string.digits
_ID_LENGTH: Final = 12
_RANDOM_LENGTH: Final = 43
"""The number of characters out of 62 that have 256 random bits."""
_CHECKSUM_LENGTH: Final = 6
TOKEN: Final = re.compile(
    rf"{PREFIX}_([a-z0-9]{{{_ID_LENGTH}}})_([A-Za-z0-9]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}})", re.ASCII
)
_NOBODY: Final = hashlib.sha256(b"").hexdigest()
_MAX_SHOWN_CHARS: Final = 40
_MOST_SHOWN: Final = 5
_PRINCIPAL_PREFIXES: Final = ("subject:", "group:", "token:")
_REQUEST_MEMBERS: Final = frozenset({"subject", "groups", "scopes", "expires", "note"})


class InvalidToken(SignalbookError):
    """A request for a new token is invalid. ``faults`` list what is wrong and where."""

    def __init__(self, faults: Iterable[Finding]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{fault.path}: {fault.message}" for fault in self.faults))


class TooManyTokens(SignalbookError):
    """The maximum number of tokens exists already."""

    def __init__(self) -> None:
        super().__init__(f"there are {MAX_TOKENS} API tokens already: revoke those that are not used")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request for a new token: its subject, groups, scopes and expiry."""

    subject: str
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    expires: datetime | None = None
    note: str = ""


def read_request(document: JSON, now: datetime) -> TokenRequest:
    """Read the request for a token in a document. Without ``expires`` the token lives for 90 days, with null forever.

    ``now`` is the current time. Raises ``InvalidToken``.
    """
    if not isinstance(document, dict):
        raise InvalidToken([Finding(path="", rule="type", message="this is no JSON object")])
    faults = [
        _build_finding(f"/{name}", "unknown", f"there is no {name!r}")
        for name in sorted(document.keys() - _REQUEST_MEMBERS)
    ]
    groups = document.get("groups", [])
    scopes = document.get("scopes")
    if not _is_text(document.get("subject")):
        faults.append(_build_finding("/subject", "value", f"it is a text of 1 to {MAX_TEXT} printable characters"))
    else:
        faults += _as_in_rules("/subject", document["subject"])
    if not _are_texts(groups):
        faults.append(_build_finding("/groups", "value", f"they are a list of at most {MAX_GROUPS} texts"))
    else:
        for number, group in enumerate(groups):
            faults += _as_in_rules(f"/groups/{number}", group)
    if scopes is not None and not (isinstance(scopes, list) and scopes):
        faults.append(_build_finding("/scopes", "type", f"they are a list of some of {', '.join(ACTIONS)}"))
    elif wrong := [str(scope) for scope in scopes or () if str(scope) not in ACTIONS]:
        unknown_scopes = ", ".join(repr(scope[:_MAX_SHOWN_CHARS]) for scope in wrong[:_MOST_SHOWN])
        faults.append(
            _build_finding(
                "/scopes", "value", f"there is no action {unknown_scopes}: they are some of {', '.join(ACTIONS)}"
            )
        )
    if document.get("note", "") != "" and not _is_text(document["note"]):
        faults.append(_build_finding("/note", "value", f"it is a text of at most {MAX_TEXT} printable characters"))
    expires = _read_expiry(document, now, faults.append)
    if faults:
        raise InvalidToken(faults)
    return TokenRequest(
        subject=document["subject"],
        groups=tuple(dict.fromkeys(groups)),
        scopes=None if scopes is None else tuple(dict.fromkeys(scopes)),
        expires=expires,
        note=document.get("note", ""),
    )


def create(writer: TokenWriter, request: TokenRequest, now: datetime) -> tuple[StoredToken, str]:
    """Create and store a token. Return it with its text, which is stored nowhere. Raises ``TooManyTokens``."""
    if writer.count() >= MAX_TOKENS:
        raise TooManyTokens
    name, random = _generate_text(_ID, _ID_LENGTH), _generate_text(_SECRET, _RANDOM_LENGTH)
    secret = random + _compute_checksum(name, random)
    stored = StoredToken(
        id=name,
        hash=_hash(secret),
        subject=request.subject,
        groups=request.groups,
        scopes=request.scopes,
        note=request.note,
        created=now,
        expires=request.expires,
    )
    writer.add(stored)
    return stored, f"{PREFIX}_{name}_{secret}"


def is_id(text: str) -> bool:
    """Return True if ``text`` has the form of a token's id."""
    return len(text) == _ID_LENGTH and all(character in _ID for character in text)


def split(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a token, or None if ``text`` cannot be a token."""
    match = TOKEN.fullmatch(text)
    if match is None:
        return None
    name, secret = match.groups()
    # The checksum is not secret, so the comparison need not take constant time.
    return (name, secret) if secret[_RANDOM_LENGTH:] == _compute_checksum(name, secret[:_RANDOM_LENGTH]) else None


def is_secret_of(stored: StoredToken | None, secret: str) -> bool:
    """Return True if ``secret`` is the secret of the token. It takes the same time if ``stored`` is None."""
    stored_hash = _NOBODY if stored is None else stored.hash
    return hmac.compare_digest(stored_hash, _hash(secret)) and stored is not None


def identity(stored: StoredToken) -> Identity:
    return Identity(
        subject=stored.subject,
        groups=frozenset(stored.groups),
        token=stored.id,
        scopes=None if stored.scopes is None else frozenset(stored.scopes),
    )


def describe(stored: StoredToken) -> JSONObject:
    """Return a token as JSON, without its secret."""
    return {
        "id": stored.id,
        "subject": stored.subject,
        "groups": list(stored.groups),
        "scopes": None if stored.scopes is None else list(stored.scopes),
        "note": stored.note,
        "created": format_timestamp(stored.created),
        "expires": None if stored.expires is None else format_timestamp(stored.expires),
        "used": None if stored.used is None else format_timestamp(stored.used),
        "expired": stored.expires is not None and stored.expires <= values.now(),
    }


def summarize(stored: StoredToken) -> str:
    """Return a token's subject and rights as a phrase for the audit log."""
    groups = f", groups {', '.join(stored.groups)}" if stored.groups else ""
    scopes = "" if stored.scopes is None else f", only {', '.join(stored.scopes)}"
    ends = "never expires" if stored.expires is None else f"expires {format_timestamp(stored.expires)}"
    return f"for {stored.subject}{groups}{scopes}, {ends}"


def _read_expiry(document: JSONObject, now: datetime, fault: Callable[[Finding], None]) -> datetime | None:
    if "expires" not in document:
        return now + timedelta(days=DEFAULT_DAYS)
    expires = document["expires"]
    if expires is None:
        return None
    try:
        stamp = parse_timestamp(expires if isinstance(expires, str) else "")
    except ValueError:
        fault(_build_finding("/expires", "value", "it is an RFC3339 timestamp such as 2030-12-19T06:00:00Z, or null"))
        return None
    if stamp <= now:
        fault(_build_finding("/expires", "value", "it is in the past"))
    return stamp


def _is_text(value: JSON) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable() and value == value.strip()


def _are_texts(value: JSON) -> bool:
    return isinstance(value, list) and len(value) <= MAX_GROUPS and all(_is_text(member) for member in value)


def _as_in_rules(path: str, name: str) -> list[Finding]:
    """Return a finding if ``name`` has a prefix such as ``subject:``: rules would not match a token with this name."""
    if not name.startswith(_PRINCIPAL_PREFIXES):
        return []
    bare = name.partition(":")[2]
    return [_build_finding(path, "value", f"it is the name alone, {bare!r}: rules say {name!r} of who is called so")]


def _build_finding(path: str, rule: str, message: str) -> Finding:
    return Finding(path=path, rule=rule, message=message)


def _generate_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _compute_checksum(id: str, random: str) -> str:
    """Return the CRC-32 of the token without its checksum, in six characters of the secret's alphabet."""
    number, checksum = zlib.crc32(f"{PREFIX}_{id}_{random}".encode("ascii")), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_SECRET))
        checksum = _SECRET[digit] + checksum
    return checksum


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
