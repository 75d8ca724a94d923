"""Subjects of registries with Confluent's API as message definitions."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.pipeline.job.test_definitions import served
from tests.serving import serving_answers

from signalbook.client import Client
from signalbook.messages import Accepted, Policy, Rejected
from signalbook.messages.bindings.kafka import record
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.definitions import Definitions
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.subjects import Strategy

ONE = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
TWO = {**ONE, "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}]}
WITH_R = {"type": "record", "name": "Q", "fields": [{"name": "r", "type": "R"}]}
GROUP = "/messagegroups/subjects/messages"


class Registry:
    """A registry, and its subjects in a context of it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def send(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self.url}/compat/confluent{path}", json=body, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def register(self, subject: str, schema: Any, type: str = "AVRO", **more: Any) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": type, **more}
        return int(self.send("POST", f"/subjects/{subject}/versions", body)["id"])

    def snapshot(self, context: str = "") -> Snapshot:
        return Snapshot.load(f"confluent+{self.url}/compat/confluent{context}")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with served(tmp_path) as url:
        yield Registry(url)


def outcome(snapshot: Snapshot, topic: str, number: int, payload: bytes) -> Any:
    shipped = Snapshot.from_json(snapshot.check(Policy()).to_json())
    (result,) = shipped.compile(Policy()).process(record(topic, b"\0" + number.to_bytes(4, "big") + payload))
    return result.data if isinstance(result, Accepted) else result


def test_a_subject_is_a_definition_by_its_latest_version(registry: Registry) -> None:
    ids = [registry.register("t-value", schema) for schema in (ONE, TWO)]
    registry.register("t-key", '"string"')
    registry.register("t%2Fu-value", ONE)  # is no subject of any topic
    snapshot = registry.snapshot()
    assert snapshot.selected == (f"{GROUP}/t-value",)
    assert outcome(snapshot, "t", ids[0], b"\x06") == {"a": 3, "b": "none"}
    assert outcome(snapshot, "t", ids[1], b"\x06\x02x") == {"a": 3, "b": "x"}
    for topic, number in (("t", 99), ("u", ids[0])):
        assert isinstance(outcome(snapshot, topic, number, b"\x06"), Rejected)


def test_softly_deleted_versions_still_decode(registry: Registry) -> None:
    ids = [registry.register("t-value", schema) for schema in (ONE, TWO)]
    registry.send("DELETE", "/subjects/t-value/versions/1")
    assert outcome(registry.snapshot(), "t", ids[0], b"\x06") == {"a": 3, "b": "none"}
    registry.register("t-value", {**TWO, "doc": "the third"})
    registry.send("DELETE", "/subjects/t-value/versions/3")
    assert outcome(registry.snapshot(), "t", ids[1], b"\x06\x02x") == {"a": 3, "b": "x"}
    assert (registry.snapshot().find_message(f"{GROUP}/t-value") or {})["versionid"] == "2"
    registry.send("DELETE", "/subjects/t-value")
    with pytest.raises(PipelineError):
        registry.snapshot()


def test_references_of_subjects_are_resolved(registry: Registry) -> None:
    registry.register("r", ONE)
    reference = {"name": "R", "subject": "r", "version": 1}
    number = registry.register("q-value", WITH_R, references=[reference])
    assert outcome(registry.snapshot(), "q", number, b"\x06") == {"r": {"a": 3}}
    proto = 'syntax = "proto3"; message A { int32 n = 1; }'
    registry.register("a", proto, "PROTOBUF")
    importing = 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }'
    reference = {"name": "a.proto", "subject": "a", "version": 1}
    number = registry.register("b-value", importing, "PROTOBUF", references=[reference])
    assert outcome(registry.snapshot(), "b", number, b"\0\x0a\x02\x08\x05") == {"a": {"n": 5}}
    registry.register("i", {"type": "integer"}, "JSON")
    reference = {"name": "http://x/i.json", "subject": "i", "version": 1}
    schema = {"type": "object", "properties": {"i": {"$ref": "http://x/i.json"}}}
    number = registry.register("j-value", schema, "JSON", references=[reference])
    assert outcome(registry.snapshot(), "j", number, b'{"i": 1}') == {"i": 1}
    assert isinstance(outcome(registry.snapshot(), "j", number, b'{"i": "x"}'), Rejected)
    # A reference has the name as it is written, which is relative to the $id.
    reference = {"name": "i.json", "subject": "i", "version": 1}
    schema = {"$id": "http://x/k.json", "type": "object", "properties": {"i": {"$ref": "i.json"}}}
    number = registry.register("k-value", schema, "JSON", references=[reference])
    assert outcome(registry.snapshot(), "k", number, b'{"i": 1}') == {"i": 1}


