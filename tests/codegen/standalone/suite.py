"""What generated code of any language has to do: a test module of a language imports these, and has a fixture ``run``.

``run`` gives tasks to a program of the language and returns its answers. A task names a message by the project and the
xid; bytes are base64. An answer is ``{"result": …}``, or ``{"error": …, "findings": […]}``.
"""

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.python.test_values import avro_cases
from tests.codegen.standalone import cases, hard, hostile

from signalbook.codegen.base import Generated, generate, read_input
from signalbook.codegen.standalone.patterns import portable
from signalbook.messages import Policy, Rejected
from signalbook.messages.bindings import http, kafka, nats
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import dump_json

Run = Callable[..., list[Any]]


def hard_message(name: str) -> list[str]:
    return ["hard", f"/messagegroups/hard/messages/{name}"]


def pointer(name: str) -> str:
    """Return a name as a path of findings has it."""
    return name.replace("~", "~0").replace("/", "~1")


@settings(max_examples=10)
@given(table=cases.random_table(8))
@example(table=cases.TABLE)
def test_rules_are_those_of_the_schema(table: list[Any], run: Run, pattern: Callable[[str], str]) -> None:
    check_rules(table, run, pattern)


def check_rules(table: list[Any], run: Run, pattern: Callable[[str], str] = portable) -> None:
    """Check that a program accepts the values that conform, and no others."""
    expected = list(cases.tasks(table, pattern))
    answers = run(*({"action": "check", **task} for task, _ in expected))
    for (task, conforms), answer in zip(expected, answers, strict=True):
        assert (answer["result"] == []) == conforms, (task, answer)


@settings(max_examples=25)
@given(case=avro_cases(), data=st.data())
def test_avro_round_trip(case: Any, data: st.DataObject, run: Run) -> None:
    schema, value = cases.avro(case[0]), data.draw(case[1].filter(lambda item: "e+" not in repr(item)))
    table, value = cases.wire(schema), json.loads(json.dumps(cases.plain(value), default=str))
    (written,) = run({"action": "encode", **table, "value": value})
    if "error" in written:  # a number that JavaScript does not have
        assert {item["rule"] for item in written["findings"]} == {"type"}
        assert cases.LARGE.search(json.dumps(value))
        return
    decoded = schema.decode(b64decode(written["result"]))
    assert cases.plain(decoded) == value
    (read,) = run({"action": "decode", **table, "value": b64encode(schema.encode(decoded)).decode()})
    assert read["result"] == value


def test_avro_of_every_kind(run: Run) -> None:
    schema = cases.avro(cases.AVRO_RECORD)
    for value in cases.AVRO_VALUES:
        table, payload = cases.wire(schema), cases.plain(value)
        (written,) = run({"action": "encode", **table, "value": payload})
        decoded = schema.decode(b64decode(written["result"]))
        assert {name: member for name, member in decoded.items() if name in value} == value
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
def test_invalid_avro_and_protobuf_is_not_written(table: Any, value: Any, path: str, run: Run) -> None:
    (answer,) = run({"action": "encode", **table, "value": value})
    assert [finding["path"] for finding in answer["findings"]] == [path]


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
    module = ["shop", GROUP + name]
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


PLACED = ["shop", GROUP + "order.placed"]
ORDER = {"kind": "new", "total": 5, "buyer": {"e-mail": "a@b"}}


def judged(sent: dict[str, Any]) -> Any:
    """Return the outcome of a record or a request against all definitions."""
    body = None if (text := sent.get("value", sent.get("body"))) is None else b64decode(text)
    if "topic" in sent:
        headers = [(name, value.encode()) for name, value in sent["headers"].items()]
        message = kafka.record(sent["topic"], body, headers, key=sent["key"] and sent["key"].encode())
    else:
        message = http.request(sent["method"], sent["path"], list(sent["headers"].items()), body)
    (outcome,) = contract().process(message)
    return outcome


