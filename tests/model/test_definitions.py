import pytest

from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.values import JSON, JSONObject

SWITCH: JSONObject = {"type": "string", "ifvalues": {"a": {"siblingattributes": {"x": {"type": "string"}}}}}


def compiled(attributes: JSON, *, version: JSON = None, meta: JSON = None) -> JSONObject:
    """The full Group attributes of a model with these."""
    files = {"singular": "file", "attributes": version, "metaattributes": meta}
    groups = {"dirs": {"singular": "dir", "attributes": attributes, "resources": {"files": files}}}
    attributes_of_dirs: JSONObject = compile_model({"groups": groups}).document["groups"]["dirs"]["attributes"]
    return attributes_of_dirs


def faults(attributes: JSON, **lists: JSON) -> list[tuple[str, str]]:
    with pytest.raises(RegistryError) as caught:
        compiled(attributes, **lists)
    return [(fault.path.removeprefix("groups.dirs.attributes."), fault.rule) for fault in caught.value.faults]


def unnamed(definition: JSON) -> JSON:
    """Return the definition without names, which the full model repeats on every attribute."""
    if not isinstance(definition, dict):
        return definition
    return {key: unnamed(value) for key, value in definition.items() if key != "name"}


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "any"},
        {"type": "string", "name": "a", "description": "d", "required": False, "readonly": True},
        {"type": "string", "required": True, "default": ""},  # R10
        {"type": "integer", "required": True, "default": 1, "enum": [1, 2]},
        {"type": "integer", "required": True, "default": 3, "enum": [1, 2], "strict": False},
        {"type": "string", "enum": []},  # R80
        {"type": "xid", "target": "/dirs/files[/versions]"},
        {"type": "array", "item": {"type": "uri", "target": "/dirs"}},
        {"type": "object"},  # R86
        {"type": "object", "attributes": {}},
        {"type": "object", "namecharset": "EXTENDED", "attributes": {"a-b": {"type": "any"}}},  # R79
        {"type": "map", "item": {"type": "map", "item": {"type": "object", "attributes": {"z": {"type": "any"}}}}},
        {"type": "boolean", "ifvalues": {"true": {"siblingattributes": {"z": {"type": "any"}}}}},
        {"type": "string", "ifvalues": {"x": {"siblingattributes": {}}}},
        {"type": "string", "ifvalues": {"x": {"siblingattributes": {"*": {"type": "any"}}}}},  # R89
        {**SWITCH, "enum": ["A", "b"]},
    ],
)
def test_accepts(definition: JSONObject) -> None:
    """R74 to R89."""
    assert unnamed(compiled({"a": definition})["a"]) == unnamed(definition)


@pytest.mark.parametrize(
    ("definition", "path", "rule"),
    [
        (5, "a", "model_error"),
        ({}, "a.type", "model_error"),  # R74
        ({"type": "text"}, "a.type", "model_error"),  # R76
        ({"type": "String"}, "a.type", "model_error"),
        ({"type": "string", "name": "b"}, "a.name", "model_error"),
        ({"type": "string", "colour": 1}, "a.colour", "model_error"),  # R68
        ({"type": "string", "description": 1}, "a.description", "model_error"),
        ({"type": "string", "required": "yes"}, "a.required", "model_error"),
        ({"type": "string", "immutable": True}, "a.immutable", "model_error"),  # R83
        ({"type": "string", "target": "/dirs"}, "a.target", "model_error"),  # R77
        ({"type": "uriabsolute", "target": "/dirs"}, "a.target", "model_error"),
        ({"type": "xid", "target": "/none"}, "a.target", "model_error"),
        ({"type": "string", "namecharset": "strict"}, "a.namecharset", "model_error"),  # R79
        ({"type": "object", "namecharset": "utf8"}, "a.namecharset", "model_error"),
        ({"type": "object", "attributes": {"a-b": {"type": "any"}}}, "a.attributes.a-b", "invalid_attribute"),
        ({"type": "object", "enum": ["a"]}, "a.enum", "model_error"),  # R80
        ({"type": "string", "enum": "a"}, "a.enum", "model_error"),
        ({"type": "integer", "enum": [1, "2"]}, "a.enum[1]", "model_error"),
        ({"type": "string", "matchversions": True}, "a.matchversions", "model_error"),  # R81: not on Groups
        ({"type": "object", "default": {}}, "a", "model_scalar_default"),  # R85
        ({"type": "string", "default": "x"}, "a", "model_required_true"),
        ({"type": "integer", "required": True, "default": "x"}, "a.default", "model_error"),
        ({"type": "string", "required": True, "default": "x", "enum": ["y"]}, "a.default", "model_error"),
        ({"type": "string", "attributes": {}}, "a.attributes", "model_error"),  # R86
        ({"type": "object", "attributes": []}, "a.attributes", "model_error"),
        ({"type": "map"}, "a.item", "model_error"),  # R87
        ({"type": "array", "item": "string"}, "a.item", "model_error"),
        ({"type": "array", "item": {}}, "a.item.type", "model_error"),
        ({"type": "array", "item": {"type": "map"}}, "a.item.item", "model_error"),
        ({"type": "array", "item": {"type": "string", "required": True}}, "a.item.required", "model_error"),
        ({"type": "string", "item": {"type": "string"}}, "a.item", "model_error"),
        ({"type": "object", "ifvalues": {"x": {}}}, "a.ifvalues", "model_error"),  # R88
        ({"type": "string", "ifvalues": []}, "a.ifvalues", "model_error"),
        ({"type": "string", "ifvalues": {"": {}}}, "a.ifvalues['']", "model_error"),
        ({"type": "string", "ifvalues": {"^a": {}}}, "a.ifvalues['^a']", "model_error"),
        ({"type": "string", "ifvalues": {"a": {}, "A": {}}}, "a.ifvalues.A", "model_error"),
        ({"type": "string", "ifvalues": {"a": 1}}, "a.ifvalues.a", "model_error"),
        ({"type": "string", "ifvalues": {"a": {"x": 1}}}, "a.ifvalues.a.x", "model_error"),
        ({**SWITCH, "enum": ["b"]}, "a.ifvalues.a", "model_error"),
    ],
)
def test_rejects(definition: JSON, path: str, rule: str) -> None:
    """Each fault has its path (R68, R69, R74 to R88)."""
    assert (path, rule) in faults({"a": definition})


