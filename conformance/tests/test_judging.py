"""Answers against what a step expects."""

from typing import Any

import pytest

from xregistry_conformance.cases import ExpectedError, Step
from xregistry_conformance.judging import judge
from xregistry_conformance.values import dump_json
from xregistry_conformance.wire import WireResponse

JSON = ("Content-Type", "application/json; charset=utf-8")


def response(status: int, body: Any = None, *headers: tuple[str, str]) -> WireResponse:
    return WireResponse(status=status, headers=headers or (JSON,), content=b"" if body is None else dump_json(body))


def error(**changes: Any) -> WireResponse:
    body = {
        "type": "https://github.com/xregistry/spec/blob/main/core/spec.md#bad_flag",
        "title": "The specified flag (doc) is not allowed in this context: /dirs.",
        "subject": "/dirs",
        "args": {"flag": "doc"},
        **changes,
    }
    return response(changes.pop("status", 400), {name: value for name, value in body.items() if name != "status"})


def faults(step: Step, got: WireResponse, *, exact: bool = True) -> list[str]:
    mismatches = judge(step, got, {}, exact_titles=exact)
    return [f"advice {item.path}" if item.advice else item.path for item in mismatches]


def get(**expected: Any) -> Step:
    return Step(method="GET", target="/", **expected)


@pytest.mark.parametrize(
    ("expectation", "got", "expected"),
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
def test_successes(expectation: dict[str, Any], got: WireResponse, expected: list[str]) -> None:
    assert faults(get(**expectation), got) == expected


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (error(), []),
        (error(type="https://github.com/xregistry/spec/blob/main/core/spec.md#bad_sort"), ["advice error"]),
        (error(type="https://example.com/errors/no-such-flag"), ["advice error"]),
        (error(type="https://github.com/xregistry/spec/blob/main/core/spec.md#not_found"), ["status"]),
        (error(status=422), ["status"]),
        (error(args={}), ["/args/flag", "/title"]),
        (error(args={"flag": 5}), ["/args/flag", "/title"]),
        (error(subject="/other"), ["/subject", "/title"]),
        (error(title="something else"), ["/title"]),
        (response(400, None, ("Content-Type", "text/plain")), ["advice error"]),
        (response(200, {}), ["status"]),
        (response(500), ["status"]),
    ],
)
def test_errors(got: WireResponse, expected: list[str]) -> None:
    """An error of another type is what the specification only recommends not to send; no error at all breaks it."""
    assert faults(get(error=ExpectedError(codes=("bad_flag",), subject="/dirs", args={"flag": "doc"})), got) == expected


def test_one_type_instead_of_another_is_one_fault() -> None:
    """Whatever else the error says."""
    step = get(error=ExpectedError(codes=("bad_flag",)))
    errors = (error(type="x#bad_request", title=title) for title in ("a", "b"))
    (first,), (other,) = (judge(step, got, {}, exact_titles=False) for got in errors)
    assert first.advice == other.advice == "bad_request for bad_flag"
    assert first.actual != other.actual


def test_only_named_members_of_an_error_are_compared() -> None:
    """Arguments and subject of an error are looked at where a case names them."""
    assert faults(get(error=ExpectedError(codes=("bad_flag",))), error(args={}, subject=None), exact=False) == []
    step = get(error=ExpectedError(codes=("bad_flag",), args={"flag": "doc"}))
    assert faults(step, error(args={}), exact=False) == ["/args/flag", "/title"]


def test_titles_may_be_reworded() -> None:
    """The title must contain the values (R279)."""
    step = get(error=ExpectedError(codes=("bad_flag",), args={"flag": "doc"}))
    assert faults(step, error(title="doc is no flag for /dirs")) == ["/title"]
    assert faults(step, error(title="doc is no flag for /dirs"), exact=False) == []
    assert faults(step, error(title="no flag for /dirs"), exact=False) == ["/title"]


def test_headers_of_an_error() -> None:
    """The header of a 405 lists the available methods (R284)."""
    step = get(error=ExpectedError(codes=("bad_flag",)), has={"allow": "~contains GET"})
    assert faults(step, error()) == ["header allow"]


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (response(409, {"type": "x#y", "title": "t"}), []),
        (response(500, {"type": "x#y", "title": "t"}), ["status"]),
        (response(200), ["status"]),
        (response(400), []),
    ],
)
def test_any_error(got: WireResponse, expected: list[str]) -> None:
    assert faults(get(error=ExpectedError(codes=("any",))), got) == expected
