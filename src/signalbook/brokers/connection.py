"""The common part of all broker clients: addresses, credentials, TLS, time limits, and errors."""

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
    """The error if a connection cannot be opened or is lost. A new connection may succeed."""


class BrokerTimeout(BrokerUnavailable):
    """The error if nothing arrives within the time limit."""


class BrokerRefused(BrokerError):
    """The error if the broker refuses the client or its request. A new connection would not help."""


class UntrustedCertificate(BrokerRefused):
    """The error for a server without a trusted certificate for its name."""


class MessageTooLarge(BrokerRefused):
    """The error for a message that is larger than the broker accepts. The message was not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings for a connection to a broker, which may have several ``servers`` (pairs of host and port).

    ``secure`` means TLS. ``ca``, ``certificate`` and ``key`` are paths of PEM files: the trusted authorities instead of
    the system's, and the certificate and key of the client. ``timeout`` is in seconds, for connecting and for each
    response. ``resolve`` returns the address for host and port of a server, or raises ``BrokerError``. If ``resolve``
    is None, names are resolved when connecting.
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
        """Return the address to connect to for the server ``host``. Raises ``BrokerError``."""
        return host if self.resolve is None else self.resolve(host, port)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context with the trusted authorities and the client certificate.

        Raises ``BrokerRefused`` if a file cannot be used.
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
        """Return an unencrypted connection to the first server that can be reached. Raises ``BrokerError``."""
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
    """A byte stream to and from a server with a time limit. Methods except ``close`` raise ``BrokerUnavailable``."""

    def limit(self, seconds: float | None = None) -> None:
        """Restart the time limit for all following calls: ``seconds``, or the timeout of the settings if None."""

    def read(self, max_bytes: int) -> bytes:
        """Wait for data, and return at most ``max_bytes``; empty at the end. Raises ``BrokerTimeout``."""

    def write(self, buffer: bytes) -> None:
        """Send all bytes of ``buffer``."""

    def encrypt(self) -> None:
        """Switch to TLS. Raises ``UntrustedCertificate``."""

    def close(self) -> None:
        """Close the stream."""


class BrokerStream:
    """A ``ByteStream`` to one server of a broker, for use by one thread."""

    def __init__(self, settings: BrokerSettings, host: str, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.host = host
        self._settings = settings
        self._stream = stream
        self._deadline = deadline
        self._seconds = settings.timeout

    def limit(self, seconds: float | None = None) -> None:
        """Restart the time limit for all following calls: ``seconds``, or the timeout of the settings if None."""
        self._seconds = self._settings.timeout if seconds is None else seconds
        self._deadline.restart(self._seconds)

    def read(self, max_bytes: int) -> bytes:
        """Wait for data, and return at most ``max_bytes``; empty at the end."""
        with self._convert_errors():
            return self._stream.read(max_bytes)

    def write(self, buffer: bytes) -> None:
        """Send all bytes of ``buffer``."""
        with self._convert_errors():
            self._stream.write(buffer)

    def encrypt(self) -> None:
        """Switch to TLS. The certificate must be valid for the name of the host, not for the resolved address."""
        context = self._settings.tls_context()
        with self._convert_errors():
            self._stream = self._stream.start_tls(context, server_hostname=self.host)

    def close(self) -> None:
        self._stream.close()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert network errors raised in the context to ``BrokerError``."""
        try:
            yield
        except httpcore.TimeoutException:
            raise BrokerTimeout(f"the broker did not answer within {self._seconds:g} seconds") from None
        except httpcore.NetworkError as error:
            if _UNTRUSTED in str(error):
                raise UntrustedCertificate(f"the certificate of {self.host} is not trusted: {error}") from None
            raise BrokerUnavailable(f"{error or type(error).__name__}") from None
