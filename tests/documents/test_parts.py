"""A document read by its parts is the document that parse_json reads, and what is the same in it is the same object."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples, json_trees

from signalbook.documents import Parts
from signalbook.values import MAX_DEPTH, JSONError, JSONObject, parse_json

NAMES = st.sampled_from(["messages", "m", "url", "schemaurl", "é", "\\", '"', ""])
ODD_VALUES = st.sampled_from([0.0, -0.0, 1e300, "", 'é"\\', "./file"])
VALUES = json_trees(st.none() | st.booleans() | st.integers(-3, 3) | ODD_VALUES, NAMES, leaves=25)
DOCUMENTS: st.SearchStrategy[Any] = VALUES
for _ in range(4):
    DOCUMENTS = st.dictionaries(NAMES, DOCUMENTS, max_size=2)
PIECES = ['"a":1,', '"m":{"m":{"m":{"m":{"m":1e999}}}},', "1e999", "123456789012345678901234", "\\u0022", '\\"']
PIECES += ["}", '"', "\\", ",", " ", "\x00"]
# What no writer of JSON makes: names twice, numbers out of range, faults, and text that ends early.
TEXTS = st.one_of(
    DOCUMENTS.map(json.dumps),
    DOCUMENTS.map(lambda each: json.dumps(each, indent=2, ensure_ascii=False)),
    VALUES.map(json.dumps),
    st.builds(
        lambda text, place, piece: text[: place % len(text)] + piece + text[place % len(text) :],
        DOCUMENTS.map(json.dumps),
        st.integers(0, 500),
        st.sampled_from(PIECES),
    ),
    st.builds(lambda text, end: text[:end], DOCUMENTS.map(json.dumps), st.integers(0, 300)),
)


def read(parse: Any, text: bytes) -> tuple[str, str]:
    try:
        return "read", repr(parse(text))  # in which 1, 1.0 and true differ, and so does another order of names
    except JSONError as error:
        return "refused", str(error)


@settings(max_examples=examples(200))
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_parts_parse_like_whole_documents(texts: list[str]) -> None:
    parts = Parts()
    for text in texts:
        encoded = text.encode()
        assert read(parts.parse, encoded) == read(parse_json, encoded)


def document(**resources: Any) -> JSONObject:
    return {"schemagroups": {"g": {"labels": {"a": "b"}, "schemas": resources}}}


def resources(value: JSONObject) -> JSONObject:
    return dict(value["schemagroups"]["g"]["schemas"])


def test_a_resource_with_the_same_text_is_the_same_object() -> None:
    parts = Parts()
    first = resources(parts.parse(json.dumps(document(a={"n": 1}, b={"n": 2}, c=[1])).encode()))
    again = resources(parts.parse(json.dumps(document(b={"n": 2}, d={"n": 1}, a={"n": 3})).encode()))
    assert again["b"] is first["b"]
    assert again["d"] is first["a"]  # under any name
    assert again == {"b": {"n": 2}, "d": {"n": 1}, "a": {"n": 3}}
    last = resources(parts.parse(json.dumps(document(e=first["a"], f={"n": 2.0})).encode()))
    assert last["e"] is first["a"]
    assert repr(last["f"]) == "{'n': 2.0}"


def test_unused_parts_are_forgotten() -> None:
    parts = Parts()
    texts = [
        json.dumps(document(**resource_map)).encode()
        for resource_map in ({"a": {"n": 1}}, {"b": {"n": 2}}, {"a": {"n": 1}})
    ]
    first, _, last = [resources(parts.parse(text)) for text in texts]
    assert last["a"] == first["a"]
    assert last["a"] is not first["a"]


@pytest.mark.parametrize("depth", range(57, 65))
def test_documents_are_as_deep_as_they_may_be(depth: int) -> None:
    deep: Any = 1
    for _ in range(depth):
        deep = {"a": deep}
    for value in (document(a=deep), document(a=[deep]), {"a": [deep]}, {"a": {"b": [deep]}}):
        encoded = json.dumps(value).encode()
        assert read(Parts().parse, encoded) == read(parse_json, encoded)
        deeper = partial(parse_json, max_depth=MAX_DEPTH + 2)
        assert read(partial(Parts().parse, max_depth=MAX_DEPTH + 2), encoded) == read(deeper, encoded)


def test_invalid_json_under_a_duplicate_name_is_an_error() -> None:
    """The last one counts, and what the others have must be JSON all the same."""
    text = b'{"g": {"g": {"schemas": {"a": {"n": 1e999}, "a": {"n": 1}}}}}'
    with pytest.raises(JSONError, match="out of range"):
        Parts().parse(text)
    assert Parts().parse(text.replace(b"e999", b"e9")) == {"g": {"g": {"schemas": {"a": {"n": 1}}}}}
    # with as many quotation marks in names as are passed over, were those written as such
    with pytest.raises(JSONError, match="out of range"):
        Parts().parse(b'{"\\u0022\\u0022": 1, "x": {"x": {"x": {"a": 1e999, "a": {}}}}}')


@pytest.mark.parametrize(
    ("resource", "plain"),
    [
        ('{"schema": {}}', True),
        ('{"schemaurl": "./f"}', False),
        ('{"versions": {"1": {"schemaurl": "./f"}}}', False),
        ('{"schema\\u0075rl": "./f"}', False),
        ('{"schemaurls": "url"}', False),
    ],
)
def test_resource_with_a_file_reference_is_not_plain(resource: str, plain: bool) -> None:
    parts = Parts()
    value = parts.parse(json.dumps(document(a=5)).replace("5", resource).encode())
    assert (id(resources(value)["a"]) in parts.plain) == plain
