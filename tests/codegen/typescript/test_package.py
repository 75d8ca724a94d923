"""Generated TypeScript: compiled with --strict, held to Prettier, run; and what Signalbook says of its messages."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.python.test_values import avro_cases
from tests.codegen.standalone import cases, hard

from signalbook.codegen.base import Generated, generate, read_input
from signalbook.messages import Policy, Rejected
from signalbook.messages.bindings import http, kafka, nats
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import dump_json

MODULES = Path(sys.prefix) / "brokers" / "typescript" / "node_modules"
OPTIONS = {
    **dict.fromkeys(("strict", "noUncheckedIndexedAccess", "exactOptionalPropertyTypes", "noUnusedLocals"), True),
    **dict.fromkeys(("noImplicitReturns", "noPropertyAccessFromIndexSignature", "isolatedModules"), True),
    "target": "ES2022", "module": "NodeNext", "lib": ["ES2022", "DOM"], "types": [],
}  # fmt: skip
# Each line that the types must refuse says so.
PROGRAM = """
import { orderPlaced2 } from "./shop/shop_orders/index.js";
import { toKafka } from "./shop/runtime.js";
import * as tree from "./hard/hard/tree.js";
import * as parts from "./hard/hard/parts.js";

const payload: orderPlaced2.Payload = { kind: "new", total: 5, buyer: { "e-mail": "a@b" } };
const total: number = orderPlaced2.parse({
  protocol: "", contentType: "", attributes: null, options: {}, body: null }).payload.total;
toKafka(orderPlaced2.build(payload, { shop: "7" }), { topic: String(total) });
tree.build({ n: 1, kids: [{ n: 2 }], next: null });
parts.build({ one: { k: "a" }, map: { x: [1.5] }, both: null });
// @ts-expect-error a value that is not in the set
orderPlaced2.build({ kind: "old", total: 5 }, { shop: "7" });
// @ts-expect-error a member is missing
orderPlaced2.build({ kind: "new" }, { shop: "7" });
// @ts-expect-error a placeholder is missing
orderPlaced2.build(payload, {});
// @ts-expect-error a member of another type
tree.build({ n: 1, kids: [{ n: "2" }] });
"""


def write(folder: Path, document: dict[str, Any]) -> Generated:
    folder.mkdir()
    (folder / "definitions.json").write_bytes(dump_json(document))
    found = generate(read_input("typescript", str(folder / "definitions.json")))
    for file in found.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.path).write_bytes(file.content)
    return found


def node(*command: str, folder: Path) -> str:
    ran = subprocess.run(["node", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def compiled(folder: Path, documents: dict[str, dict[str, Any]], program: str = "") -> Path:
    """A project with what is generated of documents, compiled into its folder ``js``."""
    if not MODULES.exists():
        pytest.skip("TypeScript is not installed beside the tests: tools/setup test")
    folder.mkdir(exist_ok=True)
    for name, document in documents.items():
        write(folder / name, document)
    (folder / "program.ts").write_text(program)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": {**OPTIONS, "outDir": "js"}}))
    node(str(MODULES / "typescript" / "bin" / "tsc"), folder=folder)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project with all that is generated here, compiled."""
    folder = tmp_path_factory.mktemp("typescript")
    return compiled(folder, {"shop": DOCUMENT, "hard": hard.DOCUMENT}, PROGRAM)


def test_what_is_left_out(tmp_path: Path) -> None:
    assert sorted(write(tmp_path / "shop", DOCUMENT).left_out) == [
        GROUP + name for name in ("broken", "xml")]  # fmt: skip
    assert write(tmp_path / "hard", hard.DOCUMENT).left_out == {}


Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def run(project: Path) -> Iterator[Run]:
    """Answers of a program of the generated code."""
    command = ["node", str(Path(__file__).with_name("program.mjs")), "js"]
    with subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        given, answers = program.stdin, program.stdout

        def ask(task: dict[str, Any]) -> Any:
            print(json.dumps(task), file=given, flush=True)
            return json.loads(answers.readline())

        yield lambda *tasks: list(map(ask, tasks))


def test_it_is_as_prettier_writes_it(project: Path) -> None:
    """Apart from what a formatter does with lines that have no place to be broken at."""
    prettier = str(MODULES / "prettier" / "bin" / "prettier.cjs")
    assert node(prettier, "--print-width=120", "--list-different", "shop/**/*.ts", "hard/**/*.ts", folder=project) == ""


def test_rules_are_those_of_the_schema(run: Run) -> None:
    wanted = list(cases.tasks(cases.TABLE))
    found = run(*({"action": "check", **task} for task, _ in wanted))
    for (task, conforms), answer in zip(wanted, found, strict=True):
        assert (answer["result"] == []) == conforms, (task, answer)


