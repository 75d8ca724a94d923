"""Extension attributes as columns."""

from __future__ import annotations

import pytest

from signalbook.messages.cloudevents import Attribute
from signalbook.pipeline.fastpath.batch import Extension

COLUMNS: list[list[Attribute | None]] = [
    [],
    [None, None],
    ["a", None, "", "a"],
    ["1", 1, True, "true", False, None, 1, -7],
]


@pytest.mark.parametrize("values", COLUMNS)
def test_values_come_back_as_what_they_were(values: list[Attribute | None]) -> None:
    found = Extension.of(values)
    codes, known = found.codes()
    for again in ([found.value(number) for number in range(len(values))], [known[code] for code in codes.tolist()]):
        assert [(type(value), value) for value in again] == [(type(value), value) for value in values]
    assert len({(type(value), value) for value in known}) == len(known)


@pytest.mark.parametrize("values", COLUMNS)
def test_columns_are_joined(values: list[Attribute | None]) -> None:
    joined = Extension.joined([(Extension.of(values), len(values)), (None, 2), (Extension.of(["z"]), 1)])
    assert [joined.value(number) for number in range(len(values) + 3)] == [*values, None, None, "z"]
