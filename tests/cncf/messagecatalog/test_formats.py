"""Names of formats, and what groups of xRegistry state in their place."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.cncf.messagecatalog.metaschemas import format_attributes, format_of


@pytest.mark.parametrize(
    ("format", "stated"),
    [
        ("CloudEvents", {"envelope": "CloudEvents/1.0"}),
        ("AMQP", {"protocol": "AMQP/1.0"}),
        ("NATS", {"protocol": "NATS"}),
        ("MQTT", {"format": "MQTT"}),
        ("HTTP", {"protocol": "HTTP"}),
        ("KAFKA", {"protocol": "KAFKA"}),
        ("our own", {"format": "our own"}),
    ],
)
def test_formats_of_groups(format: str, stated: Any) -> None:
    """B-2, J-11, J-18: a group of MQTT states no protocol, since its definitions may be for either version."""
    attributes = {name: value for name, value in format_attributes(format).items() if value is not None}
    assert attributes == stated
    assert format_of(stated) == format


@pytest.mark.parametrize(
    ("group", "format"),
    [
        ({}, "xRegistry"),
        ({"envelope": "cloudevents/1.0", "format": "MQTT"}, "CloudEvents"),
        ({"protocol": "MQTT/3.1.1"}, "MQTT"),
        ({"protocol": "http/1.1"}, "HTTP"),
        ({"envelope": "Ours/2"}, "Ours/2"),
    ],
)
def test_groups_written_as_xregistrys(group: Any, format: str) -> None:
    """J-18."""
    assert format_of(group) == format
