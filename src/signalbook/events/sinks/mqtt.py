"""MQTT 3.1.1 and 5.0: each event a message in structured mode to one topic (CloudEvents bindings/mqtt; D-30).

``sink`` is ``mqtts://HOST`` or ``mqtt://HOST``. The client runs only while something is sent, without a thread.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from paho.mqtt.client import Client, error_string
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from signalbook.events.sinks import brokers
from signalbook.events.sinks.base import EVENT_TYPE, DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerAddress, BrokerSinkFactory, ConnectionLost
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

MQTT3: Final = "MQTT3"
MQTT5: Final = "MQTT5"
_SCHEMES: Final = {"mqtts": (8883, True), "mqtt": (1883, False)}
_SETTINGS: Final = {
    MQTT3: ("topicname", "qos", "retain"),
    MQTT5: ("topicname", "qos", "retain", "expiry", "userproperties"),
}
_KEEPALIVE: Final = 60
_WINDOW: Final = 100
_LONGEST_TOPIC: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    protocol: str
    place: BrokerAddress
    user: tuple[str, str]
    topic: str
    qos: int
    retain: bool
    expiry: int | None
    properties: Mapping[str, str]


@dataclass(slots=True)
class _Heard:
    """What the broker answered: to the greeting, at the end, and to each message by its number."""

    greeting: ReasonCode | None = None
    parting: ReasonCode | None = None
    answers: dict[int, ReasonCode] = field(default_factory=dict)


class _Link:
    """A connected client."""

    def __init__(self, target: _Target, policy: SinkPolicy) -> None:
        self._target = target
        self._timeout = policy.timeout
        self._heard = _Heard()
        self._client = _client(target, self._heard, policy.timeout)
        place = target.place
        where = f"{place.host}:{place.port}"
        try:
            self._client.connect(brokers.address_of(place, policy), place.port, _KEEPALIVE)
            self._wait(lambda: self._heard.greeting is not None)
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectionLost(f"{where} cannot be reached: {error}") from None
        except DeliveryError as error:
            self.close()
            raise ConnectionLost(f"{where}: {error}") from None
        greeting = self._heard.greeting
        if greeting is not None and greeting.is_failure:
            self.close()
            raise DeliveryError(f"{where}: the broker does not take the connection: {greeting}")

    def publish(self, events: Sequence[JSONObject]) -> None:
        """Send, and wait for the acknowledgements that the quality of service has; with 0 until they are written."""
        for start in range(0, len(events), _WINDOW):
            try:
                self._publish(events[start : start + _WINDOW])
            except DeliveryError as error:
                error.delivered += start
                raise

    def close(self) -> None:
        """Say good-bye if somebody listens, and hang up."""
        with suppress(OSError, ValueError):
            self._client.disconnect()
        left = self._client.socket()
        if left is not None:
            with suppress(OSError):
                left.close()

    def _publish(self, events: Sequence[JSONObject]) -> None:
        self._heard.answers.clear()
        sent = [self._send(event) for event in events]
        for delivered, number in enumerate(sent):
            try:
                self._wait(lambda number=number: number in self._heard.answers)  # type: ignore[misc]
            except DeliveryError as error:
                error.delivered = delivered
                raise
            answer = self._heard.answers[number]
            if answer.is_failure:
                raise DeliveryError(f"the broker refuses the event: {answer}", delivered=delivered)

    def _send(self, event: JSONObject) -> int:
        target = self._target
        properties = _properties(target) if target.protocol == MQTT5 else None
        return self._client.publish(target.topic, dump_json(event), target.qos, target.retain, properties).mid

    def _wait(self, done: Callable[[], bool]) -> None:
        """Let the client work until it is done. Raises ``Broken``."""
        deadline = time.monotonic() + self._timeout
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"the broker did not answer within {self._timeout:g} seconds")
            code = self._client.loop(left)
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS and not done():
                raise ConnectionLost(str(self._heard.parting or error_string(code)))


class _Named(ssl.SSLContext):
    """Expects a certificate for a name, whatever address the connection goes to."""

    def __new__(cls, _name: str) -> _Named:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, name: str) -> None:
        self._name = name
        self.load_default_certs()

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,  # noqa: ARG002 - it is done here
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,  # noqa: ARG002 - the address
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """As every context, but for the name; a socket that is not taken for it is closed."""
        wrapped = super().wrap_socket(sock, server_side, False, suppress_ragged_eofs, self._name, session)
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped


def _client(target: _Target, heard: _Heard, timeout: float) -> Client:
    version = MQTTProtocolVersion.MQTTv5 if target.protocol == MQTT5 else MQTTProtocolVersion.MQTTv311
    client = Client(CallbackAPIVersion.VERSION2, protocol=version, reconnect_on_failure=False)
    client.connect_timeout = timeout
    if target.user[0]:
        client.username_pw_set(*target.user)
    if target.place.secure:
        client.tls_set_context(_Named(target.place.host))

    def greeted(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        heard.greeting = code

    def parted(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        heard.parting = code

    def answered(_client: Any, _data: Any, number: int, code: ReasonCode, _properties: Any) -> None:
        heard.answers[number] = code

    client.on_connect = greeted
    client.on_disconnect = parted
    client.on_publish = answered
    return client


def _properties(target: _Target) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = EVENT_TYPE
    if target.expiry is not None:
        properties.MessageExpiryInterval = target.expiry
    if target.properties:
        properties.UserProperty = list(target.properties.items())
    return properties


def _target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    place = brokers.read_address(subscription.sink, _SCHEMES)
    brokers.check_allowed(place.host, place.port, place.secure, policy)
    if place.path:
        raise SubscriptionError("/sink: a path means nothing here; the topic is the setting topicname")
    settings = brokers.ProtocolSettings(subscription, _SETTINGS[subscription.protocol])
    topic = settings.text("topicname")
    # What begins with $ is the broker's own.
    if not topic or topic.startswith("$") or set("+#") & set(topic) or len(topic.encode()) > _LONGEST_TOPIC:
        raise brokers.wrong_setting(
            "topicname", f"MQTT needs one: up to {_LONGEST_TOPIC} bytes, no wildcards, no $ first"
        )
    qos = settings.whole("qos", 0, 2)
    return _Target(
        protocol=subscription.protocol,
        place=place,
        user=brokers.read_login(subscription),
        topic=topic,
        qos=1 if qos is None else qos,
        retain=settings.flag("retain"),
        expiry=settings.whole("expiry", 0, 0xFFFFFFFF),
        properties=settings.texts("userproperties"),
    )


FACTORY: Final = BrokerSinkFactory(protocols=(MQTT3, MQTT5), target=_target, connect=_Link)
