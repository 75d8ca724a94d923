"""A client of NATS and JetStream: connections, messages with headers, requests, streams.

It trusts a server with little: TLS is begun because the caller says so, not because the server does; other servers
that it names are not followed; lines and messages have their limits.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from signalbook.brokers.connection import (
    BrokerError,
    BrokerRefused,
    BrokerSettings,
    BrokerUnavailable,
    ByteStream,
    MessageTooLarge,
)
from signalbook.values import JSONError, JSONObject, dump_json, parse_json

_LONGEST_LINE: Final = 64 * 1024
_LARGEST_MESSAGE: Final = 1024 * 1024
_LARGEST_POSSIBLE: Final = 64 * 1024 * 1024
_SUBSCRIPTION: Final = b"1"
# What servers say when they hang up and may take the next connection.
_PASSING: Final = ("timeout", "stale connection", "maximum connections", "slow consumer", "shutdown")


class NATSError(BrokerUnavailable):
    """The error for a server that breaks its protocol, or closes the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NATSMessage:
    """A message in an inbox: its request, the status if that is all (``503``: nobody listens), the payload.

    A message from a stream has no ``request`` but the ``subject`` it was sent to. Its ``reply`` identifies it in the
    stream, and ``head`` are its headers as they were sent.
    """

    request: int | None
    status: str = ""
    payload: bytes = b""
    subject: str = ""
    reply: str = ""
    head: bytes = b""

    def document(self) -> JSONObject:
        """The payload as a JSON object, empty if it is none."""
        try:
            document = parse_json(self.payload)
        except JSONError:
            return {}
        return document if isinstance(document, dict) else {}


