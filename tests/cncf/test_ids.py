import re
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.cncf import ids
from signalbook.xid import ID, Xid, version_number

_SEGMENT = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-F]{2})+")
TRICKY = st.text(alphabet="_~257EDFAa-.:@!", max_size=12)


@pytest.mark.parametrize(
    ("segment", "id"),
    [
        ("events", "events"),
        ("events@example.com", "events@example.com"),
        ("a%3Ab", "a:b"),
        ("a!b", "a~21b"),
        ("a%20b", "a~20b"),
        ("m%C3%B6we", "m~C3~B6we"),
        ("a~b", "a~b"),
        ("a~41", "a~41"),
        ("a~21", "a~7E21"),
        ("a~!", "a~~21"),
        ("!a", "_~21a"),
        (".a", "_~2Ea"),
        ("~", "_~7E"),
        ("~21", "_~7E21"),
        ("_~21", "_~5F~7E21"),
        ("_!", "_~5F~21"),
    ],
)
def test_ids(segment: str, id: str) -> None:
    """Ids and path segments are converted in both directions (J-19)."""
    assert ids.entity_id(segment) == id
    assert ids.draft_id(id) == segment


@given(st.from_regex(ID, fullmatch=True) | TRICKY.filter(lambda text: bool(ID.fullmatch(text))))
def test_every_id_of_xregistry_comes_back(id: str) -> None:
    """Every id of xRegistry survives the round trip (J-19)."""
    assert _SEGMENT.fullmatch(ids.draft_id(id))
    assert ids.entity_id(ids.draft_id(id)) == id


@given(st.from_regex(_SEGMENT, fullmatch=True) | TRICKY.map(lambda text: text.replace(":", "%3A")))
def test_every_id_of_a_draft_comes_back(segment: str) -> None:
    """J-19, but for percent-encoding that is not needed."""
    converted = ids.entity_id(segment)
    assert len(converted) > 128 or not converted or ID.fullmatch(converted)
    assert ids.entity_id(ids.draft_id(converted)) == converted
    assert unquote_to_bytes(ids.draft_id(converted)) == unquote_to_bytes(segment)


@pytest.mark.parametrize(
    ("xid", "schema", "message"),
    [
        ("/", None, None),
        ("/schemagroups", None, None),
        ("/schemagroups/g", "/schemagroups/g", None),
        ("/schemagroups/g/schemas/s:1", "/schemagroups/g/schemas/s%3A1", None),
        ("/schemagroups/g/schemas/s/meta", None, None),
        ("/schemagroups/g/schemas/s/versions/3", "/schemagroups/g/schemas/s/versions/3", None),
        ("/schemagroups/g/schemas/s/versions/v3", None, None),
        ("/schemagroups/g/files/s", None, None),
        ("/messagegroups/g", None, "/messagecatalog/g"),
        ("/messagegroups/g/messages/m", None, "/messagecatalog/g/messagedefinitions/m"),
        ("/messagegroups/g/messages/m/versions/12", None, "/messagecatalog/g/messagedefinitions/m/versions/12"),
        ("/endpoints/e/messages/m", None, None),
    ],
)
def test_paths(xid: str, schema: str | None, message: str | None) -> None:
    """The paths contain `/versions/`, not `/version/` (J-8, J-11, D-20)."""
    assert ids.schema_path(Xid.parse(xid)) == schema
    assert ids.message_path(Xid.parse(xid)) == message
    assert ids.schema_xid(schema or "/") == (Xid.parse(xid) if schema else None)
    assert ids.message_xid(message or "/") == (Xid.parse(xid) if message else None)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/schemagroups", "/schemagroups/", "/schemagroups/g/schemas", "/schemagroups/g/schemas/s/versions/01",
        "/schemagroups/g/files/s", "/schemagroups/" + 99 * "%00", "schemagroups/g",
    ],
)  # fmt: skip
def test_other_paths_have_no_schema(path: str) -> None:
    """Paths of another shape have no schema (J-19)."""
    assert ids.schema_xid(path) is None


@pytest.mark.parametrize(
    ("versionid", "number"),
    [("1", 1), ("42", 42), ("2147483647", 2147483647), ("2147483648", None), ("0", None), ("01", None), ("1.0", None)],
)
def test_numbers_of_versions(versionid: str, number: int | None) -> None:
    """A version id is a number only in its canonical form (J-10)."""
    assert version_number(versionid) == number


PATH = "/schemagroups/g/schemas/s/versions/1"
SCHEMAS = "https://example.com/registry"
MESSAGES = "https://example.com/messagecatalog"


@pytest.mark.parametrize(
    ("authority", "id", "uri"),
    [
        ("", "342", "https://example.com/registry/342"),
        ("https://example.com/registry", "342", "https://example.com/registry/342"),
        (
            "http://schemas.example.com/",
            "/mygroup/schemas/myschema/versions/2",
            "http://schemas.example.com/mygroup/schemas/myschema/versions/2",
        ),
        ("http://schemas.example.org/", "http://schemas.example.org/41751", "http://schemas.example.org/41751"),
        ("urn:example:schemas", "a1b2c3d4", "urn:example:schemas:a1b2c3d4"),
        ("", PATH, f"https://example.com/registry{PATH}"),
        ("urn:example:schemas", PATH, f"urn:example:schemas:{PATH}"),
        ("", "urn:example:1", "urn:example:1"),
        ("cloudevents.io", "342", "cloudevents.io/342"),
    ],
)
def test_the_table_of_schemas(authority: str, id: str, uri: str) -> None:
    """A-27, A-28, A-29, A-30, L-19"""
    assert ids.compose(authority, id, SCHEMAS) == uri
    assert ids.compose(authority, id, f"{SCHEMAS}/") == uri


@pytest.mark.parametrize(
    ("authority", "id", "uri"),
    [
        ("", "342", "https://example.com/messagecatalog/342"),
        ("https://example.com/messagecatalog", "342", "https://example.com/messagecatalog/342"),
        ("http://messagecatalog.example.com/", "/mygroup/messagedefinitions/myMessage definition/versions/2",
            "http://messagecatalog.example.com/mygroup/messagedefinitions/myMessage%20definition/versions/2"),
        ("http://messagecatalog.example.org/", "http://messagedefinitions.example.org/41751",
            "http://messagedefinitions.example.org/41751"),
        ("urn:example:messagecatalog", "a1b2c3d4", "urn:example:messagecatalog:a1b2c3d4"),
    ],
)  # fmt: skip
def test_the_table_of_message_definitions(authority: str, id: str, uri: str) -> None:
    """The URI of a message definition is composed of its authority and its id (B-8)."""
    assert ids.compose(authority, id, MESSAGES) == uri


SEGMENTS = st.text(alphabet="abc/:%20", max_size=9)
AUTHORITIES = st.sampled_from(["", "https://a.example/b", "https://a.example/", "urn:a:b", "a.example"])


@given(AUTHORITIES, SEGMENTS.filter(bool))
def test_composed_uri_is_found(authority: str, id: str) -> None:
    """The URI may be composed with any URL of the API (A-54)."""
    for base in (SCHEMAS, f"{MESSAGES}/"):
        assert ids.lookup_key(authority, id) in ids.lookup_keys(ids.compose(authority, id, base), [MESSAGES, SCHEMAS])


@given(AUTHORITIES)
def test_path_is_found_after_every_authority(authority: str) -> None:
    """The path of an entity is found behind every authority (A-20)."""
    assert ids.extract_path(ids.compose(authority, PATH, SCHEMAS)) == PATH
