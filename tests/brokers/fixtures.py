"""Real brokers. All processes of a run share one of each, which starts when the first test asks for it."""

import base64
import hmac
import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from email.utils import formatdate
from functools import cache, partial
from typing import Any

import pytest
from tests.brokers.certificates import Certificates, certificates_in
from tests.brokers.google import Google, running
from tests.brokers.keys import KeyServer, keys_given
from tests.brokers.program import Broker, StartBroker
from tests.brokers.servers import ACCOUNT, ACCOUNT_KEY, BROKERS, BUCKET
from tests.brokers.tokens import TokenServer, tokens_given
from tests.shared_servers import SERVERS

from signalbook.demo.kafka import NotInstalled
from signalbook.pipeline.places import place_of


@pytest.fixture(scope="session")
def find_server(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Find a server that all processes of this run share."""

    def find(name: str) -> Any:
        with _skip_if_missing():
            return request.config.stash[SERVERS].find(name)

    return find


@pytest.fixture(scope="session")
def own_server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[StartBroker]:
    """Start a server of this process alone: one that its tests may stop, kill and start again."""
    with ExitStack() as opened:

        @cache
        def start(name: str) -> Broker:
            broker = BROKERS[name](tmp_path_factory.mktemp(name), certificates)
            with _skip_if_missing():
                broker.open()
            opened.callback(broker.stop)
            return broker

        yield start


@contextmanager
def _skip_if_missing() -> Iterator[None]:
    try:
        yield
    except NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def certificates(request: pytest.FixtureRequest) -> Certificates:
    """The certificate that all brokers show on their port ``tls``."""
    return certificates_in(request.config.stash[SERVERS].folder)


def _share(name: str) -> Any:
    @pytest.fixture(scope="session", name=name)
    def share(request: pytest.FixtureRequest, find_server: Callable[[str], Any], certificates: Certificates) -> Broker:
        broker = BROKERS[name](request.config.stash[SERVERS].folder / name, certificates)
        broker.ports = find_server(name)
        if name == "hdfs":
            _await_data_nodes(broker)
        elif name == "azurite":
            _make_container(http.client.HTTPConnection, broker)
        elif name == "azurite_tls":
            trusted = ssl.create_default_context(cafile=str(certificates.authority))
            _make_container(partial(http.client.HTTPSConnection, context=trusted), broker)
        return broker

    return share


mosquitto, nats, kafka, artemis = map(_share, ("mosquitto", "nats", "kafka", "artemis"))
rest_catalog, hdfs, metadata = map(_share, ("rest_catalog", "hdfs", "metadata"))
s3proxy, s3mock, azurite, azurite_tls = map(_share, ("s3proxy", "s3mock", "azurite", "azurite_tls"))


@pytest.fixture
def key_server(certificates: Certificates) -> Iterator[KeyServer]:
    """A server that gives keys to a container and for a web identity."""
    with keys_given(certificates) as key_server_:
        yield key_server_


@pytest.fixture
def token_server(certificates: Certificates, google: Google) -> Iterator[TokenServer]:
    """A server that gives tokens of Google's and Azure's; the server ``google`` knows its tokens."""
    with tokens_given(certificates) as token_server_:
        google.knows = token_server_.is_valid
        yield token_server_
        google.knows = lambda _: False


@pytest.fixture(scope="session")
def google() -> Iterator[Google]:
    """A server with Google's API of objects."""
    with running() as fake:
        yield fake


def _make_container(connect: Callable[..., http.client.HTTPConnection], broker: Broker) -> None:
    """Create the container with a request signed by the account's key; clients of blobs need no key for it."""
    # https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key: what is signed, a line each
    path = f"/{ACCOUNT}/{BUCKET}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    header_lines = [f"{name}:{value}" for name, value in headers.items()]
    signed = "\n".join(["PUT", *[""] * 11, *header_lines, f"/{ACCOUNT}{path}", "restype:container"])
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, signed.encode(), "sha256")).decode()
    headers |= {"authorization": f"SharedKey {ACCOUNT}:{signature}", "content-length": "0"}
    connection = connect("127.0.0.1", broker.ports["plain"], timeout=60)
    connection.request("PUT", f"{path}?restype=container", headers=headers)
    assert connection.getresponse().status in (201, 409)  # 409: another process has made it
    connection.close()


def _await_data_nodes(broker: Broker) -> None:
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
