"""A client that others wrote: xrcg 0.11.0, which generates code from registries and edits them."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving import BIN, serving

XRCG = BIN.parent / "xrcg" / "bin" / "python"
# To start it takes longer than what it does: it is loaded once for several commands, each in a process of its own.
PROGRAM = """
import json, os, sys
from xrcg.cli import main

for arguments in json.loads(sys.argv[1]):
    if not os.fork():
        sys.argv[1:] = arguments
        sys.exit(main())
    if os.wait()[1]:
        sys.exit(f"xrcg {arguments}")
"""
SCENARIOS = "inkjet-proto3 lightbulb-avro smartoven-xsd watchkam-jsons07"
MORE_SCENARIOS = """contoso-erp-jsons07 vacuumcleaner-avro waterboiler-mqtt5-jsons07 windgenerator-kafka-avro
    workbench"""
"""All of xRegistry's but mqtt-sparkplugB, which xrcg cannot generate from: its schema is at an address of its own."""
_BY_CHANCE = re.compile(r"tmp[0-9a-z_]{5,8}", re.IGNORECASE)
STYLES = (("py", "kafkaproducer"), ("asyncapi", "producer"), ("openapi", "producer"))


def xrcg(folder: Path, *commands: Sequence[str]) -> str:
    if not XRCG.exists():
        pytest.skip("xrcg is not installed beside the tests: tools/setup test")
    command = [str(XRCG), "-c", PROGRAM, json.dumps(commands)]
    ran = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the default model."""
    with serving(tmp_path_factory.mktemp("server")) as root:
        yield root


@pytest.fixture
def url(server: str) -> str:
    """The server, empty."""
    for collection in ("endpoints", "messagegroups", "schemagroups"):
        assert httpx.delete(f"{server}/{collection}", timeout=60).status_code == 204
    return server


def completed(sent: Any, stored: Any) -> Any:
    """Return the sent document in the order in which the registry shows it, with the defaults of its model."""
    if not isinstance(sent, dict) or not isinstance(stored, dict):
        return sent
    defaults = ("required", "type")
    return {
        name: completed(sent[name], value) if name in sent else value
        for name, value in stored.items()
        if name in sent or (name in defaults and not isinstance(value, dict))
    }


def generated(folder: Path, definitions: str, name: str) -> dict[str, Counter[str]]:
    """The words of each file; xrcg imports in any order, names modules by chance and fills its tests with chance.

    Files whose names differ by chance alone count as one: which of them is read last is chance, too.
    """
    targets = {language: folder / name / language for language, _ in STYLES}
    common = ("generate", "--projectname", "P", "-d", definitions)
    styles = [("--language", language, "--style", style) for language, style in STYLES]
    xrcg(folder, *((*common, *style, "--output", str(targets[style[1]])) for style in styles))
    files: dict[str, Counter[str]] = {}
    for target in targets.values():
        for file in (path for path in target.rglob("*") if path.is_file() and path.parent.name != "tests"):
            words = re.findall(r"\w+", _BY_CHANCE.sub("tmp", file.read_text(encoding="utf-8")))
            files.setdefault(_BY_CHANCE.sub("tmp", str(file.relative_to(folder / name))), Counter()).update(words)
    return files


@pytest.mark.merge
@pytest.mark.parametrize(
    "scenario", [*SCENARIOS.split(), *(pytest.param(name, marks=pytest.mark.soak) for name in MORE_SCENARIOS.split())]
)
def test_code_from_the_server_equals_code_from_the_file(
    url: str, tmp_path: Path, sample_file: Callable[[str], Path], scenario: str
) -> None:
    """Code generated from the registry equals code generated from the imported document."""
    sent = json.loads(sample_file(f"{scenario}.xreg.json").read_text(encoding="utf-8"))
    assert httpx.post(f"{url}/", json=sent, timeout=60).status_code == 200
    source = tmp_path / "source.xreg.json"
    source.write_text(json.dumps(completed(sent, httpx.get(f"{url}/?inline=*", timeout=60).json())), encoding="utf-8")
    assert generated(tmp_path, f"{url}/?inline=*", "server") == generated(tmp_path, str(source), "file")


@pytest.mark.merge
def test_the_catalog_commands(url: str, tmp_path: Path) -> None:
    """The client writes Groups, messages, and documents with headers; POST creates missing entities (R142-R147,
    R171).
    """

    def catalog(*arguments: str) -> str:
        return xrcg(tmp_path, ("catalog", *arguments, "--catalog", url))

    shop = ("--messagegroupid", "shop")
    catalog("messagegroup", "add", *shop, "--name", "N", "--description", "D")
    assert json.loads(catalog("messagegroup", "show", *shop))["name"] == "N"
    order = (*shop, "--messageid", "order")
    envelope = ("--envelope", "cloudevents10", "--envelopemetadata-type-value", "com.shop.order")
    catalog("messagegroup", "message", "add", *order, *envelope)
    catalog("messagegroup", "message", "edit", *order, "--description", "E")
    message = json.loads(catalog("messagegroup", "message", "show", *order))
    assert (message["description"], message["envelopemetadata"]["type"]["value"]) == ("E", "com.shop.order")
    catalog("schemagroup", "add", "--schemagroupid", "shop")
    schema = ("--schemagroupid", "shop", "--schemaid", "order", "--versionid", "v1")
    document = ("--format", "JsonSchema/draft-07", "--schema", '{"type": "object"}')
    catalog("schemagroup", "schema", "add", *schema, *document)
    assert json.loads(catalog("schemagroup", "schema", "show", *schema)) == {"type": "object"}
    # Of an edited message xrcg sends the epoch of its Version, and not of its meta.
    second = (*shop, "--messageid", "second")
    catalog("messagegroup", "message", "add", *second)
    catalog("messagegroup", "message", "remove", *second)
    assert list(httpx.get(f"{url}/messagegroups/shop/messages", timeout=60).json()) == ["order"]
    catalog("messagegroup", "remove", *shop)
    contents = httpx.get(f"{url}/?inline=*", timeout=60).json()
    assert (contents["messagegroupscount"], contents["schemagroupscount"]) == (0, 1)