@settings(max_examples=10)
@given(table=cases.random_table(8))
def test_rules_of_random_schemas(table: list[Any], run: Run) -> None:
    wanted = list(cases.tasks(table))
    found = run(*({"action": "check", **task} for task, _ in wanted))
    for (task, conforms), answer in zip(wanted, found, strict=True):
        assert (answer["result"] == []) == conforms, (task, answer)


@settings(max_examples=25)
@given(case=avro_cases(), data=st.data())
def test_avro_is_written_and_read(case: Any, data: st.DataObject, run: Run) -> None:
    schema, value = cases.avro(case[0]), data.draw(case[1].filter(lambda each: "e+" not in repr(each)))
    table, value = cases.wire(schema), json.loads(json.dumps(cases.plain(value), default=str))
    (written,) = run({"action": "encode", **table, "value": value})
    if "error" in written:  # a number that JavaScript does not have
        assert {each["rule"] for each in written["findings"]} == {"type"}
        assert cases.LARGE.search(json.dumps(value))
        return
    decoded = schema.decode(b64decode(written["result"]))
    assert cases.plain(decoded) == value
    (read,) = run({"action": "decode", **table, "value": b64encode(schema.encode(decoded)).decode()})
    assert read["result"] == value


def test_avro_of_every_kind(run: Run) -> None:
    schema = cases.avro(cases.AVRO_RECORD)
    for value in cases.AVRO_VALUES:
        table, given = cases.wire(schema), cases.plain(value)
        (written,) = run({"action": "encode", **table, "value": given})
        decoded = schema.decode(b64decode(written["result"]))
        assert {name: each for name, each in decoded.items() if name in value} == value
        (read,) = run({"action": "decode", **table, "value": b64encode(schema.encode(decoded)).decode()})
        assert read["result"] == cases.plain(decoded)


@pytest.mark.parametrize("value", cases.MESSAGES)
def test_protobuf_is_written_and_read(value: dict[str, Any], run: Run) -> None:
    schema = cases.protobuf()
    table = cases.wire(schema)
    (written,) = run({"action": "encode", **table, "value": cases.plain(value)})
    decoded = schema.decode(b64decode(written["result"]))
    assert schema.encode(decoded) == schema.encode(schema.decode(schema.encode(value)))
    (read,) = run({"action": "decode", **table, "value": b64encode(schema.encode(value)).decode()})
    (again,) = run({"action": "encode", **table, "value": read["result"]})
    assert again == written


@pytest.mark.parametrize(("table", "value", "path"), cases.unwritable())
def test_what_avro_and_protobuf_forbid_is_not_written(table: Any, value: Any, path: str, run: Run) -> None:
    (answer,) = run({"action": "encode", **table, "value": value})
    assert [each["path"] for each in answer["findings"]] == [path]


@pytest.mark.parametrize(("table", "body"), cases.unreadable())
def test_broken_bytes_are_findings(table: Any, body: bytes, run: Run) -> None:
    (answer,) = run({"action": "decode", **table, "value": b64encode(body).decode()})
    assert len(answer["findings"]) == 1


@pytest.mark.parametrize(
    ("name", "payload", "values"),
    [
        ("class", {"n": 1, "fare": "-1.50", "at": "01:00:00.5", "tags": {"a": [[1, 2]]}}, {"city": "berlin"}),
        ("parcel", {"id": "p", "items": [{"n": 1}]}, {}),
    ],
)
def test_messages_of_avro_and_protobuf(name: str, payload: Any, values: dict[str, str], run: Run) -> None:
    module = f"shop/shop_orders/{'class_' if name == 'class' else name}"
    (message,) = run({"action": "message", "module": module, "payload": payload, "values": values})
    built = message["result"]
    body, options = b64decode(built["body"]), built["options"]
    received = (kafka.record(options["topic"], body, [("content-type", built["contentType"].encode())])
                if name == "class" else nats.message(options["subject"], body))  # fmt: skip
    (outcome,) = contract().process(received)
    assert outcome.definition.xid == GROUP + name
    assert cases.plain(outcome.data) == payload
    (read,) = run({"action": "read", "module": module, "message": built})
    assert (read["result"]["payload"], read["result"]["context"]) == (payload, values)


PLACED = "shop/shop_orders/order_placed_2"
ORDER = {"kind": "new", "total": 5, "buyer": {"e-mail": "a@b"}}


def judged(found: dict[str, Any]) -> Any:
    """What Signalbook says of a record or a request, by all definitions."""
    body = None if (text := found.get("value", found.get("body"))) is None else b64decode(text)
    if "topic" in found:
        headers = [(name, value.encode()) for name, value in found["headers"].items()]
        message = kafka.record(found["topic"], body, headers, key=found["key"] and found["key"].encode())
    else:
        message = http.request(found["method"], found["path"], list(found["headers"].items()), body)
    (outcome,) = contract().process(message)
    return outcome


