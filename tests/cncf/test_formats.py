"""Names of formats, here and there."""

from __future__ import annotations

import pytest

from signalbook.cncf.schemaregistry import FORMATNAME, draft_format, format_attributes, registry_format


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("avro", "Avro/1.11"),
        ("json-schema", "JsonSchema"),
        ("protobuf", "Protobuf/3"),
        ("xsd10", "XSD/1.0"),
        ("xsd11", "XSD/1.1"),
        ("Avro/1.12", "Avro/1.12"),
        ("AVRO", "AVRO"),
        ("my-own", "my-own"),
    ],
)
def test_every_name_comes_back(name: str, format: str) -> None:
    """A-3, J-8"""
    attributes = format_attributes(name)
    assert attributes["format"] == format
    assert draft_format(attributes) == name


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("Avro/1.9", "avro"),
        ("avro", "avro"),
        ("JsonSchema/draft-07", "json-schema"),
        ("XSD/1.1", "xsd11"),
        ("xsd/1.0", "xsd10"),
        ("XSD/2", "XSD/2"),
        ("Protobuf/2", "protobuf"),
        ("JsonStructure/draft-04", "JsonStructure/draft-04"),
        ("", None),
        (None, None),
        (1, None),
    ],
)
def test_names_of_what_others_wrote(format: object, name: str | None) -> None:
    """J-8"""
    assert draft_format({"format": format}) == name


def test_a_name_that_does_not_hold_any_more() -> None:
    """xRegistry has changed the format since."""
    assert draft_format({"format": "Avro/1.9", FORMATNAME: "Avro/1.12"}) == "avro"


@pytest.mark.parametrize(
    ("document", "format"),
    [
        (b'{"$schema": "http://json-schema.org/draft-07/schema#"}', "JsonSchema/draft-07"),
        (b'{"$schema": "https://json-schema.org/draft/2020-12/schema"}', "JsonSchema/draft/2020-12"),
        (b'{"$schema": "https://example.com/own"}', "JsonSchema"),
        (b'{"$schema": 1}', "JsonSchema"),
        (b"true", "JsonSchema"),
        (b"{", "JsonSchema"),
        (b"", "JsonSchema"),
    ],
)
def test_a_json_schema_says_of_which_version_it_is(document: bytes, format: str) -> None:
    """J-8"""
    assert registry_format("json-schema", document) == format
