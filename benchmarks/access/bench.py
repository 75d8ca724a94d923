"""What access costs: decisions by small and large policies, and reads with credentials against reads without.

python -m benchmarks.access.bench [--seconds 5] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import jwt
from benchmarks.registry.bench import machine
from benchmarks.registry.serving import Server, free_port, serving, wrk
from cryptography.hazmat.primitives.asymmetric import ec

from signalbook.access.base import Action, Identity
from signalbook.access.policy import read_policy
from signalbook.xid import Xid

RESULTS = Path(__file__).parents[1] / "results" / "access.json"
RULES = (10, 10_000)
DECISIONS = 20_000
ROUNDS = 5
KEY = ec.generate_private_key(ec.SECP256R1())
PAGE = "/schemagroups/g/schemas/s$details"
TREE = {
    "schemagroups": {
        "g": {"schemas": {"s": {"format": "JsonSchema/draft-07", "schema": {"type": "object"}, "description": "One"}}}
    }
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5, help="of each round of load")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = {
        "machine": machine(),
        "decisions": {f"{rules} rules": decisions(rules) for rules in RULES},
        "reads": reads(options.seconds),
    }
    results["machine"]["load after"] = os.getloadavg()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


def decisions(rules: int) -> dict[str, float]:
    """Microseconds of a decision on an xid asked for before, and on a new one; all rules are about the caller."""
    document = {
        "rules": [
            {"who": ["group:staff"], "role": "owner", "on": [f"/schemagroups/team{number}-*"]}
            for number in range(rules)
        ]
    }
    began = time.perf_counter()
    policy = read_policy(document)
    read = time.perf_counter() - began
    caller = Identity(subject="pat", groups=frozenset({"staff"}))
    began = time.perf_counter()
    policy.access(caller)
    compiled = time.perf_counter() - began
    xids = [Xid(("schemagroups", f"team{number % rules}-x", "schemas", f"s{number}")) for number in range(DECISIONS)]

    def round_of_all() -> float:
        began = time.perf_counter()
        for xid in xids:
            policy.access(caller).may(Action.UPDATE, xid)
        return (time.perf_counter() - began) / DECISIONS * 1e6

    new = round_of_all()
    return {
        "seconds to read": round(read, 4),
        "seconds to compile for a caller": round(compiled, 4),
        "us, new xid": round(new, 2),
        "us, known xid": round(median(round_of_all() for _ in range(ROUNDS)), 2),
    }


def reads(seconds: int) -> dict[str, Any]:
    """Requests a second for an entity from memory: open, and to callers with and without credentials."""
    with tempfile.TemporaryDirectory() as folder, issuer() as url, ExitStack() as stack:
        policy = Path(folder, "policy.json")
        policy.write_text(
            json.dumps(
                {
                    "rules": [
                        {"who": ["anyone", "subject:pat"], "role": "reader"},
                        {"who": ["subject:boss"], "role": "administrator"},
                    ]
                }
            )
        )
        claims = {"iss": url, "aud": "registry", "exp": int(time.time()) + 3600}
        boss, pat = (
            jwt.encode({**claims, "sub": name}, KEY, "ES256", headers={"kid": "k"}) for name in ("boss", "pat")
        )
        plain = stack.enter_context(server(f"sqlite:///{folder}/open.db", {}))
        environment = {
            "ACCESS_FILE": str(policy),
            "OIDC_ISSUERS": url,
            "OIDC_AUDIENCE": "registry",
            "LIMIT_REQUESTS": "1000000",
        }
        closed = stack.enter_context(server(f"sqlite:///{folder}/closed.db", environment))
        fill(plain, {})
        fill(closed, bearer(boss))
        api_token = (
            httpx.post(closed.url + "/access/tokens", headers=bearer(boss), json={"subject": "pat"})
            .raise_for_status()
            .json()["token"]
        )
        cases = {
            "open": (plain, {}),
            "policy, anonymous": (closed, {}),
            "policy, API token": (closed, bearer(api_token)),
            "policy, JWT": (closed, bearer(pat)),
        }
        rates: dict[str, list[float]] = {name: [] for name in cases}
        # In turns: what else the machine does meets all of them.
        for _ in range(ROUNDS):
            for name, (at, headers) in cases.items():
                load = wrk(at, PAGE, seconds, script=script(headers))
                if load.errors:
                    raise SystemExit(f"{name}: {load.errors} answers were errors")
                rates[name].append(load.rate)
    floor = median(rates["open"])
    return {
        name: {"requests a second": round(median(found)), "of open": round(median(found) / floor, 3)}
        for name, found in rates.items()
    }


@contextmanager
def server(db: str, environment: dict[str, str]) -> Iterator[Server]:
    """Our server over a database, with settings from the environment."""
    port = free_port()
    command = [sys.executable, "-m", "signalbook", "serve", "--db", db, "--port", str(port)]
    with serving(command, port, {f"SIGNALBOOK_{name}": value for name, value in environment.items()}) as running:
        yield running


def fill(at: Server, headers: dict[str, str]) -> None:
    httpx.patch(at.url + "/", json=TREE, headers=headers, timeout=60).raise_for_status()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def script(headers: dict[str, str]) -> str:
    return "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers.items())


@contextmanager
def issuer() -> Iterator[str]:
    """One that has one key, and answers as OpenID Connect Discovery 1.0 says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(documents[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{running.server_address[1]}"
    key = {**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
    documents: dict[str, Any] = {
        "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/jwks"},
        "/jwks": {"keys": [key]},
    }
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield url
    finally:
        running.shutdown()
        running.server_close()


if __name__ == "__main__":
    main()
