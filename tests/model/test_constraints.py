import pytest

from signalbook.errors import RegistryError
from signalbook.model import Constraints, ConstraintViolation, GroupType, compile_model, format_path
from signalbook.values import JSON, JSONObject

VERSION: JSONObject = {
    "colour": {"type": "string", "enum": ["red", "green", "blue"]},
    "size": {"type": "integer", "required": True, "default": 1},
    "mode": {"type": "string", "ifvalues": {"x": {"siblingattributes": {"late": {"type": "string"}}}}},
    "o": {"type": "object", "attributes": {"inner": {"type": "string"}}},
    "m": {"type": "map", "item": {"type": "string"}},
    "*": {"type": "any"},
}
GROUP: JSONObject = {"tint": {"type": "string"}, "o": {"type": "object", "attributes": {"deep": {"type": "string"}}}}


def group_type(constraints: JSON = None) -> GroupType:
    files = {"singular": "file", "attributes": VERSION}
    dirs = {"singular": "dir", "attributes": GROUP, "constraints": constraints, "resources": {"files": files}}
    return compile_model({"groups": {"dirs": dirs}}).groups["dirs"]


def violations(constraints: JSONObject, version: JSONObject, group: JSONObject | None = None) -> list[str]:
    violations_ = group_type(constraints).constraints.violations("files", version, group or {})
    return [f"{violation.path} {violation.kind}" for violation in violations_]


@pytest.mark.parametrize(
    "constraints",
    [
        {},
        {"files.colour": {}},
        {"files.colour": {"enum": []}},  # R106
        {"files.colour": {"equals": ""}},  # R107
        {"files.colour": {"default": "red", "enum": ["red", "blue"], "equals": "tint"}},
        {"files.o.inner": {"equals": "o.deep"}},
        {"files['colour']": {"default": "red"}},
        {"files.size": {"enum": [1, 2]}},
        {"files.size": {"enum": [2], "default": 2}},
    ],
)
def test_accepts(constraints: JSONObject) -> None:
    """R104 to R107."""
    assert group_type(constraints).document["constraints" if constraints else "plural"] is not None


@pytest.mark.parametrize(
    ("key", "aspects", "path"),
    [
        ("files", {}, ""),  # R104
        ("none.colour", {}, ""),
        ("files.none", {}, ""),
        ("files.late", {}, ""),
        ("files.m.x", {}, ""),
        ("files.m", {}, ""),
        ("files.*", {}, ""),
        ("files..x", {}, ""),
        ("files.colour", 5, ""),
        ("files.colour", {"max": 1}, ".max"),
        ("files.colour", {"default": "pink"}, ".default"),  # R105
        ("files.size", {"default": "x"}, ".default"),
        ("files.colour", {"default": "red", "enum": ["blue"]}, ".default"),
        ("files.colour", {"enum": ["pink"]}, ".enum[0]"),  # R106
        ("files.colour", {"enum": "red"}, ".enum"),
        ("files.size", {"enum": [2]}, ".enum"),
        ("files.colour", {"equals": "none"}, ".equals"),  # R107
        ("files.colour", {"equals": "o"}, ".equals"),
        ("files.colour", {"equals": 5}, ".equals"),
        ("files.colour", {"equals": "a["}, ".equals"),
        ("files.size", {"equals": "tint"}, ".equals"),
    ],
)
def test_rejects(key: str, aspects: JSON, path: str) -> None:
    """R104 to R107."""
    with pytest.raises(RegistryError) as caught:
        group_type({key: aspects})
    assert caught.value.code == "model_error"
    assert caught.value.faults[0].path == format_path(("groups", "dirs", "constraints", key)) + path


@pytest.mark.parametrize(
    ("constraint", "version", "group", "expected"),
    [
        ({"enum": ["red"]}, {"colour": "red"}, {}, []),
        ({"enum": ["red"]}, {}, {}, []),
        ({"enum": ["red"]}, {"colour": "blue"}, {}, ["colour enum"]),  # R109
        ({"equals": "tint"}, {"colour": "red"}, {"tint": "red"}, []),
        ({"equals": "tint"}, {"colour": "red"}, {"tint": "Red"}, ["colour equals"]),
        ({"equals": "tint"}, {}, {"tint": "red"}, ["colour equals"]),  # R107: must be present
        ({"equals": "tint"}, {"colour": "red"}, {}, []),  # R107: skipped
        ({"enum": ["red"], "equals": "tint"}, {"colour": "blue"}, {"tint": "red"}, ["colour enum", "colour equals"]),
    ],
)
def test_violations(constraint: JSONObject, version: JSONObject, group: JSONObject, expected: list[str]) -> None:
    """R105 to R109."""
    assert violations({"files.colour": constraint}, version, group) == expected


