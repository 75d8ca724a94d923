"""How a Kafka producer makes its connections here: to places that are allowed, watched, and given up in time.

A cluster tells its clients where to go on. What it names is held to the operator's policy like the sink itself. The
client's own ways to make connections are kept but for that, and for sockets that it forgets or waits for without end.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from signalbook.events.sinks import brokers
from signalbook.events.sinks.base import DeliveryError, SinkPolicy
from signalbook.events.sinks.brokers import BrokerAddress, ConnectionLost
from signalbook.events.subscriptions.subscription import SubscriptionError

_Socket = TypeVar("_Socket", bound=socket.socket)


class Gate:
    """Looks names up for one producer, of the first broker and of those that the cluster says to go on at.

    ``failure`` is what makes it useless to wait any longer; ``name`` is what a producer's ``proxy_url`` has to be;
    ``shown`` says whether brokers are shown a password.
    """

    def __init__(self, policy: SinkPolicy, *, secure: bool, shown: bool) -> None:
        self.failure: DeliveryError | None = None
        self.name = f"signalbook://{id(self)}"
        self._secure = secure
        self._shown = shown
        self._policy = policy
        self._sockets: list[socket.socket] = []
        _gates[self.name] = self

    def client(self, **settings: Any) -> Any:
        """What a producer with these settings connects by."""
        self._net = net = NetworkSelector(**settings)
        return KafkaNetClient(net, _Connections(net, self, settings), **settings)

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Have the client's own thread do something later."""
        self._net.call_later(seconds, do)

    def watch(self, made: _Socket) -> _Socket:
        """The same socket, which is closed with the gate: the client forgets some that fail."""
        self._sockets = [one for one in self._sockets if one.fileno() >= 0]
        self._sockets.append(made)
        return made

    def interrupt(self) -> None:
        """End whatever anybody waits for at a socket, such as a handshake that the other side does not go on with."""
        for made in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(made, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all sockets."""
        for made in self._sockets:
            made.close()

    def lookup(self, host: str, port: int) -> list[Any]:
        """The one address to connect to, as ``getaddrinfo`` has it. Raises ``DeliveryError``."""
        place = BrokerAddress(host=host.lower(), port=port, path="", secure=self._secure)
        try:
            brokers.check_allowed(place.host, port, place.secure, self._policy, "the cluster names a broker")
            address = brokers.address_of(place, self._policy)
        except (SubscriptionError, DeliveryError) as error:
            self.failure = DeliveryError(str(error))
            raise self.failure from None
        return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    def lost(self, error: Exception, alone: bool) -> None:
        """A connection could not be made, and was there another, or was it ``alone``?"""
        # The client may notice only that the broker hung up, which brokers do right after their no.
        if isinstance(error, SaslAuthenticationFailedError) or (self._shown and "socket disconnected" in str(error)):
            self.failure = DeliveryError("the cluster does not take the user and the password")
        elif alone and self.failure is None:
            self.failure = ConnectionLost(told(error))


_gates: WeakValueDictionary[str, Gate] = WeakValueDictionary()


class _GatedSocket(KafkaNetSocket):  # type: ignore[misc]  # the package has no types
    """How the client makes sockets for proxy URLs of this scheme: without a proxy, where the gate lets it."""

    SCHEMES = ("signalbook",)

    def __init__(self, proxy_url: str) -> None:
        self._gate = _gates[proxy_url]

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Any]:  # noqa: ARG002
        """The addresses that are connected to."""
        return self._gate.lookup(host, port)

    def socket(self, *kind: Any) -> socket.socket:
        """As always, and watched."""
        made: socket.socket = super().socket(*kind)
        return self._gate.watch(made)


class WatchedContext(ssl.SSLContext):
    """As every client's context, and what it encrypts is watched."""

    def __new__(cls, _gate: Gate) -> WatchedContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.load_default_certs()

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """As always, and watched."""
        return self._gate.watch(super().wrap_socket(*arguments, **more))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Tells the gate what fails, and tries the first broker once: to try again is for whoever delivers."""

    def __init__(self, net: Any, gate: Gate, settings: dict[str, Any]) -> None:
        super().__init__(net, **settings)
        self.cluster.config["allow_auto_create_topics"] = False
        self._gate = gate

    def get_connection(self, node_id: Any, *arguments: Any, **more: Any) -> Any:
        """As always, until the first broker fails."""
        first = bool(self.cluster.is_bootstrap(node_id))
        if first and self._gate.failure is not None:
            raise self._gate.failure
        connection = super().get_connection(node_id, *arguments, **more)
        connection.init_future.add_errback(lambda error: self._gate.lost(error, first or not self._connected()))
        return connection

    def _connected(self) -> bool:
        return bool(self.least_used_connections())


def told(error: Exception) -> str:
    """What the client says of a failure."""
    return (str(error) or type(error).__name__)[:500]
