"""What clients that were written against the specification's reference server meet, judged by the text."""

import json
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store

D1, F1, N1 = "/dirs/d1", "/dirs/d1/files/f1", "/dirs/d1/notes/n1"
ROOT = "http://r.example"


@pytest.fixture
def filled(client: Client) -> Client:
    """A registry with a document and a note."""
    client.put_document(F1, b"{}", "application/json")
    client.put(N1, {})
    return client


@pytest.mark.parametrize(
    ("method", "path", "code", "sent"),
    [
        ("POST", "/", "bad_request", {"json": {"dirs": {"d2": 1}}}),
        ("POST", f"{F1}/versions?setdefaultversionid=", "bad_defaultversionid", {"json": {"v2": {}}}),
        ("GET", f"{F1}?collections", "bad_flag", {}),
        ("GET", f"{F1}/versions/1?collections", "bad_flag", {}),
        ("PUT", f"{F1}/versions/1$details?epoch=x", "bad_request", {"json": {}}),
        ("PATCH", f"{F1}$details", "missing_body", {}),
        ("GET", f"{F1}$details?collections", "bad_flag", {}),
        ("PUT", f"{N1}/meta", "malformed_xref", {"json": {"xref": "nowhere"}}),
        ("PUT", "/dirs/a b", "malformed_id", {"json": {}}),
    ],
)
def test_the_subject_is_the_path_of_the_request(
    filled: Client, method: str, path: str, code: str, sent: dict[str, Any]
) -> None:
    """The rule is that of core/spec.md, "Subject: <request_path>" (R177, R278)."""
    assert filled.refused(method, path, code, **sent)["subject"] == path.partition("?")[0]


def test_check_names_the_same_subject(filled: Client) -> None:
    """R278, R135."""
    assert filled.send("POST", "/check/", json={"dirs": {"d2": 1}}).json()["errors"][0]["subject"] == "/"


@pytest.mark.parametrize("path", ["/dirs//files/f1", "/dirs//files", f"{D1}/files/$details", f"{F1}/versions//"])
def test_empty_ids(filled: Client, path: str) -> None:
    """An empty id is no id (R25)."""
    if path.endswith("//"):  # slashes at the end do not count
        assert filled.get(path).status_code == 200
    else:
        assert filled.refused("GET", path, "malformed_id")["args"]["id"] == ""


def test_options_of_what_cannot_be_changed(filled: Client) -> None:
    """R138, R116."""
    assert "PUT" in filled.send("OPTIONS", D1).headers["Allow"]
    available = filled.get("/capabilities").json()["available"]
    changed = available | {"entities": {"mutable": False}, "modelsource": {"mutable": False}}
    assert filled.send("PATCH", "/capabilities", json={"available": changed}).status_code == 200
    assert filled.send("OPTIONS", D1).headers["Allow"] == "GET, HEAD, OPTIONS"
    assert filled.send("OPTIONS", "/modelsource").headers["Allow"] == "GET, HEAD, OPTIONS"
    assert filled.send("OPTIONS", "/capabilities").headers["Allow"] == "GET, HEAD, PUT, PATCH, OPTIONS"


def test_offered_capabilities_have_attributes(filled: Client) -> None:
    """The attributes are those of the example in core/spec.md "Offered Capabilities" (R130)."""
    offered = filled.get("/capabilitiesoffered").json()
    assert offered["available"]["type"] == "object"
    assert offered["available"]["attributes"]["model"]["attributes"]["mutable"] == {"type": "boolean", "enum": [False]}
    assert offered["compatibilities"]["attributes"]["Avro/*"]["item"] == {"type": "string"}
    assert all("enum" not in entry for entry in offered.values() if entry["type"] in ("map", "object"))


def test_patch_numbers_of_the_specification(filled: Client) -> None:
    """Patch numbers are ignored, and the given version is kept (R129, R180)."""
    sent = {"specversions": ["1.0.5-RC4"]}
    assert filled.send("PATCH", "/capabilities", json=sent).json()["specversions"] == ["1.0.5-RC4"]
    assert filled.get("/?specversion=1.0.7-rc4").status_code == 200
    filled.refused("PATCH", "/capabilities", "capability_value", json={"specversions": ["2.0"]})
    filled.refused("PATCH", "/capabilities", "capability_missing_value", json={"specversions": []})


def test_discovery_can_be_switched_off(filled: Client) -> None:
    """The path ``.xregistry`` is listed in ``available`` (R117, R140)."""
    available = filled.get("/capabilities").json()["available"]
    assert available.pop(".xregistry") == {"mutable": False}
    assert filled.get("/.xregistry").json() == {"registries": [ROOT]}
    filled.send("PATCH", "/capabilities", json={"available": available})
    filled.refused("GET", "/.xregistry", "not_available")


def test_headers_have_the_type_of_any_attribute(client: Client) -> None:
    """A model may require that all extensions are numbers (R160)."""
    model = client.get("/modelsource").json()
    model["groups"]["dirs"]["resources"]["files"]["attributes"]["*"] = {"type": "boolean"}
    assert client.put("/modelsource", model).status_code == 200
    assert client.put_document(F1, b"x", urgent="true").status_code == 201
    assert client.get(f"{F1}$details").json()["urgent"] is True


