"""The kit at work: it finds a server out that breaks one rule, and leaves a server as it was."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.conformance.conftest import EVERYTHING, ROOT, InProcess, everything, open_session, serving

from signalbook.values import JSON, dump_json, parse_json
from xregistry_conformance.cases import READS, Case, Level, all_cases
from xregistry_conformance.running import INTERRUPTED, CaseOutcome, ConformanceSession, Options
from xregistry_conformance.running import run_all as run_all_cases
from xregistry_conformance.wire import WireError

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
        exchange = Exchanged(method=method, path=scope["path"], status=parts[0]["status"], headers=headers, body=body)
        self.spoil(exchange)
        await send({"type": "http.response.start", "status": exchange.status, "headers": exchange.headers})
        await send({"type": "http.response.body", "body": exchange.body})


@pytest.fixture(scope="module")
def broken(sqlite_server: InProcess) -> Broken:
    return Broken(sqlite_server.app)


@pytest.fixture(scope="module")
def transport(sqlite_server: InProcess, broken: Broken) -> Iterator[InProcess]:
    honest, sqlite_server.app = sqlite_server.app, broken
    yield sqlite_server
    sqlite_server.app = honest


@pytest.fixture(scope="module")
def kit(transport: InProcess) -> Iterator[ConformanceSession]:
    with open_session(transport) as session:
        yield session


def status(before: int, after: int) -> Callable[[Exchanged], object]:
    def spoil(exchange: Exchanged) -> None:
        exchange.status = after if exchange.status == before else exchange.status

    return spoil


def without(header: str) -> Callable[[Exchanged], object]:
    def spoil(exchange: Exchanged) -> None:
        exchange.headers = [pair for pair in exchange.headers if pair[0].decode() != header]

    return spoil


def member(name: str, change: Callable[[JSON], JSON]) -> Callable[[Exchanged], object]:
    return lambda exchange: exchange.each(name, change)


def cut(exchange: Exchanged) -> None:
    exchange.body = exchange.body.rstrip(b"\n")


def backwards(exchange: Exchanged) -> None:
    def turn(body: dict[str, Any]) -> None:
        items = list(body.items())[::-1]
        body.clear()
        body.update(items)

    if exchange.path.endswith("/notes"):
        exchange.edit(turn)


def restless(exchange: Exchanged) -> None:
    if exchange.method == "GET":
        exchange.edit(lambda body: body.setdefault("restless", str(id(exchange))))


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
    kit: ConformanceSession, broken: Broken, case: str, spoil: Any, monkeypatch: pytest.MonkeyPatch
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
def test_misbehaving_server_is_detected(
    kit: ConformanceSession, broken: Broken, case: str, misread: Any, monkeypatch: pytest.MonkeyPatch
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


def run_all(
    transport: httpx.BaseTransport, options: Options, *, without: str = ""
) -> dict[str, tuple[CaseOutcome, str]]:
    cases = [case for case in all_cases() if case.topic != without]
    with open_session(transport, options) as session:
        return {case.id: ((result := session.run(case)).outcome, result.reason) for case in cases}


def test_the_reading_tier_only_reads(transport: InProcess, broken: Broken) -> None:
    broken.seen.clear()
    outcomes = run_all(transport, Options())
    assert set(broken.seen) <= READS
    assert all(outcome is not CaseOutcome.FAILED for outcome, _ in outcomes.values())
    assert outcomes["entities-registry-attributes"] == (CaseOutcome.PASSED, "")
    assert outcomes["entities-group-create"] == (CaseOutcome.SKIPPED, "writes (--tier write)")


@pytest.mark.merge
def test_the_servers_own_model(calm: InProcess) -> None:
    """The cases use, without permission to change the model, types of the server that have no required attributes."""
    outcomes = run_all(calm, Options(writes=True))
    assert [name for name, (outcome, _) in outcomes.items() if outcome is CaseOutcome.FAILED] == []
    assert outcomes["entities-group-create"][0] is CaseOutcome.PASSED
    assert outcomes["registries-message-http"][0] is CaseOutcome.PASSED
    assert outcomes["versions-newest-leaf"][0] is CaseOutcome.PASSED
    assert outcomes["model-maxversions"][1] == "needs types of the kit's own (--allow-model-changes)"
    assert outcomes["capabilities-unknown"][1] == "changes capabilities (--allow-lockout)"
    assert "messages has no documents" in outcomes["model-model-document-attributes"][1]


@pytest.mark.merge
def test_the_models_of_the_specification() -> None:
    """Required attributes are given, and each case that is skipped says what the types there are cannot do."""
    with serving("sqlite://", model="spec") as transport:
        outcomes = run_all(transport, Options(writes=True))
    assert [name for name, (outcome, _) in outcomes.items() if outcome is CaseOutcome.FAILED] == []
    assert sum(outcome is CaseOutcome.PASSED for outcome, _ in outcomes.values()) > 430
    assert outcomes["documents-text-comes-back"][0] is CaseOutcome.PASSED
    assert outcomes["versions-newest-leaf"][0] is CaseOutcome.PASSED
    assert "schemagroups/schemas has documents" in outcomes["http-details-without-documents"][1]


@pytest.mark.merge
def test_unsupported_features_are_skipped(calm: InProcess) -> None:
    """The cases of the model, which take longest, are omitted: they do not depend on what is supported."""
    with httpx.Client(transport=calm, base_url=ROOT) as client:
        before = client.get("/capabilities").json()
        client.patch("/capabilities", json={"flags": [], "ignores": [], "formats": [], "pagination": False})
        try:
            outcomes = run_all(calm, EVERYTHING, without="model")
        finally:
            client.put("/capabilities", json=before)
    assert [name for name, (outcome, _) in outcomes.items() if outcome is CaseOutcome.FAILED] == []
    assert outcomes["flags-inline-star"] == (CaseOutcome.SKIPPED, "the flag inline is not offered")
    assert outcomes["formats-violation"][1] == "jsonschema/draft-07 documents are not validated"


def test_disappearing_server_ends_the_run() -> None:
    """The case fails, and those left do not wait for it as well."""
    answers = iter([{"groups": {}}, {"self": f"{ROOT}/"}, {"available": {}}])

    def handle(request: httpx.Request) -> httpx.Response:
        body = next(answers, None)
        if body is None:
            raise httpx.ReadTimeout("too slow", request=request)
        return httpx.Response(200, json=body)

    cases = [CASES["entities-registry-hides-configuration"], CASES["model-model-can-be-read"]]
    transport = httpx.MockTransport(handle)
    with open_session(transport, Options()) as session:
        failed, skipped = run_all_cases(session, cases, track=iter)
    assert failed.outcome is CaseOutcome.FAILED
    assert "too slow" in str(failed.mismatches[0])
    assert skipped.reason.startswith(f"the server does not answer since {cases[0].id}")


def test_non_registry_is_an_error() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(WireError, match="no registry"), open_session(transport, Options()):
        pass


MUTABLE = {"available": {"modelsource": {"mutable": True}, "capabilities": {"mutable": True}}}


def refusing(refused: Callable[[httpx.Request], bool]) -> httpx.MockTransport:
    """A server with an empty model that answers all but what is ``refused``."""

    def handle(request: httpx.Request) -> httpx.Response:
        if refused(request):
            return httpx.Response(500, json={"title": "No."})
        return httpx.Response(200, json=MUTABLE if request.url.path == "/capabilities" else {"groups": {}})

    return httpx.MockTransport(handle)


@pytest.mark.parametrize(
    ("path", "message"),
    [("/modelsource", "modelsource could not be put back: 500 No."), ("/kitdirs", "/kitdirs is still there: 500 No.")],
)
def test_failed_restore_is_reported(path: str, message: str, tmp_path: Path) -> None:
    """The run raises no error, so that the results are kept. The earlier state is saved in a file."""
    before = tmp_path / "before.json"

    def puts_back(request: httpx.Request) -> bool:
        restores = request.method == "PUT" and b"kitdirs" not in request.content
        return request.url.path == path and (request.method == "DELETE" or restores)

    transport = refusing(puts_back)
    options = replace(EVERYTHING, before=before)
    with open_session(transport, options) as session:
        assert parse_json(before.read_bytes()) == {"url": ROOT, "capabilities": MUTABLE, "modelsource": {"groups": {}}}
    assert message in session.unrestored
    assert before.exists()


def test_backup_file_is_removed_after_the_restoration(calm: InProcess, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    options = replace(EVERYTHING, before=before)
    with open_session(calm, options) as session:
        assert "messagegroups" in parse_json(before.read_bytes())["modelsource"]["groups"]
        session.run(CASES["capabilities-patch-names-some"])
    assert session.unrestored == []
    assert not before.exists()


def test_interrupted_while_the_types_are_added(calm: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is put back although there was no run yet."""
    before = everything(calm)

    def interrupted(session: ConformanceSession, modelsource: JSON) -> str:
        monkeypatch.undo()
        assert not session._refused(modelsource)
        raise KeyboardInterrupt

    monkeypatch.setattr(ConformanceSession, "_refused", interrupted)
    with pytest.raises(KeyboardInterrupt), open_session(calm):
        pass
    assert everything(calm) == before


