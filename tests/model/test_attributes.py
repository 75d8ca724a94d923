import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import JSON_SCALARS, json_trees

from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, Checked, builtin, compile_model, findings_to_error
from signalbook.values import JSONObject


def attributes(definitions: JSONObject) -> AttributeSet:
    """The Registry's attributes with these extensions."""
    dirs = {"singular": "dir", "resources": {"files": {"singular": "file"}}}
    return compile_model({"attributes": definitions, "groups": {"dirs": dirs}}).attributes


def faults(checked: Checked) -> list[tuple[str, str]]:
    return [(fault.code, fault.path) for fault in checked.findings]


STRING: JSONObject = {"type": "string"}
MIXED: JSONObject = yaml.safe_load("""
text: {type: string}
number: {type: integer}
when: {type: timestamp}
free: {type: any}
list: {type: array, item: {type: integer}}
map: {type: map, item: {type: string}}
object:
  type: object
  attributes:
    must: {type: string, required: true}
    level: {type: integer, required: true, default: 3}
    server: {type: string, readonly: true}
    when: {type: timestamp}
wide: {type: object, namecharset: extended, attributes: {a-b.c: {type: string}, "*": {type: integer}}}
colour: {type: string, enum: [red, green]}
hint: {type: string, enum: [red], strict: false}
flag: {type: boolean, enum: [true]}
ref: {type: xid, target: /dirs/files}
""")


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ({"text": ""}, {"text": ""}),  # R10
        ({"text": None}, {}),  # R13
        ({"when": "2024-01-01T01:00:00+01:00"}, {"when": "2024-01-01T00:00:00Z"}),  # R7
        ({"free": {"A b": [None, {"x": None}]}}, {"free": {"A b": [None, {"x": None}]}}),  # R12
        ({"list": []}, {"list": []}),
        ({"map": {"a:b-c_d.e": "x", "gone": None}}, {"map": {"a:b-c_d.e": "x"}}),  # R4
        ({"object": {"must": "x"}}, {"object": {"must": "x", "level": 3}}),  # R85
        ({"object": {"must": "x", "level": None}}, {"object": {"must": "x", "level": 3}}),
        ({"object": {"must": "x", "level": 0, "server": 5}}, {"object": {"must": "x", "level": 0}}),  # R14, R82
        ({"object": {"must": "x", "when": "2024-01-01T00:00:00"}},
         {"object": {"must": "x", "when": "2024-01-01T00:00:00Z", "level": 3}}),
        ({"wide": {"a-b.c": "x", "d-e": 1}}, {"wide": {"a-b.c": "x", "d-e": 1}}),  # R79
        ({"colour": "red"}, {"colour": "red"}),
        ({"hint": "blue"}, {"hint": "blue"}),  # R80
        ({"ref": "/dirs/none/files/none"}, {"ref": "/dirs/none/files/none"}),  # R8: may dangle
        ({"self": 5, "epoch": "x", "specversion": 1}, {}),  # R14
        ({"modifiedat": "2024-01-01T00:00:00"}, {"modifiedat": "2024-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_good_values(values: JSONObject, stored: JSONObject) -> None:
    """Values as they are stored."""
    before = copy.deepcopy(values)
    assert attributes(MIXED).check(values) == Checked(values=stored, findings=())
    assert values == before


@pytest.mark.parametrize(
    ("values", "code", "path"),
    [
        ({"none": 1}, "unknown_attribute", "none"),  # R16
        ({"*": 1}, "unknown_attribute", "*"),
        ({"text": 5}, "invalid_attribute", "text"),  # R18
        ({"list": [1, "x"]}, "invalid_attribute", "list[1]"),
        ({"list": [1, None]}, "invalid_attribute", "list[1]"),  # R3
        ({"list": {}}, "invalid_attribute", "list"),
        ({"map": []}, "invalid_attribute", "map"),
        ({"map": {"a": 1}}, "invalid_attribute", "map.a"),
        ({"map": {"A": "x"}}, "invalid_attribute", "map.A"),  # R4
        ({"map": {"_a": "x"}}, "invalid_attribute", "map._a"),
        ({"map": {"": "x"}}, "invalid_attribute", "map['']"),
        ({"map": {"a" * 64: "x"}}, "invalid_attribute", f"map.{'a' * 64}"),
        ({"object": []}, "invalid_attribute", "object"),
        ({"object": {}}, "required_attribute_missing", "object.must"),  # R84, (m) 2
        ({"object": {"must": None}}, "required_attribute_missing", "object.must"),
        ({"object": {"must": "x", "none": 1}}, "unknown_attribute", "object.none"),
        ({"object": {"must": "x", "level": "3"}}, "invalid_attribute", "object.level"),
        ({"wide": {"A": 1}}, "invalid_attribute", "wide.A"),  # R79
        ({"wide": {"a-b.c": 1}}, "invalid_attribute", "wide['a-b.c']"),
        ({"colour": "pink"}, "invalid_attribute", "colour"),  # R80
        ({"flag": False}, "invalid_attribute", "flag"),
        ({"ref": "/dirs/d"}, "invalid_attribute", "ref"),  # R78
        ({"name": ""}, "invalid_attribute", "name"),  # R43
        ({"icon": ""}, "invalid_attribute", "icon"),
        ({"documentation": "a b"}, "invalid_attribute", "documentation"),
        ({"labels": {"a": 1}}, "invalid_attribute", "labels.a"),  # R44
        ({"createdat": "x"}, "invalid_attribute", "createdat"),
    ],
)
def test_bad_values(values: JSONObject, code: str, path: str) -> None:
    """Every rule with the path of what breaks it."""
    assert faults(attributes(MIXED).check(values)) == [(code, path)]


def test_all_faults_are_reported() -> None:
    values = {"none": 1, "text": 5, "object": {"x": 1}, "list": [None, "a"]}
    assert faults(attributes(MIXED).check(values)) == [
        ("unknown_attribute", "none"), ("invalid_attribute", "text"), ("unknown_attribute", "object.x"),
        ("required_attribute_missing", "object.must"), ("invalid_attribute", "list[0]"),
        ("invalid_attribute", "list[1]"),
    ]  # fmt: skip


@pytest.mark.parametrize(("length", "good"), [(4096 - 4, True), (4096 - 3, False)])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_scalars_have_a_size(length: int, good: bool, letter: str) -> None:
    """The size is that of name and value in bytes (R11)."""
    text = letter * (length // len(letter.encode())) + "x" * (length % len(letter.encode()))
    assert bool(attributes(MIXED).check({"text": text}).findings) is not good


def test_size_is_for_attributes_not_for_members_of_any() -> None:
    """R11, R12."""
    assert not attributes(MIXED).check({"free": "x" * 9999, "map": {"a": "x" * 9999}}).findings
    assert attributes(MIXED).check({"object": {"must": "x" * 9999}, "number": 10**5000}).findings


def test_star_admits_other_names() -> None:
    """R16, R75."""
    rules = attributes({"*": {"type": "integer"}})
    assert rules.check({"anything": 1}).values == {"anything": 1}
    expected = [("invalid_attribute", "anything"), ("invalid_attribute", "With-Dash")]
    assert faults(rules.check({"anything": "x", "With-Dash": 1})) == expected


SWITCHES: JSONObject = yaml.safe_load("""
kind:
  type: string
  required: true
  default: plain
  ifvalues:
    Plain: {siblingattributes: {grain: {type: string}}}
    deep:
      siblingattributes:
        depth: {type: integer, required: true, ifvalues: {"7": {siblingattributes: {floor: {type: string}}}}}
    open: {siblingattributes: {"*": {type: any}}}
dark: {type: boolean, ifvalues: {"TRUE": {siblingattributes: {grain: {type: string}}}}}
""")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"kind": "plain", "grain": "x"}, []),
        ({"kind": "PLAIN", "grain": "x"}, []),  # R88: case-insensitive
        ({"grain": "x"}, []),  # by the default
        ({"kind": "deep", "depth": 1}, []),
        ({"kind": "deep"}, [("required_attribute_missing", "depth")]),
        ({"kind": "deep", "depth": 1, "grain": "x"}, [("unknown_attribute", "grain")]),  # R73
        ({"kind": "deep", "depth": 7, "floor": "x"}, []),  # R89: nested
        ({"kind": "deep", "depth": 8, "floor": "x"}, [("unknown_attribute", "floor")]),
        ({"kind": "open", "anything": [1]}, []),
        ({"kind": "other", "anything": 1}, [("unknown_attribute", "anything")]),
        ({"kind": "deep", "depth": 1, "dark": True, "grain": "x"}, []),
        ({"kind": "plain", "dark": True}, [("invalid_attribute", "grain")]),  # R89: two at once
        ({"kind": ["plain"]}, [("invalid_attribute", "kind")]),
    ],
)
def test_ifvalues(values: JSONObject, expected: list[tuple[str, str]]) -> None:
    """R73, R88, R89."""
    assert faults(attributes(SWITCHES).check(values)) == expected


