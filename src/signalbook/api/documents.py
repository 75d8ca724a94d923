"""Documents that clients have stored, as answers: whatever is in them, they are no part of this site."""

from __future__ import annotations

import re
from typing import Final

from signalbook.api.answers import Header

OCTETS: Final = "application/octet-stream"
# A browser shall neither guess at them nor run them as part of this site (R317).
UNTRUSTED: Final[tuple[Header, ...]] = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
)
_MEDIA_TYPE: Final = re.compile(r"[\x20-\x7e]+", re.ASCII)


def media_type(contenttype: str | None) -> str | None:
    """A stored content type as a header: what cannot be one is shown as no more than bytes. None stays None."""
    return contenttype if contenttype is None or _MEDIA_TYPE.fullmatch(contenttype) else OCTETS
