from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from signalbook.messages.definitions.properties import Property
from signalbook.messages.producing.values import Valuation, clash, native, simple

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
    """K-19"""
    assert (native(type, value), simple(type, value)) == (typed, plain)


def test_values_of_properties() -> None:
    """K-18, K-50: constants and templates; what is optional and cannot be had is left out."""
    properties = [
        Property(name="a", path="a", value="1"),
        Property(name="b", path="b", value="{x}-{y}"),
        Property(name="c", path="c", value="{x}-{z}"),
        Property(name="d", path="d"),
        Property(name="e", path="e"),
    ]
    valuation = Valuation({"x": "1", "y": "2", "w": "3"}, lambda entry: "default" if entry.name == "e" else None)
    assert valuation.of_all(properties, {"d": "given"}) == {"a": "1", "b": "1-2", "d": "given", "e": "default"}
    assert (valuation.findings, valuation.unused()) == ([], ["w"])


@pytest.mark.parametrize("value", ["", 5, None])
def test_a_context_has_text(value: Any) -> None:
    """K-18"""
    valuation = Valuation({"x": value}, lambda _: None)
    assert [finding.path for finding in valuation.findings] == ["{x}"]


def test_one_name_has_one_value() -> None:
    """F-27"""
    context = {"a": "1"}
    assert [finding.path for finding in clash(context, {"a": "2", "b": "3"})] == ["{a}"]
    assert context == {"a": "1", "b": "3"}