class NATSConnection:
    """A connection to a server. For one thread. Raises ``BrokerError``."""

    def __init__(
        self, stream: ByteStream, *, user: str = "", password: str = "", token: str = "", secure: bool = False
    ) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._requests = count(1)
        self.info = self._read_greeting()
        if secure:
            if not (self.info.get("tls_required") or self.info.get("tls_available")):
                raise BrokerRefused("the server offers no TLS")
            self._buffer.clear()  # what stands before the handshake may be anybody's
            stream.encrypt()
        elif self.info.get("tls_required"):
            raise BrokerRefused("the server takes connections with TLS only: the URI begins with tls:// then")
        if not self.info.get("headers"):
            raise BrokerRefused("the server has no message headers, which NATS 2.2 brought")
        self._connect(user, password, token, secure)
        self._stream.write(b"SUB %s.* %s\r\n" % (self._inbox.encode(), _SUBSCRIPTION))

    @classmethod
    def open(cls, settings: BrokerSettings) -> NATSConnection:
        """A connection to the broker of these settings."""
        stream = settings.open()
        try:
            return cls(
                stream,
                user=settings.user,
                password=settings.password,
                token=settings.token,
                secure=settings.secure,
            )
        except BaseException:
            stream.close()
            raise

    def limit(self, seconds: float | None = None) -> None:
        """Give all that follows so many seconds, or the timeout of the broker's settings."""
        self._stream.limit(seconds)

    @property
    def max_payload(self) -> int:
        """The most bytes that a message may have, headers included."""
        limit = self.info.get("max_payload")
        return min(limit, _LARGEST_POSSIBLE) if isinstance(limit, int) and limit > 0 else _LARGEST_MESSAGE

    def publish(self, subject: str, message: bytes, head: int = 0, *, answered: bool = False) -> int:
        """Send a message whose first ``head`` bytes are its headers.

        If it is to be ``answered``, that comes to the inbox, for the request of the number that is returned.
        """
        number = next(self._requests)
        reply = f" {self._inbox}.{number}" if answered else ""
        if head:
            command = f"HPUB {subject}{reply} {head} {len(message)}\r\n"
        else:
            command = f"PUB {subject}{reply} {len(message)}\r\n"
        self._stream.write(command.encode() + message + b"\r\n")
        return number

    def request(self, subject: str, question: JSONObject) -> NATSMessage:
        """Ask, and wait for the answer."""
        self.limit()
        number = self.publish(subject, dump_json(question) if question else b"", answered=True)
        answer = self.answer()
        # Answers to earlier requests that were given up may still come.
        while answer.request != number:
            answer = self.answer()
        return answer

    def round_trip(self) -> None:
        """Return when the server has dealt with all that was sent; raise ``BrokerRefused`` for what it did not take."""
        self._stream.write(b"PING\r\n")
        while self._read_next() != b"PONG":
            pass

    def answer(self) -> NATSMessage:
        """The next message in the inbox. Raises ``BrokerRefused``."""
        while True:
            message = self._read_next()
            if isinstance(message, NATSMessage):
                return message

    def close(self) -> None:
        """Hang up."""
        self._stream.close()

    def _read_greeting(self) -> JSONObject:
        operation, _, document = self._read_line().partition(b" ")
        try:
            info = parse_json(document)
        except JSONError:
            info = None
        if operation.upper() != b"INFO" or not isinstance(info, dict):
            raise NATSError("the other side does not speak NATS")
        return info

    def _connect(self, user: str, password: str, token: str, secure: bool) -> None:
        options: dict[str, Any] = {
            "verbose": False,  # else each message costs a +OK, which PING asks for once
            "pedantic": False,
            "tls_required": secure,
            "headers": True,
            "no_responders": True,  # a request that nobody listens for is answered by a 503, and not by silence
            "name": "signalbook",
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "echo": False,  # what we publish does not come back to our inbox
        }
        if user:
            options |= {"user": user, "pass": password}
        if token:
            options["auth_token"] = token
        self._stream.write(b"CONNECT " + dump_json(options) + b"\r\n")
        self.round_trip()

    def _read_next(self) -> bytes | NATSMessage | None:
        """Return the server's next relevant line: ``PONG``, a message, or None.

        Raises ``BrokerRefused`` if it refuses, ``NATSError`` for errors that may pass.
        """
        operation, _, arguments = self._read_line().partition(b" ")
        match operation.upper():
            case b"PONG":
                return b"PONG"
            case b"PING":
                self._stream.write(b"PONG\r\n")
            case b"MSG" | b"HMSG":
                return self._read_message(operation.upper() == b"HMSG", arguments.split())
            case b"-ERR":
                raise _make_error(arguments[:500].decode(errors="replace").strip())
            # An INFO may name other servers of the cluster, where nobody has checked that we may go.
            case b"+OK" | b"INFO":
                pass
            case _:
                raise NATSError("the server sent something that is not of the NATS protocol")
        return None

    def _read_message(self, headers: bool, fields: list[bytes]) -> NATSMessage:
        try:
            head, size = (int(fields[-2]) if headers else 0), int(fields[-1])
            subject = fields[0].decode(errors="replace")
            inbox, _, number = subject.rpartition(".")
            request = int(number) if inbox == self._inbox else None
        except (ValueError, IndexError):
            raise NATSError("the server sent a message that is none") from None
        # Before anything of it is read: what a server claims decides how much memory is taken.
        if not 0 <= head <= size <= max(_LARGEST_MESSAGE, self.max_payload):
            raise NATSError("the server sent a message of an impossible size")
        content = self._take(size + 2)[:size]
        status = content[:head].partition(b"\r\n")[0].partition(b" ")[2][:3]
        reply = fields[2] if len(fields) > (4 if headers else 3) else b""
        return NATSMessage(
            request=request,
            status=status.decode(errors="replace"),
            payload=content[head:],
            subject=subject,
            reply=reply.decode(errors="replace"),
            head=content[:head],
        )

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _LONGEST_LINE:
                raise NATSError("the server sent a line without an end")
            self._read()
        return self._take(end + 2)[:end]

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _read(self) -> None:
        data = self._stream.read(65_536)
        if not data:
            raise NATSError("the server hung up")
        self._buffer += data


def _make_error(reason: str) -> BrokerError:
    kind = NATSError if any(word in reason.lower() for word in _PASSING) else BrokerRefused
    return kind(f"the server says {reason}")


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return message headers in the form in which NATS transfers them."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def decode_headers(head: bytes) -> list[tuple[str, bytes]]:
    """Headers as they were sent, in their order; names have the case they were sent in."""
    headers = []
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name.decode(errors="backslashreplace"), value.strip()))
    return headers


