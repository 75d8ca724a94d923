"""NATS: each event a message in structured mode to one subject (CloudEvents bindings/nats; D-30).

``sink`` is ``nats://HOST`` or ``tls://HOST``. Where a stream of JetStream takes the subject, its acknowledgements are
waited for; else an answer to a PING says that the server has had the messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final
from urllib.parse import quote

import httpcore

from signalbook.brokers.nats import NATSConnection, NATSError, NATSMessage, NATSRefused, headers
from signalbook.events.sinks import brokers
from signalbook.events.sinks.base import EVENT_TYPE, DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerAddress, BrokerSinkFactory, ConnectionLost
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.fetching import Deadline
from signalbook.values import JSONObject, dump_json

_SCHEMES: Final = {"tls": (4222, True), "nats": (4222, False)}
# No wildcards; what begins with $ is the server's own, and some of it are commands.
_SUBJECT: Final = re.compile(r"(?!\$)[!-)+,\-/-=?-~]+(\.[!-)+,\-/-=?-~]+)*", re.ASCII)
_STREAMS: Final = "$JS.API.STREAM.NAMES"
_WINDOW: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    subscription: str
    place: BrokerAddress
    user: tuple[str, str]
    subject: str


class _Link:
    """A connection, and whether a stream takes what is sent over it."""

    def __init__(self, target: _Target, policy: SinkPolicy) -> None:
        self._target = target
        self._timeout = policy.timeout
        self._deadline = Deadline(policy.timeout)
        self._requests = count(1)
        place = target.place
        where = f"{place.host}:{place.port}"
        try:
            stream = brokers.stream_to(place, policy, self._deadline)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise ConnectionLost(f"{where} cannot be reached: {error or type(error).__name__}") from None
        try:
            encrypt = partial(brokers.encrypted, place=place) if place.secure else None
            self._line = NATSConnection(stream, user=target.user, encrypt=encrypt)
            self._stored = self._is_stored()
        except NATSRefused as error:
            stream.close()
            raise DeliveryError(f"{where}: {error}") from None
        except (NATSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            stream.close()
            raise ConnectionLost(f"{where}: {error or type(error).__name__}") from None

    def publish(self, events: Sequence[JSONObject]) -> None:
        """Send, and wait for the acknowledgements of the stream or the server."""
        self._deadline.restart(self._timeout)
        delivered = 0
        try:
            for done in self._send(events):
                delivered += done
                self._deadline.restart(self._timeout)
        except DeliveryError as error:
            error.delivered += delivered
            raise
        except NATSRefused as error:
            raise DeliveryError(str(error), delivered=delivered) from None
        except httpcore.TimeoutException:
            raise ConnectionLost(
                f"the server did not answer within {self._timeout:g} seconds", delivered=delivered
            ) from None
        except (NATSError, httpcore.NetworkError) as error:
            raise ConnectionLost(f"{error or type(error).__name__}", delivered=delivered) from None

    def close(self) -> None:
        """Hang up."""
        with suppress(httpcore.NetworkError):
            self._line.close()

    def _send(self, events: Sequence[JSONObject]) -> Iterator[int]:
        """Yields how many more are confirmed."""
        for start in range(0, len(events), _WINDOW):
            messages, rejected = self._messages(events[start : start + _WINDOW])
            yield from self._store(messages) if self._stored else self._pass_on(messages)
            if rejected is not None:
                raise rejected

    def _messages(self, events: Sequence[JSONObject]) -> tuple[list[tuple[bytes, int]], DeliveryError | None]:
        """Messages with the length of their headers, up to the first that the server would not take."""
        messages: list[tuple[bytes, int]] = []
        for event in events:
            # A stream drops what it got a moment ago under the same id, such as an event whose answer was lost.
            name = quote(f"{self._target.subscription}/{event['id']}")
            head = headers({"Content-Type": EVENT_TYPE, "Nats-Msg-Id": name})
            message = head + dump_json(event)
            if len(message) > self._line.max_payload:
                detail = f"the event has {len(message)} bytes, the server takes {self._line.max_payload}"
                return messages, DeliveryError(detail, rejected=True)
            messages.append((message, len(head)))
        return messages, None

    def _pass_on(self, messages: Sequence[tuple[bytes, int]]) -> Iterator[int]:
        for message, head in messages:
            self._line.publish(self._target.subject, message, head)
        self._line.round_trip()
        yield len(messages)

    def _store(self, messages: Sequence[tuple[bytes, int]]) -> Iterator[int]:
        waiting = [next(self._requests) for _ in messages]
        for request, (message, head) in zip(waiting, messages, strict=True):
            self._line.publish(self._target.subject, message, head, request)
        answers: dict[int, NATSMessage] = {}
        for request in waiting:
            while request not in answers:
                answer = self._line.answer()
                if answer.request in waiting:
                    answers[answer.request] = answer
            _check_stored(answers.pop(request))
            yield 1

    def _is_stored(self) -> bool:
        """Whether there is a stream for the subject. Whoever may not ask is no user of JetStream."""
        request = next(self._requests)
        self._line.listen()
        question = dump_json({"subject": self._target.subject})
        try:
            self._line.publish(_STREAMS, question, 0, request)
            answer = self._line.answer()
            while answer.request != request:
                answer = self._line.answer()
        except NATSRefused:
            return False
        return bool(answer.document().get("streams"))


def _check_stored(answer: NATSMessage) -> None:
    found = answer.document()
    error = found.get("error")
    if isinstance(error, dict):
        raise NATSRefused(f"the stream does not take the event: {str(error.get('description'))[:500]}")
    if answer.status or "stream" not in found:
        raise NATSError("there is no stream for the subject any more")


def _target(subscription: Subscription, policy: SinkPolicy) -> _Target:
    place = brokers.read_address(subscription.sink, _SCHEMES)
    brokers.check_allowed(place.host, place.port, place.secure, policy)
    if place.path:
        raise SubscriptionError("/sink: a path means nothing here; the subject is a setting")
    settings = brokers.ProtocolSettings(subscription, ("subject",))
    subject = settings.text("subject")
    if not _SUBJECT.fullmatch(subject) or len(subject) > 256:
        raise brokers.wrong_setting(
            "subject", "NATS needs one: words of ASCII with dots between, no wildcards, no $ first"
        )
    return _Target(subscription=subscription.id, place=place, user=brokers.read_login(subscription), subject=subject)


FACTORY: Final = BrokerSinkFactory(protocols=("NATS",), target=_target, connect=_Link)
