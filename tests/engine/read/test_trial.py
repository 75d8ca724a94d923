"""What a document on trial would break, on each database; and, whatever refers to what, that it is all of that."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.read.test_impact import json_schema, put
from tests.engine.read.test_relations import ROOT_URL
from tests.engine.search.test_search import reading

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.engine.engine import Engine
from signalbook.engine.read import trial
from signalbook.engine.read.trial import Affected, CandidateDocument, CandidateTrial, find_worst, try_candidate
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store, open_store
from signalbook.work import Work
from signalbook.xid import Xid

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
NUMBERED = {"type": "object", "properties": {"city": {"type": "integer"}}}
WIDER = {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}
G = "/schemagroups/g/schemas/"
ADDRESS, ORDER = f"{G}address", f"{G}order"
M = "/messagegroups/m/messages/"


REGISTRY: dict[str, Any] = yaml.safe_load("""
schemagroups:
  g:
    schemas:
      address:
        versions:
          "1": &city {format: JsonSchema/draft-07, schema: {type: object, properties: {city: {type: string}}}}
          "2": *city
      order: {format: JsonSchema/draft-07, schema: {properties: {to: {$ref: /schemagroups/g/schemas/address}}}}
      pinned:
        format: JsonSchema/draft-07
        schema: {properties: {to: {$ref: /schemagroups/g/schemas/address/versions/1}}}
      current:
        format: JsonSchema/draft-07
        schema: {properties: {to: {$ref: /schemagroups/g/schemas/address/versions/2}}}
      copy: {meta: {xref: /schemagroups/g/schemas/address}}
      other: {format: JsonSchema/draft-07, schema: {type: string}}
messagegroups:
  m:
    messages:
      direct: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/address}
      base: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/order}
      made: {basemessage: /messagegroups/m/messages/base}
      own:
        dataschemaformat: JsonSchema/draft-07
        dataschemaxid: /schemagroups/g/schemas/other
        basemessage: /messagegroups/m/messages/base
      late: {relatedto: made}
      pinned: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/pinned}
      copied: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/copy}
      inline:
        dataschemaformat: JsonSchema/draft-07
        dataschema: {properties: {to: {$ref: /schemagroups/g/schemas/order}}}
  fine: {messages: {x: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/other}}}
endpoints:
  e: {usage: [producer], messagegroups: [/messagegroups/m]}
  fine: {usage: [producer], messagegroups: [/messagegroups/fine]}
  own: {usage: [producer], messages: {x: {basemessage: /messagegroups/m/messages/made}}}
