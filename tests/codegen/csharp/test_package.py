"""Generated C#: compiled by Mono, with all warnings as errors, run; and what Signalbook says of its messages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.conftest import DOCUMENT, BuildOnce, Make
from tests.codegen.standalone import cases, hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do
from tests.examples import examples

from signalbook.codegen.base import GeneratorError, generate, read_input, runtime_files
from signalbook.codegen.csharp.package import FRAMEWORK, runtime_types

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
RUNTIME = dict(runtime_files("signalbook.codegen.csharp", ".cs"))
NAMESPACES = {"shop": "Shop", "hard": "Hard", "words": "Words"}
# Mono's compiler knows C# up to 7.2. Overflows are errors, so that none is there whatever a project says of them.
OPTIONS = ["-langversion:7.2", "-warn:4", "-warnaserror", "-checked+", "-r:System.Numerics.dll"]
_NAMES = ["Regex", "Payloads", "Runtime", "obj", "System", "Group", "JsonValue", "Forms", "Build", "Schema"]
_NAMES.append("Definition")
_MEMBERS = ["Equals", "GetHashCode", "GetType", "MemberwiseClone", "Forms", "IPayload", "extra members", "to", "from"]
_TEXT = {"type": "string"}
_SCHEMA = {"type": "object", "properties": dict.fromkeys([*_MEMBERS, *_NAMES], _TEXT),
           "additionalProperties": {"type": "integer"}}  # fmt: skip
WORDS: dict[str, Any] = {
    "messagegroups": {group: {"messages": {name: hard.message(_SCHEMA) for name in _NAMES}} for group in _NAMES}
}
"""Names that mean something in generated C#, as groups, messages and members."""


def mcs(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("mcs") is None or shutil.which("mono") is None:
        pytest.skip("Mono and its compiler are not installed: tools/setup test")
    return subprocess.run(["mcs", *OPTIONS, *options], cwd=folder, capture_output=True, text=True, check=False)


def compiled(folder: Path, documents: dict[str, dict[str, Any]], *programs: str) -> suite.Names:
    """A project with what is generated of documents and a program, compiled into ``program.exe`` in its folder."""
    found = {name: suite.write("csharp", folder / name, document, namespace=NAMESPACES[name])
             for name, document in documents.items()}  # fmt: skip
    options = ["-out:program.exe", "-doc:program.xml", "-r:Microsoft.CSharp.dll", "-recurse:*.cs"]
    ran = mcs(folder, *options, *programs)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {name: suite.names_of(each, lambda path, name=name: class_name(NAMESPACES[name], path))  # type: ignore[misc]
            for name, each in found.items()}  # fmt: skip


def class_name(namespace: str, path: str) -> str:
    return f"{namespace}.{path.removesuffix('.cs').replace('/', '.')}"


@pytest.fixture(scope="module")
def project(build_once: BuildOnce[suite.Names]) -> tuple[Path, suite.Names]:
    """A folder with a program of the generated code, and the classes of messages in it."""
    documents = {"shop": DOCUMENT, "hard": hard.DOCUMENT, "words": WORDS}
    return build_once("csharp", lambda folder: compiled(folder, documents, str(HERE / "Program.cs")))


@pytest.fixture(scope="module")
def run(project: tuple[Path, suite.Names]) -> Iterator[suite.Run]:
    with suite.started(["mono", "program.exe"], *project) as answers:
        yield answers


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, r"namespace is a name such as Acme\.Shop") for name in ("1Shop", "a..b", "../x", "Acme.1", "Ä")),
        *((name, "is a word of C# or .NET: choose another") for name in ("Acme.class", "Regex", "Acme.Group")),
    ],
)
def test_namespaces(name: str, message: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match=message):
        make("csharp", namespace=name)


@pytest.mark.merge
def test_groups_may_have_any_names_but_those_the_runtime_calls(tmp_path: Path) -> None:
    """A namespace for each word of the runtime that is not reserved, beside it: it still means the same."""
    words = {word for text in RUNTIME.values() for word in re.findall(r"\b[A-Z]\w*", text)}
    free = sorted(words - FRAMEWORK - runtime_types())
    spaces = [f"namespace Messages.{word} {{ class Nothing {{ }} }}\n" for word in free]
    (tmp_path / "Groups.cs").write_text("".join(spaces))
    for name, text in RUNTIME.items():
        (tmp_path / name).write_text(text)
    ran = mcs(tmp_path, "-target:library", "-out:runtime.dll", "-recurse:*.cs")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("group", _NAMES)
def test_names_that_mean_something(group: str, run: suite.Run) -> None:
    value = dict.fromkeys((*_MEMBERS, *_NAMES), "x") | {"more": 1}
    for name in _NAMES:
        suite.check_returned(["words", f"/messagegroups/{group}/messages/{name}"], value, run)


