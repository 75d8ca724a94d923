"""The number of times that a write is tried: one try finds nearly all that has to be worked out before the next one."""

import json
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook import work
from signalbook.api.confluent import equivalence
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.work import IN_TURN, Work
from signalbook.xid import Xid

CONFLUENT = "/compat/confluent"
SCHEMAS = "/schemagroups/g/schemas"
LONG = "x" * IN_TURN
"""A text that is too long to be read in the turn of a write."""


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    return serve(store, model="default", confluent_group="g")


@pytest.fixture
def postponed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the documents that each postponed try of a write holds in memory."""
    sizes: list[int] = []
    work_out = Work.work_out

    def count(budget: Work) -> None:
        sizes.append(budget.size)
        work_out(budget)

    monkeypatch.setattr(Work, "work_out", count)
    return sizes


def record(*fields: str, doc: str = LONG) -> dict[str, Any]:
    members = [{"name": name, "type": "int", "default": 0} for name in fields]
    return {"type": "record", "name": "R", "doc": doc, "fields": members}


def register(client: Client, subject: str, schema: str, kind: str = "AVRO", query: str = "", **more: Any) -> None:
    body = {"schema": schema, "schemaType": kind, **more}
    answer = client.send("POST", f"{CONFLUENT}/subjects/{subject}/versions{query}", json=body)
    assert answer.status_code == 200, answer.text


def test_many_versions_are_compared_after_one_try(client: Client, postponed: list[int]) -> None:
    """Each document is in memory once, however many others it is compared with."""
    schemas = [record(*(f"f{number}" for number in range(count))) for count in range(1, 20)]
    versions = {str(number): {"schema": schema, "format": "Avro/1.12"} for number, schema in enumerate(schemas)}
    body = {"meta": {"compatibility": "full_transitive"}, "versions": versions}
    assert client.put(f"{SCHEMAS}/s$details", body).status_code == 201
    assert len(postponed) == 1
    assert postponed[0] <= 2 * sum(len(json.dumps(schema)) for schema in schemas)


def test_all_versions_of_a_subject_are_searched_after_one_try(
    client: Client, postponed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Protobuf schema in another layout is looked for in batches. The newest version that has it is the answer."""
    monkeypatch.setattr(equivalence, "_VERSIONS_AT_ONCE", 2)
    assert client.put(f"{CONFLUENT}/config", {"compatibility": "NONE"}).status_code == 200

    def layout(number: int, space: str) -> str:
        return f'syntax = "proto3";{space}// {LONG}\nmessage M {{{space}int32 f{number} = 1; }}'

    for number in range(24):
        register(client, "s", layout(number, " "), "PROTOBUF")
    postponed.clear()
    register(client, "s", layout(99, "  "), "PROTOBUF")
    assert len(postponed) <= 2  # the search, then the checks of a new version
    path = f"{CONFLUENT}/subjects/s/versions"
    bodies = [{"schema": layout(number, "   "), "schemaType": "PROTOBUF"} for number in (3, 98)]
    # Both requests come at the same time, so that the first one is not answered by a read.
    again, new = client.together(*(("POST", path, body) for body in bodies))
    assert (again.json()["version"], new.json()["version"]) == (4, 26)
    assert client.get(f"{CONFLUENT}/subjects/s/versions").json() == list(range(1, 27))


def test_a_registration_is_normalized_then_checked_in_all_ways(client: Client, postponed: list[int]) -> None:
    config = {"compatibility": "FULL_TRANSITIVE", "validateFields": True}
    assert client.put(f"{CONFLUENT}/config", config).status_code == 200
    parts: list[dict[str, Any]] = []
    imports = ""
    for number in range(4):
        text = f'syntax = "proto3"; package p{number}; // {LONG}\n{imports}\nmessage P {{ int32 a = 1; }}'
        register(client, f"p{number}", text, "PROTOBUF", references=parts)
        parts = [*parts, {"name": f"p{number}.proto", "subject": f"p{number}", "version": 1}]
        imports += f'import "p{number}.proto";'
    for number in range(4):
        text = f'syntax = "proto3"; // {LONG}\n{imports} message M {{ p3.P a = 1; int32 b{number} = {number + 2}; }}'
        postponed.clear()
        metadata = {"properties": {"confluent:reserved": "c"}}
        register(client, "s", text, "PROTOBUF", "?normalize=true", references=parts, metadata=metadata)
        assert len(postponed) <= 2
        assert postponed[-1] > (number + 2) * 4 * IN_TURN  # with what each version refers to


