import pytest

from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.model.findings import ModelPosition
from signalbook.model.language import DocumentType, check_typemap, compile_typemap
from signalbook.values import JSON, JSONObject


def model(group: JSONObject | None = None, resource: JSONObject | None = None, **root: JSON) -> JSONObject:
    files = {"singular": "file", **(resource or {})}
    return {"groups": {"dirs": {"singular": "dir", "resources": {"files": files}, **(group or {})}}, **root}


def fault_paths(source: JSON) -> list[str]:
    with pytest.raises(RegistryError) as caught:
        compile_model(source)
    assert caught.value.code == "model_error"
    assert caught.value.subject == "/model"
    return [fault.path for fault in caught.value.faults]


@pytest.mark.parametrize("source", [None, [], "x"])
def test_a_source_is_an_object(source: JSON) -> None:
    assert fault_paths(source) == []


def test_descriptive_aspects_are_kept() -> None:
    """The key $schema at the top is not part of the model (R21, R91)."""
    texts = {"description": "d", "documentation": "https://x/", "labels": {"a": ""}}
    of_types = {**texts, "icon": "https://x/i", "modelversion": "1", "modelcompatiblewith": "urn:x"}
    full = compile_model({"$schema": "https://x/", **model(of_types, of_types, **texts)}).document
    assert "$schema" not in full
    assert texts.items() <= full.items()
    assert of_types.items() <= full["groups"]["dirs"].items()
    assert of_types.items() <= full["groups"]["dirs"]["resources"]["files"].items()


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"colour": 1}, "colour"),  # R68
        ({"icon": "https://x/"}, "icon"),
        (model({"colour": 1}), "groups.dirs.colour"),
        (model({}, {"colour": 1}), "groups.dirs.resources.files.colour"),
        ({"description": 1}, "description"),
        ({"documentation": ""}, "documentation"),
        ({"labels": {"": "x"}}, "labels"),
        ({"labels": {"a": 1}}, "labels"),
        ({"labels": []}, "labels"),
        ({"attributes": []}, "attributes"),
        ({"groups": []}, "groups"),
        ({"groups": {"dirs": 1}}, "groups.dirs"),
        ({"groups": {"dirs": {"singular": "dir", "resources": 1}}}, "groups.dirs.resources"),
        ({"groups": {"dirs": {"singular": "dir", "resources": {"f": 1}}}}, "groups.dirs.resources.f"),
        (model({"modelcompatiblewith": "a b"}), "groups.dirs.modelcompatiblewith"),
        (model({"constraints": []}), "groups.dirs.constraints"),
        (model({}, {"maxversions": -1}), "groups.dirs.resources.files.maxversions"),  # R93
        (model({}, {"maxversions": True}), "groups.dirs.resources.files.maxversions"),
        (model({}, {"setversionid": "no"}), "groups.dirs.resources.files.setversionid"),
        (model({}, {"versionmode": "random"}), "groups.dirs.resources.files.versionmode"),  # R97
        (model({}, {"typemap": {"a": "b"}}), "groups.dirs.resources.files.typemap.a"),  # R102
        (model({}, {"validatecompatibility": True}), "groups.dirs.resources.files.validatecompatibility"),  # R100
        (
            model({}, {"versionmode": "semver", "singleversionroot": False}),  # R98, (m) 16
            "groups.dirs.resources.files.singleversionroot",
        ),
        (model({}, {"resourceattributes": {"x": {"type": "any"}}}), "groups.dirs.resources.files.resourceattributes.x"),
        (model({}, {"attributes": {"metaurl": {"type": "url"}}}), "groups.dirs.resources.files.attributes.metaurl"),
    ],
)
def test_rejects(source: JSONObject, path: str) -> None:
    """R68, R69, R91 to R102."""
    assert path in fault_paths(source)


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        ({"dirs": {}}, "groups.dirs.singular"),  # R90
        ({"dirs": {"singular": 1}}, "groups.dirs.singular"),
        ({"dirs": {"singular": ""}}, "groups.dirs.singular"),
        ({"dirs": {"singular": "s" * 64}}, "groups.dirs.singular"),
        ({"dirs": {"singular": "dir", "plural": "boxes"}}, "groups.dirs.plural"),
        ({"Dirs": {"singular": "dir"}}, "groups.Dirs"),
        ({"p" * 58: {"singular": "dir"}}, f"groups.{'p' * 58}"),
        ({"dir": {"singular": "dir"}}, "groups.dir"),
        ({"dirs": {"singular": "dir"}, "boxes": {"singular": "dir"}}, "groups.boxes"),
        ({"dirs": {"singular": "boxes"}, "boxes": {"singular": "box"}}, "groups.boxes"),
        ({"export": {"singular": "e"}}, "groups.export"),
        ({"health": {"singular": "h"}}, "groups.health"),
        ({"subscriptions": {"singular": "subscription"}}, "groups.subscriptions"),
        ({"labels": {"singular": "label"}}, "groups"),  # R17
        ({"dirs": {"singular": "dir"}, "dirsurl": {"singular": "u"}}, "groups"),
        ({"dirs": {"singular": "x"}}, "groups.dirs"),
    ],
)
def test_group_names(groups: JSONObject, path: str) -> None:
    """The rules concern lengths, uniqueness, and attributes derived from names, such as dirsurl (R17, R90)."""
    assert path in fault_paths({"groups": groups})


