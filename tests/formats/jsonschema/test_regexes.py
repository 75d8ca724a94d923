import json
import time
from typing import Any

import pytest

from signalbook.formats import find
from signalbook.formats.compatibility import SchemaText, list_differences
from signalbook.formats.jsonschema.regexes import MAX_WEIGHT, check_patterns, find_patterns

FORMAT = "JsonSchema/2020-12"


def check(schema: Any) -> list[str]:
    schema_format = find(FORMAT)
    assert schema_format is not None
    return [finding.rule for finding in schema_format.check(json.dumps(schema).encode(), FORMAT)]


def compare(reader: Any, writer: Any) -> list[str]:
    new, old = (SchemaText(document=json.dumps(schema).encode(), format=FORMAT) for schema in (reader, writer))
    return [difference.rule for _, difference in list_differences("backward", new, old)]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{i}": {"pattern": rf"\p{{L}}{{40}}{i}"} for i in range(2000)}},
        {"patternProperties": {rf"\p{{L}}{{40}}{i}": True for i in range(2000)}},
        {"pattern": "a" * (MAX_WEIGHT * 10 + 10)},
        {"pattern": r"(?=\p{L}{40})" * 1000},
        {"pattern": "(?=x)" + r"|\p{L}{40}" * 1000},
        {"properties": {f"p{i}": {"pattern": f"^a{i}[0-9]+$"} for i in range(MAX_WEIGHT + 1)}},
        {"patternProperties": {f"^a{i}[0-9]+$": True for i in range(MAX_WEIGHT + 1)}},
        {"pattern": r"\w" * 700},
        {"pattern": r"\d\S" * 50_000},
        {"properties": {f"p{i}": {"pattern": r"\w" * 150 + str(i)} for i in range(20)}},
        {"pattern": r"(?i)" + r"\p{L}" * 700},
        {"properties": {f"p{i}": {"pattern": r"(?i)\p{L}{400}" + str(i)} for i in range(100)}},
    ],
    ids=(
        "many", "names", "long", "look-ahead", "alternatives", "small ones", "small names", "classes", "many classes",
        "classes in many", "properties", "too large",
    ),
)  # fmt: skip
def test_patterns_that_take_long_to_compile_are_refused(schema: Any) -> None:
    """The first one took half a minute, in which the server did nothing else."""
    began = time.process_time()
    assert check(schema) == ["weight"]
    assert time.process_time() - began < 60  # a second or two


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[\p{L}\p{N} .,'-]{1,60}$",
        r"^(?=.*[A-Z])(?=.*\d)(?=.*[a-z])(?=.*[^\w]).{8,64}$",
        "|".join(f"code{i}" for i in range(1000)),
        r"^(([0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.){3}([0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])$",
    ],
)
def test_common_patterns_are_accepted(pattern: str) -> None:
    assert check({"properties": {"a": {"pattern": pattern}}}) == []
    assert check({"patternProperties": {pattern: True}}) == []


def test_the_same_pattern_counts_once() -> None:
    assert check_patterns(find_patterns([[{"pattern": r"\p{L}{40}"}] * 1000])) == []


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:(?=a)a+)+$", "(a|a)*b$", r"^(?:(a+)+\1)+$"])
def test_catastrophic_patterns_are_run_in_bounds(pattern: str) -> None:
    began = time.process_time()
    rules = compare({"pattern": pattern}, {"enum": ["a" * 40 + "c", "a" * 40 + "d"]})
    assert set(rules) <= {"value_refused"}
    assert time.process_time() - began < 60  # some milliseconds


def test_long_texts_are_not_held_against_large_patterns() -> None:
    """A text of this kind once blocked the server for minutes."""
    large = {"pattern": "(a{90}){90}b"}
    assert compare(large, {"enum": ["a" * 200_000, "b"]}) == ["undecided"]
    assert compare(large, {"enum": ["a" * 200, "b"]}) == ["value_refused"]
    assert compare({**large, "description": "a" * 200_000}, {"const": "a" * 8100 + "b"}) == []
