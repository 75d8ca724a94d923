"""Requests made from the description, right ones and wrong ones, to a real server: what it says is what happens."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.serving import BIN, serving

MODEL: dict[str, Any] = yaml.safe_load("""
groups:
  dirs:
    singular: dir
    resources:
      files:
        singular: file
        attributes:
          size: {type: uinteger}
          tags: {type: array, item: {type: string}}
          owner: {type: object, attributes: {name: {type: string}}}
      notes:
        singular: note
        hasdocument: false
        attributes:
          kind: {type: string, ifvalues: {Big: {siblingattributes: {weight: {type: decimal}}}}}
""")
CHECKS = """not_a_server_error,status_code_conformance,response_headers_conformance,response_schema_conformance,
    allow_header_conformance,unsupported_method,wrong_bodies_are_refused,metadata_is_json"""


BESIDE = "^/(events|check|health|notifications|compat/[^c]|subscriptions|pipelines|[.]well-known)"
"""What the default model has besides its entities; bodies for those are beyond schemathesis, for their conditions."""
# Its bodies are small enough for each fault that a schema can describe.
CONFLUENT = ["--include-path-regex", "^/compat/confluent", "--phases", "coverage,fuzzing"]
OF_ANY_MODEL = "^/(events|health|notifications|compat|subscriptions|pipelines|[.]well-known)"
"""Of those, what a model changes nothing of, or leaves without entities: asked once, with the default model."""
ASKED = {
    "model.json": ["--exclude-path-regex", OF_ANY_MODEL],
    "default": ["--include-path-regex", BESIDE],
    "confluent": CONFLUENT,
}


@pytest.fixture(scope="module", params=ASKED)
def described(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A server with the model above, and those with the default model, which other APIs need: what to ask."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "model.json").write_text(json.dumps(MODEL), encoding="utf-8")
    model = "model.json" if request.param == "model.json" else "default"
    with serving(folder, "--model", model, "--body-timeout", "2") as root:
        for subject in ("0", "null", "false") if request.param == "confluent" else ():
            path = f"{root}/compat/confluent/subjects/{subject}/versions"
            httpx.post(path, json={"schema": '"int"', "references": []}, timeout=60).raise_for_status()
        yield [f"{root}/openapi.json", *ASKED[request.param]]


@pytest.mark.merge
def test_any_request(described: list[str], tmp_path: Path) -> None:
    """No request fails internally, and every response is described. These checks are off: rules for written data exceed
    schemas (``positive_data_acceptance``), unknown query parameters are ignored (``negative_data_rejection``, replaced
    by a check of bodies), there is no login (``ignored_auth``, ``object_level_authorization``), and no header is
    required (R18, R20, R134, R278, R284).
    """
    command = [str(BIN / "schemathesis"), "run", *described, "--checks", "".join(CHECKS.split())]
    command += ["--max-examples", "6", "--seed", "1", "--no-color"]
    command += ["--request-timeout", "300", "--suppress-health-check", "too_slow,filter_too_much"]
    command += [] if "--phases" in described else ["--phases", "fuzzing"]
    hooks = {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(Path(__file__).parent)}
    environment = {**os.environ, **hooks, "PYTHONHASHSEED": "1"}  # the same requests each time, with the seed above
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
