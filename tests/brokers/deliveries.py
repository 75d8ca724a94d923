"""What tests of sinks at brokers have in common: subscriptions, events, and what is allowed."""

import json
from collections.abc import Sequence
from typing import Any

from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER

from signalbook.events.sinks.base import SinkPolicy
from signalbook.events.subscription import Credential, Subscription
from signalbook.fetching import AllowList
from signalbook.values import JSONObject

EVENT_TYPE = "application/cloudevents+json; charset=utf-8"


def policy(broker: Broker, *more: str, timeout: float = 300.0) -> SinkPolicy:
    """Return a policy that allows events to a broker, with a timeout that slow machines do not reach."""
    places = [f"{host}:{port}" for host in ("127.0.0.1", "localhost") for port in broker.ports.values()]
    return SinkPolicy(allow=AllowList([*places, *more]), timeout=timeout)


def subscription(protocol: str, sink: str, credential: Credential | None = None, **settings: Any) -> Subscription:
    return Subscription(
        id=f"{protocol.lower()}-1", protocol=protocol, sink=sink, protocolsettings=settings, credential=credential
    )


def plain(password: str = PASSWORD, user: str = USER) -> Credential:
    return Credential(credentialtype="PLAIN", members={"identifier": user}, secrets={"secret": password})


def events(count: int, start: int = 0, **more: Any) -> list[JSONObject]:
    """Change events with ids from ``start`` on, about three subjects in turn."""
    return [
        {
            "specversion": "1.0",
            "id": str(number),
            "source": "https://registry.example/",
            "type": "io.xregistry.updated",
            "subject": f"/schemagroups/größe/schemas/{number % 3}",
            **more,
        }
        for number in range(start, start + count)
    ]


def parsed(bodies: Sequence[bytes | bytearray]) -> list[JSONObject]:
    """Events in the JSON format."""
    return [json.loads(body) for body in bodies]
