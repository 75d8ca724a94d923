from typing import Any

import pytest

from signalbook.events.cesql import parse


@pytest.mark.parametrize(
    ("text", "value", "errors"),
    [
        ("7 / -2", -3, []),
        ("-7 / 2", -3, []),
        ("-7 % 2", -1, []),
        ("7 % -2", 1, []),
        ("2147483647 + 1", 0, ["math"]),
        ("-2147483648 / -1", 0, ["math"]),
        ("'abc' = 1", False, ["cast"]),
        ("1 = 'abc'", False, []),
        ("0 = false", True, []),
        ("missing IN (1)", False, ["missingAttribute"]),
        ("1 IN (missing, 1)", False, ["missingAttribute"]),
        ("nope(1)", False, ["missingFunction"]),
        ("LENGTH(missing)", 0, ["missingAttribute"]),
        ("LENGTH(big)", 13, []),
        ("NOT 'true' = 'false'", True, []),
        ("'aXXb' LIKE 'a%%b'", True, []),
        ("'a' LIKE 'a\\\\'", False, []),
    ],
)
def test_values(text: str, value: Any, errors: list[str]) -> None:
    outcome = parse(text).evaluate({"big": 1099511627776})
    assert (outcome.value, list(outcome.errors)) == (value, errors)


def test_patterns_take_no_time() -> None:
    """A backtracking matcher would not end."""
    hostile = parse("id LIKE '" + "%a" * 100 + "%b'")
    assert not hostile.matches({"id": "a" * 10_000})
