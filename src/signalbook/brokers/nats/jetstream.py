"""Streams of JetStream, read by the numbers of their messages, by consumers of the moment that acknowledge nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from signalbook.brokers.nats.connection import Answer, NATSError, NATSLine, Refused, pairs
from signalbook.values import JSONObject, dump_json

_NANOSECONDS: Final = 1_000_000_000
# How long a server keeps a consumer that nobody asks anything, and waits for messages that are said to be there.
_KEPT: Final = 300
_EXPIRES: Final = 5
_AT_ONCE: Final = 1000
_BYTES: Final = 8 * 1024 * 1024
_AROUND: Final = 64 * 1024
_NO_STREAM: Final = 10059
_UNAVAILABLE: Final = 503
_DISABLED: Final = (10039, 10076)
# $JS.ACK.<stream>.<consumer>.<deliveries>.<number>.<number there>.<nanoseconds>.<how many follow>, and newer servers
# have domain and account before the stream
_SHORT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """What a stream says of itself: the numbers of its ``first`` and ``last`` messages, without any ``last + 1``.

    ``created`` is when it was made, in the server's words.
    """

    name: str
    first: int
    last: int
    retention: str
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message of a stream; ``time`` is when it was stored, in nanoseconds since 1970."""

    number: int
    time: int
    subject: str
    headers: list[tuple[str, bytes]]
    payload: bytes


@dataclass(slots=True)
class _Consumer:
    """How far a consumer is: ``delivered`` messages were had of it, ``pending`` are to come."""

    name: str
    pending: int
    delivered: int = 0


class JetStream:
    """Asks over a connection. Raises ``NATSError``, ``Refused`` for what the server does not do, and httpcore's errors.

    ``domain`` is that of a JetStream elsewhere, by way of leaf nodes.
    """

    def __init__(self, line: NATSLine, domain: str = "") -> None:
        self._line = line
        self._api = f"$JS.{domain}.API" if domain else "$JS.API"
        self._requests = count(1)
        line.listen()

    def stream(self, name: str) -> StreamState | None:
        """The state of a stream, None if there is none of that name."""
        try:
            found = self._ask(f"STREAM.INFO.{name}", {})
        except _NotThere:
            return None
        state, config = found.get("state"), found.get("config")
        if not isinstance(state, dict) or not isinstance(config, dict):
            raise NATSError("the server says nothing of the state of the stream")
        last = _number(state.get("last_seq"))
        # A stream from which everything was taken says 0, or the number behind its last.
        first = _number(state.get("first_seq")) if state.get("messages") else last + 1
        retention, created = str(config.get("retention", "limits")), str(found.get("created", ""))
        return StreamState(name=name, first=first, last=last, retention=retention, created=created)

    def streams_of(self, subject: str) -> list[str]:
        """The names of the streams that hold messages of a subject."""
        found = self._ask("STREAM.NAMES", {"subject": subject}).get("streams")
        return [str(name) for name in found] if isinstance(found, list) else []

    def read(self, stream: str, start: int, end: int, subject: str = "") -> Iterator[list[Stored]]:
        """The messages of a stream that have the numbers ``start`` to ``end``, in order and in bounded lists.

        With ``subject``, which may have wildcards, only those of it. What is in a list was read before it is given, so
        that nobody's pace keeps the server waiting.
        """
        if start > end:
            return
        consumer = self._consume(stream, start, subject)
        while consumer.pending:
            found = self._pull(stream, consumer)
            wanted = [message for message in found if message.number <= end]
            if wanted:
                yield wanted
            if len(wanted) < len(found) or (wanted and wanted[-1].number == end):
                break
        with suppress(Refused):  # it may have gone by itself
            self._ask(f"CONSUMER.DELETE.{stream}.{consumer.name}", {})

    def _consume(self, stream: str, start: int, subject: str) -> _Consumer:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": _KEPT * _NANOSECONDS,
            "num_replicas": 1,
            "mem_storage": True,
            **({"filter_subject": subject} if subject else {}),
        }
        found = self._ask(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        return _Consumer(name=str(found.get("name")), pending=_number(found.get("num_pending")))

    def _pull(self, stream: str, consumer: _Consumer) -> list[Stored]:
        """The next messages."""
        request, most = next(self._requests), min(consumer.pending, _AT_ONCE)
        limits = {
            "batch": most,
            "max_bytes": max(_BYTES, self._line.max_payload + _AROUND),
            "expires": _EXPIRES * _NANOSECONDS,
        }
        where = f"{self._api}.CONSUMER.MSG.NEXT.{stream}.{consumer.name}"
        self._line.publish(where, dump_json(limits), 0, request)
        found: list[Stored] = []
        while len(found) < most:
            answer = self._line.answer()
            if answer.request == request:
                self._end(answer, empty=not found)
                break
            if answer.reply.startswith("$JS.ACK."):
                found.append(_stored(answer, consumer))
        return found

    def _end(self, answer: Answer, *, empty: bool) -> None:
        """Understand why there are no more for now.

        Raises ``NATSError`` where there is none of what was pending: it may be gone, and a new consumer knows.
        """
        if empty or answer.status not in ("404", "408", "409"):
            raise NATSError(f"the server ended the reading of the stream: status {answer.status}")

    def _ask(self, what: str, question: JSONObject) -> JSONObject:
        request = next(self._requests)
        self._line.publish(f"{self._api}.{what}", dump_json(question) if question else b"", 0, request)
        answer = self._line.answer()
        while answer.request != request:
            answer = self._line.answer()
        if answer.status == "503":
            raise Refused("the server has no JetStream, or none for this user")
        found = answer.document()
        error = found.get("error")
        if isinstance(error, dict):
            raise _kind(error)(f"the server says {str(error.get('description'))[:500]}")
        return found


class _NotThere(Refused):
    """There is no such stream."""


def _kind(error: JSONObject) -> type[NATSError]:
    if error.get("code") == _UNAVAILABLE and error.get("err_code") not in _DISABLED:
        return NATSError  # it may pass, as while another server takes over
    return _NotThere if error.get("err_code") == _NO_STREAM else Refused


def _stored(answer: Answer, consumer: _Consumer) -> Stored:
    words = answer.reply.split(".")
    shift = 0 if len(words) == _SHORT else 2
    try:
        number, there, time, pending = (int(word) for word in words[shift + 5 : shift + 9])
    except ValueError:
        raise NATSError("the server does not say which message of the stream this is") from None
    if there != consumer.delivered + 1:
        raise NATSError("the server left out messages of the stream")
    consumer.delivered, consumer.pending = there, pending
    return Stored(number=number, time=time, subject=answer.subject, headers=pairs(answer.head), payload=answer.payload)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise NATSError("the server says no number where one has to be")
    return value