def test_active_attributes() -> None:
    """The attributes of active branches are included (R88)."""
    rules = attributes(SWITCHES)
    assert "depth" in rules.active({"kind": "Deep"})
    assert rules.active({}).keys() - rules.keys() == {"grain"}


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({"depth": 1}, "only defined where kind is deep"),
        ({"floor": 1}, "only defined where depth is 7"),
        ({"dcription": ""}, "did you mean description?"),
    ],
)
def test_unknown_attributes_come_with_a_hint(values: JSONObject, hint: str) -> None:
    assert hint in attributes(SWITCHES).check(values).findings[0].message


def test_attributes_expose_their_properties() -> None:
    rules = attributes({**MIXED, **SWITCHES})
    assert len(rules) == len(list(rules))
    assert rules["kind"].default == "plain"
    assert rules["text"].default is None
    item = rules["map"].item
    assert item is not None
    assert (item.scalar, rules["map"].scalar) == (True, False)


def test_hints_are_for_few() -> None:
    """A body full of unknown names is reported at once, without a search for each."""
    values = dict.fromkeys([f"dcription{number}" for number in range(50)], "x")
    findings = attributes({}).check(values).findings
    assert len(findings) == 50
    assert "did you mean" in findings[0].message
    assert "did you mean" not in findings[-1].message


