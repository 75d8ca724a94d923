"""Imports of Protobuf: what the registry makes of them, and the pipeline alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.conftest import Registry

from signalbook.engine.engine import Engine
from signalbook.engine.read.inlining import ALL
from signalbook.engine.read.view import ViewOptions
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import ROOT

MONEY = 'syntax = "proto3"; package m; message Money { int32 units = 1; }'
SHOP = "/schemagroups/shop"
ORDER = f"{SHOP}/schemas/order"


def registry_of(store: Store) -> Registry:
    return Registry(Engine(store, settings=Settings(registry_id="test")), store)


@pytest.fixture
def registry(store: Store) -> Registry:
    return registry_of(store)


def schema(text: str = MONEY, **more: Any) -> JSONObject:
    return {"format": "Protobuf/3", "contenttype": "text/plain", "schema": text, **more}


def order(path: str, type: str = "m.Money") -> JSONObject:
    return schema(f'syntax = "proto3"; import "{path}"; message Order {{ {type} price = 1; }}')


def groups(**schemas: JSONObject) -> JSONObject:
    return {name: {"schemas": members} for name, members in schemas.items()}


def outcome(registry: Registry, path: str = ORDER) -> tuple[Any, str]:
    attributes = registry.row(f"{path}/versions/1").attributes
    return attributes["formatvalidated"], attributes.get("formatvalidatedreason", "")


def by_pipeline(registry: Registry, path: str) -> bytes | None:
    """What the order's schema imports, as a pipeline has it that reads this registry."""
    with registry.engine.reading() as view:
        shown = view.entity(ROOT, ViewOptions(inline=ALL, doc=True))
    snapshot = Snapshot.of_documents([("registry", shown)])
    return Snapshot.from_json(snapshot.to_json()).imported(path, f"{ORDER}/versions/1")


CASES: list[tuple[str, JSONObject, bool]] = [
    ("money.proto", groups(shop={"money": schema()}), True),
    ("money.proto", groups(shop={"money.proto": schema()}), True),
    ("money.proto", groups(common={"money": schema()}), True),
    ("common/money.proto", groups(common={"money": schema()}), True),
    ("a/b/money.proto", groups(common={"a.b.money": schema()}), True),
    ("a/b/money.proto", groups(shop={"x": schema(name="a/b/money.proto")}), True),
    ("a/b/money.proto", groups(common={"x": schema(name="a/b/money")}), True),
    ("a/b/money.proto", {"c": {"labels": {"protobuf.root": "a/b"}, "schemas": {"money": schema()}}}, True),
    ("schemagroups/c/schemas/money.proto", groups(c={"money": schema()}), True),
    ("schemagroups/c/schemas/money.proto", groups(c={"money.proto": schema()}), True),
    ("schemagroups/c/schemas/money/versions/1.proto", groups(c={"money": schema()}), True),
    ("money.proto", groups(one={"money": schema()}, two={"money": schema()}), False),
    ("money.proto", groups(shop={"money": {"format": "Avro/1.12.0", "schema": {"type": "string"}}}), False),
    ("b/money.proto", groups(common={"money": schema()}), False),
]


@pytest.mark.parametrize(("path", "others", "found"), CASES)
def test_registry_and_pipeline_find_the_same(
    sqlite_store: Callable[[], Store], path: str, others: JSONObject, found: bool
) -> None:
    registry = registry_of(sqlite_store())
    registry.patch("/", {"schemagroups": others})
    registry.put(ORDER, order(path))
    validated, reason = outcome(registry)
    assert validated is found, reason
    assert ("" if found else f"it imports '{path}', which is missing") == reason.partition(":")[0]
    assert (by_pipeline(registry, path) is not None) is found


