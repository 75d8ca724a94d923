"""Which JSON Structure documents may follow which."""

from typing import Any

import pytest
from tests.formats.jsonstructure.makers import KINDS, SAMPLES

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import SchemaText, find_comparison, list_differences
from signalbook.formats.jsonstructure import FORMAT
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, JSONObject, dump_json, parse_json
from signalbook.work import Work

DRAFT = "JsonStructure/draft-04"
HEAD = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/doc", "name": "Doc"}
TEXT: JSON = {"type": "string"}
INT: JSON = {"type": "int32"}
# No decimal number has no digit.
NOTHING: JSON = {"type": "decimal", "precision": 0}


def text(**more: JSON) -> SchemaText:
    return SchemaText(document=dump_json({**HEAD, **more}), format=DRAFT)


def closed(required: list[Any] | None = None, **members: JSON) -> JSONObject:
    required_member = {} if required is None else {"required": required}
    return {"type": "object", "properties": members, "additionalProperties": False, **required_member}


def opened(required: list[Any] | None = None, **members: JSON) -> JSONObject:
    schema = closed(required, **members)
    del schema["additionalProperties"]
    return schema


def of(member: JSON) -> JSONObject:
    """A type as the one property ``v`` of a closed object."""
    return closed(["v"], v=member)


def ref(name: str) -> JSON:
    return {"type": {"$ref": f"#/definitions/{name}"}}


def why(new: JSONObject, old: JSONObject, direction: str = "backward") -> list[tuple[str, str]]:
    return [
        (difference.path, difference.rule) for _, difference in list_differences(direction, text(**new), text(**old))
    ]


