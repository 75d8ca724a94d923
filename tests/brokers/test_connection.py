"""Connections to brokers: the first server that takes one, time limits, certificates."""

import socket
from collections.abc import Iterator

import pytest
from tests.brokers.certificates import Certificates
from tests.brokers.program import Broker

from signalbook.brokers.connection import (
    BrokerRefused,
    BrokerSettings,
    BrokerTimeout,
    BrokerUnavailable,
    UntrustedCertificate,
)

PATIENCE = 300


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def settings(*servers: tuple[str, int], secure: bool = False, **more: str) -> BrokerSettings:
    return BrokerSettings(servers=servers, secure=secure, timeout=PATIENCE, **more)  # type: ignore[arg-type]


def test_the_next_server_is_tried(silent: int) -> None:
    stream = settings(("127.0.0.1", 1), ("127.0.0.1", silent)).open()
    assert stream.host == "127.0.0.1"
    stream.close()


def test_missing_broker_is_an_error() -> None:
    with pytest.raises(BrokerUnavailable, match=r"^127\.0\.0\.1:2 cannot be reached: "):
        settings(("127.0.0.1", 1), ("127.0.0.1", 2)).open()


def test_connection_uses_the_resolved_address(silent: int) -> None:
    resolved = []

    def resolve(host: str, port: int) -> str:
        resolved.append((host, port))
        return "127.0.0.1"

    BrokerSettings(servers=(("broker.example", silent),), secure=False, resolve=resolve).open().close()
    assert resolved == [("broker.example", silent)]


def test_a_name_that_may_not_be_resolved_is_refused(silent: int) -> None:
    def refuse(host: str, port: int) -> str:
        raise BrokerRefused(f"{host}:{port} is not allowed")

    with pytest.raises(BrokerRefused, match="is not allowed"):
        BrokerSettings(servers=(("broker.example", silent),), secure=False, resolve=refuse).open()


def test_silent_server_is_an_error(silent: int) -> None:
    stream = settings(("127.0.0.1", silent)).open()
    stream.limit(0.05)
    with pytest.raises(BrokerTimeout, match=r"did not answer within 0\.05 seconds"):
        stream.read(1)
    stream.close()


@pytest.mark.parametrize("trusted", [True, False])
def test_certificates_are_checked(nats: Broker, certificates: Certificates, trusted: bool) -> None:
    more = {"ca": str(certificates.authority)} if trusted else {}
    stream = settings(("localhost", nats.ports["plain"]), secure=True, **more).open()
    assert stream.read(5) == b"INFO "
    while b"\r\n" not in stream.read(65_536):
        pass
    if trusted:
        stream.encrypt()
        stream.write(b"PING\r\n")
    else:
        with pytest.raises(UntrustedCertificate, match="the certificate of localhost is not trusted: "):
            stream.encrypt()
    stream.close()


def test_secrets_are_not_shown() -> None:
    connection_settings = settings(("h", 1), user="me", password="hush-7", token="hush-8")
    assert "hush" not in f"{connection_settings} {connection_settings!r}"


def test_invalid_certificate_files_are_rejected() -> None:
    with pytest.raises(BrokerRefused, match=r"the certificates for h:1 cannot be read \(ca /nowhere.pem\)"):
        settings(("h", 1), secure=True, ca="/nowhere.pem").tls_context()
