"""Running cases: each in Groups of its own, which go when it is done; model and capabilities end as they began."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Final, Self

from signalbook.conformance.cases import Case, Step
from signalbook.conformance.judging import judge
from signalbook.conformance.matching import ABSENT, Mismatch, Variables, fill
from signalbook.conformance.profile import ServerProfile, borrowed_names, kit_model, own_names
from signalbook.conformance.wire import Wire, WireError, WireRequest, WireResponse
from signalbook.values import JSON, JSONObject, dump_json

_PAUSE: Final = 0.02
_ROOT: Final = re.compile(r"https?://[A-Za-z0-9._~:/%-]+")
"""What a server may call its root; cases have it in patterns, so nothing in it may mean more than itself."""
_SCRATCH: Final = "kitmodels"
"""The Group type with which cases about the model do as they like."""


class CaseOutcome(StrEnum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of a case and what came back."""

    request: WireRequest
    response: WireResponse

    def __str__(self) -> str:
        return f"{self.request}\n\n{self.response}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of a case: ``mismatches`` of the exchange that failed, or the ``reason`` it was skipped for."""

    case: Case
    outcome: CaseOutcome
    reason: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    exchange: Exchange | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``writes`` allows cases that write, ``configures`` those that change model and capabilities meanwhile."""

    writes: bool = False
    configures: bool = False
    exact_titles: bool = False


class ConformanceSession:
    """A run against one server; a context manager that leaves the server as it was.

    Raises ``WireError`` on entering if what is there is no registry, and if model or capabilities cannot be put back.
    """

    def __init__(self, wire: Wire, options: Options) -> None:
        self._wire = wire
        self._options = options
        self._token = secrets.token_hex(4)
        self._numbers = count(1)
        self._modelsource: JSONObject | None = None

    def __enter__(self) -> Self:
        capabilities, model = self._get("/capabilities") or {}, self._get("/model")
        if model is None:
            raise WireError(f"{self._wire.url}: this is no registry: GET /model brings no JSON object")
        root = (self._get("/") or {}).get("self")
        if isinstance(root, str) and _ROOT.fullmatch(root):
            self._wire.root = root.rstrip("/")
        self._profile = self._prepare(capabilities, model)
        return self

    def __exit__(self, *_: object) -> None:
        if self._modelsource is not None:
            # Entities first: their types could not be taken out of the model.
            for plural in (*kit_model(), _SCRATCH):
                self._send(Step(method="DELETE", target=f"/{plural}"), {})
            self._put_back("/modelsource", self._modelsource)

    @property
    def profile(self) -> ServerProfile:
        """What the server offers."""
        return self._profile

    def run(self, case: Case) -> CaseResult:
        """Run one case. Nothing it does to the server stays."""
        began = time.perf_counter()
        reason = "" if case.reads or self._options.writes else "writes (--tier write)"
        reason = reason or self._profile.lacks(case)
        if reason:
            return CaseResult(case=case, outcome=CaseOutcome.SKIPPED, reason=reason)
        with self._place(case) as variables:
            result = self._steps(case, variables)
        return replace(result, seconds=time.perf_counter() - began)

    def _prepare(self, capabilities: JSONObject, model: JSONObject) -> ServerProfile:
        profile = ServerProfile(
            capabilities=capabilities,
            model=model,
            own_model=False,
            may_configure=self._options.configures,
            variables={"root": self._wire.root, **borrowed_names(model)},
        )
        if not self._options.configures or not profile.mutable("modelsource"):
            return profile
        # With types of its own the kit has something to write to, whatever the server's model demands.
        self._modelsource = self._get("/modelsource") or {}
        response = self._send(Step(method="PUT", target="/modelsource", model={}), {}).response
        if response.status != 200:
            raise WireError(f"the server refuses the kit's model: {response}")
        return replace(
            profile,
            own_model=True,
            model=self._get("/model") or model,
            variables={"root": self._wire.root, **own_names()},
        )

    @contextmanager
    def _place(self, case: Case) -> Iterator[Variables]:
        """The variables of one case, with ids nobody else uses; cleans up what was made with them."""
        # Other runs at the same time, and what broken ones left behind, do not get in the way.
        gid = f"kit-{self._token}-{next(self._numbers)}"
        variables = {**self._profile.variables, "gid": gid, "gid2": f"{gid}-b"}
        if "dirs" in variables:
            variables |= {"g": f"/{variables['dirs']}/{gid}", "h": f"/{variables['dirs']}/{gid}-b"}
        variables |= {
            short: f"{variables['g']}/{variables[plural]}/{short}1"
            for short, plural in (("f", "files"), ("n", "notes"))
            if plural in variables
        }
        try:
            yield variables
        finally:
            if not case.reads:
                self._clean(case, variables)

    def _clean(self, case: Case, variables: Variables) -> None:
        if "mutable:capabilities" in case.needs:
            self._put_back("/capabilities", self._profile.capabilities)
        for plural in self._groups_of(case, variables):
            for gid in (variables["gid2"], variables["gid"]):
                self._send(Step(method="DELETE", target=f"/{plural}/{gid}"), {})
        if any(step.model is not None for step in case.steps):
            self._send(Step(method="DELETE", target=f"/{_SCRATCH}"), {})
            self._put_back("/modelsource", self._merged({}))

    def _put_back(self, target: str, value: JSONObject) -> None:
        response = self._send(Step(method="PUT", target=target, json=value), {}).response
        if response.status != 200:
            raise WireError(f"{self._wire.url}{target} could not be put back: {response}")

    def _groups_of(self, case: Case, variables: Variables) -> Iterable[str]:
        """Group types it may have written to; Groups that borrow from others first."""
        targets = [str(fill(step.target, variables)) for step in case.steps]
        named = {target.split("/")[1].partition("?")[0] for target in targets if target.startswith("/")}
        everywhere = "" in named
        return [p for p in reversed(self._profile.model.get("groups", {})) if everywhere or p in named]

    def _steps(self, case: Case, variables: Variables) -> CaseResult:
        for step in case.steps:
            try:
                mismatches, exchange = self._step(step, variables)
            except WireError as error:
                lost = Mismatch(path="", expected="an answer", actual=str(error))
                return CaseResult(case=case, outcome=CaseOutcome.FAILED, mismatches=(lost,))
            if mismatches:
                return CaseResult(
                    case=case, outcome=CaseOutcome.FAILED, mismatches=tuple(mismatches), exchange=exchange
                )
        return CaseResult(case=case, outcome=CaseOutcome.PASSED)

    def _step(self, step: Step, variables: Variables) -> tuple[list[Mismatch], Exchange]:
        if step.wait:
            time.sleep(_PAUSE)
        # A refused write must not have changed anything (R22), whatever the response says.
        guarded = step.error is not None and not step.reads
        before = self._state(variables) if guarded else b""
        exchange = self._send(step, variables)
        mismatches = judge(step, exchange.response, variables, exact_titles=self._options.exact_titles)
        if guarded and not mismatches and self._state(variables) != before:
            mismatches = [Mismatch(path="state", expected="nothing changed by a refused request", actual="a change")]
        return mismatches, exchange

    def _state(self, variables: Variables) -> bytes:
        """What a refused request must leave as it is (R22): the case's Group with all in it."""
        if "g" not in variables:
            return b""
        flags = "" if self._profile.lacking("flag:inline") else "?inline=*"
        return self._send(Step(method="GET", target=variables["g"] + flags), {}).response.content

    def _send(self, step: Step, variables: Variables) -> Exchange:
        headers = {name: str(value) for name, value in fill(dict(step.headers), variables).items()}
        content = self._content(step, variables)
        if (step.json is not ABSENT or step.model is not None) and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        request = WireRequest(
            method=step.method, target=str(fill(step.target, variables)), headers=headers, content=content
        )
        return Exchange(request=request, response=self._wire.send(request))

    def _content(self, step: Step, variables: Variables) -> bytes | None:
        if step.model is not None:
            return dump_json(self._merged(fill(step.model, variables)))
        if step.json is not ABSENT:
            return dump_json(fill(step.json, variables))
        if isinstance(step.content, str):
            return str(fill(step.content, variables)).encode()
        return step.content

    def _merged(self, fragment: JSONObject) -> JSONObject:
        """The server's own modelsource with the kit's Group types and ``fragment`` on top."""
        source = self._modelsource or {}
        groups = {**source.get("groups", {}), **kit_model(), **fragment.get("groups", {})}
        return {**source, **fragment, "groups": groups}

    def _get(self, target: str) -> JSONObject | None:
        response = self._send(Step(method="GET", target=target), {}).response
        body: JSON = response.json()
        return body if response.status == 200 and isinstance(body, dict) else None
