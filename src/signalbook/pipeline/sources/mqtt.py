"""Topics of MQTT: ``mqtt://HOST:PORT/FILTER[,FILTER]``, wildcards as they are; ``mqtts://`` with TLS.

The session is a lasting one: what is sent while nobody listens waits at the broker. Messages are asked for with quality
of service 1, also those that were sent with 2: the client library confirms the latter before anybody can write them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from paho.mqtt.client import MQTTMessage
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Message
from signalbook.messages.bindings.mqtt import V3, V5, publish
from signalbook.pipeline import headers
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import brokers, spooled
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.mqttlink import Lost, SessionLink
from signalbook.pipeline.sources.spool import MessageSpool, ReceivingConnection, SessionMemory, SpooledMessage

_KIND: Final = brokers.BrokerKind(
    name="MQTT",
    form="mqtt://HOST:PORT/TOPIC/FILTER",
    schemes={"mqtt": (1883, False), "mqtts": (8883, True)},
    options=("clientId", "sessionExpiry", "failOnDataLoss", spooled.SPOOL_LIMIT),
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


class Mqtt:
    """Messages of one version of the protocol, ``protocol`` by its canonical name."""

    packages: tuple[str, ...] = ()
    cloudevents_json = True
    passing: tuple[type[Exception], ...] = (OSError, Lost)

    def __init__(self, name: str, protocol: str) -> None:
        self.name = name
        self.protocol = protocol

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:  # noqa: ARG002
        """There is none. Raises ``PipelineError``."""
        return spooled.refuse_batch(self)

    def load_stream(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], most: int, home: Path
    ) -> DataFrame:
        """What comes from the first subscription on, and what waits at the broker."""
        return spooled.load_spooled_stream(self, session, inputs, options, most, home)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The message, with all that the broker said of it."""
        assert batch.records is not None
        row = batch.records.slice(index, 1).to_pylist()[0]
        return self._message(row["address"], row["key"], row["value"], row["received_at"], reference=batch.path)

    def broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerSettings:
        """Where the messages are. Raises ``PipelineError``."""
        return _wanted(inputs, options)[0]

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """A connection with the session that the spool remembers. Raises ``PipelineError`` and what may pass."""
        broker, filters = _wanted(inputs, options)
        memory = _memory(spool, broker.options.get("clientId", ""))
        link = SessionLink(self.protocol, broker, memory.name, self.spooled)
        try:
            _resume(link, broker, spool, memory, filters)
        except BaseException:
            link.close()
            raise
        return link

    def spooled(self, received: MQTTMessage) -> SpooledMessage:
        """A message as it waits."""
        sections: dict[str, Any] = {"qos": received.qos, "retain": received.retain}
        for name, theirs in _PROPERTIES.items() if received.properties else ():
            value = getattr(received.properties, theirs, None)
            if value is not None:
                sections[name] = value
        key, address, payload = msgspec.msgpack.encode(sections), _topic(received), bytes(received.payload)
        named = headers.encoded(headers.carried(self._message(address, key, payload)))
        return SpooledMessage(
            address=address, value=payload, headers=named, key=key, received_at=time.time_ns() // 1000
        )

    def _message(self, topic: str, key: bytes, payload: bytes, received_at: Any = None, reference: str = "") -> Message:
        sections = msgspec.msgpack.decode(key)
        if "user_properties" in sections:
            sections["user_properties"] = tuple(map(tuple, sections["user_properties"]))
        return publish(
            self.protocol, payload, {"topic_name": topic, **sections}, received_at=received_at, reference=reference
        )


MQTT3: Final = Mqtt("mqtt3", V3)
MQTT5: Final = Mqtt("mqtt5", V5)


def _wanted(inputs: Sequence[str], options: Mapping[str, str]) -> tuple[brokers.BrokerSettings, tuple[str, ...]]:
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


def _memory(spool: MessageSpool, name: str) -> SessionMemory:
    """The session to go on with."""
    known = spool.memory()
    if known is not None and name in ("", known.name):
        return known
    return spool.remember(SessionMemory(name=name or f"signalbook-{secrets.token_hex(6)}"))


def _resume(
    link: SessionLink,
    broker: brokers.BrokerSettings,
    spool: MessageSpool,
    memory: SessionMemory,
    filters: Sequence[str],
) -> None:
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
        spool.remember(SessionMemory(name=memory.name, what=tuple(filters)))


def _topic(received: MQTTMessage) -> str:
    try:
        return received.topic
    except UnicodeDecodeError:
        return ""  # no broker should let it pass