def test_many_combinations_of_switches() -> None:
    """However many there are, each is checked by its own attributes."""
    branches = [{"true": {"siblingattributes": {f"a{number}": STRING}}} for number in range(10)]
    definitions = {f"s{number}": {"type": "boolean", "ifvalues": branch} for number, branch in enumerate(branches)}
    rules = attributes(definitions)
    for bits in range(2**10):
        on = [number for number in range(10) if bits >> number & 1]
        values: JSONObject = {f"s{number}": True for number in on} | {f"a{number}": "x" for number in range(10)}
        assert len(rules.check(values).findings) == 10 - len(on)


def test_read_only_switches_follow_the_server() -> None:
    """The value of a read-only attribute that a client sends has no effect (R14, R82)."""
    readonly = {"type": "string", "readonly": True, "ifvalues": {"a": {"siblingattributes": {"x": STRING}}}}
    assert faults(attributes({"s": readonly}).check({"s": "a", "x": "1"})) == [("unknown_attribute", "x")]


@pytest.mark.parametrize(
    ("deprecated", "good"),
    [
        ({}, True),
        ({"effective": "2024-01-01T00:00:00Z", "removal": "2024-01-01T00:00:00Z"}, True),
        ({"effective": "2024-01-01T00:00:00Z", "removal": "2024-01-01T00:30:00+01:00"}, False),
        ({"removal": "x", "effective": "2024-01-01T00:00:00Z"}, False),
        ({"removal": 5, "effective": 6}, False),
        ({"extra": [1]}, True),
        ({"alternative": 5}, False),
    ],
)
def test_deprecated(deprecated: JSONObject, good: bool) -> None:
    """The removal must not precede the effective date (R45)."""
    group = compile_model({"groups": {"dirs": {"singular": "dir"}}}).groups["dirs"]
    assert bool(group.attributes.check({"deprecated": deprecated}).findings) is not good


