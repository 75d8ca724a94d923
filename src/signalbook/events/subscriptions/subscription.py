"""A subscription: which events are wanted, and where they go (CloudEvents subscriptions/spec.md 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject

HTTP: Final = "HTTP"
PROTOCOLS: Final = (HTTP, "KAFKA", "MQTT3", "MQTT5", "NATS", "AMQP", "FILE")
"""Those of the specification (D-26), and files."""


class SubscriptionError(SignalbookError):
    """A subscription that cannot be; the message begins with the place of the fault in its document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a sink wants to be shown (D-31). ``secrets`` holds the members that nobody may read back."""

    credentialtype: str
    members: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One subscription (D-28). ``source`` and ``types`` narrow what ``filters`` let pass; empty ones do not.

    ``sink`` is a URI of the ``protocol``'s; ``protocolsettings`` and ``credential`` are that protocol's, too. ``root``
    is the URL of the registry as whoever subscribed knows it: ``source`` is below it, and so is that of the events.
    ``fault`` says why nothing can be delivered at present, such as secrets that cannot be read. ``revision`` is another
    number each time it is written: what is known of one is not true of the next.
    """

    id: str
    protocol: str
    sink: str
    source: str = ""
    types: tuple[str, ...] = ()
    filters: tuple[JSON, ...] = ()
    config: JSONObject = field(default_factory=dict)
    protocolsettings: JSONObject = field(default_factory=dict)
    credential: Credential | None = None
    root: str = ""
    revision: int = 0
    fault: str = ""
