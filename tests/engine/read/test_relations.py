"""What is around an entity, on each database; and, whatever refers to what, that links among it are all there."""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.read.test_impact import ADDRESS, BASE, MADE, ORDER, REGISTRY, json_schema, put
from tests.engine.search.test_search import reading

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.engine.engine import Engine
from signalbook.engine.read import relations
from signalbook.engine.read.relations import Relations, find_relations
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store, open_store
from signalbook.xid import Xid

ROOT_URL = "http://r.example"


@pytest.fixture
def engine(store: Store) -> Engine:
    new_engine = Engine(store, settings=Settings(base_url=f"{ROOT_URL}/"))
    put(new_engine, REGISTRY)
    return new_engine


def find(engine: Engine, xid: str, access: Access = UNRESTRICTED, steps: int = 10) -> Relations:
    with engine.reading(access) as view:
        return find_relations(view, Xid.parse(xid), ROOT_URL, steps)


def steps(result: Relations) -> dict[str, int]:
    return {entity.id: entity.steps for entity in result.entities}


def links(result: Relations) -> set[tuple[str, str, str]]:
    return {(relation.source, relation.kind, relation.target) for relation in result.relations}


def test_both_directions_step_by_step(engine: Engine) -> None:
    result = find(engine, BASE)
    assert steps(result) == {
        BASE: 0,
        "/messagegroups/m": -1,
        MADE: -1,
        ORDER: 1,
        ADDRESS: 2,
        "/endpoints/e": -2,
        "/messagegroups/m/messages/again": -2,
        "/messagegroups/m/messages/late": -2,
        "/endpoints/own/messages/x": -2,
        "/endpoints/own": -3,
    }
    assert links(result) >= {
        (MADE, "basemessage", BASE),
        ("/messagegroups/m", "messages", BASE),
        ("/messagegroups/m", "messages", MADE),
        ("/endpoints/e", "messagegroups", "/messagegroups/m"),
        ("/endpoints/own", "messages", "/endpoints/own/messages/x"),
        (BASE, "dataschema", ORDER),
        (ORDER, "schema", ADDRESS),
        ("/messagegroups/m/messages/late", "relatedto", MADE),
    }
    assert not result.farther
    assert result.left_out == ()
    assert find(engine, BASE, steps=2).farther


def test_group_is_related_to_its_messages(engine: Engine) -> None:
    distances = steps(find(engine, "/endpoints/e"))
    assert (distances["/messagegroups/m"], distances[BASE], distances[ORDER], distances[ADDRESS]) == (1, 2, 3, 4)
    assert steps(find(engine, "/schemagroups/g", steps=1))[ADDRESS] == 1


def test_relations_of_a_version_include_those_of_its_schema(engine: Engine) -> None:
    newest = find(engine, f"{ADDRESS}/versions/2")
    assert (ORDER, "schema", f"{ADDRESS}/versions/2") in links(newest)
    assert "/schemagroups/g/schemas/pinned" not in steps(newest)
    assert steps(find(engine, f"{ADDRESS}/versions/1"))["/schemagroups/g/schemas/pinned"] == -1


def test_imports_are_relations(engine: Engine) -> None:
    common, uses = "/schemagroups/g/schemas/common.proto", "/schemagroups/g/schemas/uses"
    assert links(find(engine, uses)) == {(uses, "import", common)}
    assert links(find(engine, common)) == {(uses, "import", common)}


def test_missing_targets_are_shown(engine: Engine) -> None:
    body = json_schema({"properties": {"a": {"$ref": "/schemagroups/g/schemas/none"}}})
    put(engine, {"schemagroups": {"g": {"schemas": {"lost": body}}}})
    result = find(engine, "/schemagroups/g/schemas/lost")
    assert [(entity.id, entity.readable) for entity in result.entities[1:]] == [("/schemagroups/g/schemas/none", False)]
    assert links(result) == {("/schemagroups/g/schemas/lost", "schema", "/schemagroups/g/schemas/none")}


def test_hidden_entities_look_like_missing_ones(engine: Engine) -> None:
    access = reading("/messagegroups", "/endpoints/own")
    result = find(engine, BASE, access)
    assert {entity.id: entity.readable for entity in result.entities}[ORDER] is False
    assert ADDRESS not in steps(result)
    assert "/endpoints/e" not in steps(result)
    for xid in (ORDER, "/schemagroups/g/schemas/none"):
        with pytest.raises(RegistryError, match="not"):
            find(engine, xid, access)


def test_relations_are_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "MAX_ENTITIES_PER_STEP", 2)
    result = find(engine, ADDRESS, steps=3)
    assert next((entry.steps, entry.entities, entry.more) for entry in result.left_out) == (-1, 1, False)
    assert len([entry for entry in result.entities if entry.steps == -1]) == 2
    monkeypatch.setattr(relations, "MAX_ENTITIES", 3)
    assert len(find(engine, ADDRESS).entities) == 3


NAMES = "abcdef"


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    with closing(open_store("sqlite://")) as store:
        yield Engine(store, settings=Settings(base_url=ROOT_URL))


@settings(max_examples=15, deadline=None)
@given(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=14), st.sampled_from(NAMES))
@example({("b", "a"), ("a", "b"), ("a", "c")}, "b")
def test_relations_are_all_reachable_entities(shared: Engine, edges: set[tuple[str, str]], middle: str) -> None:
    group = f"/schemagroups/{uuid4().hex}"
    path = {name: f"{group}/schemas/{name}" for name in NAMES}
    schemas = {
        name: json_schema({"properties": {to: {"$ref": path[to]} for of, to in sorted(edges) if of == name}})
        for name in NAMES
    }
    put(shared, {"schemagroups": {group[14:]: {"schemas": schemas}}})
    result = find(shared, path[middle])
    near = {middle}
    for towards in (edges, {(b, a) for a, b in edges}):
        side = {middle}
        while more := {b for a, b in towards if a in side} - side:
            side |= more
        near |= side
    assert sorted(steps(result)) == sorted(path[name] for name in near)
    among = {(path[a], path[b]) for a, b in edges if {a, b} <= near and a != b}
    assert {(a, b) for a, _, b in links(result)} == among