def test_the_project_file(make: Make) -> None:
    (project,) = (file for file in make("csharp", namespace="Acme.Shop").files if file.path == "Acme.Shop.csproj")
    said = {each.tag: each.text for each in ElementTree.fromstring(project.content).iter()}
    assert (said["TargetFramework"], said["LangVersion"]) == ("netstandard2.0", "7.3")


def test_what_is_forbidden_cannot_be_built_by_other_programs(project: tuple[Path, suite.Names]) -> None:
    folder, _ = project
    ran = mcs(folder, "-r:program.exe", "-out:client.exe", str(HERE / "Client.cs"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = subprocess.run(["mono", "client.exe"], cwd=folder, capture_output=True, text=True, check=True)
    assert {each["name"]: each["found"] for each in map(json.loads, ran.stdout.splitlines())} == {
        "cyclic": "/".join(["data", *["next"] * 513]) + " depth",
        "absent": "data/n required",
        "none": "data type",
        "half": "data json",
        "half name": "data json",
        "twice": "data/a twice",
        "no number": "data/map/r/1 json",
        "kind": "data/kind enum",
        "deep": "data json",
        "allowed": '{"kind":true,"both":1,"any":{"a":1}}',
    }


def test_what_does_not_compile(project: tuple[Path, suite.Names]) -> None:
    folder, _ = project
    lines = [
        'Shop.ShopOrders.OrderPlacedMessage_2.Build(new Placed { Kind = "new", Total = "5" }, "7");',
        'Shop.ShopOrders.OrderPlacedMessage_2.Build(new Placed { Kind = "new", Other = 5 }, "7");',
        'Shop.ShopOrders.OrderPlacedMessage_2.Build(new Placed { Kind = "new", Total = 5 });',
        'Shop.ShopOrders.OrderPlacedMessage_2.Build("x", "7");',
        'Shop.ShopOrders.OrderPlacedMessage_2.Build(new Placed { Kind = "new", Total = 5 }, "7");',
    ]
    head = "using Placed = Shop.Payloads.OrderPlaced2Types.OrderPlaced; class Wrong { static void Main() {\n"
    (folder / "Wrong.txt").write_text("\n".join([head.rstrip(), *lines, "} }"]))
    ran = mcs(folder, "-r:program.exe", "-out:wrong.exe", "Wrong.txt")
    assert sorted({int(line) for line in re.findall(r"^Wrong\.txt\((\d+),\d+\): error", ran.stderr, re.MULTILINE)}) == [
        2, 3, 4, 5]  # fmt: skip


@pytest.mark.merge
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8").partition("\n## C#\n")[2]
    uses, _, body = page.partition("```csharp\n")[2].partition("```")[0].partition("\n\n")
    assert body
    for file in generate(read_input("csharp", str(ROOT / "examples" / "orders"), (), {"namespace": "Acme.Shop"})).files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(file.content)
    says = 'Console.WriteLine(read.Payload.Order + read.Context["shop"] + record.Key);'
    program = f"using System;\n{uses}\n\nstatic class Example {{ static void Main() {{\n{body}\n{says}\n}} }}\n"
    (tmp_path / "Example.cs").write_text(program)
    ran = mcs(tmp_path, "-out:example.exe", "-recurse:*.cs")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = subprocess.run(["mono", "example.exe"], cwd=tmp_path, capture_output=True, text=True, check=True)
    findings, read = ran.stdout.splitlines()
    assert re.findall(r"data/\w+", findings) == ["data/items", "data/total"]
    assert read == "A-177"


def parsed(run: suite.Run, name: str, body: bytes) -> Any:
    """What the program makes of a payload in bytes, of an event of the hard definitions."""
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/hard", "ce_type": name}
    record = {"topic": "t", "key": None, "headers": headers, "value": b64encode(body).decode()}
    (answer,) = run({"action": "parse", "module": suite.hard_message(name), "record": record})
    return answer


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b" ", b"tru", b"nulll", b"NaN", b"+1", b"01", b"1.", b".5", b"1e", b"--1", b"0x1", b"1 2", b"'a'"),
        *(b"// \n1", b"[", b"[1,]", b"[1 2]", b"]", b"[" * 10**5, b"{", b"{a:1}", b'{"a"}', b'{"a":1,}'),
        *(b'{"a" 1}', b'{"a":1 "b":2}', b'"', b'"\x01"', b'"\n"', b'"\\x"', b'"\\u12"', b'"\\ud800"'),
        *(b'"\\udc00\\ud800"', b"\xff", b'"\xed\xa0\x80"', b"\x00", b"\xff\xfe1\x00", b'{"\\ud800":1}'),
        *(b"1" * 1001, b"1e1000000000", b"1e-99999999999999999999"),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_what_is_no_json_is_not_read(text: bytes, run: suite.Run) -> None:
    assert [each["rule"] for each in parsed(run, "nothing", text)["findings"]] == ["json"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'\xef\xbb\xbf {"a" : 1,"b":[ ] , "a":2}\r\n', {"a": 2, "b": []}),
        (b'"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"', 'é😀/\b\f\n\r\t"\\'),
        (b"[-0,1e2,1E+2,-1.5e-3,0.1]", [0, 100, 100, -0.0015, 0.1]),
        (b"123456789012345678901234567890.5e-1", 12345678901234567890123456789.05),
    ],
)
def test_what_is_json_is_read(text: bytes, value: Any, run: suite.Run) -> None:
    assert parsed(run, "nothing", text)["result"]["payload"] == value