V = "/properties/v"
PAIRS: list[tuple[JSON, JSON, str | None, str | None]] = [
    # old, new, rule that backward breaks, rule that forward breaks
    (INT, {"type": "integer"}, None, None),
    ({"type": "int8"}, {"type": "int16"}, None, "type_narrowed"),
    ({"type": "uint8"}, {"type": "int16"}, None, "type_narrowed"),
    ({"type": "uint16"}, {"type": "int16"}, "type_narrowed", "type_narrowed"),
    (INT, {"type": "number"}, None, "type_narrowed"),
    (INT, {"type": "double"}, None, "type_narrowed"),
    ({"type": "int16"}, {"type": "float8"}, "type_narrowed", "type_narrowed"),
    ({"type": "float"}, {"type": "double"}, None, "type_narrowed"),
    ({"type": "double"}, {"type": "number"}, None, "type_narrowed"),
    (INT, {"type": "int64"}, "type_changed", "type_changed"),  # a number becomes a string
    ({"type": "int64"}, {"type": "int128"}, None, "type_narrowed"),
    ({"type": "uint64"}, {"type": "int128"}, None, "type_narrowed"),
    ({"type": "int64"}, {"type": "uint64"}, "type_narrowed", "type_narrowed"),
    ({"type": "int64"}, {"type": "decimal"}, None, "type_narrowed"),
    ({"type": "int64"}, {"type": "decimal", "precision": 19, "scale": 2}, None, "type_narrowed"),
    ({"type": "int64"}, {"type": "decimal", "precision": 18}, "precision_decreased", "type_narrowed"),
    ({"type": "decimal", "precision": 5, "scale": 0}, {"type": "int64"}, None, "precision_decreased"),
    ({"type": "decimal", "precision": 4, "scale": 2}, {"type": "decimal", "precision": 6, "scale": 3}, None, "precision_decreased"),  # noqa: E501
    ({"type": "decimal", "precision": 4}, {"type": "decimal", "scale": 4}, None, "precision_decreased"),
    ({"type": "decimal", "precision": 4}, {"type": "decimal", "precision": 4, "scale": 1}, "scale_decreased", None),
    ({"type": "int64"}, TEXT, None, "type_changed"),
    ({"type": "int64"}, {"type": "string", "maxLength": 20}, None, "type_changed"),
    ({"type": "int64"}, {"type": "string", "maxLength": 19}, "max_length_decreased", "type_changed"),
    ({"type": "uuid"}, {"type": "string", "maxLength": 36}, None, "type_changed"),
    ({"type": "date"}, {"type": "uri"}, None, "type_changed"),
    ({"type": "binary"}, {"type": "uri"}, None, "type_changed"),
    (NOTHING, {"type": "date"}, None, "type_changed"),
    ({"type": "date"}, {"type": "datetime"}, "type_changed", "type_changed"),
    (TEXT, {"type": "string", "maxLength": 5}, "max_length_added", None),
    ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}, None, "max_length_decreased"),
    ({"type": "string", "maxLength": 0}, {"type": "binary"}, None, "max_length_added"),
    ({"type": "binary"}, {"type": "binary", "contentEncoding": "base64"}, None, None),
    ({"type": "binary"}, {"type": "binary", "contentEncoding": "base16"}, "encoding_changed", "encoding_changed"),
    ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["b", "a"]}, None, "enum_narrowed"),
    ({"type": "string", "const": "a"}, {"type": "string", "enum": ["b", "a"]}, None, "value_refused"),
    ({"type": "string", "enum": ["a"]}, TEXT, None, "enum_added"),
    ({"type": "string", "enum": ["1"]}, {"type": "int64"}, None, "enum_added"),
    ({"type": "int32", "enum": [1, 300]}, {"type": "int8"}, "value_refused", "enum_added"),
    ({"type": "number", "enum": [1.5]}, INT, "value_refused", "enum_added"),
    ({"type": "boolean"}, {"type": "boolean", "enum": [True]}, "enum_narrowed", None),
    ({"type": "boolean"}, {"type": "null"}, "type_changed", "type_changed"),
    (INT, {"type": "any"}, None, "type_narrowed"),
    ({"type": "any"}, {"type": ["null", "boolean", "number", "string", {"$ref": "#/definitions/L"}, {"$ref": "#/definitions/M"}]}, None, None),  # noqa: E501
    (INT, {"type": ["null", "int32"]}, None, "type_changed"),
    ({"type": ["int32", "string"]}, {"type": ["string", "null", "int32"]}, None, "type_changed"),
    ({"type": ["int32", "string"]}, TEXT, "type_changed", None),
    ({"type": ["int8", "uint8"]}, {"type": "int16"}, None, "undecided"),
    ({"type": "array", "items": INT}, {"type": "array", "items": {"type": "number"}}, None, "type_narrowed"),
    ({"type": "set", "items": INT}, {"type": "array", "items": INT}, None, "unique_items_added"),
    ({"type": "array", "items": NOTHING}, {"type": "set", "items": NOTHING}, None, None),
    ({"type": "tuple", "properties": {"a": INT, "b": INT}, "tuple": ["a", "b"]}, {"type": "array", "items": INT}, None, "type_narrowed"),  # noqa: E501
    ({"type": "tuple", "properties": {"a": INT, "b": INT}, "tuple": ["a", "b"]}, {"type": "tuple", "properties": {"a": INT, "b": INT}, "tuple": ["b", "a"]}, "tuple_reordered", "tuple_reordered"),  # noqa: E501
    ({"type": "tuple", "properties": {"a": INT}, "tuple": ["a"]}, {"type": "tuple", "properties": {"z": {"type": "number"}}, "tuple": ["z"]}, None, "type_narrowed"),  # noqa: E501
    ({"type": "tuple", "properties": {"a": INT}, "tuple": ["a"]}, {"type": "tuple", "properties": {"a": INT, "b": INT}, "tuple": ["a", "b"]}, "tuple_length_changed", "tuple_length_changed"),  # noqa: E501
    ({"type": "map", "values": INT}, {"type": "map", "values": {"type": "double"}}, None, "type_narrowed"),
    ({"type": "map", "values": INT}, {"type": "array", "items": INT}, "type_changed", "type_changed"),
    (closed(a=INT), closed(a=INT, b=TEXT), None, "property_removed_from_closed_content_model"),
    (closed(a=INT), {"type": "map", "values": INT}, None, "additional_properties_removed"),
    ({"type": "choice", "choices": {"a": INT}}, {"type": "choice", "choices": {"a": {"type": "number"}, "b": TEXT}}, None, "choice_removed"),  # noqa: E501
    ({"type": "choice", "choices": {"a": INT, "b": INT}}, {"type": "map", "values": INT}, None, "choice_added"),
    (closed(["a"], a=INT), {"type": "choice", "choices": {"a": INT, "b": INT}}, None, "required_added"),
    (closed(a=INT, b=NOTHING), closed([["b"], []], a=INT, b=NOTHING), None, None),
]  # fmt: skip
DEFINITIONS = {"L": {"type": "array", "items": {"type": "any"}}, "M": {"type": "map", "values": {"type": "any"}}}


