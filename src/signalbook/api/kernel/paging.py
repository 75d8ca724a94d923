"""Pages of collections: the parameters ``limit`` and ``cursor`` (pagination/spec.md; C-38).

A cursor holds the state that a page needs from earlier pages: where it begins, its size, and the total that all pages
state. It reveals nothing that its holder could not request anyway, so it has a checksum and no signature. The flags of
the request are in the link next to the cursor, and the cursor is valid only with these flags.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlencode

import msgspec

from signalbook.api.kernel.responses import Header
from signalbook.errors import RegistryError
from signalbook.values import JSON, canonical_json, digest

_LARGEST: Final = 2**64 - 1
_SEAL: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCursor:
    """A page of up to ``limit`` members after the position ``after``, whose form depends on the API."""

    limit: int
    total: int
    after: JSON

    def text(self, scope: Sequence[JSON]) -> str:
        """Return the cursor as text. ``scope`` binds it to a collection and the selection of members."""
        # The seal comes first, so that a decoder can tell damage from another request.
        content = [self.limit, self.total, self.after]
        sealed = canonical_json([_seal(scope, content), *content])
        return base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("=")

    @classmethod
    def read(cls, text: str, scope: Sequence[JSON], after: Any, *, subject: str, advice: str) -> Self:
        """Return the cursor in ``text``; ``after`` is the type of that member. Raises ``bad_request``, with
        ``advice``."""
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            seal, *content = msgspec.json.decode(sealed, type=tuple[str, int, int, after])
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            detail = "the cursor is damaged; begin again with the first page"
            raise RegistryError("bad_request", subject=subject, error_detail=detail) from None
        cursor = cls(limit=content[0], total=content[1], after=content[2])
        if seal != _seal(scope, content) or cursor.limit < 1 or cursor.total < 0:
            detail = f"the cursor is of another request; {advice}"
            raise RegistryError("bad_request", subject=subject, error_detail=detail)
        return cursor


def page_limit(text: str, *, subject: str) -> int:
    """Return the parameter ``limit``. Raises ``bad_request`` unless it is an unsigned 64-bit integer above 0."""
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) <= _LARGEST:
        return int(text)
    detail = f'"limit" needs an unsigned 64-bit integer beyond 0, not "{text[:40]}"'
    raise RegistryError("bad_request", subject=subject, error_detail=detail)


def build_next_link(url: str, *repeated: tuple[str, str], **query: object) -> Header:
    """Return the ``Link`` header for the next page of the list at ``url``, with these query parameters."""
    return "Link", f"<{url}?{urlencode([*repeated, *query.items()])}>;rel=next"


def limit_and_cursor(subject: str) -> RegistryError:
    """Return the error for a request with both ``limit`` and ``cursor``."""
    detail = "a link to a page has its limit in it; use it as it is, without adding a limit"
    return RegistryError("bad_request", subject=subject, error_detail=detail)


def _seal(scope: Sequence[JSON], content: Sequence[JSON]) -> str:
    return digest(canonical_json([*scope, content]))[:_SEAL]
