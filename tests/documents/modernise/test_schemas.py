from typing import Any

import pytest

from signalbook.values import JSON

from .conftest import Mend

SCHEMA = "/schemagroups/g/schemas/s"
URL = "https://example.com/s.json"


SCHEMAS: dict[str, Any] = {
    "I-7": ({"schemauri": URL}, {"schemaurl": URL}, ["schemauri [I-7]"]),
    "I-6": ({"id": "s", "type": "schema"}, {"schemaid": "s"}, ["type [I-6]", "id [I-6]"]),
    "L-33": ({"format": "Protobuf/3", "schema": "message A {} }"}, {"format": "Protobuf/3", "schema": "message A {}\n"},
        ["schema [L-33]"]),
    "sound Protobuf": ({"format": "Protobuf/3", "schema": "message A {\n}"},
        {"format": "Protobuf/3", "schema": "message A {\n}"}, []),
    "G-10": ({"meta": {"validation": True}}, {"meta": {}}, ["meta.validation [G-10]"]),
    "rc2 none": ({"meta": {"compatibility": "NONE"}}, {"meta": {}}, ["meta.compatibility [rc4]"]),
    "H-21": ({"deprecated": {"docs": URL}}, {"deprecated": {"documentation": URL}}, ["deprecated.docs [H-21]"]),
    "no Versions": ({"format": "avro/1", "schemauri": URL, "versions": {}},
        {"format": "avro/1", "schemaurl": URL, "versions": {}}, ["schemauri [I-7]"]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected", "repairs"), SCHEMAS.values(), ids=SCHEMAS)
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
    schema, _ = mend(SCHEMA, {"versions": versions} | ({"format": shared} if shared else {}))
    assert [version.get("format") for version in schema["versions"].values()] == expected
