"""Which changes of an Avro schema keep readers reading (G-30)."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT, resolution
from signalbook.formats.avro.document import read
from signalbook.formats.compatibility import Difference, SchemaText, find_comparison
from signalbook.values import JSON, JSONObject, dump_json


def text(document: JSON, format: str = "Avro/1.11", other_documents: Mapping[str, JSON] | None = None) -> SchemaText:
    resolve = None
    if other_documents is not None:
        documents = {name: dump_json(other) for name, other in other_documents.items()}
        resolve = documents.get
    return SchemaText(document=dump_json(document), format=format, resolve=resolve)


def differences(old: JSON, new: JSON, format: str = "Avro/1.11") -> list[Difference]:
    return FORMAT.differences(reader=text(new, format), writer=text(old, format))


def rec(*fields: JSONObject, name: str = "R", **more: JSON) -> JSONObject:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def f(name: str, type: JSON, **more: JSON) -> JSONObject:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, name: str = "E", **more: JSON) -> JSONObject:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: JSON) -> JSONObject:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: JSON) -> JSONObject:
    return {"type": "array", "items": items}


def mapping(values: JSON) -> JSONObject:
    return {"type": "map", "values": values}


def logical(kind: str, name: str, **more: JSON) -> JSONObject:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int = 0) -> JSONObject:
    return logical("bytes", "decimal", precision=precision, scale=scale)


PRICED = "com.example"
# old (writer), new (reader), what is in the way
TABLE: dict[str, tuple[JSON, JSON, list[tuple[str, str]]]] = {
    "the same": ("int", "int", []),
    "int to long": ("int", "long", []),
    "int to float": ("int", "float", []),
    "int to double": ("int", "double", []),
    "long to float": ("long", "float", []),
    "long to double": ("long", "double", []),
    "float to double": ("float", "double", []),
    "string to bytes": ("string", "bytes", []),
    "bytes to string": ("bytes", "string", []),
    "long to int": ("long", "int", [("", "type_changed")]),
    "double to float": ("double", "float", [("", "type_changed")]),
    "double to long": ("double", "long", [("", "type_changed")]),
    "int to string": ("int", "string", [("", "type_changed")]),
    "boolean to int": ("boolean", "int", [("", "type_changed")]),
    "null to string": ("null", "string", [("", "type_changed")]),
    "array to map": (array("int"), mapping("int"), [("", "type_changed")]),
    "items promoted": (array("int"), array("long"), []),
    "items narrowed": (array("long"), array("int"), [("[]", "type_changed")]),
    "values promoted": (mapping("int"), mapping("long"), []),
    "values changed": (mapping("int"), mapping("string"), [("{}", "type_changed")]),
    "fields reordered": (rec(f("a", "int"), f("b", "int")), rec(f("b", "int"), f("a", "int")), []),
    "a field less": (rec(f("a", "int"), f("b", "int")), rec(f("a", "int")), []),
    "a field more, with a default": (rec(), rec(f("a", "int", default=1)), []),
    "a field more, null by default": (rec(), rec(f("a", ["null", "int"], default=None)), []),
    "a field more": (rec(), rec(f("a", "int")), [("R.a", "default_missing")]),
    "a nullable field more": (rec(), rec(f("a", ["null", "int"])), [("R.a", "default_missing")]),
    "a field's default changed": (rec(f("a", "int", default=1)), rec(f("a", "int", default=2)), []),
    "a field renamed": (rec(f("a", "int")), rec(f("b", "int")), [("R.b", "default_missing")]),
    "a field renamed, with an alias": (rec(f("a", "int")), rec(f("b", "int", aliases=["a"])), []),
    "an alias of another type": (rec(f("a", "string")), rec(f("b", "int", aliases=["a"])), [("R.b", "type_changed")]),
    "an alias of a field that is still there": (rec(f("a", "int"), f("b", "int")), rec(f("b", "int", aliases=["a"])),
        [("R.b", "alias_ambiguous")]),
    "an alias that two fields claim": (rec(f("a", "int")), rec(f("a", "int"), f("b", "int", aliases=["a"])),
        [("R.b", "alias_ambiguous")]),
    "another namespace": (rec(namespace="x"), rec(namespace="y"), []),
    "a record renamed": (rec(name="A"), rec(name="B"), [("", "name_changed")]),
    "a record renamed, with an alias": (rec(name="n.A"), rec(name="m.B", aliases=["n.A"]), []),
    "an alias in the namespace of its type": (rec(name="n.A"), rec(name="n.B", aliases=["A"]), []),
    "an alias in another namespace": (rec(name="m.A"), rec(name="n.B", aliases=["A"]), [("", "name_changed")]),
    "a symbol more": (enum("A"), enum("A", "B"), []),
    "symbols reordered": (enum("A", "B"), enum("B", "A"), []),
    "a symbol less": (enum("A", "B"), enum("A"), [("E", "symbol_missing")]),
    "a symbol less, with a default": (enum("A", "B"), enum("A", default="A"), []),
    "an enum renamed": (enum("A"), enum("A", name="G"), [("", "name_changed")]),
    "a fixed of another size": (fixed(4), fixed(8), [("F", "size_changed")]),
    "a fixed renamed": (fixed(4), fixed(4, "G"), [("", "name_changed")]),
    "fixed to bytes": (fixed(4), "bytes", [("", "type_changed")]),
    "made nullable": ("int", ["null", "int"], []),
    "made nullable and promoted": ("int", ["null", "long"], []),
    "not nullable any more": (["null", "int"], "int", [("", "alternative_missing")]),
    "a union of one": (["int"], "long", []),
    "an alternative more": (["null", "int"], ["null", "int", "string"], []),
    "an alternative less": (["null", "int", "string"], ["null", "int"], [("", "alternative_missing")]),
    "alternatives reordered": (["null", "int"], ["int", "null"], []),
    "an alternative promoted": (["null", "int"], ["null", "double"], []),
    "no alternative fits": ("boolean", ["null", "int"], [("", "type_changed")]),
    "a document of two records": ([rec(f("x", "int"), name="A"), rec(name="B")],
        [rec(name="B"), rec(f("x", "string"), name="A")], [("A.x", "type_changed")]),
    "an alternative's field": (rec(f("u", [rec(f("x", "int"), name="n.A"), "int"])),
        rec(f("u", ["int", rec(f("x", "string"), name="n.A")])), [("R.u<n.A>.x", "type_changed")]),
    "alternatives of one short name": (rec(name="b.A"), [rec(name="a.A"), rec(name="b.A")], [("", "union_ambiguous")]),
    "a fixed of the right size among others": (fixed(4, "a.F"), [fixed(8, "b.F"), fixed(4, "c.F")], []),
    "an array among alternatives": (array("int"), ["null", array("long")], []),
    "an array among alternatives, of another type": (array("int"), ["null", array("string")], [("", "type_changed")]),
    "deep inside": (rec(f("items", array(rec(f("price", "double"), name="Item"))), name="Order", namespace=PRICED),
        rec(f("items", array(rec(f("price", "float"), name="Item"))), name="Order", namespace=PRICED),
        [("com.example.Order.items[].price", "type_changed")]),
    "a recursive type": (rec(f("v", "int"), f("next", ["null", "R"])), rec(f("v", "long"), f("next", ["null", "R"])),
        []),
    "a recursive type, changed": (rec(f("v", "int"), f("next", ["null", "R"])),
        rec(f("v", "string"), f("next", ["null", "R"])), [("R.v", "type_changed")]),
    "decimals alike": (decimal(4, 2), decimal(4, 2), []),
    "a decimal's scale": (decimal(4, 2), decimal(4, 1), [("", "decimal_changed")]),
    "a decimal's precision": (decimal(4), decimal(5), [("", "decimal_changed")]),
    "decimal to plain bytes": (decimal(4), "bytes", []),
    "plain bytes to decimal": ("bytes", decimal(4), []),
    "a logical type added": ("long", logical("long", "timestamp-millis"), []),
    "a logical type removed": (logical("string", "uuid"), "string", []),
    "a logical type changed": (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"),
        [("", "logical_type_changed")]),
    "a date promoted to an instant": (logical("int", "date"), logical("long", "timestamp-nanos"),
        [("", "logical_type_changed")]),
    "logical types that do not count": (logical("int", "uuid"), logical("int", "date"), []),
    "properties without meaning": (rec(doc="a"), rec(doc="b", owner="me"), []),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), TABLE.values(), ids=TABLE)
def test_resolution(old: JSON, new: JSON, expected: list[tuple[str, str]]) -> None:
    """The rules are those of schema resolution in the Avro specification, with reader ``new`` and writer ``old``
    (G-30).
    """
    actual = differences(old, new)
    assert [(difference.path, difference.rule) for difference in actual] == expected
    assert all(difference.message for difference in actual)


@pytest.mark.parametrize(
    ("format", "rules"), [("Avro/1.8.2", ["symbol_missing"]), ("Avro/1.9", []), ("Avro/1.12.0", []), ("Avro", [])]
)
def test_enums_have_defaults_since_release_1_9(format: str, rules: list[str]) -> None:
    actual = differences(enum("A", "B"), enum("A", default="A"), format)
    assert [difference.rule for difference in actual] == rules


def test_difference_contains_path_and_types() -> None:
    (difference,) = differences(rec(f("a", ["null", "string"])), rec(f("a", "string")))
    assert (difference.path, difference.old, difference.new) == ("R.a", "union of null, string", "string")
    assert difference.message == "null can be written, but the reader takes only string"


def test_documents_refer_to_others_through_the_resolver() -> None:
    items = {"shop.Item": rec(f("price", "int"), name="shop.Item")}
    cheaper = {"shop.Item": rec(f("price", "string"), name="shop.Item")}
    order = rec(f("item", "shop.Item"), name="Order")
    assert FORMAT.differences(text(order, other_documents=items), text(order, other_documents=items)) == []
    (difference,) = FORMAT.differences(text(order, other_documents=cheaper), text(order, other_documents=items))
    assert (difference.path, difference.rule) == ("Order.item.price", "type_changed")
    with pytest.raises(SchemaError, match=r"no type 'shop\.Item'"):
        differences(order, order)


def test_chains_of_documents_end() -> None:
    """Every document refers to another one, and the resolver is not called for ever."""
    requested: list[str] = []

    def resolve(name: str) -> bytes:
        requested.append(name)
        return dump_json(rec(f("next", f"{name}x"), name=name))

    with pytest.raises(SchemaError):
        FORMAT.parse(dump_json(rec(f("first", "T"))), "Avro", resolve=resolve)
    assert len(requested) <= 100


def test_comparison_of_large_unions_is_bounded() -> None:
    def many(space: str, size: int) -> JSON:
        return [fixed(size, f"{space}{number}.F") for number in range(1000)]

    (difference,) = differences(many("a", 4), [*many("b", 5)[:-1], fixed(4, "z.F")])
    assert difference.rule == "undecided"


def test_the_number_of_differences_is_bounded() -> None:
    assert len(differences(rec(), rec(*(f(f"f{number}", "int") for number in range(500))))) == 100


def test_avro_is_compared() -> None:
    assert find_comparison("Avro/1.11") is FORMAT


NAMES = st.sampled_from(["a", "b", "c"])
SIMPLE = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string"])


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> JSON:
    """A type; the names in it are made different afterwards."""
    kind = draw(st.sampled_from(["simple", "enum", "fixed", *(["array", "map", "record", "union"] if depth else [])]))
    if kind == "simple":
        return draw(SIMPLE)
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True))
        return enum(*symbols, **({"default": symbols[0]} if draw(st.booleans()) else {}))
    if kind == "fixed":
        return fixed(draw(st.integers(1, 2)))
    if kind == "union":
        return draw(st.lists(types(0) | SIMPLE, min_size=1, max_size=3, unique_by=label))
    if kind in ("array", "map"):
        part = draw(types(depth - 1).filter(lambda t: t != "null"))
        return {"type": kind, "items" if kind == "array" else "values": part}
    fields = draw(st.lists(st.tuples(NAMES, types(depth - 1)), max_size=3, unique_by=lambda field: field[0]))
    return rec(*(f(name, kind, **draw(extras(kind))) for name, kind in fields))


WIDER: Mapping[str, list[JSON]] = {
    "int": ["long", "float", "double", ["null", "long"]], "long": ["float", "double"], "float": ["double"],
    "string": ["bytes", ["bytes", "null"]],
}  # fmt: skip


@st.composite
def evolved(draw: st.DrawFn, node: JSON) -> JSON:
    """Return a plausible next version of a type, which in most cases can still be read."""
    if draw(st.integers(0, 9)) == 0:
        return draw(types(1))
    if isinstance(node, list):
        branches = [draw(evolved(branch)) if label(branch) == "record" else branch for branch in node]
        return [*draw(st.permutations(branches))]
    if isinstance(node, str):
        return draw(st.sampled_from([node, *WIDER.get(node, [])]))
    if node["type"] == "enum":
        return enum(*draw(st.permutations("ABC")), **({"default": "A"} if draw(st.booleans()) else {}))
    if node["type"] in ("array", "map"):
        inner = "items" if node["type"] == "array" else "values"
        return {**node, inner: draw(evolved(node[inner]).filter(lambda kind: kind != "null"))}
    if node["type"] != "record":
        return draw(st.sampled_from([node, ["null", node]]))
    remaining_fields = [
        f(part["name"], draw(evolved(part["type"]))) for part in node["fields"] if draw(st.integers(0, 4))
    ]
    renamed = [
        f("new", part["type"], aliases=[part["name"]]) if draw(st.integers(0, 4)) == 0 else part
        for part in remaining_fields
    ]
    more = [f("d", "string", default="s")] if draw(st.booleans()) else []
    fields_by_name = {part["name"]: part for part in [*renamed, *more]}
    return rec(*draw(st.permutations(list(fields_by_name.values()))))


def label(node: JSON) -> str:
    return str(node if isinstance(node, str) else node["type"])


def extras(type: JSON) -> st.SearchStrategy[JSONObject]:
    simple: dict[str, JSON] = {"null": None, "boolean": True, "int": 1, "long": 2, "double": 1.5, "string": "s"}
    aliases = st.lists(NAMES, max_size=1).map(lambda names: {"aliases": names} if names else {})
    default = st.just({"default": simple[type]}) if isinstance(type, str) and type in simple else st.just({})
    return st.tuples(aliases, st.booleans(), default).map(lambda parts: parts[0] | (parts[2] if parts[1] else {}))


def settled(node: JSON, path: str = "n") -> JSON:
    """``node`` with a namespace of its own for each named type, so that none is defined twice."""
    if isinstance(node, list):
        return [settled(branch, f"{path}.u{index}") for index, branch in enumerate(node)]
    if isinstance(node, str):
        return node
    renamed = {**node, **({"namespace": path} if "name" in node else {})}
    renamed |= {key: settled(node[key], f"{path}.i") for key in ("items", "values") if key in node}
    if "fields" in node:
        renamed["fields"] = [
            {**part, "type": settled(part["type"], f"{path}.{part['name']}")} for part in node["fields"]
        ]
    return renamed


def values(node: JSON) -> st.SearchStrategy[Any]:
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(), "boolean": st.booleans(), "int": st.integers(-9, 9), "long": st.integers(-(2**40), 2**40),
        "float": st.just(0.5), "double": st.just(0.25), "string": st.text(max_size=3), "bytes": st.just(b"x"),
    }  # fmt: skip
    if isinstance(node, list):
        return st.one_of([values(branch) for branch in node])
    if isinstance(node, str):
        return simple[node]
    if node["type"] == "enum":
        return st.sampled_from(node["symbols"])
    if node["type"] == "fixed":
        return st.binary(min_size=node["size"], max_size=node["size"])
    if node["type"] == "array":
        return st.lists(values(node["items"]), max_size=2)
    if node["type"] == "map":
        return st.dictionaries(st.sampled_from("kl"), values(node["values"]), max_size=2)
    return st.fixed_dictionaries({part["name"]: values(part["type"]) for part in node["fields"]})


@given(
    pair=st.tuples(types(), types()) | types().flatmap(lambda old: st.tuples(st.just(old), evolved(old))),
    data=st.data(),
)
@settings(max_examples=examples(400))
def test_equal_resolution_means_readable(pair: tuple[JSON, JSON], data: st.DataObject) -> None:
    """The library reads with the new schema whatever it wrote with the old one if there is no difference."""
    old, new = map(settled, pair)
    if differences(old, new):
        return
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(old), data.draw(values(old)))
    stream.seek(0)
    fastavro.schemaless_reader(stream, fastavro.parse_schema(old), fastavro.parse_schema(new))


@given(types())
@settings(deadline=None)
def test_a_schema_reads_itself(node: JSON) -> None:
    document = settled(node)
    again = {**document, "doc": "again"} if isinstance(document, dict) else document
    assert FORMAT.differences(text(document), text(document)) == []
    actual = resolution.find_differences(read(dump_json(again)), read(dump_json(document)), enum_defaults=True)
    assert {difference.rule for difference in actual} <= {"alias_ambiguous", "union_ambiguous"}
