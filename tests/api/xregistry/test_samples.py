"""Real registry documents go in through the API and come out equal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.api.conftest import Serve

from signalbook.storage.store import Store

FORMAT = "JsonSchema/draft-07"
SCENARIOS = """contoso-erp-jsons07 inkjet-proto3 lightbulb-avro mqtt-sparkplugB smartoven-xsd vacuumcleaner-avro
    watchkam-jsons07 waterboiler-mqtt5-jsons07 windgenerator-kafka-avro workshop workshop-xsd"""


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def missing(sent: Any, stored: Any, path: str = "") -> list[str]:
    """Paths of what was sent and is not shown equal.

    A new Resource with Versions of its own and no ``versionid`` ignores its other attributes (R221).
    """
    if not isinstance(sent, dict) or not isinstance(stored, dict):
        return [] if sent == stored else [path]
    if sent.get("versions"):
        sent = {name: value for name, value in sent.items() if name in ("versions", "meta") or name.endswith("id")}
        sent.pop("defaultversionid", None)  # read-only outside meta
    return [
        place for name, value in sent.items() for place in missing(value, stored.get(name, "missing"), f"{path}/{name}")
    ]


@pytest.mark.parametrize("name", SCENARIOS.split())
def test_a_scenario_imports_and_reads_back_equal(
    store: Store, serve: Serve, sample_file: Callable[[str], Path], name: str
) -> None:
    document = read(sample_file(f"{name}.xreg.json"))
    client = serve(store, model="default")
    answer = client.send("POST", "/", json=document)
    assert answer.status_code == 200, answer.text
    assert missing(document, client.get("/?inline=*").json()) == []
    assert set(answer.json()) == set(document)
    for xid, text in texts(document):
        assert client.get(xid).text == text


def texts(sent: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The Versions of schemas whose document is sent as text, as Protobuf and XML Schema have to be."""
    if isinstance(sent, dict):
        if isinstance(sent.get("schema"), str):
            yield path, sent["schema"]
        for name, value in sent.items():
            yield from texts(value, f"{path}/{name}")


def repaired(document: dict[str, Any]) -> dict[str, Any]:
    """The catalogue with the url of its schemas under the name that has a meaning."""
    return cast(dict[str, Any], json.loads(json.dumps(document).replace('"schemauri"', '"schemaurl"')))


@pytest.mark.others("the faults of xRegistry's sample schemastore", ours="test_a_large_document_of_our_own")
def test_all_faults_of_a_large_catalogue_are_reported(
    store: Store, serve: Serve, sample_file: Callable[[str], Path]
) -> None:
    """The Versions of JSON Schemas have no document (R22, R255)."""
    client = serve(store, model="default")
    body = client.refused("PUT", "/", "format_violation", json=read(sample_file("schemastore_org.xreg.json")))
    assert len(body["faults"]) == 100


@pytest.mark.others("xRegistry's sample schemastore once it is put right", ours="test_a_large_document_of_our_own")
def test_a_large_catalogue_imports_where_it_keeps_the_rules(
    store: Store, serve: Serve, sample_file: Callable[[str], Path]
) -> None:
    """The format changes between Versions in 14 of the schemas, and each of them is reported (R21, R58, R81)."""
    document = repaired(read(sample_file("schemastore_org.xreg.json")))
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


@pytest.fixture
def many() -> dict[str, Any]:
    """A catalogue of our own: 150 schemas elsewhere, of which every tenth changes its format between Versions."""

    def schema(number: int) -> dict[str, Any]:
        url, later = f"https://schemas.example/{number}.json", "JsonSchema/draft-04" if number % 10 == 0 else FORMAT
        versions = {"1": {"format": FORMAT, "schemauri": url}}
        versions["2"] = {"format": later, "schemauri": url, "ancestorid": "1"}
        return {"versions": versions}

    return {"schemagroups": {"many": {"schemas": {f"s{number}": schema(number) for number in range(150)}}}}


def test_a_large_document_of_our_own(store: Store, serve: Serve, many: dict[str, Any]) -> None:
    """At most a hundred faults are reported; after the URLs are corrected, each remaining one is (R22, R58, R255)."""
    client = serve(store, model="default")
    assert len(client.refused("PUT", "/", "format_violation", json=many)["faults"]) == 100
    document = repaired(many)
    faults = client.refused("PUT", "/", "mismatched_version_attribute", json=document)["faults"]
    broken = {fault["path"].rsplit("/", 1)[1] for fault in faults}
    assert len(broken) == 15
    schemas = document["schemagroups"]["many"]["schemas"]
    for name in broken:
        del schemas[name]
    assert client.put("/", document).status_code == 200
    assert missing(document, client.get("/?inline=*").json()) == []
