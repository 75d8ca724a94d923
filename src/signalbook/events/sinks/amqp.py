"""AMQP 1.0: each event a message in structured mode to one address (CloudEvents bindings/amqp; D-30).

``sink`` is ``amqp://HOST[/ADDRESS]`` or ``amqps://…``; the address may be in the settings instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import httpcore

from signalbook.brokers.amqp.connection import AMQPConnection, AMQPEnded, AMQPRefused
from signalbook.brokers.amqp.links import AMQPSender, MessageTooLarge, SenderLink
from signalbook.brokers.amqp.messages import AMQPMessage, to_bytes
from signalbook.brokers.amqp.types import AMQPError
from signalbook.events.sinks import brokers
from signalbook.events.sinks.base import EVENT_TYPE, DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerAddress, BrokerSinkFactory, ConnectionLost
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.fetching import Deadline
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"amqps": (5671, True), "amqp": (5672, False)}
_PARTING: Final = 1.0
_SETTINGS: Final = ("address", "linkname", "sendersettlementmode", "linkproperties")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    place: BrokerAddress
    user: tuple[str, str]
    address: str
    name: str
    settled: bool
    properties: Mapping[str, str]


class _Line:
    """A connection with one link."""

    def __init__(self, target: _Target, policy: SinkPolicy) -> None:
        self._policy = policy
        self._deadline = Deadline(policy.timeout)
        place = target.place
        where = f"{place.host}:{place.port}"
        try:
            self._stream = brokers.stream_to(place, policy, self._deadline)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise ConnectionLost(f"{where} cannot be reached: {error or type(error).__name__}") from None
        try:
            self._sender = self._attach(target)
        except AMQPRefused as error:
            self._hang_up()
            raise DeliveryError(f"{where}: {error}") from None
        except (AMQPError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            self._hang_up()
            raise ConnectionLost(f"{where}: {error or type(error).__name__}") from None

    def publish(self, events: Sequence[JSONObject]) -> None:
        """Send, and wait for every disposition; without one if the link is settled."""
        self._deadline.restart(self._policy.timeout)
        delivered = 0
        try:
            for _ in self._sender.send([_message(event) for event in events]):
                delivered += 1
                self._deadline.restart(self._policy.timeout)
        except AMQPEnded as error:
            raise ConnectionLost(str(error), delivered=delivered) from None
        except AMQPRefused as error:
            raise DeliveryError(str(error), delivered=delivered, rejected=isinstance(error, MessageTooLarge)) from None
        except httpcore.TimeoutException:
            raise ConnectionLost(
                f"the broker did not answer within {self._policy.timeout:g} seconds", delivered=delivered
            ) from None
        except (AMQPError, httpcore.NetworkError) as error:
            raise ConnectionLost(f"{error or type(error).__name__}", delivered=delivered) from None

    def close(self) -> None:
        """Say good-bye, and hang up."""
        self._deadline.restart(_PARTING)
        with suppress(AMQPError, httpcore.NetworkError, httpcore.TimeoutException):
            self._connection.close()
        self._hang_up()

    def _attach(self, target: _Target) -> AMQPSender:
        if target.place.secure:
            self._stream = brokers.encrypted(self._stream, target.place)
        user, password = target.user
        self._connection = AMQPConnection(
            self._stream, host=target.place.host, container=f"signalbook-{target.name}", user=user, password=password
        )
        link = SenderLink(
            address=target.address, name=target.name, settled=target.settled, properties=target.properties
        )
        return AMQPSender(self._connection, link)

    def _hang_up(self) -> None:
        with suppress(httpcore.NetworkError):
            self._stream.close()


def _target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    place = brokers.read_address(subscription.sink, _SCHEMES)
    brokers.check_allowed(place.host, place.port, place.secure, policy)
    settings = brokers.ProtocolSettings(subscription, _SETTINGS)
    address = settings.text("address")
    if bool(address) == bool(place.path):
        raise brokers.wrong_setting("address", "it is here or in the path of the sink's URI, and not in both")
    if not place.path.isprintable():
        raise SubscriptionError("/sink: its path has control characters")
    properties = settings.texts("linkproperties")
    foreign = next((name for name in properties if not name.isascii()), None)
    if foreign is not None:
        raise brokers.wrong_setting(f"linkproperties/{foreign}", "names of properties are ASCII")
    return _Target(
        place=place,
        user=brokers.read_login(subscription),
        address=address or place.path,
        name=settings.text("linkname") or f"{subscription.id}-{secrets.token_hex(4)}",
        settled=settings.choice("sendersettlementmode", ("unsettled", "settled")) == "settled",
        properties=properties,
    )


def _message(event: JSONObject) -> bytes:
    return to_bytes(AMQPMessage(body=dump_json(event), properties={"content-type": EVENT_TYPE}, durable=True))


FACTORY: Final = BrokerSinkFactory(protocols=("AMQP",), target=_target, connect=_Line)
