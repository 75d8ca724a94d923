"""Default values are values of their types, in depth (Avro 1.12, "Complex Types")."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import JSON_SCALARS, json_trees

from signalbook.formats import find
from signalbook.formats.avro.defaults import DefaultCheck

AMOUNT = [{"name": "units", "type": "long"}, {"name": "code", "type": "string", "default": "EUR"}]
MONEY: dict[str, Any] = {"type": "record", "name": "Money", "fields": AMOUNT}
TREE: dict[str, Any] = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
LOOP: dict[str, Any] = {"type": "record", "name": "Loop", "fields": [{"name": "again", "type": "Loop", "default": {}}]}
TYPES = {"Money": MONEY, "Tree": TREE, "Loop": LOOP}
STATE: dict[str, Any] = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
FIXED: dict[str, Any] = {"type": "fixed", "name": "Two", "size": 2}


@pytest.mark.parametrize(
    ("type", "default"),
    [
        ("null", None),
        ("boolean", False),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("double", 1),
        ("float", 1.5),
        ("bytes", "\u00ff"),
        (FIXED, "ab"),
        (STATE, "NEW"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": STATE}, {"a": "PAID"}),
        ("Money", {"units": 1}),
        ("Money", {"units": 1, "code": "USD", "unknown": 1}),
        (["int", "null"], None),
        (["null", "Money"], {"units": 1}),
        ("Tree", {"left": {"left": None}}),
    ],
)
def test_values_of_a_type_are_right(type: Any, default: Any) -> None:
    assert DefaultCheck(TYPES).find_problem(default, type) is None


@pytest.mark.parametrize(
    ("type", "default", "path"),
    [
        ("null", 0, ()),
        ("boolean", 0, ()),
        ("int", 2**31, ()),
        ("int", True, ()),
        ("int", 1.0, ()),
        ("long", 2**63, ()),
        ("double", "1", ()),
        ("string", None, ()),
        ("bytes", "\u0100", ()),
        (FIXED, "a", ()),
        (STATE, "GONE", ()),
        (STATE, ["NEW"], ()),
        ({"type": "array", "items": "int"}, [1, "2"], (1,)),
        ({"type": "array", "items": "int"}, {}, ()),
        ({"type": "map", "values": "int"}, {"a": None}, ("a",)),
        ({"type": "map", "values": "int"}, [], ()),
        ("Money", {}, ("units",)),
        ("Money", [], ()),
        ("Money", {"units": 1, "code": 2}, ("code",)),
        (["null", "Money"], {"units": "1"}, ("units",)),
        (["int", "string"], None, ()),
        ("Tree", {"left": {"left": 1}}, ("left", "left")),
        ("Loop", {}, ("again",)),
    ],
)
def test_other_values_are_not(type: Any, default: Any, path: tuple[Any, ...]) -> None:
    problem = DefaultCheck(TYPES).find_problem(default, type)
    assert problem is not None
    assert problem[0] == path


def test_many_alternatives_are_checked_once_for_each_value() -> None:
    """The work would otherwise grow: each level of nesting would multiply the work by the number of alternatives."""
    names = [f"R{number}" for number in range(40)]
    types = {name: {"type": "record", "name": name, "fields": [{"name": "a", "type": names}]} for name in names}
    default: Any = {"a": 1}
    for _ in range(60):
        default = {"a": default}
    assert DefaultCheck(types).find_problem(default, names) is not None


def test_defaults_are_bounded() -> None:
    """An array of empty objects over many records that need a field: each item is compared with each of them."""
    fields = [{"name": "a", "type": "int"}]
    records: list[Any] = [{"type": "record", "name": f"R{number}", "fields": fields} for number in range(300)]
    items = {"type": "array", "items": [*records, {"type": "record", "name": "Last", "fields": []}]}
    field = {"name": "f", "type": items, "default": [{} for _ in range(20_000)]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field]}).encode()
    reader = find("Avro/1.12.0")
    assert reader is not None
    assert [finding.rule for finding in reader.check(schema, "Avro/1.12.0")] == ["weight"]


_JSON = json_trees(JSON_SCALARS, st.sampled_from(["units", "code", "left"]), leaves=6)


@given(default=_JSON, type=st.sampled_from(["int", "boolean", "string", MONEY, STATE, ["null", "long"]]))
def test_an_accepted_default_can_be_written_by_the_library(default: Any, type: Any) -> None:
    """The verdict is sound: whatever is accepted is a datum of the type, as another implementation says."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": type, "default": default}]}
    reader = find("Avro/1.12.0")
    assert reader is not None
    if not reader.check(json.dumps(schema).encode(), "Avro/1.12.0"):
        parsed = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "f", "type": type}]})
        fastavro.schemaless_writer(io.BytesIO(), parsed, {"f": default}, strict=False)
