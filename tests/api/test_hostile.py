"""Requests made of anything: every one gets an answer, none fails inside, none that is refused changes anything."""

import json
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.conftest import Client, Serve
from tests.examples import examples

from signalbook.storage.store import Store

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
QUERY_FLAGS = "binary collections doc epoch filter ignore inline limit setdefaultversionid specversion"
FLAGS = st.sampled_from(QUERY_FLAGS.split())
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


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=METHODS, path=PATHS, query=QUERIES, body=BODIES | st.binary(max_size=20), headers=HEADERS)
def test_any_request(
    hostile: Client, method: str, path: str, query: list[tuple[str, str]], body: Any, headers: dict[str, str]
) -> None:
    """No request fails with 5xx, and rejected requests change nothing (R22)."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    before = hostile.get("/export").text
    answer = hostile.send(method, f"http://r.example{path}?{urlencode(query)}", content=content, headers=headers)
    assert answer.status_code < 500, (answer.text, method, path, query, body, headers)
    if answer.status_code >= 400:
        assert hostile.get("/export").text == before
        if method != "HEAD":
            assert "#" in answer.json()["type"]


@pytest.fixture
def hostile(lasting_store: Store, serve: Serve) -> Client:
    client = serve(lasting_store)
    files = {"singular": "file", "attributes": {"*": {"type": "any"}, "size": {"type": "integer"}}}
    notes = {"singular": "note", "hasdocument": False}
    model = {"groups": {"dirs": {"singular": "dir", "resources": {"files": files, "notes": notes}}}}
    assert client.put("/modelsource", model).status_code == 200
    client.put("/capabilities", client.get("/capabilities").json())
    client.send("POST", "/dirs/d1", json={"files": {"f1": {"file": "x"}}, "notes": {"n1": {}}})
    return client


TOKENS = [
    b"null", b"true", b"0", b"-0", b"1.0", b"1e400", b"-1e-400", b"1E5", b"9" * 20, b"-" + b"9" * 400,
    b"0.1" + b"0" * 500,
    b"NaN", b"Infinity", b"01", b'""', b'" "', b'"\\u0000"', b'"a\\u0000b"', b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\\uffff"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\x00"', b'"' + b"x" * 5000 + b'"',
    b"{}", b"[]", b"[[[]]]",
    b'{"a": 1, "a": 2}', b'{"": ""}', b'{"\\u0000": "x"}', b'{"\\ud800": "x"}', b'{"a": {"b": "\\u0000"}}',
    b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70, b"[" * 100_000, b'"', b"", b"\xef\xbb\xbf{}",
    b'"2026-13-45T99:99:99Z"', b'"0000-01-01T00:00:00Z"', b'"9999-12-31T23:59:59-23:59"', b'"urn:\\u0000"', b'"http://["',
]  # fmt: skip
"""Values of JSON, or nearly so: odd numbers, text that databases and encoders choke on, depth, two of one name."""
PLACES = ["/dirs/d1", "/dirs/d1/files/f1$details", "/dirs/d1/notes/n1", "/dirs/d1/files/f1/meta", "/dirs", "/"]
NESTED = ["", "versions", "meta", "labels", "files", "owner", "dirs"]
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["\0", "\ufffe", "a\0b", "\U0010ffff", "e\u0301", "\u202e", "x" * 9000, "' OR 1=1 --"]
)


def harmless(client: Client, method: str, path: str, **sent: Any) -> None:
    """Send a request and check that it does not fail inside, that a rejection changes nothing, and that accepted
    content can be read again.
    """
    before = client.get("/export").content
    answer = client.send(method, path, **sent)
    assert answer.status_code < 500, (answer.text, method, path, sent)
    if answer.status_code >= 400:
        assert client.get("/export").content == before
    else:
        assert client.get("/?inline=*").status_code == client.get("/export").status_code == 200


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["PUT", "PATCH", "POST", "DELETE"]),
    path=st.sampled_from(PLACES),
    nested=st.sampled_from(NESTED),
    name=NAMES | st.sampled_from(["size", "ratio", "hidden", "tags", "counts", "text", "other", "d1", "f1", "1"]),
    token=st.sampled_from(TOKENS),
)
def test_any_value(client: Client, method: str, path: str, nested: str, name: str, token: bytes) -> None:
    """R3-R18, R20, R22, on every database."""
    body = b'{"%s": %s}' % (name.encode(), token)
    content = b'{"%s": %s}' % (nested.encode(), body) if nested else body
    harmless(client, method, path, content=content)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    id=TEXTS,
    flag=FLAGS | st.just("sort"),
    value=TEXTS,
    raw=st.binary(max_size=6),
    header=st.sampled_from(["name", "labels.a", "size", "versionid", "ancestorid", "fileurl", "x", "createdat"]),
)
def test_any_text_anywhere(
    client: Client, method: str, id: str, flag: str, value: str, raw: bytes, header: str
) -> None:
    """The text is in the path, the query, headers and the document, on every database (R25, R136, R166, R167)."""
    path = f"/dirs/d1/files/{quote(id, safe='')}?{flag}={quote(value, safe='')}"
    sent = {f"xRegistry-{header}": quote(value, safe="") if len(raw) % 2 else value.encode()}
    plain = {name: text for name, text in sent.items() if isinstance(text, str) or not set(text) & set(b"\0\r\n")}
    harmless(client, method, path, content=raw, headers=plain)
    harmless(client, method, f"/dirs/d1/files/f1?{flag}=%{raw.hex()}", content=raw)


@pytest.mark.parametrize(
    "text",
    [
        "dirid=\0", "dirid=a\0*", "dirid>\0", "files.fileid=\0", "files.versionid<a\0", "name=\0", "labels.a\0=1",
        "createdat=9999-12-31T23:59:60Z", "createdat=9999*", "createdat=0000*", "modifiedat>0001-01-01T00:00:00+23:59",
        pytest.param(f"filescount>{'9' * 5000}", id="more digits than int takes"), "epoch<1e999999999",
    ],
)  # fmt: skip
def test_any_filter(client: Client, text: str) -> None:
    """R189, on every database, of which some keep no NUL."""
    client.send("POST", "/dirs/d1", json={"files": {"f1": {"file": "x"}}})
    for path in ("/dirs", "/", "/export"):
        answer = client.get(f"{path}?filter={quote(text, safe='')}")
        assert answer.status_code < 500, answer.text


def test_duplicate_names_are_rejected(client: Client) -> None:
    """Two readers could get different values from it (R20, RFC8259 4)."""
    body = client.refused("PUT", "/dirs/d1", "parsing_data", content=b'{"name": "a", "labels": {}, "name": "b"}')
    assert "'name' twice" in body["title"]
