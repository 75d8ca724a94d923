"""Documents that ask for more work than any payload is worth are refused."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.formats.jsonschema.weight import overweight
from signalbook.values import JSON, Finding

BASE = "https://example.com/a"


def weigh(root: JSON, pointer: str = "", others: dict[str, JSON] | None = None) -> list[Finding]:
    documents = {BASE: root, **{f"https://example.com/{name}": other for name, other in (others or {}).items()}}
    return overweight(documents, BASE, pointer)


def doubling(lines: int, keyword: str = "allOf") -> dict[str, Any]:
    last = {f"a{lines}": {"type": "integer"}}
    refs = {f"a{i}": {keyword: [{"$ref": f"#/definitions/a{i + 1}"}] * 2} for i in range(lines)}
    return {"$ref": "#/definitions/a0", "definitions": {**refs, **last}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_doubling_is_refused(keyword: str) -> None:
    assert weigh(doubling(8, keyword)) == []
    assert [finding.rule for finding in weigh(doubling(40, keyword))] == ["weight"]


def test_doubling_below_properties_is_refused() -> None:
    twice = [{"properties": {"x": {"$ref": "#/definitions/b"}}}] * 2
    levels = {f"b{i}": {"allOf": [{"properties": {"x": {"$ref": f"#/definitions/b{i + 1}"}}}] * 2} for i in range(40)}
    assert weigh({"$ref": "#/definitions/b0", "definitions": levels})
    assert weigh({"allOf": twice, "definitions": {"b": {"allOf": twice}}}) == []  # recursion is remembered


def test_width_is_no_weight() -> None:
    wide = {"properties": {f"p{i}": {"$ref": "#/definitions/a"} for i in range(5000)}, "definitions": {"a": {}}}
    assert weigh(wide) == []


def test_long_chains_are_refused() -> None:
    chain = {f"a{i}": {"items": {"$ref": f"#/definitions/a{i + 1}"}} for i in range(1000)}
    assert [f.rule for f in weigh({"$ref": "#/definitions/a0", "definitions": chain})] == ["depth"]


def test_definitions_count_without_being_used() -> None:
    """A deep link may lead anywhere."""
    unused = {"definitions": doubling(40)["definitions"]}
    assert weigh(unused)
    assert weigh({"messages": unused["definitions"]}) == []
    assert weigh({"messages": {"x": {"allOf": [{"$ref": "#/deep"}]}}, "deep": {}, **unused}, "/messages/x") == []


def test_doubling_across_documents_is_refused() -> None:
    others = {f"b{i}": {"allOf": [{"$ref": f"b{i + 1}"}] * 2} for i in range(40)}
    assert weigh({"$ref": "b0"}, others=others)
