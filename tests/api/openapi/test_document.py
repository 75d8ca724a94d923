"""The description of the API: valid, complete, and true of what the server sends."""

import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate
from starlette.applications import Starlette
from starlette.routing import Route
from tests.api.conftest import MODEL, Client, Serve
from tests.api.xregistry.test_matrix import CELLS

from signalbook.api.app import create_app
from signalbook.api.confluent import routes as confluent
from signalbook.api.messagecatalog import first_draft, v01
from signalbook.api.messagecatalog.catalog import FIRST, LOOKUP, V01
from signalbook.api.openapi.document import describe
from signalbook.api.schemaregistry import MOUNT, ROUTES
from signalbook.engine.capabilities import FLAGS
from signalbook.engine.engine import Engine
from signalbook.model import builtin, compile_model
from signalbook.settings import Settings
from signalbook.storage.store import Store

F1, N1 = "/dirs/d1/files/f1", "/dirs/d1/notes/n1"
IDS = {"d1": "{groupid}", "f1": "{resourceid}", "n1": "{resourceid}", "1": "{versionid}"}


@pytest.fixture
def store(sqlite_store: Callable[[], Store]) -> Store:
    return sqlite_store()


@pytest.fixture
def app(store: Store) -> Starlette:
    settings = Settings(db="sqlite://", allow_hosts=("r.example",))
    return create_app(Engine(store, settings=settings), settings, direct=True, close=lambda: None)


def template(path: str) -> str:
    steps = [step.removesuffix("$details") for step in path.split("/")]
    resolved_path = "/".join(IDS.get(step, step) for step in steps)
    return f"{resolved_path}$details" if path.endswith("$details") and "/notes/" not in path else resolved_path


@pytest.mark.merge
@pytest.mark.parametrize("model", [builtin("default"), builtin("empty"), MODEL], ids=["default", "empty", "files"])
def test_document_is_valid_openapi(model: Any) -> None:
    available = {name: {"mutable": True} for name in ("entities", "capabilities", "modelsource", "model", "export")}
    capabilities = {"flags": list(FLAGS), "pagination": True, "available": available}
    validate(describe(compile_model(model), capabilities, base_url="http://r.example"))


def test_document_has_every_method_at_every_path(client: Client) -> None:
    """The method matrix; OPTIONS and HEAD go without saying."""
    described = client.get("/openapi.json").json()["paths"]
    ignored = {"options", "head"}
    expected = {template(path): {method.lower() for method in cells} - ignored for path, cells in CELLS.items()}
    actual = {path: set(item) - {"parameters", "servers"} for path, item in described.items() if path in expected}
    assert actual == expected
    host = described["/.well-known/xregistry"]["servers"]
    assert host == [{"url": "http://r.example"}], "at the root of the host, which need not be the registry's"


def test_document_has_every_route(store: Store, serve: Serve, app: Starlette) -> None:
    """The document describes all served routes with the methods that OPTIONS lists, and nothing else (R134)."""
    client = serve(store, model="default")
    described = client.get("/openapi.json").json()["paths"]
    routes = {route.path.replace(":any}", "}").rstrip("/") for route in app.routes if isinstance(route, Route)}
    mounts = {MOUNT: ROUTES, FIRST: first_draft.ROUTES, V01: v01.ROUTES}
    for mount, templates in mounts.items():
        routes -= {mount, f"{mount}/{{path}}"}
        routes |= {mount + template for template in templates}
    for mount in confluent.MOUNTS:
        routes -= {mount, f"{mount}/{{path}}"}
    routes |= {"/".join((confluent.MOUNTS[0], *words)) for words in confluent.ROUTES}
    blank = {re.sub(r"{\w+}", "{}", path) for path in described}
    routes = {route for route in routes if not route.startswith("/ui")}  # pages for people are no API
    assert {re.sub(r"{\w+}", "{}", route) for route in routes} - blank == set()
    for path, item in described.items():
        options = client.send("OPTIONS", re.sub(r"{\w+}", "1", path))
        allowed = {method.lower() for method in options.headers["Allow"].split(", ")}
        assert set(item) - {"parameters", "servers"} == allowed - {"options", "head"}, path


def test_document_names_required_parameters(store: Store, serve: Serve) -> None:
    client = serve(store, model="default")
    described = client.get("/openapi.json").json()["paths"]
    required = {
        (method, path)
        for path, item in described.items()
        for method in ("get", "post", "delete")
        if any(
            parameter.get("required") and parameter["in"] == "query"
            for parameter in item.get(method, {}).get("parameters", ())
        )
    }
    lookups = {f"{mount}{path}" for mount, path in ((MOUNT, "/schema"), (FIRST, LOOKUP), (V01, LOOKUP))}
    assert required == {
        ("get", "/access/explain"),
        ("delete", "/access/sessions"),
        ("get", "/impact"),
        ("post", "/impact"),
        *(("get", path) for path in lookups),
    }
    for path in ("/impact", *lookups):
        assert client.get(path).status_code == 400, path


