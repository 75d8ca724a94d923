"""Apache Kafka: each event a record in structured mode in one topic (CloudEvents bindings/kafka; D-30).

``sink`` is ``kafka://HOST[/TOPIC]`` or ``kafkas://…`` with TLS; the topic may be in the settings instead. The record's
key is the event's ``subject``, or the attribute that ``partitionkeyextractor`` names.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, SaslAuthenticationFailedError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from signalbook.events.sinks import brokersettings, places
from signalbook.events.sinks.base import EVENT_TYPE, DeliveryError, Policy
from signalbook.events.sinks.brokered import Broken, BrokerSink
from signalbook.events.sinks.places import Place
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"kafkas": (9093, True), "kafka": (9092, False)}
_SETTINGS: Final = ("topicname", "partitionkeyextractor", "clientid", "acks")
# Topics that begin with two underscores are the cluster's own.
_TOPIC: Final = re.compile(r"(?!__|\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_CLIENT: Final = re.compile(r"[!-~]{1,249}", re.ASCII)
_HEADERS: Final = (("content-type", EVENT_TYPE.encode()),)
_TIMEOUTS: Final = ("request_timeout_ms", "delivery_timeout_ms", "max_block_ms", "bootstrap_timeout_ms")
_LOOK: Final = 0.1
_PARTING: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    place: Place
    user: tuple[str, str]
    topic: str
    key: str
    client: str
    acks: str


class Clusters:
    """The kind ``KAFKA``."""

    protocols = ("KAFKA",)

    def check(self, subscription: Subscription, policy: Policy) -> None:
        """Sink, settings and credential, as far as they can be told without asking the cluster."""
        _target(subscription, policy)

    def open(self, subscription: Subscription, policy: Policy) -> BrokerSink:
        """A sink that connects when there is something to send."""
        try:
            target = _target(subscription, policy)
        except SubscriptionError as error:
            raise DeliveryError(str(error)) from None
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of it is in DeliveryError
        return BrokerSink(lambda: _Link(target, policy))


KIND: Final = Clusters()


class _Gate:
    """Looks names up for one producer, of the first broker and of those that the cluster says to go on at.

    ``failure`` is what makes it useless to wait any longer.
    """

    def __init__(self, target: _Target, policy: Policy) -> None:
        self._secure = target.place.secure
        self._shown = bool(target.user[0])
        self._policy = policy
        self.failure: DeliveryError | None = None

    def lookup(self, host: str, port: int) -> list[Any]:
        """The one address to connect to, as ``getaddrinfo`` has it. Raises ``DeliveryError``."""
        place = Place(host=host.lower(), port=port, path="", secure=self._secure)
        try:
            places.check(place.host, port, place.secure, self._policy, "the cluster names a broker")
            address = places.address_of(place, self._policy)
        except (SubscriptionError, DeliveryError) as error:
            self.failure = DeliveryError(str(error))
            raise self.failure from None
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    def lost(self, error: Exception, first: bool) -> None:
        """A connection could not be made, to the ``first`` broker or another; others may be well."""
        # The client may notice only that the broker hung up, which brokers do right after their no.
        if isinstance(error, SaslAuthenticationFailedError) or (self._shown and "socket disconnected" in str(error)):
            self.failure = DeliveryError("the cluster does not take the user and the password")
        elif first and self.failure is None:
            self.failure = Broken(_told(error))


_gates: WeakValueDictionary[str, _Gate] = WeakValueDictionary()


class _GatedSocket(KafkaNetSocket):  # type: ignore[misc]  # the package has no types
    """How the client makes sockets for proxy URLs of this scheme: without a proxy, where the gate lets it."""

    SCHEMES = ("signalbook",)

    def __init__(self, proxy_url: str) -> None:
        self._gate = _gates[proxy_url]

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Any]:  # noqa: ARG002
        """The addresses that are connected to."""
        return self._gate.lookup(host, port)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        """As always, but a socket that does not connect is closed."""
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at)
        except BaseException:
            sock.close()
            raise


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Tells the gate what fails, and does not try the first broker twice: that is for whoever delivers again."""

    def __init__(self, net: Any, gate: _Gate, settings: dict[str, Any]) -> None:
        super().__init__(net, **settings)
        self.cluster.config["allow_auto_create_topics"] = False
        self._gate = gate

    def get_connection(self, node_id: Any, *arguments: Any, **more: Any) -> Any:
        """As always, until the first broker fails."""
        first = bool(self.cluster.is_bootstrap(node_id))
        if first and self._gate.failure is not None:
            raise self._gate.failure
        connection = super().get_connection(node_id, *arguments, **more)
        connection.init_future.add_errback(lambda error: self._gate.lost(error, first))
        return connection


