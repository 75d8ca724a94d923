"""The API that Kafka's clients speak, over a store on each database, and short words for asking it."""

import json
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store

MOUNT = "/compat/confluent"


def record(name: str = "R", **fields: Any) -> str:
    """A record in Avro with fields of type int."""
    described = [{"name": field, "type": "int", **more} for field, more in fields.items()]
    return json.dumps({"type": "record", "name": name, "fields": described})


ONE = record(a={})
TWO = record(a={}, b={"default": 0})
BREAKING = record(a={}, c={})


class Api:
    """Requests to the API, and what they are answered."""

    def __init__(self, client: Client, mount: str = MOUNT) -> None:
        self.client = client
        self.mount = mount

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request and return the response."""
        options |= {"json": body} if body is not None else {}
        return self.client.send(method, self.mount + path, **options)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to what succeeds."""
        response = self.send(method, path, body)
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
        return response.json()

    def get(self, path: str) -> Any:
        """The answer to GET."""
        return self.ask("GET", path)

    def code(self, method: str, path: str, body: Any = None, **options: Any) -> int:
        """The code of what fails, whose first digits are the status."""
        response = self.send(method, path, body, **options)
        code = response.json()["error_code"]
        assert response.status_code == (code // 100 if code >= 10_000 else code)
        assert response.json()["message"]
        return int(code)

    def register(self, subject: str, schema: str = ONE, **more: Any) -> Any:
        """The answer to a new version."""
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


@pytest.fixture
def api(store: Store, serve: Serve) -> Api:
    """A registry with the default model."""
    return Api(serve(store, model="default"))
