from __future__ import annotations

from typing import Any

import pytest

from signalbook.messages.definitions.lint import malformed
from signalbook.messages.definitions.properties import normal_property


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"envelope": 5}, "envelope"),
        ({"dataschemauri": []}, "dataschemauri"),
        ({"envelopemetadata": []}, "envelopemetadata"),
        ({"protocoloptions": "x"}, "protocoloptions"),
        ({"envelopeoptions": {"mode": 5}}, "envelopeoptions.mode"),
        ({"envelopemetadata": {"id": "x"}}, "envelopemetadata.id"),
        ({"envelopemetadata": {"id": {"value": {}}}}, "envelopemetadata.id.value"),
        ({"envelopemetadata": {"id": {"type": 5}}}, "envelopemetadata.id.type"),
        ({"envelopemetadata": {"id": {"required": "yes"}}}, "envelopemetadata.id.required"),
    ],
)
def test_members_of_the_wrong_type(definition: dict[str, Any], path: str) -> None:
    """F-2, F-23"""
    assert [finding.path for finding in malformed(definition)] == [path]


def test_null_counts_as_absent() -> None:
    assert malformed({"envelope": None, "envelopemetadata": None, "envelopeoptions": {"mode": None}}) == []


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "var"}, {"type": "any"}),
        ({"type": "DateTime", "value": "01-01-0000T00:00:00Z"}, {"type": "timestamp", "value": "0000-01-01T00:00:00Z"}),
        ({"value": 1.5}, {"value": "1.5"}),
        ({"value": None}, {"value": None}),
        ("x", "x"),
    ],
)
def test_one_way_to_write_a_property(entry: Any, expected: Any) -> None:
    """F-41, I-6"""
    assert normal_property(entry) == expected
