"""Where sinks are: what their URIs say, and which of these places the operator lets events go to.

A place that is not public has to be allowed, and so has any without TLS. What names lead to is looked at when a
subscription is taken, and again with each connection, which goes to the very address that was looked at.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import httpcore

from signalbook.events.sinks.base import DeliveryError, SinkPolicy
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.fetching import Deadline, FetchError, NotAllowed, connect, reachable
from signalbook.values import JSONObject

_LONGEST_URI: Final = 4096
_LOOK_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The parts of a broker's URI; ``path`` is without its first slash, percent-decoded."""

    host: str
    port: int
    path: str
    secure: bool


def read_address(sink: str, schemes: Mapping[str, tuple[int, bool]]) -> BrokerAddress:
    """The place that a URI names; ``schemes`` have a port each, and say whether TLS is used.

    Raises ``SubscriptionError``.
    """
    expected = f"/sink: it takes a URI such as {next(iter(schemes))}://HOST:PORT; schemes are {', '.join(schemes)}"
    try:
        parts = urlsplit(sink)
        port, secure = schemes[parts.scheme]
        path = unquote(parts.path.removeprefix("/"), errors="strict")
        place = BrokerAddress(host=_host(parts), port=parts.port or port, path=path, secure=secure)
    except (ValueError, KeyError):
        raise SubscriptionError(expected) from None
    if not place.host or len(sink) > _LONGEST_URI or not (sink.isascii() and sink.isprintable() and " " not in sink):
        raise SubscriptionError(expected)
    if parts.username is not None or parts.password is not None:
        raise SubscriptionError("/sink: names and passwords go into sinkcredential, not into the URI")
    if parts.query or parts.fragment:
        raise SubscriptionError("/sink: a query or fragment means nothing here")
    return place


def check_allowed(host: str, port: int, secure: bool, policy: SinkPolicy, where: str = "/sink") -> None:
    """Raise ``SubscriptionError`` for a place that events may not go to, as far as its name tells."""
    address = _literal(host)
    if address is not None and not policy.allow.admits(address, host, port):
        raise SubscriptionError(
            f"{where}: {host}:{port} is neither public nor among the places that the operator allows"
        )
    named = policy.allow.names(host, port) or (address is not None and not address.is_global)
    if not secure and not named:
        raise SubscriptionError(f"{where}: without TLS only places that the operator names are delivered to")
    if address is None and policy.look:
        _look(host, port, policy, where)


def _look(host: str, port: int, policy: SinkPolicy, where: str) -> None:
    """Raise ``SubscriptionError`` if ``host`` leads to where nothing may go; one not found just now may be some day.

    What it leads to is not told: the names of a private network are nobody's business.
    """
    try:
        reachable(host, port, policy.allow, min(_LOOK_SECONDS, policy.timeout))
    except NotAllowed:
        raise SubscriptionError(
            f"{where}: {host}:{port} is neither public nor among the places that the operator allows"
        ) from None
    except (FetchError, httpcore.TimeoutException):
        return


def address_of(place: BrokerAddress, policy: SinkPolicy) -> str:
    """The one address to connect to. Raises ``DeliveryError``."""
    try:
        return reachable(place.host, place.port, policy.allow, policy.timeout)
    except FetchError as error:
        raise DeliveryError(str(error)) from None
    except httpcore.TimeoutException:
        raise DeliveryError(f"{place.host} was not found within {policy.timeout:g} seconds") from None


def stream_to(place: BrokerAddress, policy: SinkPolicy, deadline: Deadline) -> httpcore.NetworkStream:
    """A connection to the place, encrypted or not yet; every step keeps to the deadline. Raises httpcore's errors."""
    return connect(address_of(place, policy), place.port, deadline)


def encrypted(stream: httpcore.NetworkStream, place: BrokerAddress) -> httpcore.NetworkStream:
    """The connection with TLS, the name in the certificate checked. Raises httpcore's errors."""
    return stream.start_tls(ssl.create_default_context(), server_hostname=place.host)


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").lower().removesuffix(".")


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if host == "localhost":
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


T = TypeVar("T")


class ConnectionLost(DeliveryError):
    """A connection that could not be made, or was lost; nobody refused anything."""


class BrokerConnection(Protocol):
    """A connection to a broker. For one thread."""

    def publish(self, events: Sequence[JSONObject]) -> None:
        """Send the events in order and wait until the broker has confirmed them all. Raises ``DeliveryError``."""

    def close(self) -> None:
        """Hang up, whatever state it is in; raises nothing."""


