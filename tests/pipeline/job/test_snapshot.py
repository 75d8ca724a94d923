"""Definitions are read from wherever they are, frozen, and distinguished by their fingerprint."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from tests.serving import serving_answers

from signalbook.client.responses import BadResponse
from signalbook.documents import DocumentError, parse_document
from signalbook.messages import Accepted, Contract, Message, Policy, Rejected, parse_flags
from signalbook.messages.matching.contract import Deferred
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.memory import pause_collection
from signalbook.pipeline.job.snapshot import Snapshot, compile_cached

PARCEL = "/schemagroups/parcels/schemas/parcel"


def snapshot(*documents: Any, groups: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot.of_documents([(f"document {n}", document) for n, document in enumerate(documents)], groups)


@pytest.fixture
def registry(definitions: Path) -> Iterator[str]:
    """A server that answers to /export, with the document in the file ``definitions`` as it is then."""
    with serving_answers(
        lambda request, _: (200 if request.path.startswith("/export") else 404, {}, definitions.read_bytes())
    ) as url:
        yield url


def test_a_registry_and_its_document_are_the_same(registry: str, definitions: Path) -> None:
    assert Snapshot.load(registry).fingerprint == Snapshot.load(str(definitions)).fingerprint


def test_changed_document_is_read_again(definitions: Path) -> None:
    first = Snapshot.load(str(definitions)).check(Policy())
    assert Snapshot.load(str(definitions)).messages is first.messages
    text = definitions.read_text()
    definitions.write_text(text.replace("parcel.noted", "parcel.seen"))
    assert Snapshot.load(str(definitions)).check(Policy()).fingerprint != first.fingerprint
    definitions.write_text(text)
    group = Snapshot.load(str(definitions), ("/messagegroups/parcels",))
    assert (group, group.fingerprint) == (replace(first, outlines=()), first.fingerprint)


def test_jobs_that_take_turns_find_their_definitions_again(definitions: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(definitions.read_text().replace("parcel.noted", "parcel.seen"))
    first, second = (Snapshot.load(str(path)).check(Policy()) for path in (definitions, other))
    again = [Snapshot.load(str(path)).check(Policy()) for path in (definitions, other)]
    assert [snapshot_.messages for snapshot_ in again] == [first.messages, second.messages]
    assert all(mine.messages is before.messages for mine, before in zip(again, (first, second), strict=True))
    assert all(mine.outlines is before.outlines for mine, before in zip(again, (first, second), strict=True))


def test_files_that_a_document_names_are_read_each_time(tmp_path: Path, parcels: Any) -> None:
    document = parcels.catalogue()
    version = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]
    (schema := tmp_path / "parcel.schema.json").write_text(json.dumps(version.pop("schema")))
    version["schemaurl"] = f"./{schema.name}"
    (path := tmp_path / "definitions.json").write_text(json.dumps(document))
    first = Snapshot.load(str(path))
    schema.write_text("{}")
    assert Snapshot.load(str(path)).fingerprint != first.fingerprint


@pytest.mark.parametrize("source", ["document", "registry"])
def test_unchanged_entities_of_a_changed_source_are_reused(source: str, registry: str, definitions: Path) -> None:
    place = registry if source == "registry" else str(definitions)
    first = Snapshot.load(place).check(Policy())
    definitions.write_text(definitions.read_text().replace("parcel.noted", "parcel.seen"))
    second = Snapshot.load(place).check(Policy())
    accepted, version = "/messagegroups/parcels/messages/parcel.accepted", f"{PARCEL}/versions/1"
    assert second.messages[accepted] is first.messages[accepted]
    assert second.schemas[version] is first.schemas[version]
    assert second.outlines != first.outlines
    assert second.to_json() == Snapshot.of_documents(read_documents(place)).check(Policy()).to_json()


def test_a_registry_that_answers_no_document_is_an_error(registry: str, definitions: Path) -> None:
    for bad in ("[]", '{"a": '):
        definitions.write_text(bad)
        with pytest.raises(BadResponse):
            Snapshot.load(registry)


def test_files_that_a_document_comes_to_name_and_names_no_more(tmp_path: Path, parcels: Any) -> None:
    """The content of the files is not cached with the document."""
    document = parcels.catalogue()
    version = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]
    plain = json.dumps(document)
    (schema := tmp_path / "parcel.schema.json").write_text(json.dumps(version.pop("schema")))
    version["schemaurl"] = f"./{schema.name}"
    (path := tmp_path / "definitions.json").write_text(plain)
    first = Snapshot.load(str(path))
    for text in ('{"x": 5}', "true"):
        path.write_text(json.dumps(document))
        schema.write_text(text)
        with_file = Snapshot.load(str(path))
        assert with_file.fingerprint == Snapshot.of_documents(read_documents(str(path))).fingerprint
        path.write_text(json.dumps(document).replace(schema.name, "nowhere.json"))
        with pytest.raises(DocumentError, match="nowhere"):
            Snapshot.load(str(path))
        path.write_text(plain)
        assert Snapshot.load(str(path)).fingerprint == first.fingerprint


def test_snapshot_survives_serialisation(definitions: Path) -> None:
    loaded = Snapshot.load(str(definitions))
    shipped = Snapshot.from_json(loaded.to_json())
    assert (shipped, shipped.fingerprint) == (loaded, loaded.fingerprint)
    assert shipped.compile(Policy()).definitions.keys() == set(loaded.selected)


def test_contracts_of_alternating_jobs_are_cached(parcels: Any) -> None:
    """Contracts that are not cached are freed without a run of the garbage collector."""
    snapshots = {name: Snapshot.of_documents([(name, parcels.catalogue())]) for name in "abc"}

    def contract(name: str) -> Contract:
        return compile_cached(name, Policy(), lambda: snapshots[name])

    with pause_collection():
        first, second = contract("a"), contract("b")
        assert (contract("a"), contract("b")) == (first, second)
        reference = ref(first)
        del first
        contract("c")
        assert reference() is None
        assert contract("b") is second


def test_checked_snapshot_parses_only_needed_definitions(parcels: Any) -> None:
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"] |= {f"m{n}": parcels.message(f"m{n}") for n in range(1000)}
    loaded = snapshot(document)
    shipped = Snapshot.from_json(loaded.check(Policy()).to_json())
    contract = shipped.compile(Policy())
    body = parcels.lines(parcels.event())
    (outcome,) = contract.process(Message(content_type="application/cloudevents+json", body=body))
    assert isinstance(outcome, Accepted)
    assert isinstance(shipped.messages, Deferred)
    assert (len(shipped.messages), shipped.messages.made) == (1003, 1)
    assert (shipped, shipped.fingerprint) == (loaded, loaded.fingerprint)


def test_a_schema_is_shipped_once(parcels: Any) -> None:
    document = parcels.catalogue()
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["labels"] = {"confluent.id": "42"}
    shipped = snapshot(document)
    assert [bool(schema.get("schema")) for schema in shipped.schemas.values()].count(True) == 1
    assert {shipped.find_schema(f"{PARCEL}{end}") for end in ("", "/versions/1", "?confluent.id=42")} == {
        shipped.find_schema(PARCEL)
    }


def test_another_word_is_another_fingerprint(parcels: Any) -> None:
    document = parcels.catalogue()
    before = snapshot(document).fingerprint
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"]["required"] = []
    assert snapshot(document).fingerprint != before


@pytest.mark.parametrize(
    ("reference", "is_found"),
    [
        (PARCEL, True),
        (f"{PARCEL}/versions/1", True),
        (f"#{PARCEL}", True),
        (f"https://registry.example/base{PARCEL}/versions/1", True),
        (f"{PARCEL}/versions/2", False),
        ("https://elsewhere.example/schema.json", False),
    ],
)
def test_schemas_are_found_by_reference(parcels: Any, reference: str, is_found: bool) -> None:
    """The reference is an xid, a fragment or a URL; nothing is fetched (K-39)."""
    document = snapshot(parcels.catalogue()).find_schema(reference)
    assert (document is not None) == is_found
    assert document is None or document.xid == f"{PARCEL}/versions/1"


NEW = {"description": "new"}


@pytest.mark.parametrize(
    ("resource", "chosen"),
    [
        ({"description": "flat"}, ("1", "flat")),
        ({"versionid": "7", "description": "flat"}, ("7", "flat")),
        ({"versions": {"a": {"description": "one"}}}, ("a", "one")),
        ({"versions": {"2": {"description": "two"}, "10": {"description": "ten"}}}, ("10", "ten")),
        ({"versions": {"1": {"description": "named"}, "2": {}}, "meta": {"defaultversionid": "1"}}, ("1", "named")),
        ({"versions": {"1": {**NEW, "createdat": "2026-02-01"}, "2": {"createdat": "2026-01-01"}}}, ("1", "new")),
        ({"meta": {"xref": "/messagegroups/g/messages/target"}}, ("1", "there")),
    ],
)
def test_the_default_version_counts(resource: Any, chosen: tuple[str, str]) -> None:
    messages = {"m": resource, "target": {"description": "there"}}
    message = snapshot({"messagegroups": {"g": {"messages": messages}}}).messages["/messagegroups/g/messages/m"] or {}
    assert (message["versionid"], message["description"]) == chosen


def test_dangling_cross_references_are_left_out() -> None:
    """A missing target, a hidden one and a chain say nothing: as a definition they would match every message."""
    group, schemas = "/messagegroups/g/messages", "/schemagroups/g/schemas"
    messages = {"missing": {"meta": {"xref": f"{group}/nothing"}}, "chained": {"meta": {"xref": f"{group}/missing"}}}
    document = {
        "messagegroups": {"g": {"messages": {**messages, "there": {"envelope": "CloudEvents/1.0"}}}},
        "schemagroups": {"g": {"schemas": {"missing": {"meta": {"xref": f"{schemas}/nothing"}}}}},
    }
    checked = snapshot(document).check(Policy())
    assert set(checked.left_out) == {f"{group}/missing", f"{group}/chained"}
    assert not [xid for xid in checked.schemas if "missing" in xid]
    text = "{0}/missing refers to {0}/nothing, which does not exist, which you cannot read, or which is a cross"
    for collection in (group, schemas):
        assert any(doubt.startswith(text.format(collection)) for doubt in checked.doubts)


def test_bases_outside_the_groups_are_followed(parcels: Any) -> None:
    base = {"bases": {"messages": {"b": parcels.message("parcel.base")}}}
    derived = {"derived": {"messages": {"d": {"basemessageuri": "/messagegroups/bases/messages/b"}}}}
    grouped = snapshot({"messagegroups": {**base, **derived}}, groups=("/messagegroups/derived",))
    compiled = grouped.compile(Policy()).definitions
    assert compiled.keys() == {"/messagegroups/derived/messages/d"}
    assert compiled["/messagegroups/derived/messages/d"].is_event


BASE = "/messagegroups/g/messages/base"


def based(*references: str, **more: Any) -> dict[str, Any]:
    """Messages m0, m1, ... with these bases, a base of three Versions, and others."""
    versions = {
        str(n): {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": f"t{n}"}}} for n in (1, 2)
    }
    derived = {f"m{n}": {"basemessage": reference} for n, reference in enumerate(references)}
    base = {"meta": {"defaultversionid": "2"}, "versions": {**versions, "3": {"basemessage": f"{BASE}/versions/1"}}}
    messages = {"base": base, **derived}
    return {"messagegroups": {"g": {"messages": messages}, "h": {"messages": {"x": {"meta": {"xref": BASE}}, **more}}}}


def types(snapshot_: Snapshot) -> dict[str, str]:
    compiled = snapshot_.compile(Policy()).definitions
    documents = {xid.rpartition("/")[2]: definition.definition for xid, definition in compiled.items()}
    return {name: found["envelopemetadata"]["type"]["value"] for name, found in documents.items() if name != "b"}


@pytest.mark.parametrize(
    ("reference", "type"),
    [
        (f"{BASE}/versions/1", "t1"),
        (f"{BASE}/versions/2", "t2"),
        (f"{BASE}/versions/3", "t1"),  # a chain of Versions
        (BASE, "t2"),
        (f"#{BASE}/versions/1", "t1"),
        (f"{BASE}/versions/1$details", "t1"),
        (f"{BASE.removeprefix('/')}/versions/1", "t1"),
        (f"https://elsewhere.example/x{BASE}/versions/1?doc", "t1"),
        ("/messagegroups/h/messages/x/versions/1", "t1"),  # through a cross reference
        ("/messagegroups/h/messages/x", "t2"),
    ],
)
def test_a_base_may_be_a_version(reference: str, type: str) -> None:
    """The base is "the xid of a Resource, or Version", in every form that a registry resolves (F-15)."""
    versioned = snapshot(based(reference))
    assert types(versioned)["m0"] == types(Snapshot.from_json(versioned.to_json()))["m0"] == type
    assert {xid for xid in versioned.selected if "/versions/" in xid} == set()


def test_versions_that_serve_as_bases_count_and_no_others() -> None:
    """Only a change of the Version that a definition derives from changes the definitions (F-15)."""

    def changed(version: str) -> str:
        document = based(f"{BASE}/versions/1")
        document["messagegroups"]["g"]["messages"]["base"]["versions"][version]["description"] = "new"
        return snapshot(document).fingerprint

    before = snapshot(based(f"{BASE}/versions/1")).fingerprint
    assert [changed(version) != before for version in "123"] == [True, True, False]


@pytest.mark.parametrize("reference", [f"{BASE}/versions/9", "/messagegroups/g/messages/gone", "https://x.example/m"])
def test_missing_base_message_is_reported_at_the_start(reference: str) -> None:
    """The definition is used without the base, with a warning (F-17, K-12)."""
    doubt, *others = snapshot(based(reference)).check(Policy()).doubts
    assert all("is also that of" in other for other in others)  # of a cross reference and its target
    assert doubt.startswith(f"/messagegroups/g/messages/m0: there is no base message {reference}")
    checked = snapshot(based("/messagegroups/h/messages/far", far={"basemessage": reference})).check(Policy())
    assert {doubt.partition(":")[0] for doubt in checked.doubts if "is also that of" not in doubt} == {
        "/messagegroups/g/messages/m0", "/messagegroups/h/messages/far"}  # fmt: skip
    assert f"no base message {reference}, which /messagegroups/h/messages/far names" in checked.doubts[0]
    assert "/messagegroups/g/messages/m0" in checked.compile(Policy()).definitions


def test_cycle_through_versions_is_reported() -> None:
    """A cycle of base messages through versions is reported (F-16)."""
    document = based(f"{BASE}/versions/1")
    document["messagegroups"]["g"]["messages"]["base"]["versions"]["1"]["basemessage"] = f"{BASE}/versions/3"
    cyclic = snapshot(document)
    assert types(cyclic)["m0"] == "t1"
    text = f"/messagegroups/g/messages/m0: the chain of base messages leads back to {BASE}/versions/1"
    assert text in cyclic.check(Policy()).doubts


def test_a_base_in_another_document() -> None:
    """The documents are in one folder (F-15)."""
    versions = {"1": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}, "2": {}}
    other = {"messagegroups": {"far": {"messages": {"b": {"versions": versions}}}}}
    assert types(snapshot(based("/messagegroups/far/messages/b/versions/1"), other))["m0"] == "t"


def test_an_endpoint_selects_its_messages_and_its_groups(parcels: Any) -> None:
    """The groups of an endpoint and its own messages are selected (K-10)."""
    endpoint = {"messages": {"own": parcels.message("own")}, "messagegroups": ["#/messagegroups/parcels"]}
    document = {**parcels.catalogue(), "endpoints": {"e": endpoint}}
    document["messagegroups"]["others"] = {"messages": {"x": parcels.message("x")}}
    selected = snapshot(document, groups=("/endpoints/e",)).selected
    assert {xid.split("/")[2] for xid in selected} == {"e", "parcels"}


def test_contradicting_documents_are_an_error(parcels: Any) -> None:
    other = {"messagegroups": {"parcels": {"messages": {"parcel.noted": parcels.message("else")}}}}
    with pytest.raises(PipelineError, match=r"document 1 says something else of .*parcel\.noted"):
        snapshot(parcels.catalogue(), other)


@pytest.mark.parametrize("name", ["../x", "a/b", ""])
def test_ids_with_slashes_are_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="is no id"):
        snapshot({"messagegroups": {"g": {"messages": {name: {}}}}})


def test_documents_without_messages(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text('{"messagegroups": {}}')
    with pytest.raises(PipelineError, match=r"no message definitions in .*d\.json"):
        Snapshot.load(str(tmp_path / "d.json"))
    (tmp_path / "d.json").write_text('{"schemagroups": {"g": {"schemas": {"s": {"format": "Avro/1.12.0"}}}}}')
    with pytest.raises(PipelineError, match=r"no message definitions in .*d\.json, only schemas\. Add a message"):
        Snapshot.load(str(tmp_path / "d.json"))


def test_a_folder_with_schemas_in_files_of_their_own(definitions: Path, tmp_path: Path, parcels: Any) -> None:
    """The folder has the layout of ``export --out``."""
    book = parcels.catalogue()
    versions = book["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]
    folder = tmp_path / "book"
    folder.mkdir()
    for name, version in versions.items():
        (folder / f"{name}.json").write_text(json.dumps(version.pop("schema")))
        version["schemaurl"] = f"./{name}.json"
    (folder / "parcels.xreg.json").write_text(json.dumps(book))
    in_files, in_place = Snapshot.load(str(folder)), Snapshot.load(str(definitions))
    assert in_files.selected == in_place.selected
    assert in_files.compile(Policy()).definitions.keys() == in_place.compile(Policy()).definitions.keys()


SCHEMA = {"type": "object", "required": ["metric"], "properties": {"metric": {"type": "number"}}}
ENVELOPE = {"format": "CloudEvents/1.0", "metadata": {"type": {"value": "telemetry"}, "source": {"value": "/d"}}}
ENDPOINT = {"usage": "consumer", "config": {"protocol": "MQTT/5.0", "options": {"topic": "t"}}}
COMPACT = {"endpoints": {"e": {**ENDPOINT, "messages": {
    "telemetry": {**ENVELOPE, "dataschemaformat": "JsonSchema/draft-07", "dataschema": SCHEMA}}}}}  # fmt: skip
SPREAD = {
    "endpoints": {"e": {**ENDPOINT, "messagegroups": ["#/messagegroups/g"]}},
    "messagegroups": {"g": {"messages": {"telemetry": {**ENVELOPE, "dataschemaformat": "JsonSchema/draft-07",
                                                       "dataschemauri": "#/schemagroups/g/schemas/s"}}}},
    "schemagroups": {"g": {"schemas": {"s": {"format": "JsonSchema/draft-07", "versions": {
        "1": {"format": "JsonSchema/draft-07", "schema": SCHEMA}}}}}},
}  # fmt: skip


@pytest.mark.parametrize("document", [COMPACT, SPREAD], ids=["compact", "spread"])
@pytest.mark.parametrize(("metric", "outcome"), [(1, Accepted), ("one", Rejected)])
def test_compact_and_spread_mean_the_same(document: Any, metric: Any, outcome: type) -> None:
    """The message and the schema are inline or in their own registries, with old names (I-4, I-5)."""
    repaired, _ = parse_document(json.dumps(document).encode(), name="x.cereg", lenient=True)
    contract = snapshot(repaired, groups=("/endpoints/e",)).compile(Policy())
    assert contract.broken == {}
    event = {"specversion": "1.0", "id": "1", "type": "telemetry", "source": "/d", "data": {"metric": metric}}
    message = Message(content_type="application/cloudevents+json", body=json.dumps(event).encode())
    assert [type(outcome_) for outcome_ in contract.process(message)] == [outcome]


def test_resource_has_its_default_version(parcels: Any) -> None:
    document = parcels.catalogue()
    versions = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]
    versions["2"] = {**versions["1"], "schema": {"type": "string"}}
    message = document["messagegroups"]["parcels"]["messages"]
    noted = message["parcel.noted"]
    message["parcel.noted"] = {"versions": {"a": {**noted, "name": "old"}, "b": noted}, "versionid": "b"}
    schema, message_xid = "/schemagroups/parcels/schemas/parcel", "/messagegroups/parcels/messages/parcel.noted"
    today = Snapshot.of_documents([("d", document)])
    pinned = Snapshot.of_documents([("d", document)], versions=(f"{schema}/versions/1", f"{message_xid}/versions/a"))
    assert (today.schemas[schema]["versionid"], pinned.schemas[schema]["versionid"]) == ("2", "1")
    names = [(snapshot_.messages[message_xid] or {}).get("name") for snapshot_ in (today, pinned)]
    assert names == [None, "old"]
    assert pinned.selected == today.selected


@pytest.mark.parametrize(
    "xid", ["/schemagroups/parcels/schemas/parcel/versions/9", "/schemagroups/parcels/schemas/parcel", "/x", ""]
)
def test_unknown_version_is_an_error(parcels: Any, xid: str) -> None:
    with pytest.raises(PipelineError, match="no Version"):
        Snapshot.of_documents([("d", parcels.catalogue())], versions=(xid,))


def test_a_policy_about_nothing_is_refused(parcels: Any) -> None:
    """A policy for a group without definitions is rejected (K-46)."""
    snapshot = Snapshot.of_documents([("d", parcels.catalogue())])
    snapshot.check(parse_flags(["/messagegroups/parcels:on_schema_violation=tag"]))
    with pytest.raises(PipelineError, match="a policy for /messagegroups/parcel, but no definition"):
        snapshot.check(parse_flags(["/messagegroups/parcel:on_schema_violation=tag"]))


def test_missing_schema_does_not_affect_other_messages(parcels: Any) -> None:
    """The messages of the definition are dead letters that can be replayed (K-39, K-45)."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.noted"]["dataschemauri"] = f"{PARCEL}s"
    document["schemagroups"]["parcels"]["schemas"]["elsewhere"] = {"schemauri": "https://down.example/schema"}
    document["schemagroups"]["parcels"]["schemas"]["mangled"] = {"schemabase64": "x"}
    incomplete = snapshot(document)
    incomplete.check(Policy())
    contract = incomplete.compile(Policy())
    body = parcels.lines(parcels.event(type="parcel.noted"), parcels.event()).splitlines()
    outcomes = [contract.process(Message(content_type="application/cloudevents+json", body=line)) for line in body]
    assert [getattr(outcome, "reason", "accepted") for (outcome,) in outcomes] == ["schema_not_found", "accepted"]


