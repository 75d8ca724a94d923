"""Topics of MQTT: ``mqtt://HOST:PORT/FILTER[,FILTER]``, wildcards as they are; ``mqtts://`` with TLS.

The session is a lasting one: what is sent while nobody listens waits at the broker. Messages are asked for with quality
of service 1, also those that were sent with 2: the client library confirms the latter before anybody can write them.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from paho.mqtt.client import Client, MQTTMessage, error_string
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Message
from signalbook.messages.bindings.mqtt import V3, V5, publish
from signalbook.pipeline import headers
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources import brokers, spooled
from signalbook.pipeline.sources.base import Frame
from signalbook.pipeline.sources.receiving import Arrival, Link
from signalbook.pipeline.sources.spool import Memory, Spool, Spooled

_KIND: Final = brokers.Kind(
    name="MQTT",
    form="mqtt://HOST:PORT/TOPIC/FILTER",
    schemes={"mqtt": (1883, False), "mqtts": (8883, True)},
    options=("clientId", "sessionExpiry", "failOnDataLoss"),
    hashes=True,
)
_PROPERTIES: Final = {
    "payload_format_indicator": "PayloadFormatIndicator",
    "message_expiry_interval": "MessageExpiryInterval",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "content_type": "ContentType",
    "user_properties": "UserProperty",
}
_LONGEST: Final = 65_535
_KEEPALIVE: Final = 60
_WEEK: Final = 7 * 24 * 3600
_MOST: Final = 500
_QOS: Final = 1
_TAKEN_OVER: Final = 0x8E
# Unavailable, busy, over its quota, connected too often: it may be otherwise in a moment.
_PASSING: Final = (0x88, 0x89, 0x97, 0x9F)


class Lost(Exception):
    """A connection that was lost or could not be made."""


class Mqtt:
    """Messages of one version of the protocol, ``protocol`` by its canonical name."""

    packages: tuple[str, ...] = ()
    cloudevents_json = True
    passing: tuple[type[Exception], ...] = (OSError, Lost)

    def __init__(self, name: str, protocol: str) -> None:
        self.name = name
        self.protocol = protocol

    def batch(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:  # noqa: ARG002
        """There is none. Raises ``PipelineError``."""
        return spooled.refuse(self)

    def stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Path
    ) -> DataFrame:
        """What comes from the first subscription on, and what waits at the broker."""
        return spooled.stream(self, session, inputs, options, most, home)

    def message(self, frame: Frame, index: int) -> Message:
        """The message, with all that the broker said of it."""
        assert frame.records is not None
        row = frame.records.slice(index, 1).to_pylist()[0]
        return self._message(row["address"], row["key"], row["value"], row["received_at"], reference=frame.path)

    def broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> brokers.Broker:
        """Where the messages are. Raises ``PipelineError``."""
        return _wanted(inputs, options)[0]

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: Spool) -> Link:
        """A connection with the session that the spool remembers. Raises ``PipelineError`` and what may pass."""
        broker, filters = _wanted(inputs, options)
        memory = _memory(spool, broker.options.get("clientId", ""))
        link = _Link(self, broker, memory.name)
        try:
            _resume(link, broker, spool, memory, filters)
        except BaseException:
            link.close()
            raise
        return link

    def spooled(self, received: MQTTMessage) -> Spooled:
        """A message as it waits."""
        sections: dict[str, Any] = {"qos": received.qos, "retain": received.retain}
        for name, theirs in _PROPERTIES.items() if received.properties else ():
            value = getattr(received.properties, theirs, None)
            if value is not None:
                sections[name] = value
        key, address, payload = msgspec.msgpack.encode(sections), _topic(received), bytes(received.payload)
        named = headers.encoded(headers.carried(self._message(address, key, payload)))
        return Spooled(address=address, value=payload, headers=named, key=key, received_at=time.time_ns() // 1000)

    def _message(self, topic: str, key: bytes, payload: bytes, received_at: Any = None, reference: str = "") -> Message:
        sections = msgspec.msgpack.decode(key)
        if "user_properties" in sections:
            sections["user_properties"] = tuple(map(tuple, sections["user_properties"]))
        return publish(
            self.protocol, payload, {"topic_name": topic, **sections}, received_at=received_at, reference=reference
        )


MQTT3: Final = Mqtt("mqtt3", V3)
MQTT5: Final = Mqtt("mqtt5", V5)


@dataclass(slots=True)
class _Heard:
    """What the broker said."""

    greeting: ReasonCode | None = None
    present: bool = False
    parting: ReasonCode | None = None
    granted: dict[int, list[ReasonCode]] = field(default_factory=dict)
    messages: list[MQTTMessage] = field(default_factory=list)


class _Link:
    """A connected client, which works only while it is asked for something."""

    def __init__(self, source: Mqtt, broker: brokers.Broker, name: str) -> None:
        self._source = source
        self._broker = broker
        self._heard = _Heard()
        self._client = _client(source.protocol, broker, name, self._heard)
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

    def receive(self, seconds: float) -> Sequence[Arrival]:
        """What comes, a few hundred messages at most."""
        messages = self._heard.messages
        self._loop(0.0 if messages else seconds)
        count = 0
        while count < len(messages) < _MOST:
            count = len(messages)
            self._loop(0.0)
        found, self._heard.messages[:] = list(messages), []
        return [Arrival(message=self._source.spooled(each), token=each) for each in found]

    def confirm(self, arrivals: Sequence[Arrival]) -> None:
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
                self._client.connect(host, port, _KEEPALIVE, **_session(self._source.protocol, self._broker))
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


def _wanted(inputs: Sequence[str], options: Mapping[str, str]) -> tuple[brokers.Broker, tuple[str, ...]]:
    broker, filters = _KIND.read(inputs, options)
    if not filters:
        raise PipelineError(f"name the topics of {broker}, as {_KIND.form}")
    for each in filters:
        levels = each.split("/")
        alone = all(level in ("+", "#") or not set("+#") & set(level) for level in levels)
        if not alone or "#" in levels[:-1] or "\0" in each or len(each.encode()) > _LONGEST:
            raise PipelineError(f"{each!r} is no topic filter of MQTT: + stands for one level, # for all that follow")
    expiry = broker.options.get("sessionExpiry", "0")
    if not expiry.isdecimal() or int(expiry) > 0xFFFFFFFF:
        raise PipelineError("the option sessionExpiry is a whole number of seconds")
    if broker.options.get("failOnDataLoss", "true") not in ("true", "false"):
        raise PipelineError("the option failOnDataLoss is true or false")
    return broker, filters


def _memory(spool: Spool, name: str) -> Memory:
    """The session to go on with."""
    known = spool.memory()
    if known is not None and name in ("", known.name):
        return known
    return spool.remember(Memory(name=name or f"signalbook-{secrets.token_hex(6)}"))


def _resume(link: _Link, broker: brokers.Broker, spool: Spool, memory: Memory, filters: Sequence[str]) -> None:
    """Have the session receive what is wanted now. Raises ``PipelineError`` if the broker forgot it."""
    what = memory.what
    if what and (memory.lost or not link.present):
        if not memory.lost:  # from now on the broker has a session of that name again, which receives nothing
            spool.remember(msgspec.structs.replace(memory, lost=True))
        if broker.options.get("failOnDataLoss") != "false":
            raise PipelineError(
                f"the broker {broker} forgot the session {memory.name} and what it kept for it: have it keep sessions "
                "longer, and go on without what is gone by the option failOnDataLoss = false"
            )
        what = ()
    if memory.lost or set(what) != set(filters):
        link.subscribe(each for each in filters if each not in what)
        link.unsubscribe(each for each in what if each not in filters)
        spool.remember(Memory(name=memory.name, what=tuple(filters)))


def _client(protocol: str, broker: brokers.Broker, name: str, heard: _Heard) -> Client:
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


def _session(protocol: str, broker: brokers.Broker) -> dict[str, Any]:
    """What a connection of 5.0 says of its session: how long it stays, and how much of it may be on its way."""
    if protocol != V5:
        return {}
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = int(broker.options.get("sessionExpiry", _WEEK))
    properties.ReceiveMaximum = _MOST
    return {"clean_start": False, "properties": properties}


def _topic(received: MQTTMessage) -> str:
    try:
        return received.topic
    except UnicodeDecodeError:
        return ""  # no broker should let it pass
