"""Schemas of other days."""

from __future__ import annotations

import pytest

from signalbook.values import JSON

from .conftest import Mend

SCHEMA = "/schemagroups/g/schemas/s"
URL = "https://example.com/s.json"


@pytest.mark.parametrize(
    ("body", "expected", "repairs"),
    [
        pytest.param({"schemauri": URL}, {"schemaurl": URL}, ["schemauri [I-7]"], id="I-7"),
        pytest.param({"id": "s", "type": "schema"}, {"schemaid": "s"}, ["type [I-6]", "id [I-6]"], id="I-6"),
        pytest.param(
            {"format": "Protobuf/3", "schema": "message A {} }"},
            {"format": "Protobuf/3", "schema": "message A {}\n"},
            ["schema [L-33]"],
            id="L-33",
        ),
        pytest.param(
            {"format": "Protobuf/3", "schema": "message A {\n}"},
            {"format": "Protobuf/3", "schema": "message A {\n}"},
            [],
            id="sound Protobuf",
        ),
        pytest.param({"meta": {"validation": True}}, {"meta": {}}, ["meta.validation [G-10]"], id="G-10"),
        pytest.param({"meta": {"compatibility": "NONE"}}, {"meta": {}}, ["meta.compatibility [rc4]"], id="rc2 none"),
        pytest.param(
            {"deprecated": {"docs": URL}}, {"deprecated": {"documentation": URL}}, ["deprecated.docs [H-21]"], id="H-21"
        ),
        pytest.param(
            {"format": "avro/1", "schemauri": URL, "versions": {}},
            {"format": "avro/1", "schemaurl": URL, "versions": {}},
            ["schemauri [I-7]"],
            id="no Versions",
        ),
    ],
)
def test_schemas(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    assert mend(SCHEMA, body) == (expected, repairs)


@pytest.mark.parametrize(
    ("shared", "stated", "expected"),
    [
        pytest.param("A/1", [None, None], ["A/1", "A/1"], id="I-6 of the schema"),
        pytest.param("A/1", ["A/1version", None], ["A/1", "A/1"], id="I-6 damage of search and replace"),
        pytest.param(None, ["A/1", "a/2"], ["A", "a"], id="G-4 one format"),
        pytest.param(None, ["A/1", "a/1"], ["A/1", "a/1"], id="G-2b case does not count"),
        pytest.param(None, ["A/1", "B/1"], ["A/1", "B/1"], id="two formats are no slip"),
        pytest.param(None, [None, None], [None, None], id="none at all"),
    ],
)
def test_formats_of_versions(mend: Mend, shared: JSON, stated: list[JSON], expected: list[JSON]) -> None:
    versions = {str(number): {"format": name} if name else {} for number, name in enumerate(stated)}
    found, _ = mend(SCHEMA, {"versions": versions} | ({"format": shared} if shared else {}))
    assert [version.get("format") for version in found["versions"].values()] == expected
