"""A client of MQTT that goes on with a lasting session, and works only while it is asked for something."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessage, error_string
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from signalbook.messages.bindings.mqtt import V5
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import brokers
from signalbook.pipeline.sources.spool import ReceivedMessage, SpooledMessage

_KEEPALIVE: Final = 60
_WEEK: Final = 7 * 24 * 3600
_MOST: Final = 500
_QOS: Final = 1
_TAKEN_OVER: Final = 0x8E
# Unavailable, busy, over its quota, connected too often: it may be otherwise in a moment.
_PASSING: Final = (0x88, 0x89, 0x97, 0x9F)


class Lost(Exception):
    """A connection that was lost or could not be made."""


@dataclass(slots=True)
class _Heard:
    """What the broker said."""

    greeting: ReasonCode | None = None
    present: bool = False
    parting: ReasonCode | None = None
    granted: dict[int, list[ReasonCode]] = field(default_factory=dict)
    messages: list[MQTTMessage] = field(default_factory=list)


class SessionLink:
    """A connected client of ``protocol`` with the session ``name``; ``spooled`` says how a message waits.

    Raises ``PipelineError`` where the broker refuses, and ``Lost``.
    """

    def __init__(
        self, protocol: str, broker: brokers.BrokerSettings, name: str, spooled: Callable[[MQTTMessage], SpooledMessage]
    ) -> None:
        self._protocol = protocol
        self._spooled = spooled
        self._broker = broker
        self._heard = _Heard()
        self._client = _client(protocol, broker, name, self._heard)
        try:
            self._reach()
            self._wait(lambda: self._heard.greeting is not None)
        except BaseException:
            self.close()
            raise
        greeting = self._heard.greeting
        if greeting is not None and greeting.is_failure:
            self.close()
            if greeting.value in _PASSING:
                raise Lost(f"the broker {broker} says {greeting}")
            raise PipelineError(f"the broker {broker} does not take the connection: {greeting}")

    @property
    def present(self) -> bool:
        """Whether the broker remembered the session."""
        return self._heard.present

    def subscribe(self, filters: Iterable[str]) -> None:
        """Begin to receive what fits. Raises ``PipelineError`` for what the broker does not allow."""
        for each in filters:
            number = self._client.subscribe(each, _QOS)[1]
            self._wait(lambda number=number: number in self._heard.granted)  # type: ignore[misc]
            refused = next((code for code in self._heard.granted[number or 0] if code.is_failure), None)
            if refused is not None:
                raise PipelineError(f"the broker {self._broker} does not let us receive {each}: {refused}")

    def unsubscribe(self, filters: Iterable[str]) -> None:
        """Receive these no more."""
        for each in filters:
            number = self._client.unsubscribe(each)[1]
            self._wait(lambda number=number: number in self._heard.granted)  # type: ignore[misc]

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """What comes, a few hundred messages at most."""
        messages = self._heard.messages
        self._loop(0.0 if messages else seconds)
        count = 0
        while count < len(messages) < _MOST:
            count = len(messages)
            self._loop(0.0)
        found, self._heard.messages[:] = list(messages), []
        return [ReceivedMessage(message=self._spooled(each), token=each) for each in found]

    def confirm(self, arrivals: Sequence[ReceivedMessage]) -> None:
        """Acknowledge."""
        for arrival in arrivals:
            if arrival.token.qos:
                self._check(self._client.ack(arrival.token.mid, arrival.token.qos))

    def close(self) -> None:
        """Say good-bye if somebody listens, and hang up; the session stays."""
        with suppress(OSError, ValueError):
            self._client.disconnect()
        left = self._client.socket()
        if left is not None:
            with suppress(OSError):
                left.close()

    def _reach(self) -> None:
        failure: Exception = Lost("no server")
        for host, port in self._broker.hosts:
            try:
                self._client.connect(host, port, _KEEPALIVE, **_session(self._protocol, self._broker))
                return
            except ssl.SSLCertVerificationError as error:
                raise PipelineError(
                    f"the certificate of {host}:{port} is not trusted: {error.verify_message}"
                ) from None
            except (OSError, ValueError) as error:
                failure = Lost(f"{host}:{port} cannot be reached: {error}")
        raise failure

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._broker.timeout
        while not done():
            if time.monotonic() > deadline:
                raise Lost(f"the broker {self._broker} did not answer within {self._broker.timeout:g} seconds")
            self._loop(0.5, done)

    def _loop(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        code = self._client.loop(seconds)
        if not done():
            self._check(code)

    def _check(self, code: MQTTErrorCode) -> None:
        parting = self._heard.parting
        if parting is not None and parting.value == _TAKEN_OVER:
            raise PipelineError(f"another client of {self._broker} goes by the same clientId: give this one another")
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise Lost(f"the broker {self._broker}: {parting or error_string(code)}")


def _client(protocol: str, broker: brokers.BrokerSettings, name: str, heard: _Heard) -> Client:
    version = MQTTProtocolVersion.MQTTv5 if protocol == V5 else MQTTProtocolVersion.MQTTv311
    client = Client(
        CallbackAPIVersion.VERSION2,
        name,
        protocol=version,
        clean_session=None if protocol == V5 else False,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.connect_timeout = broker.timeout
    if broker.login[0]:
        client.username_pw_set(*broker.login)
    if broker.secure:
        context = broker.context()
        context.sslsocket_class = _Closing
        client.tls_set_context(context)
    _listen(client, heard)
    return client


class _Closing(ssl.SSLSocket):
    """A socket that nobody has to close if its greeting fails: the client does not."""

    def do_handshake(self, block: bool = False) -> None:
        """As every socket."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def _listen(client: Client, heard: _Heard) -> None:
    def greeted(_client: Any, _data: Any, flags: Any, code: ReasonCode, _properties: Any) -> None:
        heard.greeting, heard.present = code, flags.session_present

    def parted(_client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        heard.parting = code

    def granted(_client: Any, _data: Any, number: int, codes: list[ReasonCode], _properties: Any) -> None:
        heard.granted[number] = codes

    def came(_client: Any, _data: Any, message: MQTTMessage) -> None:
        heard.messages.append(message)

    client.on_connect = greeted
    client.on_disconnect = parted
    client.on_subscribe = granted
    client.on_unsubscribe = granted
    client.on_message = came


def _session(protocol: str, broker: brokers.BrokerSettings) -> dict[str, Any]:
    """What a connection of 5.0 says of its session: how long it stays, and how much of it may be on its way."""
    if protocol != V5:
        return {}
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = int(broker.options.get("sessionExpiry", _WEEK))
    properties.ReceiveMaximum = _MOST
    return {"clean_start": False, "properties": properties}
