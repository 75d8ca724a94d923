import pytest
from tests.engine.conftest import Registry, registry_of

from signalbook.engine.read.view import ViewOptions
from signalbook.errors import RegistryError
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

G = "/schemagroups/g"
S = f"{G}/schemas/s"
DRAFT7 = "JsonSchema/draft-07"
AVRO = "Avro/1.11"
RECORD: JSONObject = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


@pytest.fixture
def registry(store: Store) -> Registry:
    return registry_of(store)


def shown(registry: Registry, path: str) -> JSONObject:
    with registry.engine.reading() as view:
        return view.render_entity(Xid.parse(path), ViewOptions(base_url="http://r.example"))


def test_a_groups_format(registry: Registry) -> None:
    """Schemas have the format of their group, which must match the existing schemas (G-1, G-2, G-2b, G-3)."""
    registry.put(G, {"schemas": {"s": {"format": DRAFT7, "schema": {}}}})
    registry.patch(G, {"format": DRAFT7.upper()})
    assert registry.refused("PATCH", G, {"format": AVRO}).code == "constraint_failure"
    assert registry.refused("PUT", f"{G}/schemas/t", {"format": AVRO, "schema": RECORD}).code == "constraint_failure"
    registry.patch(G, {"format": None})
    registry.put(f"{G}/schemas/t", {"format": AVRO, "schema": RECORD})


def test_versions_have_one_format(registry: Registry) -> None:
    """The version of the format counts too; a schema without a format is rejected (G-4, G-5)."""
    registry.put(S, {"format": AVRO, "schema": RECORD})
    error = registry.refused("POST", S, {"format": "Avro/1.12.0", "schema": RECORD})
    assert (error.code, error.arguments) == ("mismatched_version_attribute", {"name": "format"})
    assert registry.refused("PUT", f"{G}/schemas/t", {"schema": {}}).code == "required_attribute_missing"


def test_a_missing_format_is_explained(registry: Registry) -> None:
    """The error names the available formats and suggests that of other Versions, or else a common one (G-4)."""
    detail = registry.refused("PUT", S, {"schema": {}}).detail
    assert detail.startswith(f'name the format of the document, as in "format": "{DRAFT7}"; those that are validated')
    assert all(name in detail for name in (AVRO, "Protobuf/3", "XSD/1.1"))
    registry.put(S, {"format": AVRO, "schema": RECORD})
    assert f'"format": "{AVRO}"' in registry.refused("POST", S, {"schema": RECORD}).detail
    with pytest.raises(RegistryError) as caught:
        registry.put_document(f"{G}/schemas/t", b"{}", "application/json")
    assert f"the header xRegistry-format: {DRAFT7};" in caught.value.detail
    registry.configure("capabilities", {"formats": []}, "PATCH")
    detail = registry.refused("PUT", f"{G}/schemas/t", {"schema": {}}).detail
    assert detail.endswith('"format": "NAME/VERSION"; those that are validated are none')


def test_version_ids_and_lineage(registry: Registry) -> None:
    """Versions have numbers from 1; branches are created by ancestorid (G-6, G-7)."""
    for title in ("one", "two", "three"):
        registry.post(S, {"format": DRAFT7, "schema": {"title": title}})
    registry.patch(f"{S}/versions/3", {"ancestorid": "1"})
    assert registry.ancestors(S) == {"1": "1", "2": "1", "3": "1"}
    assert shown(registry, S)["versionid"] == "3"


def test_a_breaking_change_is_another_schema(registry: Registry) -> None:
    """The old schema refers to the new one (G-6)."""
    registry.put(f"{G}/schemas/order.v1", {"format": AVRO, "schema": RECORD, "meta": {"compatibility": "full"}})
    broken = {"format": AVRO, "schema": {**RECORD, "fields": [{"name": "a", "type": "string"}]}}
    assert registry.refused("POST", f"{G}/schemas/order.v1", broken).code == "compatibility_violation"
    registry.put(f"{G}/schemas/order.v2", broken)
    alternative = f"http://r.example{G}/schemas/order.v2"
    registry.patch(f"{G}/schemas/order.v1/meta", {"deprecated": {"alternative": alternative}})


