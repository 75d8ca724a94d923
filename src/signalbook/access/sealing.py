"""Texts that only who has the key can read, and nobody else can make or change: AES-256-GCM (NIST SP 800-38D)."""

from __future__ import annotations

import base64
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12


def seal(key: bytes, content: bytes, bound: bytes = b"") -> str:
    """``content`` as a text that ``unseal`` reads with the same ``key`` of 32 bytes and the same ``bound``.

    ``bound`` is what it belongs to, which is not in it.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return base64.urlsafe_b64encode(nonce + AESGCM(key).encrypt(nonce, content, bound)).decode("ascii")


def unseal(key: bytes, sealed: str, bound: bytes = b"") -> bytes | None:
    """Undo ``seal``; None for anything else."""
    cipher = AESGCM(key)
    try:
        content = base64.urlsafe_b64decode(sealed.encode("ascii"))
        return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        return None