@pytest.mark.parametrize("path", [F1, f"{F1}/versions/1"])
def test_content_location_names_the_version(filled: Client, path: str) -> None:
    """The header of a Resource names the default Version (R152)."""
    filled.put_document(f"{F1}/versions/2", b"two")
    expected = f"{ROOT}{F1}/versions/{2 if path == F1 else 1}"
    assert filled.get(path).headers["Content-Location"] == expected
    assert filled.put_document(path, b"more").headers["Content-Location"] == expected


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/nope", 'there is no Group type "nope"; there are dirs'),
        ("/dirs/d1/nope/x", '"dirs" have no Resource type "nope"; there are files, notes'),
        ("/dirs/none/files/x", 'there is no "none" among the dirs'),
        ("/dirs/d1/files/none/versions/1", 'there is no "none" among the files in /dirs/d1'),
        (f"{F1}/versions/9", f'there is no "9" among the versions in {F1}'),
    ],
)
def test_error_names_the_missing_path_segment(filled: Client, path: str, detail: str) -> None:
    """The error contains the part of the path that does not exist (R278)."""
    assert filled.refused("GET", path, "not_found")["detail"] == detail
    if path.count("/") > 3:
        assert filled.refused("DELETE", path, "not_found")["detail"] == detail


@pytest.mark.parametrize("path", ["/", "/dirs", "/model", D1, "/dirs/none", "/export", "/events"])
def test_json_ends_with_a_newline_and_is_indented_on_demand(filled: Client, path: str) -> None:
    """People read JSON in a terminal; a client that has one form need not receive the other."""
    plain = filled.get(path)
    assert plain.content.endswith(b"\n")
    assert plain.content.count(b"\n") == 1
    accept = {"Accept": "text/html, application/json; q=0.9; indent=2"}
    laid = filled.get(path, headers=accept)
    if laid.json():
        assert laid.text == json.dumps(plain.json(), indent=2, ensure_ascii=False) + "\n"
    assert "Accept" in laid.headers["Vary"].split(", ")
    if tag := plain.headers.get("ETag"):
        assert laid.headers["ETag"] == f"W/{tag}"
        assert filled.get(path, headers={**accept, "If-None-Match": laid.headers["ETag"]}).status_code == 304


def test_documents_and_large_responses_are_never_laid_out(filled: Client) -> None:
    """Documents are returned as they were sent; laying out large responses would delay other requests (R156)."""
    indented = {"Accept": "application/json; indent=2"}
    body = {f"n{number}": {"text": "x" * 4000} for number in range(300)}
    answer = filled.send("POST", f"{D1}/notes", json=body, headers=indented)
    assert len(answer.content) > 1 << 20
    assert answer.content.count(b"\n") == 1
    assert filled.get(F1, headers=indented).content == b"{}"


def test_resource_attributes_are_rejected_in_versions(filled: Client) -> None:
    """A Resource shows these attributes with those of its default Version, so only a write to it may send them back
    (R17).
    """
    note = filled.get(N1).json()
    assert filled.put(N1, note).status_code == 200
    for name in ("metaurl", "versionsurl", "versionscount", "meta", "versions"):
        body = {name: note.get(name, {"a": 1})}
        for method, path, sent in (
            ("PUT", f"{N1}/versions/1", body),
            ("POST", f"{N1}/versions", {"1": body}),
            ("PATCH", N1, {"versions": {"1": body}}),
        ):
            assert filled.refused(method, path, "invalid_attribute", json=sent)["args"]["name"] == name


def test_null_makes_the_default_follow_the_model(filled: Client) -> None:
    """The value null resets to the default value, which is false: the newest Version (R228, core/model.md
    "default").
    """
    filled.put(f"{N1}/versions/2", {})
    chosen = {"defaultversionid": "1", "defaultversionsticky": True}
    assert filled.send("PATCH", f"{N1}/meta", json=chosen).json()["defaultversionid"] == "1"
    reset = filled.send("PATCH", f"{N1}/meta", json={"defaultversionsticky": None}).json()
    assert (reset["defaultversionid"], reset["defaultversionsticky"]) == ("2", False)
    filled.send("PATCH", f"{N1}/meta", json=chosen)
    meta = filled.send("PATCH", f"{N1}/meta", json={"defaultversionsticky": True}).json()
    assert meta["defaultversionid"] == "1"


def test_errors_in_meta_have_its_subject(filled: Client) -> None:
    """The subject is "a reference to the entity being processed" (R278)."""
    body = {"defaultversionid": "9", "defaultversionsticky": True}
    assert filled.refused("PATCH", f"{N1}/meta", "unknown_id", json=body)["subject"] == f"{N1}/meta"
    assert filled.refused("PATCH", N1, "unknown_id", json={"meta": body})["subject"] == f"{N1}/meta"
    assert filled.refused("PATCH", f"{N1}/meta", "mismatched_epoch", json={"epoch": 9})["subject"] == f"{N1}/meta"


