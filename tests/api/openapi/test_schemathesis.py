"""Requests made from the description, right ones and wrong ones, to a real server: what it says is what happens."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serving import BIN, serving

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


BESIDE = "^/(events|check|health|notifications|compat|subscriptions|pipelines|[.]well-known)"
"""What the default model has besides its entities; bodies for those are beyond schemathesis, for their conditions."""


@pytest.fixture(scope="module", params=["model.json", "default"])
def described(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A server with the model above, and one with the default model, which the drafts' APIs need: what to ask."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "model.json").write_text(json.dumps(MODEL), encoding="utf-8")
    with serving(folder, "--model", request.param, "--body-timeout", "2") as root:
        yield [f"{root}/openapi.json", *(["--include-path-regex", BESIDE] if request.param == "default" else [])]


def test_any_request(described: list[str], tmp_path: Path) -> None:
    """R18, R20, R134, R278, R284: nothing fails inside, and nothing is answered in a way that is not described.

    Checks that are off: what may not be written is more than schemas can say (``positive_data_acceptance``), what is
    unknown in a query is ignored (``negative_data_rejection``, in whose place bodies are checked), there is no login
    (``ignored_auth``, ``object_level_authorization``) and no header that a request has to have.
    """
    command = [str(BIN / "schemathesis"), "run", *described, "--checks", ",".join(CHECKS)]
    command += ["--phases", "fuzzing", "--max-examples", "6", "--seed", "1", "--no-color"]
    command += ["--request-timeout", "300", "--suppress-health-check", "too_slow"]
    hooks = {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(Path(__file__).parent)}
    environment = {**os.environ, **hooks, "PYTHONHASHSEED": "1"}  # the same requests each time, with the seed above
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