def test_types_rejected_by_the_server_are_skipped() -> None:
    """Versions by semver are none of its modes, singles it does not take: the others are added, with the reasons."""
    offered = {**MUTABLE, "versionmodes": ["manual", "createdat"]}
    stored: list[JSON] = [{"groups": {}}]

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" and b"singles" in request.content:
            return httpx.Response(400, json={"title": "No singles."})
        if request.method == "PUT":
            stored[:] = [parse_json(request.content)]
        return httpx.Response(200, json=offered if request.url.path == "/capabilities" else stored[0])

    transport = httpx.MockTransport(handle)
    with open_session(transport) as session:
        assert b"dated" in dump_json(stored[0])
        assert b"semvers" not in dump_json(stored[0])
        reasons = [session.profile.lacks(CASES[name]) for name in ("versions-semver-mode", "model-maxversions-one")]
    refused = "the server refuses the type kitdirs/singles: 400 No singles."
    assert reasons == ["the versionmode semver is not offered", refused]


def test_lockout_case_runs_last(calm: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that loses its capabilities is left alone from then on, and the cases before have their results."""
    first, risky, riskier = "capabilities-available", "capabilities-patch-names-some", "capabilities-unlisted-data"
    broken = Broken(calm.app)

    def forbid(scope: Scope) -> None:
        if (scope["method"], scope["path"]) == ("PUT", "/capabilities"):
            scope["path"], scope["raw_path"] = "/nosuchthing", b"/nosuchthing"

    broken.misread = forbid
    cases = [CASES[riskier], CASES[risky], CASES[first]]
    with httpx.Client(transport=calm, base_url=ROOT) as client:
        before = client.get("/capabilities").json()
        monkeypatch.setattr(calm, "app", broken)
        with open_session(calm) as session:
            results = run_all_cases(session, cases, track=iter)
        monkeypatch.undo()
        client.put("/capabilities", json=before)
    assert [row.case.id for row in results] == [riskier, risky, first]
    assert [row.outcome for row in results[1:]] == [CaseOutcome.PASSED, CaseOutcome.PASSED]
    assert results[0].reason.startswith(f"after {risky} the capabilities could not be put back: 404")
    assert session.unrestored[0].startswith("capabilities could not be put back: 404")


def test_an_interrupted_run_has_results(calm: InProcess) -> None:
    cases = [CASES["entities-group-create"], CASES["entities-empty-name"]]

    def interrupted(planned: Iterable[Case]) -> Iterator[Case]:
        yield next(iter(planned))
        raise KeyboardInterrupt

    with open_session(calm) as session:
        finished, skipped = run_all_cases(session, cases, track=interrupted)
    assert (finished.outcome, skipped.outcome, skipped.reason) == (CaseOutcome.PASSED, CaseOutcome.SKIPPED, INTERRUPTED)
    assert session.unrestored == []


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("entities-empty-name", {"type": "x#invalid_attribute", "title": 5, "args": ["name"]}),
        ("http-post-to-groups", [{}, {}]),
        ("entities-registry-attributes", {"self": {}, "epoch": []}),
    ],
)
def test_answers_of_an_odd_shape(case: str, answer: JSON) -> None:
    first = iter([{"groups": {"gs": {"singular": "g"}}}, {}, {"available": ["entities"]}])

    def handle(request: httpx.Request) -> httpx.Response:
        body = next(first, answer)
        return httpx.Response(400 if body is answer and "empty" in case else 200, json=body)

    transport = httpx.MockTransport(handle)
    with open_session(transport, Options(writes=True)) as session:
        result = session.run(CASES[case])
    assert (result.outcome, result.level) == (CaseOutcome.FAILED, Level.MUST)


def other_error(exchange: Exchanged) -> None:
    exchange.each("type", lambda name: str(name).replace("invalid_attribute", "bad_request"))


def test_different_error_is_advice_given_once(calm: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type of an error is only recommended: it counts as SHOULD, in the first case alone, and the rest is tried."""
    broken = Broken(calm.app, spoil=other_error)
    monkeypatch.setattr(calm, "app", broken)
    with open_session(calm, Options(writes=True)) as session:
        result = session.run(CASES["entities-label-keys"])
        again = session.run(CASES["entities-empty-name"])
    assert (result.outcome, result.level, result.case.level) == (CaseOutcome.FAILED, Level.SHOULD, Level.MUST)
    assert [item.advice for item in result.mismatches] == ["bad_request for invalid_attribute"]
    assert again.outcome is CaseOutcome.PASSED


@pytest.mark.parametrize("root", ["http://(a+)+$", "http://a.example/[", "http://a b/", "javascript:x", 5, None])
def test_root_url_is_not_used_as_a_pattern(root: JSON) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"self": root}))
    with open_session(transport, Options()) as session:
        assert session._wire.root == ROOT
