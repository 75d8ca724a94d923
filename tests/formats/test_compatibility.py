from typing import Any

import pytest

from signalbook.formats import compatibility
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.values import dump_json


def avro(*fields: Any, format: str = "Avro/1.11") -> SchemaText:
    return SchemaText(document=dump_json({"type": "record", "name": "R", "fields": list(fields)}), format=format)


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": "int"}


@pytest.mark.parametrize("rule", compatibility.RULES)
def test_directions_of_each_rule(rule: str) -> None:
    """The names of rules are accepted in any case (G-26, G-27)."""
    expected = {"b": ("backward",), "f": ("forward",)}.get(rule[0]) if not rule.startswith("full") else None
    assert compatibility.list_directions(rule.upper()) == (expected or ("backward", "forward"))
    assert compatibility.is_transitive(rule.upper()) is rule.endswith("_transitive")


@pytest.mark.parametrize(("format", "has_rules"), [("avro/1.11", True), ("Nope/1", False)])
def test_formats_with_rules(format: str, has_rules: bool) -> None:
    """Only some formats have compatibility rules (G-25, G-29)."""
    assert (compatibility.find_comparison(format) is not None) is has_rules


@pytest.mark.parametrize(
    ("rule", "new", "old", "broken"),
    [
        ("backward", avro(A, B), avro(A), ["backward"]),
        ("forward", avro(A, B), avro(A), []),
        ("full", avro(A, B), avro(A), ["backward"]),
        ("FULL_transitive", avro(A), avro(A, B), ["forward"]),
        ("full", avro(B), avro(A), ["backward", "forward"]),
        ("full", avro(A, format="avro/1.12.0"), avro(A), []),
    ],
)
def test_violated_directions_are_reported(rule: str, new: SchemaText, old: SchemaText, broken: list[str]) -> None:
    """G-27, G-30."""
    assert [direction for direction, _ in compatibility.list_differences(rule, new, old)] == broken


def test_formats_of_different_families() -> None:
    """Schemas of different formats are incompatible (G-4)."""
    other = SchemaText(document=b"{}", format="JsonSchema/draft-07")
    ((direction, difference),) = compatibility.list_differences("forward", other, avro(A))
    assert (direction, difference.rule, difference.new) == ("forward", "format", "Avro/1.11")


def test_unknown_format_cannot_be_compared() -> None:
    nothing = SchemaText(document=b"", format="Nope/1")
    with pytest.raises(LookupError, match="Nope/1"):
        compatibility.list_differences("full", nothing, nothing)


def test_words_for_people() -> None:
    """The newer document is the one to mend, whichever of the two is the reader."""
    difference = Difference(path="R.a", rule="type_changed", old="writer", new="reader", message="they differ")
    backward = compatibility.convert_difference("backward", difference, document="new", against="old")
    expected = ("new#R.a: reading data of old: they differ [type_changed]", "writer", "reader")
    assert (str(backward), backward.old, backward.new) == expected
    forward = compatibility.convert_difference("forward", difference, document="new", against="old")
    assert (forward.message, forward.old, forward.new) == ("read by old: they differ", "reader", "writer")
