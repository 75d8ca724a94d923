"""Generated Go: vetted, held to gofmt, compiled, run; and what Signalbook says of its messages."""

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.conftest import DOCUMENT, BuildOnce, Make
from tests.codegen.standalone import cases, hard, library, suite
from tests.codegen.standalone.library import *  # noqa: F403 - and code that validates by a library
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

from signalbook.codegen.base import Generated, GeneratorError, generate, read_input
from signalbook.codegen.go.patterns import translate_pattern
from signalbook.codegen.go.records import quoted
from signalbook.codegen.standalone.avro import AvroSchemas
from signalbook.formats.protobuf.format import FORMAT as PROTOBUF_FORMAT

MODULE = "example.com/shop"
LEAST = 26
FRANZ = Path(__file__).parents[2] / "api" / "confluent" / "clients" / "franz"
FRANZ_BUILT = Path(sys.prefix) / "brokers" / "franz"
# Go may be where its own archive puts it; nothing is fetched, because tools/setup fetched the modules.
_PATH = f"{os.environ['PATH']}:/usr/local/go/bin"
GO = shutil.which("go", path=_PATH)
ENVIRONMENT = {**os.environ, "PATH": _PATH, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod",
               "GOPROXY": "off"}  # fmt: skip
# Both in one module, so that one program has them.
PROTOBUF = "/messagegroups/protobuf/messages/all"
BOTH: dict[str, Any] = {
    **DOCUMENT,
    "messagegroups": {
        **DOCUMENT["messagegroups"], **hard.DOCUMENT["messagegroups"],
        "protobuf": {"messages": {"all": {
            "protocol": "NATS", "protocoloptions": {"subject": "all"}, "dataschemaformat": "Protobuf/3",
            "dataschemauri": "/schemagroups/protobuf/schemas/all:All"}}},
    },
    "schemagroups": {
        **DOCUMENT["schemagroups"],
        "protobuf": {"schemas": {"all": {"versions": {"1": {"format": "Protobuf/3", "schema": cases.PROTO}}}}},
    },
}  # fmt: skip
_INPUT = re.compile(r'("(?:[^"\\]|\\.)*"): \w+')
_FUNCTION = re.compile(r"^func Build(\w+)\(payload [^,)]+(.*)\) \(\*signalbook", re.MULTILINE)