@pytest.mark.parametrize(("old", "new", "backward", "forward"), PAIRS)
def test_types_of_properties(old: JSON, new: JSON, backward: str | None, forward: str | None) -> None:
    before, after = ({**of(property_type), "definitions": DEFINITIONS} for property_type in (old, new))
    for broken, direction in ((backward, "backward"), (forward, "forward")):
        differences = why(after, before, direction)
        assert (differences[0][1] if differences else None) == broken, differences
        assert all(path.startswith((V, "/definitions")) for path, _ in differences)
    assert why(before, before, "full") == why(after, after, "full") == []


def test_primitive_types_agree_with_the_validator() -> None:
    """For every pair of types, a value of one type that the other one rejects has to be a difference."""
    kinds: list[JSONObject] = [{"type": kind} for kind in KINDS] + [
        {"type": "decimal", "precision": precision, "scale": scale} for precision in (1, 2, 20) for scale in (0, 1, 2)
    ] + [{"type": "string", "maxLength": most} for most in (0, 1, 2, 20, 36)]  # fmt: skip
    schemas = [(text(**kind), FORMAT.parse(text(**kind).document, DRAFT)) for kind in kinds]
    for writer, written in schemas:
        values = [value for value in SAMPLES if not written.validate(value)]
        for reader, read in schemas:
            if not FORMAT.differences(reader, writer):
                assert [value for value in values if read.validate(value)] == [], (writer, reader)


