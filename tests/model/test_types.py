"""The scalar types of the model language."""

from __future__ import annotations

import pytest

from signalbook.model.types import SCALARS, EntityTypes, ReferenceFault, describe, parse_target, scalar_check
from signalbook.values import JSON

TYPES = EntityTypes(groups={"dirs": {"files": "/dirs/files"}, "boxes": {"files": "/dirs/files", "lids": "/boxes/lids"}})

GOOD: list[tuple[str, JSON]] = [
    ("boolean", True),
    ("decimal", 1),
    ("decimal", -1.5),
    ("integer", -3),
    ("uinteger", 0),
    ("string", ""),  # R10
    ("string", "ü\u0000"),
    ("uri", "https://example.com/a?b#c"),
    ("uri", "urn:isbn:1"),
    ("uri", "#/schemagroups/g"),
    ("uri", "../x"),
    ("uriabsolute", "a:b"),
    ("urirelative", "/a/b:c"),
    ("uritemplate", "spBv1.0/{group_id}/NDEATH/{+edge,node:3}"),
    ("uritemplate", "plain/é"),
    ("url", "https://example.com/"),
    ("url", "docs/readme"),
    ("urlabsolute", "ftp://example.com/x"),
    ("urlrelative", "?x=1"),
    ("xid", "/"),
    ("xid", "/dirs/d"),
    ("xid", "/dirs/d/files/f/meta"),
    ("xid", "/dirs/d/files/f/versions/1"),
    ("xidtype", "/"),
    ("xidtype", "/dirs"),
    ("xidtype", "/dirs/files/versions"),
]
BAD: list[tuple[str, JSON]] = [
    ("boolean", "true"),  # R6
    ("boolean", 1),
    ("decimal", True),
    ("decimal", "1"),
    ("integer", 1.5),
    ("integer", False),
    ("uinteger", -1),
    ("string", 5),
    ("string", []),
    ("timestamp", "yesterday"),
    ("timestamp", 5),
    ("timestamp", "2024-04-31T12:00:00Z"),
    ("uri", "a b"),
    ("uri", "http://x/%zz"),
    ("uri", "1:b"),
    ("uri", "a#b#c"),
    ("uriabsolute", "/a"),
    ("urirelative", "http://x"),
    ("uritemplate", "{"),
    ("uritemplate", "{a-b}"),
    ("uritemplate", "a b"),
    ("url", ""),
    ("url", "urn:isbn:1"),
    ("xid", "dirs/d"),  # R8
    ("xid", "/dirs"),
    ("xid", "/Dirs/d"),
    ("xid", "/none/d"),
    ("xid", "/dirs/d/none/x"),
    ("xid", 5),
    ("xidtype", "/dir"),  # R9
    ("xidtype", "/dirs/"),
    ("xidtype", "/dirs/none"),
    ("xidtype", "/dirs/files/meta"),
    ("xidtype", "dirs"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_accepts(name: str, value: JSON) -> None:
    """R2: values of each type, unchanged."""
    assert scalar_check(name, TYPES)(value) == value


@pytest.mark.parametrize(("name", "value"), BAD)
def test_rejects(name: str, value: JSON) -> None:
    """R2: values that are not of the type."""
    with pytest.raises(ValueError):
        scalar_check(name, TYPES)(value)


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
        scalar_check(name, TYPES)(value)
    assert (caught.value.code, caught.value.arguments.keys()) == (code, arguments.keys())
    assert caught.value.arguments | {"error_detail": ""} == arguments | {"error_detail": ""}


@pytest.mark.parametrize("name", sorted(SCALARS))
@pytest.mark.parametrize("value", [{}, [], [1]])
def test_no_scalar_is_a_container(name: str, value: JSON) -> None:
    with pytest.raises(ValueError):
        scalar_check(name, TYPES)(value)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2030-12-19T06:00:00+01:00", "2030-12-19T05:00:00Z"),
        ("2030-12-19T06:00:00", "2030-12-19T06:00:00Z"),
        ("2030-12-19t06:00:00.25z", "2030-12-19T06:00:00.250000Z"),
    ],
)
def test_timestamps_become_utc(given: str, stored: str) -> None:
    """R7."""
    assert scalar_check("timestamp", TYPES)(given) == stored


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
    """R77, R78: what an attribute with a target may point at."""
    check = scalar_check(name, TYPES, parse_target(target, TYPES))
    if good:
        assert check(value) == value
    else:
        with pytest.raises(ValueError, match="not of type"):
            check(value)


@pytest.mark.parametrize("name", ["uri", "url"])
@pytest.mark.parametrize("value", ["https://example.com/dirs", "#/dirs/d", "other"])
def test_targets_leave_other_uris_free(name: str, value: str) -> None:
    """R78."""
    assert scalar_check(name, TYPES, parse_target("/dirs", TYPES))(value) == value


@pytest.mark.parametrize("target", ["dirs", "/", "/none", "/dirs/none", "/dirs/files/meta", "/dirs[/versions]", 5, ""])
def test_bad_targets(target: JSON) -> None:
    """R77."""
    with pytest.raises(ValueError):
        parse_target(target, TYPES)


@pytest.mark.parametrize(
    ("value", "words"),
    [("x" * 99, f'"{"x" * 60}..."'), (10**99, f"{10**59}..."), (None, "null"), ([], "an array"), ({}, "an object")],
)
def test_values_are_described_in_few_words(value: JSON, words: str) -> None:
    assert describe(value) == words
