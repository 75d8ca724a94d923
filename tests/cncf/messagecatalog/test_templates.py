import pytest

from signalbook.cncf.messagecatalog import templates
from signalbook.values import JSON


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="B-11 any content"),
        pytest.param(None, id="B-11 not listed"),
        pytest.param("exact", id="B-11 literal"),
        pytest.param("text/plain; charset=utf-8", id="C-19 no URI"),
        pytest.param("/{container}/{filepath}", id="B-10 level 1"),
        pytest.param("{+path}{?q*,n:3}", id="B-11 any level"),
        pytest.param("/messagecatalog/{group-id}", id="C-21 a dash"),
    ],
)
def test_valid_values_have_no_error(value: JSON) -> None:
    assert templates.find_value_error(value, templates.STRING) == ""


@pytest.mark.parametrize("text", ["{", "a}", "{}", "{a b}", "{a,}", "{{a}}", "{a:0}"])
def test_invalid_expression_is_rejected(text: str) -> None:
    """The syntax is that of RFC6570 (C-19)."""
    assert "RFC6570" in templates.find_value_error(text, templates.STRING)


@pytest.mark.parametrize(
    ("value", "type", "right"),
    [
        (True, templates.BOOLEAN, True),
        ("true", templates.BOOLEAN, True),
        ("{x}", templates.BOOLEAN, True),
        ("yes", templates.BOOLEAN, False),
        (1, templates.BOOLEAN, False),
        (5, templates.INTEGER, True),
        ("5", templates.INTEGER, True),
        (True, templates.INTEGER, False),
        (1.5, templates.INTEGER, False),
        ("five", templates.INTEGER, False),
        ("2020-01-01T00:00:00Z", templates.TIMESTAMP, True),
        ("yesterday", templates.TIMESTAMP, False),
        (5, templates.STRING, False),
        ("AQID", templates.BINARY, True),
        (5, templates.ANY, True),
        ({}, templates.ANY, False),
    ],
)
def test_typed_fields_take_native_values_and_templates(value: JSON, type: str, right: bool) -> None:
    """B-16, C-22."""
    assert (templates.find_value_error(value, type) == "") is right


@pytest.mark.parametrize(
    ("text", "simple", "uri"),
    [("{a}/{b_1}", True, True), ("{+a}", False, True), ("plain", False, True), ("a {b}", True, False)],
)
def test_levels_of_templates(text: str, simple: bool, uri: bool) -> None:
    """The level that xRegistry accepts is 1 (J-17)."""
    assert templates.is_simple(text) is simple
    assert templates.is_uri_template(text) is uri


def test_exact_values() -> None:
    """A template without a value allows any value (C-20)."""
    assert templates.literal({"value": "x"}) == "x"
    assert [templates.literal(t) for t in ({}, {"value": ""}, {"value": "{x}"}, "x")] == [None] * 4
    assert templates.convert_value("true", templates.BOOLEAN) is True
    assert templates.convert_value("7", templates.INTEGER) == 7
