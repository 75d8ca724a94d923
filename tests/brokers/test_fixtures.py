"""The brokers that other tests stand on: they start, stop, and start again in their place."""

import socket

import pytest
from tests.brokers.program import StartBroker


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("name", ["mosquitto", "nats"])  # the others, which take longer, in the tests of their sinks
def test_a_broker_stops_and_starts_again(name: str, own_server: StartBroker) -> None:
    broker = own_server(name)
    assert all(listens(port) for port in broker.ports.values())
    broker.stop()
    assert not any(listens(port) for port in broker.ports.values())
    broker.start()
    assert all(listens(port) for port in broker.ports.values())
