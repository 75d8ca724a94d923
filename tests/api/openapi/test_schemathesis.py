"""Requests made from the description, right ones and wrong ones, to a real server: what it says is what happens."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

BIN = Path(sys.executable).parent
MODEL: dict[str, Any] = {
    "groups": {
        "dirs": {
            "singular": "dir",
            "resources": {
                "files": {
                    "singular": "file",
                    "attributes": {
                        "size": {"type": "uinteger"},
                        "tags": {"type": "array", "item": {"type": "string"}},
                        "owner": {"type": "object", "attributes": {"name": {"type": "string"}}},
                    },
                },
                "notes": {
                    "singular": "note",
                    "hasdocument": False,
                    "attributes": {
                        "kind": {
                            "type": "string",
                            "ifvalues": {"Big": {"siblingattributes": {"weight": {"type": "decimal"}}}},
                        },
                    },
                },
            },
        }
    }
}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
    "unsupported_method",
    "wrong_bodies_are_refused",
    "metadata_is_json",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the model above."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "model.json").write_text(json.dumps(MODEL), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(BIN / "signalbook"), "serve", "--model", "model.json", "--port", str(port), "--body-timeout", "2"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    while True:
        assert server.poll() is None
        try:
            httpx.get(f"{root}/health/ready", timeout=10)
            break
        except httpx.TransportError:
            time.sleep(0.05)
    yield root
    server.terminate()
    server.wait(30)


def test_any_request(url: str, tmp_path: Path) -> None:
    """R18, R20, R134, R278, R284: nothing fails inside, and nothing is answered in a way that is not described."""
    command = [str(BIN / "schemathesis"), "run", f"{url}/openapi.json", "--checks", ",".join(CHECKS)]
    command += ["--phases", "fuzzing", "--max-examples", "6", "--seed", "1", "--no-color"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(Path(__file__).parent)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
