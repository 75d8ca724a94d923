"""A producer and a consumer for Kafka by kafka-python that connect only to allowed addresses and respect time limits.

A cluster sends its clients the addresses of brokers to connect to. This module resolves their names by
``BrokerSettings``, like the name of the first broker, so that only allowed addresses are used. It also closes sockets
that the library forgets or waits for without end. Otherwise the library manages its connections itself. With Spark
the pipeline does not read from Kafka by this module, but by Spark's own connector.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from signalbook.brokers.connection import (
    BrokerError,
    BrokerRefused,
    BrokerSettings,
    BrokerTimeout,
    BrokerUnavailable,
    MessageTooLarge,
)

_TIMEOUTS: Final = ("request_timeout_ms", "bootstrap_timeout_ms")
_PRODUCER_TIMEOUTS: Final = ("delivery_timeout_ms", "max_block_ms")
_POLL_MILLISECONDS: Final = 200
_POLL_RECORDS: Final = 5000
_LOOK_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 1.0
_Socket = TypeVar("_Socket", bound=socket.socket)


class _Connection:
    """A client of a cluster: the object ``_kafka`` of the library, which ``create`` makes with ``options``.

    Raises ``BrokerError`` if the cluster cannot be reached, or refuses the client.
    """

    _client: Any = None
    _kafka: Any = None

    def __init__(self, settings: BrokerSettings, create: Callable[..., Any], options: dict[str, Any]) -> None:
        self._timeout = settings.timeout
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # our errors contain the relevant information
        self._gate = _Gate(settings)
        try:
            if settings.secure:
                options["ssl_context"] = _WatchedContext(self._gate, settings)
            self._kafka = create(proxy_url=self._gate.name, kafka_client=self._make_client, **options)
        except (KafkaError, BrokerError, OSError, ValueError) as error:
            self.close()
            raise (self._gate.failure or BrokerUnavailable(_format_error(error))) from None

    def close(self) -> None:
        """Close all connections. Raises nothing."""
        if self._kafka is not None:
            self._close_library()
        elif self._client is not None:
            self._client.close()
        self._gate.close()

    def _close_library(self) -> None:
        raise NotImplementedError

    def _make_client(self, **options: Any) -> Any:
        """Return the client for the library's object.

        Store it, so that ``close`` can close it if the object cannot be created.
        """
        self._client = self._gate.make_client(**options)
        self._gate.call_later(self._timeout, self._give_up)
        return self._client

    def _give_up(self) -> None:
        """Interrupt connecting if it has not ended yet, because the library would wait forever for a handshake."""
        if self._kafka is None:
            self._gate.interrupt()


class KafkaClient(_Connection):
    """A connected producer of records for one topic, for use by one thread. Methods raise ``BrokerError``.

    All records have the same ``headers``. ``acks`` is the number of brokers that must store a record before it is
    confirmed: ``all``, ``1`` or ``0``.
    """

    _failed = False

    def __init__(
        self,
        settings: BrokerSettings,
        topic: str,
        *,
        client_id: str,
        acks: str,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._topic = topic
        self._headers = list(headers)
        options = _build_options(settings, client_id, "PLAIN") | {
            "acks": acks if acks == "all" else int(acks),
            # With idempotence, retries of the library neither duplicate nor reorder records.
            "enable_idempotence": acks == "all",
            **dict.fromkeys(_PRODUCER_TIMEOUTS, _count_milliseconds(settings)),
        }
        super().__init__(settings, KafkaProducer, options)

    def publish(self, records: Sequence[tuple[bytes | None, bytes]]) -> Iterator[None]:
        """Send ``records``, pairs of key and value. Yield once for each confirmed record, in order."""
        futures: list[Any] = []
        failure: BrokerError | None = None
        for key, value in records:
            try:
                futures.append(self._kafka.send(self._topic, value, key=key, headers=self._headers))
            except (KafkaError, BrokerError) as error:
                failure = self._explain_failure(error)  # wait for the earlier records, which were sent, before raising
                break
        for future in futures:
            try:
                self._wait(future)
            except (KafkaError, BrokerError) as error:
                raise self._explain_failure(error) from None
            yield
        if failure is not None:
            raise failure

    def _close_library(self) -> None:
        """Close the producer: after a failure at once, so that old records do not arrive after those sent again."""
        if self._failed:
            self._gate.interrupt()
            # Otherwise ``close`` would wait for records that cannot be sent, and its thread would continue to try.
            self._kafka._sender.force_close()
        with suppress(KafkaError):
            self._kafka.close(_CLOSE_SECONDS)

    def _wait(self, future: Any) -> None:
        """Wait for the acknowledgement of a record. Raises ``BrokerError`` after a failure or the timeout."""
        deadline = time.monotonic() + self._timeout
        while not future.is_done:
            if self._gate.failure is not None:
                raise self._gate.failure
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise BrokerTimeout(f"the cluster did not answer within {self._timeout:g} seconds")
            # Wait in short steps, because the library's thread may set ``failure`` in the meantime.
            with suppress(TimeoutError, KafkaError):
                future.get(timeout=min(seconds_left, _LOOK_SECONDS))
        future.get(timeout=0)

    def _explain_failure(self, error: Exception) -> BrokerError:
        self._failed = True
        if self._gate.failure is not None:
            return self._gate.failure
        if isinstance(error, BrokerError):
            return error
        if self._client.cluster.partitions_for_topic(self._topic) is None:
            return BrokerRefused(f"the cluster has no topic {self._topic!r}, or does not show it")
        if isinstance(error, MessageSizeTooLargeError):
            return MessageTooLarge(f"the event is larger than the cluster takes: {_format_error(error)}")
        return BrokerUnavailable(_format_error(error))


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The records of a partition from offset ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int


class KafkaReader(_Connection):
    """A connected consumer without a group, for use by one thread. Methods raise ``BrokerError``.

    ``mechanism`` is the SASL mechanism for settings with a user.
    """

    def __init__(self, settings: BrokerSettings, *, client_id: str, mechanism: str = "PLAIN") -> None:
        # If retention deletes records before they are read, continue with the oldest record that is left.
        options = _build_options(settings, client_id, mechanism) | {"auto_offset_reset": "earliest"}
        super().__init__(settings, KafkaConsumer, options)

    def list_topics(self) -> set[str]:
        """Return the names of the topics that the cluster shows."""
        with self._convert_errors():
            topics: set[str] = self._kafka.topics()
            return topics

    def find_ranges(self, topic: str) -> list[PartitionRange]:
        """Return the range of each partition of an existing topic that has records now."""
        with self._convert_errors():
            places = [TopicPartition(topic, number) for number in sorted(self._kafka.partitions_for_topic(topic))]
            first, last = self._kafka.beginning_offsets(places), self._kafka.end_offsets(places)
        ranges = (PartitionRange(topic, place.partition, first[place], last[place]) for place in places)
        return [partition for partition in ranges if partition.start < partition.end]

    def read(self, partition: PartitionRange) -> Iterator[list[Any]]:
        """Yield the records in ``partition`` in order, as ``kafka.consumer.fetcher.ConsumerRecord``, some at once."""
        place = TopicPartition(partition.topic, partition.partition)
        with self._convert_errors():
            self._kafka.assign([place])
            self._kafka.seek(place, partition.start)
        position, deadline = partition.start, time.monotonic() + self._timeout
        while position < partition.end:
            with self._convert_errors():
                records = self._kafka.poll(_POLL_MILLISECONDS, max_records=_POLL_RECORDS).get(place, [])
                # The position is None while it is reset. Without a time limit, the library would wait forever for it.
                previous, position = position, self._kafka.position(place, _POLL_MILLISECONDS) or position
            wanted = [record for record in records if record.offset < partition.end]
            if wanted:
                yield wanted
            if position > previous:  # also over records that are only for the cluster, such as the end of a transaction
                deadline = time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                raise BrokerTimeout(f"no record of {partition.topic} arrived within {self._timeout:g} seconds")

    def _close_library(self) -> None:
        with suppress(KafkaError):
            self._kafka.close(autocommit=False, timeout_ms=int(_CLOSE_SECONDS * 1000))

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of the library raised in the context to ``BrokerError``."""
        try:
            yield
        except TopicAuthorizationFailedError as error:
            raise BrokerRefused(f"the user may not read the topic: {_format_error(error)}") from None
        except UnsupportedCodecError as error:
            raise BrokerError(f"{_format_error(error)}; pip install 'kafka-python[lz4,snappy]'") from None
        except (KafkaError, OSError) as error:
            raise (self._gate.failure or BrokerUnavailable(_format_error(error))) from None
        if self._gate.failure is not None:
            raise self._gate.failure


