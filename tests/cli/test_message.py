"""Messages of definitions, made and checked."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli

from signalbook.values import dump_json

GROUP = "/messagegroups/shop/messages/"
ORDER = {"n": 1}
METADATA: dict[str, Any] = {
    "type": {"value": "order"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"},
    "urgent": {"type": "boolean"},
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
}
AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "int"]}]}
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="n" type="xs:int"/></xs:schema>'
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": METADATA}
MESSAGES: dict[str, Any] = {
    "order": {**EVENT, **SCHEMA},
    "packed": {"protocol": "KAFKA", "protocoloptions": {"topic": "packed"}, "dataschemaformat": "Avro/1.11",
               "dataschema": AVRO},
    "hook": {"protocol": "HTTP", "protocoloptions": {"path": "/hooks/{shop}", "headers": [
        {"name": "X-Kind", "value": "hook", "required": True}]}, **SCHEMA},
    "xml": {"protocol": "NATS", "protocoloptions": {"subject": "xml"}, "dataschemaformat": "XSD/1.1",
            "dataschema": XSD},
    "image": {"protocol": "NATS", "protocoloptions": {"subject": "image"}, "datacontenttype": "image/png"},
    "broken": {"protocol": "KAFKA", "protocoloptions": {"topic": 5}},
}  # fmt: skip
ENDPOINT: dict[str, Any] = {
    "usage": ["producer"], "protocol": "HTTP", "messagegroups": ["/messagegroups/shop"],
    "protocoloptions": {"endpoints": [{"uri": "https://in.example:8443/{tenant}/orders"}]},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _book(tmp_path: Path) -> None:
    document = {
        "messagegroups": {"shop": {"messages": MESSAGES}, "other": {"messages": {"image": MESSAGES["image"]}}},
        "endpoints": {"in": ENDPOINT},
    }
    (tmp_path / "book.json").write_bytes(dump_json(document))


def build(cli: Cli, name: str, *options: str, data: bytes = b'{"n": 1}') -> Any:
    return cli("message", "build", name, "--registry", "book.json", *options, stdin=data)


def test_inputs(cli: Cli) -> None:
    """The command lists the inputs of a message (K-51)."""
    ran = cli("message", "inputs", "order", "--registry", "book.json")
    assert ran.out.splitlines() == ["shop    string   template  required", "urgent  boolean  property  optional"]
    inputs = json.loads(cli("message", "inputs", GROUP + "order", "--registry", "book.json", "--json").out)
    assert (inputs["message"], inputs["inputs"][0]["name"]) == (GROUP + "order", "shop")


def test_an_event(cli: Cli) -> None:
    """The command builds an event from inputs and data (K-50)."""
    options = ["--set", "shop=7 b", "--set", "urgent=true", "--set", "id=1", "--set", "envelopemetadata.trace=x"]
    ran = build(cli, "order", *options, "--data", "-")
    assert json.loads(ran.out) == {
        "specversion": "1.0", "id": "1", "source": "/shops/7%20b", "type": "order", "urgent": True, "trace": "x",
        "datacontenttype": "application/json", "data": {"n": 1},
    }  # fmt: skip
    assert ran.out.count("\n") == 1


def test_a_request_to_an_endpoint(cli: Cli) -> None:
    """The command builds an HTTP request to an endpoint (K-53)."""
    ran = build(cli, "order", "--set", "shop=7", "--set", "tenant=t 1", "--set", "id=1", "--data", "-", "--endpoint",
                "/endpoints/in", "--as", "http")  # fmt: skip
    assert ran.out.split("\r\n") == [
        "POST /t%201/orders HTTP/1.1", "Host: in.example:8443", "ce-specversion: 1.0", "ce-id: 1",
        "ce-source: /shops/7", "ce-type: order", "Content-Type: application/json", "Content-Length: 7", "", '{"n":1}',
    ]  # fmt: skip


def test_request_without_an_envelope_is_built(cli: Cli) -> None:
    """K-50, K-53"""
    ran = build(cli, "hook", "--set", "shop=7", "--set", "protocoloptions.query.q=a b", "--data", "-", "--as", "http")
    assert ran.out.split("\r\n")[0] == "POST /hooks/7?q=a%20b HTTP/1.1"


@pytest.mark.parametrize(
    ("name", "data", "payload"),
    [
        ("packed", b'{"n": {"int": 1}}', {"body": "\x02\x02"}),
        ("xml", b"<n> 1 </n>", {"body": "<n> 1 </n>"}),
        ("/messagegroups/shop/messages/image", b"\x89PNG", {"body_base64": "iVBORw=="}),
    ],
)
def test_payloads_of_all_kinds(cli: Cli, name: str, data: bytes, payload: dict[str, str]) -> None:
    """The data are JSON if the schema supports it, and unchanged otherwise (K-52)."""
    ran = build(cli, name, "--data", "-", data=data)
    record = json.loads(ran.out)
    assert {member: record[member] for member in payload} == payload
    options = ("--registry", "book.json", "--group", "/messagegroups/shop")
    checked = cli("message", "check", "-", *options, stdin=ran.out.encode())
    assert (checked.code, checked.out) == (0, "1 checked: 1 may be sent, 0 may not\n")


def test_encoded_payload_is_sent_unchanged(cli: Cli, tmp_path: Path) -> None:
    """An encoded payload is checked and sent unchanged (K-52)."""
    (tmp_path / "n.avro").write_bytes(b"\x02\x02")
    assert json.loads(build(cli, "packed", "--payload", "n.avro").out)["body"] == "\x02\x02"
    (tmp_path / "n.avro").write_bytes(b"\x02")
    assert "not this schema in Avro" in build(cli, "packed", "--payload", "n.avro").err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["order", "--set", "shap=7"], 1, "has no input shap; there are: shop, urgent"),
        (["order", "--set", "shop"], 2, "is not NAME=VALUE"),
        (["order", "--set", "type=x", "--set", "shop=7", "--data", "-"], 1, "type must be 'order', not 'x'"),
        (["order", "--set", "shop=7"], 1, "there is no payload"),
        (["order", "--data", "-"], 1, "needs shop"),
        (["order", "--data", "nowhere.json"], 1, "nowhere.json: cannot be read"),
        (["order", "--data", "-", "--payload", "-"], 2, "one of --data and --payload"),
        (["order", "--endpoint", "/endpoints/in", "--protocol", "HTTP"], 2, "one of --endpoint and --protocol"),
        (["order", "--endpoint", "/endpoints/none"], 1, "there is no endpoint /endpoints/none"),
        (["order", "--endpoint", "/messagegroups/shop"], 1, "there is no endpoint"),
        (["hook", "--set", "shop=7", "--data", "-", "--as", "event"], 1, "is of no event"),
        (["order", "--set", "shop=7", "--data", "-", "--as", "http"], 1, "give --protocol HTTP"),
        (["order", "--set", "shop=7", "--data", "-", "--protocol", "SMTP"], 1, "no binding for SMTP"),
        (["image", "--data", "-"], 1, "several messages have the id image"),
        (["broken"], 1, "cannot be used"),
        (["none"], 1, "there is no message none; there are: /messagegroups/other"),
    ],
)
def test_message_that_cannot_be_built_is_reported(cli: Cli, arguments: list[str], code: int, complaint: str) -> None:
    """The command reports the error, and prints nothing (K-50)."""
    ran = build(cli, *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert complaint in ran.err


def test_invalid_json_data_is_an_error(cli: Cli) -> None:
    ran = build(cli, "order", "--set", "shop=7", "--data", "-", data=b"{")
    assert (ran.code, ran.out, "the data is not JSON" in ran.err) == (1, "", True)


def event(**members: Any) -> str:
    event = {"specversion": "1.0", "id": "1", "type": "order", "source": "/shops/7", "data": ORDER, **members}
    return json.dumps(event)


def test_invalid_messages_are_reported(cli: Cli, tmp_path: Path) -> None:
    """Invalid messages are reported with their definitions and findings (K-54)."""
    lines = [event(), "", event(data={}), event(type="unknown"), json.dumps([json.loads(event()), {}])]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    (tmp_path / "one.json").write_text(json.dumps(json.loads(event()), indent=2))
    ran = cli("message", "check", "events.jsonl", "one.json", "--registry", "book.json")
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if not line.startswith(" ")] == [
        f"refused  events.jsonl:3  schema_violation of {GROUP}order",
        "refused  events.jsonl:4  unknown_kind",
        "refused  events.jsonl:5  invalid_cloudevent",
        "5 checked: 2 may be sent, 3 may not",
    ]
    assert f"{GROUP}broken cannot be used: protocoloptions: protocoloptions.topic: must be a string" in ran.err
    result = json.loads(cli("message", "check", "events.jsonl", "--registry", "book.json", "--json").out)
    assert (result["accepted"], result["checked"]) == (False, 4)
    assert [row["source"] for row in result["refused"]] == ["events.jsonl:3", "events.jsonl:4", "events.jsonl:5"]
    assert result["refused"][0]["violations"][0]["rule"] == "required"
    assert list(result["definitions"]) == [f"{GROUP}broken"]


def test_base_message_can_be_a_version(cli: Cli, tmp_path: Path) -> None:
    """A message can inherit from a Version that is not the default; a missing base is reported (F-15, F-18)."""
    base = {"versions": {str(n): {**EVENT, "description": str(n), "envelopemetadata": {
        "type": {"value": f"order.{n}"}, "source": {"value": f"/shops/{n}"}}} for n in (1, 2)}}  # fmt: skip
    derived = {name: {"basemessage": f"{GROUP}base{suffix}"} for name, suffix in [
        ("pinned", "/versions/1"), ("latest", ""), ("lost", "/versions/9")]}  # fmt: skip
    document = {"messagegroups": {"shop": {"messages": {"base": base, **derived}}}}
    (tmp_path / "book.json").write_bytes(dump_json(document))
    events = {name: json.loads(build(cli, name).out) for name in ("pinned", "latest")}
    origins = {name: (event_["type"], event_["source"]) for name, event_ in events.items()}
    assert origins == {"pinned": ("order.1", "/shops/1"), "latest": ("order.2", "/shops/2")}
    missing = f"there is no base message {GROUP}base/versions/9"
    warning = f"warning: {GROUP}lost: basemessage: {missing}"
    ran = build(cli, "lost", data=b"5")
    assert (ran.code, warning in ran.err) == (0, True)
    event = json.dumps(events["pinned"]).encode()
    assert cli("message", "check", "-", "--registry", "book.json", stdin=event).ended(0, warning)
    result = json.loads(cli("message", "check", "-", "--registry", "book.json", "--json", stdin=event).out)
    assert (result["accepted"], result["definitions"][f"{GROUP}lost"][0]["message"]) == (True, missing)


def test_an_endpoint_takes_messages_of_its_protocol(cli: Cli) -> None:
    """The endpoint also accepts messages of the groups that it names (K-54, K-10)."""
    request = build(cli, "order", "--set", "shop=7", "--data", "-", "--protocol", "HTTP").out.encode()
    assert (
        cli("message", "check", "-", "--registry", "book.json", "--endpoint", "/endpoints/in", stdin=request).code == 0
    )
    other = build(cli, "packed", "--data", "-", data=b'{"n": null}').out.encode()
    ran = cli("message", "check", "-", "--registry", "book.json", "--endpoint", "/endpoints/in", stdin=other)
    assert "the endpoint is for HTTP, the message for KAFKA" in ran.out


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}\n{", "-:2: not JSON"),
        ("5", "neither an event nor a message"),
        ('{"protocol": "KAFKA", "body_base64": "!"}', "not a message as message build writes it"),
        ('{"protocol": "KAFKA", "sections": 5}', "not a message as message build writes it"),
    ],
)
def test_invalid_input_files_are_errors(cli: Cli, text: str, complaint: str) -> None:
    assert cli("message", "check", "-", "--registry", "book.json", stdin=text.encode()).ended(1, complaint)
