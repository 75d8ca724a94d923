"""Which schemas a registry finds by the names that documents use, and a pipeline that reads the registry."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.conftest import Registry, registry_of

from signalbook.access.base import Identity
from signalbook.access.policy import read_policy
from signalbook.engine.read.nodes import ALL
from signalbook.engine.read.relations import find_relations
from signalbook.engine.read.schemas import SchemaReferences
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, Method
from signalbook.formats.base import Resolve, SchemaError, find
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

MakeStore = Callable[[], Store]
MONEY = 'syntax = "proto3"; package m; message Money { int32 units = 1; }'
SHOP = "/schemagroups/shop"
ORDER = f"{SHOP}/schemas/order"


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
    """Return what the order's schema imports in a pipeline that reads this registry."""
    with registry.engine.reading() as view:
        exported = view.render_entity(ROOT, ViewOptions(inline=ALL, doc=True))
    snapshot = Snapshot.of_documents([("registry", exported)])
    return Snapshot.from_json(snapshot.to_json()).find_import(path, f"{ORDER}/versions/1")


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


@pytest.mark.parametrize(("path", "other_groups", "is_found"), CASES)
def test_registry_and_pipeline_resolve_equally(
    sqlite_store: MakeStore, path: str, other_groups: JSONObject, is_found: bool
) -> None:
    registry = registry_of(sqlite_store())
    registry.patch("/", {"schemagroups": other_groups})
    registry.put(ORDER, order(path))
    validated, reason = outcome(registry)
    assert validated is is_found, reason
    assert ("" if is_found else f"it imports '{path}', which is missing") == reason.partition(":")[0]
    assert (by_pipeline(registry, path) is not None) is is_found


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
    return {
        "schemas": {key: schema_ for body in bodies for key, schema_ in body.get(name, {}).get("schemas", {}).items()}
    }


def test_error_in_an_import_is_rejected(registry: Registry) -> None:
    """A document that goes wrong only with what it imports is refused."""
    registry.put(f"{SHOP}/schemas/money", schema())
    error = registry.refused("PUT", ORDER, order("money.proto", "m.Mony"))
    assert (error.code, [fault.message for fault in error.faults]) == ("format_violation", ['"m.Mony" is not defined.'])


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


def test_changed_import_is_validated_at_the_next_write(registry: Registry) -> None:
    """A write to the importing Version validates the import again, even an empty one. Until then the old verdict
    stands.
    """
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


def test_versions_are_compared_with_their_imports(registry: Registry) -> None:
    registry.put(f"{SHOP}/schemas/money", schema())
    registry.put(ORDER, {**order("money.proto"), "meta": {"compatibility": "backward"}})
    text = 'syntax = "proto3"; import "money.proto"; message Order { string price = 1; m.Money other = 2; }'
    assert registry.refused("POST", ORDER, schema(text)).code == "compatibility_violation"


ADDRESS = {"type": "object", "properties": {"zip": {"type": "string"}}}
URI = "https://example.org/schemas"
COMMON_XSD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
    '<xs:simpleType name="Code"><xs:restriction base="xs:string"/></xs:simpleType></xs:schema>'
)


def json_schema(id: str = "", **more: Any) -> JSONObject:
    identifier = {"$id": id} if id else {}
    return {"format": "JsonSchema/draft/2020-12", "schema": {**identifier, **ADDRESS}, **more}


def json_order(ref: str, id: str = "") -> JSONObject:
    identifier = {"$id": id} if id else {}
    return {"format": "JsonSchema/draft/2020-12", "schema": {**identifier, "properties": {"address": {"$ref": ref}}}}


def xsd(text: str) -> JSONObject:
    return {"format": "XSD/1.1", "contenttype": "text/plain", "schema": text}


def xsd_order(location: str) -> JSONObject:
    return xsd(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        f'<xs:include schemaLocation="{location}"/><xs:element name="order" type="Code"/></xs:schema>'
    )


NAMESPACE = f"{URI}/ns"
NAMESPACE_XSD = COMMON_XSD.replace("<xs:schema ", f'<xs:schema targetNamespace="{NAMESPACE}" ')


def xsd_import(namespace: str = NAMESPACE) -> JSONObject:
    return xsd(
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:b="{namespace}">'
        f'<xs:import namespace="{namespace}"/><xs:element name="order" type="b:Code"/></xs:schema>'
    )


def avro(type: Any) -> JSONObject:
    return {"format": "Avro/1.12.0", "schema": type}


