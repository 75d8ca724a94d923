"""What sinks at brokers share: where their URIs lead, settings and credentials, and connections made when needed.

What names lead to is looked at when a subscription is taken, and again with each connection, which goes to the very
address that was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpcore

from signalbook.brokers.connection import (
    BrokerError,
    BrokerRefused,
    BrokerSettings,
    BrokerUnavailable,
    MessageTooLarge,
)
from signalbook.events.sinks.base import DeliveryError, SinkPolicy, check_allowed, host_of, make_setting_error
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.fetching import AddressNotAllowed, FetchError, reachable
from signalbook.values import JSONObject

_LONGEST_URI: Final = 4096
_PLAIN_CREDENTIAL: Final = "PLAIN"
_LONGEST_TEXT: Final = 4096
_MAX_TEXTS: Final = 64


def read_broker(
    subscription: Subscription, schemes: Mapping[str, tuple[int, bool]], policy: SinkPolicy
) -> tuple[BrokerSettings, str]:
    """The broker that the URI ``sink`` names, and its path without the first slash, percent-decoded.

    ``schemes`` have a port each, and say whether TLS is used. Raises ``SubscriptionError``, also for a place that
    events may not go to.
    """
    sink = subscription.sink
    expected = f"/sink: it takes a URI such as {next(iter(schemes))}://HOST:PORT; schemes are {', '.join(schemes)}"
    try:
        parts = urlsplit(sink)
        port, secure = schemes[parts.scheme]
        host, port = host_of(parts), parts.port or port
        path = unquote(parts.path.removeprefix("/"), errors="strict")
    except (ValueError, KeyError):
        raise SubscriptionError(expected) from None
    if not host or len(sink) > _LONGEST_URI or not (sink.isascii() and sink.isprintable() and " " not in sink):
        raise SubscriptionError(expected)
    if parts.username is not None or parts.password is not None:
        raise SubscriptionError("/sink: names and passwords go into sinkcredential, not into the URI")
    if parts.query or parts.fragment:
        raise SubscriptionError("/sink: a query or fragment means nothing here")
    check_allowed(host, port, secure, policy)
    user, password = _read_login(subscription)
    settings = BrokerSettings(
        servers=((host, port),),
        secure=secure,
        user=user,
        password=password,
        timeout=policy.timeout,
        resolve=partial(resolve, policy),
    )
    return settings, path


def resolve(policy: SinkPolicy, host: str, port: int) -> str:
    """The one address to connect to. Raises ``BrokerError``."""
    try:
        return reachable(host, port, policy.allow, policy.timeout)
    except AddressNotAllowed as error:
        raise BrokerRefused(str(error)) from None
    except FetchError as error:
        raise BrokerUnavailable(str(error)) from None
    except httpcore.TimeoutException:
        raise BrokerUnavailable(f"{host} was not found within {policy.timeout:g} seconds") from None


class Publisher(Protocol):
    """A connection to a broker for one kind of messages. For one thread."""

    def publish(self, messages: Sequence[Any], /) -> Iterator[None]:
        """Send messages; yields once for each that the broker has confirmed, in their order. Raises ``BrokerError``."""

    def close(self) -> None:
        """Hang up, whatever state it is in; raises nothing."""


class BrokerTarget(Protocol):
    """The broker of a subscription."""

    @property
    def settings(self) -> BrokerSettings:
        """The settings for a connection to the broker."""

    def connect(self) -> Publisher:
        """A connection to it. Raises ``BrokerError``."""

    def encode(self, event: JSONObject) -> Any:
        """An event as a message for that connection."""


class BrokerSink:
    """A sink that connects when there is something to send."""

    def __init__(self, target: BrokerTarget) -> None:
        self._target = target
        self._connection: Publisher | None = None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Deliver the events, oldest first. Raises ``DeliveryError``."""
        reused = self._connection is not None
        messages = [self._target.encode(event) for event in events]
        delivered = 0
        while True:
            try:
                for _ in self._ensure_connection().publish(messages[delivered:]):
                    delivered += 1
                return
            except BrokerError as error:
                # So that nothing still on its way arrives behind what is sent again.
                self.close()
                if reused and isinstance(error, BrokerUnavailable):
                    # A connection from an earlier call may have ended unnoticed: a new one gets a chance at once.
                    reused = False
                    continue
                rejected = isinstance(error, MessageTooLarge)
                raise DeliveryError(str(error), delivered=delivered, rejected=rejected) from None

    def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ensure_connection(self) -> Publisher:
        if self._connection is None:
            try:
                self._connection = self._target.connect()
            except BrokerError as error:
                place, text = str(self._target.settings), str(error)
                raise type(error)(text if text.startswith(place) else f"{place}: {text}") from None
        return self._connection


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSinkFactory:
    """Sinks of one protocol or more: ``target`` reads what a subscription says of its broker."""

    protocols: tuple[str, ...]
    target: Callable[[Subscription, SinkPolicy], BrokerTarget]

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Sink, settings and credential, as far as they can be checked without asking the broker.

        Raises ``SubscriptionError``.
        """
        self.target(subscription, policy)

    def open(self, subscription: Subscription, policy: SinkPolicy) -> BrokerSink:
        """A sink that connects when there is something to send. Raises ``DeliveryError``."""
        try:
            return BrokerSink(self.target(subscription, policy))
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None


class ProtocolSettings:
    """The ``protocolsettings`` of a subscription; ``names`` are all that its protocol knows.

    Everything raises ``SubscriptionError`` with the path of the setting.
    """

    def __init__(self, subscription: Subscription, names: Sequence[str]) -> None:
        self._values = subscription.protocolsettings
        unknown = next((name for name in self._values if name not in names), None)
        if unknown is not None:
            known = ", ".join(names)
            raise make_setting_error(unknown, f"{subscription.protocol} has no such setting; there are {known}")

    def text(self, name: str, default: str = "") -> str:
        """A string without control characters; not empty if it is there."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not value.isprintable():
            raise make_setting_error(name, f"it is a string of up to {_LONGEST_TEXT} printable characters")
        if name in self._values and not value:
            raise make_setting_error(name, "it is empty")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return the setting ``name``, one of ``choices`` (default: the first). A whole number counts as its text."""
        value = self._values.get(name, choices[0])
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or value not in choices:
            raise make_setting_error(name, f"it is {', '.join(choices)}")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number, None if it is not there."""
        value = self._values.get(name)
        if value is None and name not in self._values:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise make_setting_error(name, f"it is a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false if it is not there."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise make_setting_error(name, "it is true or false")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """An object of strings."""
        value: Any = self._values.get(name, {})
        if not isinstance(value, dict) or len(value) > _MAX_TEXTS:
            raise make_setting_error(name, f"it is an object of at most {_MAX_TEXTS} names and values")
        for key, content in value.items():
            if not isinstance(content, str) or not key or len(key) + len(content) > _LONGEST_TEXT:
                raise make_setting_error(f"{name}/{key[:128]}", f"it is a string of up to {_LONGEST_TEXT} characters")
            if not (key + content).isprintable():
                raise make_setting_error(f"{name}/{key[:128]}", "control characters mean nothing here")
        return value


def _read_login(subscription: Subscription) -> tuple[str, str]:
    """Name and password, empty without a credential. Raises ``SubscriptionError`` for another kind of credential."""
    credential = subscription.credential
    if credential is None:
        return "", ""
    if credential.credentialtype != _PLAIN_CREDENTIAL:
        raise SubscriptionError(f"/sinkcredential/credentialtype: {subscription.protocol} supports {_PLAIN_CREDENTIAL}")
    name = credential.members.get("identifier", "")
    password = credential.secrets.get("secret", "")
    for member, value in (("identifier", name), ("secret", password)):
        if not value or len(value) > _LONGEST_TEXT or "\0" in value:
            raise SubscriptionError(f"/sinkcredential/{member}: it is a string of 1 to {_LONGEST_TEXT} characters")
    return name, password
