"""Sources for MQTT topics: ``mqtt://HOST:PORT/FILTER[,FILTER]``, with TLS ``mqtts://``. Filters may have wildcards.

The session is persistent, so that the broker keeps messages while no client is connected. Messages are received with
quality of service 1 even if they were sent with 2, because the client library would confirm the latter before they can
be written to disk.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from paho.mqtt.client import MQTTMessage

from signalbook.brokers.mqtt import MQTTClient, MQTTSession
from signalbook.messages import Message, format_sections
from signalbook.messages.bindings.mqtt import V3, V5, publish
from signalbook.messages.bindings.options import detect_format
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import brokers, receiver
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.message_records import MessageRecords, format_reference, select_rows
from signalbook.pipeline.sources.receiver import ReceivedMessage, ReceivingConnection, SpoolingSource
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, SpoolSession

_INPUTS: Final = brokers.BrokerInputFormat(
    name="MQTT",
    form="mqtt://HOST:PORT/TOPIC/FILTER",
    schemes={"mqtt": (1883, False), "mqtts": (8883, True)},
    options=("clientId", "sessionExpiry", "failOnDataLoss", receiver.SPOOL_LIMIT),
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
# Types of values that JSON has, and the only ASCII character that our JSON escapes although JSON allows it.
_PLAIN: Final = frozenset({str, int, bool})
_DELETE: Final = "\x7f"
_WEEK: Final = 7 * 24 * 3600


class Mqtt(SpoolingSource):
    """The source for one version of MQTT. ``protocol`` is the canonical name of the version.

    A stream has the messages that arrive from the first subscription on, including those that the broker has kept.
    """

    cloudevents_json = True

    def __init__(self, name: str, protocol: str) -> None:
        self.name = name
        self.protocol = protocol

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message at ``index``, with topic, properties and time."""
        row = batch.record(index, "address", "key", "value", "received_at")
        return self._build_message(row["address"], row["key"], row["value"], row["received_at"], reference=batch.path)

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the dead-letter records of the messages at ``indices``."""
        rows = select_rows(batch, indices)
        topics, keys = rows.column("address"), rows.column("key").to_pylist()
        sections = [_read_sections(topic, key) for topic, key in zip(topics.to_pylist(), keys, strict=True)]
        if self.protocol == V5:
            stated = [str(section.get("content_type") or "") for section in sections]
        else:
            stated = [detect_format(body) for body in rows.column("value").to_pylist()]
        return MessageRecords.of(
            self.protocol,
            rows,
            addresses=topics,
            content_types=pa.array(stated, pa.string()),
            encodings=pa.nulls(len(rows), pa.string()),
            references=format_reference(batch.path, len(rows)),
            sections=pa.array(list(map(_format_sections, sections)), pa.string()),
        )

    def parse_broker(self, inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerInput:
        """Return the broker that ``inputs`` name. Raises ``PipelineError`` for invalid addresses and options."""
        return _read_input(inputs, options)

    def connect(self, inputs: Sequence[str], options: Mapping[str, str], spool: MessageSpool) -> ReceivingConnection:
        """Return a connection with the session that ``spool`` stores.

        Raises ``PipelineError``, and ``BrokerUnavailable`` for errors that may pass.
        """
        broker = _read_input(inputs, options)
        session = _choose_session(spool, broker.options.get("clientId", ""))
        expiry = int(broker.options.get("sessionExpiry", _WEEK))
        with broker.convert_refusals():
            version = 5 if self.protocol == V5 else 3
            client = MQTTClient(broker.settings, version, MQTTSession(name=session.name, expiry=expiry))
            try:
                _resume(client, broker, spool, session)
            except BaseException:
                client.close()
                raise
        return _Connection(client, broker, self.build_spooled)

    def build_spooled(self, received: MQTTMessage) -> SpooledMessage:
        """Return a received message in the form for the spool."""
        sections: dict[str, Any] = {"qos": received.qos, "retain": received.retain}
        for name, theirs in _PROPERTIES.items() if received.properties else ():
            value = getattr(received.properties, theirs, None)
            if value is not None:
                sections[name] = value
        key, address, payload = msgspec.msgpack.encode(sections), _read_topic(received), bytes(received.payload)
        headers = arrays.encode_headers(arrays.list_headers(self._build_message(address, key, payload)))
        return SpooledMessage(
            address=address, value=payload, headers=headers, key=key, received_at=time.time_ns() // 1000
        )

    def _build_message(
        self, topic: str, key: bytes, payload: bytes, received_at: Any = None, reference: str = ""
    ) -> Message:
        return publish(self.protocol, payload, _read_sections(topic, key), received_at=received_at, reference=reference)


def _read_sections(topic: str, key: bytes) -> dict[str, Any]:
    """Return topic and properties of a message from the ``key`` that ``build_spooled`` made."""
    sections = msgspec.msgpack.decode(key)
    if "user_properties" in sections:
        sections["user_properties"] = tuple(map(tuple, sections["user_properties"]))
    return {"topic_name": topic, **sections}


def _format_sections(sections: Mapping[str, Any]) -> str:
    """Return the result of ``messages.format_sections``, in a fifth of the time if all values are plain ASCII."""
    if all(type(value) in _PLAIN or name == "user_properties" for name, value in sections.items()):
        text = msgspec.json.encode(sections).decode()
        if text.isascii() and _DELETE not in text:
            return text
    return format_sections(sections)


MQTT3: Final = Mqtt("mqtt3", V3)
MQTT5: Final = Mqtt("mqtt5", V5)


class _Connection:
    """A connection of a subscribed session. ``spooled`` converts a received message to the form for the spool."""

    def __init__(
        self, client: MQTTClient, broker: brokers.BrokerInput, spooled: Callable[[MQTTMessage], SpooledMessage]
    ) -> None:
        self._client = client
        self._broker = broker
        self._spooled = spooled

    def receive(self, seconds: float) -> Sequence[ReceivedMessage]:
        """Return the messages that arrive within ``seconds``, at most a few hundred."""
        with self._broker.convert_refusals():
            received = self._client.receive(seconds)
        return [ReceivedMessage(message=self._spooled(message), token=message) for message in received]

    def confirm(self, messages: Sequence[ReceivedMessage]) -> None:
        """Acknowledge messages to the broker."""
        with self._broker.convert_refusals():
            self._client.acknowledge(message.token for message in messages)

    def keep_alive(self) -> None:
        """Send a ping if nothing was received for long.

        The response is queued after messages that were not received yet, so that the connection may time out. The
        session stays.
        """
        with self._broker.convert_refusals():
            self._client.keep_alive()

    def close(self) -> None:
        """Disconnect and close the connection. The broker keeps the session."""
        self._client.close()


def _read_input(inputs: Sequence[str], options: Mapping[str, str]) -> brokers.BrokerInput:
    broker = _INPUTS.read(inputs, options)
    if not broker.names:
        raise PipelineError(f"name the topics of {broker}, as {_INPUTS.form}")
    for name in broker.names:
        levels = name.split("/")
        alone = all(level in ("+", "#") or not set("+#") & set(level) for level in levels)
        if not alone or "#" in levels[:-1] or "\0" in name or len(name.encode()) > _LONGEST:
            raise PipelineError(f"{name!r} is no topic filter of MQTT: + stands for one level, # for all that follow")
    expiry = broker.options.get("sessionExpiry", "0")
    if not expiry.isdecimal() or int(expiry) > 0xFFFFFFFF:
        raise PipelineError("the option sessionExpiry is a whole number of seconds")
    if broker.options.get("failOnDataLoss", "true") not in ("true", "false"):
        raise PipelineError("the option failOnDataLoss is true or false")
    return broker


def _choose_session(spool: MessageSpool, name: str) -> SpoolSession:
    """Return the stored session if its name matches ``name`` or ``name`` is empty, otherwise store a new one."""
    stored = spool.read_session()
    if stored is not None and name in ("", stored.name):
        return stored
    return spool.remember(SpoolSession(name=name or f"signalbook-{secrets.token_hex(6)}"))


def _resume(client: MQTTClient, broker: brokers.BrokerInput, spool: MessageSpool, session: SpoolSession) -> None:
    """Subscribe the session to the current filters. Raises ``PipelineError`` if the broker lost it."""
    filters, received = broker.names, session.receives
    if received and (session.lost or not client.session_present):
        if not session.lost:
            # Connecting has created an empty session of the same name at the broker. The next connection would find it
            # and take it for the lost session.
            spool.remember(msgspec.structs.replace(session, lost=True))
        if broker.options.get("failOnDataLoss") != "false":
            raise PipelineError(
                f"the broker {broker} forgot the session {session.name} and what it kept for it: have it keep sessions "
                "longer, and go on without what is gone by the option failOnDataLoss = false"
            )
        received = ()
    if session.lost or set(received) != set(filters):
        # Do not repeat existing subscriptions, because the broker would send retained messages again.
        client.subscribe(topic_filter for topic_filter in filters if topic_filter not in received)
        client.unsubscribe(topic_filter for topic_filter in received if topic_filter not in filters)
        spool.remember(SpoolSession(name=session.name, receives=filters))


def _read_topic(received: MQTTMessage) -> str:
    try:
        return received.topic
    except UnicodeDecodeError:
        return ""  # a broker should reject such a topic