def test_the_schemas_of_a_batch_are_checked_together(client: Client, postponed: list[int]) -> None:
    requests = [
        {
            "resourceId": f"topic{number}",
            "resourceName": f"t{number}",
            "resourceNamespace": "lkc",
            "associations": [
                {
                    "opType": "CREATE",
                    "associationType": "value",
                    "lifecycle": "STRONG",
                    "schema": {"schema": json.dumps(record("a", doc=f"{number}{LONG}"))},
                }
            ],
        }
        for number in range(8)
    ]
    answer = client.send("POST", f"{CONFLUENT}/associations:batchMutate", json={"requests": requests})
    assert answer.status_code == 200, answer.text
    assert [list(result) for result in answer.json()["results"]] == [["result"]] * 8
    assert len(postponed) == 1


def test_equal_documents_that_refer_to_others_in_each_group(client: Client, postponed: list[int]) -> None:
    text = f'syntax = "proto3"; import "p.proto"; // {LONG}\nmessage M {{ P p = 1; }}'
    for number in range(5):
        body = {"schema": f'syntax = "proto3"; message P {{ int32 g{number} = 1; }}', "format": "Protobuf/3"}
        assert client.put(f"/schemagroups/g{number}/schemas/p.proto$details", body).status_code == 201
    groups = {f"g{number}": {"schemas": {"s": {"schema": text, "format": "Protobuf/3"}}} for number in range(5)}
    answer = client.send("PATCH", "/", json={"schemagroups": groups})
    assert answer.status_code == 200, answer.text
    assert len(postponed) == 2  # the first try takes them for the same, until their references are known


def test_schemas_in_messages_are_checked_after_one_try(client: Client, postponed: list[int]) -> None:
    part = {"schema": 'syntax = "proto3"; message P { int32 a = 1; }', "format": "Protobuf/3"}
    assert client.put(f"{SCHEMAS}/p.proto$details", part).status_code == 201
    text = f'syntax = "proto3"; import "p.proto"; // {LONG}\nmessage M {{ P p = 1; }}'
    message = {"dataschemaformat": "Protobuf/3", "dataschema": text}
    answer = client.send("PATCH", "/messagegroups/g", json={"messages": {f"m{number}": message for number in range(3)}})
    assert answer.status_code == 201, answer.text
    assert len(postponed) == 1


def test_a_reference_that_changes_with_every_try_is_answered_with_503(
    client: Client, store: Store, postponed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write neither goes on for ever nor stores what was compared with an outdated document."""
    part = f"{SCHEMAS}/part"
    work_out = Work.work_out

    def change(number: int) -> None:
        body = {"schema": {"type": "integer", "minimum": -number}, "format": "JsonSchema/draft-07"}
        with work.unlimited(), Engine(store, settings=Settings()).writing() as session:
            session.execute(Command(method=Method.PUT, target=Xid.parse(part), body=body))

    def work_out_and_change(budget: Work) -> None:
        work_out(budget)
        change(len(postponed))

    change(0)
    monkeypatch.setattr(Work, "work_out", work_out_and_change)
    body = {"schema": {"$ref": part, "description": LONG}, "format": "JsonSchema/draft-07"}
    answer = client.put(f"{SCHEMAS}/s$details", body)
    assert answer.status_code == 503, answer.text
    assert answer.headers["Retry-After"]
    assert len(postponed) == 10
    assert client.get(f"{SCHEMAS}/s").status_code == 404
