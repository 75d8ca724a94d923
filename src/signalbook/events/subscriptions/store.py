"""Subscriptions as they are kept: notes beside the registry, their secrets sealed, their deliveries' states with them.

A write of the registry has nothing to do with them: it costs the same however many there are.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from signalbook.engine.engine import Engine, Session
from signalbook.errors import SignalbookError
from signalbook.events.delivery import state as deliveries
from signalbook.events.delivery.progress import revived
from signalbook.events.delivery.state import State
from signalbook.events.subscriptions import credentials
from signalbook.events.subscriptions.keyring import Keyring, Keys, UnreadableSecret, keyring
from signalbook.events.subscriptions.subscription import Credential, Subscription, SubscriptionError
from signalbook.settings import SettingError, Settings
from signalbook.values import JSON, JSONObject

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
        return _revision(self._engine.kept(_BOOK))

    def count(self) -> int:
        """How many there are. One point read."""
        return int((self._engine.kept(_BOOK) or {"count": 0})["count"])

    def all(self) -> dict[str, Subscription]:
        """Every one by id, with the secrets its sink is to be shown, or the ``fault`` that they cannot be read.

        Ask for the ``revision`` first: then a change between the two is seen once more, and never missed.
        """
        notes = self._engine.kept_in(FOLDER)
        keys, fault = self._keys()
        return {name: _opened(name, note, keys, fault) for name, note in notes.items()}

    def get(self, id: str) -> Entry | None:
        """One of them, None if there is none."""
        note = self._engine.kept(_name(id)) if is_id(id) else None
        return None if note is None else _entry(id, note, self._engine.kept(deliveries.name(id)))

    def page(self, after: str, limit: int) -> list[Entry]:
        """Up to ``limit`` of them in the order they were created in, behind the one whose id is ``after``."""
        notes = self._engine.kept_in(FOLDER, after=after, limit=limit)
        if not notes:
            return []
        states = self._engine.kept_in(deliveries.FOLDER, after=after, through=list(notes)[-1])
        return [_entry(name, note, states.get(name)) for name, note in notes.items()]

    def create(self, session: Session, subscription: Subscription) -> Entry:
        """Keep a new one, to be told of what is committed from now on, or behind the position ``config.after``.

        Its id is chosen here. Raises ``Full``, ``SubscriptionError`` if there is no such position, and that or
        ``SettingError`` if its secrets cannot be stored.
        """
        book = session.kept(_BOOK) or {"count": 0}
        if book["count"] >= self._most:
            raise Full(f"there are {self._most} subscriptions, and no more are taken (setting max_subscriptions)")
        revision = _revision(book) + 1
        made = replace(subscription, id=_new_id(revision), revision=revision)
        after = _chosen_start(session, made)
        state = State(position=session.position() if after is None else after)
        return self._write(session, made, state, book["count"] + 1)

    def update(self, session: Session, id: str, complete: Complete, require: Callable[[Entry], None]) -> Entry | None:
        """Replace one by what ``complete`` makes of what is known of it; None if there is none.

        ``require`` may raise if what there is is not what was expected. Deliveries that were given up begin again where
        they stopped; a ``config.after`` that is another than before is where they go on.
        """
        note = session.kept(_name(id)) if is_id(id) else None
        if note is None:
            return None
        before = _entry(id, note, session.kept(deliveries.name(id)))
        require(before)
        known = _opened(id, note, *self._keys())
        book = session.kept(_BOOK)
        made = replace(complete(known), id=id, revision=_revision(book) + 1)
        state = revived(before.state)
        if start(made) != start(known) and (after := _chosen_start(session, made)) is not None:
            state = replace(state, position=after)
        return self._write(session, made, state, book["count"])

    def remove(self, session: Session, id: str, require: Callable[[Entry], None]) -> Entry | None:
        """Remove one, and tell what it was; None if there is none. ``require`` as in ``update``."""
        note = session.kept(_name(id)) if is_id(id) else None
        if note is None:
            return None
        entry = _entry(id, note, session.kept(deliveries.name(id)))
        require(entry)
        book = session.kept(_BOOK)
        session.keep(_name(id), None)
        session.keep(deliveries.name(id), None)
        session.keep(_BOOK, {"revision": _revision(book) + 1, "count": book["count"] - 1})
        return entry

    def renew(self, session: Session) -> int:
        """Seal with the newest key what is sealed with others: how many it were. What cannot be read stays."""
        keys, count = self._keyring.keys(), 0
        for name in self._engine.kept_in(FOLDER):
            note = session.kept(_name(name))
            if note is not None and "sealed" in note and not keys.is_newest(note["sealed"]):
                subscription = _opened(name, note, keys, "")
                if not subscription.fault:
                    session.keep(_name(name), _note(subscription, keys))
                    count += 1
        return count

    def _write(self, session: Session, subscription: Subscription, state: State, count: int) -> Entry:
        credential = subscription.credential
        keys = self._keyring.sealing() if credential is not None and credential.secrets else None
        note = _note(subscription, keys)
        session.keep(_name(subscription.id), note)
        session.keep(deliveries.name(subscription.id), state.to_json())
        session.keep(_BOOK, {"revision": subscription.revision, "count": count})
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
    first, last = session.forgotten(), session.position()
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
            note["sealed"] = keys.seal(credential.secrets, credentials.bound(subscription))
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
        secret = keys.open(note["sealed"], credentials.bound(subscription))
    except UnreadableSecret as error:
        return replace(subscription, fault=fault or str(error))
    return replace(subscription, credential=replace(credential, secrets=secret))


def _entry(id: str, note: JSONObject, state: JSON) -> Entry:
    return Entry(subscription=_plain(id, note), state=State(position=0) if state is None else State.from_json(state))
