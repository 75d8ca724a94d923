"""Opening a subscription's sink, and the consent that a web hook may give by calling back (http-webhook.md 4.1.3)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import Final

from signalbook.engine.engine import Engine, Session
from signalbook.events.delivery.state import CONSENTS
from signalbook.events.sinks import base
from signalbook.events.sinks.base import Consent, DeliveryError, Sink, SinkPolicy
from signalbook.events.subscriptions.subscription import HTTP, Subscription, SubscriptionError

_SECRET: Final = "delivery/consents"  # noqa: S105 - the name of a note
_KEY_BYTES: Final = 32


class Opener:
    """Opens sinks as ``policy`` has it. ``callback`` is the URL that sinks may call, with ``{id}``; empty for none."""

    def __init__(self, engine: Engine, policy: SinkPolicy, callback: str = "") -> None:
        self._engine = engine
        self._policy = policy
        self._callback = callback

    def open(self, subscription: Subscription) -> Sink:
        """The way to the subscription's sink. Raises ``DeliveryError``."""
        if subscription.fault:
            raise DeliveryError(subscription.fault)
        try:
            kind = base.find_sink(subscription.protocol)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        policy = self._policy
        if subscription.protocol == HTTP and policy.ask and self._callback:
            url = f"{self._callback.format(id=subscription.id)}?key={_key(self._secret(), subscription)}"
            policy = replace(policy, callback=url, consent=self._given(subscription))
        return kind.open(subscription, policy)

    def agree(self, session: Session, subscription: Subscription, key: str, consent: Consent) -> bool:
        """Keep that the sink agrees to deliveries; False if the key is not its own."""
        secret = session.kept(_SECRET)
        if secret is None or not hmac.compare_digest(key.encode(), _key(secret, subscription).encode()):
            return False
        session.keep(f"{CONSENTS}/{subscription.id}", {"sink": subscription.sink, "rate": consent.rate})
        return True

    def _given(self, subscription: Subscription) -> Consent | None:
        note = self._engine.kept(f"{CONSENTS}/{subscription.id}")
        return Consent(rate=note["rate"]) if note and note["sink"] == subscription.sink else None

    def _secret(self) -> str:
        known: str | None = self._engine.kept(_SECRET)
        if known is None:
            with self._engine.writing() as session:
                known = session.kept(_SECRET) or secrets.token_hex(_KEY_BYTES)
                session.keep(_SECRET, known)
        return known


def _key(secret: str, subscription: Subscription) -> str:
    """What a sink shows when it agrees: nobody else knows it, and it is good for this very sink."""
    bound = f"{subscription.id}\n{subscription.sink}".encode()
    return hmac.new(bytes.fromhex(secret), bound, hashlib.sha256).hexdigest()
