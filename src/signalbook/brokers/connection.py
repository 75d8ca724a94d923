"""What the clients of all brokers share: where a broker is, who asks, TLS, time limits, and errors."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpcore

from signalbook.errors import SignalbookError
from signalbook.fetching import Deadline, connect

_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


class BrokerError(SignalbookError):
    """An error of a broker connection. The message contains no secrets."""


class BrokerUnavailable(BrokerError):
    """A connection could not be made, or was lost: a new one may help."""


class BrokerTimeout(BrokerUnavailable):
    """The error if nothing arrives within the time limit."""


class BrokerRefused(BrokerError):
    """The broker's no, to who asks or to what was asked: a new connection would not help."""


class UntrustedCertificate(BrokerRefused):
    """A server that shows no certificate which is good for its name."""


class MessageTooLarge(BrokerRefused):
    """A message larger than the broker takes; it was not sent, and never can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings for a connection to a broker, which may be several ``servers`` (host and port).

    ``ca``, ``certificate`` and ``key`` are PEM files: the trusted authorities instead of the system's, and the client's
    certificate and key. ``timeout`` is in seconds, for connecting and for each answer. ``resolve`` returns the address
    for a server's name, or raises ``BrokerError``; without it names are looked up when connecting.
    """

    servers: tuple[tuple[str, int], ...]
    secure: bool
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""
    timeout: float = 60.0
    resolve: Callable[[str, int], str] | None = None

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.servers)

    def address(self, host: str, port: int) -> str:
        """The address to connect to. Raises ``BrokerError``."""
        return host if self.resolve is None else self.resolve(host, port)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context with its authorities and client certificate.

        Raises ``BrokerRefused`` for bad files.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ValueError) as error:
            files_by_option = (("ca", self.ca), ("certificate", self.certificate), ("key", self.key))
            files = ", ".join(f"{name} {file}" for name, file in files_by_option if file)
            raise BrokerRefused(f"the certificates for {self} cannot be read ({files}): {error}") from None
        return context

    def open(self) -> BrokerStream:
        """A connection to the first server that takes one, not yet encrypted. Raises ``BrokerError``."""
        failure: BrokerError = BrokerUnavailable("no server is named")
        for host, port in self.servers:
            deadline = Deadline(self.timeout)
            try:
                stream = connect(self.address(host, port), port, deadline)
            except (httpcore.NetworkError, httpcore.TimeoutException) as error:
                failure = BrokerUnavailable(f"{host}:{port} cannot be reached: {error or type(error).__name__}")
                continue
            return BrokerStream(self, host, stream, deadline)
        raise failure


class ByteStream(Protocol):
    """Bytes to and from a server, within a time limit. Everything but ``close`` raises ``BrokerUnavailable``."""

    def limit(self, seconds: float | None = None) -> None:
        """Give all that follows so many seconds, or the timeout of the broker's settings."""

    def read(self, max_bytes: int) -> bytes:
        """Read what has arrived, nothing at the end. Raises ``BrokerTimeout`` if nothing arrives in time."""

    def write(self, buffer: bytes) -> None:
        """Send all of it."""

    def encrypt(self) -> None:
        """Go on with TLS. Raises ``UntrustedCertificate``."""

    def close(self) -> None:
        """Hang up."""


class BrokerStream:
    """A ``ByteStream`` to one server of a broker. For one thread."""

    def __init__(self, settings: BrokerSettings, host: str, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.host = host
        self._settings = settings
        self._stream = stream
        self._deadline = deadline
        self._seconds = settings.timeout

    def limit(self, seconds: float | None = None) -> None:
        """Give all that follows so many seconds."""
        self._seconds = self._settings.timeout if seconds is None else seconds
        self._deadline.restart(self._seconds)

    def read(self, max_bytes: int) -> bytes:
        """Read what has arrived, nothing at the end."""
        with self._convert_errors():
            return self._stream.read(max_bytes)

    def write(self, buffer: bytes) -> None:
        """Send all of it."""
        with self._convert_errors():
            self._stream.write(buffer)

    def encrypt(self) -> None:
        """Go on with TLS, the name in the certificate checked: it is the host's, whatever address was resolved."""
        context = self._settings.tls_context()
        with self._convert_errors():
            self._stream = self._stream.start_tls(context, server_hostname=self.host)

    def close(self) -> None:
        """Hang up."""
        self._stream.close()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Raise what goes wrong on the network as errors of brokers."""
        try:
            yield
        except httpcore.TimeoutException:
            raise BrokerTimeout(f"the broker did not answer within {self._seconds:g} seconds") from None
        except httpcore.NetworkError as error:
            if _UNTRUSTED in str(error):
                raise UntrustedCertificate(f"the certificate of {self.host} is not trusted: {error}") from None
            raise BrokerUnavailable(f"{error or type(error).__name__}") from None
