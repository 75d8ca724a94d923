from typing import Any

import pytest
import yaml
from tests.engine.search.test_search import reading
from tests.engine.write.test_searchindex import content, write

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.engine.engine import Engine
from signalbook.engine.read import impact
from signalbook.engine.read.impact import Impact
from signalbook.engine.write.searchindex import complete_index
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.xid import Xid

ADDRESS = "/schemagroups/g/schemas/address"
ORDER = "/schemagroups/g/schemas/order"
BASE = "/messagegroups/m/messages/base"
MADE = "/messagegroups/m/messages/made"


def json_schema(document: Any) -> dict[str, Any]:
    return {"format": "JsonSchema/draft-07", "schema": document}


REGISTRY: dict[str, Any] = yaml.safe_load("""
schemagroups:
  g:
    schemas:
      address: {versions: {"1": &empty {format: JsonSchema/draft-07, schema: {}}, "2": *empty}}
      order: {format: JsonSchema/draft-07, schema: {properties: {to: {$ref: /schemagroups/g/schemas/address}}}}
      pinned:
        format: JsonSchema/draft-07
        schema: {properties: {to: {$ref: "http://r.example/schemagroups/g/schemas/address/versions/1"}}}
      copy: {meta: {xref: /schemagroups/g/schemas/address}}
      common.proto: {format: Protobuf/3, schema: 'syntax = "proto3"; message C { string a = 1; }'}
      uses: {format: Protobuf/3, schema: 'syntax = "proto3"; import "common.proto"; message U { C c = 1; }'}
messagegroups:
  m:
    messages:
      base:
        dataschemaformat: JsonSchema/draft-07
        dataschemaxid: /schemagroups/g/schemas/order
        dataschemauri: "#/schemagroups/g/schemas/order"
      made: {basemessage: /messagegroups/m/messages/base}
      again: {basemessage: /messagegroups/m/messages/made}
      late: {relatedto: made}
endpoints:
  e: {usage: [producer], messagegroups: ["#/messagegroups/m"]}
  own: {usage: [producer], messages: {x: {basemessage: /messagegroups/m/messages/made}}}
""")


def put(engine: Engine, body: dict[str, Any]) -> None:
    write(engine, "PATCH", "/", body)


@pytest.fixture
def engine(store: Store) -> Engine:
    new_engine = Engine(store, settings=Settings(base_url="http://r.example/"))
    put(new_engine, REGISTRY)
    return new_engine


def find(engine: Engine, xid: str, access: Access = UNRESTRICTED, depth: int = 10) -> Impact:
    with engine.reading(access) as view:
        return view.find_impact(Xid.parse(xid), depth)


def edges(result: Impact) -> set[tuple[str, str, str]]:
    return {
        (str(dependent.xid).split("/")[-1], dependent.relation, str(dependent.on).split("/")[-1])
        for dependent in result.dependents
    }


OF_MADE = {
    ("again", "basemessage", "made"),
    ("late", "relatedto", "made"),
    ("x", "basemessage", "made"),
    ("own", "messages", "x"),
}


def test_transitive_dependents_are_found(engine: Engine) -> None:
    result = find(engine, ADDRESS)
    assert edges(result) == {
        ("order", "schema", "address"),
        ("pinned", "schema", "address"),
        ("copy", "xref", "address"),
        ("base", "dataschema", "order"),
        ("made", "basemessage", "base"),
        ("e", "messagegroups", "base"),
        *OF_MADE,
    }
    assert result.complete
    assert [dependent.depth for dependent in result.dependents] == sorted(
        dependent.depth for dependent in result.dependents
    )
    assert not find(engine, ADDRESS, depth=2).complete


@pytest.mark.parametrize(
    ("xid", "expected"),
    [
        (f"{ADDRESS}/versions/1", {("pinned", "schema", "1")}),
        (MADE, {("e", "messagegroups", "made"), *OF_MADE}),
        ("/messagegroups/m", {("e", "messagegroups", "m")}),
        ("/schemagroups/g/schemas/common.proto", {("uses", "import", "common.proto")}),
        ("/schemagroups/g/schemas/uses", set()),
    ],
)
def test_dependents_of_an_entity(engine: Engine, xid: str, expected: set[tuple[str, str, str]]) -> None:
    assert edges(find(engine, xid)) == expected


def test_the_default_version_stands_for_its_resource(engine: Engine) -> None:
    assert ("order", "schema", "2") in edges(find(engine, f"{ADDRESS}/versions/2"))
    assert ("pinned", "schema", "2") not in edges(find(engine, f"{ADDRESS}/versions/2"))


def test_circles_of_references_terminate(engine: Engine) -> None:
    write(engine, "PUT", f"{ADDRESS}/versions/3", json_schema({"properties": {"of": {"$ref": ORDER}}}))
    result = find(engine, ADDRESS)
    assert len({dependent.xid for dependent in result.dependents}) == len(result.dependents)
    assert Xid.parse(ADDRESS) not in {dependent.xid for dependent in result.dependents}


def test_hidden_entities_are_not_followed(engine: Engine) -> None:
    access = reading("/schemagroups", "/endpoints", MADE)
    expected = {("order", "schema", "address"), ("pinned", "schema", "address"), ("copy", "xref", "address")}
    assert edges(find(engine, ADDRESS, access)) == expected
    actual = edges(find(engine, MADE, access))
    assert actual == {("x", "basemessage", "made"), ("own", "messages", "x"), ("e", "messagegroups", "made")}
    for xid in (BASE, "/schemagroups/g/schemas/none"):
        with pytest.raises(RegistryError, match="not"):
            find(engine, xid, access)


def test_impact_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impact, "MAX_DEPENDENTS", 3)
    result = find(engine, ADDRESS)
    assert (len(result.dependents), result.complete) == (3, False)


def test_links_equal_a_rebuilt_index(engine: Engine, store: Store) -> None:
    for path in (f"{ORDER}/versions/1", "/schemagroups/g/schemas/uses/versions/1", f"{BASE}/versions/1"):
        write(engine, "PATCH", path, {"description": "changed"})
    before = content(store)
    complete_index(store, root="http://r.example", anew=True)
    assert content(store) == before


def test_a_deleted_entity_refers_to_nothing(engine: Engine) -> None:
    write(engine, "DELETE", ORDER, None)
    assert ("order", "schema", "address") not in edges(find(engine, ADDRESS))
