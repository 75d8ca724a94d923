"""What all pages have in common: valid HTML, a strict policy, bounded size, errors for people, nothing that runs."""

import base64
import hashlib
import json
from typing import Any

import pytest

from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import PATHS, Document, form_token, show

BIDI = "\u202egnp.exe\u202c"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "</title></textarea></style><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    f"https://example.com/{BIDI}",
)
ROOT = "xregistry-root"
ALLOWED = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "nav", "main", "footer", "aside"),
    *("section", "div", "p", "h1", "h2", "h3", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr"),
    *("th", "td", "form", "label", "input", "select", "option", "button", "textarea", "pre", "code", "span", "bdi"),
    *("time", "img", "details", "summary", "mark", "fieldset", "legend", "figure", "figcaption", "strong"),
    *(f"{{http://www.w3.org/2000/svg}}{name}" for name in ("svg", "rect", "title", "a", "g", "path", "text")),
    *(f"{{http://www.w3.org/2000/svg}}{name}" for name in ("defs", "marker")),
}


def harmless(page: Document) -> None:
    """Check that the page runs and loads nothing, and links only to web addresses."""
    for element in page.root.iter():
        assert element.tag in ALLOWED, element.tag
        for name, value in element.attrib.items():
            assert not name.startswith("on"), f"{element.tag} {name}"
            assert name != "style"
            if name in ("href", "src", "action", "data-hx-get", "data-hx-post"):
                assert value.startswith(("/", "#", "http://", "https://")), value
    assert {script.get("src", "").rpartition("/")[0] for script in page.all("script")} == {"/ui/-/static"}
    assert all(not script.text for script in page.all("script"))
    assert {script.get("src", "").rpartition("/")[0] for script in page.all("img")} == {"/ui/-/static"}
    assert not set(page.text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00\x1b")


def test_a_page_is_valid_small_and_has_what_readers_need(explorer: Client) -> None:
    for path in PATHS:
        page = show(explorer, path)
        assert page.status == 200, path
        harmless(page)
        assert page.root.get("lang") == "en"
        assert len(page.all("h1")) == len(page.all("main")) == 1
        assert page.words("title").endswith("Signalbook")
        names = [node.get("id") for node in page.root.iter() if node.get("id")]
        assert len(names) == len(set(names))
        assert len(page.text.encode()) < 20_000


def test_forms_require_their_token(explorer: Client) -> None:
    """A page of another site would have one filled in for whoever is logged in here."""
    seen = set()
    for path in PATHS:
        for form in show(explorer, path).all("form"):
            if form.get("method") == "post":
                seen.add(path)
                assert [field.get("type") for field in form.iter("input") if field.get("name") == "token"] == ["hidden"]
                assert explorer.send("POST", form.get("action", ""), data={"token": "x"}).status_code == 403, path
    assert len(seen) > 4


def test_every_response_has_a_strict_policy(explorer: Client) -> None:
    for path in ("", "/nothing/here", "/messagegroups/shop/messages/placed"):
        page = show(explorer, path)
        headers, policy = page.headers, page.headers["content-security-policy"]
        scripts = [script_hash.get("integrity", "") for script_hash in page.all("script")]
        runs = " ".join(f"'{script_hash}'" for script_hash in scripts)
        assert policy.startswith(f"default-src 'none'; script-src {runs}; style-src 'self'; "), "no document runs"
        for script, integrity in zip(page.all("script"), scripts, strict=True):
            content = explorer.get(script.get("src", "")).content
            assert integrity == f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["content-type"] == "text/html; charset=utf-8"


def hostile_registry(text: str) -> dict[str, Any]:
    """A registry with ``text`` wherever text may be."""
    texts: dict[str, Any] = {"name": text, "description": text, "labels": {"label": text}}
    deprecated = {"effective": "2030-01-01T00:00:00Z", "extra": text}
    resource = {**texts, "extension": {text: [text, {text: text}]}, "more": text}
    group = {**resource, "deprecated": deprecated}
    meta = {"deprecated": deprecated, "labels": {"meta": text}}
    message = {**resource, "meta": meta, "documentationtext": text, "envelope": "CloudEvents/1.0"}
    message["envelopemetadata"] = {"type": {"value": text, "description": text}}
    message |= {"dataschema": {"title": text}, "dataschemaformat": "JsonSchema/draft-07"}
    schema = {**resource, "meta": meta, "format": text, "contenttype": "text/html", "schema": text}
    member = {"description": text, "const": text, "title": text}
    references = {name: {"$ref": f"/schemagroups/g/schemas/{name}"} for name in ("s", text)}
    members = {**references, f"{text} as a name": member}
    tree = {"name": text, "format": "JsonSchema/draft-07", "schema": {"properties": members}}
    return {
        **texts,
        "messagegroups": {"g": {**group, "messages": {"m": message}}},
        "schemagroups": {"g": {**group, "schemas": {"s": schema, "tree": tree}}},
        "endpoints": {"g": {**group, "protocoloptions": {"options": {"note": text}}}},
    }


def test_hostile_content_is_text(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", domain_rules="off")
    for text in HOSTILE:
        answer = client.put("/", hostile_registry(text))
        assert answer.is_success, answer.text
        for path in (
            *("", "/messagegroups", "/messagegroups/g", "/messagegroups/g/messages", "/messagegroups/g/messages/m"),
            *("/messagegroups/g/messages/m/meta", "/messagegroups/g/messages/m/versions/1", "/schemagroups/g"),
            *("/schemagroups/g/schemas/s", "/schemagroups/g/schemas/s/versions/1", "/endpoints/g"),
            *("/schemagroups/g/schemas/tree", "/-/relations/schemagroups/g/schemas/tree"),
            *("/-/relations/schemagroups/g", "/-/try/messagegroups/g/messages/m", "/-/search?q=label"),
            *("/-/edit/messagegroups/g", "/-/edit/messagegroups/g/messages/m/versions"),
            *("/-/edit/schemagroups/g/schemas/s/meta", "/-/edit/schemagroups/g/schemas/s/versions"),
        ):
            page = show(client, path)
            assert page.status == 200
            harmless(page)
            seen = text.replace("\u202e", "⟨U+202E⟩").replace("\u202c", "⟨U+202C⟩")
            assert path.startswith("/-/") or seen in " ".join(page.root.itertext()), path


def test_hostile_requests_get_text_back(explorer: Client) -> None:
    for sent in HOSTILE:
        for params in ({"q": sent}, {"label": sent}, {"sort": sent}, {"cursor": sent}):
            page = show(explorer, "/messagegroups", params=params)
            assert page.status in (200, 400)
            harmless(page)
        assert show(explorer, "/-/search", params={"q": sent, "type": sent}).status == 200
        path = "/-/try/messagegroups/shop/messages/placed"
        tried = {"message": sent, "contenttype": sent, "kind": "event", "token": form_token(explorer, path)}
        page = show(explorer, path, method="POST", data=tried)
        assert page.status == 200
        harmless(page)
        page = show(explorer, f"/messagegroups/{sent.replace('/', '%2F').replace('?', '%3F').replace('#', '%23')}")
        assert page.status in (400, 404)
        harmless(page)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": json.dumps({"enum": ["&<>\"'" * 20_000]})},
        {"schema": {"properties": {f"p{number}": {"type": "string"} for number in range(5_000)}}},
        {"more": {"a": ["<" * 4000] * 100}},
        {"more": {f"k{number}": {f"j{number}": "x" * 50} for number in range(5_000)}},
        {"labels": {f"l{number}": "y" * 200 for number in range(1_000)}},
        {"name": "n" * 4000, "description": "d" * 4000, "schema": {"x": "w" * 2_000_000}},
    ],
    ids=["escapes", "properties", "list", "map", "labels", "long"],
)
def test_large_content_is_cut_to_a_page(explorer: Client, changes: dict[str, Any]) -> None:
    content = {"format": "JsonSchema/draft-07", "schema": {}, **changes}
    answer = explorer.put("/schemagroups/shop/schemas/large$details", content)
    assert answer.is_success, answer.text
    large = "/schemagroups/shop/schemas/large"
    for path in (large, "/schemagroups/shop", f"{large}/versions/1"):
        page = show(explorer, path)
        assert page.status == 200
        assert len(page.text.encode()) < 200_000


