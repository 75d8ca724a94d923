"""Share code between sinks at brokers: parsing their URIs, settings and credentials, and connecting when needed.

Host names are checked when a subscription is accepted, and again for each connection, which uses exactly the address
that was checked.
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
    """Return the settings for the broker in the URI ``sink``, and its path without the first slash, percent-decoded.

    ``schemes`` maps each URI scheme to its default port and to True if it uses TLS. Raises ``SubscriptionError``, also
    if events must not be sent to the host.
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
    """Return the address to connect to. Raises ``BrokerError``, also if the address is not allowed."""
    try:
        return reachable(host, port, policy.allow, policy.timeout)
    except AddressNotAllowed as error:
        raise BrokerRefused(str(error)) from None
    except FetchError as error:
        raise BrokerUnavailable(str(error)) from None
    except httpcore.TimeoutException:
        raise BrokerUnavailable(f"{host} was not found within {policy.timeout:g} seconds") from None


class Publisher(Protocol):
    """A connection to a broker that sends one kind of messages. For one thread."""

    def publish(self, messages: Sequence[Any], /) -> Iterator[None]:
        """Send messages, and yield once for each message that the broker confirmed, in order.

        Raises ``BrokerError``.
        """

    def close(self) -> None:
        """Close the connection in whatever state it is. Raises nothing."""


class BrokerTarget(Protocol):
    """The broker of a subscription, and the address, topic or subject there."""

    @property
    def settings(self) -> BrokerSettings:
        """The settings for a connection to the broker."""

    def connect(self) -> Publisher:
        """Connect to the broker. Raises ``BrokerError``."""

    def encode(self, event: JSONObject) -> Any:
        """Return an event as a message for the connection."""


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
                # Close, so that messages still under way cannot arrive after messages that are sent again.
                self.close()
                if reused and isinstance(error, BrokerUnavailable):
                    # A connection from an earlier call may have ended unnoticed, so try a new connection at once.
                    reused = False
                    continue
                rejected = isinstance(error, MessageTooLarge)
                raise DeliveryError(str(error), delivered=delivered, rejected=rejected) from None

    def close(self) -> None:
        """Close the connection, if there is one."""
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
    """Opens sinks of one protocol or more. ``target`` reads the broker of a subscription from its URI and settings."""

    protocols: tuple[str, ...]
    target: Callable[[Subscription, SinkPolicy], BrokerTarget]

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Check sink, settings and credential, as far as possible without connecting. Raises ``SubscriptionError``."""
        self.target(subscription, policy)

    def open(self, subscription: Subscription, policy: SinkPolicy) -> BrokerSink:
        """Return a sink that connects when there is something to send. Raises ``DeliveryError``."""
        try:
            return BrokerSink(self.target(subscription, policy))
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None


class ProtocolSettings:
    """The ``protocolsettings`` of a subscription. ``names`` are all settings of its protocol.

    All methods, and creating an instance, raise ``SubscriptionError`` with the path of an invalid setting.
    """

    def __init__(self, subscription: Subscription, names: Sequence[str]) -> None:
        self._values = subscription.protocolsettings
        unknown = next((name for name in self._values if name not in names), None)
        if unknown is not None:
            known = ", ".join(names)
            raise make_setting_error(unknown, f"{subscription.protocol} has no such setting; there are {known}")

    def text(self, name: str, default: str = "") -> str:
        """Return a string without control characters, or ``default`` if the setting is absent. It must not be empty."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not value.isprintable():
            raise make_setting_error(name, f"it is a string of up to {_LONGEST_TEXT} printable characters")
        if name in self._values and not value:
            raise make_setting_error(name, "it is empty")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return the setting ``name``, one of ``choices`` (default: the first).

        An integer counts as its decimal text.
        """
        value = self._values.get(name, choices[0])
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or value not in choices:
            raise make_setting_error(name, f"it is {', '.join(choices)}")
        return value

    def whole(self, name: str, most: int) -> int | None:
        """Return an integer from 0 to ``most``, or None if the setting is absent."""
        value = self._values.get(name)
        if value is None and name not in self._values:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise make_setting_error(name, f"it is a whole number from 0 to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; False if the setting is absent."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise make_setting_error(name, "it is true or false")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """Return an object of strings; empty if the setting is absent."""
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
    """Return name and password, both empty without a credential.

    Raises ``SubscriptionError`` for other types of credentials than ``PLAIN``.
    """
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
