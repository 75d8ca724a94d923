"""Documents that take long: checked outside of the write turn, within a budget, and nobody waits for them."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.conftest import Client, Serve
from tests.serving import serving

from signalbook import work
from signalbook.api.confluent import candidates, equivalence
from signalbook.confluent import reserved
from signalbook.engine import checks
from signalbook.engine.config import configuration
from signalbook.engine.engine import Engine, Session
from signalbook.engine.write.commands import Command, Method
from signalbook.formats.avro.format import AvroFormat
from signalbook.formats.compatibility import list_differences
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.work import IN_TURN
from signalbook.xid import Xid

S = "/schemagroups/g/schemas/s"
DRAFT = "/compat/schemaregistry/v0.2/schemagroups/g/schemas/s"


def avro(*fields: str, **more: Any) -> dict[str, Any]:
    """A record that is too large to be looked at in a turn."""
    doc = "x" * IN_TURN
    return {"type": "record", "name": "R", "doc": doc, "fields": [{"name": f, "type": "int"} for f in fields], **more}


def details(schema: Any, format: str = "Avro/1.12", **more: Any) -> dict[str, Any]:
    return {"schema": schema, "format": format, **more}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    return serve(store, model="default")


@contextmanager
def watched(owner: Any, name: str, before: Callable[[], None] = lambda: None) -> Iterator[list[str]]:
    """The threads in which a function was called, ``before`` which something happens."""
    threads: list[str] = []
    original = getattr(owner, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        before()
        return original(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield threads


def test_large_documents_are_checked_outside_of_the_write_turn(client: Client) -> None:
    with watched(AvroFormat, "check") as validations, watched(checks, "list_differences") as comparisons:
        versions = {"1": details(avro("a")), "2": details(avro("b"), ancestorid="1")}
        body = {"meta": {"compatibility": "backward"}, "versions": versions}
        refused = client.refused("PUT", f"{S}$details", "compatibility_violation", json=body)
        versions["2"] = details(avro("a", doc="y" * IN_TURN), ancestorid="1")
        assert client.put(f"{S}$details", body).status_code == 201
    assert "default_missing" in json.dumps(refused["faults"])
    assert set(validations) == set(comparisons) == {"work"}
    version = client.get(f"{S}/versions/2$details").json()
    assert version["formatvalidated"] is version["compatibilityvalidated"] is True


def test_small_documents_are_checked_in_the_write_turn(client: Client) -> None:
    with watched(AvroFormat, "check") as validations:
        assert client.put(f"{S}$details", details({"type": "int"})).status_code == 201
    assert validations == ["write"]


def test_all_errors_of_a_request_are_answered_with(client: Client) -> None:
    large, small = avro("a", "a"), {"type": "nothing"}
    body = {"schemas": {"x": details(large), "y": details(small), "z": {"format": "Avro/1.12", "epoch": "no"}}}
    refused = client.refused("PATCH", "/schemagroups/g", "format_violation", json=body)
    assert {fault["path"].split("/")[4][0] for fault in refused["faults"]} == {"x", "y", "z"}


def test_version_added_between_the_turns_is_compared(client: Client, store: Store) -> None:
    """Another writer adds, between the two turns of a write, the Version that the new one now follows."""
    first = {"meta": {"compatibility": "backward"}, "versions": {"1": details(avro("a"))}}
    assert client.put(f"{S}$details", first).status_code == 201
    added: list[int] = []

    def add() -> None:
        if not added:
            added.append(1)
            body = details(avro("a", "b", "c"), ancestorid="1")
            body["schema"]["fields"][1]["default"] = body["schema"]["fields"][2]["default"] = 0
            # An engine of its own, as another server would have it.
            with work.unlimited(), Engine(store, settings=Settings()).writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(f"{S}/versions/2"), body=body))

    with watched(checks, "list_differences", add) as comparisons:
        new = details(avro("a", doc="other" + "x" * IN_TURN))
        new["schema"]["fields"].append({"name": "b", "type": "string", "default": ""})
        answer = client.send("POST", f"{S}/versions?setdefaultversionid=null", json={"3": new})
    assert added
    assert answer.status_code == 400, answer.text
    assert "type_changed" in answer.text
    assert comparisons.count("work") >= 2


def test_references_are_read_between_the_turns(client: Client) -> None:
    """References lead from one large document to the next; the last one decides."""
    uris = [f"/schemagroups/g/schemas/part{number}" for number in range(3)]

    def part(number: int, kind: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"description": "x" * IN_TURN}
        return schema | ({"$ref": uris[number + 1]} if number < 2 else {"type": kind})

    for number in range(3):
        body = details(part(number, "integer"), "JsonSchema/draft-07")
        assert client.put(f"{uris[number]}$details", body).status_code == 201
    first = details({"type": "integer", "description": "x" * IN_TURN}, "JsonSchema/draft-07")
    body = {"meta": {"compatibility": "full"}, "versions": {"1": first}}
    assert client.put(f"{S}$details", body).status_code == 201
    second = details({"$ref": uris[0], "description": "y" * IN_TURN}, "JsonSchema/draft-07")
    assert client.put(f"{S}/versions/2$details", second).status_code == 201
    assert client.get(f"{S}/versions/2$details").json()["compatibilityvalidated"] is True
    assert client.put(f"{uris[2]}$details", details(part(2, "string"), "JsonSchema/draft-07")).status_code == 200
    third = details({"$ref": uris[0], "description": "z" * IN_TURN}, "JsonSchema/draft-07", ancestorid="1")
    client.refused("PUT", f"{S}/versions/3$details", "compatibility_violation", json=third)


PARTS = [f"/schemagroups/g/schemas/part{number}" for number in range(12)]


def chained(number: int, kind: str = "integer") -> dict[str, Any]:
    """Return one of ``PARTS``: a large schema that refers to the next one. The last one decides what all mean."""
    schema: dict[str, Any] = {"description": "x" * IN_TURN}
    schema |= {"$ref": PARTS[number + 1]} if number + 1 < len(PARTS) else {"type": kind}
    return details(schema, "JsonSchema/draft-07")


@pytest.fixture
def referring(client: Client) -> dict[str, Any]:
    """The second Version of ``S``, whose meaning depends on all of ``PARTS``."""
    for number, part in enumerate(PARTS):
        assert client.put(f"{part}$details", chained(number)).status_code == 201
    first = details({"type": "integer", "description": "x" * IN_TURN}, "JsonSchema/draft-07")
    assert client.put(f"{S}$details", {"meta": {"compatibility": "full"}, "versions": {"1": first}}).status_code == 201
    return details({"$ref": PARTS[0], "description": "y" * IN_TURN}, "JsonSchema/draft-07")


def test_a_chain_of_references_takes_one_more_turn(client: Client, referring: dict[str, Any]) -> None:
    """The schema is checked alone, which shows that it has references, then with all of them, and compared.

    All references are loaded from one snapshot.
    """
    with watched(work.Work, "work_out") as turns, watched(Session, "_open_snapshot") as snapshots:
        assert client.put(f"{S}/versions/2$details", referring).status_code == 201
    assert len(turns) == len(snapshots) == 1
    assert client.get(f"{S}/versions/2$details").json()["compatibilityvalidated"] is True


def test_a_reference_rebound_while_it_is_compared_is_compared_again(
    client: Client, store: Store, referring: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two turns of a write, another writer changes the target of the last reference of a chain."""
    compared: list[int] = []
    compare = list_differences

    def compare_and_rebind(*arguments: Any) -> Any:
        differences = compare(*arguments)
        compared.append(len(differences))
        if len(compared) == 1:
            body = chained(len(PARTS) - 1, "string")
            with work.unlimited(), Engine(store, settings=Settings()).writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(PARTS[-1]), body=body))
        return differences

    monkeypatch.setattr(checks, "list_differences", compare_and_rebind)
    answer = client.put(f"{S}/versions/2$details", referring)
    assert answer.json()["type"].endswith("#compatibility_violation"), answer.text
    assert client.get(f"{S}/versions/2").status_code == 404
    assert compared == [0, 2]


