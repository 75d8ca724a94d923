"""Send events to MQTT 3.1.1 or 5.0: each event is a message in structured mode (CloudEvents bindings/mqtt; D-30).

``sink`` is ``mqtts://HOST`` or ``mqtt://HOST``. The topic is in the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.brokers.connection import BrokerSettings
from signalbook.brokers.mqtt import MQTTClient, MQTTPublisher, publish_properties
from signalbook.events.sinks.base import EVENT_TYPE, SinkPolicy, make_setting_error
from signalbook.events.sinks.brokers import BrokerSinkFactory, ProtocolSettings, read_broker
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

MQTT3: Final = "MQTT3"
MQTT5: Final = "MQTT5"
_SCHEMES: Final = {"mqtts": (8883, True), "mqtt": (1883, False)}
_SETTING_NAMES: Final = {
    MQTT3: ("topicname", "qos", "retain"),
    MQTT5: ("topicname", "qos", "retain", "expiry", "userproperties"),
}
_LONGEST_TOPIC: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    settings: BrokerSettings
    version: int
    topic: str
    qos: int
    retain: bool
    expiry: int | None
    properties: Mapping[str, str]

    def connect(self) -> MQTTPublisher:
        """Return a publisher that waits for the acknowledgements of the quality of service.

        With quality of service 0 it waits until all messages are written.
        """
        # MQTT 3.1.1 has no properties.
        properties = publish_properties(EVENT_TYPE, self.expiry, self.properties) if self.version == 5 else None
        client = MQTTClient(self.settings, self.version)
        return MQTTPublisher(client, self.topic, qos=self.qos, retain=self.retain, properties=properties)

    def encode(self, event: JSONObject) -> bytes:
        """Return a payload in structured mode."""
        return dump_json(event)


def _read_target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    broker, path = read_broker(subscription, _SCHEMES, policy)
    if path:
        raise SubscriptionError("/sink: a path means nothing here; the topic is the setting topicname")
    settings = ProtocolSettings(subscription, _SETTING_NAMES[subscription.protocol])
    topic = settings.text("topicname")
    # Topics that begin with $ belong to the broker.
    if not topic or topic.startswith("$") or set("+#") & set(topic) or len(topic.encode()) > _LONGEST_TOPIC:
        raise make_setting_error("topicname", f"MQTT needs one: up to {_LONGEST_TOPIC} bytes, no wildcards, no $ first")
    qos = settings.whole("qos", 2)
    return _Target(
        settings=broker,
        version=5 if subscription.protocol == MQTT5 else 3,
        topic=topic,
        qos=1 if qos is None else qos,
        retain=settings.flag("retain"),
        expiry=settings.whole("expiry", 0xFFFFFFFF),
        properties=settings.texts("userproperties"),
    )


FACTORY: Final = BrokerSinkFactory(protocols=(MQTT3, MQTT5), target=_read_target)