def avro_order(type: str) -> JSONObject:
    return avro({"type": "record", "name": "a.Order", "fields": [{"name": "address", "type": type}]})


AVRO_ADDRESS = avro({"type": "record", "name": "Address", "namespace": "a", "fields": []})
OWN = f"{URI}/order.json"
OTHER_FORMATS: list[tuple[JSONObject, JSONObject, bool]] = [
    # By absolute $id, and relative to the $id of the schema that refers.
    (json_order(f"{URI}/address"), groups(shop={"x": json_schema(f"{URI}/address")}), True),
    (json_order(f"{URI}/address#/properties/zip"), groups(shop={"x": json_schema(f"{URI}/address#")}), True),
    (json_order("address", OWN), groups(other={"x": json_schema(f"{URI}/address")}), True),
    (json_order("urn:example:address"), groups(shop={"x": json_schema("urn:example:address")}), True),
    (json_order(f"{URI}/nothing"), groups(shop={"x": json_schema(f"{URI}/address")}), False),
    # One in the own group comes before those of others; of several others none is meant.
    (json_order(f"{URI}/a"), groups(shop={"x": json_schema(f"{URI}/a")}, b={"x": json_schema(f"{URI}/a")}), True),
    (json_order(f"{URI}/a"), groups(b={"x": json_schema(f"{URI}/a")}, c={"x": json_schema(f"{URI}/a")}), False),
    # By path, whatever the $id of either is.
    (json_order("./address.json"), groups(shop={"address": json_schema(f"{URI}/elsewhere")}), True),
    (json_order("address.json", OWN), groups(shop={"address": json_schema()}), True),
    (json_order("address.schema.json"), groups(shop={"address.json": json_schema()}), True),
    (json_order("address"), groups(shop={"address": json_schema()}), True),
    (json_order("../common/address.json"), groups(common={"address": json_schema()}), True),
    (json_order("../common/address.json", OWN), groups(common={"address": json_schema()}), True),
    (json_order("common/address.json"), groups(shop={"x": json_schema(name="common/address.json")}), True),
    (json_order("Address.json"), groups(shop={"x": json_schema(name="Address")}), False),  # a title is no path
    (json_order("/address.json"), groups(shop={"x": json_schema("/address.json")}), True),
    (json_order("address.xsd"), groups(shop={"address": json_schema()}), False),
    # By xid, also where the schema that refers has an $id.
    (json_order("/schemagroups/common/schemas/address"), groups(common={"address": json_schema()}), True),
    (json_order("/schemagroups/common/schemas/address", OWN), groups(common={"address": json_schema()}), True),
    (json_order("/schemagroups/common/schemas/nothing"), groups(common={"address": json_schema()}), False),
    (json_order("../../../../etc/passwd"), {}, False),
    # The same in other formats.
    (xsd_order("common.xsd"), groups(shop={"common": xsd(COMMON_XSD)}), True),
    (xsd_order("../base/common.xsd"), groups(base={"common": xsd(COMMON_XSD)}), True),
    (xsd_order("/schemagroups/base/schemas/common"), groups(base={"common": xsd(COMMON_XSD)}), True),
    (xsd_order("common.xsd"), groups(shop={"common": json_schema()}), False),
    # By namespace, which is another name than the $id of a JSON Schema.
    (xsd_import(), groups(shop={"x": xsd(NAMESPACE_XSD), "y": json_schema(NAMESPACE)}), True),
    (json_order(NAMESPACE), groups(shop={"x": xsd(NAMESPACE_XSD), "y": json_schema(NAMESPACE)}), True),
    (xsd_import(), groups(other={"x": xsd(NAMESPACE_XSD)}), True),
    (xsd_import("urn:b"), groups(shop={"x": xsd(NAMESPACE_XSD)}), False),
    (xsd_import(), groups(shop={"x": xsd(NAMESPACE_XSD), "y": xsd(NAMESPACE_XSD)}), False),
    (avro_order("a.Address"), groups(shop={"x": AVRO_ADDRESS}), True),
    (avro_order("Address"), groups(other={"x": AVRO_ADDRESS}), True),
]


@pytest.mark.parametrize(("body", "other_groups", "is_found"), OTHER_FORMATS)
@pytest.mark.parametrize("together", [False, True])
def test_other_formats_follow_the_same_rules(
    sqlite_store: MakeStore, body: JSONObject, other_groups: JSONObject, is_found: bool, together: bool
) -> None:
    registry = registry_of(sqlite_store())
    if together:
        schemas = {"order": body, **other_groups.get("shop", {}).get("schemas", {})}
        registry.patch("/", {"schemagroups": {**other_groups, "shop": {"schemas": schemas}}})
    else:
        registry.patch("/", {"schemagroups": other_groups})
        registry.put(ORDER, body)
    assert outcome(registry)[0] is is_found, outcome(registry)[1]
    assert [is_usable(body, resolve) for resolve in resolvers(registry)] == [is_found, is_found]


