"""The kit at work: it finds a server out that breaks one rule, and leaves a server as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.conformance.conftest import EVERYTHING, ROOT, InProcess, serving

from signalbook.conformance.cases import READS, Case, all_cases
from signalbook.conformance.running import CaseOutcome, ConformanceSession, Options
from signalbook.conformance.wire import Wire, WireError
from signalbook.values import JSON, dump_json, parse_json

CASES = {case.id: case for case in all_cases()}


@dataclass(slots=True)
class Exchanged:
    """A request and its answer, to be spoilt."""

    method: str
    path: str
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def edit(self, change: Callable[[JSON], JSON]) -> None:
        """Change the JSON of the answer; whatever ``change`` returns is ignored."""
        if self.body.startswith(b"{"):
            body = parse_json(self.body)
            change(body)
            self.body = dump_json(body)

    def each(self, name: str, change: Callable[[JSON], JSON]) -> None:
        """Change the member ``name`` wherever it is in the answer."""

        def walk(value: JSON) -> None:
            for key, member in list(value.items()) if isinstance(value, dict) else enumerate(value):
                if key == name:
                    value[key] = change(member)
                elif isinstance(member, (dict, list)):
                    walk(member)

        self.edit(walk)


@dataclass(slots=True)
class Broken:
    """A server that keeps every rule but one: ``spoil`` changes each answer, ``receive`` each request."""

    app: ASGIApp
    spoil: Callable[[Exchanged], object] = lambda _: None
    misread: Callable[[Scope], object] = lambda _: None
    seen: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        self.seen.append(method)
        self.misread(scope)
        parts: list[Message] = []

        async def keep(message: Message) -> None:
            parts.append(message)

        await self.app(scope, receive, keep)
        headers = [(name, value) for name, value in parts[0]["headers"] if name != b"content-length"]
        body = b"".join(part.get("body", b"") for part in parts[1:])
        told = Exchanged(method=method, path=scope["path"], status=parts[0]["status"], headers=headers, body=body)
        self.spoil(told)
        await send({"type": "http.response.start", "status": told.status, "headers": told.headers})
        await send({"type": "http.response.body", "body": told.body})


@pytest.fixture(scope="module")
def broken(sqlite_server: InProcess) -> Broken:
    """A server on SQLite, honest as yet."""
    return Broken(sqlite_server.app)


@pytest.fixture(scope="module")
def transport(sqlite_server: InProcess, broken: Broken) -> Iterator[InProcess]:
    """The way to it."""
    honest, sqlite_server.app = sqlite_server.app, broken
    yield sqlite_server
    sqlite_server.app = honest


@pytest.fixture(scope="module")
def kit(transport: InProcess) -> Iterator[ConformanceSession]:
    """The kit at work against it."""
    with (
        Wire(ROOT, timeout=300, headers={}, transport=transport) as wire,
        ConformanceSession(wire, EVERYTHING) as session,
    ):
        yield session


def status(before: int, after: int) -> Callable[[Exchanged], object]:
    def spoil(told: Exchanged) -> None:
        told.status = after if told.status == before else told.status

    return spoil


def without(header: str) -> Callable[[Exchanged], object]:
    def spoil(told: Exchanged) -> None:
        told.headers = [pair for pair in told.headers if pair[0].decode() != header]

    return spoil


def member(name: str, change: Callable[[JSON], JSON]) -> Callable[[Exchanged], object]:
    return lambda told: told.each(name, change)


def cut(told: Exchanged) -> None:
    told.body = told.body.rstrip(b"\n")


def backwards(told: Exchanged) -> None:
    def turn(body: dict[str, Any]) -> None:
        items = list(body.items())[::-1]
        body.clear()
        body.update(items)

    if told.path.endswith("/notes"):
        told.edit(turn)


def restless(told: Exchanged) -> None:
    if told.method == "GET":
        told.edit(lambda body: body.setdefault("restless", str(id(told))))


SPOILT: list[Any] = [
    ("201 is 200", "http-put-twice", status(201, 200)),
    ("200 is 201", "http-put-twice", status(200, 201)),
    ("no Location", "entities-group-create", without("location")),
    ("no Content-Location", "http-content-location", without("content-location")),
    ("no Allow", "http-unsupported-method", without("allow")),
    ("no Link", "http-root-link", without("link")),
    ("no next page", "sort-limit", without("link")),
    ("no Content-Type", "http-json-content-type", without("content-type")),
    ("no versionid", "documents-scalar-headers", without("xregistry-versionid")),
    ("no Content-Disposition", "documents-content-disposition", without("content-disposition")),
    ("epoch stands", "entities-epoch-grows", member("epoch", lambda _: 1)),
    ("epoch is text", "entities-registry-attributes", member("epoch", str)),
    ("epoch is wrong", "samples-update-with-nothing", member("epoch", lambda epoch: epoch + 1)),
    ("count is one too many", "entities-group-has-every-resource-type", member("notescount", lambda n: n + 1)),
    ("self is relative", "entities-group-create", member("self", lambda url: url.removeprefix(ROOT))),
    ("self has no $details", "entities-self-of-a-document-type", member("self", lambda url: url.split("$")[0])),
    ("xid is lost", "entities-version-attributes", member("xid", lambda _: None)),
    ("time is local", "entities-timestamps-in-utc", member("createdat", lambda t: t.replace("Z", "+00:00"))),
    ("no default", "versions-newest-is-default", member("isdefault", lambda _: False)),
    ("all are roots", "samples-create-with-versions", member("ancestorid", lambda _: "v2")),
    ("nothing sticks", "versions-default-sticks", member("defaultversionsticky", lambda _: False)),
    ("star in an answer", "capabilities-no-wildcard-shown", member("flags", lambda _: ["*"])),
    ("a capability is lost", "capabilities-all-are-shown", member("ignores", lambda _: None)),
    ("model gains", "model-modelsource-gains-nothing", member("kits", lambda kit: {**kit, "maxversions": 0})),
    ("wrong order", "sort-by-attribute", backwards),
    ("document is cut", "documents-text-comes-back", cut),
    ("303 is 200", "documents-external-document", status(303, 200)),
    ("404 is 200", "http-not-found", status(404, 200)),
    ("400 is 422", "entities-empty-name", status(400, 422)),
    ("400 is 500", "errors-deep-json", status(400, 500)),
    ("error of another name", "entities-empty-name", member("type", lambda text: text.replace("invalid", "bad"))),
    ("error at another place", "entities-empty-name", member("subject", lambda _: "/")),
    ("error without arguments", "entities-empty-name", member("args", lambda _: {})),
    ("error in other words", "entities-empty-name", member("title", lambda _: "no")),
    ("refusals change something", "entities-all-or-nothing", restless),
    ("xref is hidden", "xref-looks-like-the-target", member("xref", lambda _: None)),
    ("document view is absolute", "docview-relative-self", member("self", lambda _: f"{ROOT}/x")),
    ("validation is not told", "formats-validated", member("formatvalidated", lambda _: None)),
]


@pytest.mark.parametrize(("case", "spoil"), [pytest.param(*row[1:], id=row[0]) for row in SPOILT])
def test_a_broken_rule_is_found(
    kit: ConformanceSession,
    broken: Broken,
    case: str,
    spoil: Callable[[Exchanged], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert kit.run(CASES[case]).outcome is CaseOutcome.PASSED
    with monkeypatch.context() as patch:
        patch.setattr(broken, "spoil", spoil)
        result = kit.run(CASES[case])
    assert result.outcome is CaseOutcome.FAILED
    assert result.mismatches
    assert result.exchange


def flags_ignored(scope: Scope) -> None:
    scope["query_string"] = b""


def deletes_ignored(scope: Scope) -> None:
    if scope["method"] == "DELETE":
        scope["method"] = "HEAD"


def patch_is_put(scope: Scope) -> None:
    if scope["method"] == "PATCH":
        scope["method"] = "PUT"


def headers_ignored(scope: Scope) -> None:
    scope["headers"] = [(name, value) for name, value in scope["headers"] if not name.startswith(b"xregistry-")]


def paths_in_lower_case(scope: Scope) -> None:
    scope["path"], scope["raw_path"] = scope["path"].lower(), scope["raw_path"].lower()


@pytest.mark.parametrize(
    ("case", "misread"),
    [
        ("flags-inline-star", flags_ignored),
        ("flags-specversion", flags_ignored),
        ("http-delete-with-epoch", flags_ignored),
        ("flags-ignore-epoch", flags_ignored),
        ("filter-equals", flags_ignored),
        ("http-delete-an-entity", deletes_ignored),
        ("http-patch-merges", patch_is_put),
        ("samples-patch-sticky", patch_is_put),
        ("documents-map-headers", headers_ignored),
        ("documents-headers-with-metadata", headers_ignored),
        ("entities-ids-are-looked-up-with-case", paths_in_lower_case),
    ],
)
def test_a_server_that_does_not_listen_is_found(
    kit: ConformanceSession,
    broken: Broken,
    case: str,
    misread: Callable[[Scope], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(broken, "misread", misread)
        result = kit.run(CASES[case])
    assert result.outcome is CaseOutcome.FAILED
    assert kit.run(CASES[case]).outcome is CaseOutcome.PASSED


@pytest.fixture(scope="module")
def calm() -> Iterator[InProcess]:
    """Another server, which no kit is at work with."""
    with serving("sqlite://") as transport:
        yield transport


def everything(transport: InProcess) -> list[JSON]:
    with httpx.Client(transport=transport, base_url=ROOT) as client:
        registry = client.get("/?inline=*,capabilities,modelsource").json()
    return [value for name, value in registry.items() if name not in ("epoch", "modifiedat")]


@pytest.mark.parametrize("only", ["entities", "model", "capabilities", "xref", "errors"])
def test_nothing_stays(calm: InProcess, only: str) -> None:
    """A run leaves the entities, the model and the capabilities as they were."""
    with httpx.Client(transport=calm, base_url=ROOT) as client:
        assert client.put("/messagegroups/mine/messages/m", json={"name": "stays"}).status_code < 300
    before = everything(calm)
    with Wire(ROOT, timeout=300, headers={}, transport=calm) as wire, ConformanceSession(wire, EVERYTHING) as session:
        for case in all_cases():
            if case.topic == only:
                session.run(case)
    assert everything(calm) == before


def run_all(transport: httpx.BaseTransport, options: Options) -> dict[str, tuple[CaseOutcome, str]]:
    with Wire(ROOT, timeout=300, headers={}, transport=transport) as wire, ConformanceSession(wire, options) as session:
        return {case.id: ((result := session.run(case)).outcome, result.reason) for case in all_cases()}


def test_the_reading_tier_only_reads(transport: InProcess, broken: Broken) -> None:
    broken.seen.clear()
    outcomes = run_all(transport, Options())
    assert set(broken.seen) <= READS
    assert all(outcome is not CaseOutcome.FAILED for outcome, _ in outcomes.values())
    assert outcomes["entities-registry-attributes"] == (CaseOutcome.PASSED, "")
    assert outcomes["entities-group-create"] == (CaseOutcome.SKIPPED, "writes (--tier write)")


def test_the_servers_own_model(calm: InProcess) -> None:
    """Without leave to change the model, cases use types of the server's that require nothing."""
    outcomes = run_all(calm, Options(writes=True))
    assert [name for name, (outcome, _) in outcomes.items() if outcome is CaseOutcome.FAILED] == []
    assert outcomes["entities-group-create"][0] is CaseOutcome.PASSED
    assert outcomes["registries-message-http"][0] is CaseOutcome.PASSED
    assert "needs a model of the kit's own" in outcomes["model-maxversions"][1]
    assert "Resource type with documents" in outcomes["documents-text-comes-back"][1]
    assert "--allow-model-changes" in outcomes["capabilities-unknown"][1]


