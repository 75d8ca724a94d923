"""What depends on an entity, and a change that is tried on it, as a page: as the API says it, bounded and harmless."""

import json
from typing import Any

import pytest

from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from ..test_pipelines import report
from .conftest import Document, form_token, show
from .test_pages import HOSTILE, harmless

ORDER = "/schemagroups/shop/schemas/order"
LINE = "/schemagroups/shop/schemas/line"
PLACED = "/messagegroups/shop/messages/placed"
BREAKING = {"type": "string"}


@pytest.fixture
def client(explorer: Client) -> Client:
    """Return a client of a registry with a schema that refers to another one, a pipeline and a subscription."""
    schema = {"format": "JsonSchema/draft-07", "schema": {"properties": {"of": {"$ref": ORDER}}}}
    explorer.put(f"{LINE}$details", schema)
    counts = report()["by_message"]["/messagegroups/g/messages/m"]
    explorer.send("POST", "/pipelines/lake/reports", json={**report(), "by_message": {PLACED: counts}})
    explorer.send("POST", "/subscriptions", json={"sink": "https://h.example/", "protocol": "HTTP"})
    return explorer


def attempt(client: Client, document: Any, xid: str = ORDER, **more: Any) -> Document:
    text = document if isinstance(document, str) else json.dumps(document)
    token = form_token(client, f"/-/impact{xid}")
    fields = {"token": token, "document": text, "format": "JsonSchema/draft-07", "compatibility": "", **more}
    return show(client, f"/-/impact{xid}", "POST", data=fields)


def lines(page: Document) -> dict[str, list[str]]:
    """The cells behind each dependent."""
    rows = [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in page.all("tr")[1:]]
    return {row[0]: row[1:] for row in rows}


def test_page_shows_the_impact_of_the_api(client: Client) -> None:
    page = show(client, f"/-/impact{ORDER}")
    assert lines(page) == {
        PLACED: ["dataschema", ORDER, "1"],
        LINE: ["schema", ORDER, "1"],
        "/endpoints/orders": ["messagegroups", PLACED, "2"],
    }
    words = page.words("main")
    assert f"lake : {PLACED}" in words
    assert "HTTP" in words
    assert page.links()["lake"] == "/ui/-/pipelines/lake"
    assert page.links()["As a graph"] == f"/ui/-/relations{ORDER}"
    assert client.get(page.links()["As JSON"].removeprefix("http://testserver")).status_code == 200
    assert show(client, ORDER).links()["What depends on this"] == f"/ui/-/impact{ORDER}"
    assert show(client, f"/-/impact{PLACED}").links()["Order placed"] == f"/ui{PLACED}"


def test_only_entities_with_documents_have_a_form(client: Client) -> None:
    form = show(client, f"/-/impact{ORDER}").all("textarea")
    assert "A better one" in (form[0].text or ""), "it begins with what is stored"
    assert show(client, f"/-/impact{PLACED}").all("textarea") == []
    assert attempt(client, {}, PLACED).status == 403


def test_a_change_is_tried(client: Client) -> None:
    page = attempt(client, BREAKING)
    words = page.words("main")
    assert page.status == 200
    assert "It breaks something" in words
    assert [name for name in lines(page) if " breaks" in name] == list(lines(page))
    assert f"lake breaks : {PLACED}" in words
    assert "type_changed" in words
    assert page.all("textarea")[0].text == json.dumps(BREAKING)
    assert client.get(f"{ORDER}/versions").json().keys() == {"1", "2"}
    harmless(page)


def test_entered_text_keeps_its_lines(client: Client) -> None:
    page = attempt(client, '{\r\n  "type": "object"\r\n}')
    assert "".join(page.all("textarea")[0].itertext()).strip() == '{\n  "type": "object"\n}'


def test_page_shows_safe_and_rejected_changes(client: Client) -> None:
    assert "Nothing breaks" in attempt(client, {"title": "Any order"}).words("main")
    assert "Nothing breaks" not in attempt(client, {"title": "Any order"}, compatibility="forward").words("main")
    refused = attempt(client, "{").words("main")
    assert "It would be refused" in refused
    assert "could not be read" in refused
    versions = attempt(client, BREAKING, f"{ORDER}/versions/1")
    assert lines(versions) == {}
    assert "Nobody would meet it." in versions.words("main")


@pytest.mark.parametrize(
    ("fields", "status"), [({"document": ""}, 400), ({"document": "{}", "compatibility": "sideways"}, 400)]
)
def test_bad_forms_are_refused(client: Client, fields: dict[str, str], status: int) -> None:
    token = form_token(client, f"/-/impact{ORDER}")
    page = show(client, f"/-/impact{ORDER}", "POST", data={**fields, "token": token})
    assert page.status == status
    harmless(page)
    assert show(client, f"/-/impact{ORDER}", "POST", content=b"\xff").status == 400
    for path in ("/schemagroups", "/schemagroups/shop/schemas/none", "", f"{PLACED}/meta"):
        assert show(client, f"/-/impact{path}").status == 404, path


@pytest.mark.parametrize("text", [*HOSTILE, "n" * 65_536])
def test_hostile_content_is_text(client: Client, text: str) -> None:
    client.send("PATCH", f"{LINE}$details", json={"name": text, "description": text})
    for document in (text, {"title": text, "enum": [text], "properties": {text: {"$ref": text}}}):
        page = attempt(client, document, format=text[:150])
        assert page.status == 200
        harmless(page)
    for page_kind in ("impact", "relations"):
        harmless(show(client, f"/-/{page_kind}{LINE}"))


def test_many_are_bounded(client: Client) -> None:
    message = {"dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": ORDER}
    body = {f"m{'x' * 100}{at:03}": message for at in range(400)}
    assert client.send("POST", "/messagegroups/shop/messages", json=body).is_success
    (subscription,) = client.get(f"/impact?xid={ORDER}").json()["subscriptions"]
    for page in (show(client, f"/-/impact{ORDER}"), attempt(client, BREAKING)):
        assert "more are in the JSON." in page.words("main")
        assert f"and {len(subscription['xids']) - 10} more" in page.words("main")
        assert len(page.text.encode()) < 200_000


def test_pages_hide_unreadable_dependents(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    message = {"dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": "/schemagroups/g/schemas/s"}
    body = {
        "schemagroups": {"g": {"schemas": {"s": {"format": "JsonSchema/draft-07", "schema": {}}}}},
        "messagegroups": {"open": {"messages": {"m": message}}, "secret": {"messages": {"hidden": message}}},
    }
    assert client.send("PATCH", "/", json=body, headers=ADMINISTRATOR).is_success
    put_policy(store, {"who": ["subject:ann"], "role": "reader", "on": ["/schemagroups/*", "/messagegroups/open"]})
    ann = {"X-User": "ann"}
    path = "/-/impact/schemagroups/g/schemas/s"
    form = {"document": "7", "token": form_token(client, path, headers=ann)}
    relations = show(client, "/-/relations/schemagroups/g/schemas/s", headers=ann)
    for page in (relations, show(client, path, headers=ann), show(client, path, "POST", data=form, headers=ann)):
        assert page.status == 200
        assert "/messagegroups/open/messages/m" in page.words("main")
        assert "hidden" not in page.text.replace('type="hidden"', "").replace(" hidden>", "")
    for page_kind in ("impact/", "relations/", "compare?of=/"):
        assert show(client, f"/-/{page_kind}messagegroups/secret/messages/hidden", headers=ann).status == 404
