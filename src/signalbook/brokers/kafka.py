"""A producer for Kafka, by kafka-python: its connections go to places that are allowed, and are given up in time.

A cluster names its clients the brokers to go on at. What it names is resolved by the settings like the first broker.
The library's own ways to make connections are kept but for that, and for sockets that it forgets or waits for without
end. What the pipeline reads from Kafka, Spark's own connector reads.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, SaslAuthenticationFailedError
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

_TIMEOUTS: Final = ("request_timeout_ms", "delivery_timeout_ms", "max_block_ms", "bootstrap_timeout_ms")
_LOOK_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 1.0
_Socket = TypeVar("_Socket", bound=socket.socket)


class KafkaClient:
    """A connected producer of records for one topic. For one thread. Everything raises ``BrokerError``.

    All records have the same ``headers``.
    ``acks`` is ``all``, ``1`` or ``0``: how many brokers have to have a record before it counts as confirmed.
    """

    _client: Any = None
    _producer: Any = None
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
        self._timeout = settings.timeout
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of it is in our errors
        self._gate = _Gate(settings)
        options = _build_options(settings, client_id, acks)
        try:
            if settings.secure:
                options["ssl_context"] = _WatchedContext(self._gate, settings)
            self._producer = KafkaProducer(proxy_url=self._gate.name, kafka_client=self._make_client, **options)
        except (KafkaError, BrokerError, OSError, ValueError) as error:
            self.close()
            raise (self._gate.failure or BrokerUnavailable(_format_error(error))) from None

    def publish(self, records: Sequence[tuple[bytes | None, bytes]]) -> Iterator[None]:
        """Send records, as their keys and values; yields once for each that is confirmed, in their order."""
        futures: list[Any] = []
        failure: BrokerError | None = None
        for key, value in records:
            try:
                futures.append(self._producer.send(self._topic, value, key=key, headers=self._headers))
            except (KafkaError, BrokerError) as error:
                failure = self._explain_failure(error)  # those before it are on their way, and still count
                break
        for future in futures:
            try:
                self._wait(future)
            except (KafkaError, BrokerError) as error:
                raise self._explain_failure(error) from None
            yield
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Hang up; after a failure at once, so that nothing arrives behind what is sent again. Raises nothing."""
        if self._producer is None:
            if self._client is not None:
                self._client.close()
        else:
            if self._failed:
                self._gate.interrupt()
                # Its ``close`` would wait for what cannot be sent, and then leave it to its thread to go on trying.
                self._producer._sender.force_close()
            with suppress(KafkaError):
                self._producer.close(_CLOSE_SECONDS)
        self._gate.close()

    def _make_client(self, **options: Any) -> Any:
        """Make the client of the producer. It is kept, since nobody else closes it if the producer cannot be made."""
        self._client = self._gate.make_client(**options)
        self._gate.call_later(self._timeout, self._give_up)
        return self._client

    def _give_up(self) -> None:
        """Give up if there is no producer by now: the library would wait for a hanging handshake without end."""
        if self._producer is None:
            self._gate.interrupt()

    def _wait(self, future: Any) -> None:
        """Wait for a record's acknowledgement, or until there is no hope for it."""
        deadline = time.monotonic() + self._timeout
        while not future.is_done:
            if self._gate.failure is not None:
                raise self._gate.failure
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise BrokerTimeout(f"the cluster did not answer within {self._timeout:g} seconds")
            # In short steps: the library's thread may find meanwhile that there is no hope.
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