def test_the_same_document_refers_to_other_documents_in_another_group(client: Client) -> None:
    """Both are checked after the turn, each with the documents of its Group."""
    text = f'syntax = "proto3"; import "p.proto"; // {"x" * IN_TURN}\nmessage M {{ P p = 1; }}'
    part = 'syntax = "proto3"; message P {{ int32 {} = 1; }}'
    for group in ("g", "h"):
        body = {"schema": part.format(group), "format": "Protobuf/3"}
        assert client.put(f"/schemagroups/{group}/schemas/p.proto$details", body).status_code == 201
    groups = {group: {"schemas": {"s": {"schema": text, "format": "Protobuf/3"}}} for group in ("g", "h")}
    answer = client.send("PATCH", "/", json={"schemagroups": groups})
    assert answer.status_code == 200, answer.text
    for group in ("g", "h"):
        assert client.get(f"/schemagroups/{group}/schemas/s$details").json()["formatvalidated"] is True


def test_a_reference_to_a_version_that_the_write_prunes_ends(store: Store, serve: Serve) -> None:
    """The turn resolves the reference before it deletes the Version. Work after the turn uses the same result."""
    client = serve(store)
    schemas = {"singular": "schema", "maxversions": 1, "validateformat": True, "validatecompatibility": True}
    groups = {"schemagroups": {"singular": "schemagroup", "resources": {"schemas": schemas}}}
    assert client.put("/modelsource", {"groups": groups}).status_code == 200
    first = details({"type": "integer"}, "JsonSchema/draft-07")
    body = {"meta": {"compatibility": "full"}, "versions": {"1": first}}
    assert client.put(f"{S}$details", body).status_code == 201
    second = details({"$ref": f"{S}/versions/1", "description": "x" * IN_TURN}, "JsonSchema/draft-07")
    with watched(work.Work, "work_out") as turns:
        answer = client.put(f"{S}/versions/2$details", second)
    assert answer.status_code == 201, answer.text
    assert answer.json()["compatibilityvalidated"] is True
    assert len(turns) == 2  # all checks, then with the references that the turn resolved
    assert client.get(f"{S}/versions/1").status_code == 404


