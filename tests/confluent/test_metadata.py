"""Metadata and rule sets of several layers are merged as Confluent's server merges them."""

from typing import Any

import pytest

from signalbook.confluent.metadata import merge_metadata, merge_rulesets


def rule(name: str, expr: str = "true") -> dict[str, Any]:
    """A rule, as far as merging is concerned."""
    return {"name": name, "expr": expr}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((None, None), None),
        (({},), None),
        (({"properties": {"a": "1", "b": "1"}}, {"properties": {"b": "2"}}), {"properties": {"a": "1", "b": "2"}}),
        (({"sensitive": ["ssn"]}, None, {"sensitive": ["email", "ssn"]}), {"sensitive": ["ssn", "email"]}),
        (
            ({"tags": {"f": ["PII"], "g": ["X"]}}, {"tags": {"f": ["EU", "PII"], "h": ["Y"]}}),
            {"tags": {"f": ["PII", "EU"], "g": ["X"], "h": ["Y"]}},
        ),
        (({"properties": {"a": "1"}}, {"properties": None}), {"properties": {"a": "1"}}),
    ],
)
def test_metadata(layers: tuple[Any, ...], expected: Any) -> None:
    assert merge_metadata(*layers) == expected


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((None, {}), None),
        (({"domainRules": [rule("a")]}, {"domainRules": [rule("b")]}, {"domainRules": [rule("c")]}),
            {"domainRules": [rule("a"), rule("b"), rule("c")]}),
        (({"domainRules": [rule("a", "old"), rule("b")]}, {"domainRules": [rule("a", "new")]}),
            {"domainRules": [rule("b"), rule("a", "new")]}),
        (({"domainRules": [rule("a")]}, {"migrationRules": [rule("a")], "domainRules": None}),
            {"domainRules": [rule("a")], "migrationRules": [rule("a")]}),
        (({"enableAt": "x"}, {"enableAt": "y"}), {"enableAt": "y"}),
    ],
)  # fmt: skip
def test_rulesets(layers: tuple[Any, ...], expected: Any) -> None:
    assert merge_rulesets(*layers) == expected
