"""What clients count on that cannot be run here: the command line ``xr`` and the viewer in a browser.

Each is tested elsewhere too; here they stand by name, so that nobody changes one of them unawares.
"""

from __future__ import annotations

import re

import pytest
from tests.api.conftest import Client

F1, N1 = "/dirs/d1/files/f1", "/dirs/d1/notes/n1"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/dirs/none", "spec.md#not_found"),
        ("/a/b/c/d/e/f/g", "http.md#api_not_found"),
        ("/dirs?sort", "spec.md#bad_sort"),
    ],
)
def test_the_type_of_an_error_ends_in_its_code(client: Client, path: str, code: str) -> None:
    """R279; and a browser may read it (R315)."""
    answer = client.get(path)
    assert answer.json()["type"] == f"https://github.com/xregistry/spec/blob/main/core/{code}"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Link" in answer.headers["Access-Control-Expose-Headers"]


def test_links_can_be_taken_apart_by_commas(client: Client) -> None:
    """The rel parameter comes first, and a comma in a URL is percent-encoded (R137, R287)."""
    client.send("POST", "/dirs", json={f"d{n}": {"name": "a,b"} for n in range(5)})
    links = client.get("/dirs?limit=2&filter=name=a*,epoch=1&sort=name").headers["Link"]
    parts = [part.strip() for part in links.split(",")]
    assert all(re.match(r"<[^>,]*>;\s*rel=[a-z-]+(;|$)", part) for part in parts), parts
    assert {"rel=next", "rel=xregistry-root"} <= {part.split(";")[1].strip() for part in parts}


@pytest.mark.parametrize("path", [f"{F1}$details", N1, "/dirs/d9"])
def test_patch_creates(client: Client, path: str) -> None:
    """PATCH creates an entity that does not exist (R144)."""
    assert client.send("PATCH", path, json={"name": "N"}).status_code == 201


@pytest.mark.parametrize("path", [F1, f"{F1}$details", N1, "/dirs/d9", "/"])
def test_put_without_a_content_type(client: Client, path: str) -> None:
    """A document without a Content-Type stays without one, and metadata needs none (R160)."""
    assert client.send("PUT", path, content=b'{"name": "N"}').status_code in (200, 201)
    assert "Content-Type" not in client.get(F1).headers if path == F1 else client.get(path).json()["name"] == "N"


def test_a_filter_with_a_wildcard(client: Client) -> None:
    """A filter value can contain a wildcard (R188)."""
    client.send("POST", "/dirs", json={"a": {"name": "Foobar"}, "b": {"name": "bar"}, "c": {}})
    assert list(client.get("/dirs?filter=name=foo*").json()) == ["a"]
    assert list(client.get("/?filter=dirs.name=foo*&inline=dirs").json()["dirs"]) == ["a"]


@pytest.mark.parametrize(
    "path", ["/", "/dirs", "/model", "/export", "/capabilities", "/dirs/none", "/nope", "/.xregistry"]
)
def test_head_anywhere(client: Client, path: str) -> None:
    """HEAD has the status of GET on every path (R139)."""
    assert client.send("HEAD", path).status_code == client.get(path).status_code
