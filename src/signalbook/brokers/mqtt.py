"""A client of MQTT 3.1.1 and 5.0, which works only while it is asked for something: it has no thread of its own."""

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
# So many messages are on their way at once, in either direction.
_PUBLISH_WINDOW: Final = 100
_RECEIVE_MAXIMUM: Final = 500
# Seconds in which more is received that comes right behind: of large messages that is much.
_TOGETHER: Final = 0.1
# What is sent with quality of service 2 is received with 1, too: the library confirms it before anybody can write it.
_QOS: Final = 1
_SESSION_TAKEN_OVER: Final = 0x8E
# Unavailable, busy, over its quota, connected too often: it may be otherwise in a moment.
_PASSING: Final = (0x88, 0x89, 0x97, 0x9F)


@dataclass(frozen=True, slots=True, kw_only=True)
class MQTTSession:
    """A session that the broker keeps while nobody is connected: the client's ``name``, and for how many seconds.

    MQTT 3.1.1 knows no ``expiry``.
    """

    name: str
    expiry: int


@dataclass(slots=True)
class _Responses:
    """The broker's answers: to the connection, at its end, and to each packet by its number."""

    connected: ReasonCode | None = None
    session_present: bool = False
    disconnected: ReasonCode | None = None
    published: dict[int, ReasonCode] = field(default_factory=dict)
    subscribed: dict[int, list[ReasonCode]] = field(default_factory=dict)
    messages: list[MQTTMessage] = field(default_factory=list)


class MQTTClient:
    """A connection of one version, 3 or 5. For one thread. Everything raises ``BrokerError``.

    With a ``session`` it goes on with that, and what it receives has to be acknowledged.
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
        """Send messages in order; yields once for each that is acknowledged, with ``qos`` 0 that is written."""
        for start in range(0, len(messages), _PUBLISH_WINDOW):
            self._responses.published.clear()  # packet numbers are used again
            window = messages[start : start + _PUBLISH_WINDOW]
            numbers = [self._client.publish(topic, message, qos, retain, properties).mid for message in window]
            for number in numbers:
                self._wait(lambda number=number: number in self._responses.published)  # type: ignore[misc]
                response = self._responses.published[number]
                if response.is_failure:
                    raise BrokerRefused(f"the broker refuses the event: {response}")
                yield

    def subscribe(self, filters: Iterable[str]) -> None:
        """Begin to receive what fits."""
        for topic_filter in filters:  # one by one, so that a refusal can be reported with its filter
            number = self._client.subscribe(topic_filter, _QOS)[1]
            self._wait(lambda number=number: number in self._responses.subscribed)  # type: ignore[misc]
            refused = next((code for code in self._responses.subscribed[number or 0] if code.is_failure), None)
            if refused is not None:
                raise BrokerRefused(f"the broker does not let us receive {topic_filter}: {refused}")

    def unsubscribe(self, filters: Iterable[str]) -> None:
        """Receive these no more."""
        for topic_filter in filters:
            number = self._client.unsubscribe(topic_filter)[1]
            self._wait(lambda number=number: number in self._responses.subscribed)  # type: ignore[misc]

    def receive(self, seconds: float) -> list[MQTTMessage]:
        """Return the messages that arrive, at most a few hundred, or none after ``seconds``."""
        messages = self._responses.messages
        # Some may have come while something else was waited for: those are not to wait for more.
        self._run_loop(0.0 if messages else seconds)
        count, end = 0, time.monotonic() + _TOGETHER
        while count < len(messages) < _RECEIVE_MAXIMUM and time.monotonic() < end:
            count = len(messages)
            self._run_loop(0.0)
        received, messages[:] = list(messages), []
        return received

    def acknowledge(self, messages: Iterable[MQTTMessage]) -> None:
        """Acknowledge messages. Others come again with the next connection."""
        for message in messages:
            if message.qos:
                self._check(self._client.ack(message.mid, message.qos))

    def keep_alive(self) -> None:
        """Ask the broker for an answer if it is time for that, without receiving anything."""
        self._check(self._client.loop_misc())

    def close(self) -> None:
        """Say good-bye if somebody listens, and hang up, whatever state it is in; a session stays. Raises nothing."""
        with suppress(OSError, ValueError):
            self._client.disconnect()
        # The library closes its socket when its loop runs next, and nobody runs it any more.
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
            # By us, so that nothing the library still holds is sent behind what we send again.
            reconnect_on_failure=False,
            # Acknowledged by us, once a message is on the disk: the library would do so before we see it.
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
                # Before connecting: the library hands the context an address, for which no certificate is good.
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
        """Let the client work until it is done."""
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
        if not is_done():  # a broker may answer and hang up at once
            self._check(code)

    def _check(self, code: MQTTErrorCode) -> None:
        reason = self._responses.disconnected
        if reason is not None and reason.value == _SESSION_TAKEN_OVER:
            raise BrokerRefused("another client goes by the same clientId: give this one another")
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise BrokerUnavailable(str(reason or error_string(code)))


@dataclass(frozen=True, slots=True)
class MQTTPublisher:
    """Sends messages to one topic over a client."""

    client: MQTTClient
    topic: str
    qos: int
    retain: bool = False
    properties: Properties | None = None

    def publish(self, messages: Sequence[bytes]) -> Iterator[None]:
        """Publish messages by the client."""
        return self.client.publish(messages, self.topic, qos=self.qos, retain=self.retain, properties=self.properties)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class _HostContext:
    """TLS for the name of a server, whatever address the connection goes to.

    The library would take the address for the name, and leave a socket open whose handshake fails.
    """

    check_hostname = True
    host = ""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_socket(self, sock: socket.socket, **_: Any) -> ssl.SSLSocket:
        """Wrap a socket and do the handshake. The socket is closed if that fails."""
        wrapped = self._context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=self.host)
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped


def publish_properties(content_type: str, expiry: int | None, user: Mapping[str, str]) -> Properties:
    """Return the properties of an MQTT 5.0 message."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = content_type
    if expiry is not None:
        properties.MessageExpiryInterval = expiry
    if user:
        properties.UserProperty = list(user.items())
    return properties


def _build_session_options(version: int, session: MQTTSession | None) -> dict[str, Any]:
    """Return the session options of a 5.0 connection: its expiry, and how many messages may wait for us."""
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
