"""`/schema?uri=`: versions by their URIs."""

from urllib.parse import quote

import pytest
from tests.api.schemaregistry.conftest import BASE, INT, LONG, TEXT, Schemas

S = "/schemagroups/g/schemas/s"


def test_the_table_of_examples(filled: Schemas) -> None:
    """The table is checked for the registry at its own URL (A-27, A-28, A-29, A-43b, A-54)."""
    table = [
        ("", "342", f"{BASE}/342"),
        (BASE, "343", f"{BASE}/343"),
        ("http://schemas.example.com/", "/mygroup/schemas/myschema/versions/2",
         "http://schemas.example.com/mygroup/schemas/myschema/versions/2"),
        ("http://schemas.example.org/", "http://schemas.example.org/41751", "http://schemas.example.org/41751"),
        ("urn:example:schemas", "a1b2c3d4", "urn:example:schemas:a1b2c3d4"),
    ]  # fmt: skip
    for number, (authority, id_, uri) in enumerate(table):
        headers = {"schema_authority": authority} if authority else {}
        posted = filled.post(f"g/t{number}", INT, f"?id={id_}", **headers)
        assert posted.headers["Schema-Id"] == id_
        answer = filled.lookup(uri)
        assert (answer.status_code, answer.headers["Location"]) == (200, posted.headers["Location"])
        assert filled.lookup(posted.headers["Location"]).status_code == 200  # its URL as well


def test_the_default_uri_is_the_url(filled: Schemas) -> None:
    """The URI of a version without both attributes is its URL (A-20, A-30)."""
    url = f"{BASE}{S}/versions/1"
    by_uri, by_url = filled.lookup(url), filled.other.get(url)
    assert (by_uri.content, by_uri.headers["Schema-Id"]) == (INT, f"{S}/versions/1")
    assert by_uri.headers == by_url.headers
    assert filled.lookup(f"http://r.example{S}/versions/1").content == INT


def test_an_authority_alone(filled: Schemas) -> None:
    """A-13, A-20, A-28, D-5"""
    filled.post("g/s", TEXT, "?authority=https://a.example/x/")
    assert filled.lookup(f"https://a.example/x{S}/versions/3").content == TEXT
    assert filled.lookup(f"https://b.example/x{S}/versions/3").status_code == 404
    assert filled.lookup(f"https://a.example/x{S}/versions/1").status_code == 404


def test_head(filled: Schemas) -> None:
    """HEAD returns the headers of GET (A-50)."""
    url = f"{BASE}{S}/versions/2"
    head, answer = filled.lookup(url, "HEAD"), filled.lookup(url)
    assert (head.status_code, head.content, head.headers) == (200, b"", answer.headers)
    assert answer.content == LONG


NO_URIS = [
    *((query, 400) for query in ("", "?uri=", "?uri=a&uri=b", "?uri=%ff", "?" + "&" * 5)),
    *((f"?uri={uri}", 404) for uri in ("urn:none", "%00", "/" * 5000, "http://r.example/schemagroups/g")),
]


def test_uris_of_nothing(filled: Schemas) -> None:
    """Unknown and malformed URIs are rejected (A-43b)."""
    for query, status in NO_URIS:
        answer = filled.get(f"/schema{query}")
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")


def test_unnumbered_version_is_not_found_by_its_uri(filled: Schemas) -> None:
    """Versions without a number are not found by their URI (J-10)."""
    filled.other.put("/schemagroups/open/schemas/n/versions/v1$details", {"format": "Own/1", "globaluri": "urn:v1"})
    assert filled.lookup("urn:v1").status_code == 404