def resolvers(registry: Registry) -> list[Resolve]:
    """Return the resolvers of a registry view and of a pipeline that reads the registry."""
    version = f"{ORDER}/versions/1"
    with registry.engine.reading() as view:
        exported = view.render_entity(ROOT, ViewOptions(inline=ALL, doc=True))
    snapshot = Snapshot.from_json(Snapshot.of_documents([("registry", exported)]).to_json())

    def viewed(name: str) -> bytes | None:
        with registry.engine.reading() as view:
            return SchemaReferences(view, "").find_content(Xid.parse(version), name)

    return [viewed, lambda name: snapshot.find_import(name, version)]


def is_usable(body: JSONObject, resolve: Resolve) -> bool:
    content = body["schema"] if isinstance(body["schema"], str) else json.dumps(body["schema"])
    try:
        find(body["format"]).parse(content.encode(), body["format"], resolve=resolve)  # type: ignore[union-attr]
    except SchemaError:
        return False
    return True


def test_undefined_avro_type_is_an_error(registry: Registry) -> None:
    assert registry.refused("PUT", ORDER, avro_order("a.Address")).code == "format_violation"


def test_other_documents_by_the_names_they_have_now(registry: Registry) -> None:
    """Also where the same request gives them other ones, or takes them away."""
    registry.put(f"{SHOP}/schemas/x", json_schema(f"{URI}/old"))
    moved = {"schemas": {"x": json_schema(f"{URI}/new"), "order": json_order(f"{URI}/old")}}
    registry.patch(SHOP, moved)
    assert outcome(registry)[0] is False
    moved["schemas"]["order"] = json_order(f"{URI}/new")
    registry.patch(SHOP, moved)
    assert outcome(registry) == (True, "")
    # The newer default Version has another identity.
    registry.post(f"{SHOP}/schemas/x", {"versionid": "2", **json_schema(f"{URI}/newer")})
    registry.patch(f"{ORDER}/versions/1", {})
    assert outcome(registry)[0] is False
    registry.put(ORDER, json_order(f"{URI}/newer"))
    assert outcome(registry) == (True, "")


def test_references_are_checked_again_after_renaming(registry: Registry) -> None:
    """The same request refers to an older Version that becomes the default one, and to another name."""
    text = 'syntax = "proto3"; import "new/a.proto"; message Order { m.Money price = 1; }'
    registry.put(f"{SHOP}/schemas/x", json_schema(f"{URI}/old"))
    registry.post(f"{SHOP}/schemas/x", {"versionid": "2", **json_schema(f"{URI}/new")})
    registry.put(f"{SHOP}/schemas/y", schema(name="old/a.proto"))
    renamed = {"x": {"meta": {"defaultversionid": "1", "defaultversionsticky": True}}, "y": {"name": "new/a.proto"}}
    by_id = {f"by_{age}_id": json_order(f"{URI}/{age}") for age in ("old", "new")}
    by_name = {f"by_{age}_name": schema(text.replace("new/", f"{age}/")) for age in ("old", "new")}
    registry.patch(SHOP, {"schemas": {**renamed, **by_id, **by_name}})
    names = ("by_old_id", "by_new_id", "by_new_name", "by_old_name")
    assert [outcome(registry, f"{SHOP}/schemas/{name}")[0] for name in names] == [True, False, True, False]
    # The format decides which names a schema has.
    registry.patch(SHOP, {"schemas": {"y": {"format": "Other/1"}, "by_new_name": schema(text)}})
    assert outcome(registry, f"{SHOP}/schemas/by_new_name")[0] is False


def test_references_are_checked_again_after_many_renamings(registry: Registry) -> None:
    numbers = range(250)
    registry.patch(SHOP, {"schemas": {f"s{number}": json_schema(f"{URI}/{number}") for number in numbers}})
    renamed = {f"s{number}": {"name": f"new/{number}.json"} for number in numbers}
    refs = {f"r{number}": json_order(f"../new/{number}.json") for number in (0, 120, 249)}
    registry.patch(SHOP, {"schemas": {**renamed, **refs}})
    assert [outcome(registry, f"{SHOP}/schemas/{name}") for name in refs] == [(True, "")] * 3