def test_drafts_are_described_only_if_the_model_supports_them(client: Client) -> None:
    described = client.get("/openapi.json").json()["paths"]
    assert [path for path in described if path.startswith("/compat") and "/subscriptions" not in path] == []


def test_read_only_registry_describes_no_writes(store: Store, serve: Serve) -> None:
    """R116, R117, C-37."""
    client = serve(store, model="default")
    available = client.get("/capabilities").json()["available"]
    del available["export"]
    client.send("PATCH", "/capabilities", json={"available": available | {"entities": {"mutable": False}}})
    described = client.get("/openapi.json").json()["paths"]
    assert "/export" not in described
    assert set(described["/capabilities"]) == {"get", "put", "patch"}
    for path in ("/", "/schemagroups/{groupid}", "/compat/schemaregistry/v0.2/schemagroups/{group}"):
        assert set(described[path]) == {"parameters", "get"}


def test_document_follows_model_and_capabilities(client: Client) -> None:
    assert "/dirs/{groupid}/notes" in client.get("/openapi.json").json()["paths"]
    off = {**client.get("/capabilities").json(), "flags": ["inline"], "pagination": False}
    client.put("/capabilities", off)
    described = client.get("/openapi.json").json()
    assert list(described["components"]["parameters"]) == ["inline"]
    client.put("/modelsource", {})
    assert "/dirs" not in client.get("/openapi.json").json()["paths"]
    assert described["servers"] == [{"url": "http://r.example"}]


@pytest.fixture
def filled(client: Client) -> Client:
    client.send("PATCH", "/capabilities", json={"shortself": True})
    client.put_document(F1, b"{}", "application/json", **{"size": "3", "labels.a": "b", "x": "any"})
    client.put(N1, {"name": "N"})
    client.put("/dirs/d1/files/x$details", {"meta": {"xref": F1}})
    client.put("/dirs/d1/files/dangling$details", {"meta": {"xref": f"{F1}0"}})
    return client


def check(described: Any, instance: Any, path: str) -> None:
    """Check that ``instance`` is valid for the described response to GET of ``path``."""
    schema = described["paths"][template(path)]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    rules = {**schema, "components": described["components"]}
    jsonschema.Draft202012Validator(rules, format_checker=jsonschema.FormatChecker()).validate(instance)


@pytest.mark.parametrize(
    "path", [path for path in CELLS if path not in (F1, f"{F1}/versions/1", "/.well-known/xregistry")]
)
def test_responses_match_their_schemas(filled: Client, path: str) -> None:
    """Every view of a path matches its schema; views that a path does not have are rejected."""
    described = filled.get("/openapi.json").json()
    for flags in ("", "?inline=*", "?doc", "?doc&inline=*", "?inline=*&binary", "?collections"):
        answer = filled.get(f"{path}{flags}")
        if answer.status_code == 200:
            check(described, answer.json(), path)
        assert answer.status_code == 200 or flags


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (f"{F1}$details", {"size": -1}),
        (f"{F1}$details", {"labels": {"a": 1}}),
        (N1, {"epoch": "1"}),
        ("/dirs/d1", {"xid": 1}),
    ],
)
def test_wrong_response_does_not_match_its_schema(filled: Client, path: str, wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(filled.get("/openapi.json").json(), {**filled.get(path).json(), **wrong}, path)


def test_conditional_attributes(client: Client) -> None:
    """core/model.md "ifvalues": in any case, and nowhere else."""
    kind = {"type": "string", "ifvalues": {"Big": {"siblingattributes": {"size": {"type": "uinteger"}}}}}
    notes = {"singular": "note", "hasdocument": False, "attributes": {"kind": kind}}
    client.put("/modelsource", {"groups": {"dirs": {"singular": "dir", "resources": {"notes": notes}}}})
    body = client.put(N1, {"kind": "bIG", "size": 3}).json()
    described = client.get("/openapi.json").json()
    check(described, body, N1)
    for wrong in ({"kind": "small"}, {"size": "3"}):
        with pytest.raises(jsonschema.ValidationError):
            check(described, {**body, **wrong}, N1)


def test_errors_are_as_described(client: Client) -> None:
    described = client.get("/openapi.json").json()["components"]
    rules = {**described["schemas"]["Error"], "components": described}
    for answer in (
        client.get("/dirs/none"),
        client.put("/dirs/d1", [1]),
        client.put("/", {}, headers={"If-Match": "x"}),
    ):
        assert answer.status_code >= 400
        jsonschema.validate(answer.json(), rules)
