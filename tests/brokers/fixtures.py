"""Real brokers, one of each for every process that runs tests, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.brokers import servers
from tests.brokers.certificates import Certificates, issue
from tests.brokers.program import Broker


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
