"""Errors of the draft APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signalbook.api.kernel.errors import Conflict, NotAllowed, PreconditionFailed, ReadOnly, problem_response
from signalbook.api.kernel.responses import Response
from signalbook.engine.write.workingcopies import IdClash
from signalbook.errors import CATALOGUE, RegistryError
from signalbook.values import Finding
from signalbook.xid import Xid

INCOMPATIBLE = "compatibility_violation"


def body(answer: Response) -> dict[str, Any]:
    assert ("Content-Type", "application/problem+json") in answer.headers
    found: dict[str, Any] = json.loads(answer.body)
    assert found["status"] == answer.status
    return found


def test_an_error_of_the_catalogue_tells_all_in_its_detail() -> None:
    """A-53: RFC9457's members, with the single faults beside."""
    faults = [Finding(path="a.b", rule="r", message="too odd")]
    error = RegistryError("bad_request", subject="/g", error_detail="no", faults=faults)
    found = body(problem_response(error, "/api/g"))
    assert (found["status"], found["instance"]) == (400, "/api/g")
    assert found["type"].endswith("#bad_request")
    assert "a.b: too odd [r]" in found["detail"]
    assert found["faults"][0]["path"] == "a.b"


@pytest.mark.parametrize(
    ("error", "status", "type"),
    [
        (RegistryError(INCOMPATIBLE, subject="/s", compat="backward"), 409, CATALOGUE[INCOMPATIBLE].type),
        (IdClash(Xid.parse("/schemagroups/G")), 409, CATALOGUE["bad_request"].type),
        (Conflict("/g", "the format stays", [Finding(path="format", rule="r", message="m")]), 409, "about:blank"),
        (PreconditionFailed("/g", "If-Match"), 412, "about:blank"),
    ],
)
def test_conflicts_have_statuses_of_http(error: Exception, status: int, type: str) -> None:
    """A-26, J-20: xRegistry has no 409, the drafts do; other conflicts are not in the catalogue."""
    found = body(problem_response(error, "/api/g"))
    assert (found["status"], found["type"]) == (status, type)


@pytest.mark.parametrize(
    "error",
    [ReadOnly("it is read-only", ("GET", "HEAD")), NotAllowed(subject="/g", allow=("GET", "HEAD"), action="PUT")],
)
def test_405_tells_what_is_allowed(error: Exception) -> None:
    """C-37."""
    answer = problem_response(error, "/api/g")
    assert answer.status == 405
    assert ("Allow", "GET, HEAD") in answer.headers


def test_anything_else_is_the_servers_fault() -> None:
    assert problem_response(ValueError("secret"), "/api/g").status == 500
