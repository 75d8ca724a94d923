"""Errors that no client brings about on every server, by real means: every word of theirs as in the catalogue.

The others are cases of the conformance kit; ``conformance/tests/test_cases.py`` sees that none is left out.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.errors import CATALOGUE
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.xid import Xid
from xregistry_conformance.reports import unreached

GROUP = "/schemagroups/g"
SCHEMA = f"{GROUP}/schemas/s"


def check(answer: Any, code: str, subject: str) -> dict[str, Any]:
    """An answer that is the error ``code`` in every word; none of these has arguments."""
    definition, body = CATALOGUE[code], answer.json()
    assert answer.status_code == definition.status
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert (body["type"], body["subject"]) == (definition.type, subject)
    assert body["title"] == definition.title.replace("<subject>", subject)
    assert "args" not in body
    return dict(body)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "registry.db"


@pytest.fixture
def client(file: Path, serve: Serve) -> Client:
    """A registry in a file, with a schema; it waits for others only shortly."""
    store = open_store(f"sqlite:///{file}", timeout=0.1)
    client = serve(store, model="default", max_response_bytes=200_000)
    written = client.put(f"{SCHEMA}$details", {"format": "None/1", "schema": "text", "contenttype": "text/plain"})
    assert written.status_code == 201
    return client


def sql(file: Path, text: str) -> None:
    """Execute SQL on the database, as a careless operator would."""
    with sqlite3.connect(file) as connection:
        connection.execute(text)
    connection.close()


def test_data_retrieval_error(client: Client, file: Path) -> None:
    """The document is lost (R23)."""
    sql(file, "DELETE FROM documents")
    body = check(client.get(SCHEMA), "data_retrieval_error", SCHEMA)
    assert body["detail"] == f"the document of {SCHEMA}/versions/1 is not in the store"


def test_server_busy(client: Client, file: Path) -> None:
    """Another program holds the database."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = client.put(GROUP, {})
    other.execute("ROLLBACK")
    other.close()
    check(answer, "server_busy", GROUP)
    assert answer.headers["Retry-After"].isdigit()
    assert client.put(GROUP, {}).status_code == 200


def test_server_error(client: Client, file: Path) -> None:
    """A table that is lost: the answer tells an instance to look for in the log, and nothing of the inside."""
    sql(file, "DROP TABLE entities")
    assert check(client.get(GROUP), "server_error", GROUP)["instance"]


def test_too_large(client: Client) -> None:
    """A response that exceeds the limit is rejected (R203)."""
    for number in range(3):
        schema = {"format": "None/1", "schema": "x" * 100_000, "contenttype": "text/plain"}
        assert client.put(f"{GROUP}/schemas/s{number}$details", schema).status_code == 201
    check(client.get(f"{GROUP}?inline=*"), "too_large", GROUP)


def test_readonly(file: Path, client: Client) -> None:
    """An administrator made the entity read-only; a client gets an error, and nothing changes (R22, R261)."""
    store = open_store(f"sqlite:///{file}", timeout=5)
    with Engine(store, settings=Settings(model="default")).writing(admin=True) as session:
        target = Xid.parse(f"{SCHEMA}/meta")
        session.execute(Command(method=Method.PATCH, target=target, body={"readonly": True}))
    store.close()
    before = client.get(f"{GROUP}?inline=*").json()
    for method, path in (("PATCH", f"{SCHEMA}$details"), ("DELETE", SCHEMA), ("PUT", f"{SCHEMA}/meta")):
        check(client.send(method, path, json={}), "readonly", SCHEMA)
    assert client.get(f"{GROUP}?inline=*").json() == before


def test_all_errors_are_covered() -> None:
    """The catalogue is complete together with the cases of the kit."""
    here = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert unreached().keys() <= here
