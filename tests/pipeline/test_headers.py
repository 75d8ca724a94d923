"""Headers as text, one message at a time and many at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline import columns, headers

TYPE = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    ("protocol", "pairs", "found"),
    [
        ("HTTP", [], None),
        ("HTTP", [("A", "1"), ("a", "2")], [("a", "1, 2")]),
        ("KAFKA", [("A", b"1"), ("a", b"2")], [("A", b"1".decode()), ("a", "2")]),
        ("KAFKA", [("a", b"\xff"), ("b", "ü".encode())], [("a", "\\xff"), ("b", "ü")]),
    ],
)
def test_headers_as_text(protocol: str, pairs: list[tuple[str, str | bytes]], found: object) -> None:
    assert headers.texts(protocol, pairs) == found


NAMES, VALUES = st.sampled_from("abB"), st.sampled_from([b"", b"1", b"\xff", None, "ü".encode()])


@given(
    st.lists(st.none() | st.lists(st.fixed_dictionaries({"name": NAMES, "value": VALUES}), max_size=3)),
    st.booleans(),
    st.sampled_from(["KAFKA", "HTTP", ""]),
)
def test_many_at_once_are_as_one_by_one(
    found: list[list[dict[str, bytes | str | None]] | None], sliced: bool, protocol: str
) -> None:
    array = pa.array(found, TYPE)
    array, found = (array.slice(1), found[1:]) if sliced else (array, found)
    maps = headers.maps(protocol, array)
    assert maps.type == columns.TEXT_MAP
    assert maps.to_pylist() == [headers.texts(protocol, headers.pairs(each)) for each in found]