def contract() -> Any:
    return Snapshot.of_registry("shop", [("shop", DOCUMENT)], ()).compile(Policy())


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("action", ["kafka", "http"])
def test_what_is_built_is_accepted_and_read_back(action: str, mode: str, run: Run) -> None:
    given = {"mode": mode, **({"topic": "orders", "key": "7"} if action == "kafka" else {})}
    (answer,) = run({"action": action, "module": PLACED, "payload": ORDER, "values": {"shop": "7 é"}, "given": given})
    accepted = judged(answer["result"])
    assert (accepted.definition.xid, accepted.data) == (GROUP + "order.placed", ORDER)
    assert accepted.event.attributes["source"] == "/shops/7%20%C3%A9"
    sent = {"record" if action == "kafka" else "request": answer["result"]}
    (read,) = run({"action": "parse", "module": PLACED, **sent})
    assert (read["result"]["payload"], read["result"]["context"]) == (ORDER, {"shop": "7 é"})
    assert read["result"]["attributes"] == accepted.event.attributes


@pytest.mark.parametrize(
    ("payload", "values", "path"),
    [
        ({**ORDER, "total": -1}, {"shop": "7"}, "data/total"),
        ({**ORDER, "kind": "old"}, {"shop": "7"}, "data/kind"),
        ({"kind": "new"}, {"shop": "7"}, "data/total"),
        ({**ORDER, "more": 1}, {"shop": "7"}, "data/more"),
        ({**ORDER, "buyer": {"e-mail": 5}}, {"shop": "7"}, "data/buyer/e-mail"),
        (ORDER, {"shop": ""}, "{shop}"),
        (ORDER, {}, "envelopemetadata.source"),
    ],
)
def test_what_the_definition_forbids_is_not_built(payload: Any, values: dict[str, str], path: str, run: Run) -> None:
    (answer,) = run(
        {"action": "kafka", "module": PLACED, "payload": payload, "values": values, "given": {"topic": "t"}}
    )
    assert answer["error"] == "OutboundError"
    assert path in [finding["path"] for finding in answer["findings"]]


HEADERS = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shops/7", "ce_type": "placed"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"ce_type": "other"}, "type"),
        ({"ce_source": "/else"}, "source"),
        ({"ce_id": None}, ""),
        ({"ce_time": "now"}, "time"),
        ({"content-type": "text/plain"}, "datacontenttype"),
        ({"ce_UPPER": "x"}, "UPPER"),
    ],
)
def test_what_the_definition_does_not_allow_is_not_read(change: dict[str, Any], path: str, run: Run) -> None:
    headers = {name: value for name, value in {**HEADERS, **change}.items() if value is not None}
    record = {"topic": "t", "key": None, "headers": headers, "value": b64encode(json.dumps(ORDER).encode()).decode()}
    (answer,) = run({"action": "parse", "module": PLACED, "record": record})
    assert answer["error"] == "UnexpectedMessage"
    assert path in [finding["path"] for finding in answer["findings"]]
    assert isinstance(judged(record), Rejected)


def test_bytes_without_a_schema(run: Run) -> None:
    image = {"module": "shop/shop_orders/image", "raw": True}
    body = b64encode(b"\x89PNG").decode()
    (answer,) = run({"action": "event", "module": "shop/shop_orders/image", "payload": None})
    assert answer["findings"][0]["path"] == "envelope"
    (answer,) = run({"action": "kafka", **image, "payload": body, "given": {"topic": "t"}})
    assert answer["findings"][0]["path"] == "protocol"  # it is for NATS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("names", dict.fromkeys(hard.MEMBERS, "x")),
        ("evil", {hard.EVIL: "x", "e": hard.EVIL}),
        ("tree", {"n": 1, "kids": [{"n": 2, "next": None}]}),
        ("union", [1, None]),
        ("extra", {"a": "x", "b": 1}),
        ("nulls", {"a": None}),
        ("wide", {"member4999": 1}),
    ],
)
def test_hard_names_and_shapes(name: str, value: Any, run: Run) -> None:
    task = {"action": "kafka", "module": f"hard/hard/{name}", "payload": value, "given": {"topic": "t"}}
    (answer,) = run(task)
    (read,) = run({"action": "parse", "module": f"hard/hard/{name}", "record": answer["result"]})
    assert read["result"]["payload"] == value
    (event,) = run({**task, "action": "event"})
    (read,) = run({"action": "parse", "module": f"hard/hard/{name}", "event": event["result"]})
    assert read["result"]["payload"] == value


def test_the_same_definitions_give_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "a", hard.DOCUMENT) == write(tmp_path / "b", hard.DOCUMENT)
