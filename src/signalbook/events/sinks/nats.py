"""NATS: each event a message in structured mode to one subject (CloudEvents bindings/nats; D-30).

``sink`` is ``nats://HOST`` or ``tls://HOST``. Where a stream of JetStream takes the subject, its acknowledgements are
waited for; else an answer to a PING says that the server has had the messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from signalbook.brokers.nats import NATSPublisher, encode_headers
from signalbook.events.sinks.base import EVENT_TYPE, SinkPolicy, wrong_setting
from signalbook.events.sinks.brokers import (
    BrokerSinkFactory,
    BrokerTarget,
    ProtocolSettings,
    read_broker,
)
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"tls": (4222, True), "nats": (4222, False)}
# No wildcards; what begins with $ is the server's own, and some of it are commands.
_SUBJECT: Final = re.compile(r"(?!\$)[!-)+,\-/-=?-~]+(\.[!-)+,\-/-=?-~]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target(BrokerTarget):
    subscription: str
    subject: str


class _Connection:
    def __init__(self, target: _Target) -> None:
        self._subscription = target.subscription
        self._publisher = NATSPublisher.open(target.settings, target.subject)

    def publish(self, events: Sequence[JSONObject]) -> Iterator[None]:
        """Send, and wait for the acknowledgements of the stream or the server."""
        return self._publisher.publish([self._message(event) for event in events])

    def close(self) -> None:
        """Hang up."""
        self._publisher.close()

    def _message(self, event: JSONObject) -> tuple[bytes, bytes]:
        # A stream drops what it got a moment ago under the same id, such as an event whose answer was lost.
        message_id = quote(f"{self._subscription}/{event['id']}")
        return encode_headers({"Content-Type": EVENT_TYPE, "Nats-Msg-Id": message_id}), dump_json(event)


def _target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    broker, path = read_broker(subscription, _SCHEMES, policy)
    if path:
        raise SubscriptionError("/sink: a path means nothing here; the subject is a setting")
    settings = ProtocolSettings(subscription, ("subject",))
    subject = settings.text("subject")
    if not _SUBJECT.fullmatch(subject) or len(subject) > 256:
        raise wrong_setting("subject", "NATS needs one: words of ASCII with dots between, no wildcards, no $ first")
    return _Target(settings=broker, subscription=subscription.id, subject=subject)


FACTORY: Final = BrokerSinkFactory(protocols=("NATS",), target=_target, connect=_Connection)
