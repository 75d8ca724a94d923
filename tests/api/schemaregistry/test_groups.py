"""Schema groups: listing, creating, changing, deleting them."""

from typing import Any

import pytest
from tests.api.conftest import Serve
from tests.api.schemaregistry.conftest import BASE, Schemas

from signalbook.settings import SettingError
from signalbook.storage.store import Store


def test_a_group_is_created(schemas: Schemas) -> None:
    """The times are set by the server, regardless of what a client sends (A-2, A-3, A-5, A-6, A-35, A-44)."""
    sent = {"id": "my.g", "format": "avro", "description": "d"}
    answer = schemas.put("my.g", **sent, createdtimeutc="2020-01-01T00:00:00Z", updatedtimeutc="soon")
    assert (answer.status_code, answer.headers["Location"]) == (201, f"{BASE}/schemagroups/my.g")
    created = answer.json()
    assert {name: created[name] for name in sent} == sent
    stored = schemas.other.get("/schemagroups/my.g").json()
    assert (created["createdtimeutc"], created["updatedtimeutc"]) == (stored["createdat"], stored["modifiedat"])
    assert schemas.get("/schemagroups/my.g").json() == created
    assert schemas.get("/schemagroups").json() == ["my.g"]  # no hierarchy of dots


def test_a_group_is_updated(filled: Schemas) -> None:
    """Omitted attributes are removed, except those that the draft does not have (A-44, J-22)."""
    filled.other.send("PATCH", "/schemagroups/open", json={"name": "kept", "description": "gone"})
    before = filled.get("/schemagroups/open").json()
    answer = filled.put("open", groupProperties={"a": "1", "Not a label": "2"})
    assert (answer.status_code, answer.json()["groupProperties"]) == (200, {"a": "1", "Not a label": "2"})
    assert "description" not in answer.json()
    assert answer.json()["createdtimeutc"] == before["createdtimeutc"]
    stored = filled.other.get("/schemagroups/open").json()
    assert (stored["name"], stored["labels"], stored["epoch"]) == ("kept", {"a": "1"}, 3)
    assert "groupProperties" not in filled.put("open").json()


@pytest.mark.parametrize("group", [{"format": "json-schema"}, {}, {"format": "AVRO"}])
def test_the_format_stays_with_the_schemas(filled: Schemas, group: dict[str, Any]) -> None:
    """The format can neither be changed nor removed while the group has schemas (A-4, A-38)."""
    before = filled.state()
    answer = filled.put("g", **group)
    assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/problem+json")
    assert filled.state() == before
    assert filled.put("g", format="avro", description="new").status_code == 200
    assert filled.send("DELETE", "/schemagroups/g/schemas").status_code == 204
    answer = filled.put("g", **group)
    assert (answer.status_code, answer.json().get("format")) == (200, group.get("format"))


def test_no_format_is_added_to_schemas(filled: Schemas) -> None:
    """A group whose schemas have a format of their own cannot get a format (A-4)."""
    filled.post("open/s", schema_format="avro")
    assert filled.put("open", format="avro").status_code == 409


def test_strictly_by_the_openapi_document(store: Store, serve: Serve) -> None:
    """A-35, A-44"""
    strict = Schemas(serve(store, model="default", strict_openapi="on"))
    assert [strict.put("g", description=text).status_code for text in ("a", "a", "b")] == [201, 409, 409]
    with pytest.raises(SettingError, match="off or on"):
        serve(store, model="default", strict_openapi="perhaps")


NO_GROUPS = [
    *(("g", body) for body in (b"", b"[]", b"null", b"{", b'{"id": "other"}', b'{"id": 1}', b'{"format": ""}')),
    *(("g", body) for body in (b'{"format": 1}', b'{"description": []}', b'{"groupProperties": {"a": 1}}')),
    *(("g", body) for body in (b'{"groupProperties": "a"}', b'{"id": "g", "id": "g"}')),
    ("g", b'{"description": "' + b"x" * 5000 + b'"}'),
    ("g", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    *((name, b"{}") for name in ("a:b", "x" * 200, "%zz")),
]


def test_invalid_group_is_rejected(schemas: Schemas) -> None:
    """A-2, A-3, A-53"""
    for name, body in NO_GROUPS:
        answer = schemas.send("PUT", f"/schemagroups/{name}", content=body)
        assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json"), answer.text
        assert schemas.get("/schemagroups").json() == []


def test_ids_of_other_letters(schemas: Schemas) -> None:
    """The drafts allow ids that xRegistry does not, and the other way round (A-2, J-19)."""
    ids = ["events@example.com", "a!b", "m%C3%B6we", "x%3Ay", "(1)"]
    for group_id in ids:
        assert schemas.put(group_id, id=group_id).json()["id"] == group_id
        assert schemas.get(f"/schemagroups/{group_id}/").json()["id"] == group_id  # and a slash at the end says nothing
    assert sorted(schemas.get("/schemagroups").json()) == sorted(ids)
    assert schemas.other.get("/schemagroups/x:y").status_code == 200
    assert schemas.put("x%3ay", id="x:y").status_code == 200


def test_ids_that_differ_in_case_conflict(filled: Schemas) -> None:
    """Ids that differ only in case conflict (J-20)."""
    assert filled.put("G").status_code == 409
    assert filled.post("g/S", b'{"type": "bytes"}').status_code == 409
    assert filled.get("/schemagroups/G").status_code == 404


def test_deleting(filled: Schemas) -> None:
    """A group can be deleted with its content, and all schemas of a group can be deleted without it
    (A-36, A-37, A-38).
    """
    filled.post("g/t")
    assert filled.get("/schemagroups/g/schemas").json() == ["s", "t"]
    assert filled.send("DELETE", "/schemagroups/g/schemas").content == b""
    assert filled.get("/schemagroups/g/schemas").json() == []
    filled.post("g/s")
    assert filled.send("DELETE", "/schemagroups/g").status_code == 204
    assert filled.get("/schemagroups").json() == ["open"]
    assert filled.get("/schemagroups/g/schemas/s").status_code == 404


def test_conditions(filled: Schemas) -> None:
    """Conditions are those of HTTP; the draft has none (J-22)."""
    tag = filled.get("/schemagroups/g").headers["ETag"]
    assert filled.get("/schemagroups/g", headers={"If-None-Match": tag}).status_code == 304
    old = {"If-Match": '"old"'}
    assert filled.send("DELETE", "/schemagroups/g", headers=old).status_code == 412
    assert filled.send("DELETE", "/schemagroups/g", headers={"If-Match": tag}).status_code == 204
    assert filled.send("DELETE", "/schemagroups/g", headers=old).status_code == 412
