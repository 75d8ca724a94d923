"""Cross references that lead nowhere: no API and no page fails, and pages say why they show nothing (R265, R268)."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from signalbook.api.ui.site import Site
from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .crawling import enumerate_paths, fill_path

ANN = {"X-User": "ann"}
SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
MESSAGE = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
NAMES = ("missing", "to-hidden", "chained", "chained-to-hidden")
"""Cross references that lead nowhere for ann."""


def add_entities(client: Client) -> None:
    """Add cross references that lead nowhere, and messages that use them as schema or as base."""

    def refer(collection: str) -> dict[str, Any]:
        targets = ("nothing", "hidden", "missing", "to-hidden")
        return {name: {"meta": {"xref": f"{collection}/{at}"}} for name, at in zip(NAMES, targets, strict=True)}

    schemas, messages = "/schemagroups/g/schemas", "/messagegroups/g/messages"
    of_schema = {
        f"m-{name}": {**MESSAGE, "dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": f"{schemas}/{name}"}
        for name in NAMES
    }
    of_base = {f"b-{name}": {**MESSAGE, "basemessage": f"{messages}/{name}"} for name in NAMES}
    document = {
        "schemagroups": {"g": {"schemas": {"hidden": SCHEMA, **refer(schemas)}}},
        "messagegroups": {"g": {"messages": {"hidden": MESSAGE, **refer(messages), **of_schema, **of_base}}},
        "endpoints": {"g": {"usage": ["producer"], "messagegroups": ["/messagegroups/g"], "messages": refer(messages)}},
    }
    answer = client.send("POST", "/", json=document)
    assert answer.is_success, answer.text


@pytest.fixture
def client(sqlite_store: Callable[[], Store], serve: Serve) -> Client:
    """A registry with dangling cross references, of which ann may do everything but read the hidden targets."""
    store = sqlite_store()
    client = serve(store, model="default", **PROXIED)
    add_entities(client)
    hidden = {"who": ["subject:ann"], "deny": ["read"], "on": ["/*/*/*/hidden"]}
    put_policy(store, {"who": ["subject:ann"], "role": "owner"}, hidden)
    return client


def bind(schema: str, message: str) -> dict[str, str]:
    """Return the values of the placeholders of all paths."""
    groups = dict.fromkeys(("schemagroups", "messagegroups", "endpoints", "messagecatalog"), "g")
    subjects = dict.fromkeys(("subjects", "config", "mode"), f":.g:{schema}")
    fixed = {"contexts": ".g", "ids": "1", "guids": "0" * 32, "resources": "r", "resources+": "n", "~": "5"}
    fixed |= {
        "pipelines": "p",
        "pipelines+": "1",
        "reports": "1",
        "subscriptions": "0" * 28,
        "tokens": "t",
        "static": "explorer.css",
    }
    messages = {"messages": message, "messagedefinitions": message}
    return {**groups, **subjects, **fixed, **messages, "schemas": schema, "versions": "1"}


@pytest.mark.merge
@pytest.mark.parametrize("name", NAMES)
def test_no_read_fails(client: Client, sqlite_store: Callable[[], Store], name: str) -> None:
    engine = Engine(sqlite_store(), settings=Settings(model="default"))
    with engine.reading() as view:
        paths = [path for path in enumerate_paths(client.app, view.model) if "{" in path]
    bindings = [bind(name, message) for message in (name, f"m-{name}", f"b-{name}")]
    filled = dict.fromkeys(fill_path(path, binding) for path in paths for binding in bindings)
    queries = [
        f"{path}{separator}{parameter}={xid}"
        for xid in (f"/schemagroups/g/schemas/{name}", f"/messagegroups/g/messages/{name}")
        for path, separator, parameter in (
            ("/impact", "?", "xid"),
            ("/ui/-/compare", "?", "of"),
            ("/ui/-/compare?old=1&new=2", "&", "of"),
            ("/ui/-/changes", "?", "of"),
            ("/ui/-/pipelines", "?", "of"),
        )
    ]
    failures = [
        (path, answer.status_code)
        for path in (*filled, *queries)
        if (answer := client.get(path, headers=ANN)).is_server_error
    ]
    assert failures == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/impact?xid=/schemagroups/g/schemas/NAME", {"type": "object"}),
        ("POST", "/compat/confluent/subjects/:.g:NAME/versions", {"schema": '"string"'}),
        ("POST", "/compat/confluent/subjects/:.g:NAME", {"schema": '"string"'}),
        ("POST", "/compat/confluent/compatibility/subjects/:.g:NAME/versions/latest", {"schema": '"string"'}),
        ("POST", "/compat/schemaregistry/v0.2/schemagroups/g/schemas/NAME?format=JsonSchema/draft-07", {}),
        ("POST", "/compat/messagecatalog/v0/messagecatalog/g/messagedefinitions/NAME", {"attributes": {}}),
        ("POST", "/compat/messagecatalog/v0.1/messagecatalog/g/messagedefinitions", {"id": "NAME"}),
        ("PATCH", "/check/schemagroups/g/schemas/NAME/meta", {"defaultversionid": "1", "defaultversionsticky": True}),
        ("POST", "/check/schemagroups/g/schemas/NAME/versions", {"9": SCHEMA}),
        ("PUT", "/check/messagegroups/g/messages/NAME", MESSAGE),
    ],
)
def test_no_write_fails(client: Client, name: str, method: str, path: str, body: Any) -> None:
    body = {key: name if value == "NAME" else value for key, value in body.items()}
    answer = client.send(method, path.replace("NAME", name), json=body, headers=ANN)
    assert not answer.is_server_error, answer.text


@pytest.mark.parametrize("path", ["/ui/schemagroups/g/schemas/{}", "/ui/messagegroups/g/messages/m-{}"])
def test_pages_explain_a_missing_schema(client: Client, path: str) -> None:
    """A missing target and a hidden one get the same sentence."""
    text = "This schema refers to /schemagroups/g/schemas/{}, which does not exist or which you cannot read."
    assert text.format("nothing") in client.get(path.format("missing"), headers=ANN).text
    assert text.format("hidden") in client.get(path.format("to-hidden"), headers=ANN).text
    assert "This schema refers to" not in client.get(path.format("to-hidden"), headers=ADMINISTRATOR).text
    chained = client.get(path.format("chained"), headers=ANN).text
    assert "/schemagroups/g/schemas/missing, which is a cross reference itself" in chained


@pytest.mark.parametrize(
    "path",
    [
        "/ui/-/edit/schemagroups/g/schemas/missing/versions",
        "/ui/-/edit/schemagroups/g/schemas/missing/meta",
        "/ui/schemagroups/g/schemas/missing/versions",
        "/ui/schemagroups/g/schemas/missing/versions/1",
        "/ui/-/try/messagegroups/g/messages/missing",
    ],
)
def test_pages_explain_a_missing_version(client: Client, path: str) -> None:
    answer = client.get(path, headers=ANN)
    assert answer.status_code == 404
    assert "/nothing, which does not exist or which you cannot read." in answer.text


def test_a_dangling_definition_matches_no_message(client: Client) -> None:
    """A definition without attributes would match every message that is tried with another one of its group."""
    path = "/ui/-/try/messagegroups/g/messages/b-missing"
    form = client.get(path, headers=ANN)
    token = re.search(r'name="token" value="([^"]*)"', form.text)
    assert token is not None
    message = '{"specversion": "1.0", "id": "1", "source": "/", "type": "u"}'
    sent = {"token": token[1], "kind": "event", "message": message}
    answer = client.send("POST", path, data=sent, headers={**ANN, "Cookie": form.headers.get("set-cookie", "")})
    assert answer.is_success, answer.text
    assert "ambiguous" not in answer.text


def test_a_site_is_made(sqlite_store: Callable[[], Store], serve: Serve) -> None:
    store = sqlite_store()
    add_entities(serve(store, model="default"))
    files = {
        str(file.path): file.content.decode("utf-8", "replace")
        for file in Site(engine=Engine(store, settings=Settings())).files()
    }
    text = "This schema refers to /schemagroups/g/schemas/nothing, which does not exist or which you cannot read."
    assert text in files["schemagroups/g/schemas/missing/index.html"]