@pytest.mark.parametrize("name", ["A", "1a", "a-b", "", "a" * 64])
def test_names(name: str) -> None:
    """Invalid names of attributes are rejected (R5)."""
    assert [rule for _, rule in faults({name: {"type": "string"}})] == ["model_error"]


@pytest.mark.parametrize("aspect", [{"required": True}, {"readonly": True}, {"ifvalues": {"a": {}}}])
def test_star_is_plain(aspect: JSONObject) -> None:
    """The attribute * has only a type (R75)."""
    assert faults({"*": {"type": "string", **aspect}})[0] == (f"*.{next(iter(aspect))}", "model_error")


@pytest.mark.parametrize("sibling", ["a", "other", "epoch", "files", "dirid"])
def test_siblings_do_not_meet_their_level(sibling: str) -> None:
    """R17, R89."""
    switch = {"type": "string", "ifvalues": {"v": {"siblingattributes": {sibling: {"type": "string"}}}}}
    path = f"a.ifvalues.v.siblingattributes.{sibling}"
    assert (path, "model_error") in faults({"a": switch, "other": {"type": "string"}})


def test_nested_siblings_do_not_meet_their_levels() -> None:
    """Nested sibling attributes must not have the names of outer attributes (R89)."""
    inner = {"type": "string", "ifvalues": {"w": {"siblingattributes": {"a": {"type": "string"}}}}}
    outer = {"type": "string", "ifvalues": {"v": {"siblingattributes": {"b": inner}}}}
    assert "ifvalues.w.siblingattributes.a" in faults({"a": outer})[0][0]


def test_siblings_have_the_charset_of_their_object() -> None:
    """Sibling attributes have the charset of the surrounding object (R79)."""
    switch = {"type": "string", "ifvalues": {"v": {"siblingattributes": {"x-y": {"type": "string"}}}}}
    compiled({"o": {"type": "object", "namecharset": "extended", "attributes": {"s": switch}}})
    assert faults({"o": {"type": "object", "attributes": {"s": switch}}})[0][1] == "invalid_attribute"


def test_enum_on_an_array_of_scalars() -> None:
    """The endpoint model of rc4 has such an enum, although no item of the model language has ``enum`` (R80, H-3)."""
    attribute = {"type": "array", "enum": ["x"], "strict": False, "item": {"type": "string"}}
    assert compiled({"a": attribute})["a"] == {"name": "a", **attribute}


def test_enum_in_the_item_of_a_stored_array() -> None:
    """Earlier versions stored the enum there (R80)."""
    full = compiled({"a": {"type": "array", "item": {"type": "string", "enum": ["x"], "strict": False}}})
    assert full["a"] == {"name": "a", "type": "array", "enum": ["x"], "strict": False, "item": {"type": "string"}}


@pytest.mark.parametrize(
    ("definition", "path"),
    [
        ({"type": "map", "enum": ["x"], "item": {"type": "string"}}, "a.enum"),
        ({"type": "array", "enum": [{}], "item": {"type": "object"}}, "a.enum"),
        ({"type": "array", "enum": ["x"], "item": {"type": "integer"}}, "a.enum[0]"),
        ({"type": "map", "item": {"type": "string", "enum": ["x"]}}, "a.item.enum"),
        ({"type": "array", "item": {"type": "array", "item": {"type": "string"}, "enum": ["x"]}}, "a.enum"),
    ],
)
def test_enum_of_a_non_scalar_type_is_rejected(definition: JSONObject, path: str) -> None:
    """An enum is rejected for types that have no scalars (R80)."""
    assert faults({"a": definition})[0][0] == path