""")


@pytest.fixture
def engine(store: Store) -> Engine:
    new_engine = Engine(store, settings=Settings(base_url=f"{ROOT_URL}/"))
    put(new_engine, REGISTRY)
    return new_engine


def attempt(
    engine: Engine,
    target: str,
    document: Any,
    access: Access = UNRESTRICTED,
    *,
    moves: bool = True,
    steps: int = 0,
    **more: Any,
) -> CandidateTrial:
    content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    candidate = CandidateDocument(target=Xid.parse(target), content=content, **more)
    with engine.reading(access) as view:
        return try_candidate(view, candidate, ROOT_URL, becomes_default=moves, work=Work(steps=steps, seconds=0))


def by_name(result: CandidateTrial) -> dict[str, Affected]:
    return {str(affected.dependent.xid).rpartition("/")[2]: affected for affected in result.affected}


def effects(result: CandidateTrial) -> dict[str, str]:
    return {name: affected.effect.outcome for name, affected in by_name(result).items()}


def test_breaking_change_breaks_transitive_dependents(engine: Engine) -> None:
    result = attempt(engine, ADDRESS, NUMBERED)
    broken = ("order", "direct", "base", "made", "copy", "copied", "inline", "e", "x", "own")
    assert effects(result) == dict.fromkeys(broken, "breaks")
    expected = ("breaks", "backward", "breaks", True)
    assert (result.effect.outcome, result.effect.rule, find_worst(result), result.complete) == expected
    affected = by_name(result)
    assert [finding.rule for finding in affected["order"].effect.findings] == ["type_changed"]
    assert affected["order"].effect.findings[0].path.startswith(f"{ORDER}/versions/1#")
    assert str(affected["base"].dependent.on) == ORDER
    assert affected["inline"].effect.findings


def test_compatible_change_is_safe_everywhere(engine: Engine) -> None:
    result = attempt(engine, ADDRESS, WIDER)
    assert set(effects(result).values()) == {"holds"}
    assert find_worst(result) == "holds"
    forward = attempt(engine, ADDRESS, WIDER, compatibility="forward")
    assert effects(forward)["order"] == find_worst(forward) == "breaks"


def test_each_schema_is_checked_by_its_own_rule(engine: Engine) -> None:
    put(engine, {"schemagroups": {"g": {"schemas": {"order": {"meta": {"compatibility": "forward"}}}}}})
    result = attempt(engine, ADDRESS, WIDER)
    assert by_name(result)["order"].effect.rule == "forward"
    outcomes = effects(result)
    assert (outcomes["order"], outcomes["direct"], outcomes["base"]) == ("breaks", "holds", "breaks")


def test_change_of_a_version_affects_its_referrers(engine: Engine) -> None:
    old = effects(attempt(engine, f"{ADDRESS}/versions/1", NUMBERED))
    assert old == dict.fromkeys(("pinned", "e"), "breaks")
    default = effects(attempt(engine, f"{ADDRESS}/versions/2", NUMBERED))
    assert {default["current"], default["order"]} == {"breaks"}
    assert "pinned" not in default
    assert "current" not in effects(attempt(engine, ADDRESS, NUMBERED)), "a new version is another one"


def test_new_version_that_is_not_the_default_affects_nothing(engine: Engine) -> None:
    result = attempt(engine, ADDRESS, NUMBERED, moves=False)
    assert (result.effect.outcome, result.affected, result.complete) == ("breaks", (), True)


def test_removed_definition_breaks_its_users(engine: Engine) -> None:
    names = json_schema({"definitions": {"name": {"type": "string"}}})
    user = json_schema({"properties": {"n": {"$ref": f"{G}names#/definitions/name"}}})
    put(engine, {"schemagroups": {"g": {"schemas": {"names": names, "user": user}}}})
    result = attempt(engine, f"{G}names", {})
    assert effects(result) == {"user": "breaks"}
    assert "could not be read any more" in result.affected[0].effect.why


PROTO = 'syntax = "proto3"; package p; '
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'
FORMATS = {
    "Avro/1.11": (
        {"type": "record", "name": "A", "namespace": "p", "fields": [{"name": "a", "type": "string"}]},
        {"type": "record", "name": "A", "namespace": "p", "fields": [{"name": "a", "type": "int"}]},
        {"type": "record", "name": "B", "namespace": "p", "fields": [{"name": "a", "type": "p.A"}]},
    ),
    "Protobuf/3": (
        PROTO + "message A { string a = 1; }",
        PROTO + "message A { int32 a = 1; }",
        PROTO + 'import "a.proto"; message B { A a = 1; }',
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats(engine: Engine, name: str) -> None:
    old, new, user = FORMATS[name]
    beside = {"references": [{"name": "p.A", "type": "p.A", "xid": "/schemagroups/f/schemas/a.proto/versions/1"}]}
    group = {
        "a.proto": {"versions": {"1": {"format": name, "schema": old}}},
        "b": {"format": name, "schema": user, **(beside if name.startswith("Avro") else {})},
    }
    put(engine, {"schemagroups": {"f": {"schemas": group}}})
    target = "/schemagroups/f/schemas/a.proto" + ("/versions/1" if name.startswith("Avro") else "")
    result = attempt(engine, target, new)
    assert effects(result) == {"b": "breaks"}
    assert effects(attempt(engine, target, old)) == {"b": "holds"}


def test_unknown_effect_is_explained(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"format": "Own/1", "schema": f"see '{ADDRESS}' there"}
    put(engine, {"schemagroups": {"g": {"schemas": {"foreign": body}}}})
    result = attempt(engine, ADDRESS, NUMBERED)
    assert effects(result)["foreign"] == "unknown"
    short = attempt(engine, ADDRESS, NUMBERED, steps=100)
    assert effects(short)["order"] == "unknown"
    assert "max_work" in next(affected.effect.why for affected in short.affected if affected.effect.why)
    monkeypatch.setattr(trial, "_MAX_COMPARISONS", 0)
    assert effects(attempt(engine, ADDRESS, NUMBERED))["order"] == "unknown"
    monkeypatch.setattr(trial, "MAX_DEPENDENTS", 3)
    few = attempt(engine, ADDRESS, NUMBERED)
    assert (len(few.affected), few.complete) == (3, False)


def test_hidden_entities_are_not_followed(engine: Engine) -> None:
    result = attempt(engine, ADDRESS, NUMBERED, reading("/schemagroups", f"{M}made", "/endpoints"))
    assert set(effects(result)) == {"order", "copy"}


@pytest.mark.parametrize(("target", "code"), [(f"{M}base", "bad_request"), (f"{ADDRESS}x", "not_found")])
def test_invalid_trial_is_rejected(engine: Engine, target: str, code: str) -> None:
    with pytest.raises(RegistryError) as raised:
        attempt(engine, target, {})
    assert raised.value.code == code


NAMES = "abcdef"


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    with closing(open_store("sqlite://")) as store:
        yield Engine(store, settings=Settings(base_url=ROOT_URL))


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), st.booleans(), max_size=12),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_change_breaks_exactly_its_dependents(
    shared: Engine, links: dict[tuple[str, str], bool], middle: str, breaking: bool
) -> None:
    """``links`` go from one schema to another one, or to a certain version of it, which stays as it is."""
    group = f"/schemagroups/{uuid4().hex}"
    path = {name: f"{group}/schemas/{name}" for name in NAMES}
    schemas = {}
    for name in NAMES:
        refs = {to: path[to] + "/versions/1" * pinned for (of, to), pinned in sorted(links.items()) if of == name}
        properties = {"own": {"type": "string"}, **{to: {"$ref": ref} for to, ref in refs.items()}}
        schemas[name] = {"versions": {"1": json_schema({"type": "object", "properties": properties})}}
    put(shared, {"schemagroups": {group[14:]: {"schemas": schemas}}})
    document = schemas[middle]["versions"]["1"]["schema"]
    changed = {"own": {"type": "integer"}} if breaking else {"new": {}}
    result = attempt(shared, path[middle], {**document, "properties": {**document["properties"], **changed}})
    concerned = {middle}
    while (
        more := {of for (of, to), pinned in links.items() if to in concerned and (to != middle or not pinned)}
        - concerned
    ):
        concerned |= more
    fate = "breaks" if breaking else "holds"
    assert effects(result) == dict.fromkeys(concerned - {middle}, fate)
    assert result.effect.outcome == fate