class _Gate:
    """Looks names up for one producer, of the first broker and of those that the cluster says to go on at.

    ``failure`` is what makes it useless to wait any longer; ``name`` is what the producer's ``proxy_url`` has to be.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.failure: BrokerError | None = None
        self.name = f"signalbook://{id(self)}"
        self._settings = settings
        self._sockets: list[socket.socket] = []
        _gates[self.name] = self

    def make_client(self, **options: Any) -> Any:
        """Return the client for a producer with these options."""
        self._net = net = NetworkSelector(**options)
        return KafkaNetClient(net, _Connections(net, self, options), **options)

    def call_later(self, seconds: float, do: Callable[[], None]) -> None:
        """Call ``do`` later in the library's own thread."""
        self._net.call_later(seconds, do)

    def watch(self, new_socket: _Socket) -> _Socket:
        """The same socket, which is closed with the gate: the library forgets some that fail."""
        # those that were closed are forgotten
        self._sockets = [watched for watched in self._sockets if watched.fileno() >= 0]
        self._sockets.append(new_socket)
        return new_socket

    def interrupt(self) -> None:
        """End whatever anybody waits for at a socket, such as a handshake that the other side does not go on with."""
        for watched in self._sockets:
            with suppress(OSError):
                # The plain socket's: that of an SSL socket drops what the handshake in the other thread still uses.
                socket.socket.shutdown(watched, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all sockets."""
        for watched in self._sockets:
            watched.close()

    def lookup(self, host: str, port: int) -> list[Any]:
        """The one address to connect to, as ``getaddrinfo`` has it. Raises ``BrokerError``."""
        try:
            address = self._settings.address(host.lower(), port)
        except BrokerError as error:
            self.failure = error
            raise
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)

    def lost(self, error: Exception, alone: bool) -> None:
        """A connection could not be made, and was there another, or was it ``alone``?"""
        # The library may notice only that the broker hung up, which brokers do right after their no.
        hung_up = bool(self._settings.user) and "socket disconnected" in str(error)
        if isinstance(error, SaslAuthenticationFailedError) or hung_up:
            self.failure = BrokerRefused("the cluster does not take the user and the password")
        elif alone and self.failure is None:
            self.failure = BrokerUnavailable(_format_error(error))


# A producer is given its proxy as a URL only, so that its sockets find their gate by that.
_gates: WeakValueDictionary[str, _Gate] = WeakValueDictionary()


class _GatedSocket(KafkaNetSocket):  # type: ignore[misc]  # the package has no types
    """The way the library makes sockets for proxy URLs of this scheme: without a proxy, if the gate allows it."""

    SCHEMES = ("signalbook",)

    def __init__(self, proxy_url: str) -> None:
        self._gate = _gates[proxy_url]

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Any]:  # noqa: ARG002
        """The addresses that are connected to."""
        return self._gate.lookup(host, port)

    def socket(self, *kind: Any) -> socket.socket:
        """Make a watched socket."""
        new_socket: socket.socket = super().socket(*kind)
        return self._gate.watch(new_socket)


class _WatchedContext(ssl.SSLContext):
    """A TLS context like every client's whose connections are watched."""

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
        """Wrap a socket and watch it."""
        return self._gate.watch(super().wrap_socket(*arguments, **more))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Reports to the gate what fails, and tries the first broker once: to try again is for whoever delivers."""

    def __init__(self, net: Any, gate: _Gate, options: dict[str, Any]) -> None:
        super().__init__(net, **options)
        self.cluster.config["allow_auto_create_topics"] = False
        self._gate = gate

    def get_connection(self, node_id: Any, *arguments: Any, **more: Any) -> Any:
        """Return a connection until the first broker fails."""
        first = bool(self.cluster.is_bootstrap(node_id))
        if first and self._gate.failure is not None:
            raise self._gate.failure
        connection = super().get_connection(node_id, *arguments, **more)
        connection.init_future.add_errback(lambda error: self._gate.lost(error, first or not self._is_connected()))
        return connection

    def _is_connected(self) -> bool:
        return bool(self.least_used_connections())


def _build_options(settings: BrokerSettings, client_id: str, acks: str) -> dict[str, Any]:
    milliseconds = max(1, int(settings.timeout * 1000))
    servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in settings.servers]
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "client_id": client_id,
        "acks": acks if acks == "all" else int(acks),
        # So that what the library sends again by itself neither doubles nor overtakes anything.
        "enable_idempotence": acks == "all",
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "security_protocol": ("SASL_" if settings.user else "") + ("SSL" if settings.secure else "PLAINTEXT"),
        **dict.fromkeys(_TIMEOUTS, milliseconds),
    }
    if settings.user:
        options |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": settings.user,
            "sasl_plain_password": settings.password,
        }
    return options


def _format_error(error: Exception) -> str:
    """Return the library's text for an error."""
    return (str(error) or type(error).__name__)[:500]
