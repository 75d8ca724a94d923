"""Each code that the API has is reached by a request, and what is refused changes nothing."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import getsource
from typing import Any

import psycopg
import pytest
from tests.api.confluent.conftest import BREAKING, ONE, TWO, Api
from tests.api.conftest import Serve

from signalbook.confluent import errors
from signalbook.storage import open_store

Step = tuple[str, str] | tuple[str, str, Any]
VERSIONS = "/subjects/s/versions"
ENUM = '{"type": "enum", "name": "E", "symbols": ["A"]}'
R = {"name": "R", "subject": "s", "version": 1}
TOPIC = {"resourceName": "t", "resourceNamespace": "n", "resourceId": "i"}
MINE, OTHER = ({**TOPIC, "associations": [{"subject": subject}]} for subject in ("s", "t"))
STRONG = {**TOPIC, "associations": [{"schema": {"schema": ONE}}]}
ANOTHER = {**TOPIC, "resourceName": "j", "resourceId": "j", "associations": [{"subject": ":.n:t-value"}]}
CODES: dict[int, list[Step]] = {
    404: [("GET", "/nothing")],
    405: [("PATCH", VERSIONS)],
    422: [("POST", VERSIONS, [])],
    40401: [("GET", "/subjects/none/versions")],
    40402: [("GET", f"{VERSIONS}/9")],
    40403: [("GET", "/schemas/ids/99")],
    40404: [("DELETE", "/subjects/s"), ("DELETE", "/subjects/s")],
    40405: [("DELETE", "/subjects/s?permanent=true")],
    40406: [("POST", VERSIONS, {"schema": TWO}), ("DELETE", f"{VERSIONS}/1"), ("DELETE", f"{VERSIONS}/1")],
    40407: [("DELETE", f"{VERSIONS}/1?permanent=true")],
    40408: [("GET", "/config/s")],
    40409: [("GET", "/mode/s")],
    40410: [("DELETE", "/associations/resources/none")],
    40901: [("POST", VERSIONS, {"schema": BREAKING})],
    40903: [
        ("POST", "/associations", MINE),
        ("POST", "/subjects/t/versions", {"schema": ONE}),
        ("POST", "/associations", OTHER),
    ],
    40904: [("POST", "/associations", MINE), ("DELETE", "/subjects/s")],
    40905: [("POST", "/associations", STRONG), ("POST", "/associations", ANOTHER)],
    40907: [("POST", "/associations", OTHER)],
    40908: [("POST", "/associations", STRONG), ("DELETE", "/associations/resources/i")],
    42201: [("POST", VERSIONS, {"schema": "{"})],
    42202: [("GET", f"{VERSIONS}/0")],
    42203: [("PUT", "/config/s", {"compatibility": "WRONG"})],
    42204: [("PUT", "/mode/s", {"mode": "WRONG"})],
    42205: [("PUT", "/mode/s", {"mode": "READONLY"}), ("POST", VERSIONS, {"schema": TWO})],
    42206: [("POST", "/subjects/t/versions", {"schema": ENUM, "references": [R]}), ("DELETE", "/subjects/s")],
    42208: [("POST", "/subjects/__GLOBAL/versions", {"schema": ONE})],
    42209: [("POST", VERSIONS, {"schema": "x" * 4096})],
    42210: [("POST", VERSIONS, {"schema": ONE, "ruleSet": {"domainRules": [{}]}})],
    42212: [("POST", "/associations", {})],
    42213: [("POST", "/associations:batchGet", {"requests": [{}] * 1001})],
    42211: [("POST", "/subjects/:.c:s/versions", {"schema": ONE}), ("DELETE", "/contexts/.c")],
}
"""The requests of which the last is answered with the code, after ``ONE`` was registered for the subject s."""
STORE = {50001, 50002}
"""These are the store's, and have tests of their own."""


def test_table_of_codes_is_complete() -> None:
    declared = {int(code) for code in re.findall(r"_error\(\s*(\d+)", getsource(errors))}
    assert declared == CODES.keys() | STORE


