"""Build the deliveries of one server from its settings."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from signalbook.access.control import AccessControl
from signalbook.engine.engine import Engine, Session
from signalbook.events.backoff import Backoff
from signalbook.events.delivery.dispatcher import Dispatcher
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.feed import Head
from signalbook.events.sinks import base
from signalbook.events.sinks.base import Consent, DeliveryError, Sink, SinkPolicy
from signalbook.events.sinks.http import allowed_rate
from signalbook.events.subscription import HTTP, Subscription, SubscriptionError
from signalbook.events.subscriptions.masking import mask_sink
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.fetching import AllowList
from signalbook.settings import SettingError, Settings
from signalbook.storage.store import KeyValueStore
from signalbook.storage.subscriptions import StoredConsent
from signalbook.values import JSONObject

_CONSENT_SECRET: Final = "delivery/consents"  # noqa: S105 - the name of a value
_KEY_BYTES: Final = 32


class SinkOpener:
    """Opens sinks under the rules of ``policy``.

    ``callback`` is the URL at which a sink can give its consent, with ``{id}`` for the subscription. If it is empty,
    sinks are not asked for consent through a callback.
    """

    def __init__(self, engine: Engine, policy: SinkPolicy, callback: str = "") -> None:
        self._engine = engine
        self._policy = policy
        self._callback = callback

    def open(self, subscription: Subscription) -> Sink:
        """Return the sink of the subscription. Raises ``DeliveryError``."""
        if subscription.fault:
            raise DeliveryError(subscription.fault)
        try:
            kind = base.find_sink(subscription.protocol)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        policy = self._policy
        if subscription.protocol == HTTP and policy.ask and self._callback:
            key = _make_consent_key(self._load_secret(), subscription)
            url = f"{self._callback.format(id=subscription.id)}?key={key}"
            policy = replace(policy, callback=url, consent=self._find_consent(subscription))
        return kind.open(subscription, policy)

    def agree(self, session: Session, subscription: Subscription, key: str, consent: Consent) -> bool:
        """Store that the sink agrees to deliveries. Return False if ``key`` is not the key of this subscription."""
        secret = session.transaction.settings.get(_CONSENT_SECRET)
        if secret is None or not hmac.compare_digest(key.encode(), _make_consent_key(secret, subscription).encode()):
            return False
        stored_consent = StoredConsent(sink=mask_sink(subscription.sink), rate=consent.rate)
        session.transaction.subscriptions.put_consent(subscription.id, stored_consent)
        return True

    def _find_consent(self, subscription: Subscription) -> Consent | None:
        with self._engine.store.read() as transaction:
            stored_consent = transaction.subscriptions.consent(subscription.id)
        same = stored_consent is not None and mask_sink(stored_consent.sink) == mask_sink(subscription.sink)
        return Consent(rate=stored_consent.rate) if stored_consent and same else None

    def _load_secret(self) -> str:
        secret: str | None = KeyValueStore(self._engine.store).get(_CONSENT_SECRET)
        if secret is None:
            with self._engine.writing() as session:
                secret = session.transaction.settings.get(_CONSENT_SECRET) or secrets.token_hex(_KEY_BYTES)
                session.transaction.settings.put(_CONSENT_SECRET, secret)
        return secret


def _make_consent_key(secret: str, subscription: Subscription) -> str:
    """Return the key that a sink presents when it agrees.

    It is secret, and valid only for this subscription and sink.
    """
    bound = f"{subscription.id}\n{mask_sink(subscription.sink)}".encode()
    return hmac.new(bytes.fromhex(secret), bound, hashlib.sha256).hexdigest()


CALLBACK: Final = "/subscriptions/{id}/consent"
"""The path below the registry root where a web hook agrees to deliveries, with the key that it was given."""

_DAY_SECONDS: Final = 86_400.0
_SWITCH: Final = ("on", "off")
_CONSENT: Final = ("required", "assumed")


class Deliveries:
    """The deliveries of one server, as APIs and the server use them. Raises ``SettingError`` for invalid settings."""

    def __init__(
        self,
        engine: Engine,
        control: AccessControl,
        subscriptions: SubscriptionStore,
        head: Head,
        settings: Settings,
    ) -> None:
        self._on = _check_choice("deliveries", settings.deliveries, _SWITCH) == "on"
        self.policy = sink_policy(settings)
        base = settings.base_url.rstrip("/")
        self._opener = SinkOpener(engine, self.policy, f"{base}{CALLBACK}" if base else "")
        backoff = Backoff(give_up=settings.delivery_days * _DAY_SECONDS)
        root = base or f"http://{settings.host}:{settings.port}"
        rights = DeliveryRights(engine.store, control)
        opener = self._opener.open
        self._dispatcher = Dispatcher(
            engine, subscriptions, head, root=root, open=opener, backoff=backoff, rights=rights
        )

    def start(self) -> None:
        """Start to deliver, unless the setting ``deliveries`` is off."""
        if self._on:
            self._dispatcher.start()

    def stop(self) -> None:
        """Stop delivering. Current attempts have some seconds to end."""
        if self._on:
            self._dispatcher.stop()

    def changed(self, id: str) -> None:
        """Apply that this server created, changed or deleted a subscription."""
        self._dispatcher.changed(id)

    def agree(self, session: Session, subscription: Subscription, key: str, rate: str) -> bool:
        """Store the consent of a sink that called back, with the ``rate`` in its request (D-34).

        Return False if ``key`` is not the key of this subscription. Raises ``DeliveryError`` if ``rate`` is invalid.
        """
        requested_rate = subscription.protocolsettings.get("rate")
        return self._opener.agree(session, subscription, key, Consent(rate=allowed_rate(rate, requested_rate)))

    def hurry(self, id: str) -> None:
        """Skip the backoff of the subscription ``id``, because its sink probably accepts events now."""
        self._dispatcher.hurry(id)

    def status(self) -> JSONObject:
        """Return whether this server ``delivers``, and the number of subscriptions in each state."""
        return self._dispatcher.status() if self._on else {"delivers": False}


def sink_policy(settings: Settings) -> SinkPolicy:
    """Return the operator's rules for all sinks."""
    return SinkPolicy(
        allow=AllowList(settings.allow_sinks, setting="allow_sinks"),
        origin=urlsplit(settings.base_url).hostname or "localhost",
        timeout=settings.sink_timeout,
        folder=settings.sink_folder,
        ask=_check_choice("sink_consent", settings.sink_consent, _CONSENT) == "required",
    )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingError(f"{name} is one of {', '.join(choices)}, not {value!r}")
    return value
