from typing import Any

import pytest

from signalbook.events.filters import MAX_DEPTH, MAX_FILTERS, FilterError, parse

EVENT = {"id": "7", "type": "io.x.group.created", "subject": "/dirs/d1", "hops": 3, "last": False}


@pytest.mark.parametrize(
    ("filter", "passes"),
    [
        ([], True),
        ({"exact": {"subject": "/dirs/d1"}}, True),
        ({"exact": {"subject": "/dirs/D1"}}, False),
        ({"exact": {"subject": "/dirs/d1", "id": "8"}}, False),
        ({"exact": {"hops": "3", "last": "false"}}, True),
        ({"prefix": {"subject": "/dirs/d"}}, True),
        ({"prefix": {"absent": "x"}}, False),
        ({"suffix": {"type": ".created"}}, True),
        ({"not": {"exact": {"absent": "x"}}}, True),
        ({"all": [{"prefix": {"type": "io."}}, {"suffix": {"type": ".deleted"}}]}, False),
        ({"any": [{"prefix": {"type": "io."}}, {"suffix": {"type": ".deleted"}}]}, True),
        ([{"prefix": {"type": "io."}}, {"sql": "hops > 2 AND EXISTS subject"}], True),
        ({"sql": "hops"}, False),
        ({"sql": "absent = 'x' OR true"}, False),
    ],
)
def test_dialects(filter: Any, passes: bool) -> None:
    """SQL passes only for the boolean TRUE, and never with an error (D-27, D-29)."""
    assert parse(filter)(EVENT) is passes


def nested(depth: int) -> Any:
    return {"sql": "true"} if depth == 1 else {"not": nested(depth - 1)}


@pytest.mark.parametrize(
    ("filter", "place"),
    [
        ({"near": {"id": "7"}}, "/near: there is no such dialect"),
        ({}, "/: a filter is an object"),
        ({"exact": {"id": "7"}, "prefix": {"id": "7"}}, "/: a filter is an object"),
        ("id = '7'", "/: a filter is an object"),
        ([{"exact": {}}], "/0/exact: it takes an object"),
        ({"prefix": {"id": ""}}, "/prefix/id: names and values"),
        ({"prefix": {"": "x"}}, "/prefix/: names and values"),
        ({"suffix": {"id": 7}}, "/suffix/id: names and values"),
        ({"any": []}, "/any: it takes an array"),
        ({"all": [{"not": {"sql": "id ="}}]}, "/all/0/not/sql: an attribute"),
        ({"sql": 5}, "/sql: it takes an expression"),
        (nested(MAX_DEPTH + 1), "at most"),
        ([{"sql": "true"}] * (MAX_FILTERS + 1), "at most"),
    ],
)
def test_refused(filter: Any, place: str) -> None:
    """The error contains the place in the document (D-29)."""
    with pytest.raises(FilterError, match=place):
        parse(filter)
