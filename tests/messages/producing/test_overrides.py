from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import CompiledDefinition
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.producing.building import OutboundError, declared_properties
from signalbook.messages.producing.sending import carry
from signalbook.messages.producing.values import by_path, option_values, undeclared

Define = Callable[..., CompiledDefinition]
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
def test_names_and_paths(define: Define, name: str, path: str | None) -> None:
    """K-50"""
    definition = define(**BOTH)
    found, findings = by_path(declared_properties(definition), {name: "v"}, definition)
    assert found == ({} if path is None else {path: "v"})
    assert [finding.path for finding in findings] == ([name] if path is None else [])


def test_what_a_message_cannot_have(define: Define) -> None:
    """K-50: attributes without an envelope, options without a protocol."""
    for members, name in (({"protocol": "NATS"}, "subject"), ({"envelope": "CloudEvents/1.0"}, "protocoloptions.key")):
        definition = define(**members)
        _, (finding,) = by_path(declared_properties(definition), {name: "v"}, definition)
        assert finding.rule == "unknown"


def test_options_for_a_binding(define: Define) -> None:
    """K-50, K-53: by name, with what is not declared; types where the protocol has some."""
    definition = define(**BOTH)
    given = {"protocoloptions.headers.X-Kind": "5", "protocoloptions.headers.y": "1", "envelopemetadata.z": "2"}
    properties = [*declared_properties(definition), *undeclared(declared_properties(definition), given)]
    assert option_values(properties, given, "NATS") == {"headers.X-Kind": 5, "headers.y": "1"}


def test_what_a_binding_refuses_is_told_with_the_definition() -> None:
    binding = find_binding("NATS")
    assert binding is not None
    with pytest.raises(OutboundError, match=r"^/m: protocoloptions\.subject"):
        carry(binding, binding.native(b"", ""), {"subject": "a b"}, "/m")
