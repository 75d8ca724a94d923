"""A new model meets what is stored (R70)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

F1 = "/dirs/d1/files/f1"
ANY: JSONObject = {"attributes": {"*": {"type": "any"}}}


def model(group: JSONObject | None = None, registry: JSON = None, **resource: Any) -> JSONObject:
    files = {"singular": "file", **ANY, **resource}
    source: JSONObject = {"groups": {"dirs": {"singular": "dir", "resources": {"files": files}, **(group or {})}}}
    return source | ({"attributes": registry} if registry else {})


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({}, "/dirs/d1"),
        ({"groups": {"dirs": {"singular": "dir"}}}, F1),
        (model(registry={"x": {"type": "string", "required": True}}), "/#x"),
        (model({"attributes": {"x": {"type": "string", "required": True}}}), "/dirs/d1#x"),
        (model(attributes={"kind": {"type": "integer"}}), f"{F1}/versions/v1#kind"),
        (model(metaattributes={"x": {"type": "string", "required": True}}), f"{F1}#x"),
        (model(maxversions=1), F1),
        (model(singleversionroot=True), F1),
        (model(attributes={"kind": {"type": "string", "matchversions": True}}), f"{F1}#kind"),
        (
            model({"constraints": {"files.kind": {"enum": ["x"]}}}, attributes={"kind": {"type": "string"}}),
            f"{F1}#kind",
        ),
    ],
)
def test_refused(registry: Registry, source: JSONObject, path: str) -> None:
    """R70, R81, R93, R98, R109; every fault is told."""
    registry.put(F1, {"versions": {"v1": {"ancestorid": "v1", "kind": "a"}, "v2": {"ancestorid": "v2", "kind": "b"}}})
    before = registry.everything()
    with pytest.raises(RegistryError) as caught:
        registry.configure("modelsource", source)
    assert (caught.value.code, caught.value.subject) == ("model_compliance_error", "/model")
    assert path in [fault.path for fault in caught.value.faults]
    assert registry.everything() == before


def test_what_is_shown_complies_too(registry: Registry) -> None:
    """R110: the target keeps no such rule, the Group that refers to it does."""
    kind: JSONObject = {"attributes": {"kind": {"type": "string"}}}
    views: JSONObject = {"singular": "view", "ximportresources": ["/dirs/files"]}
    source: JSONObject = {"groups": {**model(**kind)["groups"], "views": views}}
    registry.configure("modelsource", source)
    registry.put(F1, {"kind": "a"})
    registry.put("/views/v1/files/f1", {"meta": {"xref": F1}})
    views["constraints"] = {"files.kind": {"enum": ["b"]}}
    with pytest.raises(RegistryError) as caught:
        registry.configure("modelsource", source)
    assert [fault.path for fault in caught.value.faults] == ["/views/v1/files/f1#kind"]
    views["constraints"] = {"files.kind": {"enum": ["a"]}}
    registry.configure("modelsource", source)


def test_specific_errors(registry: Registry) -> None:
    """R94, R96."""
    registry.put(F1, {"file": 1, "meta": {"defaultversionsticky": True}})
    for source, code in (
        (model(hasdocument=False), "hasdocument_violation"),
        (model(maxversions=1), "setdefaultversionsticky_false"),
    ):
        with pytest.raises(RegistryError) as caught:
            registry.configure("modelsource", source)
        assert caught.value.code == code


def test_accepted(registry: Registry) -> None:
    """R39, R72: stored values stay, a missing one is filled in."""
    registry.put(F1, {"kind": "a"})
    epoch = registry.row("/").epoch
    kind = {"type": "string", "required": True, "default": "z"}
    registry.configure("modelsource", model(attributes={"kind": kind, "new": kind}))
    assert registry.versions()["1"].attributes == {"kind": "a", "new": "z"}
    assert registry.row("/").epoch == epoch + 1
    registry.put(F1, {})
    assert registry.versions()["1"].attributes == {"kind": "z", "new": "z"}


@pytest.mark.parametrize("body", [{"modelsource": None}, {"modelsource": {}}])
def test_model_emptied(make: Make, body: JSONObject) -> None:
    """R61."""
    registry = make()
    registry.put("/", body)
    assert registry.refused("PUT", "/dirs/d1", {}).code == "not_found"


def test_model_and_data_at_once(make: Make) -> None:
    """R62, R205, R277."""
    registry = make()
    books = {"groups": {"shelves": {"singular": "shelf", "resources": {"books": {"singular": "book"}}}}}
    body: JSONObject = {"modelsource": books, "model": 5, "shelves": {"s1": {"books": {"b1": {}}}}}
    assert registry.refused("PUT", "/", body, ignore=frozenset({"modelsource"})).code == "unknown_attribute"
    registry.put("/", body)
    assert registry.find("/shelves/s1/books/b1/versions/1") is not None
    body["shelves"]["s1"]["nope"] = 1
    body["modelsource"] = {}
    assert registry.refused("PUT", "/", body).code == "model_compliance_error"


@pytest.mark.parametrize("source", [5, [], "x"])
def test_no_model(registry: Registry, source: JSON) -> None:
    with pytest.raises(RegistryError, match="JSON object"):
        registry.configure("modelsource", source)


def test_missing_body_and_methods(registry: Registry) -> None:
    """PUT only, and never without a body."""
    for name, method, body, code in (
        ("modelsource", "PUT", None, "missing_body"),
        ("modelsource", "PATCH", {}, "action_not_supported"),
        ("model", "PUT", {}, "action_not_supported"),
    ):
        with pytest.raises(RegistryError) as caught:
            registry.configure(name, body, method)
        assert caught.value.code == code
