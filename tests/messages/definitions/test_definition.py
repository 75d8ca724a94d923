from __future__ import annotations

from typing import Any

import pytest

from signalbook.messages.definitions.definition import declared_attributes, declared_options
from signalbook.messages.definitions.properties import PropertyError


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
    (found,) = declared_attributes({"envelope": "CloudEvents/1.0", "envelopemetadata": metadata})
    assert (found.name, found.path, found.type, found.required) == (name, f"envelopemetadata.{name}", type, required)


def test_there_are_none_without_an_envelope() -> None:
    assert declared_attributes({"envelopemetadata": {"type": {}}}) == []
    assert declared_attributes({"envelope": "CloudEvents/1.0"}) == []


def test_options() -> None:
    """F.7"""
    assert [found.path for found in declared_options("KAFKA", {"topic": "t"})] == ["protocoloptions.topic"]
    for protocol, given in (("KAFKA", None), ("KAFKA", {}), ("", {"topic": "t"}), ("SMTP", {"topic": "t"})):
        assert declared_options(protocol, given) == []
    with pytest.raises(PropertyError):
        declared_options("KAFKA", {"topic": 5})