def test_references_count_for_definitions_too(registry: Registry) -> None:
    """References of schemas that a message definition names are resolved, in all formats."""
    registry.register("r", ONE)
    registry.register("q", WITH_R, references=[{"name": "R", "subject": "r", "version": 1}])
    registry.register("i", {"type": "integer"}, "JSON")
    schema = {"type": "object", "properties": {"i": {"$ref": "elsewhere.json"}}}
    registry.register("j", schema, "JSON", references=[{"name": "elsewhere.json", "subject": "i", "version": 1}])
    registry.register("a", 'syntax = "proto3"; message A { int32 n = 1; }', "PROTOBUF")
    proto = 'syntax = "proto3"; import "x/y.proto"; message B { A a = 1; }'
    registry.register("b", proto, "PROTOBUF", references=[{"name": "x/y.proto", "subject": "a", "version": 1}])
    schemas = {topic: {"dataschemauri": f"/schemagroups/default/schemas/{topic}"} for topic in "qjb"}
    messages = {t: {"protocol": "KAFKA", "protocoloptions": {"topic": t}, **more} for t, more in schemas.items()}
    with Client(registry.url) as client:
        client.patch("/messagegroups/g", {"messages": messages})
    snapshot = Snapshot.load(registry.url).check(Policy())
    doubt = "/messagegroups/g/messages/b: no message is named; B is taken, being the only one"
    assert (snapshot.left_out, snapshot.doubts) == ({}, (doubt,))
    contract = Snapshot.from_json(snapshot.to_json()).compile(Policy())
    payloads = {"q": b"\x06", "j": b'{"i": 1}', "b": b"\x0a\x02\x08\x05"}
    landed = [contract.process(record(topic, payload)) for topic, payload in payloads.items()]
    values = [result.data for (result,) in landed if isinstance(result, Accepted)]
    assert values == [{"r": {"a": 3}}, {"i": 1}, {"a": {"n": 5}}]


PROTO = """syntax = "proto3"; package p;
message A { int32 n = 1; } message B { A a = 1; message C { } }"""
PROTO_NEXT = """syntax = "proto3"; package p;
message D { } message B { A a = 1; message C { } } message A { int32 n = 1; }"""


def test_subjects_are_named_after_topics_records_or_both(registry: Registry) -> None:
    for subject, schema, kind in (
        ("t-value", ONE, "AVRO"),
        ("shop.R", {**ONE, "namespace": "shop"}, "AVRO"),
        ("t-u-shop.R", {**ONE, "name": "shop.R"}, "AVRO"),
        ("p.B", PROTO, "PROTOBUF"),
        ("t-p.B", PROTO, "PROTOBUF"),
        ("t-p.B.C", PROTO, "PROTOBUF"),
        ("a-b", {"title": "a-b"}, "JSON"),
        ("t-a-b", {"title": "a-b"}, "JSON"),
        ("R-S", '"string"', "AVRO"),
        ("-x", {"title": "x"}, "JSON"),
    ):
        registry.register(subject, schema, kind)
    expected: dict[Strategy, dict[str, Any]] = {
        "topic": {"t-value": {"topic": "t"}},
        "record": {"shop.R": {}, "p.B": {}, "a-b": {}},
        "topic-record": {"t-u-shop.R": {"topic": "t-u"}, "t-p.B": {"topic": "t"}, "t-a-b": {"topic": "t"}},
    }
    for strategy, selected in expected.items():
        snapshot = Snapshot.load(registry.url, subjects=strategy)
        assert {
            xid.rpartition("/")[2]: (snapshot.find_message(xid) or {})["protocoloptions"] for xid in snapshot.selected
        } == selected
    assert outcome(Snapshot.load(registry.url, subjects="record"), "any", 2, b"\x06") == {"a": 3}
    unknown = outcome(Snapshot.load(registry.url, subjects="record"), "any", 99, b"\x06")
    assert (unknown.reason, unknown.candidates) == ("schema_not_found", ())