@pytest.mark.parametrize("path", [f"{S}$details", f"/check{S}$details"])
def test_too_many_steps_are_answered_with_400(store: Store, serve: Serve, path: str) -> None:
    client = serve(store, model="default", max_work=30_000)
    assert client.put(path, details(avro("a"))).is_success
    for _ in range(2):  # by steps, not by time: every time alike
        refused = client.refused("PUT", path, "too_complex", json=details(avro("a", doc="x" * 30_000)))
    assert refused["type"] == "urn:signalbook:errors#too_complex"
    assert refused["subject"] == path
    assert "max_work" in refused["detail"]


def test_too_many_steps_are_a_problem_document_in_the_drafts(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", max_work=30_000)
    document = json.dumps(avro("a", doc="x" * 30_000)).encode()
    client.put("/schemagroups/g", {})
    answer = client.send("POST", f"{DRAFT}?format=Avro/1.12", content=document)
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"].endswith("#too_complex")


def large_model(number: int, **more: Any) -> dict[str, Any]:
    types = {f"r{i}s": {"singular": f"r{i}", "attributes": {"a": {"type": "string"}}} for i in range(number)}
    return {"groups": {"gs": {"singular": "g", "resources": types | more}}}


def test_a_large_model_is_compiled_outside_of_the_turn(store: Store, serve: Serve) -> None:
    client = serve(store, max_work=100_000)
    model = large_model(10) | {"description": str(uuid4())}  # one that was compiled before costs nothing
    with watched(configuration, "compile_model") as compiled:
        assert client.put("/modelsource", model).status_code == 200
    assert "work" in compiled
    wrong = large_model(10, wrong={"singular": "Wrong!"})
    fault = client.refused("PUT", "/modelsource", "model_error", json=wrong)
    verdict = client.send("PUT", "/check/modelsource", json=wrong).json()
    assert [error["title"] for error in verdict["errors"]] == [fault["title"]]
    client.refused("PUT", "/modelsource", "too_complex", json=large_model(200))
    assert client.get("/model").json()["groups"]["gs"]["resources"].keys() == {f"r{i}s" for i in range(10)}


def test_too_much_time_is_answered_with_503(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", work_timeout=1e-9)
    many = avro(*(f"f{i}" for i in range(2000)))
    versions = {"1": details(many), "2": details(many | {"doc": "z"}, ancestorid="1")}
    body = {"meta": {"compatibility": "full"}, "versions": versions}
    answer = client.put(f"{S}$details", body)
    assert answer.status_code == 503, answer.text
    assert answer.headers["Retry-After"]
    assert client.get(S).status_code == 404


@contextmanager
def comparing_slowly() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Make comparisons of Avro schemas take more steps than a turn has, and then wait.

    The first event is set when a comparison waits; the test sets the second one to let it go on.
    """
    waits, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        work.spend(IN_TURN + 1)
        waits.set()
        # Only a comparison in the write turn waits this long: it stops the write that the test waits for.
        go_on.wait(5)

    with watched(AvroFormat, "differences", wait):
        yield waits, go_on


SUBJECT = "/compat/confluent/subjects/s/versions"
NEXT = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}
SLOW_WRITES: dict[str, tuple[str, str, Any]] = {
    "confluent": ("POST", SUBJECT, {"schema": json.dumps(NEXT | {"namespace": "n"})}),
    "xregistry": ("PUT", f"{S}/versions/2$details", details(NEXT, "Avro/1.11")),
    "check": ("PUT", f"/check{S}/versions/2$details", details(NEXT, "Avro/1.11")),
    "draft": ("POST", f"{DRAFT}?format=avro", NEXT),
}


@pytest.mark.parametrize("level", ["BACKWARD", "FULL_TRANSITIVE"])
@pytest.mark.parametrize("api", SLOW_WRITES)
def test_a_slow_comparison_stops_no_other_writer(store: Store, serve: Serve, api: str, level: str) -> None:
    """Whichever API writes a version of a subject with a level, others write while it is being compared."""
    client = serve(store, model="default", confluent_group="g")
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    assert client.send("POST", SUBJECT, json={"schema": json.dumps(first)}).status_code == 200
    assert client.put("/compat/confluent/config/s", {"compatibility": level}).status_code == 200
    if api == "check":  # which compares by the rule of the schema: only what is stored has to meet the level
        assert client.put(f"{S}/meta", {"compatibility": level.lower()}).status_code == 200

    async def send(method: str, path: str, body: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=client.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://r.example") as sender:
            return await sender.request(method, path, json=body)

    async def write_meanwhile() -> tuple[httpx.Response, bool, httpx.Response]:
        costly = asyncio.create_task(send(*SLOW_WRITES[api]))
        while not waits.is_set():
            assert not costly.done(), costly.result().text
            await asyncio.sleep(0.01)
        other = await send("PUT", "/schemagroups/other", {})
        overtaken = not go_on.is_set() and not costly.done()
        go_on.set()
        return other, overtaken, await costly

    with comparing_slowly() as (waits, go_on):
        other, overtaken, costly = client.run(write_meanwhile())
    assert other.status_code == 201
    assert overtaken, "the other write had to wait for the comparison"
    assert "default_missing" in costly.text or "READER_FIELD_MISSING_DEFAULT_VALUE" in costly.text, costly.text


def test_many_versions_are_compared_with_a_schema_outside_of_the_turn(client: Client) -> None:
    """A Protobuf schema in another layout is looked for among all versions of its subject."""

    def message(number: int, space: str = " ") -> dict[str, Any]:
        note = "x" * (IN_TURN // 4)
        text = f'syntax = "proto3";{space}// {note}\nmessage M {{{space}int32 f{number} = 1; }}'
        return {"schema": text, "schemaType": "PROTOBUF"}

    assert client.put("/compat/confluent/config/s", {"compatibility": "NONE"}).status_code == 200
    answers = [client.send("POST", SUBJECT, json=message(number)).json() for number in range(6)]
    with watched(equivalence, "split_tokens") as comparisons:
        # Both requests come at the same time, so that the second one is not answered by a read.
        again, new = client.together(("POST", SUBJECT, message(0, "  ")), ("POST", SUBJECT, message(9)))
    assert again.json()["id"] == answers[0]["id"]
    assert (again.json()["version"], new.json()["version"]) == (1, 7)
    assert "work" in comparisons


@pytest.mark.parametrize(
    ("module", "function", "query"),
    [(candidates, "normalize_document", "?normalize=true"), (reserved, "build_file_descriptor", "")],
)
def test_protobuf_is_compiled_outside_of_the_turn(client: Client, module: Any, function: str, query: str) -> None:
    """The compiler counts no steps, so the size of the document decides."""
    assert client.put("/compat/confluent/config/s", {"validateFields": True}).status_code == 200
    text = f'syntax = "proto3"; // {"x" * IN_TURN}\nmessage M {{ int32 a = 1; }}'
    metadata = {"properties": {"confluent:reserved": "b"}}
    with watched(module, function) as threads:
        body = {"schema": text, "schemaType": "PROTOBUF", "metadata": metadata}
        assert client.send("POST", SUBJECT + query, json=body).status_code == 200
    assert "work" in threads
    assert "write" not in threads


CHECKING = """
import time
from pathlib import Path
from signalbook.cli import main
from signalbook.formats.avro.format import AvroFormat
from signalbook.formats.compatibility import list_differences
from signalbook.work import IN_TURN

def check(format, content, *given, real=AvroFormat.check, **named):
    if len(content) > IN_TURN:
        Path("checking").touch()
        while not Path("go on").exists():
            time.sleep(0.01)
    return real(format, content, *given, **named)

AvroFormat.check = check  # in the server process too, which runs this file under another name
if __name__ == "__main__":
    main()
"""


def test_a_real_server_writes_for_others_while_a_document_is_checked(tmp_path: Path) -> None:
    """Small writes finish one after the other while a large one is still being checked."""

    def put(name: str, schema: Any) -> int:
        address = f"{url}/schemagroups/g/schemas/{name}$details"
        return httpx.put(address, json=details(schema), timeout=60).status_code

    (tmp_path / "checking.py").write_text(CHECKING)
    with serving(tmp_path, program=(sys.executable, "checking.py")) as url, ThreadPoolExecutor(1) as pool:
        costly = pool.submit(put, "s", avro("a"))
        while not (tmp_path / "checking").exists():
            assert not costly.done()
            time.sleep(0.01)
        assert [put(f"o{number}", {"type": "int"}) for number in range(4)] == [201] * 4
        assert not costly.done()
        (tmp_path / "go on").touch()
        assert costly.result() == 201