@pytest.mark.parametrize("labels", [{"confluent.id": "42"}, {"confluent.id": 42}])
def test_versions_are_found_by_the_number_in_wire_prefixes(parcels: Any, labels: Any) -> None:
    document = parcels.catalogue()
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["labels"] = labels
    schema = snapshot(document).find_schema(f"{PARCEL}?confluent.id=42")
    assert schema is not None
    assert schema.xid == f"{PARCEL}/versions/1"
    assert snapshot(parcels.catalogue()).find_schema(f"{PARCEL}?confluent.id=42") is None


def test_members_that_have_no_columns_are_named_before_a_message_is_read() -> None:
    """The check warns of members that become JSON text because the schema is too wide."""
    inner = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(100)}}
    members = {f"m{number}": {"$ref": "#/$defs/inner"} for number in range(106)}
    schema = {"type": "object", "$defs": {"inner": inner}, "properties": members}
    message = {"dataschemaformat": "JsonSchema/draft/2020-12", "dataschema": schema}
    document = {"messagegroups": {"w": {"messages": {"m": message}}}}
    (doubt,) = snapshot(document).check(Policy()).doubts
    assert doubt == (
        "/messagegroups/w/messages/m: the schema makes more than 10000 columns: these members are JSON text: "
        "m99, m100, m101, m102, m103 and 2 more"
    )


