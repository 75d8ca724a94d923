"""Cases: what a server is asked and has to answer, read from the files beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from xregistry_conformance.errors import CATALOGUE, KitError
from xregistry_conformance.matching import ABSENT, names
from xregistry_conformance.values import JSON, JSONObject, parse_yaml

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FLAGS: Final = frozenset({
    "binary", "collections", "doc", "epoch", "filter", "ignore", "inline", "setdefaultversionid", "sort", "specversion",
})  # fmt: skip
_STEP_KEYS: Final = frozenset({
    "do", "json", "text", "latin1", "headers", "model", "status", "expect", "text_is", "has", "links", "error",
    "subject", "args", "wait",
})  # fmt: skip
_CASE_KEYS: Final = frozenset({"id", "says", "reqs", "level", "needs", "steps"})
_ABOUT_VERSIONS: Final = (
    "versions", "versionid", "setdefaultversionid", "defaultversionid", "defaultversionsticky", "ancestorid",
)  # fmt: skip
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_REQUIREMENT: Final = re.compile(r"R[1-9][0-9]{0,2}|[FGH]-[1-9][0-9]?")
ANY_ERROR: Final = "any"
"""In place of an error's name: some error the specification leaves open, as long as the status says so (4xx)."""


class Level(StrEnum):
    """The level of a requirement (RFC2119)."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class CaseError(KitError):
    """A case file that breaks the rules of case files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """An error in response to a step: one of ``codes``; ``subject`` and ``args`` as in the matching language."""

    codes: tuple[str, ...]
    subject: JSON = ABSENT
    args: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An exchange: a request, and the expected response.

    ``content`` is the body as bytes, ``json`` one to encode, ``model`` one that is added to the current model;
    an empty ``status`` means any success. ``headers`` and ``links`` (by ``rel``) of the response are matched like
    members. ``wait`` lets the server's clock go on first.
    """

    method: str
    target: str
    json: JSON = ABSENT
    content: str | bytes | None = None
    model: JSONObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: tuple[int, ...] = ()
    expect: JSON = ABSENT
    text_is: str | None = None
    has: Mapping[str, JSON] = field(default_factory=dict)
    links: Mapping[str, JSON] = field(default_factory=dict)
    error: ExpectedError | None = None
    wait: bool = False

    @property
    def reads(self) -> bool:
        """True if the step cannot change anything."""
        return self.method in READS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A requirement for servers, with the steps that show it. ``needs`` is what the server must offer for it."""

    id: str
    topic: str
    says: str
    requirements: tuple[str, ...]
    level: Level
    needs: frozenset[str]
    steps: tuple[Step, ...]

    @property
    def reads(self) -> bool:
        """True if the case belongs to the tier that never writes."""
        return all(step.reads for step in self.steps)

    @property
    def may_lock_out(self) -> bool:
        """True if the case changes capabilities: a faulty server may be unusable afterwards."""
        return "mutable:capabilities" in self.needs

    @property
    def makes_versions(self) -> bool:
        """True if the case may give a Resource several Versions, or chooses a default or ancestors."""
        return any(_is_about_versions(step) for step in self.steps if not step.reads)

    @property
    def variables(self) -> frozenset[str]:
        """Names in braces anywhere in its steps."""
        return frozenset(name for step in self.steps for name in _list_names(step))

    @property
    def errors(self) -> frozenset[str]:
        """Errors of the catalogue it asks for by name, and takes no other."""
        codes_of_steps = [step.error.codes for step in self.steps if step.error]
        return frozenset(codes[0] for codes in codes_of_steps if len(codes) == 1) & CATALOGUE.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTopic:
    """A file of cases."""

    name: str
    title: str
    cases: tuple[Case, ...]


@cache
def topics() -> tuple[CaseTopic, ...]:
    """Every topic of the kit, in the order of the specification. Raises ``CaseError``."""
    folder = resources.files("xregistry_conformance") / "data" / "cases"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    return tuple(parse_topic(name, (folder / name).read_bytes()) for name in files)


def all_cases() -> Iterator[Case]:
    """Every case of the kit, in order."""
    return (case for topic in topics() for case in topic.cases)


