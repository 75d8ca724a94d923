"""Send events to NATS: each event is a message in structured mode to one subject (CloudEvents bindings/nats; D-30).

``sink`` is ``nats://HOST`` or ``tls://HOST``. If a JetStream stream stores the subject, the sink waits for its
acknowledgements. Otherwise the answer to a PING shows that the server received the messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from signalbook.brokers.connection import BrokerSettings
from signalbook.brokers.nats import NATSPublisher, encode_headers
from signalbook.events.sinks.base import EVENT_TYPE, SinkPolicy, make_setting_error
from signalbook.events.sinks.brokers import BrokerSinkFactory, ProtocolSettings, read_broker
from signalbook.events.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"tls": (4222, True), "nats": (4222, False)}
# No wildcards. Subjects that begin with $ belong to the server, and some of them are commands.
_SUBJECT: Final = re.compile(r"(?!\$)[!-)+,\-/-=?-~]+(\.[!-)+,\-/-=?-~]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    settings: BrokerSettings
    subscription: str
    subject: str

    def connect(self) -> NATSPublisher:
        """Return a publisher that waits for the acknowledgements of the stream or the server."""
        return NATSPublisher.open(self.settings, self.subject)

    def encode(self, event: JSONObject) -> tuple[bytes, bytes]:
        """Return headers and payload in structured mode."""
        # A stream drops a message whose id it received shortly before, such as an event whose answer was lost.
        message_id = quote(f"{self.subscription}/{event['id']}")
        return encode_headers({"Content-Type": EVENT_TYPE, "Nats-Msg-Id": message_id}), dump_json(event)


def _read_target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    broker, path = read_broker(subscription, _SCHEMES, policy)
    if path:
        raise SubscriptionError("/sink: a path means nothing here; the subject is a setting")
    settings = ProtocolSettings(subscription, ("subject",))
    subject = settings.text("subject")
    if not _SUBJECT.fullmatch(subject) or len(subject) > 256:
        raise make_setting_error(
            "subject", "NATS needs one: words of ASCII with dots between, no wildcards, no $ first"
        )
    return _Target(settings=broker, subscription=subscription.id, subject=subject)


FACTORY: Final = BrokerSinkFactory(protocols=("NATS",), target=_read_target)