def test_deletion_checks_ids_in_meta(filled: Client) -> None:
    """R171, R27."""
    notes = f"{D1}/notes"
    body = {"n1": {"meta": {"noteid": "other"}}}
    assert filled.refused("DELETE", notes, "mismatched_id", json=body)["subject"] == N1
    assert filled.send("DELETE", notes, json={"n1": {"meta": {"noteid": "n1"}}}).status_code == 204


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/", {"dirs": {}}, {"dirs": {}}),
        (D1, {"files": {}}, {"files": {}}),
        (D1, {"files": {}, "notes": {"n2": {}}}, {"files": {}, "notes": {"n2": {}}}),
    ],
)
def test_empty_maps_are_shown(filled: Client, path: str, body: dict[str, Any], expected: dict[str, Any]) -> None:
    """The value "MUST be a map of the nested entity types" (R146)."""
    answer = filled.send("POST", path, json=body).json()
    assert {name: {key: {} for key in entries} for name, entries in answer.items()} == expected


def test_a_reference_to_itself_shows_nothing(filled: Client) -> None:
    """References are followed once (R262, R265)."""
    assert filled.put(f"{N1}/meta", {"xref": N1}).status_code == 200
    assert filled.get(N1).json()["xid"] == N1
    assert "versionid" not in filled.get(N1).json()
    assert filled.put(f"{N1}/meta", {}).status_code == 200
    assert filled.get(N1).json()["versionid"] == "2"  # ids go on from the highest that was generated (R234)


def test_a_reference_has_no_versions_of_its_own(filled: Client) -> None:
    """The reference "MUST NOT include nested collections", not even empty ones (R171, R263, R266)."""
    filled.put("/dirs/d1/notes/n2", {})
    body = {"meta": {"xref": "/dirs/d1/notes/n2"}, "versions": {}}
    assert filled.refused("PUT", N1, "extra_xref_attribute", json=body)["args"]["name"] == "versions"
    filled.put(f"{N1}/meta", {"xref": "/dirs/d1/notes/n2"})
    filled.refused("DELETE", f"{N1}/versions/9", "not_found")
    filled.refused("DELETE", f"{N1}/versions/1", "bad_request")


def test_the_epoch_after_a_reference(filled: Client) -> None:
    """The epoch is the maximum of the last own one and that of the target, plus 1 (R269)."""
    filled.put("/dirs/d1/notes/n2", {})
    for n in range(4):
        filled.send("PATCH", f"{N1}/meta", json={"labels": {"n": str(n)}})
    before = filled.get(f"{N1}/meta").json()["epoch"]
    for _ in range(3):  # the reference set again and again counts for nothing
        assert filled.put(f"{N1}/meta", {"xref": "/dirs/d1/notes/n2"}).status_code == 200
    assert filled.get(f"{N1}/meta").json()["epoch"] == 1
    assert filled.put(f"{N1}/meta", {}).json()["epoch"] == before + 1


def test_a_rule_of_compatibility_belongs_to_meta(store: Store, serve: Serve) -> None:
    """The rule would have no effect as an extension of a Version (R118)."""
    client = serve(store, model="default")
    schema = "/schemagroups/g/schemas/s"
    client.put_document(schema, b'"string"', "application/json", format="Avro/1.11")
    body = {"compatibility": "full"}
    for method, path, sent in (
        ("PATCH", f"{schema}$details", {"json": body}),
        ("PUT", schema, {"content": b'"string"', "headers": {"xRegistry-compatibility": "full"}}),
    ):
        error = client.refused(method, path, "invalid_attribute", **sent)
        assert "meta.compatibility" in error["args"]["error_detail"]
    assert client.send("PATCH", f"{schema}$details", json={"meta": body}).status_code == 200


def test_form_content_type_is_ignored(filled: Client) -> None:
    """curl sends it with whatever follows -d."""
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert filled.send("PUT", F1, content=b"text", headers=headers).status_code == 200
    assert "Content-Type" not in filled.get(F1).headers


@pytest.mark.parametrize("text", ["text", 'syntax = "proto3";', '{"a": 1}', "5", '"quoted"'])
def test_text_in_json_is_the_document(filled: Client, text: str) -> None:
    """The document is the text, not its JSON encoding; a shown entity can be sent back, and is JSON if its content type
    says so (R248, R249).
    """
    for sent, content in (({}, text), ({"contenttype": "application/json"}, json.dumps(text))):
        details = filled.put(f"{F1}$details?inline=file", {"file": text, **sent}).json()
        assert (details["file"], details["contenttype"]) == (text, sent.get("contenttype", "text/plain"))
        assert filled.get(F1).text == content
        del details["epoch"]
        filled.put(f"{F1}$details", details)
        assert filled.get(F1).text == content


def test_invalid_json_document_is_binary(filled: Client) -> None:
    """The rule is "the server MUST treat the document as `binary`" (R249)."""
    filled.put_document(F1, b"text", "application/json")
    details = filled.get(f"{F1}$details?inline=file").json()
    assert (details["filebase64"], "file" in details) == ("dGV4dA==", False)
