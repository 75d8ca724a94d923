import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import JSON_SCALARS, json_trees

from signalbook.documents import DocumentError, write_document
from signalbook.documents import yaml as module
from signalbook.documents.yaml import parse_yaml

json_values = json_trees(JSON_SCALARS, st.text(), size=4, leaves=12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, null, ~]", {"a": 1, "b": ["x", 2.5, True, None, None]}),
        ("on: yes", {"on": "yes"}),  # booleans in YAML 1.1 only
        ("at: 2024-01-01T00:00:00Z", {"at": "2024-01-01T00:00:00Z"}),
        ("versions: {1: {}, 2.0: {}}", {"versions": {"1": {}, "2.0": {}}}),
        ("a: '1'\nb: !!str 2\nc: !!int 3", {"a": "1", "b": "2", "c": 3}),
        ("a: 0x1F\nb: 0o17\nc: 1e3", {"a": 31, "b": 15, "c": 1000.0}),
        ("a: &x {k: v}\nb: *x", {"a": {"k": "v"}, "b": {"k": "v"}}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("{}", {}),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_yaml(text, max_depth=10) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line ., column .*: .*"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands here twice"),
        ("a: .nan", "line 1, column 4: the number .nan has no form in JSON"),
        ("a: 1e999", "has no form in JSON"),
        ("a: !!binary aGk=", "tag:yaml.org,2002:binary has no form in JSON"),
        ("a: !!python/object:os.system {}", "has no form in JSON"),
        ("a: !!int x", "has no form in JSON"),
        ("[[[[1]]]]", "nested deeper than 3 levels"),
        ("a: *b", "names nothing that stands before it"),
        ("a: &a [*a]", "names nothing that stands before it"),
        ("{[1]: 2}", "a key needs to be plain text"),
        ("a: 1\n---\nb: 2", "holds 2 YAML documents"),
        ("", "is empty"),
        ("a:\n\tb: 1", "line 2, column 1: there is a tab: YAML takes only spaces for indentation"),
        ("a:\n  - b: 1\n c: 2", "line 3, column 2: did not find expected key: check the indentation of this line"),
        ("a: \x00", "control characters|special characters|reader"),
    ],
)
def test_errors_contain_the_place(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        parse_yaml(text, max_depth=3)


def test_exponential_aliases_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NODES", 10_000)
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    with pytest.raises(DocumentError, match="more than 10000 values"):
        parse_yaml("\n".join(lines), max_depth=10)


def test_depth_is_no_matter_of_the_stack() -> None:
    with pytest.raises(DocumentError, match="nested deeper than 64 levels"):
        parse_yaml("[" * 200_000, max_depth=64)


@given(json_values)
def test_values_survive_a_round_trip(value: object) -> None:
    assert parse_yaml(write_document(value, name="x.yaml").decode(), max_depth=64) == value