def test_what_is_not_offered_is_skipped(calm: InProcess) -> None:
    with httpx.Client(transport=calm, base_url=ROOT) as client:
        before = client.get("/capabilities").json()
        client.patch("/capabilities", json={"flags": [], "ignores": [], "formats": [], "pagination": False})
        try:
            outcomes = run_all(calm, EVERYTHING)
        finally:
            client.put("/capabilities", json=before)
    assert [name for name, (outcome, _) in outcomes.items() if outcome is CaseOutcome.FAILED] == []
    assert outcomes["flags-inline-star"] == (CaseOutcome.SKIPPED, "the flag inline is not offered")
    assert outcomes["formats-violation"][1] == "jsonschema/draft-07 documents are not validated"


def test_a_server_that_goes_away() -> None:
    answers = iter([{"available": {}}, {"groups": {}}, {"self": f"{ROOT}/"}])

    def handle(request: httpx.Request) -> httpx.Response:
        body = next(answers, None)
        if body is None:
            raise httpx.ReadTimeout("too slow", request=request)
        return httpx.Response(200, json=body)

    case: Case = CASES["entities-registry-hides-configuration"]
    transport = httpx.MockTransport(handle)
    with (
        Wire(ROOT, timeout=30, headers={}, transport=transport) as wire,
        ConformanceSession(wire, Options()) as session,
    ):
        result = session.run(case)
    assert result.outcome is CaseOutcome.FAILED
    assert "too slow" in str(result.mismatches[0])


def test_what_is_no_registry() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    with Wire(ROOT, timeout=30, headers={}, transport=transport) as wire, pytest.raises(WireError, match="no registry"):
        ConformanceSession(wire, Options()).__enter__()


def test_a_model_that_cannot_be_put_back() -> None:
    """It is told, since somebody has to do it."""
    mutable = {"available": {"modelsource": {"mutable": True}}}

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and b"kitdirs" not in request.content:
            return httpx.Response(500)
        return httpx.Response(200, json=mutable if request.url.path == "/capabilities" else {"groups": {}})

    with Wire(ROOT, timeout=30, headers={}, transport=httpx.MockTransport(handle)) as wire:
        session = ConformanceSession(wire, EVERYTHING)
        session.__enter__()
        with pytest.raises(WireError, match="/modelsource could not be put back: 500"):
            session.__exit__()


@pytest.mark.parametrize("root", ["http://(a+)+$", "http://a.example/[", "http://a b/", "javascript:x", 5, None])
def test_odd_roots(root: JSON) -> None:
    """What a server calls its root is no pattern."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"self": root}))
    with Wire(ROOT, timeout=30, headers={}, transport=transport) as wire, ConformanceSession(wire, Options()):
        assert wire.root == ROOT
