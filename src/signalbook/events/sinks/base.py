"""Define the interface of sinks, find the installed ones, and check where the operator lets events go.

Sinks are the entry points in the group ``signalbook.sinks``, including the built-in ones. The name of an entry point is
the ``protocol`` of subscriptions in lower case, and its value is a ``SinkFactory``. It is imported when the protocol is
first needed. The operator has to allow hosts that are not public, and hosts without TLS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Final, Protocol
from urllib.parse import SplitResult

import httpcore

from signalbook import plugins
from signalbook.errors import SignalbookError
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.fetching import AddressNotAllowed, AllowList, FetchError, is_public, reachable
from signalbook.values import JSONObject

EVENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
"""The media type of one event in structured mode, for all protocols."""
_LOOK_SECONDS: Final = 3.0


class DeliveryError(SignalbookError):
    """The error for a sink that did not accept an event. The message contains its answer, without secrets.

    ``delivered`` is the number of events in the batch that were accepted before. ``gone`` ends the deliveries of the
    subscription for good (HTTP 410). ``rejected`` means that the sink will never accept the next event, but may accept
    others (HTTP 415). ``retry_after`` is the wait in seconds that the sink asked for, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        delivered: int = 0,
        gone: bool = False,
        rejected: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.delivered = delivered
        self.gone = gone
        self.rejected = rejected
        self.retry_after = retry_after


class NotYet(DeliveryError):
    """The sink works but accepts no more events now, for instance because of its rate limit. This is not a failure.

    The rest of the batch has to be sent after ``retry_after`` seconds.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """The agreement of a sink to deliveries (D-34), at most ``rate`` requests a minute; None means any number."""

    rate: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPolicy:
    """The operator's rules for every sink.

    ``allow`` lists the hosts that events may be sent to although they are not public or have no TLS. ``origin`` is the
    DNS name of this registry in requests for consent (D-34). ``timeout`` is in seconds, for connecting and for each
    answer. ``folder`` contains the files of file sinks; if it is empty, there are no file sinks. If ``ask`` is True,
    web hooks are asked for consent first; ``callback`` is the URL where a web hook may give it later, and ``consent``
    is the consent given there. If ``look`` is True, checks also resolve host names.
    """

    allow: AllowList
    origin: str = "localhost"
    timeout: float = 10.0
    folder: str = ""
    ask: bool = True
    callback: str = ""
    consent: Consent | None = None
    look: bool = False


class Sink(Protocol):
    """Delivers the events of one subscription. It is used by one thread only."""

    def send(self, events: Sequence[JSONObject]) -> None:
        """Deliver CloudEvents (JSON format), oldest first. Return when the sink has accepted all of them.

        Raises ``DeliveryError``.
        """

    def close(self) -> None:
        """Close connections. Events that were not sent will be delivered by the next sink object."""


class SinkFactory(Protocol):
    """Opens sinks of one protocol or more. Entry points of the group ``signalbook.sinks`` refer to such an object."""

    protocols: tuple[str, ...]
    """The values of ``protocol`` in subscriptions that this factory serves."""

    def check(self, subscription: Subscription, policy: SinkPolicy) -> None:
        """Raise ``SubscriptionError`` if sink, settings or credential do not fit the protocol or are not allowed."""

    def open(self, subscription: Subscription, policy: SinkPolicy) -> Sink:
        """Return the sink of a subscription. It may connect later, at the first ``send``. Raises ``DeliveryError``."""


GROUP: Final = "signalbook.sinks"


def find_sink(protocol: str) -> SinkFactory:
    """Return the factory of sinks for ``protocol``.

    Raises ``SubscriptionError`` if there is none, or if something it needs is missing.
    """
    point = _find_entry_points().get(protocol)
    if point is None:
        raise SubscriptionError(f"/protocol: there is no {protocol!r}; there are {', '.join(sink_protocols())}")
    try:
        factory: SinkFactory = plugins.load(point)
        return factory
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("signalbook"):
            raise
        extra = point.extras[0] if point.extras else protocol.lower()
        raise SubscriptionError(
            f"/protocol: {protocol} takes the package {error.name!r}: {plugins.install(extra)}"
        ) from None


def sink_protocols() -> tuple[str, ...]:
    """Return the supported values of ``protocol``, sorted. Some of them may need an extra that is not installed."""
    return tuple(sorted(_find_entry_points()))


def _find_entry_points() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "protocol", plugins.upper)


def make_setting_error(name: str, detail: str) -> SubscriptionError:
    """Return the error for a setting with an invalid value."""
    return SubscriptionError(f"/protocolsettings/{name[:128]}: {detail}")


def check_allowed(host: str, port: int, secure: bool, policy: SinkPolicy, where: str = "/sink") -> None:
    """Raise ``SubscriptionError`` if events must not be sent to ``host``.

    The name of the host is resolved only if ``policy.look`` is True. ``where`` is the path of the problem in messages.
    """
    address = _parse_literal(host)
    if address is not None and not policy.allow.admits(address, host, port):
        raise _make_not_allowed(where, host, port)
    is_named = policy.allow.names(host, port) or (address is not None and not is_public(address))
    if not secure and not is_named:
        raise SubscriptionError(
            f"{where}: without TLS only places that the operator names are delivered to: "
            f"{_explain_allowing(host, port)}"
        )
    if address is None and policy.look:
        _check_reachable(host, port, policy, where)


def _check_reachable(host: str, port: int, policy: SinkPolicy, where: str) -> None:
    """Raise ``SubscriptionError`` if ``host`` resolves to an address that is not allowed.

    A host that is not found now is accepted, because it may exist later. The error does not contain the address, so
    that names of a private network are not revealed.
    """
    try:
        reachable(host, port, policy.allow, min(_LOOK_SECONDS, policy.timeout))
    except AddressNotAllowed:
        raise _make_not_allowed(where, host, port) from None
    except (FetchError, httpcore.TimeoutException):
        return


def _make_not_allowed(where: str, host: str, port: int) -> SubscriptionError:
    reason = "is neither public nor among the places that the operator allows"
    return SubscriptionError(f"{where}: {host}:{port} {reason}: {_explain_allowing(host, port)}")


def _explain_allowing(host: str, port: int) -> str:
    """Return advice on how an operator allows a place."""
    return f"signalbook serve --allow-sinks {f'[{host}]' if ':' in host else host}:{port}"


def host_of(parts: SplitResult) -> str:
    """Return the host of a URL in the form that allow lists use: lower case, without a trailing dot."""
    return str(parts.hostname or "").lower().removesuffix(".")


def _parse_literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if host == "localhost":
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