def test_each_message_type_has_a_table(registry: Registry) -> None:
    """The subject's own stays that of the same type, whatever comes before it later."""
    first = registry.register("t-value", PROTO, "PROTOBUF")
    names = [f"{GROUP}/t-value", f"{GROUP}/t-value.B"]
    assert list(registry.snapshot().selected) == names
    later = registry.register("t-value", PROTO_NEXT, "PROTOBUF")
    snapshot = registry.snapshot()
    assert list(snapshot.selected) == [*names, f"{GROUP}/t-value.D"]
    contract = snapshot.check(Policy()).compile(Policy())
    for number, indices, xid in (
        (first, b"\0", names[0]),
        (first, b"\2\2", names[1]),
        (later, b"\0", f"{GROUP}/t-value.D"),
        (later, b"\2\2", names[1]),
        (later, b"\2\4", names[0]),
    ):
        (result,) = contract.process(record("t", b"\0" + number.to_bytes(4, "big") + indices))
        assert isinstance(result, Accepted)
        assert result.definition.xid == xid
    (nested,) = contract.process(record("t", b"\0" + later.to_bytes(4, "big") + b"\4\2\0"))
    assert isinstance(nested, Rejected)
    assert nested.reason.value == "schema_not_found"


def test_a_context_has_subjects_and_ids_of_its_own(registry: Registry) -> None:
    registry.register("t-value", ONE)
    registry.send("POST", "/contexts/.apart/subjects/u-value/versions", {"schema": json.dumps(TWO)})
    assert registry.snapshot().selected == (f"{GROUP}/t-value",)
    apart = registry.snapshot("/contexts/.apart")
    assert apart.selected == (f"{GROUP}/u-value",)
    assert outcome(apart, "u", 1, b"\x06\x02x") == {"a": 3, "b": "x"}


def test_names_that_differ_by_case_have_tables_of_their_own(registry: Registry) -> None:
    """The one that was there first keeps its name."""
    registry.register("t-value", ONE)
    first = registry.snapshot().selected
    registry.register("T-value", TWO)
    assert len(registry.snapshot().selected) == 2
    assert {xid.lower() for xid in registry.snapshot().selected} > {first[0].lower()}
    assert first[0] in registry.snapshot().selected


def test_subjects_are_used_with_message_definitions(registry: Registry, parcels: Any) -> None:
    registry.register("t-value", ONE)
    with Client(registry.url) as client:
        client.import_document(parcels.catalogue())
        both = Snapshot.load(registry.url, subjects="topic")
        assert len(both.selected) == 4
        assert len(Snapshot.load(registry.url).selected) == 3
        document = {"messagegroups": {"subjects": {"messages": {"x": parcels.message("x")}}}}
        client.import_document(document)
        with pytest.raises(PipelineError, match="messages/x is in it"):
            Snapshot.load(registry.url, subjects="topic")
        client.delete("/messagegroups/subjects")
        client.delete("/messagegroups/parcels")


def test_a_registry_without_such_subjects(registry: Registry, definitions: Path) -> None:
    registry.register("t-key", ONE)
    with pytest.raises(PipelineError, match=r"confluent has no subjects that are named by topic"):
        registry.snapshot()
    with pytest.raises(PipelineError, match="give the URL of a registry"):
        Snapshot.load(str(definitions), subjects="topic")
    with pytest.raises(PipelineError, match="is no registry with Confluent's API") as caught:
        Snapshot.load(f"confluent+{registry.url.replace('://', '://me:secret@')}/nowhere")
    assert "secret" not in str(caught.value)


