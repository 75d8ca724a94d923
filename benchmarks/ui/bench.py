"""Server time of each kind of page of the explorer, over 100,000 Versions, on SQLite and PostgreSQL.

    python -m benchmarks.ui.bench [sqlite] [postgresql] [--db URL...] [--rounds N] [--versions N] [--output FILE]

Every page is made anew, none comes from memory. A database that was filled before is taken by its URL.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import httpx
from benchmarks.registry import estate
from benchmarks.registry.bench import machine
from benchmarks.registry.search import filled
from benchmarks.registry.serving import Server, registry, requests

from signalbook.demo import github

RESULTS: Final = Path(__file__).parents[1] / "results" / "ui.json"
BAR: Final = 100
"""Milliseconds, p95 of each kind."""
_EACH: Final = 8
_WEBHOOKS: Final = f"/messagegroups/{github.HTTP_GROUP}/messages"
_EVENTS: Final = f"/messagegroups/{github.CLOUDEVENTS_GROUP}/messages"


def pages(server: Server) -> dict[str, list[str]]:
    """Paths below ``/ui`` by kind, of entities that are chosen by a seed."""
    random = Random(3)
    domains = random.sample(estate.DOMAINS, _EACH)
    with httpx.Client(base_url=server.url, timeout=120) as http:

        def some(collection: str) -> list[str]:
            found = http.get(collection, params={"limit": 400}).raise_for_status().json()
            return [f"{collection}/{quote(name)}" for name in random.sample(sorted(found), min(_EACH, len(found)))]

        schemas = [path for domain in domains for path in some(f"/schemagroups/{domain}/schemas")[:1]]
        messages = [path for domain in domains for path in some(f"/messagegroups/{domain}/messages")[:1]]
        long = [_longest(http, f"/schemagroups/{domain}/schemas") for domain in domains]
        webhooks = some(_WEBHOOKS)
        found = {
            "the registry": [""],
            "a list of groups": ["/schemagroups", "/messagegroups", "/endpoints"],
            "a group": [f"/schemagroups/{domain}" for domain in domains],
            "a list of schemas": [f"/schemagroups/{domain}/schemas" for domain in domains],
            "a list, its last page": [_page(http, f"/schemagroups/{domain}/schemas", "last") for domain in domains],
            "a list, filtered": [f"/schemagroups/{domain}/schemas?q=order" for domain in domains],
            "a list, sorted": [f"/schemagroups/{domain}/schemas?sort=name" for domain in domains],
            "a list, sorted, its last page": [
                _page(http, f"/schemagroups/{domain}/schemas?sort=name", "last") for domain in domains
            ],
            "a schema": schemas,
            "a schema of 700 KB": [f"/schemagroups/{github.HTTP_GROUP}/schemas/webhooks"],
            "a version": [f"{path}/versions/1" for path in schemas],
            "versions of a schema with hundreds": [f"{path}/versions" for path in long],
            "two versions compared": [f"/-/compare?of={path}&old=1&new=2" for path in long],
            "a message": messages,
            "a message of GitHub's": webhooks,
            "a message with a base message": some(_EVENTS),
            "a message to try": [f"/-/try{path}" for path in webhooks],
            "a form": [f"/-/edit{path}/versions" for path in schemas],
            "a search": [f"/-/search?q={word}" for word in ("order", "field:customer_id", "customer+order", "voucher")],
            "changes": ["/-/changes", *(f"/-/changes?of=/schemagroups/{domain}" for domain in domains[:2])],
            "pipelines and subscriptions": ["/-/pipelines", "/-/subscriptions"],
        }
    return {kind: [_anew(f"/ui{path}") for path in paths] for kind, paths in found.items()}


def _anew(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}turn=TURN"


def _page(http: httpx.Client, path: str, name: str) -> str:
    """Where a link to another page leads; the page itself where there is none."""
    text = http.get(f"/ui{path}").raise_for_status().text
    before, there, _ = text.partition(f'">{name}</a>')
    return before.rpartition('href="/ui')[2].replace("&amp;", "&") if there else path


def _longest(http: httpx.Client, collection: str) -> str:
    params = {"limit": "400", "inline": "meta"}
    found: Mapping[str, Mapping[str, Any]] = http.get(collection, params=params).raise_for_status().json()
    most = max(found, key=lambda name: int(found[name]["versionscount"]))
    return f"{collection}/{quote(most)}"


def measure(db: str, *, rounds: int, versions: int) -> dict[str, Any]:
    """Fill the database ``db`` if it is empty, and ask for pages."""
    estate.fill(db, versions)
    with registry(db) as server:
        paths: Mapping[str, Sequence[str]] = pages(server)
        return requests(server, db, paths, rounds=rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("databases", nargs="*", help="sqlite, postgresql; by default both")
    parser.add_argument("--db", nargs="+", default=[], help="databases that this program filled before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--versions", type=int, default=estate.VERSIONS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine(), "versions": options.versions, "bar, p95 ms": BAR}
    for kind in options.databases or ("sqlite", "postgresql"):
        with filled(kind, options.db) as db:
            results[kind] = measure(db, rounds=options.rounds, versions=options.versions)
    results["machine"]["load after"] = os.getloadavg()
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
