"""Fetch URLs that clients name, but only from hosts that the operator allows (core R112, R316).

A client that can make a server fetch URLs could explore the server's network, keep the server busy, or fill its memory.
So the host must be on the allow list. Its name is resolved once, and the connection uses that address. Addresses that
are not public must be on the list too. Redirects follow the same rules, and time and size are limited. No credentials,
cookies or proxies are used.
"""

from __future__ import annotations

import errno
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

import httpcore

from signalbook.errors import SignalbookError
from signalbook.settings import SettingError
from signalbook.values import JSON, parse_json

_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = ((b"Accept", b"application/json, */*;q=0.5"), (b"Accept-Encoding", b"identity"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class FetchError(SignalbookError, ValueError):
    """The error for a URL that must not or cannot be fetched. The message contains the URL and the reason."""


class AddressNotAllowed(FetchError):
    """The error for a host name with an address that connections are not allowed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of a task: ``max_bytes`` and ``seconds`` for all its fetches, ``redirects`` for each URL."""

    max_bytes: int = 8 * 1024 * 1024
    seconds: float = 10.0
    redirects: int = 3


class AllowList:
    """The hosts and networks that connections are allowed to. ``setting`` is the name of the setting for errors.

    An entry ``HOST`` allows ports 80 and 443, ``HOST:PORT`` that port. If an entry is an address or a network in CIDR
    notation, names may resolve to it even if it is not public. ``localhost`` allows this machine. Raises
    ``SettingError`` for any other entry.
    """

    def __init__(self, entries: Iterable[str], *, setting: str = "allow_fetch") -> None:
        self._setting = setting
        self._places: set[tuple[str, int]] = set()
        self._networks: list[Network] = []
        self._ranges: list[Network] = []
        for entry in entries:
            self._add(entry.strip())

    def __bool__(self) -> bool:
        return bool(self._places)

    def names(self, host: str, port: int) -> bool:
        """Return True if the list contains ``host`` with ``port``."""
        return (host, port) in self._places

    def takes(self, address: Address, host: str) -> bool:
        """Return True if ``address`` is public, or the list allows ``host`` to resolve to it."""
        plain_address = getattr(address, "ipv4_mapped", None) or address
        if is_public(plain_address):
            return True
        return (host == "localhost" and plain_address.is_loopback) or any(
            plain_address in network for network in self._networks
        )

    def admits(self, address: Address, host: str, port: int) -> bool:
        """Return True if a connection to ``host`` at ``address`` and ``port`` is allowed.

        Every port of a public address is allowed, and every port of a network on the list. Any other address must be on
        the list itself (or be loopback for ``localhost``), and the host or the address must be on the list with this
        port.
        """
        plain_address = getattr(address, "ipv4_mapped", None) or address
        if is_public(plain_address) or any(plain_address in network for network in self._ranges):
            return True
        return (self.names(host, port) or self.names(str(plain_address), port)) and self.takes(plain_address, host)

    def _add(self, entry: str) -> None:
        if "/" in entry:
            self._ranges.append(_parse_network(entry, self._setting))
            self._networks.append(self._ranges[-1])
            return
        parts = _split(entry, self._setting)
        host = _find_host(parts)
        self._places |= {(host, port) for port in ((parts.port,) if parts.port else _PORTS.values())}
        try:
            self._networks.append(ipaddress.ip_network(host))
        except ValueError:
            return


_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that IANA has assigned for global unicast."""
_SPECIAL_V4: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by customers of a provider
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, and where clouds serve credentials
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_SPECIAL_V6: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments; Teredo, which embeds IPv4 addresses
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which embeds IPv4 addresses
        "3fff::/20",  # documentation
    )
)
"""Networks in IANA's special-purpose registries, https://www.iana.org/assignments/iana-ipv6-special-registry

They are listed here because ``ipaddress.is_global`` differs between versions of Python. It also accepts site-local
addresses, IPv4-compatible addresses and translation prefixes, which may lead to private IPv4 addresses.
"""


def is_public(address: Address) -> bool:
    """Return True if ``address`` belongs to a machine on the public Internet, also as an IPv4-mapped IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        return address in _UNICAST and not any(address in network for network in _SPECIAL_V6)
    return not any(address in network for network in _SPECIAL_V4)


class Deadline:
    """A time limit for a task of several steps. It may be used by one thread only."""

    def __init__(self, seconds: float) -> None:
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Allow ``seconds`` from now on."""
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left. Raises ``httpcore.ReadTimeout`` if the time is over."""
        seconds_left = self._end - time.monotonic()
        if seconds_left <= 0:
            raise httpcore.ReadTimeout
        return seconds_left


def reachable(host: str, port: int, allowed: AllowList, seconds: float) -> str:
    """Return the address to connect to for ``host``. Do not resolve the name again: the result could differ.

    Raises ``AddressNotAllowed`` if any address of ``host`` is neither public nor ``allowed``: a name with both kinds
    may be an attack. Raises ``FetchError`` if the name is unknown, and ``httpcore.ConnectTimeout`` after ``seconds``.
    """
    addresses = _find_addresses(host, port, seconds)
    for address in addresses:
        if not allowed.admits(address, host, port):
            raise AddressNotAllowed(
                f"{host}:{port} leads to {address}, which is neither public nor among the places allowed"
            )
    return str(addresses[0])


def connect(address: str, port: int, deadline: Deadline) -> httpcore.NetworkStream:
    """Connect to ``address`` and return a stream whose reads and writes all end at ``deadline``.

    Raises the errors of httpcore.
    """
    return _Timed(httpcore.SyncBackend().connect_tcp(address, port, deadline.remaining()), deadline)


class Errand:
    """A series of fetches that share one set of ``limits``. It may be used by one thread only."""

    def __init__(self, allowed: AllowList, limits: FetchLimits = FetchLimits()) -> None:
        self._allowed = allowed
        self._limits = limits
        self._left = limits.max_bytes
        self._deadline = Deadline(limits.seconds)

    def load(self, url: str) -> JSON:
        """Fetch ``url`` and return its JSON value. Raises ``FetchError``, or ``JSONError`` if it is not JSON."""
        return parse_json(self.fetch(url))

    def fetch(self, url: str) -> bytes:
        """Fetch ``url``, following redirects, and return its content. Raises ``FetchError``."""
        for _ in range(self._limits.redirects + 1):
            try:
                response = self._exchange(url)
            except httpcore.TimeoutException:
                raise FetchError(f"{url} did not come within {self._limits.seconds:g} seconds") from None
            except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
                raise FetchError(f"{url} cannot be fetched: {error or type(error).__name__}") from None
            if isinstance(response, bytes):
                return response
            url = response
        raise FetchError(f"{url} is one redirect too many")

    def _exchange(self, url: str) -> bytes | str:
        """Request ``url``. Return the content as bytes, or the URL of a redirect as text."""
        parts = _split_url(url)
        host, port = _find_host(parts), parts.port or _PORTS[parts.scheme]
        if not self._allowed.names(host, port):
            raise FetchError(f"{host}:{port} is not among the places to fetch from (setting allow_fetch)")
        backend = _Pinned(self._choose_address(host, port), self._deadline)
        with (
            httpcore.ConnectionPool(ssl_context=ssl.create_default_context(), network_backend=backend) as pool,
            pool.stream(
                "GET", url.partition("#")[0], headers=[(b"Host", parts.netloc.encode("ascii")), *_HEADERS]
            ) as response,
        ):
            headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS and b"location" in headers:
                return urljoin(url, headers[b"location"])
            if response.status != 200:
                raise FetchError(f"{url}: the server answers {response.status}")
            if headers.get(b"content-encoding", "identity").lower() != "identity":
                raise FetchError(f"{url}: the server sends it compressed, unasked")
            return self._read_body(url, response)

    def _read_body(self, url: str, response: httpcore.Response) -> bytes:
        content = bytearray()
        for chunk in response.iter_stream():
            self._left -= len(chunk)
            if self._left < 0:
                raise FetchError(f"{url}: there is more than the {self._limits.max_bytes} bytes that are fetched")
            content += chunk
        return bytes(content)

    def _choose_address(self, host: str, port: int) -> str:
        """Return the address to connect to. Raises ``FetchError`` if any address of ``host`` is not allowed."""
        addresses = _find_addresses(host, port, self._deadline.remaining())
        for address in addresses:
            if not self._allowed.takes(address, host):
                raise FetchError(
                    f"{host} leads to {address}, which is not public: allow_fetch would have to name it too"
                )
        return str(addresses[0])


class _Pinned(httpcore.NetworkBackend):
    """A network backend that connects to one address, even if the host name resolves to another one by now."""

    def __init__(self, address: str, deadline: Deadline) -> None:
        self._choose_address = address
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - looked up before
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the errand has its own
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Connect to the address, and return a stream that keeps to the deadline."""
        return connect(self._choose_address, port, self._deadline)


class _Timed(httpcore.NetworkStream):
    """A stream whose operations all have to end before one deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Read from the stream."""
        return self._stream.read(max_bytes, self._deadline.remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Write to the stream."""
        self._stream.write(buffer, self._deadline.remaining())

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """Encrypt the stream with TLS, check the server's name, and return the encrypted stream."""
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.remaining())
        return _Timed(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return the extra information of the stream."""
        return self._stream.get_extra_info(info)


def _find_addresses(host: str, port: int, seconds: float) -> list[Address]:
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in _resolve(host, port, seconds)]
    if not addresses:
        raise FetchError(f"{host} has no address")
    return addresses


def _resolve(host: str, port: int, seconds: float) -> Sequence[str]:
    """Return every address of ``host``. A thread does the lookup, because the system's own time limits are too long."""
    results: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            results.put([str(address[0]) for *_, address in infos])
        except OSError as error:
            results.put(error)
        except UnicodeError:
            results.put(OSError(errno.EINVAL, "it is no name"))

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        resolved = results.get(timeout=seconds)
    except queue.Empty:
        raise httpcore.ConnectTimeout from None
    if isinstance(resolved, OSError):
        raise FetchError(f"{host} cannot be found: {resolved.strerror}")
    return resolved


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
        url.encode("ascii")
    except ValueError as error:
        raise FetchError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise FetchError(f"{url!r} cannot be fetched: only http and https URLs can")
    if parts.username is not None or parts.password is not None:
        raise FetchError("a URL with a name or password is not fetched")
    return parts


def _split(entry: str, setting: str) -> SplitResult:
    # An IPv6 address may come without its brackets.
    bare = f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry
    try:
        parts = urlsplit(f"//{bare}")
        _ = parts.port
    except ValueError as error:
        raise SettingError(f"{setting}: {entry!r} is no HOST or HOST:PORT: {error}") from None
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise SettingError(f"{setting}: {entry!r} is no HOST or HOST:PORT")
    return parts


def _parse_network(entry: str, setting: str) -> Network:
    try:
        return ipaddress.ip_network(entry)
    except ValueError as error:
        raise SettingError(f"{setting}: {entry!r} is no network: {error}") from None


def _find_host(parts: SplitResult) -> str:
    return str(parts.hostname).lower().removesuffix(".")
