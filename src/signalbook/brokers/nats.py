"""A client of NATS and JetStream: connections, messages with headers, requests, streams.

The client trusts the server as little as possible. The caller decides about TLS, not the server. The client does not
connect to other servers that the server names, and it limits the size of lines and messages.
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
# Texts of server errors that may pass: the server closes the connection, but may accept the next one.
_PASSING: Final = ("timeout", "stale connection", "maximum connections", "slow consumer", "shutdown")


class NATSError(BrokerUnavailable):
    """The error for a server that violates the protocol or closes the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NATSMessage:
    """A message from the server: a response in our inbox, or a message of a stream.

    ``request`` is the number of the request that a response belongs to, None for a message of a stream. ``status`` is
    the status code of a response that has one, such as ``503`` if nobody listens. For a message of a stream ``subject``
    is where it was sent to, and ``reply`` identifies it in the stream. ``head`` are the headers as they were sent.
    """

    request: int | None
    status: str = ""
    payload: bytes = b""
    subject: str = ""
    reply: str = ""
    head: bytes = b""

    def document(self) -> JSONObject:
        """Return the payload as a JSON object, or an empty object if the payload is not a JSON object."""
        try:
            document = parse_json(self.payload)
        except JSONError:
            return {}
        return document if isinstance(document, dict) else {}


class NATSConnection:
    """A connection to a NATS server, for use by one thread. Methods raise ``BrokerError``."""

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
            self._buffer.clear()  # anybody may have sent what was received before the handshake
            stream.encrypt()
        elif self.info.get("tls_required"):
            raise BrokerRefused("the server takes connections with TLS only: the URI begins with tls:// then")
        if not self.info.get("headers"):
            raise BrokerRefused("the server has no message headers, which NATS 2.2 brought")
        self._connect(user, password, token, secure)
        self._stream.write(b"SUB %s.* %s\r\n" % (self._inbox.encode(), _SUBSCRIPTION))

    @classmethod
    def open(cls, settings: BrokerSettings) -> NATSConnection:
        """Return a new connection to the broker of ``settings``."""
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
        """Restart the time limit for all following calls: ``seconds``, or the timeout of the settings if None."""
        self._stream.limit(seconds)

    @property
    def max_payload(self) -> int:
        """The largest size of a message in bytes, including headers, that the server accepts."""
        limit = self.info.get("max_payload")
        return min(limit, _LARGEST_POSSIBLE) if isinstance(limit, int) and limit > 0 else _LARGEST_MESSAGE

    def publish(self, subject: str, message: bytes, head: int = 0, *, answered: bool = False) -> int:
        """Send a message whose first ``head`` bytes are its headers.

        Return the number of the request. If ``answered``, the response comes to the inbox with this number.
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
        """Send ``question`` to ``subject`` and return the response."""
        self.limit()
        number = self.publish(subject, dump_json(question) if question else b"", answered=True)
        answer = self.answer()
        # Responses to earlier requests, for which nobody waits any more, may still arrive.
        while answer.request != number:
            answer = self.answer()
        return answer

    def round_trip(self) -> None:
        """Wait until the server has processed everything sent so far. Raises ``BrokerRefused`` if it refused a part."""
        self._stream.write(b"PING\r\n")
        while self._read_next() != b"PONG":
            pass

    def answer(self) -> NATSMessage:
        """Wait for the next message and return it. Raises ``BrokerRefused``."""
        while True:
            message = self._read_next()
            if isinstance(message, NATSMessage):
                return message

    def close(self) -> None:
        """Close the connection."""
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
            "verbose": False,  # otherwise the server confirms each message with +OK; one PING confirms all
            "pedantic": False,
            "tls_required": secure,
            "headers": True,
            "no_responders": True,  # a request without a listener gets the status 503 instead of no response
            "name": "signalbook",
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "echo": False,  # our own messages do not come back to our inbox
        }
        if user:
            options |= {"user": user, "pass": password}
        if token:
            options["auth_token"] = token
        self._stream.write(b"CONNECT " + dump_json(options) + b"\r\n")
        self.round_trip()

    def _read_next(self) -> bytes | NATSMessage | None:
        """Read one operation of the server. Return ``PONG`` or the message, and None for any other operation.

        Raises ``BrokerRefused`` if the server refuses, and ``NATSError`` for errors that may pass.
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
            # An INFO may name other servers of the cluster. They are ignored, because the caller has not allowed them.
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
        # Check the size before reading the message, because the claimed size decides how much memory is used.
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
    """Return ``headers`` encoded as NATS transfers them."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def decode_headers(head: bytes) -> list[tuple[str, bytes]]:
    """Return the headers of ``head`` as pairs, in the order and with the case in which they were sent."""
    headers = []
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name.decode(errors="backslashreplace"), value.strip()))
    return headers


_NANOSECONDS: Final = 1_000_000_000
# Seconds after which the server removes an unused consumer.
_KEPT_SECONDS: Final = 300
# Seconds that the server waits for messages that it has reported as pending.
_EXPIRES: Final = 5
_AT_ONCE: Final = 1000
_PUBLISH_WINDOW: Final = 100
_MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
_AROUND: Final = 64 * 1024
_NO_STREAM: Final = 10059
_UNAVAILABLE: Final = 503
_DISABLED: Final = (10039, 10076)
# The number of words of a reply subject: $JS.ACK.<stream>.<consumer>.<deliveries>.<number in the stream>.
# <number in the consumer>.<nanoseconds>.<pending messages>. Newer servers have domain and account before the stream.
_SHORT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JetStreamState:
    """The state of a stream. ``first`` and ``last`` are the numbers of its first and last messages.

    In an empty stream ``first`` is ``last + 1``. ``created`` is the creation time as the server writes it.
    """

    name: str
    first: int
    last: int
    retention: str
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message of a stream. ``time`` is the time at which it was stored, in nanoseconds since 1970."""

    number: int
    time: int
    subject: str
    headers: list[tuple[str, bytes]]
    payload: bytes


