import pytest

from signalbook.documents import build_files, parse_document, place
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

SCHEMA: JSONObject = {
    "schemaid": "s",
    "xid": "/schemagroups/g/schemas/s",
    "self": "#/",
    "meta": {"schemaid": "s", "epoch": 4, "defaultversionid": "1"},
    "metaurl": "#/meta",
    "versionsurl": "#/versions",
    "versionscount": 1,
    "versions": {"1": {"versionid": "1", "isdefault": True, "epoch": 1, "format": "Avro/1.11", "schemabase64": "e30="}},
}


def test_a_resource_and_its_documents() -> None:
    document, entity = build_files(Xid.parse("/schemagroups/g/schemas/s"), SCHEMA)
    assert (str(document.path), document.content) == ("schemagroups/g/schemas/s/1.avsc", b"{}")
    assert str(entity.path) == "schemagroups/g/schemas/s.xreg.json"
    assert parse_document(entity.content, name="x.json")[0] == {
        "xid": "/schemagroups/g/schemas/s",
        "schemaid": "s",
        "meta": {"schemaid": "s", "defaultversionid": "1"},
        "versions": {"1": {"versionid": "1", "format": "Avro/1.11", "schemaurl": "./s/1.avsc"}},
    }


def test_writing_does_not_change_the_input() -> None:
    before = repr(SCHEMA)
    assert list(build_files(Xid.parse("/schemagroups/g/schemas/s"), SCHEMA))
    assert repr(SCHEMA) == before


@pytest.mark.parametrize(
    ("version", "suffix"),
    [
        ({"format": "JsonSchema/draft-07"}, ".json"),
        ({"format": "Protobuf/3"}, ".proto"),
        ({"format": "xsd/1.1"}, ".xsd"),
        ({"contenttype": "application/json; charset=utf-8"}, ".json"),
        ({"contenttype": "application/vnd.x+json"}, ".json"),
        ({"contenttype": "text/plain"}, ".txt"),
        ({}, ".bin"),
    ],
)
def test_file_suffix_follows_the_format(version: JSON, suffix: str) -> None:
    body = {"versions": {"1": {**version, "filebase64": "e30="}}}
    document, _ = build_files(Xid.parse("/dirs/d/files/f"), body)
    assert document.path.suffix == suffix


@pytest.mark.parametrize(
    ("xid", "path"),
    [("/", "registry"), ("/dirs", "dirs"), ("/dirs/a:b", "dirs/a%3Ab"), ("/dirs/d/files/f.", "dirs/d/files/f%2E")],
)
def test_places(xid: str, path: str) -> None:
    assert str(place(Xid.parse(xid))) == path


def test_group_is_written_without_its_members() -> None:
    group = {"dirid": "d", "filesurl": "u", "filescount": 3, "discount": 7, "xid": "/dirs/d"}
    (file,) = build_files(Xid.parse("/dirs/d"), group, suffix=".xreg.yaml")
    assert file.content == b"xid: /dirs/d\ndirid: d\ndiscount: 7\n"