def test_stream_checks_the_registry_before_each_batch(registry: Registry, tmp_path: Path) -> None:
    """A record may have an id that was given a moment ago."""
    url = f"confluent+{registry.url}/compat/confluent"
    registry.register("t-value", ONE)
    warnings: list[str] = []
    following = Definitions(
        url, (), Policy(), snapshot_file=tmp_path / "kept.json", notify=warnings.append, subjects="topic"
    )
    for turn in range(2):
        before = following.read_current()
        assert following.read_current().fingerprint == before.fingerprint
        number = registry.register("t-value", {**TWO, "doc": str(turn)})
        assert outcome(following.read_current(), "t", number, b"\x06\x02x") == {"a": 3, "b": "x"}
    assert [words.partition(":")[0] for words in warnings] == ["new definitions"] * 2


LISTED = [
    {"subject": "t-value", "version": 1, "id": 5, "schema": json.dumps(ONE)},
    {"subject": "t-value", "version": 2, "id": 7, "schemaType": "AVRO", "schema": json.dumps(TWO)},
    {"subject": ":.apart:x-value", "version": 1, "id": 1, "schema": json.dumps(TWO)},
    {"subject": "z-value", "version": 1, "id": 9, "schemaType": "THRIFT", "schema": "?"},
]


@contextmanager
def answering(has_list: bool, authorization: str = "") -> Iterator[str]:
    """The address of a registry that knows no pages and does not mark what is deleted."""

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(request.path)
        content = find_content(url.path.strip("/").split("/"), has_list, latest="latestOnly" in parse_qs(url.query))
        if request.headers.get("Authorization", "") != authorization:
            return 401, {}, b'{"message": "no"}'
        return 404 if content is None else 200, {}, json.dumps(content).encode()

    with serving_answers(answer) as url:
        yield url.removeprefix("http://")


def find_content(words: list[str], has_list: bool, *, latest: bool) -> Any:
    match words:
        case ["schemas", "types"]:
            return ["AVRO"]
        case ["v1", "metadata", "version"]:
            return {"version": "7.9.0"} if has_list else None
        case ["schemas"]:
            return LISTED[1:] if latest else LISTED if has_list else None
        case ["subjects"]:
            return list(dict.fromkeys(version["subject"] for version in LISTED))
        case ["subjects", name, "versions"]:
            return [version["version"] for version in LISTED if version["subject"] == name.replace("%3A", ":")]
        case ["subjects", name, "versions", number]:
            key = name.replace("%3A", ":"), int(number)
            return next(version for version in LISTED if (version["subject"], version["version"]) == key)
    return None


def test_a_registry_is_found_where_it_has_the_api(registry: Registry) -> None:
    registry.register("t-value", ONE)
    for path in ("", "/", "/apis/ccompat/v7", "/compat/confluent/"):
        assert Snapshot.load(f"confluent+{registry.url}{path}").selected == (f"{GROUP}/t-value",)


@pytest.mark.parametrize("has_list", [True, False])
def test_registries_of_other_makers(has_list: bool) -> None:
    with answering(has_list) as address:
        snapshot = Snapshot.load(f"confluent+http://{address}")
    assert snapshot.selected == (f"{GROUP}/t-value",)
    assert outcome(snapshot, "t", 5, b"\x06") == {"a": 3, "b": "none"}
    assert outcome(snapshot, "t", 7, b"\x06\x02x") == {"a": 3, "b": "x"}


def test_credentials_of_a_confluent_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Basic, or the bearer in a variable; the token for our own registry goes nowhere else."""
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "ours")
    monkeypatch.setenv("THEIRS", "abc")
    for user, header in (("me:secret@", "Basic bWU6c2VjcmV0"), ("${THEIRS}@", "Bearer abc"), ("", "")):
        with answering(True, header) as address:
            assert Snapshot.load(f"confluent+http://{user}{address}").selected
    with answering(True, "Bearer other") as address, pytest.raises(PipelineError) as caught:
        Snapshot.load(f"confluent+http://me:secret@{address}")
    assert "secret" not in str(caught.value)
    assert "cannot read the subjects: http" in str(caught.value)
