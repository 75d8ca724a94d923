"""The files of cases: well formed, complete, and of requirements there are."""

import re
from collections import Counter
from typing import Any

import pytest

from xregistry_conformance.cases import READS, Case, CaseError, Level, all_cases, parse_topic, topics
from xregistry_conformance.errors import CATALOGUE
from xregistry_conformance.matching import names
from xregistry_conformance.profile import ServerProfile, kit_model, kit_names, own_names
from xregistry_conformance.reports import sections
from xregistry_conformance.values import dump_json

CASES = list(all_cases())
NOWHERE = ServerProfile(capabilities={}, model={})
GIVEN = {"root", "gid", "gid2", "g", "h", "f", "n", *own_names(kit_model()), *kit_names()}


def test_kit_has_many_cases_of_all_levels() -> None:
    assert len(CASES) > 600
    assert all(topic.cases for topic in topics())
    assert {case.level for case in CASES} == set(Level)


def test_ids_are_unique() -> None:
    assert [name for name, times in Counter(case.id for case in CASES).items() if times > 1] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.id))
def test_case_is_sound(case: Case) -> None:
    """The requirements and needs of a case exist, its variables are given or captured before, and it expects
    something.
    """
    requirements = {name for section in sections() for name in section.requirements}
    assert set(case.requirements) <= requirements
    for need in case.needs:
        NOWHERE.lacking(need)
    captured: set[str] = set()
    for step in case.steps:
        templates = [step.target, step.json, step.content, dict(step.headers)]
        unknown = {name for value in templates for name in names(value)} - GIVEN - captured
        # What looks like a variable may be a template of a message, which stays as it is.
        assert not unknown or "messagegroups" in step.target or case.topic in ("entities", "registries"), unknown
        captured |= set(re.findall(r" >([a-z][a-z0-9_]*)", repr((step.expect, step.has, step.links))))
    assert any(s.expect is not None or s.error or s.status for s in case.steps)


def test_reading_cases_do_not_write() -> None:
    """No case of the reading tier has a step with a method that writes."""
    assert all(step.method in READS for case in CASES if case.reads for step in case.steps)
    assert sum(case.reads for case in CASES) > 40


def test_every_error_has_a_case_or_a_reason() -> None:
    """The test checks each error of the catalogue; tests/api covers those that no client can cause (R279)."""
    from xregistry_conformance.reports import unreached

    reached = {code for case in CASES for code in case.errors}
    assert CATALOGUE.keys() - reached == unreached().keys()


def topic(**case: Any) -> bytes:
    whole = {"id": "x", "says": "y", "reqs": "R1", "steps": [{"do": "GET /"}], **case}
    return dump_json({"title": "T", "cases": [{name: value for name, value in whole.items() if value is not None}]})


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"says": None}, "a case has"),
        ({"colour": "red"}, "a case has"),
        ({"reqs": "R0"}, "names no requirements"),
        ({"reqs": ""}, "names no requirements"),
        ({"steps": [{"get": "/"}]}, "a step has"),
        ({"steps": [{"do": "GET /", "error": "nonsense"}]}, "no errors of the specification"),
        ({"id": "Bad Id"}, "malformed"),
    ],
)
def test_broken_files(case: dict[str, Any], message: str) -> None:
    with pytest.raises(CaseError, match=f"01-t.yaml: .*{message}"):
        parse_topic("01-t.yaml", topic(**case))


def test_invalid_yaml_is_an_error() -> None:
    with pytest.raises(CaseError, match=r"01-t.yaml: line"):
        parse_topic("01-t.yaml", b"cases: [")


def test_needs_are_read_from_requests() -> None:
    steps = [{"do": "PUT /capabilities?inline=x&limit=1", "json": {}}, {"do": "PUT /modelsource", "model": {}}]
    (case,) = parse_topic("01-t.yaml", topic(steps=steps)).cases
    expected = frozenset({"flag:inline", "pagination", "test-model", "api:capabilities", "mutable:capabilities"})
    assert (case.needs, case.reads) == (expected, False)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"do": "PUT {n}", "json": {"name": "x"}}, False),
        ({"do": "GET {n}/versions"}, False),
        ({"do": "PUT {n}/versions/v1", "json": {}}, True),
        ({"do": "PUT {n}", "json": {"meta": {"defaultversionid": "a"}}}, True),
        ({"do": "POST {n}", "json": {}}, True),
        ({"do": "PATCH {n}?setdefaultversionid=null", "json": {}}, True),
    ],
)
def test_cases_that_create_versions_are_recognised(step: dict[str, Any], expected: bool) -> None:
    (case,) = parse_topic("01-t.yaml", topic(steps=[step])).cases
    assert case.makes_versions is expected


def test_the_charset_is_one_case() -> None:
    """The kit reports one fault with one case."""
    case_ids = [case.id for case in CASES if "charset=utf-8" in repr([dict(step.has) for step in case.steps])]
    assert case_ids == ["http-json-content-type"]
