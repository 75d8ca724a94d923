"""Next versions of definitions that exist, for messages that have drifted from them."""

import json
from pathlib import Path

import pytest

from signalbook.documents.reading import read_bytes
from signalbook.pipeline import InferenceJob, propose_versions
from signalbook.pipeline.job import documents, snapshot
from signalbook.pipeline.job.runner import LocalRunner
from signalbook.values import JSONObject

SCHEMA = {
    "type": "object",
    "properties": {"event": {"const": "paid"}, "pay": {"$ref": "#/$defs/pay"}},
    "required": ["event", "pay"],
    "additionalProperties": False,
    "$defs": {"pay": {"type": "string"}},
}
WIDENED = {
    **SCHEMA,
    "properties": {**SCHEMA["properties"], "coupon": {"type": "string"}},  # type: ignore[dict-item]
}
FORMAT = "JsonSchema/draft/2020-12"
VERSION = {"format": FORMAT, "schema": SCHEMA}
WIDENED_VERSION = {"format": FORMAT, "schema": WIDENED}
REFERENCES = {"references": [{"name": "other", "xid": "/schemagroups/g/schemas/other/versions/1"}]}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (VERSION, {"versions": {"1": VERSION, "2": WIDENED_VERSION}}),
        ({"schema": SCHEMA}, {"versions": {"1": {"schema": SCHEMA}, "2": WIDENED_VERSION}}),  # format of the definition
        ({**VERSION, "versions": {}}, {"versions": {"1": VERSION, "2": WIDENED_VERSION}}),
        (
            {**VERSION, **REFERENCES},
            {"versions": {"1": {**VERSION, **REFERENCES}, "2": {**WIDENED_VERSION, **REFERENCES}}},
        ),
        (
            {"versions": {"v1": VERSION}, "meta": {"defaultversionid": "v1", "compatibility": "backward"}},
            {
                "versions": {"v1": VERSION, "2": WIDENED_VERSION},
                "meta": {"defaultversionid": "2", "compatibility": "backward"},
            },
        ),
    ],
)
def test_closed_schema_gets_a_new_member(
    resource: JSONObject, expected: JSONObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"dataschemaformat": FORMAT, "dataschemauri": "/schemagroups/g/schemas/paid"}
    messages = {"paid": message, "opaque": {"envelope": "CloudEvents/1.0"}}
    document: JSONObject = {"messagegroups": {"g": {"messages": messages}}}
    document["schemagroups"] = {"g": {"schemas": {"paid": resource}}}
    definitions, events = tmp_path / "shop.xreg.json", tmp_path / "events.jsonl"
    definitions.write_text(json.dumps(document))
    events.write_text(
        '{"event": "paid", "pay": "card", "coupon": "c"}\n{"event": "paid", "pay": 1}\n{"event": "sent"}\n'
    )
    job = InferenceJob(inputs=(str(events),), group="", input_format="json")
    read: list[Path] = []

    def count_reads(path: Path) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr(documents, "read_bytes", count_reads)
    monkeypatch.setattr(snapshot, "read_bytes", count_reads)
    proposal = propose_versions(job, str(definitions), runner=LocalRunner())
    assert read == [definitions]
    (version,) = proposal.versions
    assert version.rule == resource.get("meta", {}).get("compatibility", "")
    assert [change.path for change in version.changes] == ["/coupon"]
    document["schemagroups"]["g"]["schemas"]["paid"] = expected
    assert proposal.document == document
    # The place behind $ref is not widened, nor the schema by a message with another constant.
    assert (proposal.before.accepted, proposal.after.accepted) == (0, 1)