def test_depth_of_json(run: suite.Run) -> None:
    answers = [parsed(run, "nothing", b"[" * levels + b"]" * levels) for levels in (400, 1002)]
    assert ["result" in answer for answer in answers] == [True, False]


@pytest.mark.parametrize(
    ("name", "text", "path"),
    [
        ("extra", '{"b":9223372036854775808}', "data/b"),
        ("extra", '{"b":-9223372036854775809}', "data/b"),
        ("extra", '{"b":1e400}', "data/b"),
        ("parts", '{"whole":1e30}', "data/whole"),
        ("parts", '{"map":{"a/b":[1,1e400]}}', "data/map/a~1b/1"),
        ("tree", '{"n":1,"next":' * 300 + "null" + "}" * 300, "data" + "/next" * 171),
    ],
)
def test_what_has_no_form_in_the_language_is_a_finding(name: str, text: str, path: str, run: suite.Run) -> None:
    answer = parsed(run, name, text.encode())
    assert [each["path"] for each in answer["findings"]] == [path]


PATTERNS: list[tuple[str, Any, list[Any]]] = [
    (cases.NEW, {"pattern": pattern}, texts)
    for pattern, texts in [
        ("^[^a]$", ["😀", "b", "a", "", "bb", "\ud7ff", "\ue000"]),
        ("^[😀-😂x]{2}$", ["😀😁", "x😂", "😃x", "😀", "xx"]),
        (r"^[^😀-😂x]$", ["😀", "x", "y", "😃", "\U0010ffff"]),
        (r"^[\u{1F600}-\u{1F64F}\u{10000}-\u{20001}]$", ["😀", "\U00010000", "\U00020001", "\U00020002", "\U0001f650"]),
        (r"^[a-\u{10ffff}]$", ["a", "Z", "😀", "\uffff", "\U0010ffff"]),
        ("^😀+$", ["😀😀", "😀", "", "😀a"]),
        (r"^\W\D$", ["😀😀", "é1", "éa", "a-", "--"]),
        (r"^[\W][^\d][\D-]$", ["😀😀😀", "-a-", "aaa", "-1-"]),
        (r"^\P{L}[\P{L}]$", ["11", "a1", "1a", "é1", "--"]),
        (r"^[\p{Lu}_]+$", ["É_", "é", "A1"]),
        (r"\bab\B", ["abc", "xab", "-abc", "ab", "1abc"]),
        (r"^(?<first>a|b)(c)\1\2$", ["acac", "bcac", "bcbc"]),
        (r"^(?:a{2}|b{1,2}?c*)$", ["aa", "bc", "bbccc", "a", "aa\n"]),
        (r"(?<=a)b(?!c)", ["ab", "abc", "b"]),
        (r"^[\]\-\\^]$", ["]", "-", "\\", "^", "a"]),
        (r"^\$\^\.\x41\u0042\t$", ["$^.AB\t", "$^.AB"]),
        ("a|^$", ["", "a", "b"]),
    ]
]


def test_patterns_are_those_of_the_schema(run: suite.Run) -> None:
    suite.check_rules(PATTERNS, run)


def test_a_pattern_that_takes_too_long_is_a_finding(run: suite.Run) -> None:
    rules = [{"items": 1}, {"not": 2}, {"pattern": "^(a+)+$"}]
    (answer,) = run({"action": "check", "rules": rules, "root": 0, "value": ["a" * 50 + "!"] * 100})
    (finding,) = answer["result"]
    assert (finding["path"], finding["rule"]) == ("data/0", "pattern")
    assert "takes too long" in finding["message"]


