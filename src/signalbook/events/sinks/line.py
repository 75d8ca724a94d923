"""One HTTP connection to one place, kept open between requests, trusting the other end with nothing.

It goes to the very address that was checked; an answer has so much time and so many bytes, however it arrives;
redirects are answers like others.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpcore

from signalbook.events.sinks.base import DeliveryError, Policy
from signalbook.fetching import Deadline, FetchError, connect, reachable

PORTS: Final = {"http": 80, "https": 443}
MAX_ANSWER: Final = 64 * 1024
_BROKEN: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ConnectionNotAvailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: header names are in lower case; ``body`` is empty if there was more than ``MAX_ANSWER``."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Line:
    """A connection to the origin of ``url``, made when it is first needed. For one thread."""

    def __init__(self, url: str, policy: Policy) -> None:
        self._parts = urlsplit(url)
        self._policy = policy
        self._deadline = Deadline(policy.timeout)
        self._connection: httpcore.HTTP11Connection | None = None

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Reply:
        """Send one request and read its answer, within the policy's time. Raises ``DeliveryError``."""
        self._deadline.restart(self._policy.timeout)
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=self._parts.scheme, host=self._parts.hostname or "", port=self._port, target=target.encode()
            ),
            headers=[("Host", self._parts.netloc), ("Content-Length", str(len(body))), *headers.items()],
            content=body,
        )
        try:
            return self._exchange(request)
        except httpcore.TimeoutException:
            self.close()
            raise DeliveryError(f"no answer within {self._policy.timeout:g} seconds") from None
        except FetchError as error:
            raise DeliveryError(str(error)) from None
        except (*_BROKEN, OSError) as error:
            self.close()
            raise DeliveryError(f"the connection failed: {error or type(error).__name__}") from None

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _exchange(self, request: httpcore.Request) -> Reply:
        if self._connection is not None and not self._connection.has_expired():
            try:
                return self._over(self._connection, request)
            except _BROKEN:
                pass  # the other end may hang up between two requests, and only using the connection shows it
        self.close()
        self._connection = self._connect()
        return self._over(self._connection, request)

    def _over(self, connection: httpcore.HTTP11Connection, request: httpcore.Request) -> Reply:
        answer = connection.handle_request(request)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
        body = bytearray()
        try:
            for chunk in answer.iter_stream():
                body += chunk
                if len(body) > MAX_ANSWER:
                    self.close()
                    return Reply(status=answer.status, headers=headers)
        finally:
            with suppress(Exception):  # closing what is broken raises again
                answer.close()
        return Reply(status=answer.status, headers=headers, body=bytes(body))

    @property
    def _port(self) -> int:
        return self._parts.port or PORTS[self._parts.scheme]

    def _connect(self) -> httpcore.HTTP11Connection:
        host = host_of(self._parts)
        address = reachable(host, self._port, self._policy.allow, self._deadline.remaining())
        stream = connect(address, self._port, self._deadline)
        if self._parts.scheme == "https":
            trust = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
            stream = stream.start_tls(_tls(trust), host)
        origin = httpcore.Origin(self._parts.scheme.encode(), host.encode(), self._port)
        return httpcore.HTTP11Connection(origin=origin, stream=_Gathering(stream))


class _Gathering(httpcore.NetworkStream):
    """A stream that sends a request as one piece, when its answer is wanted: head and body cost one step, not two."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._held = bytearray()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """As the stream's."""
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            self._stream.write(held, timeout)
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - spent when reading
        """Send it with the next read."""
        self._held += buffer

    def close(self) -> None:
        """As the stream's."""
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """As the stream's."""
        return self._stream.get_extra_info(info)


def host_of(parts: SplitResult) -> str:
    """The host as lists of places have it."""
    return str(parts.hostname or "").lower().removesuffix(".")


def target_of(url: str) -> str:
    """Path and query of ``url``: what a request line has."""
    parts = urlsplit(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


@lru_cache(maxsize=4)
def _tls(trust: tuple[str | None, str | None]) -> ssl.SSLContext:  # noqa: ARG001 - where OpenSSL looks
    """Reading the system's certificates takes 20 ms: once for all."""
    return ssl.create_default_context()
