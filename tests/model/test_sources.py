import json

import pytest

from signalbook.model import BUILTIN, builtin, compile_model
from signalbook.model.sources import MAX_DOCUMENTS, MAX_NODES, expand
from signalbook.values import JSON, JSONObject


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_models_compile_without_includes(name: str) -> None:
    """The model at /modelsource can be read by any registry."""
    source = builtin(name)
    assert "$include" not in json.dumps(source)
    compile_model(source)


def test_builtin_model_is_a_copy() -> None:
    builtin("default").clear()
    assert builtin("default")


def test_other_names() -> None:
    with pytest.raises(KeyError, match="there are: default, spec, empty"):
        builtin("../default")


DOCUMENTS: dict[str, JSON] = {
    "http://x/lib/a.json": {"one": {"type": "string"}, "both": {"type": "integer"}, "list": [1]},
    "http://x/lib/b.json": {"two": {"$include": "a.json#/one"}, "both": {"type": "string"}},
    "http://x/loop.json": {"deep": {"$include": "#/deep"}},
    "http://x/self.json": {"deep": {"$include": "http://x/self.json"}},
    "http://x/odd~.json": {"a/b": {"~": {"ok": 1}}},
}


def resolve(source: JSONObject) -> tuple[JSONObject, list[str]]:
    expanded, faults = expand(source, DOCUMENTS.__getitem__, "http://x/root.json")
    return expanded, [fault.message for fault in faults]


@pytest.mark.parametrize(
    ("source", "expanded"),
    [
        ({"a": {"$include": "lib/a.json#/one"}}, {"a": {"type": "string"}}),
        ({"a": {"$include": "lib/a.json#one"}}, {"a": {"type": "string"}}),
        ({"a": {"$include": "http://x/lib/a.json#/one", "type": "uri"}}, {"a": {"type": "uri"}}),
        ({"$include": "lib/b.json#/two"}, {"type": "string"}),
        ({"a": {"x": 1}, "b": {"$include": "#/a"}}, {"a": {"x": 1}, "b": {"x": 1}}),
        ({"$include": "odd~.json#/a~1b/~0"}, {"ok": 1}),
        ({"$include": "odd~.json#/a~1b/%7E0"}, {"ok": 1}),
        ({"l": [{"$include": "lib/a.json#/one"}]}, {"l": [{"type": "string"}]}),
        ({"l": [{"x": 1}], "b": {"$include": "#/l/0"}}, {"l": [{"x": 1}], "b": {"x": 1}}),
        ({"$includes": []}, {}),
    ],
)
def test_includes_are_resolved(source: JSONObject, expanded: JSONObject) -> None:
    """The test has pointers and relative paths; local keys have precedence (R112, R113)."""
    assert resolve(source) == (expanded, [])


@pytest.mark.parametrize(
    ("order", "winner"), [(["lib/a.json", "lib/b.json"], "integer"), (["lib/b.json", "lib/a.json"], "string")]
)
def test_earlier_includes_win(order: list[str], winner: str) -> None:
    """The first of several includes takes precedence (R112)."""
    expanded, faults = resolve({"$includes": order})
    assert not faults
    assert expanded["both"] == {"type": winner}
    assert expanded.keys() == {"one", "two", "both", "list"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"$include": "loop.json#/deep"}, "includes itself"),
        ({"$include": "self.json"}, "includes itself"),
        ({"a": {"$include": "#/b"}, "b": {"$include": "#/a"}}, "includes itself"),
        ({"a": {"$include": "#"}}, "includes itself"),
        ({"$include": "none.json"}, "none.json"),
        ({"$include": "lib/a.json#/none"}, 'no "none" in it'),
        ({"$include": "lib/a.json#/list"}, "not an object"),
        ({"$include": "lib/a.json#/list/7"}, 'no "7"'),
        ({"$include": 5}, "takes a string"),
        ({"$includes": "a"}, "takes a string"),
        ({"$includes": [5]}, "takes a string"),
        ({"$include": "a", "$includes": ["b"]}, "not both"),
    ],
)
def test_bad_includes_are_reported(source: JSONObject, message: str) -> None:
    """The includes are cycles, have both forms, or have no target (R112)."""
    _, messages = resolve(source)
    assert messages
    assert all(message in fault_message for fault_message in messages)


def test_without_a_loader_only_the_document_itself_is_read() -> None:
    """The URL of a client is never fetched (R316)."""
    _, faults = expand({"$include": "http://169.254.169.254/"}, None)
    assert "only references into the same document" in faults[0].message


def test_includes_cannot_blow_up() -> None:
    source: JSONObject = {"l0": {"x": {}}}
    for level in range(40):
        include = {"$include": f"#/l{level}"}
        source[f"l{level + 1}"] = {"a": include, "b": include}
    _, faults = expand(source, None)
    assert [fault.message for fault in faults] == ["the model is too large or too deep"]


def test_included_arrays_count_too() -> None:
    source: JSONObject = {"big": {"enum": [0] * (MAX_NODES // 10)}}
    source |= {f"b{number}": {"$include": "#/big"} for number in range(30)}
    _, faults = expand(source, None)
    assert [fault.message for fault in faults] == ["the model is too large or too deep"]


def test_long_chains_of_includes_are_rejected() -> None:
    source: JSONObject = {f"l{level}": {"$include": f"#/l{level + 1}"} for level in range(500)}
    _, faults = expand(source | {"l500": {}}, None)
    assert any("deeper" in fault.message for fault in faults)


def test_documents_are_limited() -> None:
    source: JSONObject = {f"d{number}": {"$include": f"{number}.json"} for number in range(MAX_DOCUMENTS + 5)}
    _, faults = expand(source, lambda name: {})
    assert any("at most" in fault.message for fault in faults)


def test_source_keeps_its_directives() -> None:
    """R63, R113."""
    source: JSONObject = {"attributes": {"a": {"type": "string"}, "b": {"$include": "#/attributes/a", "name": "b"}}}
    model = compile_model(source)
    assert model.source == source
    assert model.document["attributes"]["b"] == {"name": "b", "type": "string"}
