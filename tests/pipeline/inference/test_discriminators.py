"""The member is found that tells kinds of messages apart, and none where there is none."""

import random
from typing import Any

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.inference.discriminators import (
    MAX_VALUE_CHARS,
    MAX_VALUES,
    check_member,
    choose_member,
    find_member_text,
)

SHAPES: tuple[dict[str, Any], ...] = (
    {"event": "signup", "email": "a@b.example", "country": "DE"},
    {"event": "purchase", "amount": 1.5, "items": [1], "country": "FR"},
    {"event": "logout", "country": "DE"},
)


def chosen(*payloads: dict[str, Any], times: int = 40) -> str:
    """Return the member chosen for these payloads, each repeated, in random order."""
    many = [payload for payload in payloads for _ in range(times)]
    random.Random(1).shuffle(many)
    choice = choose_member(many)
    return "" if choice is None else choice.member


def change(n: int, table: str, op: str) -> dict[str, Any]:
    """An event of Debezium."""
    row = {f"{table}_id": n, f"{table}_name": "x"}
    before, after = (None, row) if op == "c" else (row, row if op == "u" else None)
    return {"before": before, "after": after, "source": {"table": table, "db": "d"}, "op": op, "ts_ms": n}


@pytest.mark.parametrize(
    ("payloads", "member"),
    [
        (SHAPES, "event"),
        ([{"meta": {"kind": shape["event"]}, **shape, "event": "x"} for shape in SHAPES], "meta.kind"),
        ([{"code": n, **shape, "event": "x"} for n, shape in enumerate(SHAPES)], "code"),
        ([change(n, table, op) for n, table in enumerate(("orders", "users")) for op in "cud"], "source.table"),
    ],
    ids=["member", "nested", "number", "Debezium"],
)
def test_member_that_predicts_the_shape_is_chosen(payloads: list[dict[str, Any]], member: str) -> None:
    assert chosen(*payloads) == member


@pytest.mark.parametrize(
    "payloads",
    [
        (),
        [{"event": "a", "n": 1}, {"event": "b", "n": 2}],
        [{"country": "DE", "note": "x"}, {"country": "DE"}, {"country": "FR", "note": "x"}, {"country": "FR"}],
        [change(1, "orders", op) for op in "cud"],
        [{**SHAPES[0], "event": "a" * (MAX_VALUE_CHARS + 1)}, SHAPES[2]],
        [SHAPES[0], {"country": "DE"}],
        [{"event": True, "x": 1}, {"event": False, "y": 1}],
    ],
    ids=["nothing", "one shape", "unrelated", "one table", "long values", "not always there", "booleans"],
)
def test_without_a_telling_member_none_is_chosen(payloads: list[dict[str, Any]]) -> None:
    assert chosen(*payloads) == ""


def test_a_member_with_many_values_is_not_chosen() -> None:
    assert chosen(*({"event": f"e{n}", f"m{n}": 1} for n in range(100)), times=2) == ""


def test_usual_member_name_is_preferred() -> None:
    assert chosen(*({"a": shape["event"], "type": shape["event"], **shape, "event": "x"} for shape in SHAPES)) == "type"


def test_a_named_member_with_too_many_values_is_an_error() -> None:
    payloads = [{"event": f"e{n}"} for n in range(MAX_VALUES + 1)]
    check_member("event", payloads[1:])
    with pytest.raises(PipelineError, match="'event' has more than 500 values"):
        check_member("event", payloads)


@pytest.mark.parametrize(
    ("path", "text"), [("a", "x"), ("b.c", "7"), ("b", ""), ("b.d", ""), ("a.b", ""), ("e", ""), ("f", ""), ("g", "")]
)
def test_the_text_of_a_member(path: str, text: str) -> None:
    assert find_member_text({"a": "x", "b": {"c": 7}, "e": True, "f": None, "g": 10**5000}, path) == text
