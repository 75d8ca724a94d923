"""Vectors for the whole language: the specification's own, and ours."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.others import OTHERS

from signalbook.events.cesql import ParseError, parse

VECTORS = OTHERS / "cesql-tck"
EVENT = {"specversion": "1.0", "id": "1", "source": "/here", "type": "a.b"}


class Plain(yaml.SafeLoader):
    """YAML whose timestamps stay text, as they are in an event."""


Plain.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


def vectors() -> Iterator[Any]:
    for file in sorted(VECTORS.glob("*.yaml")):
        for test in yaml.load(file.read_text(encoding="utf-8"), Loader=Plain)["tests"]:
            yield pytest.param(test, id=f"{file.stem}: {test['name']}")


@pytest.mark.others("every operator and function by CESQL's own vectors", ours="test_every_operator_and_function")
@pytest.mark.parametrize("test", list(vectors()) or [{}])
def test_vector(test: dict[str, Any]) -> None:
    """The test compares value and error (D-29)."""
    event = test.get("event") or {**EVENT, **test.get("eventOverrides", {})}
    if test.get("error") == "parse":
        with pytest.raises(ParseError):
            parse(test["expression"])
        return
    expression = parse(str(test["expression"]))
    outcome = expression.evaluate(event)
    assert outcome.value == test["result"]
    assert type(outcome.value) is type(test["result"])
    assert list(outcome.errors) == ([test["error"]] if "error" in test else [])
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
        ("hop < ttl AND sequence = 7", {"hop": "9", "ttl": "10", "sequence": "7"}, True, True),
        ("(area = 'x' AND kind = 'y') OR subject = 'z'", {"area": "x", "kind": "n", "subject": "z"}, True, True),
        ("type LIKE 'a._' AND (stage = 'dev' OR EXISTS ID)", {"stage": "test"}, True, True),
        ("time", {"time": "2030-01-02T03:04:05+01:00"}, "2030-01-02T03:04:05+01:00", False),
        ("SUBJECT", {"subject": "s"}, "s", False),
    ],
)
def test_vectors_of_our_own(expression: str, overrides: dict[str, Any], value: Any, matches: bool) -> None:
    """The operators, functions, casts and attributes are tested without the vectors of the specification (D-29)."""
    parsed = parse(expression)
    outcome = parsed.evaluate({**EVENT, **overrides})
    assert (outcome.value, type(outcome.value)) == (value, type(value))
    assert parsed.matches({**EVENT, **overrides}) is matches


@pytest.mark.parametrize(
    ("expressions", "value"),
    [
        (("7 = 7", "7 != 8", "7 <> 8", "'ab' = 'ab'", "'ab' != 'AB'", "true = true", "true <> false"), True),
        (("7 = 8", "7 != 7", "7 <> 7", "'ab' = 'AB'", "'ab' <> 'ab'", "true = 'FALSE'", "'true' != true"), False),
        (("6 <= 6", "6 < 7", "7 >= 6", "7 >= 7", "7 > 6"), True),
        (("7 <= 6", "6 < 6", "6 >= 7", "6 > 6", "6 > 7"), False),
        (("TRUE", "tRue", "true AND true", "false OR true", "true XOR false", "NOT false", "NOT 'FALSE'"), True),
        (("fAlse", "true AND false", "false OR false", "true XOR true", "NOT true", "NOT 'TRUE'"), False),
        (("false AND (1 / 0 = 1)", "NOT (true OR (1 / 0 = 1))"), False),
        (("3 * 2 + 8 / 2", "2 * (3 + 2)", "32 / 3", "21 % 11", "-2 + 12", "'4' + 6", "12 - true - 1", "--10"), 10),
        (("-'3'", "-3", "0 - 3", "7 - 10"), -3),
        (("INT('-4')", "INT(-4)", "INT(false) - 4", "0 - ABS(-4)"), -4),
        (("BOOL('True')", "BOOL(3)", "BOOL(-1)", "BOOL(true)", "INT(true) = 1"), True),
        (("BOOL('false')", "BOOL(0)", "BOOL(false)"), False),
        (("STRING(true)", "LOWER('TrUe')", "CONCAT('tr', 'u', 'e')", "TRIM('  true ')", "TRIM('true')"), "true"),
        (("STRING(-8)", "CONCAT('-8')", "LEFT('-81', 2)", "RIGHT('x-8', 2)", "LEFT('-8', 9)", "RIGHT('-8', 9)"), "-8"),
        (("UPPER('xYz')", "SUBSTRING('wXYZ', 2)", "SUBSTRING('XYZw', 1, 3)", "SUBSTRING('wXYZw', -4, 3)"), "XYZ"),
        (("CONCAT()", "CONCAT_WS('-')", "LEFT('', 1)", "RIGHT('ab', 0)", "SUBSTRING('ab', 0)"), ""),
        (("CONCAT_WS('-', 'a', 'b', 'c')", "CONCAT_WS('-', 'a-b-c')", "'a-b-c'", '"a-b-c"'), "a-b-c"),
        (("LENGTH('four')", "LENGTH(true)", "LENGTH(1234)", "4 + LENGTH('')"), 4),
        (("4 IN (1, 4)", "4 NOT IN (1, 2)", "'4' IN (3, 4)", "4 IN ('3', '4')", "id IN (source, '1')"), True),
        (("4 IN (1, 2)", "4 NOT IN (1, 4)", "true IN ('false')", "'TRUE' IN (true)", "id IN (source)"), False),
        (("'axyb' LIKE 'a%b'", "'ab' LIKE 'a%b'", "'axb' LIKE 'a_b'", "'' LIKE '%'", "1234 LIKE '12__'"), True),
        (("'ba' LIKE 'a%b'", "'ab' LIKE 'a_b'", "'AB' LIKE 'ab'", "'ab' NOT LIKE 'a%'", "false LIKE 'tr%'"), False),
        (("'a%b' LIKE 'a\\%b'", "'a_b' LIKE 'a\\_b'", "'.a' LIKE '._'", "'a\\c' LIKE 'a\\c'"), True),
        (("'axb' LIKE 'a\\%b'", "'axb' LIKE 'a\\_b'", "'xa' LIKE '._'"), False),
        (("EXISTS id AND EXISTS SPECVERSION", "NOT EXISTS subject", "EXISTS subject OR EXISTS type"), True),
        (("EXISTS subject", "NOT EXISTS id"), False),
        (("'it\\'s \"here\"'", '"it\'s \\"here\\""'), 'it\'s "here"'),
    ],
)
def test_every_operator_and_function(expressions: tuple[str, ...], value: Any) -> None:
    """Equivalent expressions have one value and no error (D-29)."""
    for expression in expressions:
        outcome = parse(expression).evaluate(EVENT)
        assert (outcome.value, type(outcome.value), outcome.errors) == (value, type(value), ()), expression


@pytest.mark.parametrize(
    ("expression", "value", "error"),
    [
        ("9 / 0", 0, "math"),
        ("9 % 0", 0, "math"),
        ("true AND (1 / 0 = 1)", False, "math"),
        ("false OR (1 / 0 = 1)", False, "math"),
        ("ABS(-2147483648)", 2147483647, "math"),
        ("INT('four')", 0, "cast"),
        ("BOOL('yes')", False, "cast"),
        ("NOT 4", True, "cast"),
        ("CONCAT_WS()", False, "missingFunction"),
        ("LEFT('ab', -1)", "ab", "functionEvaluation"),
        ("RIGHT('ab', -1)", "ab", "functionEvaluation"),
        ("SUBSTRING('ab', 7)", "", "functionEvaluation"),
        ("SUBSTRING('ab', -7)", "", "functionEvaluation"),
        ("SUBSTRING('ab', 7, 1)", "", "functionEvaluation"),
        ("stage = 'dev'", False, "missingAttribute"),
        ("stage <= 4", False, "missingAttribute"),
        ("stage LIKE 'd%'", False, "missingAttribute"),
        ("true AND (stage = '')", False, "missingAttribute"),
        ("stage * 4", 0, "missingAttribute"),
        ("4 / stage", 0, "missingAttribute"),
        ("-stage", 0, "missingAttribute"),
        ("NOT stage", False, "missingAttribute"),
        ("stage", False, "missingAttribute"),
    ],
)
def test_every_error(expression: str, value: Any, error: str) -> None:
    """Each error has a name, and the default value of its type (D-29)."""
    outcome = parse(expression).evaluate(EVENT)
    assert (outcome.value, type(outcome.value), list(outcome.errors)) == (value, type(value), [error])
