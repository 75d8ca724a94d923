"""A new model meets what is stored: whether it complies, and what changes: defaults, the order of Versions."""

from typing import Any

import pytest
from tests.engine.conftest import Make, Registry, model_of

from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject

F1 = "/dirs/d1/files/f1"
COLOUR: JSONObject = {"colour": {"type": "string", "required": True, "default": "red"}}


def model(group: JSONObject | None = None, registry: JSONObject | None = None, **resource: Any) -> JSONObject:
    return {"attributes": registry or {}, **model_of(group, **resource)}


def test_new_default_is_applied_to_existing_entities(registry: Registry) -> None:
    """A later default does not change them (R72, R84, R85)."""
    registry.configure("modelsource", model())
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    for default in ("red", "blue"):
        rules = {"colour": {**COLOUR["colour"], "default": default}}
        source = model({"attributes": rules}, rules, attributes=rules, metaattributes=rules)
        registry.configure("modelsource", source)
        for path in ("/", "/dirs/d1", F1, f"{F1}/versions/v1", f"{F1}/versions/v2"):
            assert registry.row(path).attributes["colour"] == "red"
    assert [registry.row(path).epoch for path in ("/dirs/d1", F1, f"{F1}/versions/v1")] == [2, 2, 2]


def test_defaults_inside_objects(registry: Registry) -> None:
    """The default applies only if the owning object is present (R85)."""
    registry.configure("modelsource", model(attributes={"box": {"type": "object", "attributes": {}}}))
    registry.put(F1, {"box": {}})
    registry.put("/dirs/d1/files/f2", {})
    registry.configure("modelsource", model(attributes={"box": {"type": "object", "attributes": COLOUR}}))
    assert registry.row(f"{F1}/versions/1").attributes["box"] == {"colour": "red"}
    assert "box" not in registry.row("/dirs/d1/files/f2/versions/1").attributes


@pytest.mark.parametrize(
    ("mode", "ancestors", "default"),
    [
        ("createdat", {"v2": "v2", "v1": "v2", "v10": "v1"}, "v10"),
        ("semver", {"v1": "v1", "v2": "v1", "v10": "v2"}, "v10"),
        ("manual", {"v1": "v1", "v2": "v1", "v10": "v1"}, "v10"),
    ],
)
def test_another_versionmode(registry: Registry, mode: str, ancestors: JSONObject, default: str) -> None:
    """R97, R225, R236 to R238, R242."""
    registry.configure("modelsource", model())
    versions = {
        "v1": {"ancestorid": "v1", "createdat": "2021-01-01T00:00:00Z"},
        "v2": {"ancestorid": "v1", "createdat": "2020-01-01T00:00:00Z"},
        "v10": {"ancestorid": "v1", "createdat": "2022-01-01T00:00:00Z"},
    }
    registry.put(F1, {"versions": versions})
    registry.configure("modelsource", model(versionmode=mode))
    assert registry.ancestors() == ancestors
    assert registry.row(F1).defaultversionid == default


def test_migrated_entities_are_reported(registry: Registry) -> None:
    """There is one change per subject, and none for unchanged entities (R241, R297, R300)."""
    registry.configure("modelsource", model())
    created = {"v1": "2021-01-01T00:00:00Z", "v2": "2020-01-01T00:00:00Z"}
    registry.put(F1, {"versions": {name: {"createdat": stamp} for name, stamp in created.items()}})
    before = len(registry.outbox())
    registry.put("/", {"name": "x", "modelsource": model(versionmode="createdat"), "dirs": {"d1": {"files": {}}}})
    changes = {change.xid: change.changed for change in registry.outbox()[before:]}
    assert len(changes) == len(registry.outbox()) - before
    assert set(changes) == {"/", "/model", "/modelsource", "/dirs/d1", F1, f"{F1}/versions/v1", f"{F1}/versions/v2"}
    assert "ancestorid" in changes[f"{F1}/versions/v1"]
    assert "meta.defaultversionid" in changes[F1]


