"""typemap: how documents are shown."""

from __future__ import annotations

import pytest

from signalbook.model.findings import ModelPosition
from signalbook.model.language import DocumentType, check_typemap, compile_typemap
from signalbook.values import JSON


@pytest.mark.parametrize(
    ("contenttype", "kind"),
    [
        ("application/json", "json"),
        ("Application/JSON; charset=utf-8", "json"),
        ("application/schema+json", "json"),
        ("text/plain;x=y", "string"),
        ("text/html", "binary"),
        ("", "binary"),
        ("application/octet-stream", "binary"),
    ],
)
def test_implicit_entries(contenttype: str, kind: str) -> None:
    """R102, R103."""
    assert compile_typemap({})(contenttype) == kind


@pytest.mark.parametrize(
    ("given", "contenttype", "kind"),
    [
        ({"text/*": "string", "text/mine": "json"}, "text/mine", "binary"),
        ({"text/*": "string"}, "text/plain", "string"),
        ({"text/*": "string"}, "TEXT/html", "string"),
        ({"Application/JSON": "binary"}, "application/json", "binary"),
        ({"*": "string"}, "image/png", "string"),
        ({"application/x.y": "string"}, "application/xzy", "binary"),
    ],
)
def test_own_entries(given: dict[str, DocumentType], contenttype: str, kind: str) -> None:
    """R102: several matches of different kinds make it binary; an own entry overrides an implicit one."""
    assert compile_typemap(given)(contenttype) == kind


@pytest.mark.parametrize("given", [[], {"a": "xml"}, {"a": 1}, {"": "json"}, {"*/*": "json"}])
def test_bad_entries(given: JSON) -> None:
    """R102."""
    place = ModelPosition(findings=[])
    check_typemap(given, place)
    assert place.findings


def test_kinds_are_case_insensitive() -> None:
    """R102."""
    place = ModelPosition(findings=[])
    assert check_typemap({"a/b": "JSON"}, place) == {"a/b": "json"}
    assert not place.findings
