"""Signatures on deliveries, so that a sink knows who sent them (Standard Webhooks 1.0, symmetric)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def key(secret: str) -> bytes:
    """The key in ``secret``: ``whsec_`` and 24 to 64 bytes in Base64. Raises ``ValueError``."""
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except binascii.Error:
        found = b""
    if not _SHORTEST <= len(found) <= _LONGEST:
        raise ValueError(f"a secret for signatures is {PREFIX} and {_SHORTEST} to {_LONGEST} bytes in Base64")
    return found


def headers(key: bytes, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of a signed delivery; ``timestamp`` is in seconds since 1970."""
    signed = b"%s.%d.%s" % (id.encode("utf-8"), timestamp, body)
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
    return {"webhook-id": id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
