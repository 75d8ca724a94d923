from importlib.metadata import EntryPoint

import pytest

from signalbook.events.sinks import base
from signalbook.events.subscription import SubscriptionError


@pytest.mark.parametrize("protocol", ["HTTP", "KAFKA", "MQTT3", "MQTT5", "NATS", "AMQP", "FILE"])
def test_every_protocol_has_its_kind(protocol: str) -> None:
    """Every protocol has a sink factory (D-26)."""
    assert protocol in base.sink_protocols()
    assert protocol in base.find_sink(protocol).protocols


@pytest.mark.parametrize("protocol", ["", "http", "HTTPS", "SMTP"])
def test_unknown_protocol_is_rejected(protocol: str) -> None:
    with pytest.raises(SubscriptionError, match=r"/protocol: there is no .*; there are AMQP, FILE, HTTP"):
        base.find_sink(protocol)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error contains the command that installs it."""
    absent = EntryPoint(name="carrier", value="no_such_pigeons:KIND [pigeons]", group=base.GROUP)
    monkeypatch.setattr(base, "_find_entry_points", lambda: {"CARRIER": absent})
    with pytest.raises(SubscriptionError, match=r"'no_such_pigeons': pip install '.\[pigeons\]' in a clone"):
        base.find_sink("CARRIER")
