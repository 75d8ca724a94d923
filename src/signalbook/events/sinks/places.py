"""Where sinks are: what their URIs say, and which of these places the operator lets events go to.

A place that is not public has to be allowed, and so has any without TLS. What names lead to is looked at when a
subscription is taken, and again with each connection, which goes to the very address that was looked at.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httpcore

from signalbook.events.sinks.base import DeliveryError, Policy
from signalbook.events.subscriptions.subscription import SubscriptionError
from signalbook.fetching import Deadline, FetchError, NotAllowed, connect, reachable

_LONGEST: Final = 4096
_LOOK_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The parts of a broker's URI; ``path`` is without its first slash, percent-decoded."""

    host: str
    port: int
    path: str
    secure: bool


def read(sink: str, schemes: Mapping[str, tuple[int, bool]]) -> Place:
    """The place that a URI names; ``schemes`` have a port each, and say whether TLS is used.

    Raises ``SubscriptionError``.
    """
    expected = f"/sink: it takes a URI such as {next(iter(schemes))}://HOST:PORT; schemes are {', '.join(schemes)}"
    try:
        parts = urlsplit(sink)
        port, secure = schemes[parts.scheme]
        path = unquote(parts.path.removeprefix("/"), errors="strict")
        place = Place(host=_host(parts), port=parts.port or port, path=path, secure=secure)
    except (ValueError, KeyError):
        raise SubscriptionError(expected) from None
    if not place.host or len(sink) > _LONGEST or not (sink.isascii() and sink.isprintable() and " " not in sink):
        raise SubscriptionError(expected)
    if parts.username is not None or parts.password is not None:
        raise SubscriptionError("/sink: names and passwords go into sinkcredential, not into the URI")
    if parts.query or parts.fragment:
        raise SubscriptionError("/sink: a query or fragment means nothing here")
    return place


def check(host: str, port: int, secure: bool, policy: Policy, where: str = "/sink") -> None:
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


def _look(host: str, port: int, policy: Policy, where: str) -> None:
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


def address_of(place: Place, policy: Policy) -> str:
    """The one address to connect to. Raises ``DeliveryError``."""
    try:
        return reachable(place.host, place.port, policy.allow, policy.timeout)
    except FetchError as error:
        raise DeliveryError(str(error)) from None
    except httpcore.TimeoutException:
        raise DeliveryError(f"{place.host} was not found within {policy.timeout:g} seconds") from None


def stream_to(place: Place, policy: Policy, deadline: Deadline) -> httpcore.NetworkStream:
    """A connection to the place, encrypted or not yet; every step keeps to the deadline. Raises httpcore's errors."""
    return connect(address_of(place, policy), place.port, deadline)


def encrypted(stream: httpcore.NetworkStream, place: Place) -> httpcore.NetworkStream:
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
