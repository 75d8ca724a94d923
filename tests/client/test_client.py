"""The client against a whole registry."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from signalbook.client import Client, ClientError, NotFound, Refused
from signalbook.documents import DocumentError

SCHEMA = b'{"type": "object"}'
FORMAT = {"format": "JsonSchema/draft-07"}


@pytest.fixture(autouse=True)
def _clean(client: Client) -> Iterator[None]:
    yield
    for plural in ("schemagroups", "messagegroups"):
        client.delete(f"/{plural}")


def test_entities_are_put_patched_and_deleted(client: Client) -> None:
    assert client.put("/schemagroups/g", {"description": "one", "name": "n"})["epoch"] == 1
    assert client.patch("/schemagroups/g", {"description": None})["name"] == "n"
    assert "description" not in client.get("/schemagroups/g")
    client.delete("/schemagroups/g", epoch=2)
    with pytest.raises(NotFound) as caught:
        client.get("/schemagroups/g")
    assert (caught.value.code, caught.value.subject) == ("not_found", "/schemagroups/g")


def test_documents_keep_their_bytes(client: Client) -> None:
    client.put_document("/schemagroups/g/schemas/s", SCHEMA, contenttype="application/schema+json", attributes=FORMAT)
    second = {**FORMAT, "name": 'Größe "50 %"', "versionid": "v2"}
    client.post_document("/schemagroups/g/schemas/s", b"{}", attributes=second)
    first = client.document("/schemagroups/g/schemas/s/versions/1")
    assert (first.content, first.contenttype, first.url) == (SCHEMA, "application/schema+json", None)
    latest = client.document("/schemagroups/g/schemas/s")
    assert (latest.content, latest.contenttype) == (b"{}", None)
    assert latest.attributes["name"] == 'Größe "50 %"'  # R166, R167
    assert client.get("/schemagroups/g/schemas/s")["versionscount"] == 2


def test_a_document_kept_elsewhere(client: Client) -> None:
    client.put("/schemagroups/g/schemas/s", {**FORMAT, "schemaurl": "http://elsewhere.example/s"})
    assert client.document("/schemagroups/g/schemas/s").url == "http://elsewhere.example/s"  # R157


def test_post_adds_to_a_collection(client: Client) -> None:
    assert client.post("/schemagroups", {"a": {}, "b": {}}).keys() == {"a", "b"}
    assert [name for name, _ in client.items("/schemagroups")] == ["a", "b"]


def test_members_are_filtered_sorted_and_paged(client: Client) -> None:
    """The filter works page by page with any content of the flags (R181, R212, R288)."""
    groups = {f"g{n}": {"name": "a,b & c" if n % 2 else "other", "labels": {"n": str(n)}} for n in range(7)}
    client.post("/schemagroups", {**groups, "x": {}})
    members = client.items("/schemagroups", filter=["name=a*", "labels.n=6"], sort="labels.n=desc", limit=2)
    assert [name for name, _ in members] == ["g6", "g5", "g3", "g1"]
    assert list(client.get(filter="schemagroups.labels.n=4", inline=["schemagroups"])["schemagroups"]) == ["g4"]
    assert list(client.get("/schemagroups", filter="name=null")) == ["x"]
    with pytest.raises(NotFound):
        client.get("/schemagroups/g1", filter="name=nobody")


def test_faults_of_the_server_are_reported(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.put("/schemagroups/g", {"name": 1, "labels": 2})
    error = caught.value
    assert error.status == 400
    assert {fault.path for fault in error.faults} >= {"name", "labels"}
    assert str(error).startswith(error.title)
    assert "labels" in str(error)


@pytest.mark.parametrize("target", ["schemagroups", "/schemagroups/b d", "//", "/a/b/c/d/e/f/g"])
def test_invalid_xid_is_not_sent(client: Client, target: str) -> None:
    with pytest.raises(ClientError, match="is no xid"):
        client.get(target)


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://x", "http://", "http://[", "http://x:99999", "file:///etc/passwd"]
)
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ClientError, match="is no URL of a registry"):
        Client(url)


@pytest.mark.parametrize("url", ["http://x?token=pa55", "http://x/#pa55"])
def test_url_with_a_query_is_rejected(url: str) -> None:
    """Paths are appended to the URL, so all requests would go to the root."""
    with pytest.raises(ClientError, match=r"without \? and #") as refused:
        Client(url)
    assert "pa55" not in str(refused.value)


VERSIONS = {"1": {**FORMAT, "schema": {"type": "object"}}, "2": {**FORMAT, "schema": {}}}
DOCUMENT = {"schemagroups": {"g": {"schemas": {"s": {"versions": VERSIONS}}}}}


@pytest.mark.parametrize("target", ["/", "/schemagroups", "/schemagroups/g", "/schemagroups/g/schemas/s"])
def test_exported_document_can_be_imported(client: Client, target: str) -> None:
    client.import_document(DOCUMENT)
    exported = client.export(target)
    client.delete("/schemagroups")
    assert str(client.import_document(exported).target) == target
    assert client.get("/schemagroups/g/schemas/s")["versionscount"] == 2
    assert client.document("/schemagroups/g/schemas/s/versions/1").content == b'{"type":"object"}'


def test_import_keeps_unnamed_entities(client: Client) -> None:
    client.put("/schemagroups/g", {"description": "kept", "labels": {"a": "b"}})
    client.put("/schemagroups/other", {})
    client.import_document({"schemagroups": {"g": {"name": "new"}}})
    group = client.get("/schemagroups/g")
    assert (group["name"], group["description"], group["labels"]) == ("new", "kept", {"a": "b"})
    assert client.get("/schemagroups/other")


def test_an_imported_model_extends_the_registrys(client: Client) -> None:
    upload = client.import_document({"groups": {"dirs": {"singular": "dir"}}})
    assert client.model()["groups"].keys() >= {"dirs", "schemagroups", "messagegroups", "endpoints"}
    assert upload.body["modelsource"]["groups"].keys() >= {"dirs"}
    assert client.import_document({"groups": {"dirs": {"singular": "dir"}}}).body == {}


@pytest.mark.parametrize("document", [[], "x", 1, None, {"xid": "nonsense"}])
def test_invalid_registry_document_is_rejected(client: Client, document: object) -> None:
    with pytest.raises(DocumentError):
        client.import_document(document)


def test_the_configuration(client: Client) -> None:
    assert client.capabilities()["specversions"]
    source = client.modelsource()
    assert client.put_modelsource(source) == source


def test_write_can_be_checked(client: Client) -> None:
    schema = "/schemagroups/g/schemas/s"
    client.put_document(schema, SCHEMA, attributes=FORMAT)
    verdict = client.check("PUT", "/schemagroups/h", {"description": "d"})
    assert verdict.accepted
    assert "/schemagroups/h" in {change["xid"] for change in verdict.changes}
    refused = client.check("POST", schema, content=b'{"type": "nonsense"}', attributes=FORMAT)
    assert not refused.accepted
    assert refused.errors[0]["type"].endswith("#format_violation")
    assert client.check("DELETE", schema).accepted
    assert client.get(schema)["versionscount"] == 1
    with pytest.raises(Refused, match="compatibility"):
        client.check("POST", schema, content=b"{}", attributes=FORMAT, compatibility="sideways")


def test_document_can_be_checked(client: Client) -> None:
    verdict = client.check_document({"endpoints": {"e": {"usage": ["producer", "consumer"]}}})
    assert verdict.accepted
    assert [finding.path for finding in verdict.findings] == ["/endpoints/e#usage"]
    assert client.get("/endpoints") == {}
    document = {"modelsource": {"groups": {"shelves": {"singular": "shelf"}}}, "shelves": {"d": {}}}
    assert client.check_document(document).accepted
    with pytest.raises(NotFound):
        client.get("/shelves")


def test_an_export_of_any_size_comes_in_pieces(client: Client) -> None:
    client.put("/schemagroups/g", {"description": "d"})
    assert b'"description":"d"' in b"".join(client.export_stream()).replace(b": ", b":")
    assert b'"schemagroupid"' in b"".join(client.export_stream("/schemagroups/g"))
    with pytest.raises(NotFound):
        list(client.export_stream("/schemagroups/gone"))


def test_the_client_and_its_commands_run_without_what_windows_lacks() -> None:
    program = """
import sys
sys.modules["fcntl"] = sys.modules["uvloop"] = None
sys.argv = ["signalbook", "get", "/", "--server", "http://127.0.0.1:9"]
from signalbook.cli import main
main()
"""
    # Without fcntl, filelock warns that its locks are files: that is another way on this system, and none on Windows.
    command = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "cannot reach the server" in ended.stderr
