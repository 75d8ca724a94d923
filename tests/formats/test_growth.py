"""The work of reading and comparing schemas grows with their size, not with its square.

Counted in lines of Python that run, since times differ from machine to machine.
"""

import json
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from signalbook.formats.base import find
from signalbook.formats.compatibility import SchemaText, list_differences
from signalbook.formats.xsd import simpletypes

JSON_SCHEMA = "JsonSchema/draft-07"
STRUCTURE = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/a", "name": "R"}


def avro_fields(number: int) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{i}", "type": "int"} for i in range(number)]}


def members(number: int) -> Any:
    return {"type": "object", "properties": {f"f{i}": {"type": "integer"} for i in range(number)}}


def listed_objects(number: int) -> Any:
    return {"enum": [{"a": i} for i in range(number)]}


def all_of(number: int) -> Any:
    return {"allOf": [members(1 + i % 3) | {"required": [f"r{i}"]} for i in range(number)]}


def structure(number: int) -> Any:
    return {**STRUCTURE, "type": "object", "properties": {f"f{i}": {"type": "int32"} for i in range(number)}}


def avro_values(number: int) -> Any:
    return {"type": "enum", "name": "E", "symbols": [f"S{i}" for i in range(number)]}


def json_texts(number: int) -> Any:
    return {"enum": [f"S{i}" for i in range(number)]}


def json_numbers(number: int) -> Any:
    return {"enum": list(range(number))}


def structure_values(number: int) -> Any:
    return {**STRUCTURE, "type": "string", "enum": [f"S{i}" for i in range(number)]}


def check(format: str, document: bytes) -> None:
    schema_format = find(format)
    assert schema_format is not None
    assert schema_format.check(document, format) == []


def columns(format: str, document: bytes) -> None:
    schema_format = find(format)
    assert schema_format is not None
    schema_format.parse(document, format).shape()


def compare(format: str, document: bytes) -> None:
    # With a space behind, since equal documents need no comparison.
    new, old = (SchemaText(document=text, format=format) for text in (document, document + b" "))
    assert list_differences("full", new, old) == []


def lines(run: Callable[[], None]) -> int:
    """Return the number of Python lines that ``run`` executes."""
    counted = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal counted
        counted += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.parametrize("work", [check, columns, compare], ids=["check", "columns", "compare"])
@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("Avro/1.12", avro_fields),
        (JSON_SCHEMA, members),
        (JSON_SCHEMA, listed_objects),
        ("JsonStructure/draft-04", structure),
    ],
    ids=["avro fields", "members", "listed objects", "structure"],
)
def test_twice_the_schema_takes_twice_the_work(
    work: Callable[[str, bytes], None], format: str, schema: Callable[[int], Any]
) -> None:
    small, large = (json.dumps(schema(number)).encode() for number in (200, 400))
    # What is loaded and remembered on the first use does not count.
    work(format, json.dumps(schema(3)).encode())
    assert lines(lambda: work(format, large)) < 2.5 * lines(lambda: work(format, small))


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("Avro/1.12", avro_values),
        (JSON_SCHEMA, json_texts),
        (JSON_SCHEMA, json_numbers),
        ("JsonStructure/draft-04", structure_values),
    ],
)
@pytest.mark.parametrize("missing", [0, 1])
def test_lists_of_values_are_compared_as_sets(format: str, schema: Callable[[int], Any], missing: int) -> None:
    """Python executes at most three lines for each value."""

    def work(number: int) -> int:
        texts = [json.dumps(schema(count)).encode() + b" " for count in (number, number - missing)]
        new, old = (SchemaText(document=text, format=format) for text in texts)
        result: list[object] = []
        ran = lines(lambda: result.extend(list_differences("full", new, old)))
        assert len(result) == missing
        return ran

    work(30)
    # Of up to 5,000 values it is tried whether the reader takes them.
    assert work(8000) - work(6000) < 2000 * 4


def test_the_columns_of_many_parts_are_read_in_pairs() -> None:
    """Read one after the other, each part would copy the members of all earlier parts."""
    small, large = (json.dumps(all_of(number)).encode() for number in (200, 400))
    columns(JSON_SCHEMA, json.dumps(all_of(3)).encode())
    assert lines(lambda: columns(JSON_SCHEMA, large)) < 2.7 * lines(lambda: columns(JSON_SCHEMA, small))


def test_a_comparison_ends_although_all_parts_are_compared_with_all() -> None:
    """Every part of the writer's may show what a part of the reader's asks: the looks are counted."""
    parts = [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(1500)]
    new, old = (json.dumps({"allOf": parts[:number]}).encode() for number in (1500, 1499))
    texts = [SchemaText(document=document, format=JSON_SCHEMA) for document in (new, old)]
    assert any(difference.rule == "undecided" for _, difference in list_differences("backward", *texts))


def test_listed_names_are_compared_as_sets() -> None:
    """An object with as many members as there are names has all of them."""

    def compare_names(number: int) -> None:
        names = [f"n{i}" for i in range(number)]
        written = {"type": "object", "propertyNames": {"enum": names}, "minProperties": number}
        old, new = (
            SchemaText(document=json.dumps(schema).encode(), format=JSON_SCHEMA)
            for schema in (written, {"required": names, "patternProperties": {"^x": {"type": "string"}}})
        )
        assert [difference.rule for _, difference in list_differences("backward", new, old)] == []

    compare_names(3)
    assert lines(lambda: compare_names(400)) < 2.5 * lines(lambda: compare_names(200))


def test_long_listed_texts_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples for a minimum length repeat short texts only: a text of a megabyte would become 300."""
    types = (
        f'<xs:restriction base="xs:base64Binary"><xs:enumeration value="{"x" * 20_000}"/></xs:restriction>',
        '<xs:restriction base="xs:string"><xs:minLength value="290"/></xs:restriction>',
    )
    old, new = (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:simpleType>{restriction}'
        "</xs:simpleType></xs:element></xs:schema>"
        for restriction in types
    )
    make_examples, examples = simpletypes._make_examples, list[str]()

    def record_examples(*facets: Any) -> Iterator[str]:
        for text in make_examples(*facets):
            examples.append(text)
            yield text

    monkeypatch.setattr(simpletypes, "_make_examples", record_examples)
    texts = [SchemaText(document=document.encode(), format="XSD/1.0") for document in (new, old)]
    assert [difference.rule for _, difference in list_differences("backward", *texts)] == ["undecided"]
    assert max(map(len, examples)) < 21_000
