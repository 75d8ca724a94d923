"""The Confluent-compatible API under load: schemas by id, registrations, and pages of many subjects.

python -m benchmarks.registry.confluent [DATABASE URL] [--seconds N] [--rounds N] [--subjects N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import httpx
from benchmarks.registry import serving
from benchmarks.registry.serving import READERS, WRITERS, Load, Server, summary, wrk

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.values import JSONObject
from signalbook.xid import Xid

MOUNT: Final = "/compat/confluent"
SUBJECTS: Final = 100_000
_KNOWN: Final = 1000
_BATCH: Final = 1000
_PAGE: Final = 100
_HEADERS: Final = '{["Content-Type"]="application/vnd.schemaregistry.v1+json", ["Accept"]="application/json"}'
_BEFORE, _AFTER = json.dumps(
    {"schema": json.dumps({"type": "record", "name": "RNUMBER", "fields": [{"name": "a", "type": "long"}]})}
).split("NUMBER")


def measure(db: str, options: argparse.Namespace, floor: float) -> dict[str, Any]:
    """Loads in turns, over an empty database; ``floor`` is the rate of a bare handler."""
    loads: dict[str, list[Load]] = {}
    with serving.registry(db) as server:
        _register(server)
        for turn in range(options.rounds):
            for name, script, clients in (
                ("GET /schemas/ids/{id}, one", _get("1"), READERS),
                (f"GET /schemas/ids/{{id}}, of {_KNOWN}", _get(f"n % {_KNOWN} + 1"), READERS),
                ("POST known schema", _post('"known-value"', f"n % {_KNOWN}"), READERS),
                ("POST new schema, 50 writers", _post(f'"new{turn}-"..n', f'"{turn}_"..n'), WRITERS),
                ("PUT new schema by xRegistry, 50 writers", _put(turn), WRITERS),
            ):
                if clients == READERS:  # what was never asked for since the last write takes its time once
                    wrk(server, MOUNT, 1, script=script, connections=clients)
                loads.setdefault(name, []).append(
                    wrk(server, MOUNT, options.seconds, script=script, connections=clients)
                )
    found = {name: summary(runs) for name, runs in loads.items()}
    for figures in found.values():
        figures["of bare handler"] = round(figures["requests/s"] / floor, 3)
    return {"Confluent's API": found}


def pages(db: str, subjects: int) -> dict[str, Any]:
    """Milliseconds of a page of subjects, at the beginning and at the end, and of one found by its prefix."""
    fill(db, subjects)
    found: dict[str, float] = {}
    with serving.registry(db) as server, httpx.Client(base_url=server.url + MOUNT, timeout=120) as http:
        for name, path in {
            "first page": f"/subjects?limit={_PAGE}",
            "last page": f"/subjects?offset={subjects - _PAGE}&limit={_PAGE}",
            "by prefix": f"/subjects?subjectPrefix=subject-{subjects - 50:07}",
            "all": "/subjects",
            "page of schemas": f"/schemas?offset={subjects // 2}&limit={_PAGE}",
        }.items():
            taken = []
            for n in range(5):
                started = time.perf_counter()
                # Another query each time, so that no answer comes from memory.
                answer = http.get(path, params={**httpx.URL(path).params, "turn": n})
                taken.append((time.perf_counter() - started) * 1000)
                assert answer.json(), path
            found[name] = round(statistics.median(taken), 2)
    return {f"ms over {subjects} subjects": found}


def fill(db: str, subjects: int) -> None:
    """A store with so many subjects, of one version each."""
    with closing(open_store(db)) as store:
        engine = Engine(store, settings=Settings())
        for first in range(0, subjects, _BATCH):
            schemas = dict(_schemas(first, min(_BATCH, subjects - first)))
            command = Command(method=Method.POST, target=Xid.parse("/schemagroups/default/schemas"), body=schemas)
            with engine.writing() as session:
                session.execute(command)


def _schemas(first: int, count: int) -> Iterator[tuple[str, JSONObject]]:
    for number in range(first, first + count):
        schema = json.loads(json.loads(f"{_BEFORE}{number}{_AFTER}")["schema"])
        yield f"subject-{number:07}", {"versions": {"1": {"format": "Avro/1.11.1", "schema": schema}}}


def _register(server: Server) -> None:
    with httpx.Client(base_url=server.url + MOUNT, timeout=60) as http:
        http.put("/config", json={"compatibility": "NONE"}).raise_for_status()
        for number in range(_KNOWN):
            body = f"{_BEFORE}{number}{_AFTER}"
            http.post("/subjects/known-value/versions", content=body).raise_for_status()


def _get(id: str) -> str:
    return _script(f'return wrk.format("GET", "{MOUNT}/schemas/ids/"..({id}), headers)')


def _post(subject: str, number: str) -> str:
    text = f"[==[{_BEFORE}]==]..({number})..[==[{_AFTER}]==]"
    return _script(f'return wrk.format("POST", "{MOUNT}/subjects/"..{subject}.."/versions", headers, {text})')


def _put(turn: int) -> str:
    before, after = json.loads(_BEFORE + "NUMBER" + _AFTER)["schema"].split("NUMBER")
    text = f'[==[{before}]==].."{turn}X"..n..[==[{after}]==]'
    path = f'"/schemagroups/default/schemas/put{turn}-"..n.."/versions/1"'
    headers = '{["Content-Type"]="application/json", ["xRegistry-format"]="Avro/1.11.1"}'
    return _script(f'return wrk.format("PUT", {path}, {headers}, {text})')


def _script(request: str) -> str:
    return f"local n = 0\nlocal headers = {_HEADERS}\nrequest = function()\n  n = n + 1\n  {request}\nend\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db", nargs="?", help="an empty database; by default a file of its own")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--subjects", type=int, default=SUBJECTS)
    options = parser.parse_args()
    with serving.bare() as server:
        floor = statistics.median(wrk(server, "/", options.seconds).rate for _ in range(options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        db = options.db or f"sqlite:///{folder}/registry.db"
        found = {"bare handler, requests/s": round(floor)} | measure(db, options, floor)
        found |= pages(options.db or f"sqlite:///{folder}/many.db", options.subjects)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