class _Link:
    """A connected producer."""

    _client: Any = None

    def __init__(self, target: _Target, policy: Policy) -> None:
        self._target = target
        self._timeout = policy.timeout
        self._gate = _Gate(target, policy)
        gate = f"signalbook://{id(self._gate)}"
        _gates[gate] = self._gate
        place = target.place
        try:
            options = _options(target, policy.timeout)
            self._producer = KafkaProducer(proxy_url=gate, kafka_client=self._connections, **options)
        except (KafkaError, DeliveryError, OSError, ValueError) as error:
            if self._client is not None:
                self._client.close()
            failure = self._gate.failure or Broken(_told(error))
            raise type(failure)(f"{place.host}:{place.port}: {failure}") from None

    def publish(self, events: Sequence[JSONObject]) -> None:
        """Send, and wait until the brokers that ``acks`` asks for have each record."""
        futures: list[Any] = []
        failure: DeliveryError | None = None
        for event in events:
            try:
                futures.append(self._send(event))
            except (KafkaError, DeliveryError) as error:
                failure = self._failure(error)
                break
        for delivered, future in enumerate(futures):
            try:
                self._wait(future)
            except (KafkaError, DeliveryError) as error:
                failure = self._failure(error)
                failure.delivered = delivered
                raise failure from None
        if failure is not None:
            failure.delivered = len(futures)
            raise failure from None

    def close(self) -> None:
        """Hang up; what is not sent by now is not sent."""
        with suppress(KafkaError):
            self._producer.close(_PARTING)

    def _connections(self, **settings: Any) -> Any:
        """What the producer connects with; kept, as nobody else closes it if the producer cannot be made."""
        net = NetworkSelector(**settings)
        self._client = KafkaNetClient(net, _Connections(net, self._gate, settings), **settings)
        return self._client

    def _send(self, event: JSONObject) -> Any:
        key = event.get(self._target.key)
        return self._producer.send(
            self._target.topic,
            dump_json(event),
            key=None if key is None else str(key).encode(),
            headers=list(_HEADERS),
        )

    def _wait(self, future: Any) -> None:
        """Wait for a record's acknowledgement, or until there is no hope for it."""
        deadline = time.monotonic() + self._timeout
        while not future.is_done:
            if self._gate.failure is not None:
                raise self._gate.failure
            left = deadline - time.monotonic()
            if left <= 0:
                raise Broken(f"the cluster did not answer within {self._timeout:g} seconds")
            with suppress(TimeoutError, KafkaError):
                future.get(timeout=min(left, _LOOK))
        future.get(timeout=0)

    def _failure(self, error: Exception) -> DeliveryError:
        if self._gate.failure is not None:
            return self._gate.failure
        if isinstance(error, DeliveryError):
            return error
        if self._client.cluster.partitions_for_topic(self._target.topic) is None:
            return DeliveryError(f"the cluster has no topic {self._target.topic!r}, or does not show it")
        if isinstance(error, MessageSizeTooLargeError):
            return DeliveryError(f"the event is larger than the cluster takes: {_told(error)}", rejected=True)
        return Broken(_told(error))


def _options(target: _Target, timeout: float) -> dict[str, Any]:
    milliseconds = max(1, int(timeout * 1000))
    host = f"[{target.place.host}]" if ":" in target.place.host else target.place.host
    options: dict[str, Any] = {
        "bootstrap_servers": f"{host}:{target.place.port}",
        "client_id": target.client,
        "acks": target.acks if target.acks == "all" else int(target.acks),
        "enable_idempotence": target.acks == "all",
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "security_protocol": ("SASL_" if target.user[0] else "") + ("SSL" if target.place.secure else "PLAINTEXT"),
        **dict.fromkeys(_TIMEOUTS, milliseconds),
    }
    if target.place.secure:
        options["ssl_context"] = ssl.create_default_context()
    if target.user[0]:
        user, password = target.user
        options |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": user, "sasl_plain_password": password}
    return options


def _target(subscription: Subscription, policy: Policy) -> _Target:
    place = places.read(subscription.sink, _SCHEMES)
    places.check(place.host, place.port, place.secure, policy)
    settings = brokersettings.Settings(subscription, _SETTINGS)
    topic = settings.text("topicname")
    if bool(topic) == bool(place.path):
        raise brokersettings.wrong("topicname", "it is here or in the path of the sink's URI, and not in both")
    if not _TOPIC.fullmatch(topic or place.path):
        where = "/protocolsettings/topicname" if topic else "/sink"
        raise SubscriptionError(f"{where}: that is no name of a topic")
    key = settings.text("partitionkeyextractor", "subject")
    if not _ATTRIBUTE.fullmatch(key):
        raise brokersettings.wrong("partitionkeyextractor", "it is the name of an attribute, such as subject")
    client = settings.text("clientid", "signalbook")
    if not _CLIENT.fullmatch(client):
        raise brokersettings.wrong("clientid", "it is a name of printable ASCII")
    acks = settings.choice("acks", ("all", "-1", "1", "0"))
    return _Target(
        place=place,
        user=brokersettings.user(subscription),
        topic=topic or place.path,
        key=key,
        client=client,
        acks="all" if acks == "-1" else acks,
    )


def _told(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:500]
