"""Encrypt texts so that only holders of the key can read or make them: AES-256-GCM (NIST SP 800-38D)."""

from __future__ import annotations

import base64
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12


def seal(key: bytes, content: bytes, bound: bytes = b"") -> str:
    """Encrypt ``content`` to a text that ``unseal`` decrypts with the same ``key`` of 32 bytes and the same ``bound``.

    ``bound`` identifies the context of the text. It is authenticated, but not part of the text.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return base64.urlsafe_b64encode(nonce + AESGCM(key).encrypt(nonce, content, bound)).decode("ascii")


def unseal(key: bytes, sealed: str, bound: bytes = b"") -> bytes | None:
    """Return the content of a text that ``seal`` made with ``key`` and ``bound``, or None for any other text."""
    cipher = AESGCM(key)
    try:
        content = base64.urlsafe_b64decode(sealed.encode("ascii"))
        return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        return None
