"""Payloads of every format and encoding, good and hostile: each lands or is a dead letter with its reason.

The same requests go through the message library one by one, and through one run of the pipeline together.
"""

import gzip
import json
import zlib
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.local import run

from signalbook.messages import Accepted, Policy, Rejected
from signalbook.pipeline import Job
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.sources.base import build_single_batch
from signalbook.pipeline.sources.files import HTTP_JSONL
from signalbook.values import JSONObject

OLD: JSONObject = {"type": "record", "name": "Reading", "fields": [{"name": "value", "type": "int"}]}
UNIT = {"name": "unit", "type": "string", "default": "C"}
NEW: JSONObject = {**OLD, "fields": [{"name": "value", "type": "long"}, UNIT]}
PROTO = 'syntax = "proto3"; message Other { string a = 1; } message Reading { int32 value = 1; string unit = 2; }'
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="reading"><xs:complexType><xs:sequence>
<xs:element name="value" type="xs:int"/><xs:element name="tag" type="xs:string" maxOccurs="unbounded" minOccurs="0"/>
</xs:sequence><xs:attribute name="unit" type="xs:string" use="required"/></xs:complexType></xs:element></xs:schema>"""
JSON_SCHEMA = {"type": "object", "required": ["value"], "properties": {"value": {"type": "integer"}}}
SCHEMAS: dict[str, list[tuple[str, Any]]] = {
    "json": [("JsonSchema/draft-07", JSON_SCHEMA)],
    "avro": [("Avro/1.11", OLD), ("Avro/1.11", NEW)],
    "proto": [("Protobuf/3", PROTO)],
    "xml": [("XSD/1.1", XSD)],
}
AVRO_URI = "https://r.example/schemagroups/g/schemas/avro/versions/"
BOMB = '<!DOCTYPE a [<!ENTITY a "ha">{}]><reading unit="C"><value>1</value><tag>{}</tag></reading>'
LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)).replace("&a0;", "&a;")
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><reading unit="C"><value>&x;</value></reading>'
XML = b'<reading unit="C"><value>3</value><tag>a</tag><tag>b</tag></reading>'
DEEP = b'{"value":' + b"[" * 10_000 + b"]" * 10_000 + b"}"


def catalogue() -> JSONObject:
    """A message definition per payload format, and one whose schema nobody has."""

    def message(name: str, **more: Any) -> JSONObject:
        uri = f"/schemagroups/g/schemas/{name}{':Reading' if name == 'proto' else ''}"
        metadata = {"type": {"value": name}}
        return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "dataschemauri": uri, **more}

    schemas = {
        name: {"versions": {str(n): {"format": kind, "schema": text} for n, (kind, text) in enumerate(versions, 1)}}
        for name, versions in SCHEMAS.items()
    }
    return {
        "messagegroups": {"g": {"messages": {name: message(name) for name in (*SCHEMAS, "lost")}}},
        "schemagroups": {"g": {"schemas": schemas}},
    }


def avro(value: Any, schema: JSONObject = NEW) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), value)
    return stream.getvalue()


def request(type: str, content_type: str, body: bytes, **more: Any) -> bytes:
    """A CloudEvent in binary mode as a line of a log; a header that is ``None`` is left out."""
    head = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": type, "content-type": content_type}
    headers = {name.replace("_", "-"): value for name, value in {**head, **more}.items() if value}
    line = {"method": "POST", "path": "/in", "headers": headers, "body_base64": b64encode(body).decode()}
    return json.dumps(line).encode()


BATCH = "application/cloudevents-batch+json"
BROTLI = pa.compress(b'{"value": 3}', "brotli", asbytes=True)
CUT = gzip.compress(b"{}")[:-3]
GOOD = {
    "json": request("json", "application/json", b'{"value": 3}'),
    "no content type": request("json", "", b'{"value": 3}'),
    "gzip": request("json", "application/json", gzip.compress(b'{"value": 3}'), content_encoding="gzip"),
    "br": request("json", "application/json", BROTLI, content_encoding="br"),
    "far future": request("json", "application/json", b'{"value": 3}', ce_time="9999-12-31T23:59:59Z"),
    "far past": request("json", "application/json", b'{"value": 3}', ce_time="0001-01-01T00:00:00Z"),
    "avro": request("avro", "application/avro", avro({"value": 3, "unit": "C"})),
    "old avro": request("avro", "application/avro", avro({"value": 3}, OLD), ce_dataschema=f"{AVRO_URI}1"),
    "avro as json": request("avro", "application/json", b'{"value": 3, "unit": "C"}', **{"ce-type": "avro"}),
    "proto": request("proto", "application/protobuf", b"\x08\x03\x12\x01C"),
    "xml": request("xml", "application/xml", XML),
    "zipped xml": request("xml", "text/xml", zlib.compress(XML), content_encoding="deflate"),
}
BAD = {
    "cut json": (request("json", "application/json", b'{"value": 3'), "decode_error"),
    "no utf-8": (request("json", "application/json", b'{"value": "\xff"}'), "decode_error"),
    "deep json": (request("json", "application/json", DEEP), "decode_error"),
    "wrong json": (request("json", "application/json", b'{"value": "x"}'), "schema_violation"),
    "empty body": (request("json", "application/json", b""), "decode_error"),
    "cut gzip": (request("json", "application/json", CUT, content_encoding="gzip"), "decode_error"),
    "no encoding": (request("json", "application/json", b"{}", content_encoding="lzw"), "unsupported_format"),
    "other type": (request("json", "application/pdf", b"{}"), "unsupported_format"),
    "header twice": (request("json", "application/json", b"{}", **{"ce-id": ["1", "2"]}), "invalid_cloudevent"),
    "bad escape": (request("json", "application/json", b"{}", ce_subject="%C0%A0"), "invalid_cloudevent"),
    "no time": (request("json", "application/json", b"{}", ce_time="2026-13-01T00:00:00Z"), "invalid_cloudevent"),
    "year 0": (request("json", "application/json", b"{}", ce_time="0000-01-01T00:00:00Z"), "invalid_cloudevent"),
    "cut avro": (request("avro", "application/avro", avro({"value": 3, "unit": "C"})[:-1]), "decode_error"),
    "other avro": (request("avro", "application/avro", avro({"value": 3}, OLD)), "decode_error"),
    "long avro": (request("avro", "application/avro", b"\x06\xfe\xff\xff\xff\xff\x7f" + b"x"), "decode_error"),
    "unknown avro": (request("avro", "application/avro", b"\x06", ce_dataschema=f"{AVRO_URI}9"), "schema_not_found"),
    "garbage proto": (request("proto", "application/protobuf", b"\xff" * 40), "decode_error"),
    "cut proto": (request("proto", "application/protobuf", b"\x08\x03\x12\x05C"), "decode_error"),
    "nested proto": (request("proto", "application/protobuf", b"\x0b" * 100_000), "decode_error"),
    "laughs": (request("xml", "application/xml", BOMB.format(LAUGHS, "&a9;").encode()), "decode_error"),
    "quadratic": (request("xml", "application/xml", BOMB.format("", "&a;" * 50_000).encode()), "decode_error"),
    "external": (request("xml", "application/xml", EXTERNAL.encode()), "decode_error"),
    "deep xml": (request("xml", "application/xml", b"<a>" * 10_000), "decode_error"),
    "cut xml": (request("xml", "application/xml", XML[:-5]), "decode_error"),
    "wrong xml": (request("xml", "application/xml", XML.replace(b"3", b"x")), "schema_violation"),
    "lost schema": (request("lost", "application/json", b"{}"), "schema_not_found"),
    "cut batch": (request("", BATCH, b"[{", **dict.fromkeys(("ce-id", "ce-type", "ce-source"))), "decode_error"),
    "no request": (b'{"method": "POST"', "decode_error"),
    "no body": (b'{"method":"POST","path":"/","body":"x","body_base64":"eA=="}', "decode_error"),
}
EMPTY_BATCH = request("", BATCH, b"[]", **dict.fromkeys(("ce-id", "ce-type", "ce-source")))


def word(line: bytes) -> list[str]:
    """Return the outcomes of a request in the message library: the reason of the rejection, or ``landed``."""
    contract = Snapshot.of_documents([("x", catalogue())]).compile(Policy())
    outcomes = contract.process(HTTP_JSONL.message(build_single_batch("f", line, 0), 0))
    return [outcome.reason.value if isinstance(outcome, Rejected) else "landed" for outcome in outcomes]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_payload_is_accepted(name: str) -> None:
    """K-39, K-40, K-41"""
    assert word(GOOD[name]) == ["landed"]


@pytest.mark.parametrize("name", [name for name in BAD if not name.startswith("no request") and name != "no body"])
def test_a_bad_payload_has_its_reason(name: str) -> None:
    """K-41, K-44"""
    line, reason = BAD[name]
    assert word(line) == [reason]


def test_a_batch_of_nothing_has_no_events() -> None:
    """An empty batch contains no events (K-22)."""
    assert word(EMPTY_BATCH) == []


def test_bad_input_does_not_stop_a_run(tmp_path: Path) -> None:
    """The run continues, no message is lost, and valid ones have their columns (K-44, K-45)."""
    lines = [*GOOD.values(), EMPTY_BATCH, *(line for line, _ in BAD.values())]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "requests.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "in" / "empty.jsonl").write_bytes(b"")
    (tmp_path / "catalogue.json").write_text(json.dumps(catalogue()))
    registry, inputs = str(tmp_path / "catalogue.json"), (str(tmp_path / "in"),)
    job = Job(registry=registry, inputs=inputs, output=tmp_path / "out", table_format="parquet")
    report = run(replace(job, input_format="http-jsonl")).to_json()
    assert report["reasons"] == Counter(reason for _, reason in BAD.values())
    assert (report["landed"], report["read"]) == (len(GOOD), len(GOOD) + len(BAD))
    letters = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    assert {letter["original"] for letter in letters} == {line for line, _ in BAD.values()}
    tables = tmp_path / "out" / "tables" / "g"
    assert {row["unit"] for row in pq.read_table(tables / "avro").to_pylist()} == {"C"}
    assert [(row["value"], row["unit"]) for row in pq.read_table(tables / "proto").to_pylist()] == [(3, "C")]
    xml = pq.read_table(tables / "xml").to_pylist()
    assert [(row["@unit"], row["value"], row["tag"]) for row in xml] == [("C", 3, ["a", "b"])] * 2


def test_accepted_payloads_come_without_encoding() -> None:
    """Accepted payloads are decompressed (K-40)."""
    contract = Snapshot.of_documents([("x", catalogue())]).compile(Policy())
    (outcome,) = contract.process(HTTP_JSONL.message(build_single_batch("f", GOOD["gzip"], 0), 0))
    assert isinstance(outcome, Accepted)
    assert (outcome.payload(), outcome.data) == (b'{"value": 3}', {"value": 3})
