"""Objects whose names are values are maps, with few of them too; what a judgement rests on is told."""

from typing import Any

import pytest
from tests.pipeline.inference.conftest import summary

from signalbook.pipeline.inference.maps import find_doubts, is_map
from signalbook.pipeline.inference.schemas import Rules, build_schema

FIELDS = {"name": {"stringValue": "a"}, "age": {"integerValue": "3"}}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([{f"u-{n}": 1, f"u-{n + 1}": 2} for n in range(40)], True),
        ([FIELDS], True),
        ([{"a": {"mapValue": {"fields": FIELDS}}}], True),
        ([{"a": {"S": "x"}, "b": {"N": "1"}}], True),
        ([{"a": {"S": "x"}, "b": {"stringValue": "1"}}], False),
        ([{"a": {"S": "x", "N": "1"}}], False),
        ([{"a": {"S": "x"}, "b": 1}], False),
        ([{"7f3c1c9e-1111-4222-8333-944444444444": 1}], True),
        ([{"2026-01-02": 3, "2026-01-03": 4}], True),
        ([{"1": "a", "2": "b"}], True),
        ([{"1": "a"}], False),
        ([{"KtYp1k2jxG4gq9XAbC7d": {"n": 1}}], True),
        ([{"A@mail.example.com": True}], True),
        ([{"a@" + "." * 30_000 + " ": True}], False),  # took seconds
        ([{"shippingaddressline2extra": "a"}], False),
        ([{"7F3C1C9E-1111-4222-8333-944444444444": 1}], True),
        ([{"line1": "a", "line2": "b", "address12": "c"}], False),
        ([{"facade": 1, "deadbeefcafe": 2}], False),
        ([{name: {"n": 1}} for name in ("ann", "bob", "cem", "dan", "eva")], True),
        ([{name: {"n": 1}} for name in ("ann", "bob", "cem", "dan")], False),
        ([{"ann": 1}, {"bob": "x"}, {"cem": 1}, {"dan": 1}, {"eva": 1}], False),
        ([{"a": 1, "b": 2}] * 9, False),
        ([{}], False),
    ],
)
def test_maps_are_recognised(objects: list[dict[str, Any]], expected: bool) -> None:
    assert is_map(summary(*objects)) == expected


def told(*values: Any) -> dict[str, str]:
    return {"/".join(map(str, path)): doubt for path, doubt in find_doubts(summary(*values))}


def test_doubts_are_about_what_little_was_seen_of() -> None:
    values = [{"id": 1, "users": [{"fields": FIELDS}], "labels": {"red": "x"}}, {"id": 2, "labels": {"blue": "y"}}]
    assert told(*values) == {
        "labels": "may be a map: of 2 names in 2 objects none is in all, and their values are alike",
        "users/*/fields": "taken for a map by 2 names in 1 objects: each has a value that says of what type it is",
    }
    assert told(*({"users": {f"u-{n}": 1, f"u-{n + 1}": 2}} for n in range(40))) == {}
    assert told({"a": 1, "b": 2}, {"a": 1}) == {}


def test_payloads_of_several_kinds_are_no_map() -> None:
    """Every kind has its own members, with similar values."""
    kinds = [{f"member{kind}_{number}": {"text": "x"} for number in range(4)} for kind in range(10)]
    values = summary(*kinds * 5)
    assert told(*kinds * 5) == {
        "": "may be a map, or several kinds of messages: of 40 names in 50 objects each object has few"
    }
    assert len(build_schema(values, Rules())["properties"]) == 40
    assert is_map(values)
    assert not is_map(values, root=True)
    assert is_map(summary(*({f"2026-01-{day}": day} for day in range(10, 31))), root=True)


def test_a_firestore_document() -> None:
    """The document is from Google's event catalogue: ``fields`` is a map, although a sample has only two keys."""
    value = {"value": {"name": "projects/p/documents/d", "fields": FIELDS}, "updateMask": {"fieldPaths": ["age"]}}
    fields = build_schema(summary(value, value), Rules())["properties"]["value"]["properties"]["fields"]
    assert "properties" not in fields
    assert fields["additionalProperties"]["properties"].keys() == {"stringValue", "integerValue"}
