from typing import Any

import pytest

from signalbook.messages.definitions.definition import declare_attributes, declare_options
from signalbook.messages.properties import PropertyError


@pytest.mark.parametrize(
    ("name", "entry", "type", "required"),
    [
        ("source", {}, "uritemplate", True),
        ("source", {"type": "string", "required": False}, "string", True),
        ("type", {}, "string", True),
        ("time", {}, "timestamp", False),
        ("time", {"required": True}, "timestamp", True),
        ("dataschema", {}, "uritemplate", False),
        ("extension", {}, "string", False),
    ],
)
def test_attributes(name: str, entry: dict[str, Any], type: str, required: bool) -> None:
    """F-30, F-31"""
    metadata = {"specversion": {}, name: entry}
    (attribute,) = declare_attributes({"envelope": "CloudEvents/1.0", "envelopemetadata": metadata})
    assert (attribute.name, attribute.path) == (name, f"envelopemetadata.{name}")
    assert (attribute.type, attribute.required) == (type, required)


def test_definition_without_an_envelope_has_no_attributes() -> None:
    assert declare_attributes({"envelopemetadata": {"type": {}}}) == []
    assert declare_attributes({"envelope": "CloudEvents/1.0"}) == []


def test_options() -> None:
    """Options are declared by the protocol (F.7)."""
    assert [option.path for option in declare_options("KAFKA", {"topic": "t"})] == ["protocoloptions.topic"]
    for protocol, options in (("KAFKA", None), ("KAFKA", {}), ("", {"topic": "t"}), ("SMTP", {"topic": "t"})):
        assert declare_options(protocol, options) == []
    with pytest.raises(PropertyError):
        declare_options("KAFKA", {"topic": 5})
