"""What sinks at brokers have in common: a connection that is made when it is needed, and again when it was lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from signalbook.events.sinks.base import DeliveryError, Policy
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject

T = TypeVar("T")


class Broken(DeliveryError):
    """A connection that could not be made, or was lost; nobody refused anything."""


class Link(Protocol):
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

    def __init__(self, connect: Callable[[], Link]) -> None:
        self._connect = connect
        self._link: Link | None = None

    def send(self, events: Sequence[JSONObject]) -> None:
        """Deliver the events, oldest first. Raises ``DeliveryError``."""
        reused = self._link is not None
        try:
            self._publish(events)
        except Broken as error:
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
class BrokerKind(Generic[T]):
    """A kind of broker: ``target`` reads what a subscription says of it, ``connect`` makes a connection to that."""

    protocols: tuple[str, ...]
    target: Callable[[Subscription, Policy], T]
    connect: Callable[[T, Policy], Link]

    def check(self, subscription: Subscription, policy: Policy) -> None:
        """Sink, settings and credential, as far as they can be told without asking the broker.

        Raises ``SubscriptionError``.
        """
        self.target(subscription, policy)

    def open(self, subscription: Subscription, policy: Policy) -> BrokerSink:
        """A sink that connects when there is something to send. Raises ``DeliveryError``."""
        try:
            target = self.target(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        return BrokerSink(lambda: self.connect(target, policy))
