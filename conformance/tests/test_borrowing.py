"""Types of a server's own model that cases can use, and bodies with what these types require."""

from typing import Any

import pytest

from xregistry_conformance.borrowing import Cast, borrow, complete, required_headers, with_details
from xregistry_conformance.values import JSONObject

NOTES = {"singular": "n", "hasdocument": False}
NONSENSE = {"type": "nonsense", "required": True}
ODD = {"a": {"type": "xid", "required": True}}


def found(model: JSONObject, *roles: str, wants: str = "") -> Cast:
    return borrow({"groups": model}, frozenset(roles), wants=frozenset(wants.split()))


def test_first_suitable_type_is_used() -> None:
    model: JSONObject = {
        "a": {"singular": "x", "attributes": {"need": NONSENSE}, "resources": {"r": NOTES}},
        "b": {
            "singular": "bb",
            "attributes": {"bbid": {"required": True}, "given": {"required": True, "default": 1}},
            "resources": {"few": {**NOTES, "singular": "f", "maxversions": 1}, "docs": {"singular": "doc"}},
        },
        "c": {"singular": "cc", "resources": {"plain": NOTES}},
    }
    assert found(model, "notes").names == {"dirs": "b", "dir": "bb", "notes": "few", "note": "f"}
    assert found(model, "notes", wants="versions").names == {"dirs": "c", "dir": "cc", "notes": "plain", "note": "n"}
    assert found(model, "dirs", "files").names == {"dirs": "b", "dir": "bb", "files": "docs", "file": "doc"}
    assert found(model, "files", "notes").names.keys() == {"dirs", "dir", "files", "file", "notes", "note"}


@pytest.mark.parametrize(
    ("resource", "role", "reason"),
    [
        ({}, "notes", "g/r has documents"),
        (NOTES, "files", "g/r has no documents"),
        ({**NOTES, "maxversions": 2}, "notes", "g/r keeps 2 Versions"),
        ({**NOTES, "setversionid": False}, "notes", "g/r chooses versionids itself"),
        ({**NOTES, "singleversionroot": True}, "notes", "g/r has one root"),
        ({**NOTES, "versionmode": "semver"}, "notes", "g/r orders Versions by semver"),
        ({"typemap": {"a/b": "json"}}, "files", "g/r has a typemap"),
        ({"strictvalidation": True}, "files", "g/r validates documents strictly"),
        ({**NOTES, "attributes": {"*": {"type": "any"}}}, "notes", "g/r takes any attribute"),
        ({**NOTES, "attributes": ODD}, "notes", "g/r requires a, which the kit has no value for"),
    ],
)
def test_missing_type_has_its_reason(resource: JSONObject, role: str, reason: str) -> None:
    model = {"g": {"singular": "x", "resources": {"r": resource}}}
    reason_found = found(model, role, wants="versions closed plain").reason
    assert reason_found == f"no type of the server's model will do: {reason}"


def test_a_model_without_types() -> None:
    assert found({}, "dirs").reason.endswith("it has none")
    assert found({"g": {"singular": "x"}}, "notes").reason.endswith("g has no Resource types")


def test_notes_with_documents() -> None:
    """The metadata of documents serve as notes if all types have documents."""
    model = {"g": {"singular": "x", "resources": {"docs": {"singular": "doc"}}}}
    cast = found(model, "dirs", "notes")
    assert (cast.names, cast.details) == ({"dirs": "g", "dir": "x", "notes": "docs", "note": "doc"}, True)
    assert found(model, "notes", wants="plain").reason.endswith("g/docs has documents")
    assert with_details(cast, "PUT", "/g/1/docs/d/versions/v?inline") == "/g/1/docs/d/versions/v$details?inline"
    assert with_details(cast, "GET", "/g/1/docs/d") == "/g/1/docs/d$details"
    for line in ("DELETE /g/1/docs/d", "GET /g/1/docs", "PUT /g/1/docs/d/meta", "GET /g/1"):
        method, target = line.split()
        assert with_details(cast, method, target) == target


CAST = Cast(
    names={"dirs": "gs", "files": "docs", "notes": "ns"},
    required={"gs": {"owner": "kit"}, "docs": {"format": "kit/1.0"}, "ns": {"size": 1}},
)


@pytest.mark.parametrize(
    ("request_line", "body", "sent"),
    [
        ("PUT /gs/g", {"name": "x"}, {"owner": "kit", "name": "x"}),
        ("PUT /gs/g", {"owner": None}, {"owner": None}),
        ("PUT /gs/g", [1], [1]),
        ("POST /gs", {"g": {}}, {"g": {"owner": "kit"}}),
        ("PATCH /", {"name": "x", "gs": {"g": {}}}, {"name": "x", "gs": {"g": {"owner": "kit"}}}),
        ("POST /gs/g", {"ns": {"a": {}}}, {"ns": {"a": {"size": 1}}}),
        ("PUT /gs/g", {"ns": {"a": {}}}, {"owner": "kit", "ns": {"a": {"size": 1}}}),
        ("POST /gs/g/ns?inline", {"a": {}, "b": None}, {"a": {"size": 1}, "b": None}),
        ("PUT /gs/g/ns/a", {"versions": {"v1": {}}}, {"versions": {"v1": {"size": 1}}}),
        ("PUT /gs/g/ns/a", {"meta": {"xref": "/x"}}, {"meta": {"xref": "/x"}}),
        ("PUT /gs/g/ns/a/meta", {}, {}),
        ("PUT /gs/g/ns/a/versions/v1", {}, {"size": 1}),
        ("POST /gs/g/ns/a/versions", {"v1": {}}, {"v1": {"size": 1}}),
        ("PUT /gs/g/docs/d$details", {}, {"format": "kit/1.0"}),
        ("PUT /gs/g/docs/d", {"a": "document"}, {"a": "document"}),
        ("PUT /others/g", {}, {}),
        ("DELETE /gs/g/ns", {"a": {}}, {"a": {}}),
    ],
)
def test_bodies(request_line: str, body: Any, sent: Any) -> None:
    method, _, target = request_line.partition(" ")
    assert complete(CAST, method, target, body) == sent


@pytest.mark.parametrize(
    ("request_line", "sent"),
    [
        ("PUT /gs/g/docs/d", [("xRegistry-format", "kit/1.0")]),
        ("POST /gs/g/docs/d/versions/1?x", [("xRegistry-format", "kit/1.0")]),
        ("PUT /gs/g/docs/d$details", []),
        ("GET /gs/g/docs/d", []),
        ("PUT /gs/g/ns/a", []),
    ],
)
def test_headers(request_line: str, sent: Any) -> None:
    method, _, target = request_line.partition(" ")
    assert list(required_headers(CAST, method, target)) == sent


def test_required_attributes_get_values() -> None:
    attributes = {
        "a": {"type": "object", "required": True, "attributes": {"in": {"type": "uinteger", "required": True}}},
        "b": {"type": "string", "enum": ["x", "y"], "required": True},
        "format": {"type": "string", "required": True},
        "free": {"type": "string"},
    }
    model = {"g": {"singular": "x", "attributes": attributes}}
    assert found(model, "dirs").required == {"g": {"a": {"in": 1}, "b": "x", "format": "kit/1.0"}}