_NANOSECONDS: Final = 1_000_000_000
# How long a server keeps a consumer that nobody asks anything, and waits for messages that are said to be there.
_KEPT_SECONDS: Final = 300
_EXPIRES: Final = 5
_AT_ONCE: Final = 1000
_PUBLISH_WINDOW: Final = 100
_MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
_AROUND: Final = 64 * 1024
_NO_STREAM: Final = 10059
_UNAVAILABLE: Final = 503
_DISABLED: Final = (10039, 10076)
# $JS.ACK.<stream>.<consumer>.<deliveries>.<number>.<number there>.<nanoseconds>.<how many follow>, and newer servers
# have domain and account before the stream
_SHORT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamState:
    """The state of a stream: the numbers of its ``first`` and ``last`` messages; empty is ``last + 1``.

    ``created`` is when it was made, in the server's words.
    """

    name: str
    first: int
    last: int
    retention: str
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message of a stream; ``time`` is when it was stored, in nanoseconds since 1970."""

    number: int
    time: int
    subject: str
    headers: list[tuple[str, bytes]]
    payload: bytes


@dataclass(slots=True)
class _Consumer:
    """The progress of a consumer: ``delivered`` messages, and those still ``pending``."""

    name: str
    pending: int
    delivered: int = 0


class NATSPublisher:
    """Sends messages to one subject. For one thread. Raises ``BrokerError``.

    Where a stream of JetStream takes the subject, its acknowledgements are waited for; else an answer to a PING says
    that the server has had the messages.
    """

    def __init__(self, connection: NATSConnection, subject: str) -> None:
        self._connection = connection
        self._subject = subject
        self._stored = self._is_stored()

    @classmethod
    def open(cls, settings: BrokerSettings, subject: str) -> NATSPublisher:
        """A publisher with a connection of its own."""
        connection = NATSConnection.open(settings)
        try:
            return cls(connection, subject)
        except BaseException:
            connection.close()
            raise

    def publish(self, messages: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Send messages, as their headers and payloads; yields once for each that is confirmed, in their order."""
        for start in range(0, len(messages), _PUBLISH_WINDOW):
            self._connection.limit()
            fitting, rejected = self._take_fitting(messages[start : start + _PUBLISH_WINDOW])
            yield from self._store(fitting) if self._stored else self._send(fitting)
            if rejected is not None:
                raise rejected

    def close(self) -> None:
        """Hang up."""
        with suppress(BrokerError):
            self._connection.close()

    def _take_fitting(
        self, messages: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[tuple[bytes, bytes]], BrokerError | None]:
        """The messages up to the first that is too large. A server would hang up at that, and lose those before it."""
        for index, (head, payload) in enumerate(messages):
            size, most = len(head) + len(payload), self._connection.max_payload
            if size > most:
                return list(messages[:index]), MessageTooLarge(f"the event has {size} bytes, the server takes {most}")
        return list(messages), None

    def _send(self, messages: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        for head, payload in messages:
            self._connection.publish(self._subject, head + payload, len(head))
        self._connection.round_trip()
        yield from (None for _ in messages)

    def _store(self, messages: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        waiting = [
            self._connection.publish(self._subject, head + payload, len(head), answered=True)
            for head, payload in messages
        ]
        answers: dict[int, NATSMessage] = {}
        for request in waiting:  # acknowledgements may come out of order
            while request not in answers:
                answer = self._connection.answer()
                if answer.request in waiting:
                    answers[answer.request] = answer
            _check_stored(answers.pop(request))
            self._connection.limit()
            yield

    def _is_stored(self) -> bool:
        """Return True if a stream holds the subject. A user without the right to ask does not use JetStream."""
        try:
            answer = self._connection.request("$JS.API.STREAM.NAMES", {"subject": self._subject})
        except BrokerRefused:
            return False
        return bool(answer.document().get("streams"))


def _check_stored(answer: NATSMessage) -> None:
    document = answer.document()
    error = document.get("error")
    if isinstance(error, dict):
        raise BrokerRefused(f"the stream does not take the event: {str(error.get('description'))[:500]}")
    if answer.status or "stream" not in document:
        raise NATSError("there is no stream for the subject any more")


class JetStream:
    """Reads streams over a connection. Raises ``BrokerError``.

    ``domain`` is that of a JetStream elsewhere, by way of leaf nodes.
    """

    def __init__(self, connection: NATSConnection, domain: str = "") -> None:
        self._connection = connection
        self._api = f"$JS.{domain}.API" if domain else "$JS.API"

    def stream(self, name: str) -> JetStreamState | None:
        """The state of a stream, None if there is none of that name."""
        try:
            document = self._request(f"STREAM.INFO.{name}", {})
        except _NotThere:
            return None
        state, config = document.get("state"), document.get("config")
        if not isinstance(state, dict) or not isinstance(config, dict):
            raise NATSError("the server says nothing of the state of the stream")
        last = _require_number(state.get("last_seq"))
        # A stream from which everything was taken says 0, or the number behind its last.
        first = _require_number(state.get("first_seq")) if state.get("messages") else last + 1
        retention, created = str(config.get("retention", "limits")), str(document.get("created", ""))
        return JetStreamState(name=name, first=first, last=last, retention=retention, created=created)

    def streams_of(self, subject: str) -> list[str]:
        """The names of the streams that hold messages of a subject."""
        names = self._request("STREAM.NAMES", {"subject": subject}).get("streams")
        return [str(name) for name in names] if isinstance(names, list) else []

    def read(self, stream: str, start: int, end: int, subject: str = "") -> Iterator[list[StoredMessage]]:
        """The messages of a stream that have the numbers ``start`` to ``end``, in order and in bounded lists.

        With ``subject``, which may have wildcards, only those of it. What is in a list was read before it is given, so
        that nobody's pace keeps the server waiting.
        """
        if start > end:
            return
        consumer = self._consume(stream, start, subject)
        while consumer.pending:
            messages = self._pull(stream, consumer)
            in_range = [message for message in messages if message.number <= end]
            if in_range:
                yield in_range
            # Messages beyond the end were delivered already: the consumer is done, and nobody acknowledges anything.
            if len(in_range) < len(messages) or (in_range and in_range[-1].number == end):
                break
        with suppress(BrokerRefused):  # it may have gone by itself
            self._request(f"CONSUMER.DELETE.{stream}.{consumer.name}", {})

    def _consume(self, stream: str, start: int, subject: str) -> _Consumer:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            # Spark's checkpoint keeps how far we are. An acknowledgement could not be one step with its commit.
            "ack_policy": "none",
            "replay_policy": "instant",
            # The server drops the consumer of a task that was killed.
            "inactive_threshold": _KEPT_SECONDS * _NANOSECONDS,
            "num_replicas": 1,
            "mem_storage": True,  # lost with the server, and made anew by the next attempt
            **({"filter_subject": subject} if subject else {}),
        }
        document = self._request(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        return _Consumer(name=str(document.get("name")), pending=_require_number(document.get("num_pending")))

    def _pull(self, stream: str, consumer: _Consumer) -> list[StoredMessage]:
        """The next messages."""
        most = min(consumer.pending, _AT_ONCE)
        limits = {
            "batch": most,
            # Less than the largest message with its headers, and that would never come.
            "max_bytes": max(_MAX_BATCH_BYTES, self._connection.max_payload + _AROUND),
            "expires": _EXPIRES * _NANOSECONDS,
        }
        where = f"{self._api}.CONSUMER.MSG.NEXT.{stream}.{consumer.name}"
        self._connection.limit()
        request = self._connection.publish(where, dump_json(limits), answered=True)
        messages: list[StoredMessage] = []
        while len(messages) < most:
            answer = self._connection.answer()
            if answer.request == request:
                self._end(answer, empty=not messages)
                break
            if answer.reply.startswith("$JS.ACK."):
                messages.append(_parse_stored(answer, consumer))
        return messages

    def _end(self, answer: NATSMessage, *, empty: bool) -> None:
        """Understand why there are no more for now.

        Raises ``NATSError`` where there is none of what was pending: it may be gone, and a new consumer knows.
        """
        if empty or answer.status not in ("404", "408", "409"):
            raise NATSError(f"the server ended the reading of the stream: status {answer.status}")

    def _request(self, operation: str, question: JSONObject) -> JSONObject:
        answer = self._connection.request(f"{self._api}.{operation}", question)
        if answer.status == "503":
            raise BrokerRefused("the server has no JetStream, or none for this user")
        document = answer.document()
        error = document.get("error")
        if isinstance(error, dict):
            raise _choose_error_type(error)(f"the server says {str(error.get('description'))[:500]}")
        return document


class _NotThere(BrokerRefused):
    """There is no such stream."""


def _choose_error_type(error: JSONObject) -> type[BrokerError]:
    if error.get("code") == _UNAVAILABLE and error.get("err_code") not in _DISABLED:
        return NATSError  # it may pass, as while another server takes over
    return _NotThere if error.get("err_code") == _NO_STREAM else BrokerRefused


def _parse_stored(answer: NATSMessage, consumer: _Consumer) -> StoredMessage:
    words = answer.reply.split(".")
    shift = 0 if len(words) == _SHORT else 2
    try:
        number, there, time, pending = (int(word) for word in words[shift + 5 : shift + 9])
    except ValueError:
        raise NATSError("the server does not say which message of the stream this is") from None
    # Each delivery has a number of its own in the consumer: a gap there is a message that was lost on its way.
    if there != consumer.delivered + 1:
        raise NATSError("the server left out messages of the stream")
    consumer.delivered, consumer.pending = there, pending
    return StoredMessage(
        number=number, time=time, subject=answer.subject, headers=decode_headers(answer.head), payload=answer.payload
    )


def _require_number(value: object) -> int:
    if not isinstance(value, int):
        raise NATSError("the server says no number where one has to be")
    return value