def contract() -> Any:
    return Snapshot.of_registry("shop", [("shop", DOCUMENT)], ()).compile(Policy())


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("action", ["kafka", "http"])
def test_built_message_is_accepted_and_parsed(action: str, mode: str, run: Run) -> None:
    options = {"mode": mode, **({"topic": "orders", "key": "7"} if action == "kafka" else {})}
    (answer,) = run({"action": action, "module": PLACED, "payload": ORDER, "values": {"shop": "7 é"}, "given": options})
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
def test_invalid_payload_is_not_built(payload: Any, values: dict[str, str], path: str, run: Run) -> None:
    task = {"action": "kafka", "module": PLACED, "payload": payload, "values": values, "given": {"topic": "t"}}
    (answer,) = run(task)
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
def test_unexpected_message_is_not_parsed(change: dict[str, Any], path: str, run: Run) -> None:
    headers = {name: value for name, value in {**HEADERS, **change}.items() if value is not None}
    record = {"topic": "t", "key": None, "headers": headers, "value": b64encode(json.dumps(ORDER).encode()).decode()}
    (answer,) = run({"action": "parse", "module": PLACED, "record": record})
    assert answer["error"] == "UnexpectedMessage"
    assert path in [finding["path"] for finding in answer["findings"]]
    assert isinstance(judged(record), Rejected)


def test_bytes_without_a_schema(run: Run) -> None:
    image = {"module": ["shop", GROUP + "image"], "raw": True}
    body = b64encode(b"\x89PNG").decode()
    (answer,) = run({"action": "event", "module": ["shop", GROUP + "image"], "payload": None})
    assert answer["findings"][0]["path"] == "envelope"
    (answer,) = run({"action": "kafka", **image, "payload": body, "given": {"topic": "t"}})
    assert answer["findings"][0]["path"] == "protocol"  # it is for NATS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("names", dict.fromkeys(hard.MEMBERS, "x")),
        ("evil", {hard.EVIL: "x", "e": hard.EVIL}),
        ("tree", {"n": 1, "kids": [{"n": 2, "next": {"n": 3}}]}),
        ("union", [1, None]),
        ("extra", {"a": "x", "b": 1}),
        ("nulls", {"a": None}),
        ("wide", {"member4999": 1}),
    ],
)
def test_hard_names_and_shapes(name: str, value: Any, run: Run) -> None:
    check_returned(hard_message(name), value, run)


def check_returned(module: list[str], value: Any, run: Run) -> None:
    """Check that a payload is read back as it was sent, as a record and as an event."""
    task = {"module": module, "payload": value, "given": {"topic": "t"}}
    for action, form in (("kafka", "record"), ("event", "event")):
        (answer,) = run({**task, "action": action})
        (read,) = run({"action": "parse", "module": module, form: answer["result"]})
        assert read["result"]["payload"] == value


def test_placeholders_called_like_what_every_object_has(run: Run) -> None:
    values = {"constructor": "c", "toString": "t", "__proto__": "p"}
    task = {"action": "kafka", "module": hard_message("placeholders"), "payload": 1, "given": {"topic": "t"}}
    (answer,) = run({**task, "values": {**values, "proto": "p"}})  # as Java calls the last one
    assert answer["result"]["headers"]["ce_source"] == "/c/t/p"
    (read,) = run({"action": "parse", "module": hard_message("placeholders"), "record": answer["result"]})
    assert read["result"]["context"] == values
    (answer,) = run({**task, "values": {}})
    assert answer["findings"]


def hostile_message(name: str, group: str = "hostile") -> list[str]:
    return ["hard", f"/messagegroups/{group}/messages/{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("members", {text: text for text in hostile.NAMED}),
        ("nested", {text: {text: text} for text in hostile.NAMED}),
        ("named", {text: {"x": text} for text in hostile.NAMED}),
        ("extra", {text: text for text in hostile.NAMED} | {"more": 1}),
        ("sets", {"even": hostile.TEXTS[0], "consts": {text: text for text in hostile.NAMED}}),
        ("rules", {text: text for text in hostile.NAMED}),
        ("patterns", {f"p{number}": text for number, text in enumerate(hostile.NAMED)}),
    ],
)
def test_hostile_texts_come_back_as_data(name: str, value: Any, run: Run) -> None:
    check_returned(hostile_message(name), value, run)


def test_hostile_values_of_a_closed_set(run: Run) -> None:
    task = {"action": "event", "module": hostile_message("sets")}
    for name, texts in (("even", hostile.TEXTS[::2]), ("odd", hostile.TEXTS[1::2])):
        answers = run(*({**task, "payload": {name: text}} for text in texts))
        assert [json.loads(answer["result"])["data"][name] for answer in answers] == list(texts)
        answers = run(*({**task, "payload": {name: f"{text} no"}} for text in texts))
        assert {finding["path"] for answer in answers for finding in answer["findings"]} == {f"data/{name}"}


