"""Subscriptions as they are kept: notes beside the registry, their secrets sealed, their deliveries' states with them.

A write of the registry has nothing to do with them: it costs the same however many there are.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from signalbook.engine.engine import Engine, Session
from signalbook.errors import SignalbookError
from signalbook.events.delivery import store as deliveries
from signalbook.events.delivery.queue import revived
from signalbook.events.delivery.store import State
from signalbook.events.subscriptions.subscription import Credential, Subscription, SubscriptionError, secret_binding
from signalbook.settings import SettingError, Settings
from signalbook.storage.base import KeyValueStore
from signalbook.values import JSON, JSONObject, canonical_json, digest, dump_json, parse_json

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


FOLDER: Final = "subscriptions"
_BOOK: Final = "subscriptions"
"""The note about all of them: its name is in no folder."""
_ID: Final = re.compile(r"[0-9a-f]{28}", re.ASCII)

Complete = Callable[[Subscription | None], Subscription]
"""Makes a subscription of what is known of it, whose secrets are there; it may raise ``SubscriptionError``."""


class Full(SignalbookError):
    """There are as many subscriptions as there may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A subscription as it is shown, without its secrets, and how far its deliveries are."""

    subscription: Subscription
    state: State


class Subscriptions:
    """The subscriptions of one registry. Safe for threads; other processes may write them, too.

    Writes belong to a session, so that they happen as a whole or not at all. ``most`` is how many there may be.
    """

    def __init__(self, engine: Engine, keyring: Keyring, *, most: int) -> None:
        self._engine = engine
        self._keyring = keyring
        self._most = most

    @classmethod
    def of(cls, engine: Engine, settings: Settings) -> Self:
        """Those of the registry that a server with these settings serves."""
        return cls(engine, keyring(settings), most=settings.max_subscriptions)

    def revision(self) -> int:
        """Another number once any of them was created, changed or deleted. One point read."""
        return _revision(KeyValueStore(self._engine.store).get(_BOOK))

    def count(self) -> int:
        """How many there are. One point read."""
        return int((KeyValueStore(self._engine.store).get(_BOOK) or {"count": 0})["count"])

    def all(self) -> dict[str, Subscription]:
        """Every one by id, with the secrets its sink is to be shown, or the ``fault`` that they cannot be read.

        Ask for the ``revision`` first: then a change between the two is seen once more, and never missed.
        """
        notes = KeyValueStore(self._engine.store).folder(FOLDER)
        keys, fault = self._keys()
        return {name: _opened(name, note, keys, fault) for name, note in notes.items()}

    def get(self, id: str) -> Entry | None:
        """One of them, None if there is none."""
        note = KeyValueStore(self._engine.store).get(_name(id)) if is_id(id) else None
        return None if note is None else _entry(id, note, KeyValueStore(self._engine.store).get(deliveries.name(id)))

    def page(self, after: str, limit: int) -> list[Entry]:
        """Up to ``limit`` of them in the order they were created in, behind the one whose id is ``after``."""
        notes = KeyValueStore(self._engine.store).folder(FOLDER, after=after, limit=limit)
        if not notes:
            return []
        states = KeyValueStore(self._engine.store).folder(deliveries.FOLDER, after=after, through=list(notes)[-1])
        return [_entry(name, note, states.get(name)) for name, note in notes.items()]

    def create(self, session: Session, subscription: Subscription) -> Entry:
        """Keep a new one, to be told of what is committed from now on, or behind the position ``config.after``.

        Its id is chosen here. Raises ``Full``, ``SubscriptionError`` if there is no such position, and that or
        ``SettingError`` if its secrets cannot be stored.
        """
        book = session.transaction.settings.get(_BOOK) or {"count": 0}
        if book["count"] >= self._most:
            raise Full(f"there are {self._most} subscriptions, and no more are taken (setting max_subscriptions)")
        revision = _revision(book) + 1
        made = replace(subscription, id=_new_id(revision), revision=revision)
        after = _chosen_start(session, made)
        state = State(position=session.transaction.outbox.position() if after is None else after)
        return self._write(session, made, state, book["count"] + 1)

    def update(self, session: Session, id: str, complete: Complete, require: Callable[[Entry], None]) -> Entry | None:
        """Replace one by what ``complete`` makes of what is known of it; None if there is none.

        ``require`` may raise if what there is is not what was expected. Deliveries that were given up begin again where
        they stopped; a ``config.after`` that is another than before is where they go on.
        """
        note = session.transaction.settings.get(_name(id)) if is_id(id) else None
        if note is None:
            return None
        before = _entry(id, note, session.transaction.settings.get(deliveries.name(id)))
        require(before)
        known = _opened(id, note, *self._keys())
        book = session.transaction.settings.get(_BOOK)
        made = replace(complete(known), id=id, revision=_revision(book) + 1)
        state = revived(before.state)
        if start(made) != start(known) and (after := _chosen_start(session, made)) is not None:
            state = replace(state, position=after)
        return self._write(session, made, state, book["count"])

    def remove(self, session: Session, id: str, require: Callable[[Entry], None]) -> Entry | None:
        """Remove one, and tell what it was; None if there is none. ``require`` as in ``update``."""
        note = session.transaction.settings.get(_name(id)) if is_id(id) else None
        if note is None:
            return None
        entry = _entry(id, note, session.transaction.settings.get(deliveries.name(id)))
        require(entry)
        book = session.transaction.settings.get(_BOOK)
        session.transaction.settings.put(_name(id), None)
        session.transaction.settings.put(deliveries.name(id), None)
        session.transaction.settings.put(_BOOK, {"revision": _revision(book) + 1, "count": book["count"] - 1})
        return entry

    def renew(self, session: Session) -> int:
        """Seal with the newest key what is sealed with others: how many it were. What cannot be read stays."""
        keys, count = self._keyring.keys(), 0
        for name in KeyValueStore(self._engine.store).folder(FOLDER):
            note = session.transaction.settings.get(_name(name))
            if note is not None and "sealed" in note and not keys.is_newest(note["sealed"]):
                subscription = _opened(name, note, keys, "")
                if not subscription.fault:
                    session.transaction.settings.put(_name(name), _note(subscription, keys))
                    count += 1
        return count

    def _write(self, session: Session, subscription: Subscription, state: State, count: int) -> Entry:
        credential = subscription.credential
        keys = self._keyring.sealing() if credential is not None and credential.secrets else None
        note = _note(subscription, keys)
        session.transaction.settings.put(_name(subscription.id), note)
        session.transaction.settings.put(deliveries.name(subscription.id), state.to_json())
        session.transaction.settings.put(_BOOK, {"revision": subscription.revision, "count": count})
        return _entry(subscription.id, note, state.to_json())

    def _keys(self) -> tuple[Keys, str]:
        try:
            return self._keyring.keys(), ""
        except SettingError as error:
            return Keys(()), str(error)


def is_id(text: str) -> bool:
    """Whether this may be the id of a subscription: not every text may be the name of a note."""
    return _ID.fullmatch(text) is not None


def start(subscription: Subscription) -> int | None:
    """The position that ``config.after`` names."""
    after = subscription.config.get("after")
    return None if after is None else int(after)


def _chosen_start(session: Session, subscription: Subscription) -> int | None:
    after = start(subscription)
    if after is None:
        return None
    first, last = session.transaction.outbox.pruned(), session.transaction.outbox.position()
    if not first <= after <= last:
        raise SubscriptionError(
            f"/config/after: the events that are kept are behind the position {first}, up to {last}"
        )
    return after


def _name(id: str) -> str:
    return f"{FOLDER}/{id}"


def _new_id(revision: int) -> str:
    """Later ones come later in the order of ids, so that whoever reads page by page meets each of them once."""
    return f"{revision:012x}{secrets.token_hex(8)}"


def _revision(book: JSON) -> int:
    return int(book["revision"]) if book and "revision" in book else 0


def _note(subscription: Subscription, keys: Keys | None) -> JSONObject:
    """What is stored of it; ``keys`` only if it has secrets."""
    note: JSONObject = {
        name: value
        for name in ("protocol", "sink", "source", "types", "filters", "config", "protocolsettings", "root", "revision")
        if (value := getattr(subscription, name))
    }
    credential = subscription.credential
    if credential is not None:
        note["credential"] = {"credentialtype": credential.credentialtype, "members": dict(credential.members)}
        if keys is not None:
            note["sealed"] = keys.seal(credential.secrets, secret_binding(subscription))
    return note


def _plain(id: str, note: JSONObject) -> Subscription:
    """What is stored, without secrets."""
    told = {name: value for name, value in note.items() if name not in ("credential", "sealed")}
    for name in ("types", "filters"):
        told[name] = tuple(told.get(name, ()))
    credential = Credential(**note["credential"]) if "credential" in note else None
    return Subscription(id=id, credential=credential, **told)


def _opened(id: str, note: JSONObject, keys: Keys, fault: str) -> Subscription:
    """With secrets; ``fault`` says why there are no ``keys``, if that is one."""
    subscription = _plain(id, note)
    credential = subscription.credential
    if credential is None or "sealed" not in note:
        return subscription
    try:
        secret = keys.open(note["sealed"], secret_binding(subscription))
    except UnreadableSecret as error:
        return replace(subscription, fault=fault or str(error))
    return replace(subscription, credential=replace(credential, secrets=secret))


def _entry(id: str, note: JSONObject, state: JSON) -> Entry:
    return Entry(subscription=_plain(id, note), state=State(position=0) if state is None else State.from_json(state))
