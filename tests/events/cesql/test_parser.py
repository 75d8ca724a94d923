import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.cesql import ParseError, parse
from signalbook.events.cesql.parser import MAX_DEPTH, MAX_TERMS

WORDS = ["AND", "or", "NOT", "LIKE", "IN", "EXISTS", "true", "-", "+", "*", "=", "<", "(", ")", ",", "'a%'", '"b"']
TERMS = st.sampled_from([*WORDS, "7", "id", "missing", "LEFT(", "CONCAT(", "nope(", "2147483648", "\\", "'"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the end at character 1"),
        ("id =", "the end at character 5"),
        ("id = 'a", 'nothing begins with "\'", at character 6'),
        ("(id", r"\) is expected"),
        ("id id", "the end is expected"),
        ("EXISTS 'id'", "name of an attribute"),
        ("id LIKE id", "pattern in quotes"),
        ("my_id = 1", "name of an attribute"),
        ("1 + AND", "an attribute or a value"),
        ("2147483648", "32 bits"),
        ("-2147483649", "32 bits"),
        ("99999999999999999999999", "32 bits"),
        ("f1(2)", "letters"),
        ("'a' + +'b'", "a number is expected"),
        ("x" * 5000, "5000 characters"),
        ("id = 1 " + "OR id = 1 " * MAX_TERMS, "words and signs"),
        ("(" * (MAX_DEPTH + 2) + "1" + ")" * (MAX_DEPTH + 2), "inside each other"),
    ],
)
def test_refused(text: str, message: str) -> None:
    """The error contains the position (D-29)."""
    with pytest.raises(ParseError, match=message):
        parse(text)


@pytest.mark.parametrize("text", ["-2147483648 = id", "NOT " * 200 + "true", "true" + " AND true" * 100])
def test_accepted(text: str) -> None:
    parse(text).evaluate({"id": "1"})


@given(st.lists(TERMS, max_size=40).map(" ".join))
def test_parser_raises_only_parse_errors(text: str) -> None:
    """The language is total (1): what parses has a value for every event."""
    try:
        expression = parse(text)
    except ParseError:
        return
    for event in ({}, {"id": "x", "type": True, "missing": 5}, {"id": 2**40, "missing": "-7"}):
        assert isinstance(expression.evaluate(event).value, str | int)
