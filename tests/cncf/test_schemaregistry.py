from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.cncf import schemaregistry
from signalbook.cncf.ids import is_segment
from signalbook.cncf.schemaregistry import Stated
from signalbook.xid import Xid, version_number

V1 = Xid.parse("/schemagroups/g/schemas/s/versions/1")
TIMES = {"createdat": "2030-01-01T00:00:00Z", "modifiedat": "2031-01-01T00:00:00Z"}
AVRO = {"format": "Avro/1.12"}
TEXTS = st.text(max_size=8)
GROUPS = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["avro", "json-schema", "Avro/1.9", "own"]),
        "description": TEXTS.filter(bool),
        "groupProperties": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3),
    },
)


@given(GROUPS, GROUPS)
def test_every_group_comes_back(first: dict[str, Any], second: dict[str, Any]) -> None:
    """The previous group does not matter (A-3, A-5, A-6, A-7, J-8)."""
    stored: dict[str, Any] = {"schemagroupid": "g:1", **TIMES, "name": "kept"}
    for group in (first, second):
        assert schemaregistry.validate_group(group, "g%3A1") == []
        stored = {k: v for k, v in (stored | schemaregistry.group_attributes(group, stored)).items() if v is not None}
        times = {"createdtimeutc": TIMES["createdat"], "updatedtimeutc": TIMES["modifiedat"]}
        assert schemaregistry.render_group(stored) == {"id": "g%3A1", **group, **times}
        assert stored["name"] == "kept"


def test_existing_spelling_of_a_format_is_kept() -> None:
    """The group already has the spelling `avro` (J-8)."""
    assert "format" not in schemaregistry.group_attributes({"format": "avro"}, AVRO)


@pytest.mark.parametrize(
    ("text", "right"),
    [("my-group", True), ("a.b@c", True), ("a%20!$&'()*+,;=~_", True), ("", False), ("a:b", False), ("a b", False),
     ("a/b", False), ("a%2", False), ("é", False), ("a\n", False)],
)  # fmt: skip
def test_ids(text: str, right: bool) -> None:
    """A-2, A-12"""
    assert is_segment(text) == right


@pytest.mark.parametrize(
    ("stated", "group", "latest", "wrong"),
    [
        (Stated(), {}, None, True),
        (Stated(format="avro"), {}, None, False),
        (Stated(), {}, AVRO, False),
        (Stated(), AVRO, None, False),
        (Stated(format="avro"), AVRO, None, True),
        (Stated(format="avro"), AVRO, AVRO, True),
    ],
)
def test_missing_or_contradicting_format_is_a_finding(stated: Stated, group: Any, latest: Any, wrong: bool) -> None:
    """A-15, A-16"""
    assert (schemaregistry.validate_format(stated, group, latest) is not None) == wrong


@pytest.mark.parametrize(
    ("stated", "latest", "other"),
    [(Stated(), AVRO, None), (Stated(format="avro"), AVRO, None), (Stated(format="own"), AVRO, "avro"),
     (Stated(format="own"), None, None)],
)  # fmt: skip
def test_another_format(stated: Stated, latest: Any, other: str | None) -> None:
    """A stated format that differs from the latest version's is returned (A-16)."""
    assert schemaregistry.other_format(stated, latest) == other


@pytest.mark.parametrize(
    ("stated", "group", "latest", "attributes"),
    [
        (Stated(), AVRO, None, AVRO),
        (Stated(format="avro"), {}, None, {"format": "Avro/1.11"}),
        (Stated(format="Avro/1.9"), {}, None, {"format": "Avro/1.9", "formatname": "Avro/1.9"}),
        (Stated(), {}, {"format": "Avro/1.9", "formatname": "Avro/1.9"},
         {"format": "Avro/1.9", "formatname": "Avro/1.9"}),
        (Stated(id="1"), AVRO, {"authority": "urn:a", "globaluri": "2"},
         {**AVRO, "authority": "urn:a", "globaluri": "1"}),
        (Stated(authority="urn:b", description="d"), AVRO, {"authority": "urn:a", "description": "c"},
         {**AVRO, "authority": "urn:b", "description": "d"}),
    ],
)  # fmt: skip
def test_attributes_of_a_new_version(stated: Stated, group: Any, latest: Any, attributes: Any) -> None:
    """A-13, A-17, A-22, J-8, J-9"""
    assert schemaregistry.build_version_attributes(stated, group, latest, b"") == attributes


@pytest.mark.parametrize(
    ("stated", "count"),
    [(Stated(), 0), (Stated(authority="urn:x", id="342"), 0), (Stated(authority="example.com"), 1),
     (Stated(id="a%b"), 1), (Stated(id="a b"), 0), (Stated(authority="no", id="%"), 2),
     (Stated(description="x" * 5000), 1)],
)  # fmt: skip
def test_invalid_attributes_are_findings(stated: Stated, count: int) -> None:
    """A-13, A-20"""
    assert len(schemaregistry.validate_metadata(stated)) == count


def test_ids_and_uris_of_versions() -> None:
    """A-20, A-27, A-30"""
    base = "https://r.example/api"
    assert schemaregistry.version_id({}, V1) == "/schemagroups/g/schemas/s/versions/1"
    assert schemaregistry.version_uri({}, V1, base) == f"{base}/schemagroups/g/schemas/s/versions/1"
    assert schemaregistry.version_uri({"globaluri": "342", "authority": "urn:a"}, V1, base) == "urn:a:342"
    assert (version_number(V1.version_id), version_number("v1")) == (1, None)


def test_headers() -> None:
    """The format of the schema is that of the group (A-46, A-48, J-9)."""
    version = {"format": "Avro/1.11", "description": "d", "authority": "urn:a", "createdat": TIMES["createdat"]}
    assert dict(schemaregistry.build_version_headers(version, {"format": "JsonSchema"})) == {
        "Schema-Format": "json-schema", "Schema-Description": "d", "Schema-Authority": "urn:a",
        "Schema-Createdtimeutc": TIMES["createdat"],
    }  # fmt: skip
    assert dict(schemaregistry.build_version_headers({"format": "Own/1"}, {})) == {"Schema-Format": "Own/1"}


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
    attributes = schemaregistry.format_attributes(name)
    assert attributes["format"] == format
    assert schemaregistry.draft_format(attributes) == name


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
    """Formats are translated to the names of the drafts (J-8)."""
    assert schemaregistry.draft_format({"format": format}) == name


def test_a_name_that_does_not_hold_any_more() -> None:
    """xRegistry has changed the format since."""
    assert schemaregistry.draft_format({"format": "Avro/1.9", schemaregistry.FORMATNAME: "Avro/1.12"}) == "avro"


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
def test_json_schema_format_depends_on_the_draft(document: bytes, format: str) -> None:
    """The member $schema determines the format (J-8)."""
    assert schemaregistry.registry_format("json-schema", document) == format
