"""Formats, compatibility and attributes that all Versions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSON, JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

F1 = "/dirs/d1/files/f1"
V1 = f"{F1}/versions/1"
DRAFT7 = "JsonSchema/draft-07"
BAD: JSONObject = {"type": "nonsense"}
HOST = "http://json-schema.org"


@pytest.fixture
def checked(make: Make) -> Registry:
    return make(validateformat=True, validatecompatibility=True)


@pytest.fixture
def strict(make: Make) -> Registry:
    return make(validateformat=True, validatecompatibility=True, strictvalidation=True)


def outcome(registry: Registry) -> dict[str, JSON]:
    return {name: value for name, value in registry.row(V1).attributes.items() if "validated" in name}


def test_valid_document(checked: Registry) -> None:
    """R253; the outcome is the server's to say."""
    checked.put(F1, {"format": DRAFT7, "file": {"type": "object"}, "formatvalidated": False})
    assert outcome(checked) == {"formatvalidated": True}
    checked.patch(F1, {"name": "n"})
    assert outcome(checked) == {"formatvalidated": True}


def test_violation(checked: Registry) -> None:
    """R255."""
    error = checked.refused("PUT", F1, {"format": DRAFT7, "file": BAD})
    assert (error.code, error.subject, error.arguments) == ("format_violation", V1, {"format": DRAFT7})
    assert error.faults


def test_schema_in_a_string(checked: Registry) -> None:
    """R248: inline text without a content type is a JSON string; the schema is what the string says."""
    checked.put(F1, {"format": DRAFT7, "file": '{"type": "object"}'})
    assert checked.content(V1).startswith(b'"')
    assert outcome(checked) == {"formatvalidated": True}
    assert checked.refused("PUT", F1, {"format": DRAFT7, "file": '{"type": "nonsense"}'}).code == "format_violation"
    assert checked.refused("PUT", F1, {"format": DRAFT7, "filebase64": "ImE="}).code == "format_violation"


@pytest.mark.parametrize("change", [{"file": BAD}, {"filebase64": "AA=="}, {"file": None}])
def test_violation_by_update(checked: Registry, change: JSONObject) -> None:
    checked.put(F1, {"format": DRAFT7, "file": {}})
    assert checked.refused("PATCH", F1, change).code == "format_violation"


def test_stored_document_meets_a_new_format(checked: Registry) -> None:
    """R252: without a format nothing is checked."""
    checked.put(F1, {"file": BAD})
    assert outcome(checked) == {}
    assert checked.refused("PATCH", F1, {"format": DRAFT7}).code == "format_violation"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"format": "nope/1", "file": {}}, "format_unknown"),
        ({"format": DRAFT7, "fileurl": "https://example.com"}, "format_external"),
        ({"format": DRAFT7, "file": {}, "meta": {"compatibility": "backward"}}, "compatibility_unknown"),
    ],
)
def test_what_cannot_be_checked(checked: Registry, strict: Registry, body: JSONObject, code: str) -> None:
    """R254, R256, GAP 3."""
    for registry in (checked, strict):
        registry.configure("capabilities", {"compatibilities": {}}, "PATCH")
    assert strict.refused("PUT", F1, body).code == code
    checked.put(F1, body)
    said = outcome(checked)
    name = "compatibilityvalidated" if code == "compatibility_unknown" else "formatvalidated"
    assert said[name] is False
    assert said[f"{name}reason"]


def test_no_checks_unless_the_model_says_so(registry: Registry) -> None:
    """R99, R253."""
    registry.put(F1, {"format": DRAFT7, "file": BAD, "meta": {"compatibility": "backward"}})
    assert outcome(registry) == {}


def test_formats_switched_off(checked: Registry) -> None:
    """R62, R120: the new capabilities rule the data of the same request."""
    checked.configure("capabilities", {"formats": []}, "PATCH")
    checked.put(F1, {"format": DRAFT7, "file": BAD})
    assert outcome(checked)["formatvalidated"] is False
    body = {"capabilities": {"formats": ["*"]}, "dirs": {"d1": {"files": {"f1": {"file": BAD, "format": DRAFT7}}}}}
    assert checked.refused("PATCH", "/", body).code == "format_violation"


@pytest.mark.parametrize(
    ("file", "valid"), [(BAD, False), ({"$schema": "http://json-schema.org/draft-07/schema"}, True)]
)
def test_a_format_without_a_version(checked: Registry, file: JSONObject, valid: bool) -> None:
    """R120, G-13: one of the versions listed will do."""
    checked.configure("capabilities", {"formats": [DRAFT7]}, "PATCH")
    if valid:
        checked.put(F1, {"format": "JsonSchema", "file": file})
        assert outcome(checked)["formatvalidated"] is True
    else:
        assert checked.refused("PUT", F1, {"format": "JsonSchema", "file": file}).code == "format_violation"
    checked.configure("capabilities", {"formats": ["Avro/1.11"]}, "PATCH")
    checked.put(F1, {"format": "JsonSchema", "file": BAD})
    assert outcome(checked)["formatvalidated"] is False


@pytest.mark.parametrize("content", [b'"string"', b'"{\\"type\\": \\"string\\"}"', b'{"type": "string"}'])
def test_a_name_alone_is_a_schema_to_avro(checked: Registry, content: bytes) -> None:
    """A-24, R248"""
    checked.put_document(F1, content, "application/json", format="Avro/1.11")
    assert outcome(checked)["formatvalidated"] is True


def test_versions_alike(make: Make) -> None:
    """R81."""
    registry = make(attributes={"kind": {"type": "string", "matchversions": True}})
    registry.put(F1, {"kind": "a"})
    for body in ({"kind": "b"}, {}):
        error = registry.refused("POST", F1, body)
        assert (error.code, error.subject, error.arguments) == ("mismatched_version_attribute", F1, {"name": "kind"})
    registry.post(F1, {"kind": "a"})
