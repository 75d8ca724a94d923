"""The drafts' own samples, read where they are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signalbook.cncf.messagecatalog import definitions
from signalbook.cncf.messagecatalog.documents import CatalogGroup, CatalogReader, document_findings, registry_group
from signalbook.documents import repair_json

FIRST = "message-catalog-draft-2022-01-17.md"
V01 = "message-catalog-0.1-2022-01-28.md"


def printed(shared_data: Path, name: str, after: str, before: str = "") -> str:
    """The first JSON object between two passages of a draft's text, damaged as it is."""
    path = shared_data.parent / "seeds" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    text = path.read_text(encoding="utf-8").partition(after)[2]
    text = text[text.index("{\n") :]
    return text.partition(before)[0] if before else text


def test_the_sample_with_two_versions(shared_data: Path) -> None:
    """C-11, L-20: its second version alone is exactly what the draft prints as such."""
    whole = json.loads(printed(shared_data, V01, "example of a message definition version", 'For version "2"'))
    alone = json.loads(printed(shared_data, V01, "the standalone message definition version document", "The API is"))
    reading = CatalogReader()
    posted = reading.definition(whole, "CloudEvents")
    assert [each.number for each in posted] == [1, 2]
    group = CatalogGroup(id="g", document={"format": "CloudEvents"}, posted=tuple(posted))
    assert (reading.findings, list(document_findings(group, "CloudEvents", ()))) == ([], [])
    messages = registry_group(group)["messages"][whole["id"]]["versions"]
    stored = [
        {"messageid": whole["id"], "versionid": number, "createdat": "c", "modifiedat": "m", **message}
        for number, message in messages.items()
    ]
    shown = definitions.render_definition("CloudEvents", stored[1], stored[1])
    assert {name: shown[name] for name in alone} == alone


EXPRESSED = "This definition expressed as a CloudEvents message definition:"
SAMPLES: list[Any] = [
    pytest.param(FIRST, "Message catalog object deleted event:", "```", id="L-1 deleted"),
    pytest.param(FIRST, '"storage object created" event:', "```", id="L-1 created"),
    pytest.param(V01, "3.2.3. Examples", "Fictitious", id="C-25"),
    pytest.param(V01, '"storage object created" event:', "The same as above", id="L-15"),
    pytest.param(V01, "with an inlined JSON Schema describing the payload", "3.3. OASIS", id="L-16"),
    pytest.param(V01, EXPRESSED, "io.cloudevents.messagecatalog.deleted.v1\nThis", id="L-17 updated"),
    pytest.param(V01, '"subject" : "/messagecatalog/5/messagedefinitions/78"', "", id="L-17 deleted"),
]


@pytest.mark.parametrize(("name", "after", "before"), SAMPLES)
def test_samples_are_right_once_they_are_repaired(shared_data: Path, name: str, after: str, before: str) -> None:
    """L-1, L-15 to L-18, C-20, C-21: as ``import --lenient`` reads them."""
    document, _ = repair_json(printed(shared_data, name, after, before), max_depth=64)
    reading = CatalogReader()
    posted = reading.definition(document, "CloudEvents")
    group = CatalogGroup(id="g", document={"format": "CloudEvents"}, posted=tuple(posted))
    assert (reading.findings, list(document_findings(group, "CloudEvents", ()))) == ([], [])
    assert list(registry_group(group)["messages"]) == [document["id"]]
