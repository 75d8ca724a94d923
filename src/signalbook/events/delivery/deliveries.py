"""The deliveries of one server, put together from its settings."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from signalbook.engine.engine import Engine, Session
from signalbook.events.delivery.keeper import Book
from signalbook.events.delivery.opening import Opener
from signalbook.events.delivery.progress import Retries
from signalbook.events.delivery.relay import Relay
from signalbook.events.head import Head
from signalbook.events.sinks.base import Consent, SinkPolicy
from signalbook.events.sinks.httprequests import allowed_rate
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.fetching import AllowList
from signalbook.settings import SettingError, Settings
from signalbook.values import JSONObject

CALLBACK: Final = "/subscriptions/{id}/consent"
"""Below the registry root: where a web hook may agree to deliveries, with the key it was told."""

_DAY: Final = 86_400.0
_SWITCH: Final = ("on", "off")
_CONSENT: Final = ("required", "assumed")


class Deliveries:
    """What the doors may ask of deliveries. Raises ``SettingError`` for settings that make no sense."""

    def __init__(self, engine: Engine, book: Book, head: Head, settings: Settings) -> None:
        self._on = _chosen("deliveries", settings.deliveries, _SWITCH) == "on"
        self.policy = policy(settings)
        base = settings.base_url.rstrip("/")
        self._opener = Opener(engine, self.policy, f"{base}{CALLBACK}" if base else "")
        retries = Retries(give_up=settings.delivery_days * _DAY)
        root = base or f"http://{settings.host}:{settings.port}"
        self._relay = Relay(engine, book, head, root=root, open=self._opener.open, retries=retries)

    def start(self) -> None:
        """Begin, unless the settings say that other servers do it."""
        if self._on:
            self._relay.start()

    def stop(self) -> None:
        """End; what is under way is finished first, for some seconds."""
        if self._on:
            self._relay.stop()

    def changed(self, id: str) -> None:
        """A subscription was created, changed or deleted by this server."""
        self._relay.changed(id)

    def agree(self, session: Session, subscription: Subscription, key: str, rate: str) -> bool:
        """A sink calls back: it wants deliveries, at the ``rate`` it names (D-34). False if the key is not its own.

        Raises ``DeliveryError`` for what is no rate.
        """
        asked = subscription.protocolsettings.get("rate")
        return self._opener.agree(session, subscription, key, Consent(rate=allowed_rate(rate, asked)))

    def hurry(self, id: str) -> None:
        """There is reason to think that a subscription's sink takes events now: do not wait for the next attempt."""
        self._relay.hurry(id)

    def status(self) -> JSONObject:
        """Whether this server ``delivers``, and how many subscriptions are in which state."""
        return self._relay.status() if self._on else {"delivers": False}


def policy(settings: Settings) -> SinkPolicy:
    """What the operator allows and asks of every sink."""
    return SinkPolicy(
        allow=AllowList(settings.allow_sinks, setting="allow_sinks"),
        origin=urlsplit(settings.base_url).hostname or "localhost",
        timeout=settings.sink_timeout,
        folder=settings.sink_folder,
        ask=_chosen("sink_consent", settings.sink_consent, _CONSENT) == "required",
    )


def _chosen(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise SettingError(f"{name} is one of {', '.join(choices)}, not {value!r}")
    return value