def test_empty_plural_is_ignored() -> None:
    """The tool xr sends an empty plural if its source has none (R90)."""
    group = {"plural": "", "singular": "dir", "resources": {"files": {"plural": "", "singular": "file"}}}
    groups = compile_model({"groups": {"dirs": group}}).document["groups"]
    assert (groups["dirs"]["plural"], groups["dirs"]["resources"]["files"]["plural"]) == ("dirs", "files")


@pytest.mark.parametrize(
    ("plural", "singular", "place"),
    [
        ("files", "f" * 58, "groups.dirs.resources.files.singular"),  # R90
        ("dirs", "dirs", "groups.dirs.resources.dirs"),
        ("labels", "label", "groups.dirs"),  # R17
        ("formats", "format", "groups.dirs.resources.formats"),  # <RESOURCE> would be the Version's format
        ("versions", "version", "groups.dirs.resources.versions"),
    ],
)
def test_resource_names(plural: str, singular: str, place: str) -> None:
    """R17, R90."""
    groups = {"dirs": {"singular": "dir", "resources": {plural: {"singular": singular}}}}
    assert place in fault_paths({"groups": groups})


def test_longest_names() -> None:
    """Names up to the maximum length are accepted (R90)."""
    resources = {"r" * 57: {"singular": "s" * 57}}
    compile_model({"groups": {"p" * 57: {"singular": "g" * 63, "resources": resources}}})


def test_names_need_not_differ_between_group_types() -> None:
    """The names of Resource types are unique within their Group type only (R90)."""
    group = {"resources": {"files": {"singular": "file"}}}
    compile_model({"groups": {"dirs": {"singular": "dir", **group}, "boxes": {"singular": "box", **group}}})


def test_document_names_are_free_without_documents() -> None:
    """The names <RESOURCE>* are ordinary if hasdocument is false (R17, R64)."""
    attributes = {"file": {"type": "integer"}, "fileurl": {"type": "string"}, "filebase64": {"type": "boolean"}}
    without = compile_model(model({}, {"hasdocument": False, "attributes": attributes})).document
    assert without["groups"]["dirs"]["resources"]["files"]["attributes"]["file"]["type"] == "integer"
    plain = compile_model(model({}, {"hasdocument": False})).document
    assert not attributes.keys() & plain["groups"]["dirs"]["resources"]["files"]["attributes"].keys()
    assert fault_paths(model({}, {"attributes": attributes}))


@pytest.mark.parametrize("mode", ["createdat", "ModifiedAt", "SEMVER"])
def test_ordered_modes_have_one_root(mode: str) -> None:
    """The value is case-insensitive, and implies the flag (R97, R98, (m) 16)."""
    files = compile_model(model({}, {"versionmode": mode})).groups["dirs"].resources["files"]
    assert (files.versionmode, files.singleversionroot) == (mode.lower(), True)


def test_null_aspects_are_ignored() -> None:
    """An aspect with the value null is absent (R13)."""
    empty = dict.fromkeys(("description", "labels", "attributes", "typemap", "maxversions", "hasdocument"))
    plain = compile_model(model())
    source = model({}, empty)
    assert compile_model(source).fingerprint == plain.fingerprint


def source(**imports: JSON) -> JSONObject:
    groups: JSONObject = {
        "dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}},
        "boxes": {"singular": "box"},
        "racks": {"singular": "rack"},
    }
    for plural, references in imports.items():
        groups[plural]["ximportresources"] = references
    return {"groups": groups}


def test_imported_type_is_the_same_type() -> None:
    """The type is expanded in the full model without the key, and is the same object when compiled (R111, R262)."""
    model = compile_model(source(boxes=["/dirs/files"], racks=["/boxes/files"]))
    full = model.document["groups"]
    assert "ximportresources" not in full["racks"]
    assert full["racks"]["resources"] == full["dirs"]["resources"]
    assert {"filesurl", "filescount", "files"} <= full["racks"]["attributes"].keys()
    imported = model.resource_type("/racks/files")
    assert imported is model.resource_type("/dirs/files")
    assert imported is not None
    assert imported.origin == "/dirs/files"


def test_types_stay_in_the_order_of_the_model() -> None:
    """Whatever the process: replicas answer with the same bytes, and tag them alike."""
    names = [f"{letter}s" for letter in "qwertyuiopasdfghjklzcvbnm"]
    resources = {n: {"singular": n[0]} for n in names}
    model = compile_model({"groups": {"dirs": {"singular": "dir", "resources": resources}}})
    assert list(model.groups["dirs"].resources) == names