@cache
def compiler() -> str:
    """Return the path of the Go compiler, or skip the test if Go is missing or too old; tools/setup reports it."""
    version = subprocess.run([GO, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout if GO else ""
    match = re.match(r"go1\.(\d+)", version)
    if GO is None or match is None or int(match[1]) < LEAST:
        pytest.skip(f"Go 1.{LEAST} is not installed")
    return GO


def go(folder: Path, *command: str) -> str:
    program = [compiler(), *command]
    ran = subprocess.run(program, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def functions(folder: Path, generated_files: Generated) -> str:
    """A file with the functions of all messages, by xid."""
    imports, entries = set(), []
    for file in generated_files.files:
        match = _FUNCTION.search(file.content.decode())
        if match is None:
            continue
        package = file.path.partition("/")[0]
        imports.add(f'"{MODULE}/{package}"')
        xid = file.xids[0]
        # By their names in the definition, of which those of the hard one are none in Go.
        names = _INPUT.findall(file.content.decode().rpartition("signalbook.Build(")[2]) if match[2] else []
        arguments = "".join(f", {name}" for name in names)
        entries.append(f"\t{quoted(xid)}: entry({package}.Build{match[1]}, {package}.Parse{match[1]}{arguments}),")
    head = ["package main", "", "import (", *sorted(imports), ")", "", "var functions = map[string]function{"]
    return "\n".join([*head, *entries, "}"])


def exchange(folder: Path) -> str:
    """A program that sends and receives orders with franz-go, whose modules ``tools/setup`` fetched for another one."""
    if not (FRANZ_BUILT / "ready").exists():
        pytest.skip("the modules of franz-go are not there: tools/setup test fetches them, where Go is new enough")
    suite.write("go", folder, DOCUMENT, module=MODULE)
    # As after "go get" of franz-go: its client, and what that needs.
    modules = re.findall(r"\t(\S+(?:franz-go|kmsg|compress|lz4\S*) v\S+)", (FRANZ / "go.mod").read_text())
    with (folder / "go.mod").open("a") as file:
        file.writelines(f"require {module}\n" for module in modules)
    with (folder / "go.sum").open("a") as file:
        file.write((FRANZ / "go.sum").read_text())
    program = folder / "cmd" / "exchange"
    program.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("exchange.go"), program / "main.go")
    go(folder, "build", "-gcflags=all=-N -l", "-o", "exchange", "./cmd/exchange")
    return str(folder / "exchange")


@pytest.fixture(scope="module")
def project(build_once: BuildOnce[Generated]) -> tuple[Path, Generated]:
    """A module with all that is generated here, and the program that runs it, compiled."""

    def build(folder: Path) -> Generated:
        generated_files = suite.write("go", folder, BOTH, module=MODULE)
        program = folder / "cmd" / "program"
        program.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("program.go"), program / "main.go")
        (program / "functions.go").write_text(functions(folder, generated_files))
        go(folder, "build", "-o", "program", "./cmd/program")
        return generated_files

    return build_once("go", build)


@pytest.fixture(scope="module")
def run(project: tuple[Path, Generated]) -> Iterator[suite.Run]:
    folder, generated_files = project
    names = {xid: xid for file in generated_files.files for xid in file.xids}
    with suite.started([str(folder / "program")], folder, {"shop": names, "hard": names}) as answers:
        yield answers


@pytest.fixture(scope="module")
def pattern() -> Callable[[str], str]:
    return translate_pattern


@pytest.fixture(scope="module")
def differences() -> tuple[library.Difference, ...]:
    return (library.WHOLE_NUMBERS,)


def test_code_is_formatted_and_passes_vet(project: tuple[Path, Generated]) -> None:
    folder, generated_files = project
    names = [file.path for file in generated_files.files if file.path.endswith(".go")]
    assert subprocess.run([str(Path(compiler()).resolve().with_name("gofmt")), "-l", *names], cwd=folder,
                          capture_output=True, text=True, check=True).stdout == ""  # fmt: skip
    assert go(folder, "vet", "./...") == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nulls", {"a": None, "b": None}),
        ("nulls", {"a": "x", "b": "y", "c": "z"}),
        ("nulls", {"a": None, "b": "", "c": ""}),
        ("nameless", {"": "x"}),
    ],
)
def test_absent_and_null_come_back_as_they_were(name: str, value: Any, run: suite.Run) -> None:
    suite.check_returned(suite.hard_message(name), value, run)


@pytest.mark.parametrize("name", ["½", "²", "é", "a,b", "-", "", 'a"b'])
def test_names_unknown_to_encoding_json_have_their_own_tag(name: str, make: Make) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    generated_files = make("go", {"messagegroups": {"g": {"messages": {"a": hard.message(schema)}}}})
    (file,) = (file for file in generated_files.files if file.path == "payloads/a_types.go")
    assert f'json:"-" member:{quoted(name)} optional:"true"' in file.content.decode()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"", "data"),
        (b"[" * 20_000, "data"),
        (b'{"n": 1} 2', "data"),
        (b'{"n": "\\ud800"}', "data"),
        (b'{"n": "\xff"}', "data"),
        (b'{"n": 9223372036854775808}', "data/n"),
        (b'{"n": 1e999}', "data/n"),
        (b'{"n": 1e-1000000000}', "data/n"),
        (b'{"N": 1}', "data/n"),
        (b'{"n": 1, "next": ' * 600 + b"null" + b"}" * 600, "data" + "/next" * 513),
    ],
)
def test_hostile_texts_are_findings(body: bytes, path: str, run: suite.Run) -> None:
    headers = {**suite.HEADERS, "ce_type": "tree", "ce_source": "/hard"}
    record = {"topic": "t", "key": None, "headers": headers, "value": b64encode(body).decode()}
    (answer,) = run({"action": "parse", "module": suite.hard_message("tree"), "record": record})
    assert path in [finding["path"] for finding in answer["findings"]]


