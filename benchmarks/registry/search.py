"""``GET /search`` over 100,000 Versions: each kind of query, by people who may read all of them, and less.

    python -m benchmarks.registry.search [sqlite] [postgresql] [--db URL...] [--rounds N] [--versions N]

Milliseconds that a request takes, and of CPU of the server and the database for it; a database that was filled before
is taken by its URL.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from benchmarks.registry import estate, postgres
from benchmarks.registry.serving import free_port, registry_command, requests, serving

BAR: Final = 50
"""Milliseconds, p95 of each kind."""
GROUP: Final = f"/schemagroups/{estate.DOMAINS[0]}"
QUERIES: Final[Mapping[str, Sequence[Mapping[str, str]]]] = {
    "a word that most have": [{"q": q} for q in ("payload", "id", "example", "events", "schemas", "the")],
    "a common word": [{"q": q} for q in ("order", "customer", "invoice", "repository", "payment", "status", "url")],
    "a rare word": [{"q": f"order.{verb}.{n:04}"} for n, verb in enumerate(estate.VERBS)],
    "the beginning of a word": [{"q": q} for q in ("or", "cus", "inv", "rep", "pay", "shi", "a1", "created_a")],
    "several words": [
        {"q": q} for q in ("customer order created", "invoice total id", "pull request review", "account id email")
    ],
    "a phrase, and one without": [{"q": q} for q in ('"order id"', "order -customer", '"the name" -id', "refund -tax")],
    "a typing error": [{"q": q} for q in ("custmer", "repositry", "ordr", "invioce")],
    "field:customer_id": [
        {"q": f"field:{name}"} for name in ("customer_id", "order_id", "node_id", "sender", "id", "campaign_total")
    ],
    "field:customer_*": [{"q": q} for q in ("field:customer_*", "field:ord*", "field:html*", "name:order field:id")],
    "messages by fields of schemas": [
        {"q": "field:customer_id", "type": "messages"},
        {"q": "field:node_id created", "type": "messages"},
        {"q": "field:campaign_total field:customer_id", "type": "messages"},
        {"q": "field:supplier_reference"},
        {"q": "order paid field:id"},
    ],
    "facets": [
        {"q": "order", "format": "avro", "type": "schemas"},
        {"q": "customer", "group": GROUP},
        {"q": "field:customer_id", "format": "Protobuf/3"},
        {"q": "id", "envelope": "CloudEvents", "deprecated": "false"},
    ],
    "facets alone": [{"q": "", "type": "messages"}, {"q": "", "group": GROUP}, {"q": "", "format": "xsd"}],
    "all versions": [
        {"q": q, "versions": "all"} for q in ("order", "field:customer_id", "customer order", "invoice.created.0003")
    ],
}
POLICY: Final = {
    "rules": [
        {"who": ["subject:all"], "role": "reader"},
        {"who": ["subject:groups"], "role": "reader", "on": [f"/*/{domain}" for domain in estate.DOMAINS[:5]]},
        {"who": ["subject:pattern"], "role": "reader", "on": ["/*/*.eu"]},
        {"who": ["subject:denied"], "role": "reader"},
        {"who": ["subject:denied"], "deny": ["read", "list"], "on": ["/schemagroups/*/schemas/invoice.*"]},
        {"who": ["subject:few"], "role": "reader", "on": ["/schemagroups/*/schemas/voucher.paid.*"]},
    ]
}
CALLERS: Final = {
    "all": "may read everything",
    "groups": "may read five groups of each type",
    "pattern": "may read groups by a pattern, one in ten",
    "denied": "may read everything but some by a pattern",
    "few": "may read a few schemas by a pattern",
}


def measure(db: str, *, rounds: int, versions: int = estate.VERSIONS) -> dict[str, Any]:
    """Fill the database ``db`` if it is empty, and ask."""
    estate.fill(db, versions)
    paths = {kind: [f"/search?{urlencode(each)}" for each in queries] for kind, queries in QUERIES.items()}
    found: dict[str, Any] = {}
    with _closed(db) as command, serving(*command) as server:
        for caller, about in CALLERS.items():
            headers = {"X-User": caller}
            found[about] = requests(server, db, paths, rounds=rounds, headers=headers)
    return {f"search over {versions} Versions, p95 below {BAR} ms": found}


@contextmanager
def _closed(db: str) -> Iterator[tuple[list[str], int, dict[str, str]]]:
    """What runs a server with ``POLICY``, which knows callers by a header."""
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder, "policy.json")
        policy.write_text(json.dumps(POLICY), encoding="utf-8")
        port = free_port()
        names = {
            "ACCESS_FILE": str(policy),
            "TRUSTED_PROXIES": "127.0.0.1",
            "PROXY_USER_HEADER": "X-User",
            "LIMIT_REQUESTS": "1000000",
        }
        yield registry_command(db, port), port, {f"SIGNALBOOK_{name}": value for name, value in names.items()}


@contextmanager
def filled(kind: str, given: Sequence[str]) -> Iterator[str]:
    """The URL of a database: one of those ``given``, or a new one."""
    for url in given:
        if url.startswith(kind):
            yield url
            return
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/registry.db"
    else:
        with postgres.databases(None) as urls:
            yield next(urls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("databases", nargs="*", help="sqlite, postgresql; by default both")
    parser.add_argument("--db", nargs="+", default=[], help="databases that this program filled before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--versions", type=int, default=estate.VERSIONS)
    options = parser.parse_args()
    found = {}
    for kind in options.databases or ("sqlite", "postgresql"):
        with filled(kind, options.db) as db:
            found[kind] = measure(db, rounds=options.rounds, versions=options.versions)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
