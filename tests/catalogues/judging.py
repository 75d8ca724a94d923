"""What becomes of a catalogue of definitions and its test data, and whether that is what others say."""

import json
import sys
import tempfile
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from google.protobuf import json_format
from jsonschema import Draft4Validator
from tests.catalogues import google, iglu

from signalbook.cli import importing
from signalbook.cli.registry import open_registry
from signalbook.documents import SourceDocument
from signalbook.formats import SchemaError, Struct, find
from signalbook.formats.protobuf import ProtobufSchema
from signalbook.messages import Accepted, Contract, Policy, Rejected
from signalbook.pipeline import Job, run
from signalbook.pipeline.job.snapshot import Snapshot

JSON, PROTOBUF = "application/json", "application/protobuf"


def by_protobuf(root: Path) -> Counter[str]:
    """Count the definitions and the usable ones, and the results of events as ProtoJSON and in binary form."""
    contract, counts = _contract(google.by_protobuf(root))
    for name, text, binary in _forms(contract, root):
        (outcome,) = contract.process(google.event(name, JSON, text))
        counts["events"] += 1
        if binary is None:
            counts["refused as the library does"] += isinstance(outcome, Rejected)
            continue
        (again,) = contract.process(google.event(name, PROTOBUF, binary))
        counts["landed as ProtoJSON"] += isinstance(outcome, Accepted)
        counts["landed in binary, with the same data"] += (
            isinstance(again, Accepted) and isinstance(outcome, Accepted) and again.data == outcome.data
        )
    return counts


def _forms(contract: Contract, root: Path) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield the type of each event, its data as ProtoJSON, and its binary form if Google's library accepts it."""
    for event_type, path in google.samples(root):
        schema = _definition(contract, event_type.type).schema_use.schema
        assert isinstance(schema, ProtobufSchema)
        text = path.read_bytes()
        yield event_type.type, text, _binary(schema, text)


def _binary(schema: ProtobufSchema, text: bytes) -> bytes | None:
    """Return the binary form that Google's library makes of ProtoJSON, or None if the library rejects it."""
    try:
        message = json_format.Parse(text, schema.message_type(), descriptor_pool=schema.descriptors.pool)
    except json_format.ParseError:
        return None
    return message.SerializeToString()


def by_pipeline(root: Path) -> Counter[str]:
    """Count the rows and dead letters that a pipeline run writes for the same events."""
    ((_, document),) = google.by_protobuf(root)
    contract, _ = _contract([("proto", document)])
    events = []
    for number, (name, text, binary) in enumerate(_forms(contract, root)):
        event = {"specversion": "1.0", "source": "//google", "type": name}
        events.append({**event, "id": f"{number} json", "datacontenttype": JSON, "data": json.loads(text)})
        if binary is not None:
            sent = {"datacontenttype": PROTOBUF, "data_base64": b64encode(binary).decode()}
            events.append({**event, "id": f"{number} binary", **sent})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "google.xreg.json").write_text(json.dumps(document))
        (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
        inputs, output = (str(folder / "events.jsonl"),), folder / "lake"
        registry = str(folder / "google.xreg.json")
        run(Job(registry=registry, inputs=inputs, output=output, table_format="parquet", master="local[1]"))
        files = [*(folder / "lake" / "tables").rglob("*.parquet")]
        rows = {row["ce_id"]: _payload(row) for file in files for row in _rows(file)}
        lost = [row for file in (folder / "lake" / "dead_letters").rglob("*.parquet") for row in _rows(file)]
    pairs = [(rows.get(f"{number} json"), rows.get(f"{number} binary")) for number in range(len(events))]
    counts = Counter(landed=len(rows), dead_letters=len(lost))
    counts["alike in both forms"] = sum(json_row is not None and json_row == other for json_row, other in pairs)
    return counts


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist(maps_as_pydicts="strict")
    return rows


def _payload(row: dict[str, Any]) -> Any:
    """The columns of a payload. Maps have no order in Protobuf, and neither has what is kept as JSON text."""
    return {name: _unordered(value) for name, value in row.items() if not name.startswith(("ce_", "_"))}


def _unordered(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        return _unordered(json.loads(value))
    if isinstance(value, dict):
        return {name: _unordered(element) for name, element in value.items()}
    return [_unordered(element) for element in value] if isinstance(value, list) else value


def by_json_schema(root: Path) -> Counter[str]:
    """The same by JSON Schemas, which a validator of its own judges by."""
    contract, counts = _contract(google.by_json_schema(root))
    for event_type, path in google.samples(root):
        schema = event_type.json_schema(root)
        if not schema.exists():
            continue
        text = path.read_bytes()
        valid = Draft4Validator(json.loads(schema.read_bytes())).is_valid(json.loads(text))
        (outcome,) = contract.process(google.event(event_type.type, JSON, text))
        counts["events"] += 1
        counts["landed" if valid else "refused"] += isinstance(outcome, Accepted if valid else Rejected)
    return counts


def _contract(documents: Iterable[tuple[str, Any]]) -> tuple[Contract, Counter[str]]:
    contract = Snapshot.of_documents(documents).compile(Policy())
    unusable = contract.verify()
    counts = Counter({"definitions": len(contract.definitions), "usable": len(contract.definitions) - len(unusable)})
    for xid, findings in unusable.items():
        sys.stderr.write(f"{xid}: {'; '.join(map(str, findings))}\n")
    return contract, counts


def _definition(contract: Contract, type: str) -> Any:
    return contract.definitions[f"/messagegroups/{google.GROUP}/messages/{type}"]


def by_iglu(root: Path) -> Counter[str]:
    """Count the schemas that a registry accepts, that can be used, and that have columns."""
    document = iglu.document(root)
    with tempfile.TemporaryDirectory() as folder, open_registry(None, f"sqlite:///{folder}/iglu.db", create=True) as db:
        report = importing.import_source(db, SourceDocument(name="iglu", document=document), ignore=(), to=None)
    counts = Counter(imported=sum(xid.kind.value == "version" for xid in report.created))
    reader = find(iglu.FORMAT)
    assert reader is not None
    for vendor, group in document["schemagroups"].items():
        for name, schema in group["schemas"].items():
            for version, body in schema["versions"].items():
                counts["schemas"] += 1
                try:
                    shape = reader.parse(b64decode(body["schemabase64"]), iglu.FORMAT).shape()
                    counts["usable"] += 1
                    counts["columns"] += isinstance(shape, Struct)
                except SchemaError as error:
                    sys.stderr.write(f"{vendor}/{name}/{version}: {error}\n")
    return counts
