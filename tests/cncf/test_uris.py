"""URIs of versions, as the drafts print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.cncf.ids import compose, lookup_key, lookup_keys, path_in

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
    assert compose(authority, id, SCHEMAS) == uri
    assert compose(authority, id, f"{SCHEMAS}/") == uri


@pytest.mark.parametrize(
    ("authority", "id", "uri"),
    [
        ("", "342", "https://example.com/messagecatalog/342"),
        ("https://example.com/messagecatalog", "342", "https://example.com/messagecatalog/342"),
        (
            "http://messagecatalog.example.com/",
            "/mygroup/messagedefinitions/myMessage definition/versions/2",
            "http://messagecatalog.example.com/mygroup/messagedefinitions/myMessage%20definition/versions/2",
        ),
        (
            "http://messagecatalog.example.org/",
            "http://messagedefinitions.example.org/41751",
            "http://messagedefinitions.example.org/41751",
        ),
        ("urn:example:messagecatalog", "a1b2c3d4", "urn:example:messagecatalog:a1b2c3d4"),
    ],
)
def test_the_table_of_message_definitions(authority: str, id: str, uri: str) -> None:
    """B-8"""
    assert compose(authority, id, MESSAGES) == uri


SEGMENTS = st.text(alphabet="abc/:%20", max_size=9)
AUTHORITIES = st.sampled_from(["", "https://a.example/b", "https://a.example/", "urn:a:b", "a.example"])


@given(AUTHORITIES, SEGMENTS.filter(bool))
def test_what_was_composed_is_found(authority: str, id: str) -> None:
    """A-54: by whichever of an API's URLs it was composed."""
    for base in (SCHEMAS, f"{MESSAGES}/"):
        assert lookup_key(authority, id) in lookup_keys(compose(authority, id, base), [MESSAGES, SCHEMAS])


@given(AUTHORITIES)
def test_a_path_is_found_behind_every_authority(authority: str) -> None:
    """A-20"""
    assert path_in(compose(authority, PATH, SCHEMAS)) == PATH
