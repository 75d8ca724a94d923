"""Errors of the draft APIs."""

import json
from typing import Any

import pytest

from signalbook.api.kernel.errors import Conflict, NotAllowed, PreconditionFailed, ReadOnly, build_problem_response
from signalbook.api.kernel.responses import Response
from signalbook.engine.write.workingcopies import IdClash
from signalbook.errors import CATALOGUE, RegistryError
from signalbook.values import Finding
from signalbook.xid import Xid

INCOMPATIBLE = "compatibility_violation"


def body(answer: Response) -> dict[str, Any]:
    assert ("Content-Type", "application/problem+json") in answer.headers
    problem: dict[str, Any] = json.loads(answer.body)
    assert problem["status"] == answer.status
    return problem


def test_error_of_the_catalogue_has_all_details() -> None:
    """The error has the members of RFC9457 and lists the single faults (A-53)."""
    faults = [Finding(path="a.b", rule="r", message="too odd")]
    error = RegistryError("bad_request", subject="/g", error_detail="no", faults=faults)
    problem = body(build_problem_response(error, "/api/g"))
    assert (problem["status"], problem["instance"]) == (400, "/api/g")
    assert problem["type"].endswith("#bad_request")
    assert "a.b: too odd [r]" in problem["detail"]
    assert problem["faults"][0]["path"] == "a.b"


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
    """The drafts have the status 409 and xRegistry does not; other conflicts are not in the catalogue (A-26, J-20)."""
    problem = body(build_problem_response(error, "/api/g"))
    assert (problem["status"], problem["type"]) == (status, type)


@pytest.mark.parametrize(
    "error",
    [ReadOnly("it is read-only", ("GET", "HEAD")), NotAllowed(subject="/g", allow=("GET", "HEAD"), action="PUT")],
)
def test_405_lists_the_allowed_methods(error: Exception) -> None:
    """The header Allow lists the methods (C-37)."""
    answer = build_problem_response(error, "/api/g")
    assert answer.status == 405
    assert ("Allow", "GET, HEAD") in answer.headers


def test_unexpected_exception_is_an_internal_error() -> None:
    assert build_problem_response(ValueError("secret"), "/api/g").status == 500
