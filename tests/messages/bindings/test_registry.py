from importlib.metadata import EntryPoint

import pytest

from signalbook.messages.bindings.base import GROUP, bound, find_binding, protocols
from signalbook.plugins import PluginClash, collect

HTTP = "signalbook.messages.bindings.http:BINDING"


def test_included_bindings_are_found() -> None:
    assert set(protocols()) == {"", "AMQP/1.0", "HTTP", "KAFKA", "MQTT/3.1.1", "MQTT/5.0", "NATS"}
    binding = find_binding("HTTP")
    assert binding is not None
    assert binding.protocol == "HTTP"
    assert find_binding("SMTP") is None


def test_two_bindings_for_one_protocol_clash() -> None:
    points = [EntryPoint("http", HTTP, GROUP), EntryPoint("web", "signalbook.messages.bindings.http: BINDING", GROUP)]
    with pytest.raises(PluginClash, match="'HTTP' is offered by both"):
        collect(points, "protocol", bound)
    assert list(collect([points[0], points[0]], "protocol", bound)) == ["HTTP"]
