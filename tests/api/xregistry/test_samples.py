"""Real registry documents go in through the API and come out equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from signalbook.storage.base import Store

if TYPE_CHECKING:
    from tests.api.conftest import Serve

SCENARIOS = (
    "contoso-erp-jsons07",
    "inkjet-proto3",
    "lightbulb-avro",
    "mqtt-sparkplugB",
    "smartoven-xsd",
    "vacuumcleaner-avro",
    "watchkam-jsons07",
    "waterboiler-mqtt5-jsons07",
    "windgenerator-kafka-avro",
)


def read(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "xregistry-samples" / f"{name}.xreg.json").read_text())
    return document


def missing(sent: Any, shown: Any, path: str = "") -> list[str]:
    """Paths of what was sent and is not shown equal.

    A new Resource with Versions of its own and no ``versionid`` ignores its other attributes (R221).
    """
    if not isinstance(sent, dict) or not isinstance(shown, dict):
        return [] if sent == shown else [path]
    if sent.get("versions"):
        sent = {name: value for name, value in sent.items() if name in ("versions", "meta") or name.endswith("id")}
        sent.pop("defaultversionid", None)  # read-only outside meta
    return [
        place for name, value in sent.items() for place in missing(value, shown.get(name, "missing"), f"{path}/{name}")
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_imports_and_reads_back_equal(store: Store, serve: Serve, shared_data: Path, name: str) -> None:
    document = read(shared_data, name)
    client = serve(store, model="default")
    answer = client.send("POST", "/", json=document)
    assert answer.status_code == 200, answer.text
    assert missing(document, client.get("/?inline=*").json()) == []
    assert set(answer.json()) == set(document)


def repaired(document: dict[str, Any]) -> dict[str, Any]:
    """The catalogue with the url of its schemas under the name that has a meaning."""
    return cast(dict[str, Any], json.loads(json.dumps(document).replace('"schemauri"', '"schemaurl"')))


def test_a_large_catalogue_is_told_all_its_faults(store: Store, serve: Serve, shared_data: Path) -> None:
    """R255: Versions of JSON Schemas without a document; R22."""
    client = serve(store, model="default")
    body = client.refused("PUT", "/", "format_violation", json=read(shared_data, "schemastore_org"))
    assert len(body["faults"]) == 100


def test_a_large_catalogue_imports_where_it_keeps_the_rules(store: Store, serve: Serve, shared_data: Path) -> None:
    """R21, R58, R81: 14 of its schemas change their format between Versions, and each of them is told."""
    document = repaired(read(shared_data, "schemastore_org"))
    schemas = document["schemagroups"]["schemastore_org.json"]["schemas"]
    client = serve(store, model="default")
    faults = client.refused("PUT", "/", "mismatched_version_attribute", json=document)["faults"]
    broken = {fault["path"].rsplit("/", 1)[1] for fault in faults}
    assert len(broken) == 14
    for name in broken:
        del schemas[name]
    assert client.put("/", document).status_code == 200
    assert missing(document, {**client.get("/?inline=*").json(), "$schema": document["$schema"]}) == []
    assert client.get("/schemagroups/schemastore_org.json").json()["schemascount"] == len(schemas)
