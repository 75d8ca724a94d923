"""Which changes of an Avro schema keep readers reading (G-30)."""

from collections.abc import Mapping

import pytest

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT
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
    """The rules are those of schema resolution in the Avro specification (G-30)."""
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