OBJECTS: list[tuple[JSONObject, JSONObject, list[tuple[str, str]], list[tuple[str, str]]]] = [
    # There is no object that has exactly one of two equal sets, and none with b that has one of the second pair.
    (closed([["a"], ["a"]], a=INT), closed([["a"], ["a"]], a=TEXT), [], []),
    (closed([["b"], []], a=INT, b=INT), closed([["b"], []], a=INT, b=TEXT), [], []),
    # Members that cannot be are missed by nobody.
    (closed(a=INT, b=NOTHING), closed(a=INT), [], []),
    ({**closed(a=INT), "additionalProperties": NOTHING}, closed(a=INT, b=TEXT), [],
        [("/additionalProperties/type", "type_changed")]),
    (opened(a=INT), opened(a=INT, b=TEXT), [("/properties/b", "property_added_to_open_content_model")], []),
    (opened(a=INT), opened(a=INT, b={"type": "any"}), [], []),
    (closed(a=INT), opened(a=INT), [], [("/additionalProperties", "additional_properties_removed")]),
    ({**closed(a=INT), "additionalProperties": {"type": "int8"}}, {**closed(a=INT, b=INT), "additionalProperties": INT},
        [], [("/additionalProperties/type", "type_narrowed")]),
    ({**closed(a=INT), "additionalProperties": INT}, {**closed(a=INT, b=TEXT), "additionalProperties": INT},
        [("/properties/b", "property_added_to_partially_open_content_model")],
        [("/additionalProperties/type", "type_changed")]),
    (closed(a=INT), closed(["a"], a=INT), [("/required", "required_added")], []),
    (closed([["a", "x"], ["a", "y"]], a=INT, x=INT, y=INT), closed(["a"], a=INT, x=INT, y=INT), [],
        [("/required", "required_changed")]),
    (closed([["x"], ["y"]], x=INT, y=INT), closed([["x"], ["y"], ["z"]], x=INT, y=INT, z=INT), [],
        [("/properties/z", "property_removed_from_closed_content_model"), ("/required", "required_changed")]),
    (closed([["x"], ["y"]], x=INT, y=INT), closed([["y"], ["x"]], x=INT, y=INT), [], []),
    (closed(a=INT, b=TEXT), closed(a={"type": "number"}),
        [("/properties/b", "property_removed_from_closed_content_model")], [("/properties/a/type", "type_narrowed")]),
    (
        closed(a=INT),
        {"type": "map", "values": INT},
        [("/values/type", "type_narrowed")],  # of $schema
        [("/additionalProperties", "additional_properties_removed")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "backward", "forward"), OBJECTS)
def test_objects(
    old: JSONObject, new: JSONObject, backward: list[tuple[str, str]], forward: list[tuple[str, str]]
) -> None:
    assert sorted(why(new, old)) == backward
    assert sorted(why(new, old, "forward")) == forward


BASE: JSONObject = {"abstract": True, "type": "object", "properties": {"city": TEXT}, "required": ["city"]}
STREET: JSONObject = {
    "type": "object", "$extends": "#/definitions/Base", "properties": {"street": TEXT}, "additionalProperties": False,
}  # fmt: skip
BOX: JSONObject = {
    "type": "object", "$extends": "#/definitions/Base", "properties": {"box": INT}, "additionalProperties": False,
}  # fmt: skip


def address(*names: str, **definitions: JSONObject) -> JSONObject:
    return {
        "type": "choice", "$extends": "#/definitions/Base", "selector": "kind",
        "choices": {name: ref(name) for name in names},
        "definitions": {"Base": BASE, "Street": STREET, "Box": BOX, **definitions},
    }  # fmt: skip


def test_a_choice_by_selector() -> None:
    assert why(address("Street", "Box"), address("Street")) == []
    assert why(address("Street", "Box"), address("Street"), "forward") == [("/choices", "choice_removed")]
    wider: JSONObject = {**BOX, "properties": {"box": {"type": "number"}}}
    assert why(address("Street", "Box", Box=wider), address("Box"), "backward") == []
    assert why(address("Box", Box=wider), address("Box"), "forward") == [
        ("/definitions/Box/properties/box/type", "type_narrowed")
    ]


def test_an_alternative_whose_selector_completes_a_second_required_set() -> None:
    """No value matches exactly one of the sets, because the selector is always present."""
    members: JSONObject = {"box": INT, "kind": TEXT}
    sets: list[JSON] = [[["box"], ["box", "kind"]], ["box"]]
    impossible, plain = ({**BOX, "properties": members, "required": required} for required in sets)
    old, new = address("Box", Box=impossible), address("Box", Box=plain)
    assert why(new, old) == []
    assert why(new, old, "forward") == [("", "nothing_accepted")]


def test_objects_become_a_choice() -> None:
    """An object that names its own kind is as good as an alternative; one that does not is not."""
    kind: JSON = {"type": "string", "enum": ["Street"]}
    tagged = closed(["kind", "city"], kind=kind, city=TEXT, street=TEXT)
    assert why(address("Street", "Box"), tagged) == []
    assert why(address("Box"), tagged) == [("/choices", "choice_removed")]
    assert why(address("Street"), closed(["city"], kind=kind, city=TEXT)) == [("", "choice_added")]
    assert why(tagged, address("Street")) == []


def test_bases_add_properties() -> None:
    """A change of a base changes the types that extend it."""
    street = {**STREET, "additionalProperties": False}

    def document(**city: JSON) -> JSONObject:
        base = {**BASE, "properties": {"city": city}}
        return {"$root": "#/definitions/Street", "definitions": {"Base": base, "Street": street}}

    assert why(document(type="string"), document(type="uuid")) == []
    assert why(document(type="uuid"), document(type="string")) == [
        ("/definitions/Base/properties/city/type", "type_changed")
    ]


def test_definitions_without_a_root_type_are_compared_by_name() -> None:
    old: JSONObject = {"definitions": {"A": INT, "n": {"B": TEXT}}}
    assert why({"definitions": {"A": {"type": "number"}, "n": {"B": TEXT, "C": INT}}}, old) == []
    assert why({"definitions": {"A": TEXT}}, old) == [
        ("/definitions/n/B", "definition_removed"),
        ("/definitions/A/type", "type_changed"),
    ]
    assert why({"definitions": {"A": INT}}, {"type": "int32"}) == [("", "type_removed")]


def test_recursive_types_are_compared() -> None:
    def tree(leaf: JSON, **more: JSON) -> JSONObject:
        node = closed(leaf=leaf, left=ref("Node"), right={"type": ["null", {"$ref": "#/definitions/Node"}]}, **more)
        return {"$root": "#/definitions/Node", "definitions": {"Node": node}}

    assert why(tree({"type": "number"}), tree(INT)) == []
    assert why(tree(INT), tree({"type": "number"})) == [("/definitions/Node/properties/leaf/type", "type_narrowed")]


def test_types_without_values_give_no_reasons() -> None:
    """A value of ``A`` would need another one inside, without end."""

    def document(more: JSON) -> JSONObject:
        inner = closed(["next"], next=ref("A"), more=more)
        return {**closed(a=ref("A"), b=INT), "definitions": {"A": inner}}

    assert why(document(TEXT), document(INT)) == []


def test_differences_have_both_sides() -> None:
    ((direction, difference),) = list_differences("forward", text(**of({"type": "number"})), text(**of(INT)))
    assert (direction, difference.old, difference.new) == ("forward", "number", "int32")
    assert "fraction" in difference.message


def test_annotations_do_not_matter() -> None:
    old = of({"type": "string", "description": "a", "altnames": {"json": "x"}, "minLength": 3})
    assert why(of({"type": "string", "examples": ["b"], "pattern": "x"}), old, "full") == []


def test_all_rules_are_offered() -> None:
    assert find_comparison(DRAFT) is not None


def test_imports_are_not_followed() -> None:
    imported = text(type="string", **{"$import": "https://example.com/other"})
    with pytest.raises(SchemaError, match="imports"):
        FORMAT.differences(imported, text(type="string"))


EDITS: list[tuple[list[str], JSON, str | None, str | None]] = [
    # where, the new value there, what backward breaks, what forward breaks
    (["properties", "id", "type"], "double", None, "type_narrowed"),
    (["properties", "id", "type"], "int64", "type_changed", "type_changed"),
    (["properties", "id", "description"], "a key", None, None),
    (["properties", "more"], TEXT, None, "property_removed_from_closed_content_model"),
    (["required"], [], None, "required_added"),
    (["required"], ["id", "note"], "required_added", None),
    (["additionalProperties"], True, None, "additional_properties_removed"),
    (["properties", "note", "maxLength"], 10, "max_length_decreased", None),
    (["properties", "kind", "enum"], ["a", "b", "c"], None, "enum_narrowed"),
    (["properties", "lines", "items", "type"], ["int32", "null"], None, "type_changed"),
    (["properties", "lines", "type"], "set", "unique_items_added", None),
    (["properties", "pay", "choices", "app"], TEXT, None, "choice_removed"),
]
ORDER: JSONObject = closed(
    ["id"], id=INT, note={"type": "string", "maxLength": 20}, kind={"type": "string", "enum": ["a", "b"]},
    lines={"type": "array", "items": INT},
    pay={"type": "choice", "choices": {"card": TEXT, "cash": {"type": "boolean"}}},
)  # fmt: skip


@pytest.mark.parametrize(("place", "value", "backward", "forward"), EDITS)
def test_single_edits(place: list[str], value: JSON, backward: str | None, forward: str | None) -> None:
    after = parse_json(dump_json(ORDER))
    inner = after
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    for broken, direction in ((backward, "backward"), (forward, "forward")):
        assert [rule for _, rule in why(after, ORDER, direction)] == ([broken] if broken else [])


@pytest.mark.merge
def test_hostile_documents_end_soon() -> None:
    """Unions of all types in all types: the pairs are many, but not more than the square."""
    names = [f"T{at}" for at in range(50)]
    kinds: JSON = [{"$ref": f"#/definitions/{name}"} for name in names]

    def document(leaf: str) -> JSONObject:
        members = {name: {"type": kinds} for name in names[:10]}
        definitions = {name: opened(None, **members, leaf={"type": leaf}) for name in names}
        return {"$root": "#/definitions/T0", "definitions": definitions}

    with Work(steps=1_000_000, seconds=0).in_turn():
        assert why(document("int8"), document("int32")) != []
        why(document("int32"), document("int8"))


@pytest.mark.parametrize(
    ("written", "required", "rule"),
    [
        (400, [["m0"]], "required_added"),
        (200, [["m0"], ["m1"]], "required_changed"),
        (4000, [["m0"]], "undecided"),
        (4000, [[f"m{at}"] for at in range(1, 4000)], "undecided"),
        (200, [[f"m{at}_{name}" for name in range(100)] for at in range(50)], "undecided"),
    ],
)
def test_many_sets_of_required_properties(written: int, required: list[list[str]], rule: str) -> None:
    """The sets are compared with each other once instead of for each member, and count as work."""
    old = opened([[f"m{at}"] for at in range(written)], **{f"m{at}": TEXT for at in range(written)})
    new = opened(required, **{name: TEXT for names in required for name in names})
    with Work(steps=400_000, seconds=0).in_turn():
        assert why(new, old) == [("" if rule == "undecided" else "/required", rule)]


def test_both_documents_are_read_once_for_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes as long as comparing where half a million values are listed."""
    read: list[bytes] = []

    def counted(document: bytes) -> JSON:
        read.append(document)
        return parse_untrusted_json(document)

    monkeypatch.setattr("signalbook.formats.jsonstructure.format.parse_untrusted_json", counted)
    new, old = (text(type="string", enum=values) for values in (["read", "once"], ["once"]))
    assert [direction for direction, _ in list_differences("full", new, old)] == ["forward"]
    assert sorted(read) == sorted([new.document, old.document])
