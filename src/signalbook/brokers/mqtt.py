"""A client of MQTT 3.1.1 and 5.0. It has no thread: it sends and receives only during calls of its methods."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from paho.mqtt.client import Client, MQTTMessage, error_string
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from signalbook.brokers.connection import (
    BrokerError,
    BrokerRefused,
    BrokerSettings,
    BrokerTimeout,
    BrokerUnavailable,
    UntrustedCertificate,
)

_KEEPALIVE: Final = 60
_STEP_SECONDS: Final = 0.5
# The most unacknowledged messages at a time that we send, and that the broker may send.
_PUBLISH_WINDOW: Final = 100
_RECEIVE_MAXIMUM: Final = 500
# Seconds for which further messages are received that arrive without a pause, to limit the memory for large messages.
_TOGETHER: Final = 0.1
# Quality of service to subscribe with. With 2 the library would confirm messages before they can be written to disk.
_QOS: Final = 1
_SESSION_TAKEN_OVER: Final = 0x8E
# Reason codes that may pass: server unavailable, server busy, quota exceeded, connection rate exceeded.
_PASSING: Final = (0x88, 0x89, 0x97, 0x9F)


@dataclass(frozen=True, slots=True, kw_only=True)
class MQTTSession:
    """A session that the broker keeps while the client is not connected.

    ``name`` is the client identifier, ``expiry`` the seconds for which the broker keeps the session. MQTT 3.1.1 does
    not use ``expiry``.
    """

    name: str
    expiry: int


@dataclass(slots=True)
class _Responses:
    """The responses of the broker: to the connection, at its end, and to each packet by the packet identifier."""

    connected: ReasonCode | None = None
    session_present: bool = False
    disconnected: ReasonCode | None = None
    published: dict[int, ReasonCode] = field(default_factory=dict)
    subscribed: dict[int, list[ReasonCode]] = field(default_factory=dict)
    messages: list[MQTTMessage] = field(default_factory=list)


class MQTTClient:
    """A connection with MQTT ``version`` 3 or 5, for use by one thread. Methods raise ``BrokerError``.

    With a ``session`` the client resumes it, and received messages must be acknowledged.
    """

    def __init__(self, settings: BrokerSettings, version: int, session: MQTTSession | None = None) -> None:
        self._settings = settings
        self._responses = _Responses()
        self._context: _HostContext | None = None
        self._client = self._make(version, session)
        try:
            self._connect(_build_session_options(version, session))
            self._wait(lambda: self._responses.connected is not None)
        except BaseException:
            self.close()
            raise
        response = self._responses.connected
        if response is not None and response.is_failure:
            self.close()
            kind = BrokerUnavailable if response.value in _PASSING else BrokerRefused
            raise kind(f"the broker does not take the connection: {response}")

    @property
    def session_present(self) -> bool:
        """True if the broker remembered the session."""
        return self._responses.session_present

    def publish(
        self,
        messages: Sequence[bytes],
        topic: str,
        *,
        qos: int,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> Iterator[None]:
        """Send messages in order. Yield once for each acknowledged message, with ``qos`` 0 for each written message."""
        for start in range(0, len(messages), _PUBLISH_WINDOW):
            self._responses.published.clear()  # packet identifiers are reused
            window = messages[start : start + _PUBLISH_WINDOW]
            numbers = [self._client.publish(topic, message, qos, retain, properties).mid for message in window]
            for number in numbers:
                self._wait(lambda number=number: number in self._responses.published)  # type: ignore[misc]
                response = self._responses.published[number]
                if response.is_failure:
                    raise BrokerRefused(f"the broker refuses the event: {response}")
                yield

    def subscribe(self, filters: Iterable[str]) -> None:
        """Subscribe to topic ``filters``. Raises ``BrokerRefused`` if the broker refuses a filter."""
        for topic_filter in filters:  # one by one, so that a refusal can be reported with its filter
            number = self._client.subscribe(topic_filter, _QOS)[1]
            self._wait(lambda number=number: number in self._responses.subscribed)  # type: ignore[misc]
            refused = next((code for code in self._responses.subscribed[number or 0] if code.is_failure), None)
            if refused is not None:
                raise BrokerRefused(f"the broker does not let us receive {topic_filter}: {refused}")

    def unsubscribe(self, filters: Iterable[str]) -> None:
        """Unsubscribe from topic ``filters``."""
        for topic_filter in filters:
            number = self._client.unsubscribe(topic_filter)[1]
            self._wait(lambda number=number: number in self._responses.subscribed)  # type: ignore[misc]

    def receive(self, seconds: float) -> list[MQTTMessage]:
        """Return the messages that arrive, at most a few hundred. Return none if nothing arrives within ``seconds``."""
        messages = self._responses.messages
        # Messages may have arrived while another call waited: return these without waiting for more.
        self._run_loop(0.0 if messages else seconds)
        count, end = 0, time.monotonic() + _TOGETHER
        while count < len(messages) < _RECEIVE_MAXIMUM and time.monotonic() < end:
            count = len(messages)
            self._run_loop(0.0)
        received, messages[:] = list(messages), []
        return received

    def acknowledge(self, messages: Iterable[MQTTMessage]) -> None:
        """Acknowledge messages. The broker sends unacknowledged messages again on the next connection."""
        for message in messages:
            if message.qos:
                self._check(self._client.ack(message.mid, message.qos))

    def keep_alive(self) -> None:
        """Send a ping to the broker if one is due, without receiving messages."""
        self._check(self._client.loop_misc())

    def close(self) -> None:
        """Disconnect and close the connection, whatever its state. The broker keeps the session. Raises nothing."""
        with suppress(OSError, ValueError):
            self._client.disconnect()
        # The library would close its socket in the next run of its loop, which does not run any more.
        open_socket = self._client.socket()
        if open_socket is not None:
            with suppress(OSError):
                open_socket.close()

    def _make(self, version: int, session: MQTTSession | None) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            session.name if session else "",
            protocol=MQTTProtocolVersion.MQTTv5 if version == 5 else MQTTProtocolVersion.MQTTv311,
            clean_session=None if version == 5 else session is None,
            # We reconnect ourselves, so that the library does not send old messages after those that we send again.
            reconnect_on_failure=False,
            # We acknowledge messages when they are on the disk; the library would do so before we see them.
            manual_ack=session is not None,
        )
        client.connect_timeout = self._settings.timeout
        if self._settings.user:
            client.username_pw_set(self._settings.user, self._settings.password)
        if self._settings.secure:
            self._context = _HostContext(self._settings.tls_context())
            client.tls_set_context(cast("ssl.SSLContext", self._context))
        _listen(client, self._responses)
        return client

    def _connect(self, options: Mapping[str, Any]) -> None:
        """Connect to the first server that can be reached."""
        failure: BrokerError = BrokerUnavailable("no server is named")
        for host, port in self._settings.servers:
            address = self._settings.address(host, port)
            if self._context is not None:
                # Set the name before connecting: the library passes the address, which certificates do not contain.
                self._context.host = host
            try:
                self._client.connect(address, port, _KEEPALIVE, **options)
                return
            except ssl.SSLCertVerificationError as error:
                raise UntrustedCertificate(f"the certificate of {host}:{port} is not trusted: {error}") from None
            except (OSError, ValueError) as error:
                failure = BrokerUnavailable(f"{host}:{port} cannot be reached: {error}")
        raise failure

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Run the client until ``is_done`` returns True. Raises ``BrokerTimeout`` after the timeout of the settings."""
        deadline = time.monotonic() + self._settings.timeout
        while not is_done():
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise BrokerTimeout(f"the broker did not answer within {self._settings.timeout:g} seconds")
            self._run_loop(min(seconds_left, _STEP_SECONDS), is_done)

    def _run_loop(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> None:
        try:
            code = self._client.loop(seconds)
        except OSError as error:
            raise BrokerUnavailable(str(error)) from None
        if not is_done():  # the broker may close the connection directly after its response
            self._check(code)

    def _check(self, code: MQTTErrorCode) -> None:
        reason = self._responses.disconnected
        if reason is not None and reason.value == _SESSION_TAKEN_OVER:
            raise BrokerRefused("another client goes by the same clientId: give this one another")
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise BrokerUnavailable(str(reason or error_string(code)))


@dataclass(frozen=True, slots=True)
class MQTTPublisher:
    """A publisher of messages to one topic through ``client``."""

    client: MQTTClient
    topic: str
    qos: int
    retain: bool = False
    properties: Properties | None = None

    def publish(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Send messages in order. Yield once for each confirmed message."""
        return self.client.publish(messages, self.topic, qos=self.qos, retain=self.retain, properties=self.properties)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class _HostContext:
    """A TLS context that checks certificates for the name ``host``, whatever address the connection uses.

    The library itself would check for the address, and would leave the socket open if the handshake fails.
    """

    check_hostname = True
    host = ""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_socket(self, sock: socket.socket, **_: Any) -> ssl.SSLSocket:
        """Return ``sock`` with TLS, after the handshake. The socket is closed if the handshake fails."""
        wrapped = self._context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=self.host)
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped


def publish_properties(content_type: str, expiry: int | None, user: Mapping[str, str]) -> Properties:
    """Return the properties of an MQTT 5.0 message. ``expiry`` is in seconds; ``user`` are user properties."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = content_type
    if expiry is not None:
        properties.MessageExpiryInterval = expiry
    if user:
        properties.UserProperty = list(user.items())
    return properties


def _build_session_options(version: int, session: MQTTSession | None) -> dict[str, Any]:
    """Return the options for resuming ``session`` with MQTT 5.0; empty for version 3 or without a session.

    The options set the expiry of the session, and the most unacknowledged messages that the broker may send.
    """
    if version != 5 or session is None:
        return {}
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = session.expiry
    properties.ReceiveMaximum = _RECEIVE_MAXIMUM
    return {"clean_start": False, "properties": properties}


def _listen(client: Client, responses: _Responses) -> None:
    def connected(_client: Any, _data: Any, flags: Any, code: ReasonCode, _properties: Any) -> None:
        responses.connected, responses.session_present = code, flags.session_present

    def disconnected(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        responses.disconnected = code

    def published(_client: Any, _data: Any, number: int, code: ReasonCode, _properties: Any) -> None:
        responses.published[number] = code

    def subscribed(_client: Any, _data: Any, number: int, codes: list[ReasonCode], _properties: Any) -> None:
        responses.subscribed[number] = codes

    def received(_client: Any, _data: Any, message: MQTTMessage) -> None:
        responses.messages.append(message)

    client.on_connect = connected
    client.on_disconnect = disconnected
    client.on_publish = published
    client.on_subscribe = subscribed
    client.on_unsubscribe = subscribed
    client.on_message = received
