from typing import Any

import pytest

from signalbook.messages.definitions.schemas import ContractSchemas, SchemaDocument
from signalbook.messages.message import Reason
from signalbook.values import JSONObject, dump_json

S = "/schemagroups/g/schemas/s"
FORMAT = "JsonSchema/draft-07"
TEXT: dict[str, Any] = {"type": "string", "definitions": {"n": {"type": "integer"}}}


def document(content: bytes, xid: str, format: str = FORMAT) -> SchemaDocument:
    return SchemaDocument(content=content, format=format, xid=xid)


def shelf() -> ContractSchemas:
    documents = {
        S: document(b'{"type": "string", "definitions": {"n": {"type": "integer"}}}', f"{S}/versions/2"),
        f"{S}/versions/1": document(b'{"type": "null"}', f"{S}/versions/1"),
        "/schemagroups/g/schemas/broken": document(b'{"type": 5}', "/schemagroups/g/schemas/broken/versions/1"),
        "/schemagroups/g/schemas/strange": document(b"x", "/schemagroups/g/schemas/strange/versions/1", "Own/1"),
    }
    return ContractSchemas(documents.get)


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        ({"dataschema": {"type": "boolean"}, "dataschemaxid": S}, True, "x"),  # inline first
        ({"dataschema": '{"type": "boolean"}'}, True, "x"),
        ({"dataschemaxid": S, "dataschemauri": "/nowhere"}, "x", True),  # then the xid
        ({"dataschemauri": S}, "x", True),
        ({"dataschemauri": f"{S}/versions/1"}, None, "x"),
        ({"dataschemauri": f"{S}#/definitions/n"}, 5, "x"),
        ({"dataschemauri": f"{S}:definitions/n"}, 5, "x"),
    ],
)
def test_schema_of_a_definition_is_found(definition: dict[str, Any], good: Any, bad: Any) -> None:
    """K-39, G-15, G-17"""
    use = shelf().of_definition({"dataschemaformat": FORMAT, **definition})
    assert use.schema is not None
    assert use.schema.validate(good) == []
    assert use.schema.validate(bad) != []


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("/schemagroups/g/schemas/none", Reason.SCHEMA_NOT_FOUND),
        ("https://elsewhere.example/s.json", Reason.SCHEMA_NOT_FOUND),
        ("/schemagroups/g/schemas/broken", Reason.CONTRACT_UNAVAILABLE),
        ("/schemagroups/g/schemas/strange", Reason.UNSUPPORTED_FORMAT),
        (f"{S}#/definitions/none", Reason.CONTRACT_UNAVAILABLE),
    ],
)
def test_unusable_schemas_are_reported(uri: str, reason: Reason) -> None:
    """K-39, K-44"""
    use = shelf().of_definition({"dataschemaformat": FORMAT, "dataschemauri": uri})
    assert (use.schema, use.reason) == (None, reason)
    assert use.findings


def test_no_schema_is_no_fault() -> None:
    """A definition without a schema is valid (K-42)."""
    use = shelf().of_definition({})
    assert (use.schema, use.reason) == (None, None)


@pytest.mark.parametrize(
    ("dataschema", "good"),
    [
        (f"https://r.example{S}/versions/1", None),  # the writer's version
        (f"https://r.example{S}", "x"),
        ("https://r.example/other/versions/1", "x"),  # not the definition's schema: never followed
    ],
)
def test_the_writers_version(dataschema: str, good: Any) -> None:
    """The dataschema of an event selects the version that wrote it (K-39)."""
    schemas = shelf()
    use = schemas.of_writer(schemas.of_definition({"dataschemauri": S}), dataschema)
    assert use.schema is not None
    assert use.schema.validate(good) == []


def test_missing_version_of_the_writer_is_reported() -> None:
    """K-39, K-44"""
    schemas = shelf()
    use = schemas.of_writer(schemas.of_definition({"dataschemauri": S}), f"https://r.example{S}/versions/9")
    assert use.reason is Reason.SCHEMA_NOT_FOUND