def test_cross_references_of_the_same_request_are_resolved(registry: Registry) -> None:
    target = "/schemagroups/base/schemas/t"
    registry.put(target, json_schema(f"{URI}/t"))
    for name in ("x", "y"):
        registry.put(f"{SHOP}/schemas/{name}", {"meta": {"xref": target}})
    reference = {"meta": {"xref": target}}
    orders = {f"by_{name}": json_order(f"./{name}.json") for name in ("x", "y", "new")}
    shop = {"schemas": {"x": reference, "new": reference, **orders, "by_id": json_order(f"{URI}/t")}}
    registry.patch("/", {"schemagroups": {"shop": shop, "base": {"schemas": {"t": {"name": "new/t.json"}}}}})
    assert [outcome(registry, f"{SHOP}/schemas/{name}") for name in (*orders, "by_id")] == [(True, "")] * 4
    # Cross references that lead to each other show no document.
    circle = {name: {"meta": {"xref": f"{SHOP}/schemas/{other}"}} for name, other in (("x", "y"), ("y", "x"))}
    for _ in range(2):
        registry.patch(SHOP, {"schemas": {**circle, "by_x": orders["by_x"]}})
        assert outcome(registry, f"{SHOP}/schemas/by_x")[0] is False


def test_writes_of_one_transaction_see_each_other(registry: Registry) -> None:
    with registry.engine.batch() as batch:
        for path, body in ((f"{SHOP}/schemas/x", json_schema(f"{URI}/a")), (ORDER, json_order(f"{URI}/a"))):
            with batch.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(path), body=body))
    assert outcome(registry) == (True, "")


@pytest.mark.parametrize("id", ["common", "z.common"])
def test_many_schemas_of_similar_names(sqlite_store: MakeStore, id: str) -> None:
    """The schema that is meant comes after more than a thousand others."""
    registry = registry_of(sqlite_store())
    many = {f"h{number}": {"schemas": {id: json_schema(f"{URI}/many")}} for number in range(1_010)}
    registry.patch("/", {"schemagroups": many})
    registry.put("/schemagroups/k/schemas/common", json_schema())
    registry.put(ORDER, json_order("../k/common.json"))
    assert outcome(registry) == (True, "")
    registry.put(ORDER, json_order(f"{URI}/many"))
    assert outcome(registry)[0] is False


def test_hidden_schemas_are_not_resolved(registry: Registry) -> None:
    registry.put("/schemagroups/secret/schemas/x", json_schema(f"{URI}/a"))
    rule = {"who": ["anyone"], "role": "writer", "on": ["/schemagroups/shop"]}
    access = read_policy({"rules": [rule]}).access(Identity(subject="ann"))
    for ref in (f"{URI}/a", "/schemagroups/secret/schemas/x", "../secret/x.json"):
        with registry.engine.trying() as batch, batch.writing(access) as session:
            session.execute(Command(method=Method.PUT, target=Xid.parse(ORDER), body=json_order(ref)))
            row = session.transaction.entities.get(Xid.parse(f"{ORDER}/versions/1"))
            assert row is not None
            assert "no such document was found" in row.attributes["formatvalidatedreason"]
        with registry.engine.reading(access) as view:
            assert SchemaReferences(view, "").find_content(Xid.parse(f"{ORDER}/versions/1"), ref) is None


@pytest.mark.parametrize(
    ("body", "name", "other"),
    [
        (json_order(f"{URI}/address"), "x", json_schema(f"{URI}/address")),
        (json_order("address", OWN), "x", json_schema(f"{URI}/address")),
        (json_order("./address.json"), "address", json_schema(f"{URI}/elsewhere")),
        (xsd_order("common.xsd"), "common", xsd(COMMON_XSD)),
        (avro_order("a.Address"), "x", AVRO_ADDRESS),
    ],
)
def test_dependents_are_found(sqlite_store: MakeStore, body: JSONObject, name: str, other: JSONObject) -> None:
    registry = registry_of(sqlite_store())
    target = Xid.parse(f"{SHOP}/schemas/{name}")
    registry.put(str(target), other)
    registry.put(ORDER, body)
    with registry.engine.reading() as view:
        assert [str(dependent.xid) for dependent in view.find_direct_dependents(target, 10)] == [ORDER]
        around = find_relations(view, Xid.parse(ORDER), "", 1)
        assert {(dependent.steps, dependent.id) for dependent in around.entities} == {(0, ORDER), (1, str(target))}