def test_long_chains_of_imports() -> None:
    """Long chains of imports are resolved (R111)."""
    groups: JSONObject = {
        f"g{number}": {"singular": f"s{number}", "ximportresources": [f"/g{number + 1}/files"]}
        for number in range(1500)
    }
    groups["g1500"] = {"singular": "s1500", "resources": {"files": {"singular": "file"}}}
    model = compile_model({"groups": groups})
    assert model.resource_type("/g0/files") is model.resource_type("/g1500/files")


def test_import_through_another_type_is_resolved() -> None:
    """A type can import resources that another type imports (R111)."""
    model = source(boxes=["/dirs/files"], racks=["/boxes/files"])
    model["groups"]["dirs"]["resources"]["lids"] = {"singular": "lid"}
    model["groups"]["boxes"]["ximportresources"] = ["/dirs/lids", "/dirs/files"]
    assert compile_model(model).types.origin("racks", "files") == "/dirs/files"


@pytest.mark.parametrize("references", [[], None])
def test_empty_imports_are_accepted(references: JSON) -> None:
    """An empty list of imports adds nothing (R111)."""
    assert compile_model(source(boxes=references)).groups["boxes"].resources == {}


@pytest.mark.parametrize(
    ("imports", "message"),
    [
        ({"boxes": ["/boxes/files"]}, "cannot import from itself"),
        ({"boxes": ["/none/files"]}, "leads to no Resource type"),
        ({"boxes": ["/dirs/none"]}, "leads to no Resource type"),
        ({"boxes": ["/racks/files"], "racks": ["/boxes/files"]}, "round in a circle"),
        ({"boxes": ["dirs/files"]}, "form /GROUPS/RESOURCES"),
        ({"boxes": ["/dirs"]}, "form /GROUPS/RESOURCES"),
        ({"boxes": [5]}, "form /GROUPS/RESOURCES"),
        ({"boxes": "/dirs/files"}, "must be an array"),
        ({"boxes": ["/dirs/files", "/dirs/files"]}, "already"),
    ],
)
def test_bad_imports(imports: JSONObject, message: str) -> None:
    """Invalid imports are rejected (R111)."""
    with pytest.raises(RegistryError, match=message) as caught:
        compile_model(source(**imports))
    assert caught.value.code == "model_error"


def test_imported_names_stay_unique() -> None:
    """A local type must not have the singular of an imported one (R90, R111)."""
    model = source(boxes=["/dirs/files"])
    model["groups"]["boxes"]["resources"] = {"papers": {"singular": "file"}}
    with pytest.raises(RegistryError, match='the name "file" is taken'):
        compile_model(model)


def test_ways_to_share_a_definition_are_equivalent() -> None:
    """The forms import, include and copy give the same model (R71)."""
    imported, included, copied = source(boxes=["/dirs/files"]), source(), source()
    included["groups"]["boxes"]["resources"] = {"files": {"$include": "#/groups/dirs/resources/files"}}
    copied["groups"]["boxes"]["resources"] = {"files": {"singular": "file"}}
    assert len({compile_model(model).fingerprint for model in (imported, included, copied)}) == 1


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
    ("typemap", "contenttype", "kind"),
    [
        ({"text/*": "string", "text/mine": "json"}, "text/mine", "binary"),
        ({"text/*": "string"}, "text/plain", "string"),
        ({"text/*": "string"}, "TEXT/html", "string"),
        ({"Application/JSON": "binary"}, "application/json", "binary"),
        ({"*": "string"}, "image/png", "string"),
        ({"application/x.y": "string"}, "application/xzy", "binary"),
    ],
)
def test_own_entries(typemap: dict[str, DocumentType], contenttype: str, kind: str) -> None:
    """Matches of different kinds make the type binary; an own entry overrides an implicit one (R102)."""
    assert compile_typemap(typemap)(contenttype) == kind


@pytest.mark.parametrize("typemap", [[], {"a": "xml"}, {"a": 1}, {"": "json"}, {"*/*": "json"}])
def test_bad_entries(typemap: JSON) -> None:
    """Invalid type maps are rejected (R102)."""
    place = ModelPosition(findings=[])
    check_typemap(typemap, place)
    assert place.findings


def test_kinds_are_case_insensitive() -> None:
    """The kinds of a type map are compared without case (R102)."""
    place = ModelPosition(findings=[])
    assert check_typemap({"a/b": "JSON"}, place) == {"a/b": "json"}
    assert not place.findings


@pytest.mark.parametrize("labels", [{"bad one": "x"}, {"": "x"}, {"Upper": "x"}, {"a": 1}, ["a"]])
@pytest.mark.parametrize("place", ["", "groups.dirs", "groups.dirs.resources.files"])
def test_labels_of_types(labels: JSON, place: str) -> None:
    """The keys of labels are map keys, like those of entities (R91)."""
    model: JSONObject = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}}
    owner = model
    for step in filter(None, place.split(".")):
        owner = owner[step]
    owner["labels"] = {"a.b-c:d_e": "x"}
    compile_model(model)
    owner["labels"] = labels
    with pytest.raises(RegistryError) as caught:
        compile_model(model)
    assert caught.value.faults[0].path == (f"{place}.labels" if place else "labels")
