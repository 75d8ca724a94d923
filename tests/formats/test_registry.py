import pytest

from signalbook.formats import find, list_supported


@pytest.mark.parametrize(
    ("format", "canonical"),
    [
        ("JsonSchema/draft-07", "JsonSchema/draft-07"),  # G-12
        ("JSONSchema/Draft-07", "JsonSchema/draft-07"),  # G-13
        ("JSONSchema/Draft-04", "JsonSchema/draft-04"),
        ("JSONSchema/Draft/2020-12", "JsonSchema/draft/2020-12"),
        ("JsonSchema/draft-2019-09", "JsonSchema/draft/2019-09"),
        ("jsonschema", "JsonSchema"),
        ("Avro/1.8.2", "Avro/1.8.2"),
        ("avro/1.11", "Avro/1.11"),
        ("Protobuf/3", "Protobuf/3"),
        ("Protobuf/2.0", "Protobuf/2"),
        ("protobuf/3.0", "Protobuf/3"),
        ("XSD/1.0", "XSD/1.0"),
        ("XMLSchema/1.1", "XSD/1.1"),
        ("jsonstructure/Draft-04", "JsonStructure/draft-04"),
    ],
)
def test_format_names_are_case_insensitive(format: str, canonical: str) -> None:
    schema_format = find(format)
    assert schema_format is not None
    assert schema_format.canonical(format) == canonical


@pytest.mark.parametrize(
    "format", ["JSONSchema/Unknown", "XSD/2.0", "JsonStructure/rfc-1", "Avro/new", "Protobuf/4", "", "x/1"]
)
def test_unknown_format_is_not_found(format: str) -> None:
    """The engine decides about unsupported formats (G-20)."""
    assert find(format) is None


def test_lists_what_can_be_validated() -> None:
    """The supported formats can be found (G-25)."""
    assert {"JsonSchema/draft-07", "Avro/1.11", "Protobuf/3", "XSD/1.1"} <= set(list_supported())
    assert all(find(name.removesuffix("/*")) for name in list_supported())