@pytest.mark.parametrize("value", [*cases.MESSAGES, {"kind": "77", "kinds": ["-3", "SOME"]}])
def test_types_of_protobuf(value: dict[str, Any], run: suite.Run) -> None:
    payload, module = cases.plain(value), ["shop", PROTOBUF]
    (built,) = run({"action": "message", "module": module, "payload": payload, "values": {}})
    (read,) = run({"action": "read", "module": module, "message": built["result"]})
    parsed_payload = read["result"]["payload"]
    (again,) = run({"action": "message", "module": module, "payload": parsed_payload, "values": {}})
    assert again["result"]["body"] == built["result"]["body"]
    # Others have defaults in what was read, or zeros at the end of a time.
    flat = {name: member for name, member in payload.items() if name not in ("named", "next", "all", "at", "took")}
    assert {name: parsed_payload[name] for name in flat} == flat


def test_defaults_of_logical_types_and_bytes(run: suite.Run) -> None:
    """The library reads them as the schema writes them."""
    types: list[tuple[Any, Any]] = [
        ({"type": "long", "logicalType": "timestamp-millis"}, 5),
        ({"type": "int", "logicalType": "date"}, 1),
        ({"type": "int", "logicalType": "time-millis"}, 1500),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001\u0002"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00ff"),
        (["bytes", "null"], "\u00ff"),
        ({"type": "array", "items": "bytes"}, ["\u00fe"]),
    ]
    fields = [{"name": f"f{place}", "type": kind, "default": value} for place, (kind, value) in enumerate(types)]
    schema = cases.avro({"type": "record", "name": "R", "namespace": "a-b", "fields": fields})
    schemas = AvroSchemas()
    task = {"format": "avro", "name": schemas.of(schema), "document": schemas.document}
    (written,) = run({"action": "encode", **task, "value": {}})
    (read,) = run({"action": "decode", **task, "value": written["result"]})
    assert read["result"] == cases.plain(schema.decode(b64decode(written["result"])))


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"a": 1, "u": 2**64 - 1, "e": "X"}, []),
        ({"a": 1.0, "u": 100.0, "e": "X"}, []),
        ({}, ["data/a"]),
        ({"a": None, "e": "7", "u": -1}, ["data/e", "data/u", "data/a"]),
        ({"a": 2**31, "m": {"x": 1}}, ["data/a", "data/m/x"]),
        ({"a": 1, "m": {"1": {}}, "r": 5}, ["data/m/1", "data/r"]),
    ],
)
def test_all_that_is_wrong_in_protobuf_is_found(value: dict[str, Any], paths: list[str], run: suite.Run) -> None:
    text = """syntax = "proto2"; enum E { X = 0; }
        message M { required int32 a = 1; optional E e = 2; optional uint64 u = 3; map<int32, int32> m = 4;
                    repeated M r = 5; }"""
    schema = PROTOBUF_FORMAT.parse(text.encode(), "Protobuf/2", link="M")
    task = cases.wire(schema)
    (written,) = run({"action": "encode", **task, "value": value})
    assert [finding["path"] for finding in written.get("findings", ())] == paths
    if not paths:
        (read,) = run({"action": "decode", **task, "value": written["result"]})
        assert schema.decode(b64decode(written["result"])) == read["result"]
    (missing,) = run({"action": "decode", **task, "value": ""})
    assert [finding["rule"] for finding in missing["findings"]] == ["decode"]


def test_few_bytes_do_not_become_millions_of_values(run: suite.Run) -> None:
    # No registry lets such a schema in.
    nulls = {"type": "array", "items": "null"}
    table = {"format": "avro", "document": {"0": {"type": "array", "items": nulls}}, "name": "0"}
    million = b"\x80\x89\x7a\x00"  # nulls, which take no bytes
    body = b"\xd0\x0f" + million * 1000 + b"\x00"
    (answer,) = run({"action": "decode", **table, "value": b64encode(body).decode()})
    assert [finding["rule"] for finding in answer["findings"]] == ["decode"]


