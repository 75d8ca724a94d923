"""Send events to AMQP 1.0: each event is a message in structured mode to one address (CloudEvents bindings/amqp; D-30).

``sink`` is ``amqp://HOST[/ADDRESS]`` or ``amqps://…``. The address may be in the settings instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.brokers.amqp.connection import AMQPSender
from signalbook.brokers.amqp.messages import AMQPMessage, to_bytes
from signalbook.brokers.connection import BrokerSettings
from signalbook.events.sinks.base import EVENT_TYPE, SinkPolicy, make_setting_error
from signalbook.events.sinks.brokers import BrokerSinkFactory, ProtocolSettings, read_broker
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"amqps": (5671, True), "amqp": (5672, False)}
_SETTING_NAMES: Final = ("address", "linkname", "sendersettlementmode", "linkproperties")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    settings: BrokerSettings
    address: str
    name: str
    settled: bool
    properties: Mapping[str, str]

    def connect(self) -> AMQPSender:
        """Open a link that waits for the disposition of each message, or for none if messages are sent settled."""
        return AMQPSender.open(
            self.settings, address=self.address, name=self.name, settled=self.settled, properties=self.properties
        )

    def encode(self, event: JSONObject) -> bytes:
        """Return an event as a message in structured mode."""
        return to_bytes(AMQPMessage(body=dump_json(event), properties={"content-type": EVENT_TYPE}, durable=True))


def _read_target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    broker, path = read_broker(subscription, _SCHEMES, policy)
    settings = ProtocolSettings(subscription, _SETTING_NAMES)
    address = settings.text("address")
    if bool(address) == bool(path):
        raise make_setting_error("address", "it is here or in the path of the sink's URI, and not in both")
    if not path.isprintable():
        raise SubscriptionError("/sink: its path has control characters")
    properties = settings.texts("linkproperties")
    foreign = next((name for name in properties if not name.isascii()), None)
    if foreign is not None:
        raise make_setting_error(f"linkproperties/{foreign}", "names of properties are ASCII")
    return _Target(
        settings=broker,
        address=address or path,
        name=settings.text("linkname") or f"{subscription.id}-{secrets.token_hex(4)}",
        settled=settings.choice("sendersettlementmode", ("unsettled", "settled")) == "settled",
        properties=properties,
    )


FACTORY: Final = BrokerSinkFactory(protocols=("AMQP",), target=_read_target)
