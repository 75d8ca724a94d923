"""Apache Kafka: each event a record in structured mode in one topic (CloudEvents bindings/kafka; D-30).

``sink`` is ``kafka://HOST[/TOPIC]`` or ``kafkas://…`` with TLS; the topic may be in the settings instead. The record's
key is the event's ``subject``, or the attribute that ``partitionkeyextractor`` names.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from signalbook.events.sinks import brokers
from signalbook.events.sinks.base import EVENT_TYPE, DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerAddress, BrokerSinkFactory, ConnectionLost
from signalbook.events.sinks.kafkaconnections import Gate, WatchedContext, told
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
    place: BrokerAddress
    user: tuple[str, str]
    topic: str
    key: str
    client: str
    acks: str


class _Link:
    """A connected producer."""

    _client: Any = None
    _producer: Any = None
    _failed = False

    def __init__(self, target: _Target, policy: SinkPolicy) -> None:
        self._target = target
        self._timeout = policy.timeout
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of it is in DeliveryError
        self._gate = Gate(policy, secure=target.place.secure, shown=bool(target.user[0]))
        place = target.place
        try:
            options = _options(target, policy.timeout)
            if place.secure:
                options["ssl_context"] = WatchedContext(self._gate)
            self._producer = KafkaProducer(proxy_url=self._gate.name, kafka_client=self._connections, **options)
        except (KafkaError, DeliveryError, OSError, ValueError) as error:
            self.close()
            failure = self._gate.failure or ConnectionLost(told(error))
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
        """Hang up; after a failure at once, so that nothing arrives behind what is sent again."""
        if self._producer is None:
            if self._client is not None:
                self._client.close()
        else:
            if self._failed:
                self._gate.interrupt()
                # Its ``close`` would wait for what cannot be sent, and then leave it to its thread to go on trying.
                self._producer._sender.force_close()
            with suppress(KafkaError):
                self._producer.close(_PARTING)
        self._gate.close()

    def _connections(self, **settings: Any) -> Any:
        """What the producer connects with; kept, as nobody else closes it if the producer cannot be made."""
        self._client = self._gate.client(**settings)
        self._gate.after(self._timeout, self._give_up)
        return self._client

    def _give_up(self) -> None:
        """If there is no producer by now, a handshake hangs that the client would wait for without end."""
        if self._producer is None:
            self._gate.interrupt()

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
                raise ConnectionLost(f"the cluster did not answer within {self._timeout:g} seconds")
            with suppress(TimeoutError, KafkaError):
                future.get(timeout=min(left, _LOOK))
        future.get(timeout=0)

    def _failure(self, error: Exception) -> DeliveryError:
        self._failed = True
        if self._gate.failure is not None:
            return self._gate.failure
        if isinstance(error, DeliveryError):
            return error
        if self._client.cluster.partitions_for_topic(self._target.topic) is None:
            return DeliveryError(f"the cluster has no topic {self._target.topic!r}, or does not show it")
        if isinstance(error, MessageSizeTooLargeError):
            return DeliveryError(f"the event is larger than the cluster takes: {told(error)}", rejected=True)
        return ConnectionLost(told(error))


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
    if target.user[0]:
        user, password = target.user
        options |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": user, "sasl_plain_password": password}
    return options


def _target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    place = brokers.read_address(subscription.sink, _SCHEMES)
    brokers.check_allowed(place.host, place.port, place.secure, policy)
    settings = brokers.ProtocolSettings(subscription, _SETTINGS)
    topic = settings.text("topicname")
    if bool(topic) == bool(place.path):
        raise brokers.wrong_setting("topicname", "it is here or in the path of the sink's URI, and not in both")
    if not _TOPIC.fullmatch(topic or place.path):
        where = "/protocolsettings/topicname" if topic else "/sink"
        raise SubscriptionError(f"{where}: that is no name of a topic")
    key = settings.text("partitionkeyextractor", "subject")
    if not _ATTRIBUTE.fullmatch(key):
        raise brokers.wrong_setting("partitionkeyextractor", "it is the name of an attribute, such as subject")
    client = settings.text("clientid", "signalbook")
    if not _CLIENT.fullmatch(client):
        raise brokers.wrong_setting("clientid", "it is a name of printable ASCII")
    acks = settings.choice("acks", ("all", "-1", "1", "0"))
    return _Target(
        place=place,
        user=brokers.read_login(subscription),
        topic=topic or place.path,
        key=key,
        client=client,
        acks="all" if acks == "-1" else acks,
    )


FACTORY: Final = BrokerSinkFactory(protocols=("KAFKA",), target=_target, connect=_Link)
