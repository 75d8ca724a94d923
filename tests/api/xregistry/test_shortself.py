"""Short URLs of entities over HTTP, on every database (core/spec.md "shortself Attribute"; R32, R122)."""

from typing import Any

import pytest
from tests.api.conftest import MODEL, Client, Serve

from signalbook.storage.store import Store

ROOT = "http://r.example"
LONG = "/dirs/a.long.name.of.a.group/files/a.long.name.of.a.file"
OTHER = "/dirs/a.long.name.of.a.group/files/another.long.name"


@pytest.fixture
def short(client: Client) -> Client:
    """A client of a registry with short URLs, a file with two Versions and a cross reference to it."""
    assert client.send("PATCH", "/capabilities", json={"shortself": True}).status_code == 200
    versions = {"version.one": {"file": {"a": 1}}, "version.two": {"file": {"a": 2}}}
    assert client.put(f"{LONG}$details", {"versions": versions}).status_code == 201
    assert client.put(f"{OTHER}$details", {"meta": {"xref": LONG}}).status_code == 201
    return client


def shorts(value: Any) -> list[tuple[str, str]]:
    """Xid and short URL of every entity in ``value``."""
    if not isinstance(value, dict):
        return []
    own_pair = [(value["xid"], value["shortself"])] if "shortself" in value else []
    return own_pair + [short for inner in value.values() for short in shorts(inner)]


def below(url: str) -> str:
    """The path of an absolute URL of the registry."""
    assert url.startswith(f"{ROOT}/"), url
    return url.removeprefix(ROOT)


def test_every_entity_has_a_short_url(short: Client) -> None:
    """The entities are Registry, Groups, Resources, metas and Versions, including those of a cross reference (R32)."""
    pairs = shorts(short.get("/?inline=*").json())
    assert len(pairs) == 10
    assert len(dict(pairs)) == len({url for _, url in pairs}) == len(pairs)
    for xid, url in pairs:
        assert "$" not in url
        assert len(url) <= len(f"{ROOT}{xid}")
        details = "$details" if xid.count("/") in (4, 6) else ""
        entity = short.get(f"{below(url)}{details}").json()
        assert (entity["xid"], entity["shortself"]) == (xid, url)
        assert entity == short.get(f"{xid}{details}").json()


def test_short_url_follows_self(short: Client) -> None:
    """The attribute has the position that the specification lists, also in headers (R55 to R57)."""
    for path in ("/", "/dirs/a.long.name.of.a.group", f"{LONG}$details", f"{LONG}/meta", f"{OTHER}/meta"):
        names = list(short.get(path).json())
        assert names.index("shortself") == names.index("self") + 1
    headers = short.get(LONG).headers
    assert headers["xRegistry-shortself"] == short.get(f"{LONG}$details").json()["shortself"]


def test_short_url_supports_the_requests_of_self(short: Client) -> None:
    """The requests include documents without ``$details``, flags, writes, conditions, and nested paths (R32)."""
    path = below(short.get(f"{LONG}$details").json()["shortself"])
    document = short.get(path)
    assert (document.json(), document.headers["ETag"]) == ({"a": 2}, short.get(LONG).headers["ETag"])
    assert list(short.get(f"{path}$details?inline=versions").json()["versions"]) == ["version.one", "version.two"]
    assert short.get(f"{path}/versions/version.one").json() == {"a": 1}
    assert short.send("PATCH", f"{path}$details", json={"name": "N"}).json()["name"] == "N"
    assert short.send("OPTIONS", path).headers["Allow"] == short.send("OPTIONS", LONG).headers["Allow"]
    assert short.send("PATCH", f"/check{path}$details", json={"name": "M"}).json()["accepted"] is True
    assert short.send("DELETE", path).status_code == 204
    assert short.get(LONG).status_code == 404


def test_short_url_is_stable(short: Client, store: Store, serve: Serve) -> None:
    """The URL survives updates, a period with the capability switched off, and a restart of the server (R32)."""
    before = dict(shorts(short.get("/?inline=*").json()))
    short.send("PATCH", f"{LONG}$details", json={"name": "N"})
    assert short.send("PATCH", "/capabilities", json={"shortself": None}).json()["shortself"] is False
    assert shorts(short.get("/?inline=*").json()) == []
    # Those that were given out are in messages by now, so they still lead to their entities.
    assert short.get(below(before[LONG])).json() == {"a": 2}
    short.send("PATCH", "/capabilities", json={"shortself": True})
    assert dict(shorts(serve(store).get("/?inline=*").json())) == before


def test_short_url_of_a_deleted_entity_is_not_found(short: Client) -> None:
    """A new entity at the same path gets another URL (R32)."""
    path = below(short.get(f"{LONG}$details").json()["shortself"])
    short.send("DELETE", LONG)
    short.put(f"{LONG}$details", {})
    body = short.refused("GET", path, "not_found")
    assert (body["subject"], body["detail"]) == (path, "the entity of this short URL is gone")
    short.refused("GET", "/~nothing", "not_found")
    short.refused("GET", f"{path}/versions/a/b", "not_found")


def test_short_url_is_ignored_in_writes(short: Client) -> None:
    """A shown entity can be sent back with PUT, PATCH and in headers (R14)."""
    entity = short.get(f"{LONG}$details").json()
    for method in ("PUT", "PATCH"):
        sent = {**entity, "shortself": "http://elsewhere.example/x"}
        del sent["epoch"]
        assert short.send(method, f"{LONG}$details", json=sent).json()["shortself"] == entity["shortself"]
    assert short.put_document(LONG, b"text", shortself="x").headers["xRegistry-shortself"] == entity["shortself"]


def test_document_view_has_no_short_urls(short: Client) -> None:
    """Exports have no short URLs either, with and without the capability (R270)."""
    export = short.get("/export?inline=*").json()
    assert shorts(export) == shorts(short.get(f"{LONG}$details?doc&inline=*").json()) == []
    assert short.send("PUT", "/", json=export).status_code == 200


def test_short_url_can_be_filtered_and_sorted_by(short: Client) -> None:
    """The attribute behaves like any other (R186)."""
    url = short.get(f"{LONG}$details").json()["shortself"]
    assert list(short.get("/dirs/a.long.name.of.a.group/files", params={"filter": f"shortself={url}"}).json()) == [
        "a.long.name.of.a.file"
    ]
    assert len(short.get("/dirs/a.long.name.of.a.group/files?sort=shortself").json()) == 2


def test_off_unless_switched_on(store: Store, serve: Serve) -> None:
    """The default is that of the specification, also for a new registry (R122)."""
    client = serve(store)
    client.put("/modelsource", MODEL)
    client.put(LONG.rsplit("/files", 1)[0], {"files": {"f": {}}})
    assert client.get("/capabilities").json()["shortself"] is False
    assert client.get("/capabilitiesoffered").json()["shortself"]["enum"] == [False, True]
    assert "shortself" not in client.get("/?inline=*").text