class BrokerSink:
    """A sink that connects with ``connect`` when there is something to send.

    After a failure it hangs up, so that nothing still on its way arrives behind what is sent again. A connection from
    an earlier call may have ended unnoticed; then a new one gets a chance at once.
    """

    def __init__(self, connect: Callable[[], BrokerConnection]) -> None:
        self._connect = connect
        self._link: BrokerConnection | None = None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Deliver the events, oldest first. Raises ``DeliveryError``."""
        reused = self._link is not None
        try:
            self._publish(events)
        except ConnectionLost as error:
            if not reused:
                raise
            self._publish_rest(events, error.delivered)

    def close(self) -> None:
        """Hang up."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _publish_rest(self, events: Sequence[JSONObject], delivered: int) -> None:
        try:
            self._publish(events[delivered:])
        except DeliveryError as error:
            error.delivered += delivered
            raise

    def _publish(self, events: Sequence[JSONObject]) -> None:
        if self._link is None:
            self._link = self._connect()
        try:
            self._link.publish(events)
        except DeliveryError:
            self.close()
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSinkFactory(Generic[T]):
    """A kind of broker: ``target`` reads what a subscription says of it, ``connect`` makes a connection to that."""

    protocols: tuple[str, ...]
    target: Callable[[Subscription, SinkPolicy], T]
    connect: Callable[[T, SinkPolicy], BrokerConnection]

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Sink, settings and credential, as far as they can be told without asking the broker.

        Raises ``SubscriptionError``.
        """
        self.target(subscription, policy)

    def open(self, subscription: Subscription, policy: SinkPolicy) -> BrokerSink:
        """A sink that connects when there is something to send. Raises ``DeliveryError``."""
        try:
            target = self.target(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        return BrokerSink(lambda: self.connect(target, policy))


_PLAIN: Final = "PLAIN"
_LONGEST_TEXT: Final = 4096
_MOST: Final = 64


class ProtocolSettings:
    """The ``protocolsettings`` of a subscription; ``names`` are all that its protocol knows.

    Everything raises ``SubscriptionError`` with the place of the fault.
    """

    def __init__(self, subscription: Subscription, names: Sequence[str]) -> None:
        self._values = subscription.protocolsettings
        unknown = next((name for name in self._values if name not in names), None)
        if unknown is not None:
            known = ", ".join(names)
            raise wrong_setting(unknown, f"{subscription.protocol} has no such setting; there are {known}")

    def text(self, name: str, default: str = "") -> str:
        """A string without control characters; not empty if it is there."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not value.isprintable():
            raise wrong_setting(name, f"it is a string of up to {_LONGEST_TEXT} printable characters")
        if name in self._values and not value:
            raise wrong_setting(name, "it is empty")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these strings, the first unless another is said; a whole number is taken as it is written."""
        value = self._values.get(name, choices[0])
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or value not in choices:
            raise wrong_setting(name, f"it is {', '.join(choices)}")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number, None if it is not there."""
        value = self._values.get(name)
        if value is None and name not in self._values:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise wrong_setting(name, f"it is a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false if it is not there."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise wrong_setting(name, "it is true or false")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """An object of strings."""
        value: Any = self._values.get(name, {})
        if not isinstance(value, dict) or len(value) > _MOST:
            raise wrong_setting(name, f"it is an object of at most {_MOST} names and values")
        for key, content in value.items():
            if not isinstance(content, str) or not key or len(key) + len(content) > _LONGEST_TEXT:
                raise wrong_setting(f"{name}/{key[:128]}", f"it is a string of up to {_LONGEST_TEXT} characters")
            if not (key + content).isprintable():
                raise wrong_setting(f"{name}/{key[:128]}", "control characters mean nothing here")
        return value


def wrong_setting(name: str, detail: str) -> SubscriptionError:
    """That a setting is not what it has to be."""
    return SubscriptionError(f"/protocolsettings/{name[:128]}: {detail}")


def read_login(subscription: Subscription) -> tuple[str, str]:
    """Name and password, empty without a credential. Raises ``SubscriptionError`` for another kind of credential."""
    credential = subscription.credential
    if credential is None:
        return "", ""
    if credential.credentialtype != _PLAIN:
        raise SubscriptionError(f"/sinkcredential/credentialtype: {subscription.protocol} knows {_PLAIN}")
    name = credential.members.get("identifier", "")
    password = credential.secrets.get("secret", "")
    for member, value in (("identifier", name), ("secret", password)):
        if not value or len(value) > _LONGEST_TEXT or "\0" in value:
            raise SubscriptionError(f"/sinkcredential/{member}: it is a string of 1 to {_LONGEST_TEXT} characters")
    return name, password
