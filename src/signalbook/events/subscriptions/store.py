"""Store subscriptions next to the registry, with secrets encrypted under keys that are not in the database.

Writes of the registry do not touch subscriptions, so they cost the same however many subscriptions there are.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Self

from signalbook.access.base import Action, Identity
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.sealing import seal, unseal
from signalbook.engine.engine import Engine, Session
from signalbook.errors import SignalbookError
from signalbook.events.backoff import resumed
from signalbook.events.subscription import (
    CREDENTIAL_PATH,
    Credential,
    Subscription,
    SubscriptionError,
    secret_binding,
)
from signalbook.events.subscriptions.masking import extract_secrets, mask, mask_sink, reveal
from signalbook.settings import SettingError, Settings
from signalbook.storage.subscriptions import DeliveryState, StoredSubscription, SubscriptionReader, SubscriptionWriter
from signalbook.values import JSON, JSONObject, canonical_json, digest, dump_json, parse_json
from signalbook.xid import ROOT

_KEY_BYTES: Final = 32
_KEY_NAME_CHARS: Final = 16
_EXAMPLE_KEYS: Final = frozenset({b"change-me-change-me-change-me-12"})
"""Keys that were published in an example of a Kubernetes Secret, and must not be used."""
_SQLITE_FILE: Final = "sqlite:///"


class UnreadableSecret(SubscriptionError):
    """The error for a stored secret whose key is missing, or that was changed in the store."""


class Keys:
    """Keys of 32 bytes. The first, the newest, seals; all of them open. An instance never shows them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {digest(key)[:_KEY_NAME_CHARS]: key for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seal(self, secret: Mapping[str, str], bound: JSON) -> str:
        """Encrypt ``secret``. The result can be opened only with the same ``bound``, which is not part of it."""
        name, key = next(iter(self._keys.items()))
        return f"{name}.{seal(key, dump_json(dict(secret)), canonical_json(bound))}"

    def open(self, sealed: str, bound: JSON) -> dict[str, str]:
        """Undo ``seal``. Raises ``UnreadableSecret``."""
        name, _, text = sealed.partition(".")
        if name not in self._keys:
            raise UnreadableSecret(
                f"/sinkcredential: its key {name} is not in the key file (setting key_file): put it back, or update"
                " the subscription with its secrets"
            )
        opened = unseal(self._keys[name], text, canonical_json(bound))
        if opened is None:
            raise UnreadableSecret(
                "/sinkcredential: what is stored was changed by someone else: update the subscription with its secrets"
            )
        secret: dict[str, str] = parse_json(opened)
        return secret

    def is_newest(self, sealed: str) -> bool:
        """Return True if ``sealed`` was sealed with the current key."""
        return sealed.partition(".")[0] == next(iter(self._keys), None)


class Keyring:
    """The source of keys: the file at ``path``, or memory if ``path`` is None. Safe for threads and processes.

    The file is read each time, because another server process may have made it. ``makes`` is True if this process may
    make keys; then the file may be missing.
    """

    def __init__(self, path: Path | None, *, makes: bool = True) -> None:
        self._path = path
        self._makes = makes
        self._memory = Keys([secrets.token_bytes(_KEY_BYTES)] if path is None and makes else [])

    def keys(self) -> Keys:
        """Return all keys: none if the file does not exist yet.

        Raises ``SettingError`` if it is unreadable or invalid.
        """
        if self._path is None:
            return self._memory
        try:
            text = self._path.read_text(encoding="ascii")
        except OSError as error:
            if self._makes and isinstance(error, FileNotFoundError):
                return Keys(())
            raise SettingError(f"the key file {self._path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _make_key_file_error(self._path) from None
        return Keys(_parse_keys(text, self._path))

    def sealing(self, where: str = CREDENTIAL_PATH) -> Keys:
        """Return at least one key. If there is none, make a key first.

        Raises ``SettingError``, and ``SubscriptionError`` about the secrets at ``where`` if this server may not make a
        key.
        """
        keys = self.keys()
        if keys:
            return keys
        if self._path is None or not self._makes:
            raise SubscriptionError(
                f"{where}: this server has no key to store secrets under: its operator has to name one, the same"
                " for every server of this database (setting key_file)"
            )
        try:
            _make_key_file(self._path)
        except OSError as error:
            raise SettingError(f"the key file {self._path} cannot be made: {error.strerror}") from None
        return self.keys()


def keyring(settings: Settings) -> Keyring:
    """Return the keyring of a server: the setting ``key_file``, or else a file next to its SQLite database.

    Servers that share another database need the setting, because a file that one machine makes is missing on the
    others.
    """
    if settings.key_file:
        return Keyring(Path(settings.key_file), makes=False)
    if settings.db.startswith(_SQLITE_FILE):
        return Keyring(Path(f"{settings.db.removeprefix(_SQLITE_FILE).partition('?')[0]}.key"))
    return Keyring(None, makes=settings.db.startswith("sqlite"))


def _parse_keys(text: str, path: Path) -> list[bytes]:
    """Parse one Base64 key a line. Empty lines and lines that begin with ``#`` do not count."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines if line and not line.startswith("#")]
    except binascii.Error:
        raise _make_key_file_error(path) from None
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise _make_key_file_error(path)
    if not _EXAMPLE_KEYS.isdisjoint(keys):
        raise SettingError(
            f"the key file {path} has a key that was published as an example, so that everybody knows it: make another"
            " one by head -c 32 /dev/urandom | base64"
        )
    return keys


def _make_key_file_error(path: Path) -> SettingError:
    return SettingError(f"the key file {path} has a line that is no key: each is 32 bytes in Base64")


def _make_key_file(path: Path) -> None:
    """Make a file with a new key that only its owner can read. If another process was faster, keep its key.

    The file appears as a whole, because another process may read it at once.
    """
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


_ID: Final = re.compile(r"[0-9a-f]{28}", re.ASCII)

Complete = Callable[[Subscription | None], Subscription]
"""Returns the new subscription for the current one with its secrets, or for None. May raise ``SubscriptionError``."""


class TooManySubscriptions(SignalbookError):
    """The error for creating more subscriptions than the setting ``max_subscriptions`` allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSubscription:
    """A subscription without its secrets, and the state of its deliveries."""

    subscription: Subscription
    state: DeliveryState


class SubscriptionStore:
    """The subscriptions of one registry. Safe for threads; other processes may write them too.

    Writes belong to a session, so that they are applied completely or not at all. ``most`` is the maximum number of
    subscriptions. A caller that may not administer the registry sees and changes only its own subscriptions: with
    ``by``, the access of the caller, others count as absent.
    """

    def __init__(self, engine: Engine, keyring: Keyring, *, most: int) -> None:
        self._engine = engine
        self._keyring = keyring
        self._most = most

    @classmethod
    def of(cls, engine: Engine, settings: Settings) -> Self:
        """Return the subscriptions of the registry that a server with these settings serves."""
        return cls(engine, keyring(settings), most=settings.max_subscriptions)

    def revision(self) -> int:
        """Return a number that grows whenever a subscription is created, changed or deleted. One point read."""
        with self._open_reader() as stored:
            return stored.revision()

    def count(self) -> int:
        """Return the number of subscriptions. One point read."""
        with self._open_reader() as stored:
            return stored.count()

    def all(self) -> dict[str, Subscription]:
        """Return all subscriptions by id with their secrets, or with a ``fault`` if the secrets cannot be read.

        Read the ``revision`` first: then a change between the two calls is seen twice, but never missed.
        """
        with self._open_reader() as stored:
            rows = stored.page()
        keys, fault = self._load_keys()
        return {row.id: _with_secrets(row, keys, fault) for row in rows}

    def get(self, id: str, *, by: Access = UNRESTRICTED) -> ShownSubscription | None:
        """Return the subscription ``id``, or None if there is none that ``by`` may see."""
        with self._open_reader() as stored:
            return _find_shown(stored, id, by)

    def page(self, after: str, limit: int, *, by: Access = UNRESTRICTED) -> list[ShownSubscription]:
        """Return up to ``limit`` subscriptions in the order of their creation, after the one with the id ``after``."""
        with self._open_reader() as stored:
            rows = list(islice(_iterate_visible(stored, after, limit, by), limit))
            states = stored.deliveries(after, rows[-1].id) if rows else {}
        none = DeliveryState(position=0)
        return [ShownSubscription(subscription=_strip_secrets(row), state=states.get(row.id, none)) for row in rows]

    def create(self, session: Session, subscription: Subscription, *, by: Access = UNRESTRICTED) -> ShownSubscription:
        """Store a new subscription under a new id.

        It gets changes after the position ``config.after`` or, without it, changes committed from now on. Raises
        ``TooManySubscriptions``, ``SubscriptionError`` if the position does not exist, and ``SubscriptionError`` or
        ``SettingError`` if secrets cannot be stored.
        """
        stored = session.transaction.subscriptions
        count = stored.count()
        if count >= self._most:
            raise TooManySubscriptions(
                f"there are {self._most} subscriptions, and no more are taken (setting max_subscriptions)"
            )
        revision = stored.revision() + 1
        created = replace(subscription, id=_new_id(revision), revision=revision, owner=_choose_owner(None, by))
        after = _choose_start(session, created)
        state = DeliveryState(position=session.transaction.outbox.position() if after is None else after)
        _record_action(session, created.id)
        return self._write(stored, created, state, count + 1)

    def update(
        self,
        session: Session,
        id: str,
        complete: Complete,
        require: Callable[[ShownSubscription], None],
        *,
        by: Access = UNRESTRICTED,
    ) -> ShownSubscription | None:
        """Replace the subscription ``id`` by the result of ``complete`` for it. Return None if there is none.

        ``require`` may raise an error if the current subscription is not as expected. Deliveries that were given up
        begin again where they stopped. If ``config.after`` changes, deliveries continue at that position. The owner
        stays the same whoever updates the subscription, because its sink gets only changes that the owner may read.
        """
        stored = session.transaction.subscriptions
        before = _find(stored, id, by)
        if before is None:
            return None
        state = stored.delivery(id) or DeliveryState(position=0)
        require(ShownSubscription(subscription=_strip_secrets(before), state=state))
        current = _with_secrets(before, *self._load_keys())
        updated = replace(
            complete(current), id=id, revision=stored.revision() + 1, owner=_choose_owner(current.owner, by)
        )
        state = resumed(state)
        if start(updated) != start(current) and (after := _choose_start(session, updated)) is not None:
            state = replace(state, position=after)
        _record_action(session, id)
        return self._write(stored, updated, state, stored.count())

    def remove(
        self,
        session: Session,
        id: str,
        require: Callable[[ShownSubscription], None],
        *,
        by: Access = UNRESTRICTED,
    ) -> ShownSubscription | None:
        """Remove the subscription ``id``, and return it as it was.

        Return None if there is none. ``require`` as in ``update``.
        """
        stored = session.transaction.subscriptions
        removed = _find_shown(stored, id, by)
        if removed is None:
            return None
        require(removed)
        _record_action(session, id)
        stored.remove(id)
        stored.put_totals(revision=stored.revision() + 1, count=stored.count() - 1)
        return removed

    def renew(self, session: Session) -> int:
        """Seal with the newest key all secrets that are not sealed with it yet. Return the number of subscriptions.

        Secrets that cannot be read stay unchanged. So do unsealed secrets if this server has no key and cannot make
        one.
        """
        stored, keys, count = session.transaction.subscriptions, self._keyring.keys(), 0
        for row in stored.page():
            outdated = row.sealed is not None and not keys.is_newest(row.sealed)
            if outdated or _is_in_clear(row):
                keys = keys or self._new_keys()
                subscription = _with_secrets(row, keys, "")
                if keys and not subscription.fault:
                    stored.put(_build_row(subscription, keys))
                    consent = stored.consent(row.id)
                    if consent is not None:
                        stored.put_consent(row.id, replace(consent, sink=mask_sink(consent.sink)))
                    count += 1
        return count

    def _new_keys(self) -> Keys:
        try:
            return self._keyring.sealing()
        except SubscriptionError:
            return Keys(())

    @contextmanager
    def _open_reader(self) -> Iterator[SubscriptionReader]:
        with self._engine.store.read() as transaction:
            yield transaction.subscriptions

    def _write(
        self, stored: SubscriptionWriter, subscription: Subscription, state: DeliveryState, count: int
    ) -> ShownSubscription:
        credential = subscription.credential
        keys = None
        if credential is not None and credential.secrets:
            keys = self._keyring.sealing()
        elif concealed := extract_secrets(subscription):
            keys = self._keyring.sealing(f"/{next(iter(concealed)).replace('.', '/')}")
        row = _build_row(subscription, keys)
        stored.put(row)
        stored.put_delivery(row.id, state)
        stored.put_totals(revision=subscription.revision, count=count)
        return ShownSubscription(subscription=_strip_secrets(row), state=state)

    def _load_keys(self) -> tuple[Keys, str]:
        try:
            return self._keyring.keys(), ""
        except SettingError as error:
            return Keys(()), str(error)


def is_id(text: str) -> bool:
    """Return True if ``text`` has the form of a subscription's id."""
    return _ID.fullmatch(text) is not None


def start(subscription: Subscription) -> int | None:
    """Return the position in ``config.after``, or None."""
    after = subscription.config.get("after")
    return None if after is None else int(after)


def _record_action(session: Session, id: str) -> None:
    session.record(Action.SUBSCRIBE, f"/subscriptions/{id}")


def _choose_start(session: Session, subscription: Subscription) -> int | None:
    after = start(subscription)
    if after is None:
        return None
    outbox = session.transaction.outbox
    first, last = outbox.pruned(), outbox.position()
    if not first <= after <= last:
        raise SubscriptionError(
            f"/config/after: the events that are kept are behind the position {first}, up to {last}"
        )
    return after


def _new_id(revision: int) -> str:
    """Return a new id.

    Ids sort in the order of creation, so that a client that reads pages sees each subscription once.
    """
    return f"{revision:012x}{secrets.token_hex(8)}"


_SAME: Final = (
    "id",
    "revision",
    "protocol",
    "sink",
    "source",
    "root",
    "types",
    "filters",
    "config",
    "protocolsettings",
)


def _build_row(subscription: Subscription, keys: Keys | None) -> StoredSubscription:
    """Return the stored form of a subscription. ``keys`` are used only for secrets."""
    clear, credential = mask(subscription), subscription.credential
    same = {name: getattr(clear, name) for name in _SAME}
    same["owner"] = None if subscription.owner is None else _build_owner_document(subscription.owner)
    credential_document, secret = None, extract_secrets(subscription)
    if credential is not None:
        credential_document = {"credentialtype": credential.credentialtype, "members": dict(credential.members)}
        secret |= credential.secrets
    sealed = keys.seal(secret, secret_binding(clear)) if keys is not None and secret else None
    return StoredSubscription(**same, credential=credential_document, sealed=sealed)


def _is_in_clear(stored: StoredSubscription) -> bool:
    """Return True if the stored subscription has unsealed secrets, from before they were sealed."""
    subscription = _as_stored(stored)
    return mask(subscription) != subscription


def _strip_secrets(stored: StoredSubscription) -> Subscription:
    return mask(_as_stored(stored))


def _as_stored(stored: StoredSubscription) -> Subscription:
    credential = None if stored.credential is None else Credential(**stored.credential)
    owner = None if stored.owner is None else _read_owner(stored.owner)
    return Subscription(credential=credential, owner=owner, **{name: getattr(stored, name) for name in _SAME})


def _with_secrets(stored: StoredSubscription, keys: Keys, fault: str) -> Subscription:
    """Return a stored subscription with its secrets.

    If they cannot be read, the result has a ``fault`` instead: the given one, which is the reason why there are no
    ``keys``, or else the error.
    """
    subscription = _as_stored(stored)
    if stored.sealed is None:
        return subscription
    try:
        secret = keys.open(stored.sealed, secret_binding(subscription))
    except UnreadableSecret as error:
        return replace(subscription, fault=fault or str(error))
    subscription, secret = reveal(subscription, secret)
    credential = subscription.credential
    return subscription if credential is None else replace(subscription, credential=replace(credential, secrets=secret))


def _build_owner_document(owner: Identity) -> JSONObject:
    return {
        "subject": owner.subject,
        "groups": sorted(owner.groups),
        "issuer": owner.issuer,
        "token": owner.token,
        "scopes": None if owner.scopes is None else sorted(owner.scopes),
    }


def _read_owner(document: JSONObject) -> Identity:
    scopes = document["scopes"]
    return Identity(
        subject=document["subject"],
        groups=frozenset(document["groups"]),
        issuer=document["issuer"],
        token=document["token"],
        scopes=None if scopes is None else frozenset(scopes),
    )


def _choose_owner(owner: Identity | None, by: Access) -> Identity | None:
    """Return the owner after a write: the current identity of the owner, else the first known writer."""
    if by.unrestricted or (owner is not None and owner.subject != by.identity.subject):
        return owner
    return by.identity


def _can_see(stored: StoredSubscription, by: Access) -> bool:
    if by.may(Action.ADMINISTER, ROOT):
        return True
    return stored.owner is not None and stored.owner["subject"] == by.identity.subject


def _iterate_visible(stored: SubscriptionReader, after: str, size: int, by: Access) -> Iterator[StoredSubscription]:
    """Yield the visible subscriptions after ``after``, reading ``size`` at a time."""
    while rows := stored.page(after, size):
        yield from (row for row in rows if _can_see(row, by))
        after = rows[-1].id


def _find(stored: SubscriptionReader, id: str, by: Access) -> StoredSubscription | None:
    row = stored.get(id) if is_id(id) else None
    return row if row is not None and _can_see(row, by) else None


def _find_shown(stored: SubscriptionReader, id: str, by: Access) -> ShownSubscription | None:
    row = _find(stored, id, by)
    if row is None:
        return None
    state = stored.delivery(id) or DeliveryState(position=0)
    return ShownSubscription(subscription=_strip_secrets(row), state=state)
