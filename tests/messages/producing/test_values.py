from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.messages.builders import define

from signalbook.messages.bindings.base import find_binding
from signalbook.messages.producing import values
from signalbook.messages.producing.building import OutboundError, declare_properties
from signalbook.messages.producing.sending import carry
from signalbook.messages.properties import Property

STAMP = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("type", "value", "typed", "plain"),
    [
        ("integer", "5", 5, 5),
        ("ulong", "18446744073709551615", 2**64 - 1, 2**64 - 1),
        ("boolean", "true", True, True),
        ("boolean", False, False, False),
        ("number", "-5", -5, "-5"),
        ("number", "2.5", 2.5, "2.5"),
        ("binary", "AAE=", b"\x00\x01", "AAE="),
        ("timestamp", STAMP, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), STAMP),
        ("uuid", str(UUID(int=1)), UUID(int=1), str(UUID(int=1))),
        ("string", "5", "5", "5"),
    ],
)
def test_values_have_their_types(type: str, value: Any, typed: Any, plain: Any) -> None:
    """Values are converted to their type (K-19)."""
    assert (values.native(type, value), values.simple(type, value)) == (typed, plain)


def test_values_of_properties() -> None:
    """Values come from constants and templates; unavailable optional ones are omitted (K-18, K-50)."""
    properties = [
        Property(name="a", path="a", value="1"),
        Property(name="b", path="b", value="{x}-{y}"),
        Property(name="c", path="c", value="{x}-{z}"),
        Property(name="d", path="d"),
        Property(name="e", path="e"),
    ]
    valuation = values.Valuation({"x": "1", "y": "2", "w": "3"}, lambda entry: "default" if entry.name == "e" else None)
    assert valuation.of_all(properties, {"d": "given"}) == {"a": "1", "b": "1-2", "d": "given", "e": "default"}
    assert (valuation.findings, valuation.unused()) == ([], ["w"])


@pytest.mark.parametrize("value", ["", 5, None])
def test_a_context_has_text(value: Any) -> None:
    """Values of the context must be text (K-18)."""
    valuation = values.Valuation({"x": value}, lambda _: None)
    assert [finding.path for finding in valuation.findings] == ["{x}"]


def test_one_name_has_one_value() -> None:
    """Different values for one placeholder conflict (F-27)."""
    context = {"a": "1"}
    assert [finding.path for finding in values.merge_context(context, {"a": "2", "b": "3"})] == ["{a}"]
    assert context == {"a": "1", "b": "3"}


BOTH: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"subject": {}},
    "protocol": "NATS",
    "protocoloptions": {"subject": "s", "headers": [{"name": "X-Kind", "type": "integer"}]},
}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("subject", "envelopemetadata.subject"),
        ("envelopemetadata.subject", "envelopemetadata.subject"),
        ("protocoloptions.subject", "protocoloptions.subject"),
        ("protocoloptions.headers.X-Kind", "protocoloptions.headers.X-Kind"),
        ("protocoloptions.headers.x-kind", "protocoloptions.headers.X-Kind"),  # as matching has it
        ("protocoloptions.headers.other", "protocoloptions.headers.other"),
        ("extension", "envelopemetadata.extension"),
        ("X-Kind", None),
        ("options.subject", None),
    ],
)
def test_names_and_paths(name: str, path: str | None) -> None:
    """A property can be given by its name or its path (K-50)."""
    definition = define(**BOTH)
    values_by_path, findings = values.by_path(declare_properties(definition), {name: "v"}, definition)
    assert values_by_path == ({} if path is None else {path: "v"})
    assert [finding.path for finding in findings] == ([name] if path is None else [])


def test_properties_without_envelope_or_protocol_are_unknown() -> None:
    """Attributes need an envelope, and options need a protocol (K-50)."""
    for members, name in (({"protocol": "NATS"}, "subject"), ({"envelope": "CloudEvents/1.0"}, "protocoloptions.key")):
        definition = define(**members)
        _, (finding,) = values.by_path(declare_properties(definition), {name: "v"}, definition)
        assert finding.rule == "unknown"


def test_options_for_a_binding() -> None:
    """Options are found by name, including undeclared ones, with the types of the protocol (K-50, K-53)."""
    definition = define(**BOTH)
    overrides = {"protocoloptions.headers.X-Kind": "5", "protocoloptions.headers.y": "1", "envelopemetadata.z": "2"}
    properties = [
        *declare_properties(definition),
        *values.declare_undeclared(declare_properties(definition), overrides),
    ]
    assert values.build_option_values(properties, overrides, "NATS") == {"headers.X-Kind": 5, "headers.y": "1"}


def test_rejection_by_a_binding_names_the_definition() -> None:
    binding = find_binding("NATS")
    assert binding is not None
    with pytest.raises(OutboundError, match=r"^/m: protocoloptions\.subject"):
        carry(binding, binding.native(b"", ""), {"subject": "a b"}, "/m")
