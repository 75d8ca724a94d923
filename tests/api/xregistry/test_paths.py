"""URL paths: shapes, ``$details``, trailing slashes, methods."""

import pytest

from signalbook.api.registrypaths import NAMES
from signalbook.api.xregistry.requests import check_path, parse_path
from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.xid import Kind

FILES = {"files": {"singular": "file"}, "notes": {"singular": "note", "hasdocument": False}}
MODEL = compile_model({"groups": {"dirs": {"singular": "dir", "resources": FILES}}})


def code(raw: str) -> str:
    with pytest.raises(RegistryError) as caught:
        check_path(parse_path(raw), MODEL)
    return caught.value.code


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("", Kind.REGISTRY),
        ("/", Kind.REGISTRY),
        ("/dirs", Kind.GROUPS),
        ("/dirs/", Kind.GROUPS),
        ("/dirs/d1", Kind.GROUP),
        ("/dirs/d1/files", Kind.RESOURCES),
        ("/dirs/d1/files/f1", Kind.RESOURCE),
        ("/dirs/d1/files/f1/", Kind.RESOURCE),
        ("/dirs/d1/files/f1/meta", Kind.META),
        ("/dirs/d1/files/f1/versions", Kind.VERSIONS),
        ("/dirs/d1/files/f1/versions/v1", Kind.VERSION),
    ],
)
def test_shapes(raw: str, kind: Kind) -> None:
    path = parse_path(raw)
    assert path.target.kind is kind
    assert not path.details
    check_path(path, MODEL)


@pytest.mark.parametrize("name", NAMES)
def test_reserved_paths_are_recognised(name: str) -> None:
    assert parse_path(f"/{name}").name == parse_path(f"/{name}/").name == name
    assert code(f"/{name}/foo") == "api_not_found"


def test_percent_encoding() -> None:
    assert parse_path("/dirs/a%3Ab%40c").target.group_id == "a:b@c"
    assert parse_path("/dirs/d1/files/f1%24details").details


@pytest.mark.parametrize("raw", ["/dirs/d1/files/f1$details", "/dirs/d1/files/f1/versions/v1$details"])
def test_details(raw: str) -> None:
    """The suffix is not part of the id (R153)."""
    path = parse_path(raw)
    assert path.details
    assert "$" not in str(path.target)
    assert path.text == raw


MISPLACED = """/$details /dirs$details /dirs/d1$details /dirs/d1/files$details /dirs/d1/files/f1/meta$details
    /dirs/d1/files/f1/versions$details /dirs/d1/files/f1$details/versions /model$details"""


@pytest.mark.parametrize("raw", MISPLACED.split())
def test_misplaced_details(raw: str) -> None:
    """The suffix $details is rejected where it is not allowed (R155)."""
    assert code(raw) == "bad_details"


@pytest.mark.parametrize("raw", ["/nope", "/Dirs", "/nope/x", "/dirs/d1/nope", "/dirs/d1/nope/x", "/favicon.ico"])
def test_unknown_types_are_not_found(raw: str) -> None:
    """GAP 14."""
    assert code(raw) == "not_found"


@pytest.mark.parametrize(
    "raw", ["/dirs/a b", "/dirs/-a", "/dirs/%2Fetc", "/dirs/..", f"/dirs/{'x' * 129}", "/dirs/%FF"]
)
def test_invalid_id_is_rejected(raw: str) -> None:
    """Ids with invalid characters or lengths are rejected (R25)."""
    assert code(raw) == "malformed_id"