@pytest.mark.parametrize("writer", [f"https://r.example{S}/versions/9", 9])
def test_each_version_keeps_its_reading_schema(writer: str | int) -> None:
    """Definitions of different Versions have their own columns, whichever Version wrote an event (K-40)."""

    def version(*names: str) -> bytes:
        return dump_json({"type": "record", "name": "R", "fields": [field(name) for name in names]})

    def field(name: str) -> JSONObject:
        return {"name": name, "type": "int", "default": 0}

    texts = {"1": version("a"), "2": version("a", "b"), "9": version("a", "b", "c")}
    documents = {f"{S}/versions/{name}": document(text, f"{S}/versions/{name}", "Avro") for name, text in texts.items()}
    schemas = ContractSchemas({**documents, f"{S}?confluent.id=9": documents[f"{S}/versions/9"]}.get)
    data = []
    for name in ("1", "2", "1"):
        use = schemas.of_definition({"dataschemauri": f"{S}/versions/{name}"})
        use = schemas.of_number(use, writer) if isinstance(writer, int) else schemas.of_writer(use, writer)
        data.append(use.schema.decode(b"\x02\x04\x06") if use.schema else None)
    assert data == [{"a": 1}, {"a": 1, "b": 2}, {"a": 1}]


def test_a_definition_of_one_version_is_not_held_to_another() -> None:
    """A reference without a Version leaves each definition its own schema (K-39)."""
    schemas = shelf()
    uses = [schemas.of_definition({"dataschemauri": uri}) for uri in (S, f"{S}/versions/1")]
    assert [schemas.of_writer(use, f"https://r.example{S}") for use in uses] == uses


def test_versions_without_a_format_have_that_of_the_definition() -> None:
    """Only the definition states the format, of all Versions (K-39)."""
    texts = {"1": b'{"const": 1}', "2": b'{"const": 2}', "3": b'{"const": 3}'}
    documents = {
        f"{S}/versions/{name}": SchemaDocument(
            content=text, format="", xid=f"{S}/versions/{name}", versions=tuple(texts)
        )
        for name, text in texts.items()
    }
    by_number = {f"{S}?confluent.id=1": documents[f"{S}/versions/1"]}
    schemas = ContractSchemas({S: documents[f"{S}/versions/3"], **documents, **by_number}.get)
    use = schemas.of_definition({"dataschemaformat": FORMAT, "dataschemauri": S})
    written = schemas.of_writer(use, f"https://r.example{S}/versions/2"), schemas.of_number(use, 1)
    versions = [*schemas.earlier(use), *(version.schema for version in written)]
    assert [[n for n in range(4) if schema and not schema.validate(n)] for schema in versions] == [[1], [2], [2], [1]]


def test_versions_of_a_broken_schema_have_the_format_of_the_definition() -> None:
    """Other Versions can be read although the Version in use does not parse (K-39)."""
    texts = {"1": b'{"const": 1}', "2": b'{"type": 5}'}
    documents = {f"{S}/versions/{name}": document(text, f"{S}/versions/{name}", "") for name, text in texts.items()}
    by_number = {f"{S}?confluent.id=1": documents[f"{S}/versions/1"]}
    schemas = ContractSchemas({S: documents[f"{S}/versions/2"], **documents, **by_number}.get)
    use = schemas.of_definition({"dataschemaformat": FORMAT, "dataschemauri": S})
    assert use.reason is Reason.CONTRACT_UNAVAILABLE
    for version in (schemas.of_writer(use, f"https://r.example{S}/versions/1"), schemas.of_number(use, 1)):
        assert version.schema is not None
        assert version.schema.validate(1) == []


def test_missing_versions_are_not_cached() -> None:
    """Events name what they like: memory would be theirs to fill."""
    schemas = shelf()
    use = schemas.of_definition({"dataschemauri": S})
    for number in range(100):
        schemas.of_writer(use, f"https://r.example{S}/versions/x{number}")
        schemas.of_writer(use, f"https://r.example/{number}")
        schemas.of_number(use, number)
    assert not schemas._writers


def test_a_schema_is_parsed_once() -> None:
    schemas = shelf()
    first = schemas.of_definition({"dataschemauri": S})
    assert schemas.of_definition({"dataschemauri": f"#{S}"}) is first


def test_earlier_versions_are_those_before_the_used_one() -> None:
    texts = {"1": b'{"const": 1}', "9": b'{"const": 9}', "2": b'{"const": 2}', "3": b'{"const": 3}'}
    versions = ("1", "gone", "9", "2", "3")
    known = {
        f"{S}/versions/{name}": SchemaDocument(
            content=text, format=FORMAT, xid=f"{S}/versions/{name}", versions=versions
        )
        for name, text in texts.items()
    }
    schemas = ContractSchemas({S: known[f"{S}/versions/2"], **known}.get)
    use = schemas.of_definition({"dataschemaxid": S})
    assert [[n for n in range(10) if not schema.validate(n)] for schema in schemas.earlier(use)] == [[1], [9]]
    inline = schemas.of_definition({"dataschemaformat": FORMAT, "dataschema": {}})
    assert list(schemas.earlier(inline)) == []
