from collections.abc import Iterable

import pytest
import yaml

from signalbook.documents import DocumentError, Upload, compare, extend_model, make_upload
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Kind, Xid

GROUP_TYPES = {"groups": {"dirs": {"singular": "dir"}}}


@pytest.mark.parametrize(
    ("document", "target", "ignore"),
    [
        ({}, "/", ("epoch",)),
        ({"dirs": {"d": {}}}, "/", ("epoch",)),
        ({"name": "n", "dirs": {}}, "/", ("epoch",)),
        ({"registryid": "r", "xid": "/", "dirs": {}}, "/", ("epoch", "id")),
        ({"dirid": "d", "xid": "/dirs/d"}, "/dirs/d", ("epoch",)),
        ({"xid": "/dirs/d/files/f/versions/1"}, "/dirs/d/files/f/versions/1", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {"xid": "/dirs/e"}}, "/dirs", ("epoch",)),
        ({"1": {"xid": "/dirs/d/files/f/versions/1"}}, "/dirs/d/files/f/versions", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {"xid": "/books/e"}}, "/", ("epoch",)),
        ({"d": {"xid": "/dirs/d"}, "e": {}}, "/", ("epoch",)),
        ({"groups": {"g": {"description": "a Group of a type that is called groups"}}}, "/", ("epoch",)),
    ],
)
def test_target_of_a_document(document: JSON, target: str, ignore: tuple[str, ...]) -> None:
    assert make_upload(document) == Upload(target=Xid.parse(target), body=document, ignore=ignore)


@pytest.mark.parametrize("extra", [{}, {"$schema": "x"}, {"attributes": {}, "description": "d"}])
def test_a_model(extra: JSON) -> None:
    assert make_upload({**GROUP_TYPES, **extra}).body == {"modelsource": {**GROUP_TYPES, **extra}}


@pytest.mark.parametrize("document", [None, 1, "x", [], {"xid": "dirs"}, {"d": {"xid": "nope"}}])
def test_invalid_document_is_rejected(document: JSON) -> None:
    with pytest.raises(DocumentError):
        make_upload(document)


def extended(model: JSON, current: JSON) -> JSON:
    return extend_model(Upload(target=ROOT, body={"modelsource": model, "name": "n"}), current).body.get("modelsource")


def test_imported_model_extends_the_current_one() -> None:
    current = {"groups": {"dirs": {"singular": "dir"}, "books": {"singular": "book"}}, "attributes": {"a": 1}}
    model = {"groups": {"dirs": {"singular": "folder"}}, "description": "d"}
    groups = {"dirs": {"singular": "folder"}, "books": {"singular": "book"}}
    assert extended(model, current) == {"groups": groups, "attributes": {"a": 1}, "description": "d"}


@pytest.mark.parametrize("model", [{}, GROUP_TYPES, {"groups": {}}])
def test_model_without_additions_is_not_sent(model: JSON) -> None:
    assert extended(model, GROUP_TYPES) is None


def test_invalid_model_is_sent_unchanged() -> None:
    assert extended("nonsense", GROUP_TYPES) == "nonsense"


GROUP: JSONObject = yaml.safe_load("""
dirid: d
self: "#/"
epoch: 3
description: old
options: {size: 1, color: red}
filesurl: "#/files"
filescount: 1
files:
  f:
    fileid: f
    meta: {fileid: f, epoch: 2, defaultversionid: "2", labels: {a: b}}
    versions: {"1": {versionid: "1", name: one, file: x}, "2": {versionid: "2", name: two, file: y}}
""")


def find(xid: Xid) -> JSONObject | None:
    return {ROOT: {"name": "book"}, Xid.parse("/dirs/d"): GROUP}.get(xid)


def collections(xid: Xid) -> Iterable[str]:
    names: dict[Kind, Iterable[str]]
    names = {Kind.REGISTRY: ["dirs"], Kind.GROUP: ["files"], Kind.RESOURCE: ["versions"]}
    return names.get(xid.kind, ())


def fill_defaults(xid: Xid, attributes: JSONObject) -> JSONObject:
    return {**attributes, "options": {"color": "red", **(attributes.get("options") or {})}}


def new(body: JSON, target: Xid = ROOT) -> tuple[JSON, list[str], list[str], list[str]]:
    work = compare(Upload(target=target, body=body), find, collections, fill_defaults)
    created, changed, unchanged = ([str(xid) for xid in xids] for xids in (work.created, work.changed, work.unchanged))
    return work.upload.body if work.upload else None, created, changed, unchanged


def files(resource: JSON) -> JSON:
    return {"dirs": {"d": {"files": {"f": resource}}}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"dirs": {"d": GROUP}}, None, id="all as it is"),
        pytest.param({"dirs": {"d": {**GROUP, "epoch": 1}}}, None, id="epochs are not compared"),
        pytest.param({"name": "book", "dirs": {}}, None, id="the Registry's own"),
        pytest.param({"name": "other"}, {"name": "other"}, id="another name of the Registry"),
        pytest.param(files({"name": "two"}), None, id="a Resource shows its default Version"),
        pytest.param(files({"versionid": "1", "name": "one"}), None, id="or the one it names"),
        pytest.param(files({"name": "one"}), files({"name": "one"}), id="another name of the default Version"),
        pytest.param(files({"versionid": "3"}), files({"versionid": "3"}), id="a Version that is not there"),
        pytest.param(files({"name": None}), files({"name": None}), id="null deletes"),
        pytest.param(files({"icon": None}), None, id="null where nothing is"),
        pytest.param(files({"meta": {"labels": {"a": "b"}}}), None, id="meta"),
        pytest.param(files({"meta": {"labels": {}}}), files({"meta": {"labels": {}}}), id="another meta"),
        pytest.param(
            files({"versions": {"1": {"name": "one"}, "2": {"name": "zwei", "file": "y"}}}),
            files({"versions": {"2": {"name": "zwei"}}}),
            id="one attribute of one Version",
        ),
        pytest.param({"dirs": 7}, {"dirs": 7}, id="what is no collection is the registry's to refuse"),
        pytest.param({"dirs": {"d": 7}}, {"dirs": {"d": 7}}, id="nor what is no entity"),
    ],
)
def test_unchanged_parts_are_omitted(document: JSON, expected: JSON) -> None:
    assert new(document)[0] == expected


def test_created_changed_and_unchanged_entities() -> None:
    document = {"dirs": {"d": {"description": "new", "files": {"f": {}, "g": {"versions": {"1": {}}}}}, "e": {}}}
    _, created, changed, unchanged = new(document)
    assert created == ["/dirs/d/files/g", "/dirs/d/files/g/versions/1", "/dirs/e"]
    assert (changed, unchanged) == (["/dirs/d"], ["/dirs/d/files/f"])


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        ("/dirs/d", {"description": "old"}, None),
        ("/dirs/d", {"description": "new"}, {"description": "new"}),
        ("/dirs", {"d": {"description": "old"}, "e": {}}, {"e": {}}),
        ("/dirs/e", {}, {}),
        ("/dirs/d", {"options": {"size": 1}}, None),
        ("/dirs/d", {"options": {"size": 2}}, {"options": {"size": 2}}),
        ("/dirs/d", {"options": {"size": 1, "color": "blue"}}, {"options": {"size": 1, "color": "blue"}}),
    ],
)
def test_parts_of_a_registry(target: str, body: JSON, expected: JSON) -> None:
    assert new(body, Xid.parse(target))[0] == expected