def test_uris_written_through_xregistry(filled: Schemas) -> None:
    """D-5, J-8"""
    filled.other.send("PATCH", f"{S}/versions/1$details", json={"globaluri": "urn:one", "authority": "urn:ignored"})
    answer = filled.lookup("urn:one")
    assert (answer.content, answer.headers["Schema-Id"]) == (INT, "urn:one")
    filled.send("DELETE", f"{S}/versions/1")
    assert filled.lookup("urn:one").status_code == 404
    assert filled.post("open/x", INT, "?id=urn:one&format=avro").status_code == 200


FUTURE = "/schemagroups/g/schemas/future/versions/1"


def test_a_versions_path_is_its_own(filled: Schemas) -> None:
    """The URI can be claimed neither before nor after the version is created, in any spelling (A-20, A-21)."""
    for before in (True, False):
        paths = (
            FUTURE,
            f"{FUTURE}/",
            FUTURE.replace("f", "%66"),
            *(f"{at}compat/schemaregistry/v0.2{FUTURE}" for at in ("/", "")),
        )
        for claim in (*paths, f"{BASE}{FUTURE}", f"http://R.EXAMPLE:80{FUTURE}"):
            refused = filled.post("g/evil", TEXT, f"?id={quote(claim, safe='')}")
            assert (refused.status_code, refused.headers["Content-Type"]) == (409, "application/problem+json")
            assert FUTURE in refused.json()["detail"]
        if before:
            assert filled.post("g/future", LONG).status_code == 200
    for uri in (f"{BASE}{FUTURE}", f"/compat/schemaregistry/v0.2{FUTURE}", FUTURE):
        assert filled.lookup(uri).content == LONG
    assert filled.post("g/evil", TEXT, f"?id={FUTURE[:-1]}named").status_code == 409  # nor those of xRegistry alone
    assert filled.get("/schemagroups/g/schemas/evil").status_code == 404
    assert filled.post("g/future", TEXT, f"?id={FUTURE[:-1]}2").status_code == 200  # one's own path may be said


@pytest.mark.parametrize("claim", [FUTURE, f"{BASE}{FUTURE}", "urn:taken", "URN:taken"])
def test_claimed_uri_is_rejected_on_all_ways(filled: Schemas, claim: str) -> None:
    """Writes of xRegistry, of one Version and of whole trees, are rejected with 409 too (A-21)."""
    filled.post("g/future", LONG)
    filled.post("g/holder", LONG, "?id=urn:taken")
    version = {"format": "Avro/1.11", "schema": {"type": "int"}, "globaluri": claim}
    before = filled.state()
    for method, path, body in [
        ("PATCH", "/schemagroups/g/schemas/s/versions/1$details", {"globaluri": claim}),
        ("PATCH", "/schemagroups/g/schemas/s$details", {"globaluri": claim}),
        ("PUT", "/schemagroups/g/schemas/evil$details", version),
        ("POST", "/schemagroups/g/schemas/s/versions", {"9": version}),
        ("POST", "/", {"schemagroups": {"new": {"schemas": {"evil": version}}}}),
        ("PUT", "/", {"schemagroups": {"new": {"schemas": {"evil": {"versions": {"4": version}}}}}}),
    ]:
        refused = filled.other.send(method, path, json=body)
        assert (refused.status_code, refused.json()["type"].rpartition("#")[2]) == (409, "invalid_attribute"), path
        assert filled.state() == before
    headers = {"xRegistry-globaluri": claim, "xRegistry-format": "Avro/1.11"}
    refused = filled.other.send("PUT", "/schemagroups/g/schemas/evil", content=INT, headers=headers)
    assert refused.status_code == 409


def test_uri_of_a_deleted_schema_is_free(filled: Schemas) -> None:
    """A deleted schema claims nothing (A-21)."""
    filled.post("g/a", INT, "?id=urn:passing")
    assert filled.post("g/b", TEXT, "?id=urn:passing").status_code == 409
    filled.send("DELETE", "/schemagroups/g/schemas/a")
    assert filled.post("g/b", TEXT, "?id=urn:passing").status_code == 200
    assert filled.lookup("urn:passing").content == TEXT
