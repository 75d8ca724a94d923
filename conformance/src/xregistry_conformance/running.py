"""Running cases: each in Groups of its own, which go when it is done; model and capabilities end as they began."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Final, Self

from xregistry_conformance.borrowing import Cast, complete, required_headers, with_details
from xregistry_conformance.cases import Case, Level, Step
from xregistry_conformance.judging import judge
from xregistry_conformance.matching import ABSENT, Mismatch, Variables, fill
from xregistry_conformance.profile import ServerProfile, kit_model, kit_model_for
from xregistry_conformance.values import JSON, JSONObject, dump_json
from xregistry_conformance.wire import Wire, WireError, WireRequest, WireResponse

_PAUSE_SECONDS: Final = 0.02
_ROOT: Final = re.compile(r"https?://[A-Za-z0-9._~:/%-]+")
"""What a server may call its root; cases have it in patterns, so nothing in it may mean more than itself."""
_SCRATCH: Final = "kitmodels"
"""The Group type with which cases about the model do as they like."""
_UNFORESEEN: Final = (TypeError, AttributeError, ValueError, LookupError, RecursionError)
INTERRUPTED: Final = "the run was interrupted"


class CaseOutcome(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request of a case and its response."""

    request: WireRequest
    response: WireResponse

    def __str__(self) -> str:
        return f"{self.request}\n\n{self.response}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case: ``mismatches`` of the failed exchange, or the ``reason`` why it was skipped."""

    case: Case
    outcome: CaseOutcome
    reason: str = ""
    mismatches: tuple[Mismatch, ...] = ()
    exchange: Exchange | None = None
    seconds: float = 0.0

    @property
    def level(self) -> Level:
        """The level it counts for: that of the case, unless all that failed is only recommended."""
        advice = bool(self.mismatches) and all(item.advice for item in self.mismatches)
        return Level.SHOULD if advice and self.case.level is Level.MUST else self.case.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``writes`` allows cases that write, ``configures`` those that change the model meanwhile, ``locks_out`` those
    that change capabilities. ``before`` is a file for what model and capabilities were, while they are changed.
    """

    writes: bool = False
    configures: bool = False
    locks_out: bool = False
    exact_titles: bool = False
    before: Path | None = None


class ConformanceSession:
    """A run against one server; a context manager that leaves the server as it was.

    Raises ``WireError`` on entering if what is there is no registry. What could not be put back at the end is in
    ``unrestored``, in words; nothing else is ever raised on leaving.
    """

    def __init__(self, wire: Wire, options: Options) -> None:
        self.unrestored: list[str] = []
        self._wire = wire
        self._options = options
        self._token = secrets.token_hex(4)
        self._numbers = count(1)
        self._modelsource: JSONObject | None = None
        self._kit: JSONObject = {}
        self._given_up = ""
        self._left: dict[str, str] = {}
        self._advised: dict[str, str] = {}

    def __enter__(self) -> Self:
        model = self._get("/model")
        if model is None:
            raise WireError(f"{self._wire.url}: this is no registry: GET /model brings no JSON object")
        registry = self._get("/") or {}
        root = registry.get("self")
        if isinstance(root, str) and _ROOT.fullmatch(root):
            self._wire.root = root.rstrip("/")
        capabilities = self._get("/capabilities") or (self._get("/?inline=capabilities") or {}).get("capabilities", {})
        options = self._options
        self.profile = ServerProfile(
            capabilities=capabilities,
            model=model,
            may_lock_out=options.locks_out,
        )
        self._save(capabilities)
        if options.configures:
            try:
                self.profile = self._with_kit(self.profile)
            except BaseException:
                # Nobody else would put the model back: a context that was not entered is not left.
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._restore()
        except KeyboardInterrupt:
            self.unrestored.append(f"{INTERRUPTED} while everything was put back")
        if self._options.before and not self.unrestored:
            self._options.before.unlink(missing_ok=True)

    def run(self, case: Case) -> CaseResult:
        """Run one case. Nothing it does to the server stays."""
        began = time.perf_counter()
        reason = self._given_up or ("" if case.reads or self._options.writes else "writes (--tier write)")
        reason = reason or self.profile.lacks(case)
        if reason:
            return CaseResult(case=case, outcome=CaseOutcome.SKIPPED, reason=reason)
        cast = self.profile.cast(case)
        with self._place(case, cast) as variables:
            result = self._run_steps(case, variables, cast)
        return replace(result, seconds=time.perf_counter() - began)

    def _save(self, capabilities: JSONObject) -> None:
        if self._options.before and (self._options.configures or self._options.locks_out):
            was = {"url": self._wire.url, "capabilities": capabilities, "modelsource": self._get("/modelsource")}
            self._options.before.write_bytes(dump_json(was, indent=2))

    def _with_kit(self, profile: ServerProfile) -> ServerProfile:
        """``profile`` with the kit's types in the model: something to write to, whatever the server's model demands."""
        if not profile.mutable("modelsource"):
            return replace(profile, without={"*": "needs types of the kit's own, and the model cannot be changed"})
        source = self._get("/modelsource")
        if source is None:
            return replace(profile, without={"*": "needs types of the kit's own, and the modelsource cannot be read"})
        self._modelsource = source
        self._kit, without = kit_model_for(profile.capabilities)
        try:
            refused = self._refused(self._merge_model({}))
            if refused:
                without |= self._drop_refused_types(refused)
            model = self._get("/model") or profile.model
        except WireError as error:
            self._kit, without = {}, {"*": f"the kit's types could not be added to the model: {error}"}
            model = profile.model
        return replace(profile, kit=self._kit, without=without, model=model)

    def _drop_refused_types(self, refusal: str) -> dict[str, str]:
        """Add the kit's types one by one; those that the server refuses, with its words."""
        kit, self._kit = self._kit, {}
        without: dict[str, str] = {}
        for plural, group in kit.items():
            for name in ("", *group["resources"]):
                before = self._kit
                present = before.get(plural, {**group, "resources": {}})
                added = {**present["resources"], name: group["resources"][name]} if name else {}
                self._kit = {**before, plural: {**present, "resources": added}}
                refused = self._refused(self._merge_model({}))
                if refused:
                    self._kit = before
                    reason = f"the server refuses the type {plural}/{name}: {refused}"
                    without[name or plural.removeprefix("kit")] = reason
        if not self._kit.get("kitdirs", {}).get("resources"):
            self._kit, without = {}, {"*": f"the server refuses the kit's types: {refusal}"}
        return without

    def _refused(self, modelsource: JSONObject) -> str:
        response = self._send(Step(method="PUT", target="/modelsource", json=modelsource), {}).response
        return "" if response.status == 200 else _format_refusal(response)

    @contextmanager
    def _place(self, case: Case, cast: Cast) -> Iterator[Variables]:
        """The variables of one case, with ids nobody else uses; cleans up what was made with them."""
        # Other runs at the same time, and what broken ones left behind, do not get in the way.
        gid = f"kit-{self._token}-{next(self._numbers)}"
        variables: Variables = {"root": self._wire.root, **cast.names, "gid": gid, "gid2": f"{gid}-b"}
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
                try:
                    self._clean(case, variables)
                except WireError as error:
                    self._given_up = f"the server did not answer after {case.id}: {error}"

    def _clean(self, case: Case, variables: Variables) -> None:
        if case.may_lock_out and (lost := self._restore_capabilities()):
            self._given_up = f"after {case.id} the capabilities could not be put back: {lost}"
        for plural in self._find_groups(case, variables):
            for gid in (variables["gid2"], variables["gid"]):
                self._delete(f"/{plural}/{gid}")
        if any(step.model is not None for step in case.steps):
            self._delete(f"/{_SCRATCH}")
            refused = self._refused(self._merge_model({}))
            # A type too many does no harm until the end.
            if refused and not self._kit.keys() <= (self._get("/model") or {}).get("groups", {}).keys():
                self._given_up = f"after {case.id} the model could not be put back: {refused}"

    def _delete(self, target: str) -> None:
        self._left[target] = "the server did not answer"
        response = self._send(Step(method="DELETE", target=target), {}).response
        del self._left[target]
        if response.status != 404 and not 200 <= response.status < 300:
            self._left[target] = _format_refusal(response)

    def _restore_capabilities(self) -> str:
        """Put the capabilities back; what went wrong if they are not what they were."""
        before = self.profile.capabilities
        if self._get("/capabilities") == before:
            return ""
        response = self._send(Step(method="PUT", target="/capabilities", json=before), {}).response
        if response.status == 200 and self._get("/capabilities") == before:
            return ""
        return _format_refusal(response) if response.status != 200 else "the server says it did, and shows others"

    def _restore(self) -> None:
        """Restore everything, each part separately, so that one failure does not prevent the others."""
        if self._options.locks_out:
            self._put_back("capabilities", self._restore_capabilities)
        if self._modelsource is not None:
            # Entities first: their types could not be taken out of the model.
            for plural in (*kit_model(), _SCRATCH):
                with suppress(WireError):
                    self._delete(f"/{plural}")
            self._put_back("modelsource", self._restore_model)
        for target in tuple(self._left):
            with suppress(WireError):
                self._delete(target)
        self.unrestored += [f"{target} is still there: {why}" for target, why in self._left.items()]

    def _put_back(self, name: str, attempt: Callable[[], str]) -> None:
        try:
            lost = attempt()
        except WireError as error:
            lost = str(error)
        if lost:
            self.unrestored.append(f"{name} could not be put back: {lost}")

    def _restore_model(self) -> str:
        source = self._modelsource or {}
        refused = self._refused(source)
        if refused or self._get("/modelsource") == source:
            return refused
        return "the server says it did, and shows another"

    def _find_groups(self, case: Case, variables: Variables) -> Iterable[str]:
        """Group types it may have written to; Groups that borrow from others first."""
        targets = [str(fill(step.target, variables)) for step in case.steps]
        first_parts = {target.split("/")[1].partition("?")[0] for target in targets if target.startswith("/")}
        everywhere = "" in first_parts
        return [p for p in reversed(self.profile.model.get("groups", {})) if everywhere or p in first_parts]

    def _run_steps(self, case: Case, variables: Variables, cast: Cast) -> CaseResult:
        advice: CaseResult | None = None
        for step in case.steps:
            try:
                step_mismatches, exchange = self._step(step, variables, cast)
            except WireError as error:
                self._probe(case)
                lost = Mismatch(path="", expected="an answer", actual=str(error))
                return CaseResult(case=case, outcome=CaseOutcome.FAILED, mismatches=(lost,))
            except _UNFORESEEN as error:
                # A map where there should be a text, say: whatever a server sends, the other cases have their results.
                odd = Mismatch(path="", expected="an answer of the right shape", actual=repr(error))
                return CaseResult(case=case, outcome=CaseOutcome.FAILED, mismatches=(odd,))
            # Advice is given in the first case that it is true of, and not again in each that follows.
            mismatches = [
                item
                for item in step_mismatches
                if not item.advice or self._advised.setdefault(item.advice, case.id) == case.id
            ]
            if mismatches:
                failed = CaseResult(
                    case=case, outcome=CaseOutcome.FAILED, mismatches=tuple(mismatches), exchange=exchange
                )
                if failed.level is case.level:
                    return failed
                # What is only recommended does not keep the rest of the case from being tried.
                advice = advice or failed
        return advice or CaseResult(case=case, outcome=CaseOutcome.PASSED)

    def _probe(self, case: Case) -> None:
        """Check that the server still answers: otherwise each remaining case would wait for it in vain."""
        try:
            self._get("/")
        except WireError as error:
            self._given_up = f"the server does not answer since {case.id}: {error}"

    def _step(self, step: Step, variables: Variables, cast: Cast) -> tuple[list[Mismatch], Exchange]:
        if step.wait:
            time.sleep(_PAUSE_SECONDS)
        # A refused write must not have changed anything (R22), whatever the response says.
        guarded = step.error is not None and not step.reads
        before = self._state(variables) if guarded else b""
        exchange = self._send(step, variables, cast)
        response = exchange.response.without("$details") if cast.details else exchange.response
        mismatches = judge(step, response, variables, exact_titles=self._options.exact_titles)
        if guarded and all(item.advice for item in mismatches) and self._state(variables) != before:
            mismatches = [Mismatch(path="state", expected="nothing changed by a refused request", actual="a change")]
        return mismatches, exchange

    def _state(self, variables: Variables) -> bytes:
        """Return the state that a rejected request must not change (R22): the case's Group with its content."""
        if "g" not in variables:
            return b""
        flags = "" if self.profile.lacking("flag:inline") else "?inline=*"
        return self._send(Step(method="GET", target=variables["g"] + flags), {}).response.content

    def _send(self, step: Step, variables: Variables, cast: Cast | None = None) -> Exchange:
        cast = cast or Cast()
        target = with_details(cast, step.method, str(fill(step.target, variables)).removeprefix(self._wire.root))
        headers = {name: str(value) for name, value in fill(dict(step.headers), variables).items()}
        stated = {name.lower() for name in headers}
        required = required_headers(cast, step.method, target)
        headers |= {name: value for name, value in required if name.lower() not in stated}
        content = self._build_content(step, variables, cast, target)
        if (step.json is not ABSENT or step.model is not None) and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        request = WireRequest(method=step.method, target=target, headers=headers, content=content)
        return Exchange(request=request, response=self._wire.send(request))

    def _build_content(self, step: Step, variables: Variables, cast: Cast, target: str) -> bytes | None:
        if step.model is not None:
            return dump_json(self._merge_model(fill(step.model, variables)))
        if step.json is not ABSENT:
            return dump_json(complete(cast, step.method, target, fill(step.json, variables)))
        if isinstance(step.content, str):
            return str(fill(step.content, variables)).encode()
        return step.content

    def _merge_model(self, fragment: JSONObject) -> JSONObject:
        """Return the server's own modelsource with the kit's Group types and ``fragment`` on top."""
        source = self._modelsource or {}
        groups = {**source.get("groups", {}), **self._kit, **fragment.get("groups", {})}
        return {**source, **fragment, "groups": groups}

    def _get(self, target: str) -> JSONObject | None:
        response = self._send(Step(method="GET", target=target), {}).response
        body: JSON = response.json()
        return body if response.status == 200 and isinstance(body, dict) else None


def run_all(
    session: ConformanceSession, cases: Sequence[Case], *, track: Callable[[Sequence[Case]], Iterable[Case]]
) -> list[CaseResult]:
    """Return the results of ``cases``, in their order. ``track`` passes the cases on and shows the progress.

    Those that may lock the server out are run last. After Ctrl-C the rest counts as skipped.
    """
    results: dict[str, CaseResult] = {}
    with suppress(KeyboardInterrupt):
        for case in track(sorted(cases, key=_rank_risk)):
            results[case.id] = session.run(case)
    skipped = (CaseResult(case=case, outcome=CaseOutcome.SKIPPED, reason=INTERRUPTED) for case in cases)
    return [results.get(row.case.id, row) for row in skipped]


def _rank_risk(case: Case) -> int:
    """Cases that change what is available at all come after those that change other capabilities."""
    if not case.may_lock_out:
        return 0
    return 2 if any("available" in repr(step.json) for step in case.steps) else 1


def _format_refusal(response: WireResponse) -> str:
    """Return the server's words about a rejected request."""
    body = response.json()
    return f"{response.status} {body.get('title', '')}".strip() if isinstance(body, dict) else str(response.status)
