"""A database that the version before filled is migrated, and shows what it showed there.

``tests/data/before`` has its tables as SQL, and its answers: ``python -m tests.faults.before`` made both with that
version. Servers of both at work together: ``python -m tests.faults --upgrade``.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.faults.before import BASE, DATA, shown
from tests.serving import serving

from signalbook.storage.schema import REVISION
from signalbook.storage.store import find_dialect, schema_revision


@pytest.fixture
def before(store_url: str) -> dict[str, Any]:
    """Return the responses that were recorded when the loaded database was made."""
    name = "sqlite" if store_url.startswith("sqlite") else "postgres"
    text = (DATA / f"{name}.sql").read_text(encoding="utf-8")
    if name == "sqlite":
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)
    else:
        with psycopg.connect(store_url, autocommit=True) as opened:
            opened.execute(text.encode())
    answers: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return answers


@pytest.mark.merge
def test_a_database_of_the_version_before_shows_the_same(
    before: dict[str, Any], store_url: str, tmp_path: Path
) -> None:
    dialect = find_dialect(store_url, 60)
    assert schema_revision(dialect) == "0008", "the data are of another version"
    history = [event["id"] for event in before["/events?limit=10000"][1]]
    with (
        serving(tmp_path, "--db", store_url, "--base-url", BASE, "--sink-folder", str(tmp_path)) as url,
        httpx.Client(base_url=url, headers={"Host": "127.0.0.1"}, timeout=60) as client,
    ):
        now = shown(client)
        assert now.keys() == before.keys()
        for exported in (now["/export"][1], before["/export"][1]):
            # These list what this version reads.
            del exported["capabilities"]["formats"], exported["capabilities"]["compatibilities"]
        for path, answer in before.items():
            assert now[path] == answer, path
        assert client.put("/schemagroups/shop", json={"name": "New"}).status_code == 200
        assert client.delete("/schemagroups/drafts").status_code == 204
        assert client.get("/").json()["schemagroupscount"] == before["/"][1]["schemagroupscount"] - 1
        events = [event["id"] for event in client.get("/events").json()]
        assert events[: len(history)] == history
        assert len(events) > len(history)
    assert schema_revision(dialect) == REVISION
    dialect.close()
