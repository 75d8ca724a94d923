from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.engine.search.query import ANYWHERE, QueryError, parse_query
from signalbook.storage.words import Condition, Phrase


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("order", (Condition((Phrase(("order",), True),), ANYWHERE),)),
        ("a", (Condition((Phrase(("a",)),), ANYWHERE),)),
        ("customerId", (Condition((Phrase(("customer", "id"), True), Phrase(("customerid",), True)), ANYWHERE),)),
        ('"Who bought"', (Condition((Phrase(("who", "bought")),), ("names", "fields", "prose")),)),
        ("field:customer_id", (Condition((Phrase(("customerid",)),), ("members",)),)),
        ("FIELD:cust*", (Condition((Phrase(("cust",), True),), ("members",)),)),
        ("field:a.b", tuple(Condition((Phrase((name,)),), ("members",)) for name in "ab")),
        ("name:sales", (Condition((Phrase(("sales",), True),), ("names",)),)),
        ("urn:x", tuple(Condition((Phrase((name,)),), ANYWHERE) for name in ("urn", "x"))),
    ],
)
def test_queries_are_parsed(text: str, expected: tuple[Condition, ...]) -> None:
    assert parse_query(text).required == expected


def test_a_dash_excludes() -> None:
    query = parse_query('order -"to be" -field:id')
    assert [len(query.required), [condition.parts[0] for condition in query.excluded]] == [1, ["names", "members"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"open', "has no end"),
        ("-", "has no word in it"),
        ('""', "has no word in it"),
        ("field:", "behind field:"),
        ("field:*", "behind field:"),
        ("***", "no letter or digit"),
        ("a\0b", "cannot be seen"),
        ("a " * 21, "more than 20 words"),
        ("x" * 1001, "at most 1000"),
    ],
)
def test_invalid_query_is_explained(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_query(text)


@given(st.text(alphabet='ab"-:*. fieldnm\0é語_', max_size=60))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    with suppress(QueryError):
        assert parse_query(text).text == text.strip()
