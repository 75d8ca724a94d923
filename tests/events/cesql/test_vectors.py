"""The specification's own test vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbook.events.cesql import ParseError, parse

VECTORS = Path(__file__).parents[4] / "shared" / "data" / "cesql-tck"
EVENT = {"specversion": "1.0", "id": "1", "source": "/here", "type": "a.b"}


class Plain(yaml.SafeLoader):
    """YAML whose timestamps stay text, as they are in an event."""


Plain.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


def vectors() -> Iterator[Any]:
    for file in sorted(VECTORS.glob("*.yaml")):
        for test in yaml.load(file.read_text(encoding="utf-8"), Loader=Plain)["tests"]:
            yield pytest.param(test, id=f"{file.stem}: {test['name']}")


@pytest.mark.skipif(
    not VECTORS.is_dir(),
    reason=f"no test vectors of CESQL at {VECTORS}: every operator and function by the specification's own",
)
@pytest.mark.parametrize("test", list(vectors()) or [{}])
def test_vector(test: dict[str, Any]) -> None:
    """D-29: value and fault"""
    event = test.get("event") or {**EVENT, **test.get("eventOverrides", {})}
    if test.get("error") == "parse":
        with pytest.raises(ParseError):
            parse(test["expression"])
        return
    expression = parse(str(test["expression"]))
    outcome = expression.evaluate(event)
    assert outcome.value == test["result"]
    assert type(outcome.value) is type(test["result"])
    assert list(outcome.faults) == ([test["error"]] if "error" in test else [])
    assert expression.matches(event) is (test["result"] is True and "error" not in test)


@pytest.mark.parametrize(
    ("expression", "overrides", "value", "matches"),
    [
        ("source LIKE 'https://%'", {"source": "https://shop.example"}, True, True),
        ("source LIKE 'https://%'", {}, False, False),
        ("EXISTS stage AND stage IN ('dev', 'test')", {"stage": "dev"}, True, True),
        ("stage = 'dev'", {}, False, False),
        ("LENGTH(UPPER(type)) + 2 * -1", {}, 1, False),
        ("NOT (INT('12') > 3) XOR true", {}, True, True),
        ("SUBSTRING(type, 1, 1) = 'a'", {}, True, True),
        ("STRING(5) = '5'", {}, True, True),
    ],
)
def test_vectors_of_our_own(expression: str, overrides: dict[str, Any], value: Any, matches: bool) -> None:
    """D-29: operators, functions, casts and attributes, where the specification's vectors are not there."""
    parsed = parse(expression)
    outcome = parsed.evaluate({**EVENT, **overrides})
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    assert parsed.matches({**EVENT, **overrides}) is matches
