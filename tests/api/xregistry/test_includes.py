"""Models that include documents from elsewhere: from allowed places, once, before the write (R112, R113, R316)."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.serving import serving_answers

from signalbook.storage.store import Store

from ..conftest import Client, Serve

FILES = {"singular": "file", "attributes": {"size": {"type": "integer"}}}


class Pages:
    """A web server of JSON documents, which counts how often it is asked."""

    def __init__(self) -> None:
        self.url = ""
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(request.path)
        document = self.documents.get(request.path)
        return 200 if request.path in self.documents else 404, {}, json.dumps(document).encode()


@pytest.fixture
def pages() -> Iterator[Pages]:
    pages = Pages()
    with serving_answers(pages.answer) as pages.url:
        yield pages


@pytest.fixture
def client(store: Store, serve: Serve, pages: Pages) -> Client:
    return serve(store, allow_fetch=(pages.url.removeprefix("http://"),))


def model(reference: str) -> dict[str, Any]:
    return {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"$include": reference}}}}}


def test_included_model_is_not_part_of_the_source(client: Client, pages: Pages) -> None:
    pages.documents["/m.json"] = {"files": FILES}
    source = model(f"{pages.url}/m.json#/files")
    assert client.put("/modelsource", source).status_code == 200
    assert client.get("/modelsource").json() == source
    files = client.get("/model").json()["groups"]["dirs"]["resources"]["files"]
    assert files["attributes"]["size"]["type"] == "integer"
    assert client.put("/dirs/d/files/f$details", {"size": 1}).status_code == 201


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_model_within_the_registry(client: Client, pages: Pages, method: str) -> None:
    pages.documents["/m.json"] = FILES
    answer = client.send(method, "/", json={"modelsource": model(f"{pages.url}/m.json"), "dirs": {"d": {}}})
    assert answer.status_code == 200, answer.text
    assert client.get("/dirs/d").status_code == 200


def test_includes_of_includes_relative_to_where_they_stand(client: Client, pages: Pages) -> None:
    pages.documents["/a/m.json"] = {"$includes": ["../b.json#/x", "#/y"], "y": {"singular": "other"}}
    pages.documents["/b.json"] = {"x": FILES}
    assert client.put("/modelsource", model(f"{pages.url}/a/m.json#")).status_code == 400  # y is no aspect
    pages.documents["/a/m.json"] = {"z": {"$include": "../b.json#/x"}}
    assert client.put("/modelsource", model(f"{pages.url}/a/m.json#/z")).status_code == 200


def test_include_is_fetched_once(client: Client, store: Store, serve: Serve, pages: Pages) -> None:
    """Later changes of the included document have no effect, and a new server does not fetch it again (R113)."""
    pages.documents["/m.json"] = FILES
    client.put("/modelsource", model(f"{pages.url}/m.json"))
    pages.documents.clear()
    assert serve(store).put("/dirs/d/files/f$details", {"size": 1}).status_code == 201
    assert pages.asked == ["/m.json"]
    client.refused("PUT", "/modelsource", "model_error", json=model(f"{pages.url}/m.json"))


def test_the_same_source_with_other_contents(client: Client, pages: Pages) -> None:
    pages.documents["/m.json"] = FILES
    client.put("/modelsource", model(f"{pages.url}/m.json"))
    pages.documents["/m.json"] = {"singular": "file", "attributes": {"weight": {"type": "integer"}}}
    assert client.put("/modelsource", model(f"{pages.url}/m.json")).status_code == 200
    assert client.put("/dirs/d/files/f$details", {"weight": 1}).status_code == 201
    assert client.put("/modelsource", {"groups": {"dirs": {"singular": "dir"}}}).status_code == 400  # files are there


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("https://example.com/m.json", "example.com:443 is not among the places to fetch from (setting allow_fetch)"),
        ("http://127.0.0.1:9/m.json", "127.0.0.1:9 is not among"),
        ("http://169.254.169.254/latest", "is not among"),
        ("file:///etc/passwd", "only http and https"),
        ("m.json", "only http and https"),
        ("{url}/gone.json", "the server answers 404"),
        ("{url}/m.json#/gone", 'there is no "gone" in it'),
        ("{url}/list.json", "it is not an object"),
    ],
)
def test_invalid_include_is_rejected(client: Client, pages: Pages, reference: str, message: str) -> None:
    pages.documents.update({"/m.json": FILES, "/list.json": [1]})
    reference = reference.replace("{url}", pages.url)
    body = client.refused("PUT", "/modelsource", "model_error", json=model(reference))
    assert message in body["args"]["error_detail"]
    assert f'cannot include "{reference}"' in body["args"]["error_detail"]


def test_no_place_is_allowed_by_default(store: Store, serve: Serve, pages: Pages) -> None:
    pages.documents["/m.json"] = FILES
    body = serve(store).refused("PUT", "/modelsource", "model_error", json=model(f"{pages.url}/m.json"))
    assert "setting allow_fetch" in body["args"]["error_detail"]
    assert pages.asked == []


@pytest.mark.parametrize("body", [[], {"modelsource": []}, {"modelsource": None}, {"modelsource": {"$include": 7}}])
def test_bodies_of_another_shape(client: Client, body: Any) -> None:
    answer = client.send("PATCH", "/", content=json.dumps(body) + " " * 9, headers={"X": "$include"})
    assert answer.status_code in (200, 400)


@pytest.mark.merge
def test_many_includes_are_bounded(client: Client, pages: Pages) -> None:
    pages.documents.update({f"/{number}.json": {"$include": f"{number + 1}.json"} for number in range(100)})
    client.refused("PUT", "/modelsource", "model_error", json=model(f"{pages.url}/0.json"))
    assert len(pages.asked) <= 65
