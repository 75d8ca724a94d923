"""Excerpts show the place of a fault, however far from the beginning of a message it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.excerpts import LONGEST, excerpt

FILL = "x" * 500
EVENT = {
    "specversion": "1.0",
    "id": FILL,
    "data": {"a": FILL, "items": [{"n": 1}, {"n": "two", "é/~": [0]}], "z": FILL},
}
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/items/1/n", '"n": "two"'),
        ("/items/1/missing", '{"n": "two"'),
        ("/items/9", '"items": ['),
        ("/items/1/é~1~0/0", "[0]"),
        ("/z", '"z": "xxx'),
        ("data", '"data": {'),
        ("specversion", '{"specversion": "1.0"'),
        ("nowhere", '{"specversion": "1.0"'),
        ("", '{"specversion": "1.0"'),
    ],
)
def test_the_place_is_shown(path: str, expected: str) -> None:
    for indent in (None, 2):
        excerpt_text = excerpt(json.dumps(EVENT, indent=indent, ensure_ascii=False).encode(), path)
        assert "".join(expected.split()) in "".join(excerpt_text.split())
        assert len(excerpt_text.encode()) <= LONGEST + 2 * len("…".encode())


def test_a_payload_alone_is_looked_through_too() -> None:
    text = dumped(EVENT["data"])
    assert '"n": "two"' in excerpt(text, "/items/1/n")
    assert excerpt(b'{"a": 1}', "/a") == '{"a": 1}'


@pytest.mark.parametrize(
    "text", [b"", b"\xff\x00" * 300, b"<a>" * 90, b'{"a' * 99, b'{"a":' * 9000, b"[" * 9000, b'"' * 500]
)
def test_excerpt_of_invalid_json_is_its_beginning(text: bytes) -> None:
    assert excerpt(text, "/b/c").startswith(text[:9].decode(errors="replace"))


def pointers(value: Any, path: str = "") -> list[str]:
    """The paths of all that is in a value."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    steps = [(f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}", inner) for name, inner in members]
    return [pointer for step, inner in steps for pointer in (step, *pointers(inner, step))]


@given(VALUES, st.data())
def test_the_place_of_any_value_is_found(value: Any, data: st.DataObject) -> None:
    paths = pointers(value)
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    marked = json.loads(dumped([{}, value]))
    inner, last = marked, None
    for step in ("1", *(step_text.replace("~1", "/").replace("~0", "~") for step_text in path[1:].split("/"))):
        last = (inner, int(step) if isinstance(inner, list) else step)
        inner = last[0][last[1]]
    assert last is not None
    last[0][last[1]] = "here it is"
    assert "here it is" in excerpt(dumped([{"fill": FILL}, marked[1]]), f"/1{path}")