@pytest.mark.parametrize("group", ["shop", "common"])
@pytest.mark.parametrize("together", [True, False])
def test_stored_or_in_the_same_request(registry: Registry, group: str, together: bool) -> None:
    bodies = [groups(**{group: {"money": schema()}}), groups(shop={"order": order("money.proto")})]
    if together:
        bodies = [{name: merged(bodies, name) for name in ("common", "shop")}]
    for body in bodies:
        registry.patch("/", {"schemagroups": body})
    assert outcome(registry) == (True, "")


def merged(bodies: list[JSONObject], name: str) -> JSONObject:
    return {"schemas": {key: each for body in bodies for key, each in body.get(name, {}).get("schemas", {}).items()}}


def test_what_is_imported_is_read(registry: Registry) -> None:
    """A document that goes wrong only with what it imports is refused."""
    registry.put(f"{SHOP}/schemas/money", schema())
    error = registry.refused("PUT", ORDER, order("money.proto", "m.Mony"))
    assert (error.code, [fault.message for fault in error.faults]) == (
        "format_violation",
        ['"m.Mony" is not defined.'],
    )


def test_imports_of_imports(registry: Registry) -> None:
    """The file that has the import that leads nowhere is named."""
    price = 'syntax = "proto3"; import "money.proto"; message Price { m.Money of = 1; }'
    registry.put(f"{SHOP}/schemas/price", schema(price))
    registry.put(ORDER, order("price.proto", "Price"))
    assert outcome(registry)[1].startswith("price.proto imports 'money.proto', which is missing")
    registry.put(f"{SHOP}/schemas/money", schema())
    assert outcome(registry)[0] is False
    # Any write looks again, be it one that says nothing.
    registry.patch(f"{ORDER}/versions/1", {})
    assert outcome(registry) == (True, "")


def test_what_was_true_of_an_import_is_looked_at_again(registry: Registry) -> None:
    """By a write to the Version that imports it, be it one that says nothing; until then it stands."""
    registry.put(f"{SHOP}/schemas/money", schema())
    registry.put(ORDER, order("money.proto"))
    registry.put(f"{SHOP}/schemas/money", schema('syntax = "proto3"; package m; message Coins {}'))
    assert outcome(registry) == (True, "")
    assert registry.refused("PATCH", f"{ORDER}/versions/1", {}).code == "format_violation"
    registry.delete(f"{SHOP}/schemas/money")
    assert outcome(registry) == (True, "")
    registry.patch(f"{ORDER}/versions/1", {})
    assert outcome(registry)[1].startswith("it imports 'money.proto', which is missing")
    registry.put(f"{SHOP}/schemas/money", schema())
    registry.patch(f"{ORDER}/versions/1", {})
    assert outcome(registry) == (True, "")


def test_google_is_built_in(registry: Registry) -> None:
    registry.put(ORDER, order("google/type/money.proto", "google.type.Money"))
    assert outcome(registry) == (True, "")
    # A file of its own group takes the place of what is built in.
    registry.put(f"{SHOP}/schemas/google.type.money", schema(MONEY.replace("package m", "package google.type")))
    registry.put(ORDER, order("google/type/money.proto", "google.type.Money"))
    assert outcome(registry) == (True, "")
    assert by_pipeline(registry, "google/type/money.proto") is not None


def test_a_strict_model_takes_nothing_half(registry: Registry) -> None:
    with registry.engine.reading() as view:
        source = view.modelsource()
    source["groups"]["schemagroups"]["resources"]["schemas"]["strictvalidation"] = True
    registry.configure("modelsource", source)
    error = registry.refused("PUT", ORDER, order("money.proto"))
    assert (error.code, error.faults[0].rule) == ("format_violation", "import")


def test_versions_are_compared_with_what_they_import(registry: Registry) -> None:
    registry.put(f"{SHOP}/schemas/money", schema())
    registry.put(ORDER, {**order("money.proto"), "meta": {"compatibility": "backward"}})
    text = 'syntax = "proto3"; import "money.proto"; message Order { string price = 1; m.Money other = 2; }'
    assert registry.refused("POST", ORDER, schema(text)).code == "compatibility_violation"
