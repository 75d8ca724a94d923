"""Real brokers, one of each for every process that runs tests, started when the first test asks for it."""

from __future__ import annotations

import base64
import hmac
import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from pathlib import Path

import pytest
from tests.brokers import servers
from tests.brokers.certificates import Certificates, issue
from tests.brokers.google import Google, running
from tests.brokers.keys import KeyServer, keys_given
from tests.brokers.program import Broker
from tests.brokers.tokens import TokenServer, tokens_given

from signalbook.pipeline.places import place_of


@contextmanager
def _running(
    make: Callable[[Path, Certificates], Broker], factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Broker]:
    broker = make(factory.mktemp(make.__name__), certificates)
    broker.open()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The certificate that all brokers show on their port ``tls``."""
    return issue(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An MQTT broker."""
    with _running(servers.mosquitto, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """A NATS server."""
    with _running(servers.nats, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """A Kafka cluster of one broker."""
    with _running(servers.kafka, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An AMQP 1.0 broker."""
    with _running(servers.artemis, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An Iceberg REST catalog."""
    with _running(servers.rest_catalog, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def s3proxy(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An S3 server that checks signatures."""
    with _running(servers.s3proxy, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def s3mock(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An S3 server that takes anybody."""
    with _running(servers.s3mock, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """An HDFS, once it takes what is written."""
    with _running(servers.hdfs, tmp_path_factory, certificates) as broker:
        await_data_nodes(broker)
        yield broker


def await_data_nodes(broker: Broker) -> None:
    """Wait until files can be written: DataNodes are registered after the NameNode is there."""
    spot, deadline = place_of(f"hdfs://127.0.0.1:{broker.ports['plain']}/ready"), time.monotonic() + 120
    while True:
        try:
            spot.replace(b"x")
        except OSError:
            assert time.monotonic() < deadline, broker.said
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="session")
def metadata(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """The metadata service of an instance."""
    if not servers.METADATA.exists():
        pytest.skip("there is no metadata service: tools/setup test builds one, where Go is new enough")
    with _running(servers.metadata, tmp_path_factory, certificates) as broker:
        yield broker


@pytest.fixture
def key_server(certificates: Certificates) -> Iterator[KeyServer]:
    """A server that gives keys to a container and for a web identity."""
    with keys_given(certificates) as found:
        yield found


@pytest.fixture
def token_server(certificates: Certificates, google: Google) -> Iterator[TokenServer]:
    """A server that gives tokens of Google's and Azure's; the server ``google`` knows its tokens."""
    with tokens_given(certificates) as found:
        google.knows = found.is_valid
        yield found
        google.knows = lambda _: False


@pytest.fixture(scope="session")
def google() -> Iterator[Google]:
    """A server with Google's API of objects."""
    with running() as found:
        yield found


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """A server with Azure's API of blobs, and an empty container called BUCKET."""
    broker = servers.azurite(tmp_path_factory.mktemp("azurite"), certificates)
    with _blobs(broker, http.client.HTTPConnection) as running:
        yield running


@pytest.fixture(scope="session")
def azurite_tls(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Broker]:
    """Another one, by TLS, which takes tokens of Entra ID, too, whose signatures it does not check."""
    broker = servers.azurite(tmp_path_factory.mktemp("azurite_tls"), certificates, tls=True)
    trusted = ssl.create_default_context(cafile=str(certificates.authority))
    with _blobs(broker, partial(http.client.HTTPSConnection, context=trusted)) as running:
        yield running


@contextmanager
def _blobs(broker: Broker, connect: Callable[..., http.client.HTTPConnection]) -> Iterator[Broker]:
    broker.open()
    try:
        _make_container(connect("127.0.0.1", broker.ports["plain"], timeout=60))
        yield broker
    finally:
        broker.kill()  # asked to stop, it waits for clients that keep their connections


def _make_container(asked: http.client.HTTPConnection) -> None:
    """By a request that is signed with the account's key; clients of blobs have none for it."""
    # https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key: what is signed, a line each
    path = f"/{servers.ACCOUNT}/{servers.BUCKET}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    named = [f"{name}:{value}" for name, value in headers.items()]
    signed = "\n".join(["PUT", *[""] * 11, *named, f"/{servers.ACCOUNT}{path}", "restype:container"])
    key = base64.b64decode(servers.ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, signed.encode(), "sha256")).decode()
    headers |= {"authorization": f"SharedKey {servers.ACCOUNT}:{signature}", "content-length": "0"}
    asked.request("PUT", f"{path}?restype=container", headers=headers)
    assert asked.getresponse().status == 201
    asked.close()
