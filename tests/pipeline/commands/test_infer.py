"""Definitions that are inferred from files."""

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.local import infer, run
from tests.pipeline.s3 import place

from signalbook import pipeline
from signalbook.documents import write_document
from signalbook.pipeline import InferenceJob, Job, PipelineError
from signalbook.pipeline.inference.schemas import RULES_BY_STRICTNESS
from signalbook.pipeline.job.runner import LocalRunner, Work
from signalbook.pipeline.places import StorePlace
from signalbook.pipeline.table_names import build_table_name, find_table_folder

PAYMENTS = ({"kind": "card", "number": "1"}, {"kind": "bank", "iban": "D"})


def stream(count: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        yield {
            "specversion": "1.0",
            "id": f"e{n}",
            "type": f"order.{'placed' if n % 3 else 'paid'}",
            "source": f"/shops/{n % 7}",
            "time": "2026-01-02T03:04:05Z",
            "data": {
                "n": n,
                "state": ["new", "old"][n % 2],
                "note": None if n % 5 else "x",
                "pay": PAYMENTS[n % 2],
                "ref": n if n % 4 else f"r{n}",
            },
        }


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in stream(1200)) + "broken\n")
    return path


@pytest.mark.usefixtures("spark_session")
def test_draft_is_tried_on_the_other_half_of_the_events(
    events: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The events are read from a folder in a store, on Spark."""
    folder, progress_lines, warnings = place("s3proxy", tmp_path, request), list[str](), list[str]()
    assert isinstance(folder, StorePlace)
    (folder / "events.jsonl").write(events.read_bytes())
    (folder / "_SUCCESS").write(b"")
    job = InferenceJob(
        inputs=(str(folder),), group="shop", input_format="cloudevents-jsonl", master="local[2]", storage=folder.storage
    )
    draft = pipeline.infer(job, progress_lines.append, warnings.append)
    assert ["1 file is skipped" in words for words in warnings] == [True]
    assert draft.messages == {"order.placed": 800, "order.paid": 400}
    assert (draft.read, draft.unknown, draft.unreadable) == (1201, 1, 0)
    assert 400 < draft.tried < 800
    assert (draft.reasons, draft.unseen) == ({}, {})
    assert draft.acceptance == 1
    assert progress_lines[0] == "starting Spark"
    assert draft.rules == RULES_BY_STRICTNESS[0].words


def test_a_draft_holds_the_stream_it_came_from(events: Path, tmp_path: Path) -> None:
    """The pipeline lands with it what it was drafted from."""
    draft = infer(InferenceJob(inputs=(str(events),), group="shop"))
    definitions = tmp_path / "shop.xreg.json"
    definitions.write_bytes(write_document(draft.document))
    schema = draft.document["schemagroups"]["shop"]["schemas"]["order.paid"]["versions"]["1"]["schema"]
    assert len(schema["properties"]["pay"]["oneOf"]) == 2
    inputs = (str(events),)
    job = Job(registry=str(definitions), inputs=inputs, output=tmp_path / "lake", table_format="parquet")
    report = run(job)
    assert (report.landed, report.tally.dead_lettered) == (1200, 1)
    table = pq.read_table(
        tmp_path / "lake" / find_table_folder(build_table_name("/messagegroups/shop/messages/order.paid"), "parquet")
    )
    assert {field.name: field.type for field in table.schema.field("pay").type} == dict.fromkeys(
        ("kind", "iban", "number"), pa.string()
    )
    assert set(table["ref"].to_pylist()) >= {"3", '"r0"'}


SHOP = (
    {"event": "signup", "user": 1, "email": "a@b.example"},
    {"event": "purchase", "user": 1, "amount": 1.5, "items": [{"sku": "s"}]},
    {"event": "logout", "user": 1},
)


@pytest.mark.parametrize("by", ["", "event"])
def test_plain_json_lands_by_the_inferred_definitions(by: str, tmp_path: Path) -> None:
    path, warnings = tmp_path / "shop.jsonl", list[str]()
    path.write_text("".join(json.dumps(SHOP[n % 3]) + "\n" for n in range(300)))
    draft = infer(InferenceJob(inputs=(str(path),), group="shop", by=by), notify=warnings.append)
    assert draft.messages == {"signup": 100, "purchase": 100, "logout": 100}
    assert draft.acceptance == 1
    assert warnings[0] == "the input format is json"
    assert ("predict" in " ".join(warnings)) == (not by)
    definitions = tmp_path / "shop.xreg.json"
    definitions.write_bytes(write_document(draft.document))
    with path.open("a") as file:
        file.write('{"event": "refund", "user": 1}\n{"event": "logout"}\n{"event":\n')
    job = Job(
        registry=str(definitions), inputs=(str(path),), output=tmp_path / "lake", table_format="parquet",
        input_format="json",
    )  # fmt: skip
    report = run(job)
    assert report.landed == 300
    assert report.tally.reasons == {"unknown_kind": 1, "schema_violation": 1, "decode_error": 1}
    table = pq.read_table(
        tmp_path / "lake" / find_table_folder(build_table_name("/messagegroups/shop/messages/purchase"), "parquet")
    )
    assert table["amount"].to_pylist() == [1.5] * 100


def test_progress_tells_how_much_of_the_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()

    class WaitingRunner(LocalRunner):
        def run(self, count: int, work: Work, size: int) -> list[bytes]:
            results = LocalRunner().run(count, work, size)
            assert shown.wait(60)
            return results

    def progress(words: str) -> None:
        if words.endswith(": 300, 100% of the input"):
            shown.set()

    monkeypatch.setattr("signalbook.pipeline.job.tasks._EVERY", 0.0)
    path = tmp_path / "shop.jsonl"
    path.write_text("".join(json.dumps(SHOP[n % 3]) + "\n" for n in range(300)))
    job = InferenceJob(inputs=(str(path),), group="shop")
    assert pipeline.infer(job, progress, runner=WaitingRunner()).read == 300


def test_one_shape_is_one_kind_named_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "readings.2026.json.gz"
    path.write_bytes(gzip.compress(json.dumps([{"sensor": n % 7, "value": n / 2} for n in range(50)]).encode()))
    assert infer(InferenceJob(inputs=(str(path),), group="g")).messages == {"readings": 50}


def test_less_is_demanded_of_what_varies(tmp_path: Path) -> None:
    """Members that few messages lack cannot be required: the rules give way until enough is accepted."""
    events = [{**event, "data": {f"m{n}": 1 for n in range(8)}} for event in stream(400)]
    for number, event in enumerate(events):
        if number % 9 == 4:
            event["data"] = {"m0": 1} if number > 200 else event["data"]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    draft = infer(InferenceJob(inputs=(str(path),), group="shop", accept=1.0))
    assert draft.acceptance == 1.0


def test_limit_bounds_the_read_messages(events: Path) -> None:
    draft = infer(InferenceJob(inputs=(str(events),), group="shop", limit=100))
    assert draft.read == 100


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"group": "a/b"}, "the group 'a/b'"),
        ({"accept": 2.0}, "accept is a share"),
        ({"limit": -1}, "limit is a number"),
        ({"inputs": ("nowhere",)}, "the input nowhere is not there"),
        ({"input_format": "pigeons"}, "pigeons"),
    ],
)
def test_invalid_inference_is_rejected(events: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        infer(InferenceJob(**{"inputs": (str(events),), "group": "shop", **more}))


def test_a_stream_of_no_kind_is_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("{broken\n" * 3)
    with pytest.raises(PipelineError, match="3 are broken or something else"):
        infer(InferenceJob(inputs=(str(path),), group="shop"))
    path.write_text("broken\n" * 3)
    with pytest.raises(PipelineError, match="no line begins with a JSON object"):
        infer(InferenceJob(inputs=(str(path),), group="shop"))