def test_equal_types_are_reported(parcels: Any) -> None:
    """A message that fits both definitions would be ambiguous (K-13)."""
    document = parcels.catalogue()
    messages = document["messagegroups"]["parcels"]["messages"]
    messages["copy"] = messages["parcel.accepted"]
    doubts = snapshot(document).check(Policy()).doubts
    group = "/messagegroups/parcels/messages"
    assert set(doubts) == {
        f"{group}/{name}: the type 'parcel.accepted' is also that of {group}/{other}"
        for name, other in (("copy", "parcel.accepted"), ("parcel.accepted", "copy"))
    }


def test_number_of_doubts_is_limited() -> None:
    """Thousands of definitions with a missing base do not fill the report (F-17)."""
    messages = {
        f"m{number}": {"basemessage": "/messagegroups/gone/messages/m", "protocol": f"P{number}"}
        for number in range(30)
    }
    doubts = snapshot({"messagegroups": {"g": {"messages": messages}}}).check(Policy()).doubts
    assert len(doubts) == 21
    assert doubts[-1] == "  and 10 more"


PROTO = 'syntax = "proto3"; message A { int32 x = 1; }'


@pytest.mark.parametrize(
    ("message", "flags", "expected"),
    [
        ({"dataschemauri": "/schemagroups/g/schemas/s"}, [], True),
        ({"dataschemauri": "/schemagroups/g/schemas/s"}, ["wire_prefix=confluent"], False),
        ({"dataschemauri": "/schemagroups/g/schemas/s:A"}, [], False),
        ({"dataschema": PROTO}, [], False),
    ],
)
def test_missing_deep_link_is_reported(message: Any, flags: list[str], expected: bool) -> None:
    """A definition should name the message type of its Protobuf schema (G-17)."""
    schema = {"format": "Protobuf/3", "schema": PROTO}
    document = {
        "messagegroups": {"g": {"messages": {"m": {"dataschemaformat": "Protobuf/3", **message}}}},
        "schemagroups": {"g": {"schemas": {"s": {"versionid": "1", "versions": {"1": schema}}}}},
    }
    text = "/messagegroups/g/messages/m: no message is named; A is taken, being the only one"
    assert snapshot(document).check(parse_flags(flags)).doubts == ((text,) if expected else ())


