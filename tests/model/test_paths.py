import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.model.paths import DotPath, format_path, parse_path, pick
from signalbook.values import JSON

NAMES = st.text().filter(lambda name: not ("'" in name and '"' in name))


@given(st.lists(NAMES | st.integers(min_value=0), min_size=1).map(tuple))
def test_paths_survive_a_round_trip(path: DotPath) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (".name", ("name",)),
        ("['my.name']", ("my.name",)),
        ("[2]", (2,)),
        ('["birth.date"]', ("birth.date",)),
        ('["2"]', ("2",)),
        ("employee.name", ("employee", "name")),
        ("stack[3]", ("stack", 3)),
        ("employee['joe'].addresses[0].state", ("employee", "joe", "addresses", 0, "state")),
        ("schemas.format", ("schemas", "format")),
    ],
)
def test_examples_of_the_specification(text: str, path: DotPath) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a..b", "a[", "a[x]", "a]", "[-1]", "a'b", "['a'b"])
def test_rejects_other_text(text: str) -> None:
    with pytest.raises(ValueError):
        parse_path(text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [(("a", "b", 1), 2), (("a", "b", 9), None), (("a", 0), None), (("x", "y"), None), (("a", "b", "c"), None)],
)
def test_pick(path: DotPath, expected: JSON) -> None:
    assert pick({"a": {"b": [1, 2]}}, path) == expected
