"""Kafka's clients, as their makers published them, with a real registry and a real Kafka."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.brokers.program import Broker
from tests.serving import BIN, serving

from signalbook.demo.kafka import command

pytestmark = pytest.mark.merge

HERE = Path(__file__).parent
SCHEMAS = HERE / "schemas"
PYTHON = BIN.parent / "clients"
JAVASCRIPT = BIN.parent / "brokers" / "clients"
FRANZ = BIN.parent / "brokers" / "franz"
ADDRESSES = {"AVRO": "address.avsc", "JSON": "address.json", "PROTOBUF": "address.proto"}
FIRST = {"id": 1, "to": {"street": "Canal St", "city": "Ghent"}}
SECOND = {"id": 2, "to": {"street": "Rue Haute", "city": "Mons"}}
NOTE = "ring twice"
READ = {
    "as written": [FIRST, {**SECOND, "note": NOTE}],
    "as 1": [FIRST, SECOND],
    "as 2": [{**FIRST, "note": ""}, {**SECOND, "note": NOTE}],
}
"""The order of each version, as readers of each find it."""
REFUSED, UNKNOWN, NO_SUBJECT, UNSET, REFERENCED = ({"code": code} for code in (40901, 40403, 40401, 40408, 42206))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the default model, and the schemas of an address, which clients are to find there."""
    with serving(tmp_path_factory.mktemp("server")) as root:
        for context in ("", "/contexts/.shop"):
            for kind, name in ADDRESSES.items():
                body = {"schemaType": kind, "schema": (SCHEMAS / name).read_text(encoding="utf-8")}
                url = f"{root}/compat/confluent{context}/subjects/{name}/versions"
                query = {"normalize": "true"} if kind == "PROTOBUF" else {}
                assert httpx.post(url, params=query, json=body, timeout=60).status_code == 200
        yield root


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a compiler of Protobuf says of each version."""
    folder = tmp_path_factory.mktemp("descriptors")
    for version in (1, 2):
        paths = [f"-I{SCHEMAS}", f"-I{SCHEMAS / str(version)}", f"-o{folder / f'{version}.binpb'}"]
        compiler = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", *paths, "order.proto"]
        subprocess.run(compiler, check=True)
    return folder


@pytest.fixture
def where(server: str, kafka: Broker, descriptors: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the addresses and names that an application needs."""
    return {
        "registry": f"{server}/compat/confluent",
        "brokers": f"127.0.0.1:{kafka.ports['plain']}",
        "topics": request.node.name.removeprefix("test_"),
        "schemas": str(SCHEMAS),
        "descriptors": str(descriptors),
    }


def printed(*command: str | Path, folder: Path = HERE) -> Any:
    """Run an application and return the JSON that it prints."""
    ran = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def check_read(read: dict[str, Any], *readers: str) -> None:
    """Check that exactly these readers have read the expected values. A reader is called by its topic and how it
    reads.
    """
    assert read == {reader: READ[reader.partition(" ")[2]] for reader in readers}


def check_stored(server: str, where: dict[str, str], *topics: str, group: str = "default") -> None:
    """The values of these topics have two valid versions in the registry, and each address has the one it had."""
    for topic in topics:
        check_versions(f"{server}/schemagroups/{group}/schemas/{where['topics']}-{topic}-value")
    for name in ADDRESSES.values():
        versions = f"{server}/schemagroups/{group}/schemas/{name}/versions"
        assert httpx.get(versions, timeout=60).json().keys() == {"1"}, "as this client writes it, it is another schema"


def check_versions(schema: str) -> None:
    """A schema, at its URL, has two valid versions."""
    assert httpx.get(f"{schema}/versions", timeout=60).json().keys() == {"1", "2"}
    assert httpx.get(f"{schema}/versions/2$details", timeout=60).json()["formatvalidated"] is True


def python(client: str, where: dict[str, str]) -> Any:
    """Run the Python application and return what it prints."""
    if not (PYTHON / "ready").exists():
        pytest.skip("the clients are not installed beside the tests: tools/setup test")
    return printed(PYTHON / "bin" / "python", "client.py", client, json.dumps(where))


CONFLUENT = [
    ["get_versions", [1, 2]],
    ["test_compatibility", True],
    ["test_compatibility", False],
    ["test_compatibility_all_versions", False],
    ["register_schema", REFUSED],
    ["lookup_schema", UNKNOWN],
    ["get_version", {"code": 40402}],
    ["get_latest_version", NO_SUBJECT],
    ["get_schema", UNKNOWN],
    ["get_schema_by_guid", UNKNOWN],
    ["get_schema_types", ["JSON", "PROTOBUF", "AVRO"]],
    ["set_compatibility", {"compatibility": "NONE"}],
    ["get_compatibility", "NONE"],
    ["get_compatibility", UNSET],
    ["register_schema", {"code": 42201}],
    ["update_mode", "READONLY"],
    ["get_mode", "READONLY"],
    ["register_schema", {"code": 42205}],
    ["delete_mode", "READONLY"],
    ["get_mode", {"code": 40409}],
    ["delete_subject", REFERENCED],
]
"""What Confluent's clients for Python answer, at once or later."""