def test_hostile_names_in_rules(run: Run) -> None:
    payload = {text: text for text in hostile.NAMED}
    for text in hostile.NAMED[::20]:
        (answer,) = run({"action": "event", "module": hostile_message("rules"),
                         "payload": {name: value for name, value in payload.items() if name != text}})  # fmt: skip
        assert [finding["path"] for finding in answer["findings"]] == [f"data/{pointer(text)}"]


def test_hostile_patterns(run: Run) -> None:
    for number, text in enumerate(hostile.NAMED):
        payload = {f"p{number}": f"{text} no"}
        (answer,) = run({"action": "event", "module": hostile_message("patterns"), "payload": payload})
        assert [finding["path"] for finding in answer["findings"]] == [f"data/p{number}"]


def test_hostile_defaults(run: Run) -> None:
    (answer,) = run({"action": "kafka", "module": hostile_message("avro"), "payload": {}, "given": {"topic": "t"}})
    decoded = cases.avro(hostile.AVRO).decode(b64decode(answer["result"]["value"]))
    assert decoded == {field["name"]: field["default"] for field in hostile.AVRO["fields"]} | {
        "bytes": hostile.AVRO["fields"][-1]["default"].encode("latin-1")}  # fmt: skip


RAW = {"action": "kafka", "raw": True, "payload": b64encode(b"x").decode(), "given": {"topic": "t"}}


def test_hostile_names_and_values_of_headers(run: Run) -> None:
    (answer,) = run({**RAW, "module": hostile_message("headers")})
    assert answer["result"]["headers"] == hostile.HEADERS
    (read,) = run({"action": "parse", "module": hostile_message("headers"), "record": answer["result"], "raw": True})
    assert "result" in read


def test_hostile_names_of_inputs(run: Run) -> None:
    (answer,) = run({**RAW, "module": hostile_message("inputs"), "values": {}})
    if "error" in answer:
        assert {finding["path"] for finding in answer["findings"]} == {
            f"protocoloptions.headers.{name}" for name in hostile.INPUTS}  # fmt: skip
    else:  # programs in Go and Rust have a text for each parameter, if an empty one
        assert answer["result"]["headers"] == dict.fromkeys(hostile.INPUTS, "")


def test_hostile_constants(run: Run) -> None:
    answers = run(*({**RAW, "module": hostile_message(name)} for name in hostile.KEYS))
    assert [answer["result"]["key"] for answer in answers] == list(hostile.KEYS.values())


def test_hostile_ids(run: Run) -> None:
    for text in hostile.IDS:
        module = hostile_message(text, "hostile ids")
        (answer,) = run({"action": "event", "module": module, "payload": {text: text},
                         "values": {"Values": "v", "values": "v"}})  # fmt: skip
        if "error" in answer:  # an attribute of CloudEvents has no such characters
            assert {finding["path"] for finding in answer["findings"]} == {"type"}
            assert not text.isprintable()
            continue
        event = json.loads(answer["result"])
        assert (event["type"], event["source"], event["data"]) == (text, "/hostile/v", {text: text})


def write(target: str, folder: Path, document: dict[str, Any], **options: str) -> Generated:
    """Generate the files of a target for a document and write them to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definitions.json").write_bytes(dump_json(document))
    generated_files = generate(read_input(target, str(folder / "definitions.json"), (), options))
    for file in generated_files.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.path).write_bytes(file.content)
    return generated_files


Names = dict[str, dict[str, str]]
"""Of each project, what a program knows a message by: its module or class, by xid."""


def names_of(generated_files: Generated, name: Callable[[str], str]) -> dict[str, str]:
    """The names of messages; ``name`` makes one of the path of a file."""
    return {
        file.xids[0]: name(file.path)
        for file in generated_files.files
        if len(file.xids) == 1 and "/payloads/" not in f"/{file.path.lower()}" and not file.path.endswith("/index.ts")
    }


@contextmanager
def started(command: list[str], folder: Path, names: Names) -> Iterator[Run]:
    """A program that answers tasks, a line each."""
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        tasks, answers = program.stdin, program.stdout

        def ask(task: dict[str, Any]) -> Any:
            if "module" in task:
                project, xid = task["module"]
                task = {**task, "module": names[project][xid]}
            print(json.dumps(task), file=tasks, flush=True)
            return json.loads(answers.readline())

        yield lambda *requests: list(map(ask, requests))