@pytest.mark.parametrize(
    ("rule", "value", "conforms"),
    [
        ({"multiple": 0.1}, 10**300, True),
        ({"multiple": 7}, 7 * 10**300, True),
        ({"multiple": 7}, 10**300, False),
        ({"max": 10**30}, 10**30 + 1, False),
        ({"min": -(10**30)}, -(10**30), True),
        ({"values": [10**30, 0.5]}, 10**30, True),
        ({"type": ["integer"]}, 1e300, True),
        ({"minLength": 2.0}, "a", False),
        ({"unique": True}, [0, 0.0], False),
        ({"unique": True}, [*range(5000), {"a": [1.0]}, {"a": [1]}], False),
        ({"unique": True}, [*range(5000), {"a": 1, "b": 2}, {"b": 1, "a": 2}], True),
    ],
)
def test_numbers_of_any_size(rule: dict[str, Any], value: Any, conforms: bool, run: suite.Run) -> None:
    (answer,) = run({"action": "check", "rules": [rule], "root": 0, "value": value})
    assert (answer["result"] == []) == conforms


@settings(max_examples=examples(100))
@given(body=st.binary(max_size=80), protobuf=st.booleans())
def test_any_bytes_are_a_value_or_a_finding(body: bytes, protobuf: bool, run: suite.Run) -> None:
    table = cases.wire(cases.protobuf() if protobuf else cases.avro(cases.AVRO_RECORD))
    (answer,) = run({"action": "decode", **table, "value": b64encode(body).decode()})
    assert "result" in answer or len(answer["findings"]) == 1


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + _varint(number >> 7) if number > 127 else bytes([number])


def _nested(levels: int) -> bytes:
    body = b""
    for _ in range(levels):
        body = b"\xb2\x01" + _varint(len(body)) + body
    return body


@pytest.mark.parametrize(
    ("table", "body", "rule"),
    [
        # A million nulls in each of a thousand arrays.
        ({"format": "avro", "root": 0,
          "wire": [{"kind": "array", "of": 1}, {"kind": "array", "of": 2}, {"kind": "null"}]},
         _varint(2000) + (_varint(2 * 10**6) + b"\0") * 1000, "decode"),
        (cases.wire(cases.avro({"type": "array", "items": "int"})), b"\xff" * 9 + b"\x01", "decode"),
        (cases.wire(cases.avro("bytes")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "decode"),
        (cases.wire(cases.avro("bytes")), b"\x01", "decode"),
        (cases.wire(cases.avro("int")), b"\x80\x80\x80\x80\x20", "decode"),
        (cases.wire(cases.avro({"type": "long", "logicalType": "timestamp-millis"})), b"\xff" * 9 + b"\x01", "range"),
        (cases.wire(cases.avro({"type": "int", "logicalType": "date"})), b"\xff\xff\xff\xff\x0f", "range"),
        (cases.wire(cases.avro({"type": "int", "logicalType": "time-millis"})), b"\x01", "range"),
        (cases.wire(cases.avro({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})),
         _varint(20000) + b"\1" * 10000, "range"),
        (cases.wire(cases.avro("double")), b"\0" * 6 + b"\xf0\x7f", "range"),
        (cases.wire(cases.protobuf()), _nested(70), "depth"),
        (cases.wire(cases.protobuf()), b"\xda\x01\x0a\x08" + b"\xff" * 8 + b"\x7f", "range"),
        (cases.wire(cases.protobuf()), b"\xe2\x01\x0b\x08" + b"\xff" * 8 + b"\x7f\x10\x01"[:2], "decode"),
        (cases.wire(cases.protobuf()), b"\x72" + b"\xff" * 9 + b"\x01", "decode"),
        (cases.wire(cases.protobuf()), b"\x0b\x0c", "decode"),
    ],
)  # fmt: skip
def test_hostile_bytes(table: Any, body: bytes, rule: str, run: suite.Run) -> None:
    (answer,) = run({"action": "decode", **table, "value": b64encode(body).decode()})
    assert [each["rule"] for each in answer["findings"]] == [rule]


def test_integers_of_64_bits(run: suite.Run) -> None:
    table = cases.wire(cases.protobuf())
    value = {"l": -(2**63), "ul": 2**64 - 1, "sl": 2**63 - 1, "xl": 2**64 - 1, "sxl": -(2**63), "u": 2**32 - 1}
    (written,) = run({"action": "encode", **table, "value": value})
    (read,) = run({"action": "decode", **table, "value": written["result"]})
    assert {name: read["result"][name] for name in value} == value
    for name, number in (("l", 2**63), ("ul", 2**64), ("ul", -1), ("sl", 10**400)):
        (answer,) = run({"action": "encode", **table, "value": {name: number}})
        assert [each["path"] for each in answer["findings"]] == [f"data/{name}"]