@pytest.mark.parametrize(("client", "context"), [("sync", ""), ("async", "/contexts/.shop")])
def test_confluent_for_python(server: str, where: dict[str, str], client: str, context: str) -> None:
    """confluent-kafka in all three formats, with the id of a schema before the value and its guid in a header."""
    where |= {"topics": client, "registry": where["registry"] + context}
    result = python(client, where)
    readers = ("avro as 1", "avro as 2", "json as written", "protobuf as 1", "protobuf as 2")
    check_read(result["read"], *readers, "latest as written", "header as written")
    check_stored(server, where, "avro", "json", "protobuf", "latest", "header", group="shop" if context else "default")
    assert result["answers"] == CONFLUENT


def test_credentials_of_confluent_for_python(where: dict[str, Any], tmp_path: Path) -> None:
    """API tokens, as user and password and as a bearer: who administers, who reads, and who is nobody here."""

    def signalbook(*arguments: str) -> str:
        return subprocess.run(
            [BIN / "signalbook", *arguments], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    signalbook("access", "init", "subject:pat")
    pat, kim = (json.loads(signalbook("token", "create", name, "--json")) for name in ("pat", "kim"))
    bearer = {f"bearer.auth.{name}": "none" for name in ("logical.cluster", "identity.pool.id")}
    bearer |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": kim["token"]}
    basic = {"basic.auth.user.info": ":".join(pat["token"].split("_", 2)[1:])}
    with serving(tmp_path) as root:
        where |= {"registry": f"{root}/compat/confluent", "credentials": [{}, basic, bearer]}
        assert python("guarded", where) == [401, 401, True, True, 403, True]


def test_community_for_python(server: str, where: dict[str, str]) -> None:
    """python-schema-registry-client, both of its kinds, where Apicurio has the API."""
    where["registry"] = f"{server}/apis/ccompat/v7"
    result = python("community", where)
    check_read(result["read"], "avro as 1", "avro as 2", "later as 1", "later as 2", "json as written")
    check_stored(server, where, "later", "json")
    assert result["answers"] == [[1, 2], True, False, False, None, None, None, True, "FULL", [2, 2], 1, [2]]


def javascript(client: str, where: dict[str, str]) -> Any:
    """Run the JavaScript application and return what it prints."""
    if not (JAVASCRIPT / "ready").exists():
        pytest.skip("the clients are not installed beside the tests: tools/setup test")
    return printed("node", HERE / "client.mjs", client, json.dumps(where), folder=JAVASCRIPT)


def test_confluent_for_javascript(server: str, where: dict[str, str]) -> None:
    """@confluentinc/schemaregistry in all three formats, and with rules that it runs."""
    result = javascript("confluent", where)
    assert result["read"].pop("ruled as migrated") == [{"number": 1, "to": FIRST["to"]}]
    readers = ("avro as written", "avro as 2", "header as written", "json as written", "protobuf as written")
    check_read(result["read"], *readers)
    check_stored(server, where, "avro", "header", "json", "protobuf", "ruled")
    assert "numbered" in result["answers"].pop(0)
    first = [[1, 2], True, False, REFUSED, UNKNOWN, 2, UNKNOWN, NO_SUBJECT]
    assert result["answers"] == [*first, "NONE", "NONE", UNSET, True, 1, 1, REFERENCED]


def test_community_for_javascript(server: str, where: dict[str, str]) -> None:
    """@kafkajs/confluent-schema-registry in all three formats."""
    result = javascript("kafkajs", where)
    check_read(result["read"], "avro as 1", "avro as 2", "json as written", "protobuf as written")
    check_stored(server, where, "avro", "json", "protobuf")
    # It looks schemas up without their references: one that has some is none then.
    error_class = "ConfluentSchemaRegistryCompatibilityError"
    assert [error["code"] for error in result["answers"]] == [409, 422, 404, 404, 404, error_class]


def test_franz(server: str, where: dict[str, str]) -> None:
    """franz-go's sr in all three formats."""
    if not (FRANZ / "ready").exists():
        pytest.skip("there is no application with franz-go: tools/setup test builds it, where Go is new enough")
    result = printed(FRANZ / "franz", json.dumps(where))
    check_read(result["read"], "avro as 1", "avro as 2", "json as written", "protobuf as 1", "protobuf as 2")
    check_stored(server, where, "avro", "json", "protobuf")
    first = [[1, 2], 1, 1, ["AVRO", "PROTOBUF", "JSON"], True, False, REFUSED, UNKNOWN, UNKNOWN, NO_SUBJECT]
    levels = ["NONE", UNSET, "BACKWARD"]
    assert result["answers"] == [*first, *levels, "IMPORT", [500_000, 7], [7], [7], REFERENCED, True]


def test_spring(server: str, where: dict[str, str]) -> None:
    """Spring Cloud Stream's client, which has Avro alone."""
    where["registry"] = f"{server}/apis/ccompat/v8/contexts/.spring"
    modules = subprocess.run([command("spring")[0], "--list-modules"], check=True, capture_output=True, text=True)
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("Java is here without its compiler, which runs programs from their source")
    result = printed(*command("spring", str(HERE / "Client.java"), json.dumps(where)))
    check_read(result["read"], "avro as 1", "avro as 2", "avro as written")
    check_versions(f"{server}/schemagroups/spring/schemas/order")
    refused, *unknown = result["answers"][3:]
    assert result["answers"][:3] == [1, True, True]
    assert refused.endswith("status 409")
    assert all(message.startswith("Could not find schema") for message in unknown)