def test_nested_paths() -> None:
    """Constraints can refer to nested attributes (R104)."""
    constraints = {"files.o.inner": {"equals": "o.deep"}}
    assert violations(constraints, {"o": {"inner": "a"}}, {"o": {"deep": "b"}}) == ["o.inner equals"]
    assert violations(constraints, {"o": {"inner": "a"}}, {"o": {"deep": "a"}}) == []


def test_format_compares_without_case() -> None:
    """G-2, G-2b."""
    constraints = group_type({"files.format": {"enum": ["Avro/1.11"]}}).constraints
    assert constraints.violations("files", {"format": "AVRO/1.11"}, {}) == ()
    violation = ConstraintViolation(path="format", kind="enum")
    assert constraints.violations("files", {"format": "Avro/1.9"}, {}) == (violation,)


def test_true_does_not_equal_one() -> None:
    constraints = group_type({"files.size": {"enum": [1]}}).constraints
    assert constraints.violations("files", {"size": True}, {})


@pytest.mark.parametrize(
    ("key", "default", "version", "filled"),
    [
        ("files.colour", "red", {}, {"colour": "red"}),
        ("files.colour", "red", {"colour": None}, {"colour": "red"}),
        ("files.colour", "red", {"colour": "blue"}, {"colour": "blue"}),
        ("files.o.inner", "", {}, {}),
        ("files.o.inner", "", {"o": {}}, {"o": {"inner": ""}}),  # R85: only within an owner that is there
        ("files.size", 7, {}, {"size": 7}),  # R105: before the model's own default
    ],
)
def test_defaults(key: str, default: JSON, version: JSONObject, filled: JSONObject) -> None:
    """A default value fills a missing attribute (R105)."""
    before = repr(version)
    constraints = group_type({key: {"default": default}}).constraints
    assert constraints.fill("files", version) == filled
    assert constraints.fill("others", version) is version
    assert repr(version) == before


def test_no_constraints() -> None:
    assert not Constraints()
    assert Constraints().fill("files", {}) == {}


OUTER: JSONObject = {"files.colour": {"enum": ["red", "green"], "equals": "tint"}}


@pytest.mark.parametrize(
    ("instance", "path"),
    [
        ({"files.colour": {"enum": ["red"]}}, None),
        ({"files.colour": {"enum": [], "equals": "tint"}}, None),
        ({"files.colour": {"default": "green"}}, None),
        ({"files.size": {"default": 3}}, None),
        ({"files.colour": {"enum": ["blue"]}}, "constraints['files.colour'].enum"),
        ({"files.colour": {"equals": "o.deep"}}, "constraints['files.colour'].equals"),
        ({"files.colour": {"default": "blue"}}, "constraints['files.colour'].default"),
        ({"files.none": {"default": 1}}, "constraints['files.none']"),
        ({"files.size": {"equals": "none"}}, "constraints['files.size'].equals"),
    ],
)
def test_an_instance_only_narrows(instance: JSONObject, path: str | None) -> None:
    """The constraints of an instance can only narrow those of the type (R108)."""
    _, faults = group_type(OUTER).narrowed(instance)
    assert [fault.path for fault in faults] == ([path] if path else [])


def test_narrowed_constraints_hold_together() -> None:
    """The constraints of both levels apply (R108)."""
    constraints, _ = group_type(OUTER).narrowed({"files.colour": {"enum": ["red"]}, "files.size": {"enum": [1]}})
    violations_ = constraints.violations("files", {"colour": "green", "size": 2}, {"tint": "red"})
    assert [(item.path, item.kind) for item in violations_] == [
        ("colour", "enum"),
        ("colour", "equals"),
        ("size", "enum"),
    ]


@pytest.mark.parametrize("instance", [None, {}])
def test_instance_may_omit_constraints(instance: JSONObject | None) -> None:
    kind = group_type(OUTER)
    assert kind.narrowed(instance) == (kind.constraints, ())