def test_a_pinned_sticky_default(registry: Registry) -> None:
    """A value that the model no longer allows is a fault, and is not changed (R70, R232)."""
    registry.configure("modelsource", model())
    registry.put(F1, {"meta": {"defaultversionsticky": True}})
    pinned = {"defaultversionsticky": {"type": "boolean", "required": True, "default": False, "enum": [False]}}
    error = registry.refused_configuration("modelsource", model(metaattributes=pinned))
    assert "defaultversionsticky" in str(error.__dict__)


ANY: JSONObject = {"attributes": {"*": {"type": "any"}}}


def compliance_model(
    group: JSONObject | None = None, registry: JSONObject | None = None, **resource: Any
) -> JSONObject:
    return model(group, registry, **{**ANY, **resource})


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({}, "/dirs/d1"),
        ({"groups": {"dirs": {"singular": "dir"}}}, F1),
        (compliance_model(registry={"x": {"type": "string", "required": True}}), "/#x"),
        (compliance_model({"attributes": {"x": {"type": "string", "required": True}}}), "/dirs/d1#x"),
        (compliance_model(attributes={"kind": {"type": "integer"}}), f"{F1}/versions/v1#kind"),
        (compliance_model(metaattributes={"x": {"type": "string", "required": True}}), f"{F1}#x"),
        (compliance_model(singleversionroot=True), F1),
        (compliance_model(attributes={"kind": {"type": "string", "matchversions": True}}), f"{F1}#kind"),
        (
            compliance_model({"constraints": {"files.kind": {"enum": ["x"]}}}, attributes={"kind": {"type": "string"}}),
            f"{F1}#kind",
        ),
    ],
)
def test_refused(registry: Registry, source: JSONObject, path: str) -> None:
    """R70, R81, R93, R98, R109; every fault is reported."""
    registry.put(F1, {"versions": {"v1": {"ancestorid": "v1", "kind": "a"}, "v2": {"ancestorid": "v2", "kind": "b"}}})
    before = registry.everything()
    error = registry.refused_configuration("modelsource", source)
    assert (error.code, error.subject) == ("model_compliance_error", "/model")
    assert path in [fault.path for fault in error.faults]
    assert registry.everything() == before


def test_shown_references_must_comply_too(registry: Registry) -> None:
    """The rule is that of the Group with the reference, not of the target (R110)."""
    kind: JSONObject = {"attributes": {"kind": {"type": "string"}}}
    views: JSONObject = {"singular": "view", "ximportresources": ["/dirs/files"]}
    source: JSONObject = {"groups": {**compliance_model(**kind)["groups"], "views": views}}
    registry.configure("modelsource", source)
    registry.put(F1, {"kind": "a"})
    registry.put("/views/v1/files/f1", {"meta": {"xref": F1}})
    views["constraints"] = {"files.kind": {"enum": ["b"]}}
    error = registry.refused_configuration("modelsource", source)
    assert [fault.path for fault in error.faults] == ["/views/v1/files/f1#kind"]
    views["constraints"] = {"files.kind": {"enum": ["a"]}}
    registry.configure("modelsource", source)


def test_specific_errors(registry: Registry) -> None:
    """R94, R96."""
    registry.put(F1, {"file": 1, "meta": {"defaultversionsticky": True}})
    for source, code in (
        (compliance_model(hasdocument=False), "hasdocument_violation"),
        (compliance_model(maxversions=1), "setdefaultversionsticky_false"),
    ):
        assert registry.refused_configuration("modelsource", source).code == code


def test_fewer_versions(registry: Registry) -> None:
    """The oldest Versions are deleted, except the default one, and their descendants become roots (R93)."""
    versions = {f"v{n}": {"ancestorid": f"v{max(1, n - 1)}"} for n in range(1, 6)}
    registry.put(F1, {"versions": versions, "meta": {"defaultversionid": "v2", "defaultversionsticky": True}})
    registry.configure("modelsource", compliance_model(maxversions=3))
    remaining = registry.versions()
    assert {name: row.ancestorid for name, row in remaining.items()} == {"v2": "v2", "v4": "v4", "v5": "v4"}
    assert registry.row(F1).defaultversionid == "v2"