@pytest.mark.parametrize("mangled", [5, None, {"versions": [1]}, {"versions": {"1": 5}}, {"meta": 5}], ids=str)
def test_malformed_entity_is_omitted(parcels: Any, mangled: Any) -> None:
    """A malformed message or schema is reported by name, and shipped to workers with the others."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.mangled"] = mangled
    document["schemagroups"]["parcels"]["schemas"]["mangled"] = mangled
    checked = snapshot(document).check(Policy())
    (xid,) = checked.left_out
    assert xid.endswith("/parcel.mangled")
    doubts = " ".join(checked.doubts)
    assert "schemas/mangled cannot be used" in doubts
    assert f"{xid} cannot be used: /: must be an object" in doubts
    shipped = Snapshot.from_json(checked.to_json())
    assert shipped.left_out == checked.left_out
    message = Message(content_type="application/cloudevents+json", body=json.dumps(parcels.event()).encode())
    (outcome,) = shipped.compile(Policy()).process(message)
    assert isinstance(outcome, Accepted)
    with pytest.raises(PipelineError, match=r"(?s)cannot be used:.*parcel\.mangled"):
        snapshot(document).check(parse_flags(["on_broken_definition=stop"]))


def test_required_broken_definition_stops_the_run(parcels: Any) -> None:
    """The definitions of one group may be needed, and those of others not."""
    document = parcels.catalogue()
    bad = parcels.message("bad", dataschemaformat="Runes/1", dataschema="x")
    document["messagegroups"]["others"] = {"messages": {"bad": bad}}
    own_policy = snapshot(document).check(parse_flags(["/messagegroups/parcels:on_broken_definition=stop"]))
    assert own_policy.left_out.keys() == {"/messagegroups/others/messages/bad"}
    with pytest.raises(PipelineError, match="no reader for schemas of format 'Runes/1'"):
        snapshot(document).check(parse_flags(["/messagegroups/others:on_broken_definition=stop"]))


def test_findings_of_a_cached_check_are_reported_again(parcels: Any) -> None:
    """Batches of a process check the same definitions under the same policy only once."""
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.mangled"] = 5
    first, again = snapshot(document).check(Policy()), snapshot(document).check(Policy())
    assert again.outlines is first.outlines
    assert (again.left_out, again.doubts) == (first.left_out, first.doubts)
    other = snapshot(document).check(parse_flags(["on_schema_violation=tag"]))
    assert other.outlines is not first.outlines
    assert snapshot(parcels.catalogue()).check(Policy()).doubts == ()


@pytest.mark.parametrize("pair", [(("g", "a"), ("g", "A")), (("g", "a"), ("G", "a"))])
def test_ids_that_differ_only_in_case_are_an_error(pair: tuple[tuple[str, str], ...], parcels: Any) -> None:
    """The messages would land in one table on file systems that ignore case."""
    groups: dict[str, Any] = {}
    for group, message in pair:
        groups.setdefault(group, {"messages": {}})["messages"][message] = parcels.message(message)
    with pytest.raises(PipelineError, match="differ only in case, which no registry accepts"):
        snapshot({"messagegroups": groups})
