"""Repairs of damaged JSON (domain L-37): each is reported with its line, nothing else is put up with."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import JSON_SCALARS, json_trees

from signalbook.documents import DocumentError, repair_json

json_values = json_trees(JSON_SCALARS, st.text(), size=4, leaves=12)


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        pytest.param(
            '// hi\n{"a": 1} # end', {"a": 1}, ["1: took away a comment", "2: took away a comment"], id="comments"
        ),
        pytest.param('{"a": 1, /* b\n */ "c": 2}', {"a": 1, "c": 2}, ["1: took away a comment"], id="block comment"),
        pytest.param(
            '{"a": [1,\n2,],\n}', {"a": [1, 2]}, ["2: took away the comma", "2: took away the comma"], id="L-1 trailing"
        ),
        pytest.param('{"a": 1\n"b": 2}', {"a": 1, "b": 2}, ["1: added a comma"], id="L-1 missing"),
        pytest.param('["a" "b"]', ["a", "b"], ["1: added a comma"], id="missing in array"),
        pytest.param('{"a": "x\ny"}', {"a": "x\ny"}, ["1: took a raw line break"], id="L-17"),
        pytest.param('{"a" {"b": 1}}', {"a": {"b": 1}}, ["1: added the colon"], id="L-28"),
        pytest.param('{"a": {\n{"b": 1}}}', {"a": {"b": 1}}, ["2: took an object without a key"], id="L-16"),
        pytest.param('{"a": {"b": [1]', {"a": {"b": [1]}}, ["1: added the closing }"] * 2, id="unbalanced end"),
        pytest.param('{"a": [1', {"a": [1]}, ["1: added the closing ]", "1: added the closing }"], id="open array"),
        pytest.param('{"a": 1} }', {"a": 1}, ["1: took away a surplus }"], id="L-33"),
    ],
)
def test_repairs(text: str, value: object, repairs: list[str]) -> None:
    parsed, repairs_made = repair_json(text, max_depth=8)
    assert parsed == value
    assert len(repairs_made) == len(repairs)
    for repair, expected in zip(repairs_made, repairs, strict=True):
        assert str(repair).startswith(f"line {expected}")
        assert repair.rule.startswith("L-")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the document ends where a value is expected"),
        ('{\n"a": nope}', "line 2: here a value is expected"),
        ("{a: 1}", "its key in double quotes"),
        ('{"a" 1}', "a colon is expected"),
        ('{"a": "x', "has no end"),
        ('["\\x"]', "a string with a fault"),
        (f"[1{'0' * 5000}]", "line 1: a number with too many digits"),
        ("[1}", "} stands where ] is expected"),
        ("[[[[[]]]]]", "nested too deep"),
        ("{} {}", "the document ends before this"),
        ("{'a': 1}", "double quotes"),
    ],
)
def test_the_rest_is_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        repair_json(text, max_depth=4)


@given(json_values)
def test_sound_json_needs_no_repair(value: object) -> None:
    assert repair_json(json.dumps(value), max_depth=64) == (value, ())
