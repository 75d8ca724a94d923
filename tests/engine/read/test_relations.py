"""What is around an entity, on each database; and, whatever refers to what, that links among it are all there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.read.test_impact import ADDRESS, BASE, MADE, ORDER, REGISTRY, json_schema
from tests.engine.search.test_finding import reading

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.engine.engine import Engine
from signalbook.engine.read import relations
from signalbook.engine.read.relations import Relations, find_relations
from signalbook.engine.write.commands import Command, Method
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store, open_store
from signalbook.xid import ROOT, Xid

ROOT_URL = "http://r.example"


def put(engine: Engine, body: dict[str, Any]) -> None:
    with engine.writing() as session:
        session.execute(Command(method=Method.PATCH, target=ROOT, body=body))


@pytest.fixture
def engine(store: Store) -> Engine:
    made = Engine(store, settings=Settings(base_url=f"{ROOT_URL}/"))
    put(made, REGISTRY)
    return made


def find(engine: Engine, xid: str, access: Access = UNRESTRICTED, steps: int = 10) -> Relations:
    with engine.reading(access) as view:
        return find_relations(view, Xid.parse(xid), ROOT_URL, steps)


def steps(found: Relations) -> dict[str, int]:
    return {each.id: each.steps for each in found.entities}


def links(found: Relations) -> set[tuple[str, str, str]]:
    return {(each.source, each.kind, each.target) for each in found.relations}


def test_both_directions_step_by_step(engine: Engine) -> None:
    found = find(engine, BASE)
    assert steps(found) == {
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
    assert links(found) >= {
        (MADE, "basemessage", BASE),
        ("/messagegroups/m", "messages", BASE),
        ("/messagegroups/m", "messages", MADE),
        ("/endpoints/e", "messagegroups", "/messagegroups/m"),
        ("/endpoints/own", "messages", "/endpoints/own/messages/x"),
        (BASE, "dataschema", ORDER),
        (ORDER, "schema", ADDRESS),
        ("/messagegroups/m/messages/late", "relatedto", MADE),
    }
    assert not found.farther
    assert found.left_out == ()
    assert find(engine, BASE, steps=2).farther


def test_a_group_has_its_messages_behind_it(engine: Engine) -> None:
    found = steps(find(engine, "/endpoints/e"))
    assert (found["/messagegroups/m"], found[BASE], found[ORDER], found[ADDRESS]) == (1, 2, 3, 4)
    assert steps(find(engine, "/schemagroups/g", steps=1))[ADDRESS] == 1


def test_a_version_stands_for_what_has_it(engine: Engine) -> None:
    """Links to the schema are links to its default Version, and who names another one is not concerned."""
    newest = find(engine, f"{ADDRESS}/versions/2")
    assert (ORDER, "schema", f"{ADDRESS}/versions/2") in links(newest)
    assert "/schemagroups/g/schemas/pinned" not in steps(newest)
    assert steps(find(engine, f"{ADDRESS}/versions/1"))["/schemagroups/g/schemas/pinned"] == -1


def test_files_that_are_imported(engine: Engine) -> None:
    common, uses = "/schemagroups/g/schemas/common.proto", "/schemagroups/g/schemas/uses"
    assert links(find(engine, uses)) == {(uses, "import", common)}
    assert links(find(engine, common)) == {(uses, "import", common)}


def test_what_is_named_and_not_there(engine: Engine) -> None:
    body = json_schema({"properties": {"a": {"$ref": "/schemagroups/g/schemas/none"}}})
    put(engine, {"schemagroups": {"g": {"schemas": {"lost": body}}}})
    found = find(engine, "/schemagroups/g/schemas/lost")
    assert [(each.id, each.there) for each in found.entities[1:]] == [("/schemagroups/g/schemas/none", False)]
    assert links(found) == {("/schemagroups/g/schemas/lost", "schema", "/schemagroups/g/schemas/none")}


def test_what_is_hidden_looks_like_what_is_missing(engine: Engine) -> None:
    access = reading("/messagegroups", "/endpoints/own")
    found = find(engine, BASE, access)
    assert {each.id: each.there for each in found.entities}[ORDER] is False
    assert ADDRESS not in steps(found)
    assert "/endpoints/e" not in steps(found)
    for xid in (ORDER, "/schemagroups/g/schemas/none"):
        with pytest.raises(RegistryError, match="not"):
            find(engine, xid, access)


def test_it_is_bounded_and_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "WIDTH", 2)
    found = find(engine, ADDRESS, steps=3)
    assert next((each.steps, each.entities, each.more) for each in found.left_out) == (-1, 1, False)
    assert len([each for each in found.entities if each.steps == -1]) == 2
    monkeypatch.setattr(relations, "MOST", 3)
    assert len(find(engine, ADDRESS).entities) == 3


NAMES = "abcdef"


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    with closing(open_store("sqlite://")) as store:
        yield Engine(store, settings=Settings(base_url=ROOT_URL))


@settings(max_examples=15, deadline=None)
@given(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=14), st.sampled_from(NAMES))
def test_relations_are_all_reachable_entities(shared: Engine, edges: set[tuple[str, str]], middle: str) -> None:
    group = f"/schemagroups/{uuid4().hex}"
    path = {name: f"{group}/schemas/{name}" for name in NAMES}
    schemas = {
        name: json_schema({"properties": {to: {"$ref": path[to]} for of, to in sorted(edges) if of == name}})
        for name in NAMES
    }
    put(shared, {"schemagroups": {group[14:]: {"schemas": schemas}}})
    found = find(shared, path[middle])
    near = {middle}
    for towards in (edges, {(b, a) for a, b in edges}):
        side = {middle}
        while more := {b for a, b in towards if a in side} - side:
            side |= more
        near |= side
    assert sorted(steps(found)) == sorted(path[name] for name in near)
    among = {(path[a], path[b]) for a, b in edges if {a, b} <= near and a != b}
    assert {(a, b) for a, _, b in links(found)} == among
