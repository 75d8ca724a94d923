from __future__ import annotations

import pytest

from signalbook.messages.matching.contract import Deferred


def test_values_are_made_when_asked_for_and_once() -> None:
    asked: list[int] = []

    def make(source: int) -> str:
        asked.append(source)
        return str(source)

    values = Deferred({"a": 1, "b": 2, "c": 3}, make)
    assert (len(values), list(values), "c" in values, "d" in values) == (3, ["a", "b", "c"], True, False)
    assert asked == []
    assert (values["b"], values["b"], values.get("a"), values.get("d"), values.get("d", "-")) == (
        "2",
        "2",
        "1",
        None,
        "-",
    )
    assert asked == [2, 1]
    assert values == {"a": "1", "b": "2", "c": "3"}


def test_an_error_of_making_a_value_is_no_missing_key() -> None:
    values = Deferred({"a": {}}, lambda source: source["x"])
    with pytest.raises(KeyError, match="x"):
        values.get("a")
    with pytest.raises(KeyError, match="b"):
        values["b"]