@dataclass(slots=True)
class _Consumer:
    """The progress of a consumer: how many messages were ``delivered``, and how many are ``pending``."""

    name: str
    pending: int
    delivered: int = 0


class NATSPublisher:
    """A publisher of messages to one subject, for use by one thread. Methods raise ``BrokerError``.

    If a JetStream stream stores the subject, each message is confirmed by the stream's acknowledgement. Otherwise the
    server's answer to a PING confirms that it has received the messages.
    """

    def __init__(self, connection: NATSConnection, subject: str) -> None:
        self._connection = connection
        self._subject = subject
        self._stored = self._is_stored()

    @classmethod
    def open(cls, settings: BrokerSettings, subject: str) -> NATSPublisher:
        """Return a publisher with a new connection, which ``close`` closes."""
        connection = NATSConnection.open(settings)
        try:
            return cls(connection, subject)
        except BaseException:
            connection.close()
            raise

    def publish(self, messages: Sequence[tuple[bytes, bytes]]) -> Iterator[None]:
        """Send ``messages``, pairs of headers and payload. Yield once for each confirmed message, in order."""
        for start in range(0, len(messages), _PUBLISH_WINDOW):
            self._connection.limit()
            fitting, rejected = self._take_fitting(messages[start : start + _PUBLISH_WINDOW])
            yield from self._store(fitting) if self._stored else self._send(fitting)
            if rejected is not None:
                raise rejected

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        with suppress(BrokerError):
            self._connection.close()

    def _take_fitting(
        self, messages: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[tuple[bytes, bytes]], BrokerError | None]:
        """Return the messages before the first that is too large, and the error for that message or None.

        The server would close the connection on a too large message, and the messages before it would be lost.
        """
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
        """Return True if a stream stores the subject. Return False if the user may not query JetStream."""
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
    """A reader of JetStream streams over a connection. Methods raise ``BrokerError``.

    ``domain`` is the JetStream domain to use, if the streams are on other servers that leaf nodes connect.
    """

    def __init__(self, connection: NATSConnection, domain: str = "") -> None:
        self._connection = connection
        self._api = f"$JS.{domain}.API" if domain else "$JS.API"

    def stream(self, name: str) -> JetStreamState | None:
        """Return the state of the stream ``name``, or None if no such stream exists."""
        try:
            document = self._request(f"STREAM.INFO.{name}", {})
        except _NotThere:
            return None
        state, config = document.get("state"), document.get("config")
        if not isinstance(state, dict) or not isinstance(config, dict):
            raise NATSError("the server says nothing of the state of the stream")
        last = _require_number(state.get("last_seq"))
        # The server reports 0 or ``last + 1`` as the first number of an empty stream.
        first = _require_number(state.get("first_seq")) if state.get("messages") else last + 1
        retention, created = str(config.get("retention", "limits")), str(document.get("created", ""))
        return JetStreamState(name=name, first=first, last=last, retention=retention, created=created)

    def streams_of(self, subject: str) -> list[str]:
        """Return the names of the streams that store messages of ``subject``."""
        names = self._request("STREAM.NAMES", {"subject": subject}).get("streams")
        return [str(name) for name in names] if isinstance(names, list) else []

    def read(self, stream: str, start: int, end: int, subject: str = "") -> Iterator[list[StoredMessage]]:
        """Yield the messages numbered ``start`` to ``end`` (included) of ``stream``, in order and in bounded lists.

        A nonempty ``subject``, which may have wildcards, selects only the messages of this subject. Each list is read
        completely before it is yielded, so that a slow caller does not keep the server waiting.
        """
        if start > end:
            return
        consumer = self._consume(stream, start, subject)
        while consumer.pending:
            messages = self._pull(stream, consumer)
            in_range = [message for message in messages if message.number <= end]
            if in_range:
                yield in_range
            # Stop at ``end``, even if messages beyond it were delivered. No message needs an acknowledgement.
            if len(in_range) < len(messages) or (in_range and in_range[-1].number == end):
                break
        with suppress(BrokerRefused):  # the server may have removed the consumer already
            self._request(f"CONSUMER.DELETE.{stream}.{consumer.name}", {})

    def _consume(self, stream: str, start: int, subject: str) -> _Consumer:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            # Spark's checkpoint stores the progress. An acknowledgement could not be atomic with Spark's commit.
            "ack_policy": "none",
            "replay_policy": "instant",
            # The server drops the consumer of a task that was killed.
            "inactive_threshold": _KEPT_SECONDS * _NANOSECONDS,
            "num_replicas": 1,
            "mem_storage": True,  # the consumer is lost with the server; the next attempt creates a new one
            **({"filter_subject": subject} if subject else {}),
        }
        document = self._request(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        return _Consumer(name=str(document.get("name")), pending=_require_number(document.get("num_pending")))

    def _pull(self, stream: str, consumer: _Consumer) -> list[StoredMessage]:
        """Request the next pending messages and return them."""
        most = min(consumer.pending, _AT_ONCE)
        limits = {
            "batch": most,
            # The limit must fit the largest message with its headers; otherwise that message would never be delivered.
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
        """Check the status with which the server ended a delivery before all requested messages came.

        Raises ``NATSError`` for other statuses than a timeout or limit, and if the delivery was ``empty``: the pending
        messages may be gone, and only a new consumer has a correct count.
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
    """The error for a stream that does not exist."""


def _choose_error_type(error: JSONObject) -> type[BrokerError]:
    if error.get("code") == _UNAVAILABLE and error.get("err_code") not in _DISABLED:
        return NATSError  # the error may pass, for example while another server takes over
    return _NotThere if error.get("err_code") == _NO_STREAM else BrokerRefused


def _parse_stored(answer: NATSMessage, consumer: _Consumer) -> StoredMessage:
    words = answer.reply.split(".")
    shift = 0 if len(words) == _SHORT else 2
    try:
        number, there, time, pending = (int(word) for word in words[shift + 5 : shift + 9])
    except ValueError:
        raise NATSError("the server does not say which message of the stream this is") from None
    # The consumer numbers its deliveries: a gap in these numbers means that a message was lost on the way.
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
