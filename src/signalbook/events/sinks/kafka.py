"""Send events to Apache Kafka: each event is a record in structured mode (CloudEvents bindings/kafka; D-30).

``sink`` is ``kafka://HOST[/TOPIC]`` or ``kafkas://…`` with TLS. The topic may be in the settings instead. The record's
key is the event's ``subject``, or the attribute in the setting ``partitionkeyextractor``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from signalbook.brokers.connection import BrokerRefused, BrokerSettings
from signalbook.brokers.kafka import KafkaClient
from signalbook.events.sinks.base import EVENT_TYPE, SinkPolicy, check_allowed, make_setting_error
from signalbook.events.sinks.brokers import BrokerSinkFactory, ProtocolSettings, read_broker, resolve
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"kafkas": (9093, True), "kafka": (9092, False)}
_SETTING_NAMES: Final = ("topicname", "partitionkeyextractor", "clientid", "acks")
# Topics that begin with two underscores are the cluster's own.
_TOPIC_NAME: Final = re.compile(r"(?!__|\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}", re.ASCII)
_KEY_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_CLIENT: Final = re.compile(r"[!-~]{1,249}", re.ASCII)
_RECORD_HEADERS: Final = (("content-type", EVENT_TYPE.encode()),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    settings: BrokerSettings
    topic: str
    key: str
    client: str
    acks: str

    def connect(self) -> KafkaClient:
        """Return a producer that waits until as many brokers as ``acks`` requires have stored each record."""
        return KafkaClient(self.settings, self.topic, client_id=self.client, acks=self.acks, headers=_RECORD_HEADERS)

    def encode(self, event: JSONObject) -> tuple[bytes | None, bytes]:
        """Return key and value of a record in structured mode. The key is None if the event lacks the attribute."""
        key = event.get(self.key)
        return None if key is None else str(key).encode(), dump_json(event)


def _read_target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    broker, path = read_broker(subscription, _SCHEMES, policy)
    settings = ProtocolSettings(subscription, _SETTING_NAMES)
    topic = settings.text("topicname")
    if bool(topic) == bool(path):
        raise make_setting_error("topicname", "it is here or in the path of the sink's URI, and not in both")
    if not _TOPIC_NAME.fullmatch(topic or path):
        where = "/protocolsettings/topicname" if topic else "/sink"
        raise SubscriptionError(f"{where}: that is no name of a topic")
    key = settings.text("partitionkeyextractor", "subject")
    if not _KEY_ATTRIBUTE.fullmatch(key):
        raise make_setting_error("partitionkeyextractor", "it is the name of an attribute, such as subject")
    client = settings.text("clientid", "signalbook")
    if not _CLIENT.fullmatch(client):
        raise make_setting_error("clientid", "it is a name of printable ASCII")
    acks = settings.choice("acks", ("all", "-1", "1", "0"))
    return _Target(
        settings=replace(broker, resolve=partial(_resolve, policy, broker.secure)),
        topic=topic or path,
        key=key,
        client=client,
        acks="all" if acks == "-1" else acks,
    )


def _resolve(policy: SinkPolicy, secure: bool, host: str, port: int) -> str:
    """Return the address of a broker that the cluster reported. The policy applies to it as to the sink itself."""
    try:
        check_allowed(host, port, secure, policy, "the cluster names a broker")
    except SubscriptionError as error:
        raise BrokerRefused(str(error)) from None
    return resolve(policy, host, port)


FACTORY: Final = BrokerSinkFactory(protocols=("KAFKA",), target=_read_target)
