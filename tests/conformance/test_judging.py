"""Answers against what a step expects."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.conformance.cases import ExpectedError, Step
from signalbook.conformance.judging import judge
from signalbook.conformance.wire import WireResponse
from signalbook.errors import RegistryError
from signalbook.values import dump_json

JSON = ("Content-Type", "application/json; charset=utf-8")


def response(status: int, body: Any = None, *headers: tuple[str, str]) -> WireResponse:
    return WireResponse(status=status, headers=headers or (JSON,), content=b"" if body is None else dump_json(body))


def error(**changes: Any) -> WireResponse:
    told = RegistryError("bad_flag", subject="/dirs", flag="doc")
    body = {
        "type": told.definition.type,
        "title": told.title,
        "subject": told.subject,
        "args": {"flag": "doc"},
        **changes,
    }
    return response(changes.pop("status", 400), {name: value for name, value in body.items() if name != "status"})


def faults(step: Step, got: WireResponse, *, exact: bool = True) -> list[str]:
    return [found.path for found in judge(step, got, {}, exact_titles=exact)]


def get(**expected: Any) -> Step:
    return Step(method="GET", target="/", **expected)


@pytest.mark.parametrize(
    ("wanted", "got", "found"),
    [
        ({}, response(204), []),
        ({}, response(404, {"title": "gone"}), ["status"]),
        ({"status": (200, 201)}, response(201), []),
        ({"status": (200,)}, response(201), ["status"]),
        ({"expect": {"a": 1}}, response(200, {"a": 1}), []),
        ({"expect": {"a": 1}}, response(200, {"a": 2}), ["/a"]),
        ({"expect": {"a": 1}}, response(200), [""]),
        ({"has": {"allow": "~contains GET"}}, response(200, None, ("Allow", "GET, PUT")), []),
        ({"has": {"allow": "~absent"}}, response(200, None, ("Allow", "GET")), ["header allow"]),
        ({"links": {"next": "~any"}}, response(200, None, ("Link", '</x>;rel="next";count=5, </>;rel=a')), []),
        ({"links": {"next": "~absent"}}, response(200, None, ("Link", "</x>;rel=prev")), []),
        ({"links": {"next": "~any"}}, response(200, None, ("Link", "</x>;rel=prev")), ["Link rel=next"]),
        ({"text_is": ""}, response(200), []),
        ({"text_is": "~~x"}, response(200), [""]),
    ],
)
def test_successes(wanted: dict[str, Any], got: WireResponse, found: list[str]) -> None:
    assert faults(get(**wanted), got) == found


@pytest.mark.parametrize(
    ("got", "found"),
    [
        (error(), []),
        (error(type="https://example.com/#bad_flag"), ["/type"]),
        (error(type="https://github.com/xregistry/spec/blob/main/core/spec.md#bad_sort"), ["error"]),
        (error(status=422), ["status"]),
        (error(args={}), ["/args/flag", "/title"]),
        (error(args={"flag": 5}), ["/args/flag", "/title"]),
        (error(subject="/other"), ["/subject", "/title"]),
        (error(title="something else"), ["/title"]),
        (response(400, {"type": "#bad_flag"}, ("Content-Type", "text/plain")), None),
        (response(200, {}), ["error"]),
        (response(500), ["error"]),
    ],
)
def test_errors(got: WireResponse, found: list[str] | None) -> None:
    wanted = ExpectedError(codes=("bad_flag",), subject="/dirs", args={"flag": "doc"})
    told = faults(get(error=wanted), got)
    assert told == found if found is not None else "header Content-Type" in told


def test_titles_may_be_reworded() -> None:
    """R279: as long as the values are in them."""
    step = get(error=ExpectedError(codes=("bad_flag",)))
    assert faults(step, error(title="doc is no flag for /dirs")) == ["/title"]
    assert faults(step, error(title="doc is no flag for /dirs"), exact=False) == []
    assert faults(step, error(title="no flag for /dirs"), exact=False) == ["/title"]


def test_allow_beside_405() -> None:
    """R284."""
    told = RegistryError("action_not_supported", subject="/", action="DELETE")
    body = {"type": told.definition.type, "title": told.title, "subject": "/", "args": {"action": "DELETE"}}
    step = get(error=ExpectedError(codes=("action_not_supported",)))
    assert faults(step, response(405, body)) == ["header Allow"]
    assert faults(step, response(405, body, JSON, ("Allow", "GET"))) == []


@pytest.mark.parametrize(
    ("got", "found"),
    [
        (response(409, {"type": "x#y", "title": "t"}), []),
        (response(500, {"type": "x#y", "title": "t"}), ["status"]),
        (response(400, {"message": "no"}), ["body"]),
        (response(400), ["body"]),
    ],
)
def test_any_error(got: WireResponse, found: list[str]) -> None:
    assert faults(get(error=ExpectedError(codes=("any",))), got) == found