def test_enum_and_default_timestamps_are_in_utc() -> None:
    """Timestamps of enum and default are normalised to UTC (R7)."""
    local, utc = "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00Z"
    full = compiled({"a": {"type": "timestamp", "required": True, "enum": [local], "default": local}})
    assert (full["a"]["enum"], full["a"]["default"]) == ([utc], utc)


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("description", {"type": "string", "required": True}),
        ("name", {"type": "string", "enum": ["x"]}),
        ("epoch", {"type": "uinteger", "readonly": True}),
        ("labels", {"type": "map", "item": {"type": "string"}, "required": True}),
        ("deprecated", {"type": "object", "attributes": {"docs": {"type": "url"}}}),  # H-21
    ],
)
def test_specification_attributes_may_be_narrowed(name: str, definition: JSONObject) -> None:
    """The definition is merged, and keeps all attributes of the specification (R66, R67)."""
    plain, full = compiled({}), compiled({name: definition})
    assert full.keys() == plain.keys()
    assert plain[name].keys() <= full[name].keys()
    assert plain[name].get("attributes", {}).keys() <= full[name].get("attributes", {}).keys()


@pytest.mark.parametrize(
    ("name", "definition", "path"),
    [
        ("description", {"type": "integer"}, "description.type"),
        ("epoch", {"type": "uinteger", "required": False}, "epoch.required"),
        ("self", {"type": "url", "readonly": False}, "self.readonly"),
        ("labels", {"type": "map", "item": {"type": "any"}}, "labels.item.type"),
        ("filescount", {"type": "string"}, "filescount.type"),  # R17
    ],
)
def test_specification_attributes_stay_compatible(name: str, definition: JSONObject, path: str) -> None:
    """Attributes of the specification can only be redefined compatibly (R67)."""
    assert (path, "model_error") in faults({name: definition})


@pytest.mark.parametrize(
    ("member", "definition", "aspect"),
    [("removal", {"type": "string"}, "type"), ("extra", {"type": "any", "immutable": True}, "immutable")],
)
def test_members_of_specification_attributes_too(member: str, definition: JSONObject, aspect: str) -> None:
    """R67, R83."""
    deprecated = {"type": "object", "attributes": {member: definition}}
    assert faults({"deprecated": deprecated})[0][0] == f"deprecated.attributes.{member}.{aspect}"


@pytest.mark.parametrize("aspect", [{"enum": ["backward", "none"]}, {"enum": ["full"], "strict": False}])
def test_strict_enums_of_the_specification_only_shrink(aspect: JSONObject) -> None:
    """R67, R257."""
    compiled({}, meta={"compatibility": {"type": "string", "enum": ["full"]}})
    assert faults({}, meta={"compatibility": {"type": "string", **aspect}})


def test_matchversions_stands_on_static_scalars_of_versions() -> None:
    """The aspect matchversions is allowed only for static scalar attributes of versions (R81)."""
    match = {"type": "string", "matchversions": True}
    compiled({}, version={"a": match, "o": {"type": "object", "attributes": {"b": match}}})
    for bad in (
        {"*": match},
        {"a": {"type": "object", "matchversions": True}},
        {"a": {"type": "map", "item": {"type": "object", "attributes": {"b": match}}}},
        {"a": {"type": "string", "ifvalues": {"v": {"siblingattributes": {"b": match}}}}},
    ):
        assert faults({}, version=bad)[0][0].endswith("matchversions")
    assert faults({}, meta={"a": match})


def test_every_fault_is_reported() -> None:
    """The faults are reported together, and the first one determines the error (R69)."""
    with pytest.raises(RegistryError) as caught:
        compiled({"a": {"type": "string", "default": "x"}, "b": {"type": "map", "x": 1}, "Q": {"type": "no"}})
    error = caught.value
    assert error.code == "model_required_true"
    assert error.arguments == {"name": "a"}
    assert len(error.faults) == 5


def test_errors_name_the_attribute_path() -> None:
    """The argument is "name: Model attribute name in question" (R278)."""
    scalar: JSONObject = {"type": "integer", "default": 3}
    inner: JSONObject = {"type": "object", "attributes": {"defint": scalar}}
    for attributes, name in (({"defstring": scalar}, "defstring"), ({"o": inner}, "o.defint")):
        with pytest.raises(RegistryError) as caught:
            compiled(attributes)
        assert (caught.value.code, caught.value.arguments) == ("model_required_true", {"name": name})