def test_fewer_versions_leave_one_root(registry: Registry) -> None:
    """The other roots are among the deleted Versions (R93, R98)."""
    registry.put(F1, {"versions": {"v1": {"ancestorid": "v1"}, "v2": {"ancestorid": "v2"}}})
    registry.configure("modelsource", compliance_model(maxversions=1, singleversionroot=True))
    assert list(registry.versions()) == ["v2"]


def test_a_singular_is_immutable(registry: Registry) -> None:
    """core/model.md, groups.singular and resources.singular: "MUST be immutable"."""
    registry.put(F1, {})
    other = compliance_model()
    other["groups"]["dirs"]["singular"] = "dir2"
    for source, path in ((compliance_model(singular="paper"), "groups.dirs.resources.files"), (other, "groups.dirs")):
        error = registry.refused_configuration("modelsource", source)
        assert error.code == "model_error"
        assert error.arguments["error_detail"].startswith(f"{path}.singular: is immutable")


def test_documents_where_extensions_have_their_name(make: Make) -> None:
    """The extension and the document would have the same name (R245)."""
    registry = make(hasdocument=False, **ANY)
    registry.put(F1, {"filebase64": "AA=="})
    error = registry.refused_configuration("modelsource", compliance_model(hasdocument=True))
    assert [fault.path for fault in error.faults] == [f"{F1}/versions/1#filebase64"]


def test_entities_of_the_same_request_may_make_the_rest_comply(registry: Registry) -> None:
    """The model is applied first, then the entities, and everything is validated once (R60, R70)."""
    registry.put(F1, {"kind": "a"})
    source = compliance_model(attributes={"kind": {"type": "integer"}})
    assert registry.refused("PATCH", "/", {"modelsource": source}).code == "model_compliance_error"
    registry.patch("/", {"modelsource": source, "dirs": {"d1": {"files": {"f1": {"kind": 5}}}}})
    assert registry.versions()["1"].attributes["kind"] == 5
    error = registry.refused("PATCH", "/", {"modelsource": source, "dirs": {"d1": {"files": {"f1": {"kind": "b"}}}}})
    assert (error.code, error.subject) == ("invalid_attribute", f"{F1}/versions/1")


def test_accepted(registry: Registry) -> None:
    """Stored values are kept, and missing ones are filled in (R39, R72)."""
    registry.put(F1, {"kind": "a"})
    epoch = registry.row("/").epoch
    kind = {"type": "string", "required": True, "default": "z"}
    registry.configure("modelsource", compliance_model(attributes={"kind": kind, "new": kind}))
    assert registry.versions()["1"].attributes == {"kind": "a", "new": "z"}
    assert registry.row("/").epoch == epoch + 1
    registry.put(F1, {})
    assert registry.versions()["1"].attributes == {"kind": "z", "new": "z"}


@pytest.mark.parametrize("body", [{"modelsource": None}, {"modelsource": {}}])
def test_model_emptied(make: Make, body: JSONObject) -> None:
    """A model without groups deletes the entities of the groups (R61)."""
    registry = make()
    registry.put("/", body)
    assert registry.refused("PUT", "/dirs/d1", {}).code == "not_found"


def test_model_and_data_can_be_written_together(make: Make) -> None:
    """R62, R205, R277."""
    registry = make()
    books = {"groups": {"shelves": {"singular": "shelf", "resources": {"books": {"singular": "book"}}}}}
    body: JSONObject = {"modelsource": books, "model": 5, "shelves": {"s1": {"books": {"b1": {}}}}}
    assert registry.refused("PUT", "/", body, ignore=frozenset({"modelsource"})).code == "unknown_attribute"
    registry.put("/", body)
    assert registry.find("/shelves/s1/books/b1/versions/1") is not None
    body["shelves"]["s1"]["nope"] = 1
    body["modelsource"] = {}
    assert registry.refused("PUT", "/", body).code == "unknown_attribute"
    del body["shelves"]
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
        assert registry.refused_configuration(name, body, method).code == code