class _Gate:
    """The resolver of broker names and owner of all sockets of one client.

    ``failure`` is the error that makes further waiting useless, or None. ``name`` is the ``proxy_url`` by which the
    sockets of the client find this object.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.failure: BrokerError | None = None
        self.name = f"signalbook://{id(self)}"
        self._settings = settings
        self._sockets: list[socket.socket] = []
        _gates[self.name] = self

    def make_client(self, **options: Any) -> Any:
        """Return the library's network client with ``options``."""
        self._net = net = NetworkSelector(**options)
        return KafkaNetClient(net, _Connections(net, self, options), **options)

    def call_later(self, seconds: float, do: Callable[[], None]) -> None:
        """Call ``do`` after ``seconds`` in the library's own thread."""
        self._net.call_later(seconds, do)

    def watch(self, new_socket: _Socket) -> _Socket:
        """Return ``new_socket``, and close it in ``close``, because the library forgets some sockets that fail."""
        # drop sockets that are closed already
        self._sockets = [watched for watched in self._sockets if watched.fileno() >= 0]
        self._sockets.append(new_socket)
        return new_socket

    def interrupt(self) -> None:
        """Shut down all sockets, which ends all waiting on them, such as in a handshake without a response."""
        for watched in self._sockets:
            with suppress(OSError):
                # Use the method of the plain socket. The SSL socket's method drops state that a handshake still uses.
                socket.socket.shutdown(watched, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all sockets."""
        for watched in self._sockets:
            watched.close()

    def lookup(self, host: str, port: int) -> list[Any]:
        """Return the address to connect to in the form of ``socket.getaddrinfo``. Raises ``BrokerError``."""
        try:
            address = self._settings.address(host.lower(), port)
        except BrokerError as error:
            self.failure = error
            raise
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)

    def lost(self, error: Exception, alone: bool) -> None:
        """Handle a failed connection. ``alone`` says that there is no other connection."""
        # Brokers close the connection when they refuse a user, and the library may notice only the closing.
        hung_up = bool(self._settings.user) and "socket disconnected" in str(error)
        if isinstance(error, SaslAuthenticationFailedError) or hung_up:
            self.failure = BrokerRefused("the cluster does not take the user and the password")
        elif alone and self.failure is None:
            self.failure = BrokerUnavailable(_format_error(error))


# The gates by name. A client gets its proxy only as a URL, and its sockets find their gate by this URL.
_gates: WeakValueDictionary[str, _Gate] = WeakValueDictionary()


class _GatedSocket(KafkaNetSocket):  # type: ignore[misc]  # the package has no types
    """The factory of sockets for proxy URLs with this scheme. It uses no proxy, but resolves names by the gate."""

    SCHEMES = ("signalbook",)

    def __init__(self, proxy_url: str) -> None:
        self._gate = _gates[proxy_url]

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Any]:  # noqa: ARG002
        """Return the addresses to connect to. Raises ``BrokerError``."""
        return self._gate.lookup(host, port)

    def socket(self, *kind: Any) -> socket.socket:
        """Return a new socket that the gate closes."""
        new_socket: socket.socket = super().socket(*kind)
        return self._gate.watch(new_socket)


class _WatchedContext(ssl.SSLContext):
    """A TLS client context for ``settings`` whose sockets the gate closes."""

    def __new__(cls, _gate: _Gate, _settings: BrokerSettings) -> _WatchedContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, gate: _Gate, settings: BrokerSettings) -> None:
        self._gate = gate
        if settings.ca:
            self.load_verify_locations(settings.ca)
        else:
            self.load_default_certs()
        if settings.certificate:
            self.load_cert_chain(settings.certificate, settings.key or None)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """Return a TLS socket that the gate closes."""
        return self._gate.watch(super().wrap_socket(*arguments, **more))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """A connection manager that reports failures to the gate, and tries the first broker only once.

    The caller of the client decides about further attempts.
    """

    def __init__(self, net: Any, gate: _Gate, options: dict[str, Any]) -> None:
        super().__init__(net, **options)
        self.cluster.config["allow_auto_create_topics"] = False
        self._gate = gate

    def get_connection(self, node_id: Any, *arguments: Any, **more: Any) -> Any:
        """Return a connection to a broker. Raises ``BrokerError`` if the first broker has failed."""
        first = bool(self.cluster.is_bootstrap(node_id))
        if first and self._gate.failure is not None:
            raise self._gate.failure
        connection = super().get_connection(node_id, *arguments, **more)
        connection.init_future.add_errback(lambda error: self._gate.lost(error, first or not self._is_connected()))
        return connection

    def _is_connected(self) -> bool:
        return bool(self.least_used_connections())


def _count_milliseconds(settings: BrokerSettings) -> int:
    return max(1, int(settings.timeout * 1000))


def _build_options(settings: BrokerSettings, client_id: str, mechanism: str) -> dict[str, Any]:
    """Return the options that producers and consumers have in common."""
    servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in settings.servers]
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "client_id": client_id,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "security_protocol": ("SASL_" if settings.user else "") + ("SSL" if settings.secure else "PLAINTEXT"),
        **dict.fromkeys(_TIMEOUTS, _count_milliseconds(settings)),
    }
    if settings.user:
        options |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": settings.user,
            "sasl_plain_password": settings.password,
        }
    return options


def _format_error(error: Exception) -> str:
    """Return the library's text for an error."""
    return (str(error) or type(error).__name__)[:500]
