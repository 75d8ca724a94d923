"""Servers and databases of the version before: ``python -m tests.faults.before`` makes ``tests/data/before`` anew.

That version is a commit of this repository. Its servers run in our environment, from its source.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from tests.api.test_pipelines import report
from tests.faults.cluster import Database
from tests.serving import answers, kept_port

REVISION: Final = "c8ea458"
ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "tests" / "data" / "before"
BASE: Final = "http://registry.example/"
_GROUP = "/schemagroups/shop"
_DRAFT = "/compat/schemaregistry/v0.2"
_CATALOG = "/compat/messagecatalog/v0.1"
SHOWN: Final = (
    "/",
    "/export",
    "/schemagroups?inline=*",
    "/endpoints?inline=*",
    "/messagegroups?inline=*",
    "/dirs?inline=*",
    f"{_GROUP}/schemas/order",
    f"{_GROUP}/schemas/order/versions/2$details?inline=*",
    f"{_GROUP}/schemas/copy/meta",
    f"{_GROUP}/schemas/gone",
    "/events?limit=10000",
    "/subscriptions",
    "/pipelines",
    "/pipelines/orders/reports",
    f"{_DRAFT}/schemagroups",
    f"{_DRAFT}/schemagroups/shop/schemas/order/versions",
    f"{_DRAFT}/schema?uri=urn:example:order:2",
    f"{_CATALOG}/messagecatalog",
    f"{_CATALOG}/messagecatalog/orders/messagedefinitions",
)
"""What was asked of it."""


@contextmanager
def source(revision: str = REVISION) -> Iterator[Path]:
    """The source of that version in a folder, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="sb-before-") as name:
        archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        yield Path(name) / "src"


def serve(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The program that serves from that source, and what its environment has beside ours."""
    return [sys.executable, "-m", "signalbook", "serve"], {"PYTHONPATH": str(folder)}


def fill(client: httpx.Client) -> None:
    """Something of everything that version could store."""

    def put(path: str, body: Any, method: str = "PUT", **headers: str) -> None:
        response = client.request(method, path, json=body, headers=headers)
        assert response.is_success, (path, response.text)

    for sample in ("workshop", "workshop-xsd"):
        text = (ROOT / "tests" / "data" / "samples" / f"{sample}.xreg.json").read_text(encoding="utf-8")
        put("/", json.loads(text), "PATCH")
    source = client.get("/modelsource").json()
    source.setdefault("groups", {})["dirs"] = {
        "singular": "dir",
        "resources": {"files": {"singular": "file", "attributes": {"*": {"type": "any"}}}},
    }
    put("/modelsource", source)
    avro = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    put(f"{_GROUP}", {"name": "The shop", "labels": {"team": "a"}})
    put(f"{_GROUP}/schemas/order$details", {"format": "Avro/1.11", "schema": avro, "name": "an order"})
    put(f"{_GROUP}/schemas/order/meta", {"compatibility": "backward"}, "PATCH")
    later = avro | {"fields": [*avro["fields"], {"name": "note", "type": "string", "default": ""}]}
    put(f"{_GROUP}/schemas/order/versions/2$details", {"format": "Avro/1.11", "schema": later, "description": "more"})
    put(f"{_GROUP}/schemas/copy/meta", {"xref": f"{_GROUP}/schemas/order"})
    put(f"{_GROUP}/schemas/gone$details", {"format": "Avro/1.11", "schema": avro})
    response = client.delete(f"{_GROUP}/schemas/gone")
    assert response.is_success, response.text
    put("/dirs/d/files/f$details", {"file": {"any": ["thing", 1.5, None]}, "size": 3, "deprecated_": True})
    put("/dirs/d/files/f/versions/9$details", {"filebase64": "AAEC/w==", "contenttype": "application/octet-stream"})
    put("/dirs/d/files/f/meta", {"defaultversionid": "1", "defaultversionsticky": True}, "PATCH")
    put(f"{_DRAFT}/schemagroups/drafts", {"format": "avro", "description": "of the draft"})
    put(f"{_DRAFT}/schemagroups/drafts/schemas/user", avro, "POST")
    put(f"{_DRAFT}/schemagroups/shop/schemas/order?id=urn:example:order:2", later, "POST")
    put(f"{_CATALOG}/messagecatalog/orders", json.loads((ROOT / "examples/catalog/orders.json").read_text()))
    for number, sink in enumerate(("file:all.jsonl", "file:some.jsonl")):
        subscription = {"protocol": "FILE", "sink": sink, "filters": [{"prefix": {"subject": "/schemagroups"}}]}
        put("/subscriptions", subscription | ({"config": {"after": "0"}} if number else {}), "POST")
    for batch in ("b1", "b2"):
        put("/pipelines/orders/reports", report(batch), "POST")


def shown(client: httpx.Client) -> dict[str, Any]:
    """Return the statuses and bodies that the server returns, by path."""
    answers = {}
    for path in SHOWN:
        answer = client.get(path, follow_redirects=True)
        body = answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
        answers[path] = [answer.status_code, body]
    return answers


def make(folder: Path, name: str, url: str, program: Path) -> None:
    """Fill the database at ``url``, and note what its server shows of it."""
    command, env = serve(program)
    with kept_port() as port:
        command += ["--port", str(port), "--db", url, "--base-url", BASE, "--sink-folder", str(folder)]
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **env})
        try:
            while not answers(f"http://127.0.0.1:{port}"):
                assert process.poll() is None
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Host": "127.0.0.1"}) as client:
                fill(client)
                time.sleep(3)  # until events are delivered, and it is written how far
                DATA.mkdir(exist_ok=True)
                lines = (f"{json.dumps(path)}: {json.dumps(answer)}" for path, answer in shown(client).items())
                text = "{\n" + ",\n".join(lines) + "\n}\n"
                (DATA / f"{name}.json").write_text(text, encoding="utf-8")
        finally:
            process.terminate()
            process.wait(60)


def main() -> None:
    """Make both."""
    with tempfile.TemporaryDirectory(prefix="sb-before-") as place, source() as program:
        folder = Path(place)
        folder.chmod(0o755)
        make(folder, "sqlite", f"sqlite:///{folder}/registry.db", program)
        with closing(sqlite3.connect(folder / "registry.db")) as connection:
            (DATA / "sqlite.sql").write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
        with kept_port() as port:
            (folder / "postgres").mkdir()
            postgres = Database(folder / "postgres", port)
            try:
                make(folder, "postgres", postgres.registry, program)
                dump = ["pg_dump", "--no-owner", "--inserts", "--dbname", postgres.registry]
                text = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
            finally:
                postgres.stop()
        # Its program knows words that no server does.
        lines = [line for line in text.splitlines() if not line.startswith(("--", "\\"))]
        (DATA / "postgres.sql").write_text("\n".join(filter(None, lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
