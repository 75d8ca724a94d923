"""The path grammar (core/spec.md "xid", "<SINGULAR>id")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.xid import COLLECTIONS, ROOT, Kind, Xid, XidError, check_id

ids = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,127}\Z")
types = st.from_regex(r"\A[a-z_][a-z0-9_]{0,62}\Z")


@given(types, ids, types, ids, ids)
def test_parts(group_type: str, group: str, resource_type: str, resource: str, version: str) -> None:
    xid = Xid.parse(f"/{group_type}/{group}/{resource_type}/{resource}/versions/{version}")
    assert (xid.group_type, xid.group_id, xid.resource_type) == (group_type, group, resource_type)
    assert (xid.resource_id, xid.version_id, xid.id) == (resource, version, version)
    assert xid.resource == xid.owner == Xid.parse(f"/{group_type}/{group}/{resource_type}/{resource}")
    assert xid.resource / "versions" / version == xid
    assert xid.parent == xid.resource / "versions"


@pytest.mark.parametrize(
    ("text", "kind", "owner", "parent", "id"),
    [
        ("/", Kind.REGISTRY, "/", "/", ""),
        ("/dirs", Kind.GROUPS, "/", "/", ""),
        ("/dirs/d", Kind.GROUP, "/", "/dirs", "d"),
        ("/dirs/d/files", Kind.RESOURCES, "/dirs/d", "/dirs/d", ""),
        ("/dirs/d/files/f", Kind.RESOURCE, "/dirs/d", "/dirs/d/files", "f"),
        ("/dirs/d/files/f/meta", Kind.META, "/dirs/d/files/f", "/dirs/d/files/f", "f"),
        ("/dirs/d/files/f/versions", Kind.VERSIONS, "/dirs/d/files/f", "/dirs/d/files/f", ""),
        ("/dirs/d/files/f/versions/1", Kind.VERSION, "/dirs/d/files/f", "/dirs/d/files/f/versions", "1"),
    ],
)
def test_kind_owner_and_parent_of_an_xid(text: str, kind: Kind, owner: str, parent: str, id: str) -> None:
    xid = Xid.parse(text)
    assert (str(xid), xid.kind, xid.is_collection) == (text, kind, kind in COLLECTIONS)
    assert (str(xid.owner), str(xid.parent), xid.id) == (owner, parent, id)


@pytest.mark.parametrize(
    "text",
    [
        "", "dirs", "//", "/dirs/", "/Dirs", "/1dirs", "/dirs/d d", "/dirs/.d", "/dirs/d/files/f/nope",
        "/dirs/d/files/f/meta/x", "/dirs/d/files/f/versions/1/x", "/dirs/../etc", "/dirs/%2e", "/dirs/d\n", "/dirs/ä",
        "/" + "a" * 64, "/dirs/" + "a" * 129,
    ],
)  # fmt: skip
def test_invalid_xid_is_rejected(text: str) -> None:
    with pytest.raises(XidError):
        Xid.parse(text)


@pytest.mark.parametrize("text", ["a", "_", "0", "a.b~c:d@e-f", "A" * 128])
def test_ids(text: str) -> None:  # R25
    assert check_id(text) == text


@pytest.mark.parametrize("text", ["", ".", "-a", "a b", "a/b", "é", "a" * 129, "a\n", "٣"])
def test_invalid_id_is_rejected(text: str) -> None:
    with pytest.raises(XidError):
        check_id(text)


def test_the_root_has_no_parts() -> None:
    assert Xid.parse("/") is ROOT
    assert (ROOT.group_type, ROOT.group_id, ROOT.resource_type, ROOT.resource_id, ROOT.version_id) == ("",) * 5