def test_documents_and_their_urls(registry: Registry) -> None:
    """The document is unchanged, and events name the URL of its Version as their dataschema (G-8, G-9)."""
    registry.put_document(S, b'{ "type": "object" }', "application/schema+json", format=DRAFT7)
    with registry.engine.reading() as view:
        document = view.load_document(Xid.parse(S), ViewOptions())
    assert (document.content, document.contenttype) == (b'{ "type": "object" }', "application/schema+json")
    assert shown(registry, f"{S}/versions/1")["self"] == f"http://r.example{S}/versions/1$details"


def test_no_switch_for_validation(registry: Registry) -> None:
    """The attribute meta.validation of earlier drafts is unknown (G-10)."""
    registry.put(S, {"format": DRAFT7, "schema": {}})
    assert registry.refused("PATCH", f"{S}/meta", {"validation": True}).code == "unknown_attribute"


@pytest.mark.parametrize(
    ("versions", "code"),
    [
        ({"1": {"format": DRAFT7, "schema": {"type": 5}}, "2": {"format": AVRO, "schema": RECORD}}, "format_violation"),
        ({"1": {"format": DRAFT7, "schema": {}}, "2": {"format": AVRO, "schema": RECORD}}, "constraint_failure"),
    ],
)
def test_the_order_of_checks(registry: Registry, versions: JSON, code: str) -> None:
    """The order is formats, constraints of the group, equal attributes of Versions, compatibility (G-18, R216)."""
    registry.put(G, {"format": DRAFT7})
    assert registry.refused("PUT", S, {"versions": versions, "meta": {"compatibility": "full"}}).code == code
    registry.patch(G, {"format": None})
    if code == "constraint_failure":
        error = registry.refused("PUT", S, {"versions": versions, "meta": {"compatibility": "full"}})
        assert error.code == "mismatched_version_attribute"


def test_outcomes_are_the_servers(registry: Registry) -> None:
    """The outcomes are read-only, exist exactly if they were requested, and do not change the Version
    (G-19 to G-22).
    """
    registry.put(S, {"format": AVRO, "schema": RECORD, "formatvalidated": False, "formatvalidatedreason": "mine"})
    assert shown(registry, S)["formatvalidated"] is True
    assert not {"formatvalidatedreason", "compatibilityvalidated"} & shown(registry, S).keys()
    epoch = shown(registry, S)["epoch"]
    registry.patch(f"{S}/meta", {"compatibility": "backward"})
    assert (shown(registry, S)["compatibilityvalidated"], shown(registry, S)["epoch"]) == (True, epoch)


def test_compatibility_needs_formats(registry: Registry) -> None:
    """G-24, R100."""
    files = {"singular": "file", "validatecompatibility": True}
    source = {"groups": {"dirs": {"singular": "dir", "resources": {"files": files}}}}
    assert registry.refused_configuration("modelsource", source).code == "model_error"


def test_messages_live_in_groups(registry: Registry) -> None:
    """A message is in a group or an endpoint, and can be replaced (F-3, F-54, F-55)."""
    with pytest.raises(RegistryError):
        registry.put("/messages/m", {})
    registry.put("/messagegroups/g/messages/shop.order.placed", {"envelope": "CloudEvents/1.0", "envelopemetadata": {}})
    registry.put("/endpoints/e/messages/m", {})
    replaced = {"alternative": "http://r.example/messagegroups/g/messages/shop.order.placed.v2"}
    registry.patch("/messagegroups/g/messages/shop.order.placed/meta", {"deprecated": replaced})


def test_names_unknown_to_generated_schemas_are_accepted(registry: Registry) -> None:
    """The model decides, not the code generated from it: selectors in any case, and basemessage as well as
    basemessageuri (F-57b).
    """
    body: JSONObject = {"envelope": "cloudevents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
    registry.put("/messagegroups/g/messages/a", body)
    registry.put("/messagegroups/g/messages/b", {"basemessage": "/messagegroups/g/messages/a"})
    registry.put("/messagegroups/g/messages/c", {"basemessageuri": "/messagegroups/g/messages/a"})
    options: JSONObject = {"application-properties": {"a": {"type": "string", "value": "b"}}}
    registry.put("/messagegroups/g/messages/d", {"protocol": "amqp/1.0", "protocoloptions": options})
