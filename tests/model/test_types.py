import pytest

from signalbook.model.types import SCALARS, EntityTypes, ReferenceFault, describe, find_scalar_check, parse_target
from signalbook.values import JSON

TYPES = EntityTypes(groups={"dirs": {"files": "/dirs/files"}, "boxes": {"files": "/dirs/files", "lids": "/boxes/lids"}})

GOOD: dict[str, list[JSON]] = {
    "boolean": [True],
    "decimal": [1, -1.5],
    "integer": [-3],
    "uinteger": [0],
    "string": ["", "ü\u0000"],  # R10
    "uri": ["https://example.com/a?b#c", "urn:isbn:1", "#/schemagroups/g", "../x"],
    "uriabsolute": ["a:b"],
    "urirelative": ["/a/b:c"],
    "uritemplate": ["spBv1.0/{group_id}/NDEATH/{+edge,node:3}", "plain/é"],
    "url": ["https://example.com/", "docs/readme"],
    "urlabsolute": ["ftp://example.com/x"],
    "urlrelative": ["?x=1"],
    "xid": ["/", "/dirs/d", "/dirs/d/files/f/meta", "/dirs/d/files/f/versions/1"],
    "xidtype": ["/", "/dirs", "/dirs/files/versions"],
}
BAD: dict[str, list[JSON]] = {
    "boolean": ["true", 1],  # R6
    "decimal": [True, "1"],
    "integer": [1.5, False],
    "uinteger": [-1],
    "string": [5, []],
    "timestamp": ["yesterday", 5, "2024-04-31T12:00:00Z"],
    "uri": ["a b", "http://x/%zz", "1:b", "a#b#c"],
    "uriabsolute": ["/a"],
    "urirelative": ["http://x"],
    "uritemplate": ["{", "{a-b}", "a b"],
    "url": ["", "urn:isbn:1"],
    "xid": ["dirs/d", "/dirs", "/Dirs/d", "/none/d", "/dirs/d/none/x", 5],  # R8
    "xidtype": ["/dir", "/dirs/", "/dirs/none", "/dirs/files/meta", "dirs"],  # R9
}


def list_cases(table: dict[str, list[JSON]]) -> list[tuple[str, JSON]]:
    return [(name, value) for name, values in table.items() for value in values]


@pytest.mark.parametrize(("name", "value"), list_cases(GOOD))
def test_accepts(name: str, value: JSON) -> None:
    """A value of each type is returned unchanged (R2)."""
    assert find_scalar_check(name, TYPES)(value) == value


@pytest.mark.parametrize(("name", "value"), list_cases(BAD))
def test_rejects(name: str, value: JSON) -> None:
    """A value of another type is rejected (R2)."""
    with pytest.raises(ValueError):
        find_scalar_check(name, TYPES)(value)


@pytest.mark.parametrize(
    ("name", "value", "code", "arguments"),
    [
        ("xid", "dirs/d", "malformed_xid", {"xid": "dirs/d", "error_detail": "it has to start with a slash"}),
        ("xid", "/dirs", "malformed_xid", {"xid": "/dirs", "error_detail": "it names a collection, not an entity"}),
        ("xid", "/none/d", "unknown_group_type", {"name": "none"}),
        ("xid", "/dirs/d/none/x", "unknown_resource_type", {"group": "dirs", "name": "none"}),
        ("xidtype", "/none", "unknown_group_type", {"name": "none"}),
        ("xidtype", "/dirs/none", "unknown_resource_type", {"group": "dirs", "name": "none"}),
    ],
)
def test_references_have_errors_of_their_own(name: str, value: str, code: str, arguments: dict[str, str]) -> None:
    """R8, R9, R33."""
    with pytest.raises(ReferenceFault) as caught:
        find_scalar_check(name, TYPES)(value)
    assert (caught.value.code, caught.value.arguments.keys()) == (code, arguments.keys())
    assert caught.value.arguments | {"error_detail": ""} == arguments | {"error_detail": ""}


@pytest.mark.parametrize("name", sorted(SCALARS))
@pytest.mark.parametrize("value", [{}, [], [1]])
def test_no_scalar_is_a_container(name: str, value: JSON) -> None:
    with pytest.raises(ValueError):
        find_scalar_check(name, TYPES)(value)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2030-12-19T06:00:00+01:00", "2030-12-19T05:00:00Z"),
        ("2030-12-19T06:00:00", "2030-12-19T06:00:00Z"),
        ("2030-12-19t06:00:00.25z", "2030-12-19T06:00:00.250000Z"),
    ],
)
def test_timestamps_become_utc(text: str, stored: str) -> None:
    """Timestamps are normalised to UTC (R7)."""
    assert find_scalar_check("timestamp", TYPES)(text) == stored


TARGETS = [
    ("/dirs", "/dirs/d", True),
    ("/dirs", "/boxes/b", False),
    ("/dirs", "/dirs/d/files/f", False),
    ("/dirs/files", "/dirs/d/files/f", True),
    ("/dirs/files", "/boxes/b/files/f", True),  # an imported type is the type it comes from
    ("/boxes/files", "/dirs/d/files/f", True),
    ("/dirs/files", "/boxes/b/lids/l", False),
    ("/dirs/files", "/dirs/d/files/f/versions/1", False),
    ("/dirs/files/versions", "/dirs/d/files/f/versions/1", True),
    ("/dirs/files/versions", "/dirs/d/files/f", False),
    ("/dirs/files[/versions]", "/dirs/d/files/f", True),
    ("/dirs/files[/versions]", "/dirs/d/files/f/versions/1", True),
    ("/dirs/files[/versions]", "/dirs/d/files/f/meta", False),
]


@pytest.mark.parametrize(("target", "value", "good"), TARGETS)
@pytest.mark.parametrize("name", ["xid", "uri", "url"])
def test_targets(name: str, target: str, value: str, good: bool) -> None:
    """The target limits the allowed values of an attribute (R77, R78)."""
    check = find_scalar_check(name, TYPES, parse_target(target, TYPES))
    if good:
        assert check(value) == value
    else:
        with pytest.raises(ValueError, match="not of type"):
            check(value)


@pytest.mark.parametrize("name", ["uri", "url"])
@pytest.mark.parametrize("value", ["https://example.com/dirs", "#/dirs/d", "other"])
def test_targets_leave_other_uris_free(name: str, value: str) -> None:
    """A target does not restrict URIs outside of the registry (R78)."""
    assert find_scalar_check(name, TYPES, parse_target("/dirs", TYPES))(value) == value


@pytest.mark.parametrize("target", ["dirs", "/", "/none", "/dirs/none", "/dirs/files/meta", "/dirs[/versions]", 5, ""])
def test_bad_targets(target: JSON) -> None:
    """Invalid targets are rejected (R77)."""
    with pytest.raises(ValueError):
        parse_target(target, TYPES)


@pytest.mark.parametrize(
    ("value", "words"),
    [("x" * 99, f'"{"x" * 60}..."'), (10**99, f"{10**59}..."), (None, "null"), ([], "an array"), ({}, "an object")],
)
def test_values_are_described_in_few_words(value: JSON, words: str) -> None:
    assert describe(value) == words