@settings(max_examples=50)
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_finding(body: bytes, run: suite.Run) -> None:
    for table in (cases.wire(cases.avro(cases.AVRO_RECORD)), cases.wire(cases.protobuf())):
        (answer,) = run({"action": "decode", **table, "value": b64encode(body).decode()})
        assert answer.keys() == {"result"} or len(answer["findings"]) == 1


REFUSED = """package main

import (
	"example.com/shop/hard"
	"example.com/shop/payloads"
	"example.com/shop/shoporders"
)

func main() {
	kind := "new"
	order := payloads.OrderPlaced2{Kind: "new", Total: 1}
	_, _ = shoporders.BuildOrderPlaced2(order, "7")
	_ = payloads.OrderPlaced2{Kind: kind} // refused
	_ = payloads.OrderPlaced2{Total: "1"} // refused
	_ = payloads.OrderPlaced2{More: 1} // refused
	_, _ = shoporders.BuildOrderPlaced2(order) // refused
	_, _ = shoporders.BuildOrderPlaced2(payloads.Tree{}, "7") // refused
	_, _ = hard.BuildTree(payloads.Tree{N: 1.5}) // refused
}
"""


def test_type_errors_do_not_compile(project: tuple[Path, Generated]) -> None:
    folder = project[0] / "testdata" / "refused"  # which ./... leaves out, in another process at the same time
    folder.mkdir(parents=True)
    (folder / "main.go").write_text(REFUSED)
    command = [compiler(), "build", "-gcflags=-e", "-o", "/dev/null", "./testdata/refused"]
    ran = subprocess.run(command, cwd=project[0], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    expected = {number for number, line in enumerate(REFUSED.split("\n"), 1) if line.endswith("// refused")}
    assert {int(number) for number in re.findall(r"main\.go:(\d+):", ran.stderr)} == expected


def test_values_of_its_own(project: tuple[Path, Generated]) -> None:
    """Tests in Go run next to the generated packages."""
    folder = project[0] / "testdata" / "values"
    folder.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("values_test.go"), folder)
    assert "ok" in go(project[0], "test", "-vet=off", "./testdata/values")


@pytest.mark.merge
@pytest.mark.parametrize("name", ["order.placed", "class", "parcel", "image"])
def test_modules_of_each_format_are_complete_and_tidy(name: str, tmp_path: Path) -> None:
    messages = {name: DOCUMENT["messagegroups"]["shop.orders"]["messages"][name]}
    document = {"messagegroups": {"g": {"messages": messages}}, "schemagroups": DOCUMENT["schemagroups"]}
    suite.write("go", tmp_path, document, module=MODULE)
    assert go(tmp_path, "mod", "tidy", "-diff") == ""
    go(tmp_path, "build", "./...")


@pytest.mark.merge
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    generated_files = generate(read_input("go", str(root / "examples" / "orders"), (), {"module": MODULE}))
    for file in generated_files.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(file.content)
    text = (root / "docs" / "generate.md").read_text(encoding="utf-8")
    example = re.findall(r"```go\n(.*?)```", text, re.DOTALL)[0]
    packages = "".join(f'"{MODULE}/{name}"\n' for name in ("payloads", "shoporders", "signalbook"))
    program = f'package main\nimport (\n"fmt"\n{packages})\nfunc example() error {{\n{example}return nil\n}}\n'
    (tmp_path / "main.go").write_text(program + "func main() { if err := example(); err != nil { panic(err) } }\n")
    assert go(tmp_path, "run", ".") == "A-1 7\n"


def test_unsupported_patterns_are_omitted(make: Make) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}
    document = {"messagegroups": {"g": {"messages": {"bad": hard.message(schema), "good": hard.message(True)}}}}
    generated_files = make("go", document)
    assert "look-around" in generated_files.left_out["/messagegroups/g/messages/bad"]
    assert "g/good_message.go" in [file.path for file in generated_files.files]


@pytest.mark.parametrize("name", ["Shop", "a/../b", "/a", "a//b", "a b", ".a", "a/.b", 'a"'])
def test_module_paths(name: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match=r"module is a path such as example\.com/shop/messages"):
        make("go", module=name)