def everything(api: Api) -> list[Any]:
    """Return all that is stored, as this API and xRegistry's return it."""
    answers = [api.send("GET", path).json() for path in ("/schemas?deleted=true", "/config", "/config/s", "/mode/s")]
    return [*answers, api.client.send("GET", "/export").json()]


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_is_reachable(store: Any, serve: Serve, code: int) -> None:
    api = Api(serve(store, model="default", max_body_bytes=4096))
    api.register("s")
    *before, last = CODES[code]
    for step in before:
        api.ask(*step)
    stored = everything(api)
    assert api.code(*last) == code
    assert everything(api) == stored


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"schema": ONE, "schemaType": ["AVRO"]}, 42201),
        ({"schema": ONE, "metadata": {"properties": ["a"]}}, 422),
        ({"schema": ONE, "ruleSet": {"domainRules": 1}}, 42210),
        ({"schema": ONE, "ruleSet": {"domainRules": {"a": 1}}}, 42210),
        (None, 422),
    ],
    ids=str,
)
def test_bodies_of_another_shape_are_rejected(api: Api, body: Any, code: int) -> None:
    assert api.code("POST", VERSIONS, body) == code
    assert api.code("PUT", "/config", {"defaultMetadata": {"properties": 1}}) == 422
    assert api.code("PUT", "/config") == 422
    assert api.code("PUT", "/config", {"compatibility": {}}) == 42203
    assert api.get("/subjects") == []


def test_metadata_of_another_shape_is_tolerated(api: Api) -> None:
    """The metadata was stored by another API."""
    body = {"format": "Avro/1.11", "schema": json.loads(ONE), "metadata": {"properties": 5}}
    assert api.client.send("PUT", "/schemagroups/default/schemas/s/versions/1$details", json=body).is_success
    assert api.code("GET", "/subjects/s/metadata?key=a&value=b") == 40401
    api.ask("PUT", "/config/s", {"compatibilityGroup": "g"})
    assert api.register("s", TWO)["version"] == 2


def test_unsupported_method_is_answered_with_405(api: Api) -> None:
    response = api.send("PATCH", VERSIONS)
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, POST, HEAD, OPTIONS")


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """The database itself, beside the server."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"))
    else:
        connection = psycopg.connect(url)
    with connection:
        yield connection
    connection.close()


def test_failing_store_is_answered_with_50001(store_url: str, serve: Serve) -> None:
    """The error code is 50001, and the message contains nothing of the database."""
    store = open_store(store_url)
    api = Api(serve(store, model="default"))
    api.register("s")
    with connected(store_url) as connection:
        connection.execute("DROP TABLE subject_settings")
    for method, path, body in (("GET", "/config/t", None), ("PUT", "/config/t", {"compatibility": "NONE"})):
        response = api.send(method, path, body)
        assert (response.status_code, response.json()["error_code"]) == (500, 50001)
        assert "subject_settings" not in response.text
    store.close()


def test_busy_store_is_answered_with_50002(store_url: str, serve: Serve) -> None:
    """The error code is 50002. Known schemas can still be read and registered again."""
    store, other = open_store(store_url, timeout=1), open_store(store_url)
    api = Api(serve(store, model="default"))
    registered = api.register("s")
    with other.write():
        assert api.code("POST", VERSIONS, {"schema": TWO}) == 50002
        assert api.code("PUT", "/config", {"compatibility": "NONE"}) == 50002
        assert api.register("s") == registered
        assert api.get(VERSIONS) == [1]
    assert api.register("s", TWO)["version"] == 2
    for opened in (store, other):
        opened.close()


def test_an_answer_to_a_lenient_request_is_for_lenient_requests(api: Api) -> None:
    """The same body with and without Confluent-Accept-Unknown-Properties, from memory too."""
    api.register("s")
    body = {"schema": ONE, "unknown": 1}
    lenient = {"Confluent-Accept-Unknown-Properties": "true"}
    for _ in range(2):
        assert api.code("POST", "/subjects/s", body) == 422
        assert api.send("POST", "/subjects/s", body, headers=lenient).status_code == 200
        assert api.send("POST", "/subjects/s", body, headers={**lenient, "User-Agent": "other"}).status_code == 200
        assert api.code("POST", "/subjects/s/versions", body) == 422
        assert api.send("POST", "/subjects/s/versions", body, headers=lenient).status_code == 200