def test_errors_are_pages_with_the_words_of_the_api(explorer: Client) -> None:
    for path, status, words in (
        ("/messagegroups/gone", 404, 'there is no "gone" among the messagegroups'),
        ("/nothing", 404, 'there is no Group type "nothing"'),
        ("/messagegroups/a%20b", 400, "an id has 1 to 128 characters"),
        ("/messagegroups?cursor=x", 400, "the cursor is damaged"),
        ("/messagegroups/shop/messages/placed/versions/9", 404, 'there is no "9" among the versions'),
        ("/model", 404, "cannot be found"),
    ):
        page = show(explorer, path)
        assert page.status == status
        assert words in page.words("main")
        harmless(page)


def test_only_reads_are_taken(explorer: Client) -> None:
    answer = explorer.send("POST", "/ui/messagegroups", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert explorer.send("OPTIONS", "/ui/messagegroups").headers["allow"] == "GET, HEAD, OPTIONS"
    assert explorer.send("HEAD", "/ui").content == b""


def test_pages_are_kept_until_something_changes(explorer: Client) -> None:
    first = explorer.get("/ui/messagegroups")
    same = explorer.get("/ui/messagegroups", headers={"If-None-Match": first.headers["etag"]})
    assert same.status_code == 304
    explorer.put("/messagegroups/new", {})
    assert "new" in show(explorer, "/messagegroups").links()


def test_clients_find_the_registry_from_a_page(store: Store, serve: Serve) -> None:
    """R137, in the header and in the page."""
    for url, path in ((None, "/"), ("https://example.com/registry", "/registry")):
        client = serve(store, model="default", **({} if url is None else {"base_url": url}))
        for page_path in ("", "/nothing"):
            page = show(client, page_path)
            assert [link.get("href") for link in page.all("link") if link.get("rel") == ROOT] == [path]
            assert page.headers["link"].endswith(f";rel={ROOT}")


def test_assets_are_cached_forever(explorer: Client) -> None:
    page = show(explorer, "")
    for element in (*(link for link in page.all("link") if link.get("rel") != ROOT), *page.all("script")):
        url = element.get("href") or element.get("src") or ""
        answer = explorer.get(url)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert explorer.get("/ui/-/static/explorer.0000.css").status_code == 404


def test_links_stay_below_the_path_of_the_registry(store: Store, serve: Serve) -> None:
    links = show(serve(store, model="default", base_url="https://example.com/registry"), "").links()
    assert links["0 messages"] == "/registry/ui/messagegroups"
    assert links["The registry"] == "/registry"


def test_explorer_can_be_disabled(store: Store, serve: Serve) -> None:
    answer = serve(store, model="default", ui="off").get("/ui")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json; charset=utf-8")


def test_pages_show_only_readable_entities(store: Store, serve: Serve) -> None:
    """A hidden entity is neither shown nor counted (A-8)."""
    client = serve(store, model="default", **PROXIED)
    for group in ("open", "secret"):
        client.put(f"/messagegroups/{group}", {"messages": {"m": {"description": group}}})
    put_policy(store, {"who": ["subject:ann"], "role": "reader", "on": ["/messagegroups/open"]})
    ann = {"X-User": "ann"}
    assert "1 messagegroup " in show(client, "", headers=ann).words("main")
    assert "secret" not in show(client, "", headers=ann).text
    assert "secret" not in show(client, "/messagegroups", headers=ann).text
    assert show(client, "/messagegroups/secret", headers=ann).status == 404
    assert show(client, "/messagegroups/secret", headers=ADMINISTRATOR).status == 200
    nobody = show(client, "/messagegroups/open")
    assert (nobody.status, "www-authenticate" in nobody.headers) == (401, True)
    assert nobody.links()["Log in"] == "/ui/-/login?back=%2Fui%2Fmessagegroups%2Fopen"
