"""Requests made of anything: every one gets an answer, none fails inside, none that is refused changes anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signalbook.storage import open_store

if TYPE_CHECKING:
    from tests.api.conftest import Client, Serve

METHODS = st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"])
KNOWN = "dirs d1 files f1 notes n1 meta versions 1 null request $details f1$details"
BESIDE = "model modelsource capabilities export .xregistry .. . %00 %2F %FF %0A"
STEPS = st.one_of(
    st.sampled_from(["", "a" * 200, *KNOWN.split(), *BESIDE.split()]),
    st.text(max_size=6).map(lambda text: quote(text, safe="")),
)
PATHS = st.one_of(
    st.lists(STEPS, max_size=7).map(lambda steps: "/" + "/".join(steps)),
    st.sampled_from(["/", "/dirs", "/dirs/d1", "/dirs/d1/files/f1", "/dirs/d1/files/f1$details", "/dirs/d1/notes/n1"])
    | st.sampled_from(["/dirs/d1/notes/n1/meta", "/dirs/d1/notes/n1/versions", "/capabilities", "/modelsource"]),
)
FLAGS = st.sampled_from(
    [
        "binary",
        "collections",
        "doc",
        "epoch",
        "filter",
        "ignore",
        "inline",
        "limit",
        "setdefaultversionid",
        "specversion",
    ]
)
QUERIES = st.lists(
    st.tuples(FLAGS, st.sampled_from(["", "*", "null", "0", "dirs.*", "é"]) | st.text(max_size=5)), max_size=3
)
ATTRIBUTES = """dirs d1 files f1 notes name epoch labels meta versions versionid ancestorid file filebase64 fileurl
    contenttype createdat modifiedat xref deprecated constraints defaultversionid defaultversionsticky self xid
    capabilities modelsource groups attributes"""
NAMES = st.sampled_from(ATTRIBUTES.split())
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        ["/dirs/d1/files/f1", "2026-01-01T00:00:00Z", "1", "string", "\ud800".encode("utf-8", "replace").decode()]
    ),
)
BODIES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4)
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["name", "labels.a", "labels", "epoch", "fileurl", "versionid", "xid", "file", "size", "a", "."]
    ).map(lambda name: f"xRegistry-{name}"),
    st.sampled_from(["null", "", "%", "%41", '"', "1", "http://x", "%C0%A0"]),
    max_size=2,
)


@pytest.fixture(scope="module")
def stores() -> Iterator[Any]:
    store = open_store("sqlite://")
    yield store
    store.close()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=METHODS, path=PATHS, query=QUERIES, body=BODIES | st.binary(max_size=20), headers=HEADERS)
def test_any_request(
    hostile: Client, method: str, path: str, query: list[tuple[str, str]], body: Any, headers: dict[str, str]
) -> None:
    """R22."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    before = hostile.get("/export").text
    answer = hostile.send(method, f"http://r.example{path}?{urlencode(query)}", content=content, headers=headers)
    assert answer.status_code < 500, (answer.text, method, path, query, body, headers)
    if answer.status_code >= 400:
        assert hostile.get("/export").text == before
        if method != "HEAD":
            assert "#" in answer.json()["type"]


@pytest.fixture
def hostile(stores: Any, serve: Serve) -> Client:
    client = serve(stores)
    files = {"singular": "file", "attributes": {"*": {"type": "any"}, "size": {"type": "integer"}}}
    notes = {"singular": "note", "hasdocument": False}
    model = {"groups": {"dirs": {"singular": "dir", "resources": {"files": files, "notes": notes}}}}
    assert client.put("/modelsource", model).status_code == 200
    client.put("/capabilities", client.get("/capabilities").json())
    client.send("POST", "/dirs/d1", json={"files": {"f1": {"file": "x"}}, "notes": {"n1": {}}})
    return client
