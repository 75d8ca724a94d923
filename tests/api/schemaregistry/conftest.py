"""A server with the default model, and short words for the Schema Registry API."""

from typing import Any

import httpx
import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store

MOUNT = "/compat/schemaregistry/v0.2"
BASE = f"http://r.example{MOUNT}"
INT, LONG, TEXT = (b'{"type": "int"}', b'{"type": "long"}', b'{"type": "string"}')


class Schemas:
    """The API by its paths; ``other`` is everything else of the server."""

    def __init__(self, client: Client) -> None:
        self.other = client

    def send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self.other.send(method, f"{MOUNT}{path}", **sent)

    def get(self, path: str, **sent: Any) -> httpx.Response:
        return self.send("GET", path, **sent)

    def put(self, id: str, /, **group: Any) -> httpx.Response:
        return self.send("PUT", f"/schemagroups/{id}", json=group)

    def post(self, id: str, content: bytes = INT, query: str = "", **headers: str) -> httpx.Response:
        """POST of a document; ``id`` is GROUP/SCHEMA, ``headers`` are without dashes: ``schema_format``."""
        group, schema = id.split("/")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send("POST", f"/schemagroups/{group}/schemas/{schema}{query}", content=content, headers=sent)

    def lookup(self, uri: str, method: str = "GET") -> httpx.Response:
        return self.send(method, "/schema", params={"uri": uri})

    def state(self) -> str:
        return self.other.get("/?inline=*").text

    def events(self) -> list[Any]:
        events_found: list[Any] = self.other.get("/events", params={"limit": "1000"}).json()
        return events_found


@pytest.fixture
def schemas(store: Store, serve: Serve) -> Schemas:
    return Schemas(serve(store, model="default"))


@pytest.fixture
def filled(schemas: Schemas) -> Schemas:
    """A group ``g`` of Avro with a schema ``s`` of two versions, a group ``open`` without a format."""
    assert schemas.put("g", format="avro", description="the first").status_code == 201
    assert schemas.put("open").status_code == 201
    assert schemas.post("g/s", INT, schema_description="one").status_code == 200
    assert schemas.post("g/s", LONG, content_type="application/json; charset=utf-8; x=1").status_code == 200
    return schemas
