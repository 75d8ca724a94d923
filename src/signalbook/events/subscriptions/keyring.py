"""The keys that secrets of subscriptions are stored under (docs/decisions/102-secrets.md).

They are in a file, never in the database: who has a copy of that alone reads no secret.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from signalbook.events.subscriptions.subscription import SubscriptionError
from signalbook.settings import SettingError, Settings
from signalbook.values import JSON, canonical_json, digest, dump_json, parse_json

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_NAME: Final = 16
_SQLITE_FILE: Final = "sqlite:///"


class UnreadableSecret(SubscriptionError):
    """A secret whose key is not among those there are, or that is not as it was stored."""


class Keys:
    """Some keys of 32 bytes, the newest first: it seals, all of them open. An instance never shows them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {digest(key)[:_NAME]: AESGCM(key) for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seal(self, secret: Mapping[str, str], bound: JSON) -> str:
        """``secret`` as a text that ``open`` reads with the same ``bound``: what it belongs to, which is not in it."""
        name, key = next(iter(self._keys.items()))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = key.encrypt(nonce, dump_json(dict(secret)), canonical_json(bound))
        return f"{name}.{base64.urlsafe_b64encode(nonce + sealed).decode('ascii')}"

    def open(self, sealed: str, bound: JSON) -> dict[str, str]:
        """Undo ``seal``. Raises ``UnreadableSecret``."""
        name, _, text = sealed.partition(".")
        if name not in self._keys:
            raise UnreadableSecret(
                f"/sinkcredential: its key {name} is not in the key file (setting key_file): put it back, or update"
                " the subscription with its secrets"
            )
        try:
            content = base64.urlsafe_b64decode(text)
            opened = self._keys[name].decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], canonical_json(bound))
        except (InvalidTag, binascii.Error):
            raise UnreadableSecret(
                "/sinkcredential: what is stored was changed by someone else: update the subscription with its secrets"
            ) from None
        found: dict[str, str] = parse_json(opened)
        return found

    def is_newest(self, sealed: str) -> bool:
        """Whether it was sealed with the key that seals now."""
        return sealed.partition(".")[0] == next(iter(self._keys), None)


class Keyring:
    """Where keys come from: the file at ``path``, or memory if that is None. Safe for threads and processes.

    The file is read anew each time, since another server process may have made it; ``makes`` says whether this one may,
    and so whether it may be missing.
    """

    def __init__(self, path: Path | None, *, makes: bool = True) -> None:
        self._path = path
        self._makes = makes
        self._memory = Keys([secrets.token_bytes(_KEY_BYTES)] if path is None and makes else [])

    def keys(self) -> Keys:
        """Those there are; none if there is no file yet. Raises ``SettingError`` if it is no key file."""
        if self._path is None:
            return self._memory
        try:
            text = self._path.read_text(encoding="ascii")
        except OSError as error:
            if self._makes and isinstance(error, FileNotFoundError):
                return Keys(())
            raise SettingError(f"the key file {self._path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _no_key_file(self._path) from None
        return Keys(_read(text, self._path))

    def sealing(self) -> Keys:
        """At least one key, made first if there was none. Raises ``SettingError``, and ``SubscriptionError`` if this
        server may not make one."""
        found = self.keys()
        if found:
            return found
        if self._path is None or not self._makes:
            raise SubscriptionError(
                "/sinkcredential: this server has no key to store secrets under: its operator has to name one, the same"
                " for every server of this database (setting key_file)"
            )
        try:
            _make(self._path)
        except OSError as error:
            raise SettingError(f"the key file {self._path} cannot be made: {error.strerror}") from None
        return self.keys()


def keyring(settings: Settings) -> Keyring:
    """The keyring of a server: the setting ``key_file``, or else a file beside its SQLite database.

    Several servers on machines of their own may share a database server: no file that one of them makes will do there.
    """
    if settings.key_file:
        return Keyring(Path(settings.key_file), makes=False)
    if settings.db.startswith(_SQLITE_FILE):
        return Keyring(Path(f"{settings.db.removeprefix(_SQLITE_FILE).partition('?')[0]}.key"))
    return Keyring(None, makes=settings.db.startswith("sqlite"))


def _read(text: str, path: Path) -> list[bytes]:
    """One key a line, in Base64; empty lines and those that begin with ``#`` do not count."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines if line and not line.startswith("#")]
    except binascii.Error:
        raise _no_key_file(path) from None
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise _no_key_file(path)
    return keys


def _no_key_file(path: Path) -> SettingError:
    return SettingError(f"the key file {path} has a line that is no key: each is 32 bytes in Base64")


def _make(path: Path) -> None:
    """A file with a new key, for its owner alone. It comes into being as a whole: another process may read it at once,
    and if one was faster its key stays."""
    private = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    file = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(private, path)
        except FileExistsError:
            return
    finally:
        private.unlink()