def parse_topic(filename: str, data: bytes) -> CaseTopic:
    """The topic in a file named ``NN-topic.yaml``. Raises ``CaseError``."""
    try:
        document = parse_yaml(data, name=filename)
    except KitError as error:
        raise CaseError(str(error)) from None
    name = filename.removesuffix(".yaml").partition("-")[2]
    try:
        cases = tuple(_parse_case(name, item) for item in document["cases"])
    except CaseError as error:
        raise CaseError(f"{filename}: {error}") from None
    _check_ids(filename, [case.id for case in cases])
    return CaseTopic(name=name, title=document["title"], cases=cases)


def _check_ids(filename: str, ids: list[str]) -> None:
    twice = {name for name in ids if ids.count(name) > 1}
    wrong = {name for name in ids if not _ID.fullmatch(name)}
    if twice or wrong:
        raise CaseError(f"{filename}: ids that are there twice or malformed: {sorted(twice | wrong)}")


def _parse_case(topic: str, item: JSONObject) -> Case:
    label = str(item.get("id", "?"))
    if item.keys() - _CASE_KEYS or not {"id", "says", "reqs", "steps"} <= item.keys():
        raise CaseError(f"{label}: a case has {sorted(_CASE_KEYS)}, not {sorted(item)}")
    requirements = tuple(item["reqs"].split())
    if not requirements or not all(_REQUIREMENT.fullmatch(name) for name in requirements):
        raise CaseError(f"{label}: {item['reqs']!r} names no requirements")
    steps = tuple(_parse_step(label, step) for step in item["steps"])
    return Case(
        id=f"{topic}-{label}",
        topic=topic,
        says=item["says"],
        requirements=requirements,
        level=Level(item.get("level", "MUST")),
        needs=frozenset(item.get("needs", ())) | frozenset(_list_needed(steps)),
        steps=steps,
    )


def _parse_step(label: str, item: JSONObject) -> Step:
    if item.keys() - _STEP_KEYS or "do" not in item:
        raise CaseError(f"{label}: a step has {sorted(_STEP_KEYS)}, not {sorted(item)}")
    method, _, target = item["do"].partition(" ")
    status: int | list[int] = item.get("status", [])
    return Step(
        method=method,
        target=target,
        json=item.get("json", ABSENT),
        content=item["latin1"].encode("latin-1") if "latin1" in item else item.get("text"),
        model=item.get("model"),
        headers=item.get("headers", {}),
        status=(status,) if isinstance(status, int) else tuple(status),
        expect=item.get("expect", ABSENT),
        text_is=item.get("text_is"),
        has=item.get("has", {}),
        links=item.get("links", {}),
        error=_parse_error(label, item),
        wait=bool(item.get("wait")),
    )


def _parse_error(label: str, item: JSONObject) -> ExpectedError | None:
    if "error" not in item:
        return None
    stated: Any = item["error"]
    codes = tuple(stated) if isinstance(stated, list) else (stated,)
    unknown = [code for code in codes if code not in CATALOGUE and code != ANY_ERROR]
    if unknown:
        raise CaseError(f"{label}: {unknown} are no errors of the specification")
    return ExpectedError(codes=codes, subject=item.get("subject", ABSENT), args=item.get("args", {}))


def _list_needed(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the offers of a server that the requests need."""
    for step in steps:
        query = {name for name, _ in parse_qsl(urlsplit(step.target).query, keep_blank_values=True)}
        yield from (f"flag:{name}" for name in query & _FLAGS)
        if "limit" in query:
            yield "pagination"
        if step.model is not None:
            yield "test-model"
        if step.target.startswith("/capabilities") and not step.target.startswith("/capabilitiesoffered"):
            yield "api:capabilities"
            if not step.reads and step.method in ("PUT", "PATCH"):
                yield "mutable:capabilities"


def _is_about_versions(step: Step) -> bool:
    posted = step.method == "POST" and urlsplit(step.target).path.removesuffix("$details") in ("{n}", "{f}")
    return posted or any(word in step.target or word in _list_members(step.json) for word in _ABOUT_VERSIONS)


def _list_members(value: JSON) -> Iterator[str]:
    """Yield names of members anywhere in ``value``."""
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_members(item)


def _list_names(step: Step) -> Iterator[str]:
    for value in (step.target, step.json, step.model, dict(step.headers), step.expect, step.text_is, dict(step.has)):
        yield from names(value)
    if isinstance(step.content, str):
        yield from names(step.content)
    if step.error:
        yield from names(step.error.subject)
        yield from names(dict(step.error.args))