def test_attributes_set_by_the_server_are_not_required() -> None:
    """Ids, times and counts are required, but not from clients; a required description is (R84)."""
    model = compile_model({"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}})
    files = model.groups["dirs"].resources["files"]
    for rules in (model.attributes, model.groups["dirs"].attributes, files.attributes, files.metaattributes):
        assert rules.check({}) == Checked(values={}, findings=())
    narrowed = attributes({"description": {"type": "string", "required": True}})
    assert faults(narrowed.check({})) == [("required_attribute_missing", "description")]


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({"fileurl": "urn:isbn:1"}, True),  # R251, (m) 18: any URI, though the full model shows a url
        ({"fileurl": ""}, False),
        ({"format": ""}, False),  # R252
        ({"contenttype": "text/plain"}, True),
        ({"formatvalidated": "nonsense"}, True),  # R14
        ({"metaurl": "x"}, False),
    ],
)
def test_version_attributes(values: JSONObject, good: bool) -> None:
    """Attributes of versions are checked (R57)."""
    model = compile_model({"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}})
    assert bool(model.groups["dirs"].resources["files"].attributes.check(values).findings) is not good


@pytest.mark.parametrize(("value", "good"), [("backward", True), ("Full_Transitive", True), ("none", False)])
def test_compatibility_is_case_insensitive(value: str, good: bool) -> None:
    """Names of compatibility rules are compared without case (R257)."""
    meta = compile_model(builtin("default")).groups["schemagroups"].resources["schemas"].metaattributes
    assert bool(meta.check({"compatibility": value}).findings) is not good


@pytest.mark.parametrize(
    ("values", "code", "arguments"),
    [
        ({"none": 1, "text": 5}, "unknown_attribute", {"name": "none"}),
        ({"text": 5}, "invalid_attribute", {"name": "text", "error_detail": "must be a string, not 5"}),
        ({"object": {}}, "required_attribute_missing", {"list": "object.must"}),
    ],
)
def test_faults_become_one_error(values: JSONObject, code: str, arguments: JSONObject) -> None:
    """The first fault decides the code; all are reported."""
    findings = attributes(MIXED).check(values).findings
    error = findings_to_error(findings, "/dirs/d")
    assert isinstance(error, RegistryError)
    assert (error.code, error.subject, error.arguments) == (code, "/dirs/d", arguments)
    assert [finding.path for finding in error.faults] == [fault.path for fault in findings]


JSON_VALUES = json_trees(JSON_SCALARS, st.text(max_size=5))
RULES = attributes({**MIXED, **SWITCHES})


@given(st.dictionaries(st.sampled_from([*MIXED, *SWITCHES, "grain", "epoch", "labels", "x"]), JSON_VALUES))
def test_checking_twice_changes_nothing(values: JSONObject) -> None:
    """Whatever JSON a client sends: no crash, and what was stored once is stored the same again."""
    once = RULES.check(values)
    if not once.findings:
        assert RULES.check(once.values) == once


def test_case_does_not_count_in_an_enum() -> None:
    """The value is stored as it was sent (R80)."""
    checked = attributes(MIXED).check({"colour": "RED"})
    assert (checked.findings, checked.values["colour"]) == ((), "RED")


def test_a_number_without_a_fraction_is_an_integer() -> None:
    """JSON has one type of numbers (R2)."""
    rules = attributes({"i": {"type": "integer"}, "u": {"type": "uinteger"}})
    checked = rules.check({"i": -4.0, "u": 4.0})
    assert (checked.findings, repr(checked.values)) == ((), "{'i': -4, 'u': 4}")
    assert [finding.path for finding in rules.check({"i": 4.5, "u": -4.0}).findings] == ["i", "u"]


def test_invalid_member_of_deprecated_is_named() -> None:
    """The argument is "name: Name of the attribute in question" (R45, R278)."""
    times = {"effective": "2026-01-02T00:00:00Z", "removal": "2026-01-01T00:00:00Z"}
    group = compile_model({"groups": {"dirs": {"singular": "dir"}}}).groups["dirs"]
    expected = ["deprecated.removal"]
    assert [finding.path for finding in group.attributes.check({"deprecated": times}).findings] == expected
